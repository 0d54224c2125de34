package crd_test

import (
	"context"
	"encoding/pem"
	"fmt"
	"testing"
	"testing/synctest"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
	"github.com/setpoint-project/setpoint/internal/apiserver/crd"
	"github.com/setpoint-project/setpoint/internal/client"
)

// world is a server in a bubble, and its administrator.
type world struct {
	*testing.T
	*apitest.Harness
	client.Interface
	ctx context.Context
}

// inBubble runs f against a server.
func inBubble(t *testing.T, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := apitest.New(t, apitest.Options{})
		f(&world{T: t, Harness: h, Interface: h.Client("admin"), ctx: t.Context()})
	})
}

// definition reads a definition from YAML.
func definition(t testing.TB, text string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	d := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict([]byte(text), d); err != nil {
		t.Fatalf("read the definition: %v", err)
	}
	return d
}

// object reads a custom object from YAML.
func object(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatalf("read the object: %v", err)
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(data); err != nil {
		t.Fatalf("read the object: %v", err)
	}
	return u
}

// define creates a definition and waits until the loop rests.
func (w *world) define(text string) *apiextensionsv1.CustomResourceDefinition {
	w.Helper()
	d := definition(w, text)
	if _, err := w.Create(w.ctx, crd.Definitions, d); err != nil {
		w.Fatalf("create the definition: %v", err)
	}
	return w.definition(d.Name)
}

// definition reads a definition once the loop rests.
func (w *world) definition(name string) *apiextensionsv1.CustomResourceDefinition {
	w.Helper()
	synctest.Wait()
	d, err := client.Get[*apiextensionsv1.CustomResourceDefinition](w.ctx, w.Interface, crd.Definitions, "", name)
	if err != nil {
		w.Fatalf("get the definition: %v", err)
	}
	return d
}

// redefine changes a definition and waits until the loop rests.
func (w *world) redefine(name string, change func(*apiextensionsv1.CustomResourceDefinition)) error {
	d := w.definition(name).DeepCopy()
	change(d)
	_, err := w.Update(w.ctx, crd.Definitions, d)
	synctest.Wait()
	return err
}

// make creates a custom object.
func (w *world) make(res schema.GroupVersionResource, text string) *unstructured.Unstructured {
	w.Helper()
	got, err := w.Create(w.ctx, res, object(w, text))
	if err != nil {
		w.Fatalf("create the object: %v", err)
	}
	return got.(*unstructured.Unstructured)
}

// conditions are those of a definition, in one line each.
func conditions(d *apiextensionsv1.CustomResourceDefinition) (out []string) {
	for _, c := range d.Status.Conditions {
		out = append(out, fmt.Sprint(c.Type, "=", c.Status, " ", c.Reason))
	}
	return out
}

// crontabs is the definition of most tests.
const crontabs = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: crontabs.stable.example.com
spec:
  group: stable.example.com
  scope: Namespaced
  names: {plural: crontabs, kind: CronTab, shortNames: [ct], categories: [all]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    additionalPrinterColumns:
    - {name: Spec, type: string, jsonPath: .spec.cronSpec}
    - {name: Replicas, type: integer, jsonPath: .spec.replicas}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              cronSpec: {type: string, pattern: '^(\S+ ){4}\S+$'}
              replicas: {type: integer, minimum: 1, maximum: 10, default: 1}
              image: {type: string, nullable: true}
          status:
            type: object
            properties:
              active: {type: integer}
`

var cronTabs = schema.GroupVersionResource{Group: "stable.example.com", Version: "v1", Resource: "crontabs"}

const aCronTab = `
apiVersion: stable.example.com/v1
kind: CronTab
metadata: {name: one, namespace: default, labels: {a: b}}
spec: {cronSpec: "* * * * *", unknown: 1}
status: {active: 7}
`

func pemOf(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
