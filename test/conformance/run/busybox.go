package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// busybox is an image of busybox alone, as upstream's is.
func busybox(k *kitchen) (runs, [][]byte, error) {
	program, err := buildBusybox(k.cache)
	if err != nil {
		return runs{}, nil, err
	}
	layer, err := busyboxLayer(program)
	return runs{Cmd: []string{"sh"}}, [][]byte{layer}, err
}

// busyboxLayer is a layer of a static busybox under all of its names.
func busyboxLayer(program string) ([]byte, error) {
	content, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	applets, err := output(program, "--list")
	if err != nil {
		return nil, err
	}
	const at = "/bin/busybox"
	all := []file{{path: at, mode: 0o755, content: content}}
	for name := range strings.FieldsSeq(applets) {
		if name != path.Base(at) {
			all = append(all, file{path: "/bin/" + name, link: path.Base(at)})
		}
	}
	for _, dir := range []string{"/dev", "/etc", "/home", "/proc", "/root", "/run", "/sys", "/var"} {
		all = append(all, file{path: dir, mode: fs.ModeDir | 0o755})
	}
	all = append(all, file{path: "/tmp", mode: fs.ModeDir | fs.ModeSticky | 0o777})
	for name, content := range accounts {
		all = append(all, file{path: "/etc/" + name, mode: 0o644, content: []byte(content)})
	}
	return layerOf(all...)
}

// buildBusybox builds a static busybox from the source that Debian's archive
// holds, as its authors released it, and returns the program's path. Debian's
// own is changed: its shell keeps variables to itself whose names no shell
// knows (a key of a ConfigMap, say), and a test wants to see them handed on.
func buildBusybox(cache string) (string, error) {
	archive, err := debianSource(cache, "busybox")
	if err != nil {
		return "", err
	}
	name, _, _ := strings.Cut(filepath.Base(archive), ".orig.")
	out := filepath.Join(cache, "bin", name)
	if _, err := os.Stat(out); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return out, err
	}
	tree, err := os.MkdirTemp(cache, name)
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tree)
	if err := run("tar", "-xf", archive, "-C", tree, "--strip-components", "1"); err != nil {
		return "", err
	}
	if err := run("make", "-s", "-C", tree, "defconfig"); err != nil {
		return "", err
	}
	config := filepath.Join(tree, ".config")
	content, err := os.ReadFile(config)
	if err != nil {
		return "", err
	}
	static := strings.Replace(string(content), "# CONFIG_STATIC is not set", "CONFIG_STATIC=y", 1)
	if err := os.WriteFile(config, []byte(static), 0o644); err != nil {
		return "", err
	}
	if err := run("nice", "-n", "19", "make", "-s", "-j", "2", "-C", tree, "busybox"); err != nil {
		return "", err
	}
	return out, os.Rename(filepath.Join(tree, "busybox"), out)
}

// debianSource downloads the source of a Debian package from where this machine
// gets its packages, and returns the path of its authors' archive.
func debianSource(cache, pkg string) (string, error) {
	dir := filepath.Join(cache, "source")
	parts := filepath.Join(dir, "sources.list.d")
	for _, dir := range []string{parts, filepath.Join(dir, "lists/partial")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return "", err
		}
	}
	lists, err := filepath.Glob("/etc/apt/sources.list.d/*")
	if err != nil {
		return "", err
	}
	for _, list := range append(lists, "/etc/apt/sources.list") {
		content, err := os.ReadFile(list)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			name := strings.TrimPrefix(filepath.Base(list), "sources.") // apt wants an ending, and has one for each form
			err = os.WriteFile(filepath.Join(parts, "own."+name), sourcesToo(content), 0o644)
		}
		if err != nil {
			return "", err
		}
	}
	apt := func(args ...string) error {
		cmd := exec.Command("apt-get", append([]string{"-qq", "-o", "Dir::Etc::sourcelist=/dev/null", "-o", "Dir::Etc::sourceparts=" + parts,
			"-o", "Dir::State::lists=" + filepath.Join(dir, "lists"), "-o", "APT::Sandbox::User=root"}, args...)...)
		cmd.Dir, cmd.Stdout, cmd.Stderr = dir, os.Stderr, os.Stderr
		return cmd.Run()
	}
	if err := apt("update"); err != nil {
		return "", fmt.Errorf("apt-get update: %w", err)
	}
	if err := apt("source", "--download-only", pkg); err != nil {
		return "", fmt.Errorf("apt-get source %s: %w", pkg, err)
	}
	archives, err := filepath.Glob(filepath.Join(dir, pkg+"_*.orig.tar.*[^c]")) // but for a signature, .asc
	if err != nil || len(archives) == 0 {
		return "", errors.Join(err, fmt.Errorf("the source of %s has no archive of its authors", pkg))
	}
	return archives[len(archives)-1], nil
}

var (
	oneLine = regexp.MustCompile(`(?m)^deb\s`)
	deb822  = regexp.MustCompile(`(?m)^Types:.*$`)
)

// sourcesToo makes a list of places to get packages from one of places to get
// their source from.
func sourcesToo(list []byte) []byte {
	return deb822.ReplaceAll(oneLine.ReplaceAll(list, []byte("deb-src ")), []byte("Types: deb-src"))
}
