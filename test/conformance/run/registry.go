package main

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// registry serves the images of a layout to nodes that pull although they have
// an image, as pods may want them to. It knows what a pull asks for.
// https://github.com/opencontainers/distribution-spec/blob/main/spec.md#pull
type registry struct {
	archive *os.File
	blobs   map[string]*io.SectionReader // by digest
	images  map[string]descriptor        // by name, without the host
	server  *http.Server
}

// registryHost is whose place the registry takes: that of all images that the
// suite pulls.
const registryHost = "registry.k8s.io"

// openRegistry reads where things are in a layout's archive.
func openRegistry(archive string) (_ *registry, err error) {
	f, err := os.Open(archive)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	r := &registry{archive: f, blobs: map[string]*io.SectionReader{}, images: map[string]descriptor{}}
	var index struct{ Manifests []descriptor }
	// The tar reader reads headers and nothing ahead, so that the file stands
	// where the content begins.
	for t := tar.NewReader(f); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		at, err := f.Seek(0, io.SeekCurrent)
		if err != nil {
			return nil, err
		}
		if digest, ok := strings.CutPrefix(h.Name, "blobs/"); ok {
			r.blobs[strings.Replace(digest, "/", ":", 1)] = io.NewSectionReader(f, at, h.Size)
		} else if h.Name == "index.json" {
			if err := json.NewDecoder(io.NewSectionReader(f, at, h.Size)).Decode(&index); err != nil {
				return nil, fmt.Errorf("index of %s: %w", archive, err)
			}
		}
	}
	for _, image := range index.Manifests {
		if name, ok := strings.CutPrefix(image.Annotations["io.containerd.image.name"], registryHost+"/"); ok {
			r.images[name] = image
		}
	}
	return r, nil
}

// serve serves on an address until close.
func (r *registry) serve(address string) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	r.server = &http.Server{Handler: r, ReadHeaderTimeout: time.Minute}
	go r.server.Serve(l)
	return nil
}

func (r *registry) close() {
	if r.server != nil {
		r.server.Close()
	}
	r.archive.Close()
}

// ServeHTTP answers /v2/, /v2/NAME/manifests/TAG-OR-DIGEST and
// /v2/NAME/blobs/DIGEST.
func (r *registry) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	path, ok := strings.CutPrefix(q.URL.Path, "/v2/")
	if !ok || q.Method != http.MethodGet && q.Method != http.MethodHead {
		http.NotFound(w, q)
		return
	}
	if path == "" {
		return
	}
	digest := path[strings.LastIndex(path, "/")+1:]
	media := "application/octet-stream"
	if name, reference, ok := strings.Cut(path, "/manifests/"); ok {
		digest, media = reference, mediaType+"manifest.v1+json"
		if image, ok := r.images[name+":"+reference]; ok {
			digest = image.Digest
		}
	}
	blob := r.blobs[digest]
	if blob == nil {
		http.NotFound(w, q)
		return
	}
	w.Header().Set("Content-Type", media)
	w.Header().Set("Docker-Content-Digest", digest)
	// A reader of its own: one blob may be sent to two nodes.
	http.ServeContent(w, q, "", time.Time{}, io.NewSectionReader(blob, 0, blob.Size()))
}

// useRegistry makes the nodes of a data folder pull from a registry at an
// address.
func useRegistry(dataDir, address string) error {
	dir := filepath.Join(dataDir, "containerd", "registries", registryHost)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "hosts.toml"), fmt.Appendf(nil, "server = %q\n", "http://"+address), 0o644)
}
