// Package version names what this binary is.
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
