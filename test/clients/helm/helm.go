//go:build helm

// Package helm pins the helm that the tests of clients run, in a module of its
// own that requires what setpoint's does at the same versions: most of what it
// is built from has been built for setpoint. The tag is never set; helm is built
// by its own path.
package helm

import _ "helm.sh/helm/v4/cmd/helm"
