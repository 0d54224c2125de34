package env

import (
	"context"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestExpand(t *testing.T) {
	vars := map[string]string{"A": "1", "B_C": "two", "EMPTY": ""}
	for in, want := range map[string]string{
		"plain": "plain", "$(A)": "1", "x$(A)y$(B_C)z": "x1ytwoz", "$(EMPTY)": "", "$(NONE)": "$(NONE)",
		"$$(A)": "$(A)", "$$$(A)": "$1", "$A": "$A", "$": "$", "$$": "$", "$(A": "$(A", "a$": "a$", "$(A)$": "1$", "$()": "$()",
	} {
		if got := Expand(in, vars); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
}

func FuzzExpand(f *testing.F) {
	f.Add("$(A)$$(A)$")
	f.Fuzz(func(t *testing.T, in string) {
		got := Expand(in, map[string]string{"A": "1"})
		if !strings.Contains(in, "$") && got != in {
			t.Errorf("%q became %q", in, got)
		}
	})
}

var sources = Sources{
	ConfigMap: func(_ context.Context, ns, name string) (*v1.ConfigMap, error) {
		if name != "cm" {
			return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, name)
		}
		return &v1.ConfigMap{Data: map[string]string{"K": "v", "bad key": "x"}}, nil
	},
	Secret: func(_ context.Context, ns, name string) (*v1.Secret, error) {
		if name != "sec" {
			return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, name)
		}
		return &v1.Secret{Data: map[string][]byte{"S": []byte("hidden")}}, nil
	},
	Services: func(ns string) []*v1.Service {
		svc := func(name, ip string, ports ...v1.ServicePort) *v1.Service {
			return &v1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.ServiceSpec{ClusterIP: ip, Ports: ports}}
		}
		if ns == "default" {
			return []*v1.Service{svc("kubernetes", "10.96.0.1", v1.ServicePort{Name: "https", Port: 443}), svc("other", "10.96.0.9", v1.ServicePort{Port: 1})}
		}
		return []*v1.Service{svc("my-db", "10.96.0.2", v1.ServicePort{Port: 5432, Protocol: v1.ProtocolTCP}), svc("headless", "None", v1.ServicePort{Port: 1}), svc("six", "fd00:43::6", v1.ServicePort{Name: "web", Port: 80})}
	},
}

func ns(name string) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: name, UID: "u", Labels: map[string]string{"a": "b"}}, Spec: v1.PodSpec{NodeName: "n"}}
}

func made(t *testing.T, pod *v1.Pod, c *v1.Container) map[string]string {
	t.Helper()
	vars, _, err := Make(t.Context(), sources, pod, c, Pod{IPs: []string{"10.0.0.1", "fd00::1"}, HostIPs: []string{"192.0.2.1", "fd00::2"},
		Allocatable: v1.ResourceList{v1.ResourceMemory: resource.MustParse("1Gi")}})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, v := range vars {
		out[v.Name] = v.Value
	}
	return out
}

func TestMake(t *testing.T) {
	field := func(path string) *v1.EnvVarSource {
		return &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: path}}
	}
	res := func(name, divisor string) *v1.EnvVarSource {
		return &v1.EnvVarSource{ResourceFieldRef: &v1.ResourceFieldSelector{Resource: name, Divisor: resource.MustParse(divisor)}}
	}
	c := &v1.Container{
		Resources: v1.ResourceRequirements{Limits: v1.ResourceList{v1.ResourceCPU: resource.MustParse("1500m")}, Requests: v1.ResourceList{v1.ResourceMemory: resource.MustParse("100Mi")}},
		EnvFrom: []v1.EnvFromSource{{Prefix: "P_", ConfigMapRef: &v1.ConfigMapEnvSource{LocalObjectReference: v1.LocalObjectReference{Name: "cm"}}},
			{SecretRef: &v1.SecretEnvSource{LocalObjectReference: v1.LocalObjectReference{Name: "sec"}}}},
		Env: []v1.EnvVar{
			{Name: "A", Value: "1"}, {Name: "B", Value: "$(A)-$(P_K)-$(LATER)-$(MY_DB_SERVICE_HOST)"}, {Name: "LATER", Value: "x"},
			{Name: "IP", ValueFrom: field("status.podIP")}, {Name: "IPS", ValueFrom: field("status.podIPs")}, {Name: "HOST", ValueFrom: field("status.hostIP")}, {Name: "HOSTS", ValueFrom: field("status.hostIPs")},
			{Name: "LABEL", ValueFrom: field("metadata.labels['a']")}, {Name: "NODE", ValueFrom: field("spec.nodeName")},
			{Name: "CPU", ValueFrom: res("limits.cpu", "1")}, {Name: "MILLI", ValueFrom: res("limits.cpu", "1m")}, {Name: "MEM", ValueFrom: res("requests.memory", "1Mi")}, {Name: "NOLIMIT", ValueFrom: res("limits.memory", "1Mi")},
		},
	}
	got := made(t, ns("here"), c)
	for k, want := range map[string]string{
		"P_K": "v", "S": "hidden", "B": "1-v-$(LATER)-10.96.0.2", "IP": "10.0.0.1", "IPS": "10.0.0.1,fd00::1", "HOST": "192.0.2.1", "HOSTS": "192.0.2.1,fd00::2", "LABEL": "b", "NODE": "n",
		"CPU": "2", "MILLI": "1500", "MEM": "100", "NOLIMIT": "1024",
		"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT_HTTPS": "443", "KUBERNETES_PORT_443_TCP_PROTO": "tcp",
		"MY_DB_PORT": "tcp://10.96.0.2:5432", "MY_DB_PORT_5432_TCP_ADDR": "10.96.0.2",
		"SIX_SERVICE_HOST": "fd00:43::6", "SIX_PORT": "tcp://[fd00:43::6]:80", "SIX_PORT_80_TCP": "tcp://[fd00:43::6]:80", "SIX_PORT_80_TCP_ADDR": "fd00:43::6",
	} {
		if got[k] != want {
			t.Errorf("%s is %q, want %q", k, got[k], want)
		}
	}
	for k := range got {
		if strings.HasPrefix(k, "OTHER_") || strings.HasPrefix(k, "HEADLESS_") {
			t.Errorf("%s is there", k)
		}
	}
	no := false
	p := ns("here")
	p.Spec.EnableServiceLinks = &no
	got = made(t, p, &v1.Container{})
	if got["KUBERNETES_SERVICE_HOST"] == "" || got["MY_DB_SERVICE_HOST"] != "" {
		t.Errorf("without service links: %v", got)
	}
}

func TestMissing(t *testing.T) {
	yes := true
	ref := func(name, key string, optional *bool) *v1.Container {
		return &v1.Container{Env: []v1.EnvVar{{Name: "V", ValueFrom: &v1.EnvVarSource{ConfigMapKeyRef: &v1.ConfigMapKeySelector{
			LocalObjectReference: v1.LocalObjectReference{Name: name}, Key: key, Optional: optional}}}}}
	}
	for i, c := range []struct {
		c   *v1.Container
		err string
	}{
		{ref("none", "K", nil), `configmaps "none" not found`}, {ref("none", "K", &yes), ""},
		{ref("cm", "none", nil), "couldn't find key none in ConfigMap here/cm"}, {ref("cm", "none", &yes), ""},
	} {
		_, _, err := Make(t.Context(), sources, ns("here"), c.c, Pod{})
		if (err == nil) != (c.err == "") || err != nil && err.Error() != c.err {
			t.Errorf("case %d: %v, want %q", i, err, c.err)
		}
	}
}
