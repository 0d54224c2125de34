// Package archive is the file format in which setpoint carries its container
// runtime: a zstd-compressed tar archive, and a table of contents beside it.
//
//	archive   | zstd frame | zstd frame | ... | zstd frame |
//	          | tar entry  | tar entry  |     | tar end    |
//	contents  name, mode, size, sha256, and where the frame begins and ends
//
// Each entry is a zstd frame of its own. Frames in a row are still one zstd
// stream, so `tar --zstd -xf` reads the whole; with the table of contents one
// entry can be read without decompressing those before it, and several at
// once.
//
// Reading is safe from several goroutines. Content is checked against its
// hash while it is read; a reader that saw no error at the end of an entry saw
// exactly what was packed.
package archive

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"path"
	"slices"

	"github.com/klauspost/compress/zstd"
)

// Entry is one file of an archive.
type Entry struct {
	Name   string `json:"name"`   // slash-separated, relative, clean
	Mode   uint32 `json:"mode"`   // permission bits
	Size   int64  `json:"size"`   // bytes, uncompressed
	SHA256 string `json:"sha256"` // of the uncompressed content, in hex
	Offset int64  `json:"offset"` // of its frame in the archive
	Length int64  `json:"length"` // of its frame in the archive
}

// Contents is the table of contents of an archive.
type Contents struct {
	// Hash names the content: it covers names, modes and content hashes, not
	// how they were compressed.
	Hash    string  `json:"hash"`
	Entries []Entry `json:"entries"`
}

// Find returns the entry with the given name.
func (c *Contents) Find(name string) (Entry, bool) {
	i := slices.IndexFunc(c.Entries, func(e Entry) bool { return e.Name == name })
	if i < 0 {
		return Entry{}, false
	}
	return c.Entries[i], true
}

func (c *Contents) hash() string {
	h := sha256.New()
	for _, e := range c.Entries {
		fmt.Fprintf(h, "%s %o %d %s\n", e.Name, e.Mode, e.Size, e.SHA256)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// ParseContents reads a table of contents and refuses one that is not
// consistent or that names a file outside of the folder it is unpacked into.
func ParseContents(data []byte) (*Contents, error) {
	c := new(Contents)
	if err := json.Unmarshal(data, c); err != nil {
		return nil, fmt.Errorf("bundle contents: %w", err)
	}
	for _, e := range c.Entries {
		switch {
		case !fs.ValidPath(e.Name) || e.Name == ".":
			return nil, fmt.Errorf("bundle contents: bad name %q", e.Name)
		case e.Mode&^0o777 != 0 || e.Size < 0 || e.Offset < 0 || e.Length <= 0:
			return nil, fmt.Errorf("bundle contents: bad entry %q", e.Name)
		}
	}
	if want := c.hash(); c.Hash != want {
		return nil, fmt.Errorf("bundle contents: hash is %q, its entries give %q", c.Hash, want)
	}
	return c, nil
}

// Writer writes an archive.
type Writer struct {
	out      io.Writer
	offset   int64
	contents Contents
	encoder  *zstd.Encoder
}

// NewWriter returns a Writer to out.
func NewWriter(out io.Writer) (*Writer, error) {
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression))
	if err != nil {
		return nil, err
	}
	return &Writer{out: out, encoder: encoder}, nil
}

// Add appends a file of the given content.
func (w *Writer) Add(name string, mode fs.FileMode, content []byte) error {
	if !fs.ValidPath(name) || name != path.Clean(name) {
		return fmt.Errorf("bundle: bad name %q", name)
	}
	if _, ok := w.contents.Find(name); ok {
		return fmt.Errorf("bundle: %q added twice", name)
	}
	var entry bytes.Buffer
	t := tar.NewWriter(&entry)
	header := &tar.Header{
		Typeflag: tar.TypeReg, Name: name, Mode: int64(mode.Perm()), Size: int64(len(content)),
	}
	if err := t.WriteHeader(header); err != nil {
		return err
	}
	if _, err := t.Write(content); err != nil {
		return err
	}
	if err := t.Flush(); err != nil { // pads to a whole block; does not end the archive
		return err
	}
	sum := sha256.Sum256(content)
	begin := w.offset
	if err := w.frame(entry.Bytes()); err != nil {
		return err
	}
	w.contents.Entries = append(w.contents.Entries, Entry{
		Name: name, Mode: uint32(mode.Perm()), Size: int64(len(content)),
		SHA256: hex.EncodeToString(sum[:]), Offset: begin, Length: w.offset - begin,
	})
	return nil
}

// Close ends the archive and returns its table of contents, ready to be
// written beside it.
func (w *Writer) Close() ([]byte, error) {
	if err := w.frame(make([]byte, 1024)); err != nil { // two empty blocks end a tar archive
		return nil, err
	}
	w.contents.Hash = w.contents.hash()
	return json.MarshalIndent(&w.contents, "", " ")
}

func (w *Writer) frame(content []byte) error {
	n, err := w.out.Write(w.encoder.EncodeAll(content, nil))
	w.offset += int64(n)
	return err
}

// Open reads one entry of an archive from its beginning.
func Open(archive io.ReaderAt, e Entry) (io.ReadCloser, error) {
	decoder, err := zstd.NewReader(io.NewSectionReader(archive, e.Offset, e.Length),
		zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true))
	if err != nil {
		return nil, err
	}
	t := tar.NewReader(decoder)
	header, err := t.Next()
	if err != nil {
		decoder.Close()
		return nil, fmt.Errorf("bundle entry %q: %w", e.Name, err)
	}
	if header.Name != e.Name || header.Size != e.Size {
		decoder.Close()
		return nil, fmt.Errorf("bundle entry %q: found %q of %d bytes in its place, want %d bytes", e.Name, header.Name, header.Size, e.Size)
	}
	return &entryReader{entry: e, tar: t, decoder: decoder, hash: sha256.New()}, nil
}

type entryReader struct {
	entry   Entry
	tar     *tar.Reader
	decoder *zstd.Decoder
	hash    hash.Hash
}

func (r *entryReader) Read(p []byte) (int, error) {
	n, err := r.tar.Read(p)
	r.hash.Write(p[:n])
	if errors.Is(err, io.EOF) {
		if got := hex.EncodeToString(r.hash.Sum(nil)); got != r.entry.SHA256 {
			return n, fmt.Errorf("bundle entry %q is damaged: its hash is %s, want %s", r.entry.Name, got, r.entry.SHA256)
		}
	}
	return n, err
}

func (r *entryReader) Close() error {
	r.decoder.Close()
	return nil
}
