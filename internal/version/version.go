// Package version names what this binary is: which Kubernetes it serves, which
// Setpoint it is, and from which commit it was built. /version, OpenAPI and
// `setpoint version` say so.
//
// The commit comes from the linker (the Makefile sets Commit); a binary that
// `go build` made says what the toolchain saw of the repository.
package version

import "runtime/debug"

// Kubernetes is the version of the wire API.
const Kubernetes = "v1.37.2"

// Setpoint is the version of the project.
const Setpoint = "v0.1.0"

// Commit is the commit that the binary was built from; set by the linker, else
// what the Go toolchain recorded.
var Commit = ""

// Revision returns the commit, or "unknown".
func Revision() string {
	if Commit != "" {
		return Commit
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				return s.Value
			}
		}
	}
	return "unknown"
}
