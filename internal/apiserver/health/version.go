package health

import (
	"encoding/json"
	"net/http"
	"runtime"

	apiversion "k8s.io/apimachinery/pkg/version"
)

// Kubernetes is the version of the API that is served.
const (
	kubernetesVersion = "v1.37.2"
	kubernetesMajor   = "1"
	kubernetesMinor   = "37"
)

// Build says which build of Setpoint this is; all may be empty.
type Build struct {
	Version string // v0.1.0
	Commit  string
	Date    string // RFC 3339
	Dirty   bool
}

// versionInfo is what /version tells: the version of the API, with Setpoint's
// own as build metadata, so that clients that compare versions see 1.37.2.
func versionInfo(b Build) apiversion.Info {
	state := "clean"
	if b.Dirty {
		state = "dirty"
	}
	v := kubernetesVersion + "+setpoint"
	if b.Version != "" {
		v += "." + cleaned(b.Version)
	}
	return apiversion.Info{
		Major:                 kubernetesMajor,
		Minor:                 kubernetesMinor,
		EmulationMajor:        kubernetesMajor,
		EmulationMinor:        kubernetesMinor,
		MinCompatibilityMajor: kubernetesMajor,
		MinCompatibilityMinor: "36",
		GitVersion:            v,
		GitCommit:             b.Commit,
		GitTreeState:          state,
		BuildDate:             b.Date,
		GoVersion:             runtime.Version(),
		Compiler:              runtime.Compiler,
		Platform:              runtime.GOOS + "/" + runtime.GOARCH,
	}
}

// cleaned leaves what semantic versioning allows in build metadata.
func cleaned(s string) string {
	out := []byte(s)
	for i, c := range out {
		switch {
		case c >= '0' && c <= '9', c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c == '.', c == '-':
		default:
			out[i] = '-'
		}
	}
	return string(out)
}

// Version serves /version.
func Version(b Build) http.Handler {
	body, err := json.MarshalIndent(versionInfo(b), "", "  ")
	if err != nil {
		panic(err) // strings can always be written
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "Method Not Allowed", http.StatusMethodNotAllowed)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-cache, private")
		_, _ = w.Write(body)
	})
}
