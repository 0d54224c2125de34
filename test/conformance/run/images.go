package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// recipes say how the images of the suite's tests are made, by the last part
// of their name without the tag. What is not here, no conformance test starts
// (or only to see that it cannot be pulled).
//
// The base of most is one Debian tree with a shell and the tools that tests
// call by name.
var recipes = map[string]func(*kitchen) (runs, [][]byte, error){
	"agnhost":  agnhost,
	"kitten":   pictured("kitten"),
	"nautilus": pictured("nautilus"),
	"busybox":  busybox,
	"glibc-dns-testing": func(k *kitchen) (runs, [][]byte, error) {
		return runs{Cmd: []string{"bash"}}, [][]byte{k.base}, nil
	},
	"nonroot": func(k *kitchen) (runs, [][]byte, error) {
		return runs{User: "1234", Cmd: []string{"sh"}}, [][]byte{k.base}, nil
	},
	"nonewprivs": func(k *kitchen) (runs, [][]byte, error) {
		layer, err := k.program("k8s.io/kubernetes/test/images/agnhost", "/usr/local/bin/nnp-agnhost",
			file{path: "/usr/local/bin/nnp", mode: fs.ModeSetuid | 0o755, content: []byte("#!/bin/sh\nexec /usr/local/bin/nnp-agnhost nonewprivs\n")})
		return runs{Cmd: []string{"nnp"}}, [][]byte{k.base, layer}, err
	},
	"pause": func(k *kitchen) (runs, [][]byte, error) {
		program, err := os.ReadFile(k.pause)
		if err != nil {
			return runs{}, nil, err
		}
		layer, err := layerOf(file{path: "/pause", mode: 0o755, content: program})
		return runs{User: "65535:65535", Entrypoint: []string{"/pause"}}, [][]byte{layer}, err
	},
	"nginx": func(k *kitchen) (runs, [][]byte, error) {
		layer, err := layerOf(file{path: "/var/lib/nginx", mode: fs.ModeDir | 0o755}, file{path: "/var/log/nginx", mode: fs.ModeDir | 0o755},
			file{path: "/var/www/html", mode: fs.ModeDir | 0o755},
			file{path: "/var/www/html/index.html", mode: 0o644, content: []byte("<html><body><h1>Welcome to nginx!</h1></body></html>\n")},
			file{path: "/etc/nginx/nginx.conf", mode: 0o644, content: []byte("user root;\nevents {}\nhttp { server { listen 80; root /var/www/html; } }\n")})
		return runs{Cmd: []string{"nginx", "-g", "daemon off;"}}, [][]byte{k.base, layer}, err
	},
	"etcd": func(k *kitchen) (runs, [][]byte, error) {
		layer, err := k.program("go.etcd.io/etcd/server/v3", "/usr/local/bin/etcd")
		return runs{Cmd: []string{"etcd"}}, [][]byte{k.base, layer}, err
	},
	"sample-apiserver": func(k *kitchen) (runs, [][]byte, error) {
		layer, err := k.program("k8s.io/sample-apiserver", "/sample-apiserver")
		return runs{Entrypoint: []string{"/sample-apiserver"}}, [][]byte{k.base, layer}, err
	},
	"resource-consumer": func(k *kitchen) (runs, [][]byte, error) {
		layer, err := k.program("k8s.io/kubernetes/test/images/resource-consumer", "/consumer")
		return runs{Entrypoint: []string{"/consumer"}}, [][]byte{k.base, layer}, err
	},
}

// basePackages are what the base tree is made of.
var basePackages = []string{"base-files", "bash", "bind9-dnsutils", "busybox-static", "coreutils", "curl", "dash", "iperf", "iproute2", "libc-bin", "netcat-openbsd", "nginx-light", "procps", "socat", "util-linux"}

// agnhost is the program that most tests run.
func agnhost(k *kitchen) (runs, [][]byte, error) {
	more := []file{{path: "/agnhost-2", link: "agnhost"}, {path: "/uploads", mode: fs.ModeDir | 0o755}}
	// What its porter serves HTTPS with comes with its source.
	source, err := output("go", "-C", k.module, "list", "-f", "{{.Dir}}", "k8s.io/kubernetes/test/images/agnhost/porter")
	if err != nil {
		return runs{}, nil, err
	}
	for _, name := range []string{"localhost.crt", "localhost.key"} {
		content, err := os.ReadFile(filepath.Join(strings.TrimSpace(source), name))
		if err != nil {
			return runs{}, nil, err
		}
		more = append(more, file{path: "/" + name, mode: 0o644, content: content})
	}
	layer, err := k.program("k8s.io/kubernetes/test/images/agnhost", "/agnhost", more...)
	return runs{Entrypoint: []string{"/agnhost"}, Cmd: []string{"pause"}, WorkingDir: "/"}, [][]byte{k.base, layer}, err
}

// pictured is agnhost with a picture to serve and the words that go with it;
// the picture's bytes matter to nobody. A test that mounts the image looks for
// the name of what upstream's is made of.
func pictured(name string) func(*kitchen) (runs, [][]byte, error) {
	return func(k *kitchen) (runs, [][]byte, error) {
		config, layers, err := agnhost(k)
		if err != nil {
			return config, nil, err
		}
		layer, err := layerOf(file{path: "/" + name + ".jpg", mode: 0o644},
			file{path: "/etc/os-release", mode: 0o644, content: []byte("PRETTY_NAME=\"Debian, in place of an image of Alpine Linux\"\n")},
			file{path: "/data.json", mode: 0o644, content: fmt.Appendf(nil, "{\n  \"image\": \"%s.jpg\"\n}\n", name)})
		config.Cmd = []string{"test-webserver"}
		return config, append(layers, layer), err
	}
}

// kitchen is where images are made.
type kitchen struct {
	module   string   // the folder of the module that programs are built in
	from     []string // the module's files that the images are made from
	recipes  map[string]func(*kitchen) (runs, [][]byte, error)
	makeBase func(k *kitchen) ([]byte, error)
	cache    string
	pause    string // the program of the image pause
	base     []byte // the layer that most images begin with
	built    map[string][]byte
}

// newKitchen makes the images of the suite that the options ask for; module is
// this module's folder.
func (o *options) newKitchen(module string) *kitchen {
	if o.small {
		return &kitchen{module: filepath.Join(module, "small"), recipes: smallRecipes, makeBase: busyboxBase, cache: o.cache, pause: o.pause,
			from: []string{"go.mod", "go.sum", "agnhost/main.go", "../run/images.go", "../run/busybox.go", "../run/small.go", "../run/layout.go"}}
	}
	return &kitchen{module: module, recipes: recipes, makeBase: debianBase, cache: o.cache, pause: o.pause,
		from: []string{"go.mod", "go.sum", "run/images.go", "run/busybox.go", "run/debian.go", "run/layout.go"}}
}

// makeImages makes every image of names that there is a recipe for into one
// archive, and returns the names of the others.
func (k *kitchen) makeImages(names []string, archive string) (missing []string, err error) {
	if k.base, err = k.makeBase(k); err != nil {
		return nil, err
	}
	k.built = map[string][]byte{}
	out, err := os.Create(archive + ".new")
	if err != nil {
		return nil, err
	}
	defer out.Close()
	l, err := newLayout(out)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		short, _, _ := strings.Cut(path.Base(name), ":")
		recipe := k.recipes[short]
		if recipe == nil || strings.Contains(name, "invalid") || strings.Contains(name, "authenticated") {
			missing = append(missing, name)
			continue
		}
		config, layers, err := recipe(k)
		if err != nil {
			return nil, fmt.Errorf("image %s: %w", name, err)
		}
		config.Env = append(config.Env, "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
		if err := l.add(name, runtime.GOARCH, config, layers...); err != nil {
			return nil, err
		}
	}
	if err := l.close(); err != nil {
		return nil, err
	}
	if err := out.Close(); err != nil {
		return nil, err
	}
	return missing, os.Rename(archive+".new", archive)
}

// debianBase is the layer that most images begin with.
func debianBase(k *kitchen) ([]byte, error) {
	tree := filepath.Join(k.cache, "base")
	if err := k.makeTree(tree); err != nil {
		return nil, err
	}
	return layerOfTree(tree)
}

// makeTree makes the tree of that layer.
func (k *kitchen) makeTree(tree string) error {
	made := tree + ".making"
	if err := os.RemoveAll(made); err != nil {
		return err
	}
	if err := debianTree(made, k.cache, basePackages...); err != nil {
		return err
	}
	// What Debian's alternatives would choose, but for the shell: bash hands
	// variables on whose names no shell knows (a key of a ConfigMap, say), as
	// the shell of upstream's images does, and dash does not.
	for name, to := range map[string]string{"sh": "bash", "nc": "nc.openbsd"} {
		link := filepath.Join(made, "usr/bin", name)
		if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := os.Symlink(to, link); err != nil {
			return err
		}
	}
	if err := busyboxLinks(made); err != nil {
		return err
	}
	for _, dir := range []string{"dev", "etc", "home", "proc", "root", "run", "sys", "tmp", "var/run"} {
		if err := os.MkdirAll(filepath.Join(made, dir), 0o755); err != nil {
			return err
		}
	}
	if err := os.Chmod(filepath.Join(made, "tmp"), fs.ModeSticky|0o777); err != nil {
		return err
	}
	for name, content := range accounts {
		if err := os.WriteFile(filepath.Join(made, "etc", name), []byte(content), 0o644); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(tree); err != nil {
		return err
	}
	return os.Rename(made, tree)
}

// accounts are the files in /etc about users. Tests look for the last user and
// its second group.
var accounts = map[string]string{
	"passwd":        "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/bin/false\nuser-defined-in-image:x:1000:1000::/home:/bin/sh\n",
	"group":         "root:x:0:\nnogroup:x:65534:\nuser-defined-in-image:x:1000:\ngroup-defined-in-image:x:50000:user-defined-in-image\n",
	"nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}

// program builds a Go program of the suite's modules, and makes a layer of it
// and more files.
func (k *kitchen) program(pkg, at string, more ...file) ([]byte, error) {
	content := k.built[pkg]
	if content == nil {
		out := filepath.Join(k.cache, "bin", path.Base(pkg))
		if err := buildProgram(k.module, out, pkg); err != nil {
			return nil, err
		}
		var err error
		if content, err = os.ReadFile(out); err != nil {
			return nil, err
		}
		k.built[pkg] = content
	}
	return layerOf(append([]file{{path: at, mode: 0o755, content: content}}, more...)...)
}
