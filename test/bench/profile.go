package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"
)

// profileFolder is where a figure's profiles go.
type profileFolder struct {
	dir, figure string
	n           int
	busy        atomic.Bool // a CPU profile is being taken; there can be one
}

func (p *profileFolder) file(kind string) string {
	p.n++
	return filepath.Join(p.dir, fmt.Sprintf("%s-%02d.%s", p.figure, p.n, kind))
}

// cpuProfile takes a CPU profile of the server from now on and returns how to
// wait for its end. It may last longer than what is measured: a server that
// does nothing adds nothing to it. While one is taken, another is not.
func (c *cluster) cpuProfile(ctx context.Context, d time.Duration) (wait func()) {
	if c.profiles == nil || c.profiles.busy.Swap(true) {
		return func() {}
	}
	file, done := c.profiles.file("cpu"), make(chan struct{})
	go func() {
		defer close(done)
		defer c.profiles.busy.Store(false)
		c.fetch(ctx, fmt.Sprintf("/debug/pprof/profile?seconds=%d", int(d.Seconds())), file)
	}()
	return func() { <-done }
}

// heapProfile takes one of what is in use after a collection.
func (c *cluster) heapProfile(ctx context.Context) error {
	if c.profiles == nil {
		return nil
	}
	return c.fetch(ctx, "/debug/pprof/heap?gc=1", c.profiles.file("heap"))
}

func (c *cluster) fetch(ctx context.Context, path, file string) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer f.Close()
	err = c.do(ctx, 0, http.MethodGet, path, "", nil, func(r io.Reader) error {
		_, err := io.Copy(f, r)
		return err
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
	}
	return err
}
