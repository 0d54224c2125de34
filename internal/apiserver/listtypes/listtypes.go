// Package listtypes tells how lists, maps and structs of built-in kinds are
// merged where their patch tags do not: the API's Go types say it in comments
// only. What is described (openapi) and what is applied (apply) are held
// against upstream by a test each.
//
// They are tables that nobody changes.
package listtypes

// List is how the items of a list are merged.
type List struct {
	Kind string   // "atomic", "set" or "map"
	Keys []string // of a map
}

// Of holds the lists by their type's name without "io.k8s.api." and
// "io.k8s.apimachinery.pkg.", and their field.
var Of = map[string]List{
	"io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinitionStatus.conditions": {"map", []string{"type"}},
	"admissionregistration.v1.ValidatingAdmissionPolicyBindingSpec.validationActions":                    {"set", nil},
	"admissionregistration.v1.ValidatingAdmissionPolicyStatus.conditions":                                {"map", []string{"type"}},
	"batch.v1.JobStatus.conditions":                                {"atomic", nil},
	"batch.v1.PodFailurePolicyOnExitCodesRequirement.values":       {"set", nil},
	"batch.v1.UncountedTerminatedPods.failed":                      {"set", nil},
	"batch.v1.UncountedTerminatedPods.succeeded":                   {"set", nil},
	"certificates.v1.CertificateSigningRequestStatus.conditions":   {"map", []string{"type"}},
	"core.v1.Container.ports":                                      {"map", []string{"containerPort", "protocol"}},
	"core.v1.ContainerRestartRuleOnExitCodes.values":               {"set", nil},
	"core.v1.EphemeralContainer.ports":                             {"map", []string{"containerPort", "protocol"}},
	"core.v1.NodeAllocatableResourceClaimStatus.containers":        {"set", nil},
	"core.v1.NodePodPreemptionPolicy.disableResizePreemption":      {"set", nil},
	"core.v1.PodSpec.topologySpreadConstraints":                    {"map", []string{"topologyKey", "whenUnsatisfiable"}},
	"core.v1.PodStatus.hostIPs":                                    {"atomic", nil},
	"core.v1.PodStatus.volumeHealth":                               {"map", []string{"name"}},
	"core.v1.PodVolumeHealth.healthConditions":                     {"map", []string{"status", "reason"}},
	"core.v1.ResourceRequirements.claims":                          {"map", []string{"name"}},
	"core.v1.ResourceStatus.resources":                             {"map", []string{"resourceID"}},
	"core.v1.ServiceSpec.ports":                                    {"map", []string{"port", "protocol"}},
	"core.v1.VolumeHealthStatus.healthConditions":                  {"map", []string{"status", "reason"}},
	"core.v1.VolumeMount.bindMountOptions":                         {"set", nil},
	"discovery.v1.Endpoint.addresses":                              {"set", nil},
	"flowcontrol.v1.NonResourcePolicyRule.nonResourceURLs":         {"set", nil},
	"flowcontrol.v1.NonResourcePolicyRule.verbs":                   {"set", nil},
	"flowcontrol.v1.ResourcePolicyRule.apiGroups":                  {"set", nil},
	"flowcontrol.v1.ResourcePolicyRule.namespaces":                 {"set", nil},
	"flowcontrol.v1.ResourcePolicyRule.resources":                  {"set", nil},
	"flowcontrol.v1.ResourcePolicyRule.verbs":                      {"set", nil},
	"resource.v1.AllocatedDeviceStatus.conditions":                 {"map", []string{"type"}},
	"resource.v1.DeviceRequestAllocationResult.skipNodeOperations": {"set", nil},
	"resource.v1.ResourceClaimStatus.devices":                      {"map", []string{"driver", "device", "pool", "shareID"}},
	"resource.v1.ResourceSliceSpec.skipNodeOperations":             {"set", nil},
	"storage.v1.CSIDriverSpec.volumeLifecycleModes":                {"set", nil},
}
