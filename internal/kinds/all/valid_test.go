package all

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-project/setpoint/internal/kinds"
)

// valid has an object of every kind that is stored, as small as its rules
// allow, and with more where fields have a fixed set of values. Three more,
// with certificates, are made by validOf.
var valid = map[string]string{
	"ConfigMap": `{data: {a: b}}`, "Secret": `{type: Opaque, data: {a: Yg==}}`, "ServiceAccount": `{}`, "Namespace": `{}`, "Node": `{spec: {taints: [{key: a, effect: NoSchedule}]}}`,
	"Endpoints":  `{subsets: [{addresses: [{ip: 10.0.0.1}], ports: [{port: 1}]}]}`,
	"Event":      `{metadata: {name: e}, involvedObject: {namespace: default, kind: Pod, name: p}, type: Normal}`,
	"LimitRange": `{spec: {limits: [{type: Container, max: {cpu: 1}}]}}`, "ResourceQuota": `{spec: {hard: {pods: 1}, scopes: [BestEffort]}}`,
	"PersistentVolume":      `{spec: {csi: {driver: d, volumeHandle: h}, accessModes: [ReadWriteOnce], capacity: {storage: 1Gi}}}`,
	"PersistentVolumeClaim": `{spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}`,
	"Pod":                   `{spec: {containers: [{name: c, image: i, ports: [{containerPort: 1}]}]}}`, "PodTemplate": `{template: {spec: {containers: [{name: c, image: i}]}}}`,
	"ReplicationController": `{spec: {selector: {a: b}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}}`,
	"Service":               `{spec: {clusterIP: 10.43.0.1, clusterIPs: [10.43.0.1], ports: [{port: 80}]}}`,
	"ControllerRevision":    `{revision: 1, data: {a: b}}`,
	"Deployment":            `{spec: {` + workload + `}}`, "ReplicaSet": `{spec: {` + workload + `}}`, "DaemonSet": `{spec: {` + workload + `}}`, "StatefulSet": `{spec: {` + workload + `}}`,
	"Job": `{` + jobMeta + `spec: {` + jobTemplate + `}}`, "CronJob": `{spec: {schedule: "* * * * *", jobTemplate: {spec: {` + jobTemplate + `}}}}`,
	"HorizontalPodAutoscaler": `{spec: {scaleTargetRef: {kind: Deployment, name: d}, maxReplicas: 3}}`, "PodDisruptionBudget": `{spec: {minAvailable: 1, unhealthyPodEvictionPolicy: AlwaysAllow}}`,
	"Ingress":       `{spec: {rules: [{http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: s, port: {number: 80}}}}]}}]}}`,
	"IngressClass":  `{spec: {controller: a.example/b, parameters: {kind: K, name: k}}}`,
	"NetworkPolicy": `{spec: {podSelector: {}, ingress: [{ports: [{port: 80}]}]}}`, "ServiceCIDR": `{spec: {cidrs: [10.0.0.0/16]}}`,
	"IPAddress": `{metadata: {name: 10.0.0.1}, spec: {parentRef: {resource: services, name: s}}}`,
	"Role":      `{rules: [{verbs: [get], apiGroups: [""], resources: [pods]}]}`, "ClusterRole": `{rules: [{verbs: [get], apiGroups: [""], resources: [pods]}]}`,
	"RoleBinding":        `{roleRef: {kind: ClusterRole, name: r}, subjects: [{kind: User, name: u}]}`,
	"ClusterRoleBinding": `{roleRef: {kind: ClusterRole, name: r}, subjects: [{kind: User, name: u}]}`,
	"PriorityClass":      `{value: 1}`, "RuntimeClass": `{handler: h}`, "Lease": `{spec: {holderIdentity: h}}`,
	"StorageClass": `{provisioner: p}`, "VolumeAttributesClass": `{driverName: d, parameters: {a: b}}`, "CSIDriver": `{}`, "CSIStorageCapacity": `{storageClassName: s}`,
	"CSINode": `{spec: {drivers: [{name: d, nodeID: i}]}}`, "VolumeAttachment": `{spec: {attacher: a, nodeName: node, source: {persistentVolumeName: v}}}`,
	"EndpointSlice": `{addressType: IPv4, endpoints: [{addresses: [10.0.0.1]}], ports: [{port: 1}]}`,
	"FlowSchema":    `{spec: {priorityLevelConfiguration: {name: p}, distinguisherMethod: {type: ByUser}}}`, "PriorityLevelConfiguration": `{spec: {type: Limited, limited: {limitResponse: {type: Reject}}}}`,
	"StorageVersionMigration": `{spec: {resource: {resource: pods}}}`,
	"ResourceClaim":           `{spec: {devices: {requests: [{name: a, exactly: {deviceClassName: c, tolerations: [{key: k}]}}]}}}`,
	"ResourceClaimTemplate":   `{spec: {spec: {devices: {requests: [{name: a, exactly: {deviceClassName: c}}]}}}}`,
	"ResourceSlice":           `{spec: {driver: d, nodeName: node, pool: {name: p, resourceSliceCount: 1}}}`, "DeviceClass": `{}`, "DeviceTaintRule": `{spec: {taint: {key: k, effect: NoExecute}}}`,
	"ValidatingWebhookConfiguration":   `{webhooks: [{name: a.b.example, sideEffects: None, admissionReviewVersions: [v1], clientConfig: {url: "https://a.example"}}]}`,
	"MutatingWebhookConfiguration":     `{webhooks: [{name: a.b.example, sideEffects: None, admissionReviewVersions: [v1], clientConfig: {url: "https://a.example"}}]}`,
	"ValidatingAdmissionPolicy":        `{spec: {` + matchPods + `, validations: [{expression: "true"}]}}`,
	"ValidatingAdmissionPolicyBinding": `{spec: {policyName: p, validationActions: [Deny]}}`,
	"MutatingAdmissionPolicy":          `{spec: {reinvocationPolicy: Never, ` + matchPods + `, mutations: [{patchType: JSONPatch, jsonPatch: {expression: '[JSONPatch{op: "remove", path: "/a"}]'}}]}}`,
	"MutatingAdmissionPolicyBinding":   `{spec: {policyName: p}}`,
	"CustomResourceDefinition": `{metadata: {name: widgets.a.example}, spec: {group: a.example, scope: Namespaced, names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList},
		versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]}}`,
	"APIService": `{metadata: {name: v1.a.example}, spec: {group: a.example, version: v1, groupPriorityMinimum: 1, versionPriority: 1, insecureSkipTLSVerify: true, service: {namespace: default, name: s}}}`,
}

const (
	workload  = `selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}`
	matchPods = `matchConstraints: {resourceRules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods]}]}`
)

// validOf makes the valid object of a kind as a server stores it.
func validOf(t *testing.T, k *kinds.Kind) kinds.Object {
	t.Helper()
	text := valid[k.Kind]
	switch k.Kind {
	case "CertificateSigningRequest":
		request, _ := signed(t)
		text = `{spec: {request: ` + base64.StdEncoding.EncodeToString(request) + `, signerName: a.example/b, usages: [client auth]}}`
	case "PodCertificateRequest":
		text = podRequest(t)
	case "ClusterTrustBundle":
		_, certificate := signed(t)
		text = "metadata: {name: b}\nspec:\n    trustBundle: " + indent(certificate)
	}
	if text == "" {
		t.Fatalf("no valid %s is listed", k.Kind)
	}
	obj := read(t, k, text)
	if k.PrepareCreate != nil {
		k.PrepareCreate(context.Background(), obj)
	}
	return obj
}

func stored(k *kinds.Kind) bool { return k.StoragePrefix != "" }

// TestUpdateWithoutChange: what was accepted is accepted again, and stays as
// it is.
func TestUpdateWithoutChange(t *testing.T) {
	ctx := context.Background()
	for _, k := range Kinds() {
		if !stored(k) {
			continue
		}
		t.Run(k.Kind, func(t *testing.T) {
			old := validOf(t, k)
			if k.Validate != nil {
				if errs := k.Validate(ctx, old); len(errs) > 0 {
					t.Fatal(errs)
				}
			}
			obj := clone(old)
			if d := k.HubVersion().Default; d != nil {
				d(obj)
			}
			if k.PrepareUpdate != nil {
				k.PrepareUpdate(ctx, obj, old)
			}
			if k.ValidateUpdate != nil {
				if errs := k.ValidateUpdate(ctx, obj, old); len(errs) > 0 {
					t.Error(errs)
				}
			}
			if diff := differ(old, obj); diff != "" {
				t.Errorf("the update changes the object:\n%s", diff)
			}
		})
	}
}

// open are types of texts with constants for some values, of which there may
// be others.
var open = []any{types.UID(""), corev1.SecretType(""), corev1.ResourceName("")}

// TestEnums puts a value that nobody knows into each field of a type with
// constants, as far as the valid objects have it.
func TestEnums(t *testing.T) {
	ctx := context.Background()
	tried := 0
	for _, k := range Kinds() {
		if !stored(k) || k.Validate == nil {
			continue
		}
		obj := validOf(t, k)
		var walk func(path string, v reflect.Value)
		walk = func(path string, v reflect.Value) {
			switch v.Kind() {
			case reflect.Pointer:
				if !v.IsNil() {
					walk(path, v.Elem())
				}
			case reflect.Slice:
				if v.Len() > 0 {
					walk(path+"[]", v.Index(0))
				}
			case reflect.Struct:
				for i := range v.NumField() {
					if f := v.Type().Field(i); f.IsExported() && f.Name != "ObjectMeta" && f.Name != "Status" {
						walk(path+"."+f.Name, v.Field(i))
					}
				}
			case reflect.String:
				of := v.Type()
				if v.String() == "" || !strings.HasPrefix(of.PkgPath(), "k8s.io/api") || slices.ContainsFunc(open, func(o any) bool { return reflect.TypeOf(o) == of }) {
					return
				}
				before := v.String()
				v.SetString("NoSuchValue")
				if len(k.Validate(ctx, obj)) == 0 {
					t.Errorf("%s%s: any %v is accepted", k.Kind, path, of)
				}
				v.SetString(before)
				tried++
			}
		}
		walk("", reflect.ValueOf(obj).Elem())
	}
	if tried < 100 {
		t.Errorf("only %d fields were tried", tried)
	}
}

var update = flag.Bool("update", false, "rewrite testdata/required.txt from SETPOINT_OPENAPI")

// TestRequired: an object that lacks a field that it must have is refused.
// Which fields these are stands in testdata/required.txt, a line "Kind path",
// as far as the valid objects have them; with SETPOINT_OPENAPI, a folder with
// upstream's OpenAPI v3 documents, the list is made anew and compared.
func TestRequired(t *testing.T) {
	const file = "testdata/required.txt"
	var lines []string
	if dir := os.Getenv("SETPOINT_OPENAPI"); dir != "" {
		lines = requiredBy(t, dir)
		if *update {
			if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	listed := strings.Split(strings.TrimSpace(string(data)), "\n")
	if lines != nil {
		if diff := cmp.Diff(listed, lines); diff != "" {
			t.Errorf("%s differs from the documents (-listed +documents):\n%s", file, diff)
		}
	}
	for _, line := range listed {
		name, path, _ := strings.Cut(line, " ")
		k := kindOf(t, name)
		obj := asMap(t, validOf(t, k))
		remove(obj, path)
		text, err := json.Marshal(obj)
		if err != nil {
			t.Fatal(err)
		}
		bad := k.HubVersion().New()
		if err := json.Unmarshal(text, bad); err != nil {
			t.Fatal(err)
		}
		refused := k.Validate != nil && len(k.Validate(context.Background(), bad)) > 0
		if refused == slices.Contains(optional, line) {
			t.Errorf("%s: refused without: %t", line, refused)
		}
	}
}

// optional are fields that the documents call required and that upstream does
// without: lists that may be empty, and zeros that are values.
var optional = []string{
	"CSINode spec.drivers",
	"CustomResourceDefinition spec.versions[].served",
	"Event involvedObject", // in the namespace "default"
	"LimitRange spec.limits",
	"ResourceSlice spec.pool.generation",
	"StorageVersionMigration spec.resource.group",
}

func asMap(t *testing.T, obj kinds.Object) map[string]any {
	t.Helper()
	data, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// remove removes the field at a path such as "spec.ports[].port" from the first
// item of each list.
func remove(obj map[string]any, path string) {
	name, rest, deeper := strings.Cut(path, ".")
	if !deeper {
		delete(obj, name)
		return
	}
	name, list := strings.CutSuffix(name, "[]")
	next := obj[name]
	if list {
		next = next.([]any)[0]
	}
	remove(next.(map[string]any), rest)
}

// schemaDoc is what is read of a schema.
type schemaDoc struct {
	Required   []string
	Properties map[string]*schemaDoc
	Items      *schemaDoc
	AllOf      []*schemaDoc
	Ref        string                                  `json:"$ref"`
	GVKs       []struct{ Group, Version, Kind string } `json:"x-kubernetes-group-version-kind"`
}

func requiredBy(t *testing.T, dir string) (out []string) {
	t.Helper()
	schemas := map[string]*schemaDoc{}
	files, err := filepath.Glob(filepath.Join(dir, "*_openapi.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var doc struct {
			Components struct{ Schemas map[string]*schemaDoc }
		}
		if err := json.Unmarshal(data, &doc); err != nil {
			t.Fatal(err)
		}
		for name, s := range doc.Components.Schemas {
			schemas["#/components/schemas/"+name] = s
		}
	}
	resolve := func(s *schemaDoc) *schemaDoc {
		for s != nil && (s.Ref != "" || len(s.AllOf) == 1 && s.Properties == nil) {
			if s.Ref == "" {
				s = s.AllOf[0]
			} else {
				s = schemas[s.Ref]
			}
		}
		return s
	}
	var walk func(kind, path string, s *schemaDoc, value any)
	walk = func(kind, path string, s *schemaDoc, value any) {
		if s = resolve(s); s == nil {
			return
		}
		switch value := value.(type) {
		case []any:
			if len(value) > 0 {
				walk(kind, path+"[]", s.Items, value[0])
			}
		case map[string]any:
			for name, field := range value {
				at := strings.TrimPrefix(path+"."+name, ".")
				if slices.Contains(s.Required, name) && (path != "" || name != "spec") {
					out = append(out, kind+" "+at)
				}
				walk(kind, at, s.Properties[name], field)
			}
		}
	}
	for _, k := range Kinds() {
		if !stored(k) {
			continue
		}
		gvk := k.GVK()
		for _, s := range schemas {
			for _, g := range s.GVKs {
				if g.Group == gvk.Group && g.Version == gvk.Version && g.Kind == gvk.Kind && len(s.GVKs) == 1 {
					obj := asMap(t, validOf(t, k))
					for _, name := range []string{"metadata", "status", "kind", "apiVersion"} {
						delete(obj, name)
					}
					walk(k.Kind, "", s, obj)
				}
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
