// Command pack packs files into the bundle that the setpoint binary carries.
//
//	pack -o FOLDER NAME=FILE...
//
// writes FOLDER/bundle.tar.zst and FOLDER/contents.json, in the order given.
// FILE is packed under NAME with its own permission bits.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/setpoint-project/setpoint/internal/containerd/bundle/archive"
)

func main() {
	out := flag.String("o", "", "the `folder` to write to")
	flag.Parse()
	if *out == "" || flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	if err := pack(*out, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "pack:", err)
		os.Exit(1)
	}
}

func pack(folder string, files []string) error {
	temporary := filepath.Join(folder, "bundle.tar.zst.tmp")
	file, err := os.Create(temporary)
	if err != nil {
		return err
	}
	defer os.Remove(temporary)
	defer file.Close()
	w, err := archive.NewWriter(file)
	if err != nil {
		return err
	}
	for _, f := range files {
		name, source, ok := strings.Cut(f, "=")
		if !ok {
			return fmt.Errorf("%q: want NAME=FILE", f)
		}
		info, err := os.Stat(source)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(source)
		if err != nil {
			return err
		}
		if err := w.Add(name, info.Mode(), content); err != nil {
			return err
		}
	}
	contents, err := w.Close()
	if err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	// The table of contents goes first and comes last: an archive without one
	// counts as absent, so an interrupted pack is never taken for a whole one.
	table := filepath.Join(folder, "contents.json")
	if err := os.Remove(table); err != nil && !os.IsNotExist(err) {
		return err
	}
	if err := os.Rename(temporary, filepath.Join(folder, "bundle.tar.zst")); err != nil {
		return err
	}
	if err := os.WriteFile(table+".tmp", contents, 0o644); err != nil {
		return err
	}
	return os.Rename(table+".tmp", table)
}
