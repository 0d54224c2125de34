package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"strings"
)

// Media types and annotations of the OCI image specification, and the
// annotation by which containerd names what it imports.
const (
	typeIndex    = "application/vnd.oci.image.index.v1+json"
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar"

	annotationName = "io.containerd.image.name"
	annotationTag  = "org.opencontainers.image.ref.name"
)

type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int64             `json:"size"`
	Platform    *platform         `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

type index struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Manifests     []descriptor `json:"manifests"`
}

type manifest struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Config        descriptor   `json:"config"`
	Layers        []descriptor `json:"layers"`
}

type imageConfig struct {
	platform
	Config runConfig `json:"config"`
	RootFS rootFS    `json:"rootfs"`
}

type runConfig struct {
	User         string              `json:"User,omitempty"`
	ExposedPorts map[string]struct{} `json:"ExposedPorts,omitempty"`
	Env          []string            `json:"Env,omitempty"`
	Entrypoint   []string            `json:"Entrypoint"`
	WorkingDir   string              `json:"WorkingDir,omitempty"`
}

type rootFS struct {
	Type    string   `json:"type"`
	DiffIDs []string `json:"diff_ids"`
}

// layout is an OCI image layout in the making: blobs by content and an index
// of named images. Everything in it depends on its inputs alone, not on time
// or order of maps, so that an unchanged program gives an unchanged digest.
type layout struct {
	arch   string
	blobs  map[string][]byte // by digest
	order  []string
	images []descriptor
}

func newLayout(arch string) *layout {
	return &layout{arch: arch, blobs: map[string][]byte{}}
}

func (l *layout) blob(mediaType string, content []byte) descriptor {
	sum := sha256.Sum256(content)
	digest := "sha256:" + hex.EncodeToString(sum[:])
	if _, ok := l.blobs[digest]; !ok {
		l.blobs[digest] = content
		l.order = append(l.order, digest)
	}
	return descriptor{MediaType: mediaType, Digest: digest, Size: int64(len(content))}
}

func (l *layout) object(mediaType string, object any) (descriptor, error) {
	content, err := json.Marshal(object)
	if err != nil {
		return descriptor{}, err
	}
	return l.blob(mediaType, content), nil
}

// add puts an image of one layer, one program, into the layout. Images with
// the same program share their layer.
func (l *layout) add(name, program string, executable []byte, config runConfig) error {
	layer, err := layerOf(program, executable)
	if err != nil {
		return err
	}
	// The layer is not compressed: the bundle that carries it is, and what is
	// not compressed twice is imported faster.
	layerDescriptor := l.blob(typeLayer, layer)

	config.Entrypoint = []string{program}
	configDescriptor, err := l.object(typeConfig, imageConfig{
		platform: platform{Architecture: l.arch, OS: "linux"},
		Config:   config,
		RootFS:   rootFS{Type: "layers", DiffIDs: []string{layerDescriptor.Digest}},
	})
	if err != nil {
		return err
	}
	image, err := l.object(typeManifest, manifest{
		SchemaVersion: 2,
		MediaType:     typeManifest,
		Config:        configDescriptor,
		Layers:        []descriptor{layerDescriptor},
	})
	if err != nil {
		return err
	}
	_, tag, ok := strings.Cut(path.Base(name), ":")
	if !ok {
		return fmt.Errorf("image name %q has no tag", name)
	}
	image.Platform = &platform{Architecture: l.arch, OS: "linux"}
	image.Annotations = map[string]string{annotationName: name, annotationTag: tag}
	l.images = append(l.images, image)
	return nil
}

// layerOf is a file system with one executable and the folders a program may
// expect of any root file system.
func layerOf(program string, executable []byte) ([]byte, error) {
	var buffer bytes.Buffer
	w := tar.NewWriter(&buffer)
	for _, dir := range []string{"dev/", "etc/", "proc/", "sys/"} {
		if err := w.WriteHeader(&tar.Header{Name: dir, Typeflag: tar.TypeDir, Mode: 0o755}); err != nil {
			return nil, err
		}
	}
	if err := w.WriteHeader(&tar.Header{Name: "tmp/", Typeflag: tar.TypeDir, Mode: 0o1777}); err != nil {
		return nil, err
	}
	if err := writeFile(w, strings.TrimPrefix(program, "/"), 0o755, executable); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return buffer.Bytes(), nil
}

// write writes the layout as one tar archive.
func (l *layout) write(out io.Writer) error {
	w := tar.NewWriter(out)
	if err := writeFile(w, "oci-layout", 0o644, []byte(`{"imageLayoutVersion":"1.0.0"}`)); err != nil {
		return err
	}
	list, err := json.Marshal(index{SchemaVersion: 2, MediaType: typeIndex, Manifests: l.images})
	if err != nil {
		return err
	}
	if err := writeFile(w, "index.json", 0o644, list); err != nil {
		return err
	}
	for _, digest := range l.order {
		name := "blobs/" + strings.Replace(digest, ":", "/", 1)
		if err := writeFile(w, name, 0o644, l.blobs[digest]); err != nil {
			return err
		}
	}
	return w.Close()
}

func writeFile(w *tar.Writer, name string, mode int64, content []byte) error {
	header := &tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: mode, Size: int64(len(content))}
	if err := w.WriteHeader(header); err != nil {
		return err
	}
	_, err := w.Write(content)
	return err
}
