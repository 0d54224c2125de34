package setpoint_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/setpoint-project/setpoint"
)

const heldDefinition = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"gadgets.example.com"},
"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"gadgets","kind":"Gadget"},
"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`

const deadService = `{"apiVersion":"apiregistration.k8s.io/v1","kind":"APIService","metadata":{"name":"v1.dead.example.com"},
"spec":{"group":"dead.example.com","version":"v1","groupPriorityMinimum":100,"versionPriority":10,"service":{"namespace":"default","name":"nobody"}}}`

// The loops inside the front door tell their gaps like all others: a
// definition whose objects are held, and a service that is not there.
func TestGapsOfTheFrontDoor(t *testing.T) {
	c := start(t, setpoint.Options{})
	cs := client(t, c)
	post(t, cs, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", heldDefinition)
	post(t, cs, "/apis/apiregistration.k8s.io/v1/apiservices", deadService)
	gadget := `{"apiVersion":"example.com/v1","kind":"Gadget","metadata":{"name":"g","finalizers":["example.com/held"]}}`
	until(t, "the definition is served", func() bool {
		return cs.RESTClient().Post().AbsPath("/apis/example.com/v1/namespaces/default/gadgets").Body([]byte(gadget)).Do(t.Context()).Error() == nil
	})
	if err := cs.RESTClient().Delete().AbsPath("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gadgets.example.com").Do(t.Context()).Error(); err != nil {
		t.Fatal(err)
	}
	until(t, "both gaps are told", func() bool {
		raw, err := cs.RESTClient().Get().AbsPath("/setpoint/v1/gaps").DoRaw(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		told := string(raw)
		return strings.Contains(told, "gadgets.example.com") && strings.Contains(told, "held by finalizers") && strings.Contains(told, "v1.dead.example.com")
	})
}

func post(t *testing.T, cs *kubernetes.Clientset, path, body string) {
	t.Helper()
	if err := cs.RESTClient().Post().AbsPath(path).Body([]byte(body)).Do(t.Context()).Error(); err != nil {
		t.Fatal(err)
	}
}

// until asks again until the cluster has come to what is wanted; a cluster that
// never does is ended by the test binary's own limit.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for tick := time.Tick(20 * time.Millisecond); !holds(); {
		select {
		case <-tick:
		case <-t.Context().Done():
			t.Fatalf("the test ended before %s", what)
		}
	}
}
