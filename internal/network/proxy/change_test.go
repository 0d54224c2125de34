package proxy

import (
	"errors"
	"net/netip"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/setpoint-project/setpoint/internal/network"
)

// rounds of changes are enough to see one or two connections refused when the kernel
// meets a change in the middle of the rules; see baseChains. It takes its time
// for each.
const rounds = 2000

// TestChangeRefusesNobody changes the backends of a service again and again
// while others connect to it: no packet may meet a moment at which the
// service leads nowhere.
func TestChangeRefusesNobody(t *testing.T) { forEach(t, testChangeRefusesNobody) }

func testChangeRefusesNobody(t *testing.T, f network.Family) {
	w := newWorld(t, f)
	w.pod("a", "10.42.0.2")
	w.pod("b", "10.42.0.3")
	w.pod("c", "10.42.0.4")
	// Aborted connections are forgotten soon, or the kernel's table fills.
	w.Must(os.WriteFile("/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_close", []byte("1"), 0))
	table := w.table()
	front := w.front("10.43.0.10", unix.IPPROTO_TCP, 80)
	programs := []Program{
		program("svc-web", Chain{Backends: w.ports("10.42.0.2:8080", "10.42.0.3:8080", "10.42.0.4:8080")}, front),
		program("svc-web", Chain{Backends: w.ports("10.42.0.2:8080", "10.42.0.4:8080")}, front),
	}
	w.Must(table.Replace(programs[0], w.Host.ServiceCIDRs))
	w.Must(w.Host.RouteServices(w.Host.ServiceCIDRs))

	for pod, addr := range map[string]string{"a": "10.42.0.2:8080", "b": "10.42.0.3:8080", "c": "10.42.0.4:8080"} {
		w.expect("", "tcp", addr, pod) // its neighbours know it now
	}

	var stop atomic.Bool
	var connected, refused atomic.Int64
	failed := make(chan error, 2)
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			runtime.LockOSThread() // never unlocked: its namespace is the test's
			if err := netns.Set(w.Self); err != nil {
				failed <- err
				return
			}
			for !stop.Load() {
				switch err := connect(front.Addr, 80); {
				case err == nil:
					connected.Add(1)
				case errors.Is(err, unix.ECONNREFUSED):
					refused.Add(1)
				default:
					failed <- err
					return
				}
			}
		})
	}
	began := time.Now()
	for i := range rounds {
		w.Must(table.Change(programs[i%2], programs[(i+1)%2]))
	}
	stop.Store(true)
	wg.Wait()
	t.Logf("%d changes, %d connections, %d refused in %v", rounds, connected.Load(), refused.Load(), time.Since(began))
	select {
	case err := <-failed:
		t.Fatal(err)
	default:
	}
	if connected.Load() < rounds {
		t.Errorf("%d connections are too few to meet a change", connected.Load())
	}
	if refused.Load() > 0 {
		t.Errorf("%d connections refused", refused.Load())
	}
}

// connect opens a TCP connection and aborts it.
func connect(to netip.Addr, port int) error {
	family, at := unix.AF_INET, unix.Sockaddr(nil)
	if to.Is4() {
		at = &unix.SockaddrInet4{Addr: to.As4(), Port: port}
	} else {
		family, at = unix.AF_INET6, &unix.SockaddrInet6{Addr: to.As16(), Port: port}
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}); err != nil {
		return err
	}
	return unix.Connect(fd, at)
}
