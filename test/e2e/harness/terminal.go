package harness

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Terminal is a pseudo-terminal with a kubectl on it, as a person would have
// it.
type Terminal struct {
	t      testing.TB
	master *os.File
	done   chan error // the kubectl's end, when all it said was read

	mu   sync.Mutex
	said strings.Builder // guarded by mu
}

// Terminal starts a kubectl on a terminal of so many rows and columns. It ends
// with the test.
func (c *Cluster) Terminal(rows, columns uint16, args ...string) *Terminal {
	c.T.Helper()
	master, slave := openTerminal(c.T)
	defer slave.Close()
	t := &Terminal{t: c.T, master: master, done: make(chan error, 1)}
	t.Resize(rows, columns)
	ctx, cancel := context.WithCancel(context.Background())
	cmd := c.Command(ctx, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	// The terminal is its own, so that it is told when the size changes.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	must(c.T, cmd.Start())
	read := make(chan struct{})
	go func() {
		t.read() // until nobody has the other end any more
		close(read)
	}()
	go func() {
		err := cmd.Wait()
		<-read
		t.done <- err
	}()
	c.T.Cleanup(func() {
		cancel()
		master.Close()
	})
	return t
}

func openTerminal(t testing.TB) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	must(t, err)
	fd := int(master.Fd())
	must(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	must(t, err)
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	must(t, err)
	return master, slave
}

func (t *Terminal) read() {
	buf := make([]byte, 4096)
	for {
		n, err := t.master.Read(buf)
		t.mu.Lock()
		t.said.Write(buf[:n])
		t.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// Resize makes it another size.
func (t *Terminal) Resize(rows, columns uint16) {
	t.t.Helper()
	must(t.t, unix.IoctlSetWinsize(int(t.master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns}))
}

// Type types.
func (t *Terminal) Type(text string) {
	t.t.Helper()
	_, err := t.master.WriteString(text)
	must(t.t, err)
}

// Said is all that was shown so far.
func (t *Terminal) Said() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.said.String()
}

// Expect waits until text was shown.
func (t *Terminal) Expect(text string) {
	t.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		if strings.Contains(t.Said(), text) {
			return
		}
		if time.Now().After(end) {
			t.t.Fatalf("the terminal does not show %q:\n%s", text, t.Said())
		}
	}
}

// Wait waits until the kubectl ends.
func (t *Terminal) Wait() error {
	t.t.Helper()
	select {
	case err := <-t.done:
		return err
	case <-time.After(patience):
		t.t.Fatalf("kubectl does not end:\n%s", t.Said())
		return nil
	}
}
