package envtest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// FillOptions say what the folder's programs do.
type FillOptions struct {
	// Setpoint is the path of the program that the launchers start.
	Setpoint string
	// Kubectl is the path of the kubectl that the folder links to; empty: none.
	Kubectl string
	// WithControllers lets every API server turn the loops as well.
	WithControllers bool
}

// Fill makes dir a folder of assets. It may be filled again, also while
// programs from it run: each file is replaced in one step.
func Fill(dir string, o FillOptions) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	setpoint, err := filepath.Abs(o.Setpoint)
	if err != nil {
		return err
	}
	server := "kube-apiserver"
	if o.WithControllers {
		server += " --with-controllers"
	}
	for name, command := range map[string]string{"kube-apiserver": server, "etcd": "etcd"} {
		// exec: the process that envtest signals must be the server itself.
		script := fmt.Sprintf("#!/bin/sh\nexec %s envtest %s \"$@\"\n", quote(setpoint), command)
		err := replace(filepath.Join(dir, name), func(to string) error { return os.WriteFile(to, []byte(script), 0o755) })
		if err != nil {
			return err
		}
	}
	if o.Kubectl == "" {
		return nil
	}
	kubectl, err := filepath.Abs(o.Kubectl)
	if err != nil {
		return err
	}
	return replace(filepath.Join(dir, "kubectl"), func(to string) error { return os.Symlink(kubectl, to) })
}

// replace lets write make a file beside path, and puts it in path's place.
func replace(path string, write func(to string) error) error {
	beside, err := os.MkdirTemp(filepath.Dir(path), ".new-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(beside)
	made := filepath.Join(beside, filepath.Base(path))
	if err := write(made); err != nil {
		return err
	}
	return os.Rename(made, path)
}

// quote makes s one word of a shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
