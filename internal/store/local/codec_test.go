package local

import (
	"bytes"
	"testing"
)

func TestCheckKey(t *testing.T) {
	for key, ok := range map[string]bool{"": false, "/a\x00b": false, "\x00": false, "/a": true, "/\xff": true} {
		if err := checkKey(key); (err == nil) != ok {
			t.Errorf("%q: got %v", key, err)
		}
	}
}

// Versions sort by key, then by revision, also where one key begins another.
func TestVersionKeyOrder(t *testing.T) {
	var last []byte
	for _, key := range []string{"/a", "/a\x01", "/a/", "/a/b", "/ab", "/b"} {
		for _, rev := range []int64{0, 1, 255, 256, 1 << 40} {
			k := appendVersionKey(nil, key, rev)
			if bytes.Compare(last, k) >= 0 {
				t.Errorf("%q is not behind %q", k, last)
			}
			last = k
		}
	}
}

func FuzzCodec(f *testing.F) {
	f.Add("/registry/pods/a/b", int64(7), int64(3), []byte("value"))
	f.Add("x", int64(1), int64(0), []byte{})
	f.Fuzz(func(t *testing.T, key string, revision, earlier int64, value []byte) {
		if checkKey(key) != nil || revision < 0 || earlier < 0 {
			t.Skip()
		}
		if rev, err := parseHistoryKey(appendHistoryKey(nil, revision)); err != nil || rev != revision {
			t.Errorf("history key: %d, %v", rev, err)
		}
		for _, deleted := range []bool{true, false} {
			want := change{revision, earlier, deleted, key}
			if got, err := parseChange(revision, appendChange(nil, want)); err != nil || got != want {
				t.Errorf("change: got %v, %v, want %v", got, err, want)
			}
		}
		if k, rev, err := parseVersionKey(appendVersionKey(nil, key, revision)); err != nil || string(k) != key || rev != revision {
			t.Errorf("version key: %q, %d, %v", k, rev, err)
		}
		for _, want := range [][]byte{nil, {}, value} {
			created, got, err := parseVersion(appendVersion(nil, earlier, want))
			if err != nil || created != earlier || !bytes.Equal(got, want) || (got == nil) != (want == nil) {
				t.Errorf("version: got %d, %#v, %v, want %d, %#v", created, got, err, earlier, want)
			}
		}
		// Whatever is on disk, parsing it does not panic.
		parseHistoryKey(value)
		parseVersionKey(value)
		parseVersion(value)
		parseChange(revision, value)
	})
}
