// Package gates makes known a feature gate that a test of the suite names and
// that the whole suite learns of from the kubelet's server, which the small part
// does without. It has to be known before the package of that test begins: Go
// starts packages in the order of their import paths, as soon as what they import
// has started, and this one's path comes first.
package gates

import (
	"k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/metrics/features"
)

func init() {
	if err := features.AddFeatureGates(feature.DefaultMutableFeatureGate); err != nil {
		panic(err)
	}
}
