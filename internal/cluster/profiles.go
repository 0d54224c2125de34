package cluster

import (
	"net/http"
	"net/http/pprof"
)

// ProfilesPath is where Kubernetes' API server shows its profiles too. Like
// every path that no role names it is for administrators only.
const ProfilesPath = "/debug/pprof/"

// profiles serves what `go tool pprof` reads of this process.
func profiles() map[string]http.Handler {
	return map[string]http.Handler{
		ProfilesPath:             http.HandlerFunc(pprof.Index), // and each named profile below it
		ProfilesPath + "profile": http.HandlerFunc(pprof.Profile),
		ProfilesPath + "symbol":  http.HandlerFunc(pprof.Symbol),
		ProfilesPath + "trace":   http.HandlerFunc(pprof.Trace),
	}
}
