package local

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// The database holds, all numbers big endian so that they sort:
//
//	h/<revision>            -> uvarint revision of the key's version before (0: none),
//	                           1 for a deletion else 0, key
//	m/<key> 0x00 <revision> -> uvarint revision of creation, 1, value
//	                        |  uvarint revision of creation, 0 (a deletion)
//	s/format                -> "1"
//	s/oldest                -> revision up to which history is forgotten
//
// A key's versions lie side by side, so that the live set is one scan and the
// past of one key one seek. An entry of h/ names the version that it
// superseded, so that compaction walks h/ alone and seeks nothing.
var (
	historyStart = []byte("h/")
	historyEnd   = []byte("h0")
	versionStart = []byte("m/")
	versionEnd   = []byte("m0")
	formatKey    = []byte("s/format")
	oldestKey    = []byte("s/oldest")
)

const format = "1"

// checkKey refuses the keys that the encoding cannot hold.
func checkKey(key string) error {
	if key == "" {
		return errors.New("store: empty key")
	}
	if strings.IndexByte(key, 0) >= 0 {
		return fmt.Errorf("store: key %q has a NUL byte", key)
	}
	return nil
}

func appendHistoryKey(b []byte, revision int64) []byte {
	return binary.BigEndian.AppendUint64(append(b, historyStart...), uint64(revision))
}

func parseHistoryKey(b []byte) (int64, error) {
	if len(b) != len(historyStart)+8 {
		return 0, fmt.Errorf("store: malformed history key %q", b)
	}
	return int64(binary.BigEndian.Uint64(b[len(historyStart):])), nil
}

// change is an entry of h/.
type change struct {
	revision int64
	prev     int64 // revision of the version before; 0 when there was none
	deleted  bool
	key      string
}

func appendChange(b []byte, c change) []byte {
	b = binary.AppendUvarint(b, uint64(c.prev))
	return append(append(b, flag(c.deleted)), c.key...)
}

func parseChange(revision int64, b []byte) (change, error) {
	prev, n := binary.Uvarint(b)
	if n <= 0 || len(b) < n+2 || b[n] > 1 {
		return change{}, fmt.Errorf("store: malformed history entry of revision %d", revision)
	}
	return change{revision, int64(prev), b[n] == 1, string(b[n+1:])}, nil
}

func appendVersionKey(b []byte, key string, revision int64) []byte {
	b = append(append(b, versionStart...), key...)
	return binary.BigEndian.AppendUint64(append(b, 0), uint64(revision))
}

// parseVersionKey returns the key as a part of b.
func parseVersionKey(b []byte) (key []byte, revision int64, err error) {
	b = bytes.TrimPrefix(b, versionStart)
	n := len(b) - 9
	if n < 1 || b[n] != 0 {
		return nil, 0, fmt.Errorf("store: malformed version key %q", b)
	}
	return b[:n], int64(binary.BigEndian.Uint64(b[n+1:])), nil
}

// appendVersion encodes a version; a nil value is a deletion.
func appendVersion(b []byte, created int64, value []byte) []byte {
	b = binary.AppendUvarint(b, uint64(created))
	return append(append(b, flag(value != nil)), value...)
}

// parseVersion returns the value as a part of b, nil for a deletion.
func parseVersion(b []byte) (created int64, value []byte, err error) {
	c, n := binary.Uvarint(b)
	if n <= 0 || len(b) <= n || b[n] > 1 {
		return 0, nil, errors.New("store: malformed version")
	}
	if b[n] == 0 {
		return int64(c), nil, nil
	}
	return int64(c), b[n+1:], nil
}

func flag(b bool) byte {
	if b {
		return 1
	}
	return 0
}
