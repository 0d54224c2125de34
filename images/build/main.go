// Command build turns the programs under images/ into one OCI image layout, a
// tar archive that `setpoint image import`, `ctr image import` and the first
// start of the carried container runtime all read.
//
//	build -pause FILE -demo FILE -o images.tar
//
// The images are setpoint.local/pause:1, and setpoint.local/demo:1 and :2,
// which are the same program under two versions, for a rollout to show.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
)

func main() {
	pause := flag.String("pause", "", "the pause `program`")
	demo := flag.String("demo", "", "the demo `program`")
	arch := flag.String("arch", runtime.GOARCH, "the programs' `architecture`")
	out := flag.String("o", "", "where to write the image `archive`")
	flag.Parse()
	if *pause == "" || *demo == "" || *out == "" || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	if err := build(*arch, *pause, *demo, *out); err != nil {
		fmt.Fprintln(os.Stderr, "build:", err)
		os.Exit(1)
	}
}

func build(arch, pause, demo, out string) error {
	pauseProgram, err := os.ReadFile(pause)
	if err != nil {
		return err
	}
	demoProgram, err := os.ReadFile(demo)
	if err != nil {
		return err
	}
	l := newLayout(arch)
	if err := l.add("setpoint.local/pause:1", "/pause", pauseProgram, runConfig{User: "65535:65535"}); err != nil {
		return err
	}
	for _, version := range []string{"1", "2"} {
		err := l.add("setpoint.local/demo:"+version, "/demo", demoProgram, runConfig{
			User:         "65532:65532",
			ExposedPorts: map[string]struct{}{"8080/tcp": {}},
			Env:          []string{"PATH=/", "DEMO_VERSION=" + version},
			WorkingDir:   "/",
		})
		if err != nil {
			return err
		}
	}
	// The archive appears whole or not at all: a make that was interrupted
	// must not find half of one.
	file, err := os.Create(out + ".tmp")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	if err := l.write(file); err != nil {
		file.Close()
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	return os.Rename(file.Name(), out)
}
