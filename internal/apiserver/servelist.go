package apiserver

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func (x *exchange) serveList() error {
	if err := x.negotiate(); err != nil {
		return err
	}
	opts, err := x.query.listOptions()
	if err != nil {
		return err
	}
	p, _, err := x.s.list(&x.call, opts)
	if err != nil {
		return err
	}
	return x.writeList(p)
}

// writeList writes the objects of a page: their encodings one after another,
// never the whole in one buffer.
func (x *exchange) writeList(p *page) error {
	switch {
	case x.pres.as == asTable:
		return x.writeTable(p)
	case x.pres.medium == mediumProto:
		return x.writeProtoList(p)
	case x.pres.medium == mediumCBOR:
		return x.writeCBORList(p)
	case x.pres.medium == mediumYAML || x.pres.pretty:
		return x.writeReadableList(p)
	}
	b := x.body(http.StatusOK, typeJSON)
	if err := x.jsonList(p, b.write); err != nil {
		return err
	}
	return b.close()
}

// writeReadableList is for people: the list is turned over as a whole.
func (x *exchange) writeReadableList(p *page) error {
	var buf bytes.Buffer
	if err := x.jsonList(p, func(b []byte) { buf.Write(b) }); err != nil {
		return err
	}
	return x.present(http.StatusOK, bytes.TrimSpace(buf.Bytes()))
}

// jsonList writes a list as JSON. Items have no kind and apiVersion, as
// Kubernetes has it for its own types.
func (x *exchange) jsonList(p *page, write func([]byte)) error {
	sv := x.call.sv
	f, head := formObject, sv.listHead
	if x.pres.as == asMetadata {
		f, head = formMetadata, []byte(`{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{`)
	}
	// Decode and encode all before the first byte is written: after it, an
	// error has no place to go.
	pieces := make([][]byte, len(p.records))
	for i, rec := range p.records {
		e, err := x.s.entryOf(sv.resource, rec)
		if err != nil {
			return err
		}
		if pieces[i], err = e.encode(sv, mediumJSON, f); err != nil {
			return err
		}
	}
	write(head)
	write(listMeta(p))
	write([]byte(`},"items":[`))
	for i, piece := range pieces {
		if i > 0 {
			write(comma)
		}
		if f == formObject && bytes.HasPrefix(piece, sv.jsonHead) {
			write(brace)
			piece = piece[len(sv.jsonHead):]
		}
		write(piece)
	}
	write([]byte("]}\n"))
	return nil
}

var comma, brace = []byte{','}, []byte{'{'}

// listMeta is the inside of a list's metadata.
func listMeta(p *page) []byte {
	if p.revision == 0 {
		return nil
	}
	b := append([]byte(`"resourceVersion":"`), formatRevision(p.revision)...)
	b = append(b, '"')
	if p.next != "" {
		b = append(b, `,"continue":"`...)
		b = append(b, p.next...)
		b = append(b, '"')
	}
	if p.remaining != nil {
		b = append(b, `,"remainingItemCount":`...)
		b = strconv.AppendInt(b, *p.remaining, 10)
	}
	return b
}

func (p *page) meta() metav1.ListMeta {
	if p.revision == 0 {
		return metav1.ListMeta{}
	}
	return metav1.ListMeta{ResourceVersion: formatRevision(p.revision), Continue: p.next, RemainingItemCount: p.remaining}
}

// writeProtoList writes a list as protobuf: every list type has its metadata
// as field 1 and its items as field 2.
func (x *exchange) writeProtoList(p *page) error {
	sv := x.call.sv
	f, kind, apiVersion := formObject, sv.gvk.Kind+"List", sv.gvk.GroupVersion().String()
	wire := sv.wire
	if x.pres.as == asMetadata {
		f, kind, apiVersion = formMetadata, partialListGVK.Kind, metaGV.String()
		wire = newEnvelope(partialGVK.GroupVersion().String(), partialGVK.Kind)
	}
	if wire == nil {
		return errNotAcceptable(typeJSON + ", " + typeYAML)
	}
	pieces := make([][]byte, len(p.records))
	meta := p.meta()
	metaBytes, err := meta.Marshal()
	if err != nil {
		return err
	}
	raw := 1 + uvarintLen(uint64(len(metaBytes))) + len(metaBytes)
	for i, rec := range p.records {
		e, err := x.s.entryOf(sv.resource, rec)
		if err != nil {
			return err
		}
		data, err := e.encode(sv, mediumProto, f)
		if err != nil {
			return err
		}
		piece := wire.message(data)
		pieces[i] = piece
		raw += 1 + uvarintLen(uint64(len(piece))) + len(piece)
	}
	b := x.body(http.StatusOK, typeProto)
	b.write(newEnvelope(apiVersion, kind).head)
	b.write(appendUvarint(nil, uint64(raw)))
	b.write(appendProtoBytes(nil, 1, metaBytes))
	var scratch [16]byte
	for _, piece := range pieces {
		h := append(scratch[:0], 2<<3|2)
		b.write(appendUvarint(h, uint64(len(piece))))
		b.write(piece)
	}
	b.write(protoTail)
	return b.close()
}

// message is what encode was given, in its bytes.
func (e *envelope) message(data []byte) []byte {
	data = data[len(e.head):]
	n := 1
	for data[n-1]&0x80 != 0 {
		n++
	}
	return data[n : len(data)-len(protoTail)]
}

func marshalJSON(v any) ([]byte, error) { return json.Marshal(v) }
