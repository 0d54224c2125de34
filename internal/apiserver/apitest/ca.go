package apitest

import (
	"encoding/pem"
	"net/http/httptest"
)

// caOf is the certificate of a test server, as a client wants it.
func caOf(s *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}
