package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// layout is an OCI image layout in the making, written to one tar archive as
// it grows: layers are large and go to the archive at once, the index at last.
// https://github.com/opencontainers/image-spec/blob/main/image-layout.md
type layout struct {
	w      *tar.Writer
	has    map[string]bool // blobs written, by digest
	images []descriptor
}

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

// runs is how a container of an image starts.
type runs struct {
	User       string   `json:"User,omitempty"`
	Env        []string `json:"Env,omitempty"`
	Entrypoint []string `json:"Entrypoint,omitempty"`
	Cmd        []string `json:"Cmd,omitempty"`
	WorkingDir string   `json:"WorkingDir,omitempty"`
}

const mediaType = "application/vnd.oci.image."

func newLayout(w io.Writer) (*layout, error) {
	l := &layout{w: tar.NewWriter(w), has: map[string]bool{}}
	return l, writeFile(l.w, "oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`))
}

// blob adds content once.
func (l *layout) blob(kind string, content []byte) (descriptor, error) {
	sum := sha256.Sum256(content)
	d := descriptor{MediaType: mediaType + kind, Digest: "sha256:" + hex.EncodeToString(sum[:]), Size: int64(len(content))}
	if l.has[d.Digest] {
		return d, nil
	}
	l.has[d.Digest] = true
	return d, writeFile(l.w, "blobs/"+strings.Replace(d.Digest, ":", "/", 1), content)
}

func (l *layout) object(kind string, v any) (descriptor, error) {
	content, err := json.Marshal(v)
	if err != nil {
		return descriptor{}, err
	}
	return l.blob(kind, content)
}

// add puts an image of the given layers into the layout.
func (l *layout) add(name, arch string, config runs, layers ...[]byte) error {
	var listed []descriptor
	var digests []string
	for _, layer := range layers {
		d, err := l.blob("layer.v1.tar", layer)
		if err != nil {
			return err
		}
		listed, digests = append(listed, d), append(digests, d.Digest)
	}
	configured, err := l.object("config.v1+json", map[string]any{
		"architecture": arch, "os": "linux", "config": config,
		"rootfs": map[string]any{"type": "layers", "diff_ids": digests},
	})
	if err != nil {
		return err
	}
	image, err := l.object("manifest.v1+json", map[string]any{
		"schemaVersion": 2, "mediaType": mediaType + "manifest.v1+json", "config": configured, "layers": listed,
	})
	if err != nil {
		return err
	}
	_, tag, ok := strings.Cut(path.Base(name), ":")
	if !ok {
		return fmt.Errorf("image name %q has no tag", name)
	}
	image.Platform = &platform{arch, "linux"}
	image.Annotations = map[string]string{"io.containerd.image.name": name, "org.opencontainers.image.ref.name": tag}
	l.images = append(l.images, image)
	return nil
}

// close writes the index.
func (l *layout) close() error {
	index, err := json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": mediaType + "index.v1+json", "manifests": l.images})
	if err != nil {
		return err
	}
	if err := writeFile(l.w, "index.json", index); err != nil {
		return err
	}
	return l.w.Close()
}

func writeFile(w *tar.Writer, name string, content []byte) error {
	if err := w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(content))}); err != nil {
		return err
	}
	_, err := w.Write(content)
	return err
}

// file is one file of a small layer.
type file struct {
	path    string // absolute
	mode    fs.FileMode
	content []byte
	link    string // where a symbolic link leads
}

// layerOf is a layer of single files.
func layerOf(files ...file) ([]byte, error) {
	var buffer bytes.Buffer
	w := tar.NewWriter(&buffer)
	for _, f := range files {
		h := &tar.Header{Name: strings.TrimPrefix(f.path, "/"), Mode: int64(f.mode.Perm())}
		if f.mode&fs.ModeSetuid != 0 {
			h.Mode |= 0o4000
		}
		switch {
		case f.mode.IsDir():
			h.Typeflag, h.Name = tar.TypeDir, h.Name+"/"
			if f.mode&fs.ModeSticky != 0 {
				h.Mode |= 0o1000
			}
		case f.link != "":
			h.Typeflag, h.Linkname, h.Mode = tar.TypeSymlink, f.link, 0o777
		default:
			h.Typeflag, h.Size = tar.TypeReg, int64(len(f.content))
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return buffer.Bytes(), err
}

// layerOfTree is a layer of everything below dir, owned by root.
func layerOfTree(dir string) ([]byte, error) {
	var buffer bytes.Buffer
	w := tar.NewWriter(&buffer)
	err := files(dir, func(path, name string, info fs.FileInfo) error {
		if !info.IsDir() && !info.Mode().IsRegular() && info.Mode().Type() != fs.ModeSymlink {
			return nil
		}
		var link string
		if info.Mode().Type() == fs.ModeSymlink {
			var err error
			if link, err = os.Readlink(path); err != nil {
				return err
			}
		}
		h, err := tar.FileInfoHeader(info, link)
		if err != nil {
			return err
		}
		h.Name = filepath.ToSlash(name)
		if info.IsDir() {
			h.Name += "/"
		}
		h.Uid, h.Gid, h.Uname, h.Gname = 0, 0, "", ""
		if err := w.WriteHeader(h); err != nil || !info.Mode().IsRegular() {
			return err
		}
		content, err := os.Open(path)
		if err != nil {
			return err
		}
		defer content.Close()
		_, err = io.Copy(w, content)
		return err
	})
	if err == nil {
		err = w.Close()
	}
	return buffer.Bytes(), err
}
