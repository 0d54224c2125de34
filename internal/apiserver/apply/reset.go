package apply

import (
	"strings"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/setpoint-project/setpoint/internal/kinds"
)

// What a request may not change, it does not come to own: the server puts
// those fields back. On the object itself that is the status, on the status it
// is the spec. These are the kinds that differ, by resource and subresource.
var resets = map[string][]string{
	"namespaces/finalize":     {"status"},
	"pods/status":             {"spec", "metadata.deletionTimestamp", "metadata.ownerReferences"},
	"deployments.apps/status": {"spec", "metadata.labels"},
	"certificatesigningrequests.certificates.k8s.io":          {"spec", "status"},
	"certificatesigningrequests.certificates.k8s.io/status":   {"spec", "status.conditions"},
	"certificatesigningrequests.certificates.k8s.io/approval": {"spec", "status.certificate"},
}

// bare are kinds whose status takes nothing of the metadata.
var bare = map[string]bool{
	"servicecidrs.networking.k8s.io":                           true,
	"podcertificaterequests.certificates.k8s.io":               true,
	"storageversionmigrations.storagemigration.k8s.io":         true,
	"resourceclaims.resource.k8s.io":                           true,
	"devicetaintrules.resource.k8s.io":                         true,
	"volumeattachments.storage.k8s.io":                         true,
	"flowschemas.flowcontrol.apiserver.k8s.io":                 true,
	"prioritylevelconfigurations.flowcontrol.apiserver.k8s.io": true,
	"validatingadmissionpolicies.admissionregistration.k8s.io": true,
	"customresourcedefinitions.apiextensions.k8s.io":           true,
	"apiservices.apiregistration.k8s.io":                       true,
	"podgroups.scheduling.k8s.io":                              true,
	"workloads.scheduling.k8s.io":                              true,
}

// only are subresources that change nothing but these fields, with "*" for
// each item of a list.
var only = map[string][]string{
	"pods/ephemeralcontainers": {"spec.ephemeralContainers"},
	"pods/resize": {
		"spec.containers.*.resources", "spec.containers.*.resizePolicy",
		"spec.initContainers.*.resources", "spec.initContainers.*.resizePolicy",
	},
}

// resetPaths are what a request may not change, and, where it may change only
// a few fields, those.
func resetPaths(k *kinds.Kind, sub string, custom bool) (not, but [][]string) {
	key := k.Resource.String()
	if sub != "" {
		key += "/" + sub
	}
	if paths := only[key]; paths != nil {
		return nil, split(paths)
	}
	paths, ok := resets[key]
	switch {
	case ok:
	case sub == "" && k.Subresources["status"] != nil:
		paths = []string{"status"}
	case sub == "status" && (custom || bare[k.Resource.String()]):
		paths = []string{"metadata", "spec"}
	case sub == "status":
		paths = []string{"spec"}
	}
	return split(paths), nil
}

// split makes keys of dotted paths.
func split(paths []string) [][]string {
	var out [][]string
	for _, p := range paths {
		keys := strings.Split(p, ".")
		for i := range keys {
			if keys[i] != "*" {
				keys[i] = "f:" + keys[i]
			}
		}
		out = append(out, keys)
	}
	return out
}

// filter is resetPaths for the merge library. Nil: a request may change all.
func filter(k *kinds.Kind, sub string, custom bool) fieldpath.Filter {
	not, but := resetPaths(k, sub, custom)
	if but != nil {
		matchers := make([]*fieldpath.SetMatcher, 0, len(but))
		for _, p := range but {
			parts := make([]any, len(p))
			for i, key := range p {
				if parts[i] = strings.TrimPrefix(key, "f:"); key == "*" {
					parts[i] = fieldpath.MatchAnyPathElement()
				}
			}
			matchers = append(matchers, fieldpath.MakePrefixMatcherOrDie(parts...))
		}
		return fieldpath.NewIncludeMatcherFilter(matchers...)
	}
	if len(not) == 0 {
		return nil
	}
	set := fieldpath.NewSet()
	for _, p := range not {
		var path fieldpath.Path
		for _, key := range p {
			path = append(path, fieldpath.PathElement{FieldName: ptr(strings.TrimPrefix(key, "f:"))})
		}
		set.Insert(path)
	}
	return fieldpath.NewExcludeSetFilter(set)
}
