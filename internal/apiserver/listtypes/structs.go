package listtypes

// AtomicStructs are structs that are written as a whole wherever they stand.
var AtomicStructs = map[string]bool{
	"admissionregistration.v1.MatchResources":          true,
	"admissionregistration.v1.NamedRuleWithOperations": true,
	"admissionregistration.v1.ParamKind":               true,
	"admissionregistration.v1.ParamRef":                true,
	"admissionregistration.v1.Variable":                true,
	"apis.meta.v1.LabelSelector":                       true,
	"apis.meta.v1.OwnerReference":                      true,
	"autoscaling.v1.CrossVersionObjectReference":       true,
	"core.v1.ConfigMapKeySelector":                     true,
	"core.v1.EndpointAddress":                          true,
	"core.v1.EndpointPort":                             true,
	"core.v1.EvictionResponder":                        true,
	"core.v1.FileKeySelector":                          true,
	"core.v1.LocalObjectReference":                     true,
	"core.v1.NodeSelector":                             true,
	"core.v1.NodeSelectorTerm":                         true,
	"core.v1.ObjectFieldSelector":                      true,
	"core.v1.ObjectReference":                          true,
	"core.v1.ResourceFieldSelector":                    true,
	"core.v1.ScopeSelector":                            true,
	"core.v1.SecretKeySelector":                        true,
	"core.v1.SecretReference":                          true,
	"core.v1.TopologySelectorTerm":                     true,
	"core.v1.TypedLocalObjectReference":                true,
	"discovery.v1.EndpointPort":                        true,
	"networking.v1.ServiceBackendPort":                 true,
	"rbac.v1.RoleRef":                                  true,
	"rbac.v1.Subject":                                  true,
}

// AtomicMaps are fields whose map or struct is written as a whole.
var AtomicMaps = map[string]bool{
	"core.v1.PodSpec.nodeSelector":               true,
	"core.v1.ReplicationControllerSpec.selector": true,
	"core.v1.ServiceSpec.selector":               true,
	"node.v1.Scheduling.nodeSelector":            true,
}

// Granular are fields of an atomic struct's type that are merged all the same.
var Granular = map[string]bool{
	"core.v1.PersistentVolumeSpec.claimRef": true,
}
