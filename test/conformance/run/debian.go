package main

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// unwanted are packages that others depend on only to be set up by dpkg, which
// never happens here: nothing runs but what an image names.
var unwanted = []string{"debconf_", "dpkg_", "init-system-helpers_", "install-info_", "libperl", "perl-", "perl_", "perl-modules", "tar_", "usrmerge_"}

// debianTree unpacks Debian packages with all that they need below dir, which
// must not exist yet.
func debianTree(dir, cache string, packages ...string) error {
	debs := filepath.Join(cache, "debs")
	if err := os.MkdirAll(filepath.Join(debs, "partial"), 0o755); err != nil {
		return err
	}
	// A machine that has nothing installed needs everything.
	status := filepath.Join(cache, "status")
	if err := os.WriteFile(status, nil, 0o644); err != nil {
		return err
	}
	apt := func(archives, what string) []string {
		return append([]string{"-o", "Dir::State::status=" + status, "-o", "Dir::Cache::archives=" + archives, "-o", "APT::Install-Recommends=false",
			"-o", "APT::Sandbox::User=root", "-o", "Debug::NoLocking=1", "-qq", "-y", what, "install"}, packages...)
	}
	// What was downloaded before is not listed: the list is asked for as if
	// nothing had been.
	none := filepath.Join(cache, "none")
	if err := os.MkdirAll(filepath.Join(none, "partial"), 0o755); err != nil {
		return err
	}
	list, err := output("apt-get", apt(none, "--print-uris")...)
	if err != nil {
		return err
	}
	if err := run("apt-get", apt(debs, "--download-only")...); err != nil {
		return err
	}
	made := dir + ".new"
	if err := os.RemoveAll(made); err != nil {
		return err
	}
	// Programs lie in /usr; the old places are links, as on any Debian.
	for _, name := range []string{"bin", "sbin", "lib", "lib64"} {
		if err := os.MkdirAll(filepath.Join(made, "usr", name), 0o755); err != nil {
			return err
		}
		if err := os.Symlink("usr/"+name, filepath.Join(made, name)); err != nil {
			return err
		}
	}
	for line := range strings.Lines(list) {
		// 'URI' FILE SIZE HASH
		fields := strings.Fields(line)
		if len(fields) < 2 || !strings.HasPrefix(line, "'") || slices.ContainsFunc(unwanted, func(p string) bool { return strings.HasPrefix(fields[1], p) }) {
			continue
		}
		// tar keeps the links above where a package brings a folder.
		script := fmt.Sprintf("dpkg-deb --fsys-tarfile %q | tar -x --keep-directory-symlink -C %q", filepath.Join(debs, fields[1]), made)
		if err := run("sh", "-c", script); err != nil {
			return err
		}
	}
	for _, dir := range []string{"usr/share/doc", "usr/share/man", "usr/share/info", "usr/share/locale", "usr/share/i18n", "usr/lib/x86_64-linux-gnu/gconv"} {
		if err := os.RemoveAll(filepath.Join(made, dir)); err != nil {
			return err
		}
	}
	return os.Rename(made, dir)
}

// busyboxLinks gives a tree busybox's name for every program that it lacks.
// Tests that were written for an image of busybox alone call programs in /bin
// that Debian has in /sbin.
func busyboxLinks(dir string) error {
	applets, err := output(filepath.Join(dir, "usr/bin/busybox"), "--list")
	if err != nil {
		return err
	}
	there := func(name string) bool {
		_, err := os.Lstat(filepath.Join(dir, name))
		return err == nil
	}
	for name := range strings.FieldsSeq(applets) {
		to := "/bin/busybox"
		switch {
		case there("usr/bin/" + name):
			continue
		case there("usr/sbin/" + name):
			to = "../sbin/" + name
		}
		if err := os.Symlink(to, filepath.Join(dir, "usr/bin", name)); err != nil {
			return err
		}
	}
	return nil
}

// output runs a program and returns what it printed.
func output(name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return string(out), nil
}

// run runs a program that shows what it has to say.
func run(name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// files calls f for every entry below dir, parents first, in a fixed order.
func files(dir string, f func(path, name string, info fs.FileInfo) error) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		return f(path, name, info)
	})
}
