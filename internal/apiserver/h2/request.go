package h2

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// newStream makes the request that a header describes; false: it is malformed.
func (c *conn) newStream(f *http2.MetaHeadersFrame) (*stream, bool) {
	st := &stream{c: c, id: f.StreamID, declared: -1}
	st.cond.L = &c.mu
	req := &http.Request{Proto: "HTTP/2.0", ProtoMajor: 2, RemoteAddr: c.remote, TLS: &c.state, Header: make(http.Header, len(f.Fields))}
	var scheme, path string
	for _, field := range f.PseudoFields() { // known, and each once: the framer saw to that
		switch field.Name {
		case ":method":
			req.Method = field.Value
		case ":scheme":
			scheme = field.Value
		case ":path":
			path = field.Value
		case ":authority":
			req.Host = field.Value
		}
	}
	if !takeFields(req, f.RegularFields()) {
		return nil, false
	}
	if req.Host == "" {
		req.Host = req.Header.Get("Host")
	}
	delete(req.Header, "Host")
	if !st.takeTarget(req, scheme, path) || !st.takeLength(req, f.StreamEnded()) {
		return nil, false
	}
	for _, v := range req.Header["Trailer"] {
		for name := range strings.SplitSeq(v, ",") {
			name = http.CanonicalHeaderKey(strings.TrimSpace(name))
			if httpguts.ValidTrailerHeader(name) {
				if req.Trailer == nil {
					req.Trailer = http.Header{}
				}
				req.Trailer[name] = nil
			}
		}
	}
	delete(req.Header, "Trailer")
	if f.StreamEnded() {
		req.Body = http.NoBody
	} else {
		req.Body = (*body)(st)
		if httpguts.HeaderValuesContainsToken(req.Header["Expect"], "100-continue") {
			st.awaited = true
			delete(req.Header, "Expect")
		}
	}
	ctx, cancel := context.WithCancel(c.ctx)
	st.cancel = cancel
	st.req = req.WithContext(ctx)
	st.answer = answer{head: req.Method == http.MethodHead, length: -1}
	if f.Truncated {
		st.refuse = http.StatusRequestHeaderFieldsTooLarge
	}
	return st, true
}

// takeFields fills in the header (8.2).
func takeFields(req *http.Request, fields []hpack.HeaderField) bool {
	values := make([]string, len(fields)) // of all, in one place
	for i, field := range fields {
		key := http.CanonicalHeaderKey(field.Name)
		switch key {
		case "Connection", "Proxy-Connection", "Keep-Alive", "Transfer-Encoding", "Upgrade":
			return false // 8.2.2
		case "Te":
			if field.Value != "trailers" {
				return false
			}
		}
		have := req.Header[key]
		switch {
		case have == nil:
			values[i] = field.Value
			req.Header[key] = values[i : i+1 : i+1]
		default:
			req.Header[key] = append(have, field.Value)
		}
	}
	if pieces := req.Header["Cookie"]; len(pieces) > 1 { // 8.2.3; at once, for there may be thousands
		req.Header["Cookie"] = []string{strings.Join(pieces, "; ")}
	}
	return true
}

// takeTarget is what the request asks for (8.3.1).
func (st *stream) takeTarget(req *http.Request, scheme, path string) bool {
	if req.Method == http.MethodConnect {
		if scheme != "" || path != "" || req.Host == "" {
			return false // 8.5
		}
		req.URL, req.RequestURI = &url.URL{Host: req.Host}, req.Host
		return true
	}
	if req.Method == "" || path == "" || scheme != "https" && scheme != "http" || req.Host != "" && !httpguts.ValidHostHeader(req.Host) {
		return false
	}
	var err error
	req.URL, err = url.ParseRequestURI(path)
	req.RequestURI = path
	return err == nil
}

// takeLength is what the header says of the body.
func (st *stream) takeLength(req *http.Request, bodiless bool) bool {
	all := req.Header["Content-Length"]
	if len(all) == 0 {
		if req.ContentLength = -1; bodiless {
			req.ContentLength = 0
		}
		return true
	}
	n, err := strconv.ParseUint(all[0], 10, 63)
	if err != nil || slices.ContainsFunc(all, func(s string) bool { return s != all[0] }) {
		return false
	}
	st.declared, req.ContentLength = int64(n), int64(n)
	return !bodiless || n == 0
}

// takeTrailersLocked keeps what came behind the body of what was announced.
func (st *stream) takeTrailersLocked(fields []hpack.HeaderField) {
	for _, field := range fields {
		key := http.CanonicalHeaderKey(field.Name)
		if _, ok := st.req.Trailer[key]; ok {
			if st.trailers == nil {
				st.trailers = http.Header{}
			}
			st.trailers[key] = append(st.trailers[key], field.Value)
		}
	}
}

// giveTrailersLocked shows them to the handler, who has read the body.
func (st *stream) giveTrailersLocked() {
	for key, values := range st.trailers {
		st.req.Trailer[key] = values
	}
	st.trailers = nil
}
