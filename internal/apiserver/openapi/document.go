package openapi

import (
	"bytes"
	"encoding/json"
	"io"

	"github.com/klauspost/compress/gzip"
)

// document is a document as it is kept.
type document struct {
	gzip []byte
	size int // when not compressed
}

func compress(data []byte) document {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	if err == nil {
		_, err = w.Write(data)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		panic(err) // a buffer takes everything
	}
	return document{gzip: bytes.Clone(b.Bytes()), size: len(data)}
}

// writeTo writes the document without compression.
func (d document) writeTo(w io.Writer) error {
	r, err := gzip.NewReader(bytes.NewReader(d.gzip))
	if err != nil {
		return err
	}
	_, err = io.Copy(w, r)
	return err
}

// marshal never fails for the types of this package.
func marshal(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return data
}
