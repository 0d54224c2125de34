package storagemigration_test

import (
	"bytes"
	"context"
	"testing"
	"testing/synctest"
	"time"

	storagemigrationv1 "k8s.io/api/storagemigration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/controllertest"
	"github.com/setpoint-project/setpoint/internal/controllers/storagemigration"
	"github.com/setpoint-project/setpoint/internal/store"
)

// After the storage version of a custom kind has changed, a migration leaves no
// object in the old one; a second writes nothing.
func TestStorageVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := apitest.New(t, apitest.Options{})
		w := &controllertest.World{TB: t, Client: h.Client("tester")}
		definitions := apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")
		version := func(name string, storage bool) apiextensionsv1.CustomResourceDefinitionVersion {
			return apiextensionsv1.CustomResourceDefinitionVersion{Name: name, Served: true, Storage: storage,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object"}}}
		}
		w.Create(definitions, &apiextensionsv1.CustomResourceDefinition{
			ObjectMeta: metav1.ObjectMeta{Name: "things.example.com"},
			Spec: apiextensionsv1.CustomResourceDefinitionSpec{
				Group: "example.com", Scope: apiextensionsv1.NamespaceScoped,
				Names:    apiextensionsv1.CustomResourceDefinitionNames{Plural: "things", Singular: "thing", Kind: "Thing", ListKind: "ThingList"},
				Versions: []apiextensionsv1.CustomResourceDefinitionVersion{version("v1", true), version("v2", false)},
			},
		})
		time.Sleep(time.Minute)
		things := client.Resource{Group: "example.com", Version: "v1", Resource: "things"}
		for _, name := range []string{"a", "b"} {
			w.Create(things, &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "example.com/v1", "kind": "Thing", "metadata": map[string]any{"namespace": "default", "name": name},
			}})
		}
		w.Edit(definitions, "", "things.example.com", func(obj client.Object) {
			versions := obj.(*apiextensionsv1.CustomResourceDefinition).Spec.Versions
			versions[0].Storage, versions[1].Storage = false, true
		})
		time.Sleep(time.Minute)
		// stored counts the objects in a version, and the revisions they have.
		stored := func(version string) (n int, revisions []int64) {
			got, err := h.Store.Range(context.Background(), store.Range{Prefix: "/registry/example.com/things/"})
			if err != nil {
				t.Fatal(err)
			}
			for _, rec := range got.Records {
				if bytes.Contains(rec.Value, []byte(`"apiVersion":"example.com/`+version+`"`)) {
					n++
				}
				revisions = append(revisions, rec.Revision)
			}
			return n, revisions
		}
		if n, _ := stored("v1"); n != 2 {
			t.Fatalf("%d objects are stored in v1 before, want 2", n)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			storagemigration.New(controllers.Options{Client: h.Client("loops")}).Run(ctx)
			close(ended)
		}()
		w.Create(storagemigration.Migrations, migration("first", "example.com", "things"))
		time.Sleep(time.Minute)
		n, first := stored("v2")
		if n != 2 {
			t.Errorf("%d objects are stored in v2, want 2", n)
		}
		w.Create(storagemigration.Migrations, migration("second", "example.com", "things"))
		time.Sleep(time.Minute)
		for _, name := range []string{"first", "second"} {
			m := w.Get(storagemigration.Migrations, "", name).(*storagemigrationv1.StorageVersionMigration)
			if len(m.Status.Conditions) != 2 || m.Status.Conditions[1].Type != string(storagemigrationv1.MigrationSucceeded) {
				t.Errorf("%s: %+v", name, m.Status)
			}
		}
		if _, second := stored("v2"); len(first) != 2 || len(second) != 2 || first[0] != second[0] || first[1] != second[1] {
			t.Errorf("revisions %v, after the second migration %v", first, second)
		}
		cancel()
		<-ended
	})
}
