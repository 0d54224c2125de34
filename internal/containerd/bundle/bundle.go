// Package bundle holds the container runtime that the setpoint binary carries:
// containerd, its runc shim, runc, CNI plugins, kubectl, the DNS server and the
// images pause and demo.
//
// `make bundle` packs it; without that the package still compiles, and Open
// says how to get one. See the package archive for the format. Embedded data
// stays in the binary's file until it is touched, so carrying it costs a
// process that does not unpack it no memory.
package bundle

import (
	"embed"
	"errors"
	"io"
	"io/fs"
	"sync"

	"github.com/setpoint-project/setpoint/internal/containerd/bundle/archive"
)

//go:embed packed
var packed embed.FS

// ErrAbsent says that this binary carries no container runtime.
var ErrAbsent = errors.New("this setpoint was built without the container runtime: build it with `make build`, or name a runtime of this machine with --container-runtime-endpoint")

// Bundle is an opened bundle. It may be used by several goroutines.
type Bundle struct {
	*archive.Contents
	Archive io.ReaderAt
}

// Open opens the bundle of this binary, or returns ErrAbsent.
func Open() (*Bundle, error) { return open() }

var open = sync.OnceValues(func() (*Bundle, error) {
	sub, err := fs.Sub(packed, "packed")
	if err != nil {
		return nil, err
	}
	return openFS(sub)
})

func openFS(fsys fs.FS) (*Bundle, error) {
	table, err := fs.ReadFile(fsys, "contents.json")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrAbsent
	}
	if err != nil {
		return nil, err
	}
	contents, err := archive.ParseContents(table)
	if err != nil {
		return nil, err
	}
	file, err := fsys.Open("bundle.tar.zst")
	if err != nil {
		return nil, ErrAbsent
	}
	// Read in place: fs.ReadFile would copy the whole of it to the heap.
	at, ok := file.(io.ReaderAt)
	if !ok {
		return nil, errors.New("bundle: the file system has no random access")
	}
	return &Bundle{Contents: contents, Archive: at}, nil
}
