// Package mounts reads the kernel's table of what is mounted where, as this
// process sees it.
//
// Use: Table lists all; Below those at and below a folder, At whether something
// is mounted on one.
//
// The kernel knows mounts by their real paths and writes some bytes of them as
// octal numbers, see proc_pid_mountinfo(5). Whoever compares its text with the
// path of a folder that he was given misses mounts below a link, or in a folder
// with a space in its name, and deletes what lies in them: so only this package
// reads the table.
//
// Concurrency: no state. Failure: an unreadable table is an error, never an empty
// one.
package mounts

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Point is a mount.
type Point struct {
	Path   string // the real path where it is mounted
	FSType string
	Shared bool // mounts below it are seen by others
}

// Table lists the mounts, the oldest first.
func Table() ([]Point, error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	return parse(string(text)), nil
}

// Below lists the mounts at and below a folder, the newest first: in this order
// they can be unmounted.
func Below(dir string) ([]Point, error) {
	all, err := Table()
	if err != nil {
		return nil, err
	}
	dir, err = realPath(dir)
	if err != nil {
		return nil, err
	}
	var out []Point
	for _, p := range slices.Backward(all) {
		if p.Path == dir || dir == "/" || strings.HasPrefix(p.Path, dir+"/") {
			out = append(out, p)
		}
	}
	return out, nil
}

// At is the topmost mount on a folder, if there is any.
func At(dir string) (p Point, ok bool, err error) {
	below, err := Below(dir)
	if err != nil {
		return Point{}, false, err
	}
	if dir, err = realPath(dir); err != nil {
		return Point{}, false, err
	}
	for _, p := range below {
		if p.Path == dir {
			return p, true, nil
		}
	}
	return Point{}, false, nil
}

// realPath is the absolute path of a folder with the links in it followed. The folder
// need not be there, and what is mounted on it is not asked: that may be a file
// system whose server has died.
func realPath(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	for range 255 { // as many links as the kernel would never follow
		parent, err := filepath.EvalSymlinks(filepath.Dir(dir))
		if err != nil {
			return dir, nil // nothing is mounted below what is not there
		}
		dir = filepath.Join(parent, filepath.Base(dir))
		to, err := os.Readlink(dir)
		if err != nil {
			return dir, nil // no link
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(parent, to)
		}
		dir = filepath.Clean(to)
	}
	return dir, nil
}

// parse reads the format of /proc/self/mountinfo.
func parse(text string) []Point {
	var out []Point
	for line := range strings.Lines(text) {
		before, after, ok := strings.Cut(line, " - ")
		fields, types := strings.Fields(before), strings.Fields(after)
		if !ok || len(fields) < 6 || len(types) == 0 {
			continue
		}
		p := Point{Path: unescape(fields[4]), FSType: types[0]}
		for _, option := range fields[6:] {
			p.Shared = p.Shared || strings.HasPrefix(option, "shared:")
		}
		out = append(out, p)
	}
	return out
}

// unescape undoes the octal escapes of spaces, tabs, newlines and backslashes.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
