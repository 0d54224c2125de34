package archive

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
)

type file struct {
	name    string
	mode    int64
	content string
}

var files = []file{
	{"bin/first", 0o755, strings.Repeat("first ", 100_000)},
	{"empty", 0o644, ""},
	{"block", 0o600, strings.Repeat("x", 512)},
}

func pack(t testing.TB) ([]byte, *Contents) {
	t.Helper()
	var b bytes.Buffer
	w, err := NewWriter(&b)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if err := w.Add(f.name, fs.FileMode(f.mode), []byte(f.content)); err != nil {
			t.Fatal(err)
		}
	}
	table, err := w.Close()
	if err != nil {
		t.Fatal(err)
	}
	contents, err := ParseContents(table)
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes(), contents
}

func TestEntriesInAnyOrder(t *testing.T) {
	data, contents := pack(t)
	for i := len(files) - 1; i >= 0; i-- {
		entry, ok := contents.Find(files[i].name)
		if !ok {
			t.Fatalf("%s is not in the table of contents", files[i].name)
		}
		r, err := Open(bytes.NewReader(data), entry)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r)
		if err != nil || string(got) != files[i].content {
			t.Errorf("%s: %d bytes, %v; want %d", entry.Name, len(got), err, len(files[i].content))
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, ok := contents.Find("absent"); ok {
		t.Error("a file that was not packed is found")
	}
}

// Other tools can read the archive as what it claims to be.
func TestIsTarZstd(t *testing.T) {
	data, _ := pack(t)
	d, err := zstd.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	var got []file
	r := tar.NewReader(d)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, file{h.Name, h.Mode, string(content)})
	}
	if diff := cmp.Diff(files, got, cmp.AllowUnexported(file{})); diff != "" {
		t.Errorf("the tar archive (-want +got):\n%s", diff)
	}
}

func TestDamageIsNoticed(t *testing.T) {
	data, contents := pack(t)
	for _, entry := range contents.Entries {
		for at := entry.Offset; at < entry.Offset+entry.Length; at++ {
			damaged := bytes.Clone(data)
			damaged[at] ^= 0x40
			r, err := Open(bytes.NewReader(damaged), entry)
			if err != nil {
				continue
			}
			got, err := io.ReadAll(r)
			r.Close()
			// A flipped bit that changes nothing of the content is no damage.
			want := files[indexOf(entry.Name)].content
			if err == nil && string(got) != want {
				t.Errorf("%s: byte %d damaged, and read without an error", entry.Name, at)
			}
		}
	}
	wrong := contents.Entries[0]
	wrong.SHA256 = strings.Repeat("0", 64)
	r, err := Open(bytes.NewReader(data), wrong)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := io.ReadAll(r); err == nil {
		t.Error("content with another hash is read without an error")
	}
	swapped := contents.Entries[0]
	swapped.Offset, swapped.Length = contents.Entries[2].Offset, contents.Entries[2].Length
	if _, err := Open(bytes.NewReader(data), swapped); err == nil {
		t.Error("one entry is opened in the place of another")
	}
}

func TestContentsAreChecked(t *testing.T) {
	_, good := pack(t)
	for name, spoil := range map[string]func(*Contents){
		"escapes":      func(c *Contents) { c.Entries[0].Name = "../first" },
		"absolute":     func(c *Contents) { c.Entries[0].Name = "/first" },
		"the folder":   func(c *Contents) { c.Entries[0].Name = "." },
		"set-uid":      func(c *Contents) { c.Entries[0].Mode = 0o4755 },
		"no frame":     func(c *Contents) { c.Entries[0].Length = 0 },
		"negative":     func(c *Contents) { c.Entries[0].Size = -1 },
		"other hash":   func(c *Contents) { c.Hash = strings.Repeat("0", 64) },
		"one is gone":  func(c *Contents) { c.Entries = c.Entries[1:] },
		"another mode": func(c *Contents) { c.Entries[0].Mode = 0o700 },
	} {
		bad := *good
		bad.Entries = append([]Entry(nil), good.Entries...)
		spoil(&bad)
		if name != "other hash" && name != "one is gone" && name != "another mode" {
			bad.Hash = bad.hash()
		}
		table, err := json.Marshal(bad)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ParseContents(table); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := ParseContents([]byte("{")); err == nil {
		t.Error("malformed JSON: accepted")
	}
}

func TestWriterRefuses(t *testing.T) {
	w, err := NewWriter(io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Add("a", 0o644, nil); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "", "/a", "../a", "a/", "a//b"} {
		if err := w.Add(name, 0o644, nil); err == nil {
			t.Errorf("a file named %q is packed", name)
		}
	}
}

// The hash is of what is packed, so two packs of the same have the same.
func TestHashFollowsContent(t *testing.T) {
	_, a := pack(t)
	_, b := pack(t)
	if a.Hash != b.Hash {
		t.Error("the same files have two hashes")
	}
	kept := files[0].content
	defer func() { files[0].content = kept }()
	files[0].content += "!"
	_, c := pack(t)
	if c.Hash == a.Hash {
		t.Error("another content has the same hash")
	}
}

func FuzzParseContents(f *testing.F) {
	f.Add([]byte(`{"hash":"","entries":[]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := ParseContents(data)
		if err != nil {
			return
		}
		for _, e := range c.Entries {
			if strings.HasPrefix(e.Name, "/") || strings.Contains("/"+e.Name+"/", "/../") {
				t.Errorf("accepted the name %q", e.Name)
			}
		}
	})
}

func indexOf(name string) int {
	for i, f := range files {
		if f.name == name {
			return i
		}
	}
	return -1
}
