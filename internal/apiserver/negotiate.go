package apiserver

import (
	"net/http"
	"strconv"
	"strings"
)

// presentation is how a client wants its answer.
type presentation struct {
	medium medium
	as     shape
	pretty bool
}

// shape is into what objects are turned for an answer.
type shape uint8

const (
	asObject shape = iota
	asTable
	asMetadata
)

// acceptedTypes are those that a refusal names: CBOR is served, but upstream
// does not name it unless it was turned on.
const (
	acceptedTypes        = acceptedWithoutProto + ", " + typeProto
	acceptedWithoutProto = typeJSON + ", " + typeYAML // custom objects
)

// negotiate reads the Accept header: the first clause, by weight, that this
// server can serve wins. Custom objects have no protobuf form; their metadata
// has.
func negotiate(r *http.Request, streaming, hasProto bool) (presentation, error) {
	accept := r.Header.Get("Accept")
	switch accept { // nearly all requests
	case "", "*/*", typeJSON, typeJSON + ", */*":
		return presentation{pretty: wantsPretty(r)}, nil
	case typeProto, typeProto + "," + typeJSON:
		if hasProto {
			return presentation{medium: mediumProto}, nil
		}
	}
	best, bestQ, found := presentation{}, -1.0, false
	for clause := range strings.SplitSeq(accept, ",") {
		p, q, ok := parseClause(clause, streaming)
		if ok && p.medium == mediumProto && p.as == asObject && !hasProto {
			continue
		}
		if ok && q > bestQ {
			best, bestQ, found = p, q, true
		}
	}
	switch {
	case found:
	case hasProto:
		return presentation{}, errNotAcceptable(acceptedTypes)
	case streaming:
		return presentation{}, errNotAcceptable(typeJSON)
	default:
		return presentation{}, errNotAcceptable(acceptedWithoutProto)
	}
	best.pretty = wantsPretty(r)
	return best, nil
}

func parseClause(clause string, streaming bool) (p presentation, q float64, ok bool) {
	mediaType, params, _ := strings.Cut(clause, ";")
	switch strings.TrimSpace(mediaType) {
	case typeJSON, "*/*", "application/*":
	case typeProto:
		p.medium = mediumProto
	case typeCBOR:
		p.medium = mediumCBOR
	case typeCBORSeq:
		if !streaming {
			return p, 0, false
		}
		p.medium = mediumCBOR
	case typeYAML, "application/x-yaml", "text/yaml":
		if streaming {
			return p, 0, false
		}
		p.medium = mediumYAML
	default:
		return p, 0, false
	}
	q = 1
	var as, g, v string
	for param := range strings.SplitSeq(params, ";") {
		key, value, _ := strings.Cut(strings.TrimSpace(param), "=")
		switch key {
		case "q":
			if f, err := strconv.ParseFloat(value, 64); err == nil {
				q = f
			}
		case "as":
			as = value
		case "g":
			g = value
		case "v":
			v = value
		case "profile":
			return p, 0, false
		}
	}
	switch as {
	case "":
		return p, q, true
	case "Table":
		p.as = asTable
	case "PartialObjectMetadata", "PartialObjectMetadataList":
		p.as = asMetadata
	default:
		return p, 0, false
	}
	return p, q, g == "meta.k8s.io" && v == "v1" && !(p.as == asTable && p.medium == mediumProto)
}

// wantsPretty: people with curl read indented JSON.
func wantsPretty(r *http.Request) bool {
	if r.URL.RawQuery != "" && strings.Contains(r.URL.RawQuery, "pretty=") {
		v := r.URL.Query().Get("pretty")
		return v == "true" || v == "1"
	}
	ua := r.UserAgent()
	return strings.HasPrefix(ua, "curl") || strings.HasPrefix(ua, "Wget") || strings.HasPrefix(ua, "Mozilla/5.0")
}

// bodyMedium reads the Content-Type of a request with an object in it.
func bodyMedium(r *http.Request) (medium, error) {
	ct := r.Header.Get("Content-Type")
	switch ct {
	case "", typeJSON:
		return mediumJSON, nil
	case typeProto:
		return mediumProto, nil
	}
	ct, _, _ = strings.Cut(ct, ";")
	switch strings.TrimSpace(ct) {
	case typeJSON:
		return mediumJSON, nil
	case typeProto:
		return mediumProto, nil
	case typeYAML, "application/x-yaml", "text/yaml":
		return mediumYAML, nil
	case typeCBOR:
		return mediumCBOR, nil
	}
	return 0, errUnsupportedMediaType(acceptedTypes)
}
