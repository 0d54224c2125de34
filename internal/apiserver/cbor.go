package apiserver

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"net/http"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/setpoint-project/setpoint/internal/kinds"
)

// CBOR (RFC 8949) is written by the library from the objects themselves, and
// read by way of JSON: it says the same, and is checked by the same rules.
// Upstream has it behind a gate that is off; its documents say what is served
// when it is on.
const (
	typeCBOR    = "application/cbor"
	typeCBORSeq = "application/cbor-seq" // of a watch: items one after another (RFC 8742)
)

// cborTag says of what follows that it is CBOR. Every document begins with it,
// and none within another.
var cborTag = []byte{0xd9, 0xd9, 0xf7}

// cborWriter needs to know no types to write.
var cborWriter = cbor.NewSerializer(nil, nil)

func encodeCBOR(obj runtime.Object) ([]byte, error) {
	if d, ok := obj.(kinds.Dynamic); ok {
		obj = d.Unstructured()
	}
	var buf bytes.Buffer
	err := cborWriter.Encode(obj, &buf)
	return buf.Bytes(), err
}

// cborFromJSON turns an object in JSON over.
func cborFromJSON(data []byte) ([]byte, error) {
	u := &unstructured.Unstructured{}
	if err := unmarshalJSON(data, &u.Object); err != nil {
		return nil, err
	}
	return encodeCBOR(u)
}

// cborToJSON turns a document over. Maps with a key twice are refused.
func cborToJSON(data []byte) ([]byte, error) {
	var v any
	if err := direct.Unmarshal(data, &v); err != nil {
		return nil, err
	}
	return json.Marshal(v)
}

// Major types of CBOR's items.
const (
	cborBytes = 2 << 5
	cborArray = 4 << 5
	cborMap   = 5 << 5
)

// appendCBORHead begins an item: n is its length, or how many items it holds.
func appendCBORHead(b []byte, major byte, n int) []byte {
	switch {
	case n < 24:
		return append(b, major|byte(n))
	case n < 1<<8:
		return append(b, major|24, byte(n))
	case n < 1<<16:
		return binary.BigEndian.AppendUint16(append(b, major|25), uint16(n))
	}
	return binary.BigEndian.AppendUint32(append(b, major|26), uint32(n))
}

// appendCBORString writes a string as the library does: as bytes, which need
// not be checked to be UTF-8.
func appendCBORString(b []byte, s string) []byte {
	return append(appendCBORHead(b, cborBytes, len(s)), s...)
}

// appendCBORFrame writes one watch event around an object.
func appendCBORFrame(b []byte, t watch.EventType, object []byte) []byte {
	b = appendCBORHead(append(b, cborTag...), cborMap, 2)
	b = appendCBORString(appendCBORString(b, "type"), string(t))
	b = appendCBORString(b, "object")
	return append(b, bytes.TrimPrefix(object, cborTag)...)
}

// writeCBORList writes a list from the encodings of its items.
func (x *exchange) writeCBORList(p *page) error {
	sv := x.call.sv
	f, kind, apiVersion := x.form(), sv.listKind, sv.gvk.GroupVersion().String()
	if f == formMetadata {
		kind, apiVersion = partialListGVK.Kind, metaGV.String()
	}
	meta, err := direct.Marshal(p.meta())
	if err != nil {
		return err
	}
	pieces := make([][]byte, len(p.records))
	for i, rec := range p.records {
		e, err := x.s.entryOf(sv.resource, rec)
		if err != nil {
			return err
		}
		if pieces[i], err = e.encode(sv, mediumCBOR, f); err != nil {
			return err
		}
	}
	head := appendCBORHead(append([]byte{}, cborTag...), cborMap, 4)
	head = appendCBORString(appendCBORString(head, "kind"), kind)
	head = appendCBORString(appendCBORString(head, "apiVersion"), apiVersion)
	head = append(appendCBORString(head, "metadata"), meta...)
	head = appendCBORHead(appendCBORString(head, "items"), cborArray, len(pieces))
	b := x.body(http.StatusOK, typeCBOR)
	b.write(head)
	for _, piece := range pieces {
		b.write(piece[len(cborTag):])
	}
	return b.close()
}
