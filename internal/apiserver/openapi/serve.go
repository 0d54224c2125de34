package openapi

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	// protobufV2 is what clients ask for; the older spelling is no valid media
	// type, but most still use it.
	protobufV2    = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
	protobufV2Old = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
	jsonType      = "application/json"
)

func (h *Handler) serveV2(w http.ResponseWriter, r *http.Request) {
	if !readOnly(w, r) {
		return
	}
	s := h.snapshot()
	media := accepted(r, jsonType, protobufV2, protobufV2Old)
	switch media {
	case "":
		notAcceptable(w)
	case jsonType:
		send(w, r, jsonType, s.v2())
	default:
		send(w, r, protobufV2, s.v2pb())
	}
}

func (h *Handler) serveV3(w http.ResponseWriter, r *http.Request) {
	if !readOnly(w, r) {
		return
	}
	if accepted(r, jsonType) == "" {
		notAcceptable(w)
		return
	}
	s := h.snapshot()
	path := strings.Trim(strings.TrimPrefix(r.URL.Path, "/openapi/v3"), "/")
	if path == "" {
		body := s.index()
		w.Header().Set("Content-Type", jsonType)
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		if r.Method != http.MethodHead {
			_, _ = w.Write(body)
		}
		return
	}
	for i := range s.groups {
		if g := &s.groups[i]; g.path() == path {
			s.serveGroup(w, r, path, s.hash(g), func() document { return s.v3(g) })
			return
		}
	}
	if one := s.remote(path); one != nil {
		s.serveGroup(w, r, path, one.Hash, func() document { return s.v3Remote(one) })
		return
	}
	http.NotFound(w, r)
}

// serveGroup sends the document of a group version. One that was asked for by
// its hash never changes; a hash of the past leads to the present.
func (s *snapshot) serveGroup(w http.ResponseWriter, r *http.Request, path, hash string, doc func() document) {
	if given := r.URL.Query().Get("hash"); given != "" {
		if given != hash {
			http.Redirect(w, r, "/openapi/v3/"+path+"?hash="+hash, http.StatusMovedPermanently)
			return
		}
		w.Header().Set("Cache-Control", "public, immutable")
		w.Header().Set("Expires", time.Now().AddDate(1, 0, 0).UTC().Format(http.TimeFormat))
	}
	w.Header().Set("ETag", strconv.Quote(hash))
	if r.Header.Get("If-None-Match") == strconv.Quote(hash) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	send(w, r, jsonType, doc())
}

func readOnly(w http.ResponseWriter, r *http.Request) bool {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return true
	}
	w.Header().Set("Allow", "GET, HEAD")
	http.Error(w, "Method Not Allowed", http.StatusMethodNotAllowed)
	return false
}

func notAcceptable(w http.ResponseWriter) {
	http.Error(w, "only JSON, and for v2 protobuf, can be served", http.StatusNotAcceptable)
}

// accepted is the first of the client's types that is offered; the first
// offered for any. mime.ParseMediaType does not do: it rejects the older
// spelling of protobuf.
func accepted(r *http.Request, offered ...string) string {
	headers := r.Header.Values("Accept")
	if len(headers) == 0 {
		return offered[0]
	}
	for clause := range strings.SplitSeq(strings.Join(headers, ","), ",") {
		media, _, _ := strings.Cut(clause, ";")
		media = strings.TrimSpace(media)
		if media == "*/*" || media == "application/*" {
			return offered[0]
		}
		for _, o := range offered {
			if media == o {
				return o
			}
		}
	}
	return ""
}

func send(w http.ResponseWriter, r *http.Request, media string, d document) {
	h := w.Header()
	h.Set("Content-Type", media)
	h.Add("Vary", "Accept")
	h.Add("Vary", "Accept-Encoding")
	if takesGzip(r) {
		h.Set("Content-Encoding", "gzip")
		h.Set("Content-Length", strconv.Itoa(len(d.gzip)))
		if r.Method != http.MethodHead {
			_, _ = w.Write(d.gzip)
		}
		return
	}
	h.Set("Content-Length", strconv.Itoa(d.size))
	if r.Method != http.MethodHead {
		_ = d.writeTo(w)
	}
}

func takesGzip(r *http.Request) bool {
	for clause := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		name, quality, _ := strings.Cut(clause, ";")
		if strings.TrimSpace(name) == "gzip" && strings.ReplaceAll(quality, " ", "") != "q=0" {
			return true
		}
	}
	return false
}
