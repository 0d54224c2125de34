package proxy

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/setpoint-project/setpoint/internal/network"
	"github.com/setpoint-project/setpoint/internal/network/networktest"
)

// BenchmarkChange moves one of a thousand services to another pod: what a change
// costs in one family. A service of both pays it twice.
func BenchmarkChange(b *testing.B) {
	for _, f := range []network.Family{network.IPv4, network.IPv6} {
		b.Run(f.String(), func(b *testing.B) {
			m := networktest.New(b)
			table, err := NewTable(m.Host, f)
			m.Must(err)
			defer table.Close()
			w := &world{family: f}
			all := newProgram()
			for i := range 1000 {
				all.lead(fmt.Sprintf("svc-%d", i), Chain{Backends: w.ports("10.42.0.2:8080", "10.42.0.3:8080")}, w.front(fmt.Sprintf("10.43.%d.%d", i/250, i%250+1), unix.IPPROTO_TCP, 80))
			}
			m.Must(table.Replace(all, m.Host.ServiceCIDRs))
			of := func(pod string) Program {
				return program("svc-0", Chain{Backends: w.ports(pod)}, w.front("10.43.0.1", unix.IPPROTO_TCP, 80))
			}
			programs := []Program{of("10.42.0.2:8080"), of("10.42.0.3:8080")}
			i := 0
			m.Must(table.Change(program("svc-0", all.Chains["svc-0"], w.front("10.43.0.1", unix.IPPROTO_TCP, 80)), programs[0]))
			for b.Loop() {
				m.Must(table.Change(programs[i%2], programs[(i+1)%2]))
				i++
			}
		})
	}
}
