package apply

// What the API's Go types say in comments only, by the type's name without
// "io.k8s.api." and "io.k8s.apimachinery.pkg.", besides what package listtypes
// holds. A test holds all of it against the schemas that client-go publishes.

// keyDefaults are the values of keys of list items that leave them out.
var keyDefaults = map[string]any{
	"core.v1.ContainerPort.protocol": "TCP",
	"core.v1.ServicePort.protocol":   "TCP",
}

// opaque are fields that may hold anything and are written as a whole.
var opaque = map[string]bool{
	"apps.v1.ControllerRevision.data":                  true,
	"resource.v1.AllocatedDeviceStatus.data":           true,
	"resource.v1.OpaqueDeviceConfiguration.parameters": true,
}
