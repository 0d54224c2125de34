package main

import (
	"errors"
	"fmt"
)

// The small part is what CI runs of the suite: the conformance tests of those
// of its packages that cost little to build (small/suite says which), in a
// module of its own that requires what setpoint's does at the same versions, so
// that most of what it is built from has been built for setpoint. Its images
// need nothing but this machine's busybox.

// smallSkip leaves out tests that bear no others beside them and take a minute
// each, or five.
const smallSkip = `SchedulerPreemption|exists conflict between pods with same hostPort`

var smallRecipes = map[string]func(*kitchen) (runs, [][]byte, error){
	"agnhost": func(k *kitchen) (runs, [][]byte, error) {
		layer, err := k.program("./agnhost", "/agnhost")
		return runs{Entrypoint: []string{"/agnhost"}, Cmd: []string{"pause"}, WorkingDir: "/"}, [][]byte{k.base, layer}, err
	},
	"busybox": func(k *kitchen) (runs, [][]byte, error) {
		return runs{Cmd: []string{"sh"}}, [][]byte{k.base}, nil
	},
	"pause": recipes["pause"],
}

func busyboxBase(*kitchen) ([]byte, error) { return busyboxLayer("/bin/busybox") }

// allPassed is an error unless each of these tests was run and passed.
func (r *results) allPassed(tests []test) error {
	passed := map[string]bool{}
	for _, o := range r.Tests {
		passed[o.Test] = o.State == "passed"
	}
	var errs error
	for _, t := range tests {
		if !passed[t.name] {
			errs = errors.Join(errs, fmt.Errorf("not passed: %s", t.name))
		}
	}
	return errs
}
