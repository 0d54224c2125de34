package apiserver_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"

	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
	"github.com/setpoint-project/setpoint/internal/apiserver/authn"
	"github.com/setpoint-project/setpoint/internal/apiserver/authz"
	"github.com/setpoint-project/setpoint/internal/apiserver/fairness"
)

// gate holds up the requests of noisy.
type gate struct{ arrived, open chan struct{} }

func (g *gate) Authorize(ctx context.Context, a *authz.Attributes) (bool, string) {
	if a.User.Name == "noisy" {
		g.arrived <- struct{}{}
		select {
		case <-g.open:
		case <-ctx.Done():
		}
	}
	return true, ""
}

// TestNoisyClient: one client takes all places and fills its queue. It is told
// to come back later, and the others are served as before.
func TestNoisyClient(t *testing.T) {
	g := &gate{make(chan struct{}, 100), make(chan struct{})}
	h := apitest.New(t, apitest.Options{HTTP: true, Authenticators: []authn.Authenticator{byHeader{}}, Authorizer: g,
		Fairness: fairness.New(fairness.Options{Seats: 4, Queue: 2})})
	w := newWeb(t, h)
	codes := make(chan int, 100)
	send := func() {
		w := &web{t: t, client: w.client, url: w.url}
		resp, _ := w.do("GET", cmPath, "", "X-User: noisy")
		codes <- resp.StatusCode
	}
	for range 4 {
		go send()
		<-g.arrived
	}
	resp := (*http.Response)(nil)
	for range 3 { // two of them wait
		go send()
	}
	if code := <-codes; code != http.StatusTooManyRequests {
		t.Fatalf("got %d", code)
	}
	resp, body := w.do("GET", cmPath, "", "X-User: noisy")
	if resp.StatusCode != 429 || resp.Header.Get("Retry-After") != "1" || !strings.Contains(body, "Too many requests") {
		t.Errorf("got %d, Retry-After %q: %s", resp.StatusCode, resp.Header.Get("Retry-After"), body)
	}
	w.want(200, "GET", "/api/v1/namespaces/default", "", "X-User: system:serviceaccount:kube-system:dns")
	if _, err := h.Client("loop").Get(t.Context(), namespaces, "", "default"); err != nil {
		t.Error(err)
	}
	close(g.open)
	for range 6 {
		if code := <-codes; code != 200 {
			t.Errorf("got %d", code)
		}
	}
	w.want(200, "GET", cmPath, "", "X-User: quiet")
}

// TestFlowSchemaObjects: objects of the API decide, and answers name them.
// Watches hold no place once they have begun.
func TestFlowSchemaObjects(t *testing.T) {
	h := apitest.New(t, apitest.Options{HTTP: true, Authenticators: []authn.Authenticator{byHeader{}},
		Fairness: fairness.New(fairness.Options{Seats: 1})})
	w, c := newWeb(t, h), h.Client("t")
	level := &flowcontrolv1.PriorityLevelConfiguration{}
	level.Name = "mine"
	level.Spec.Type = flowcontrolv1.PriorityLevelEnablementLimited
	level.Spec.Limited = &flowcontrolv1.LimitedPriorityLevelConfiguration{LimitResponse: flowcontrolv1.LimitResponse{Type: flowcontrolv1.LimitResponseTypeReject}}
	madeLevel, err := c.Create(t.Context(), flowcontrolv1.SchemeGroupVersion.WithResource("prioritylevelconfigurations"), level)
	if err != nil {
		t.Fatal(err)
	}
	fs := &flowcontrolv1.FlowSchema{}
	fs.Name = "mine"
	fs.Spec.PriorityLevelConfiguration.Name, fs.Spec.MatchingPrecedence = "mine", 7
	fs.Spec.Rules = []flowcontrolv1.PolicyRulesWithSubjects{{
		Subjects:      []flowcontrolv1.Subject{{Kind: flowcontrolv1.SubjectKindUser, User: &flowcontrolv1.UserSubject{Name: "me"}}},
		ResourceRules: []flowcontrolv1.ResourcePolicyRule{{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}, Namespaces: []string{"*"}}},
	}}
	madeSchema, err := c.Create(t.Context(), flowcontrolv1.SchemeGroupVersion.WithResource("flowschemas"), fs)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.url+cmPath+"?watch=1", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-User", "me")
		for patience := time.Now().Add(time.Minute); ; {
			if time.Now().After(patience) {
				t.Fatal("the objects are not heeded")
			}
			resp, err := w.client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode == http.StatusTooManyRequests {
				resp.Body.Close() // the watch before is just about to begin
				continue
			}
			if resp.StatusCode != 200 {
				t.Fatalf("a watch: %d", resp.StatusCode)
			}
			level := resp.Header.Get("X-Kubernetes-Pf-Prioritylevel-Uid")
			if level == string(madeLevel.GetUID()) && resp.Header.Get("X-Kubernetes-Pf-Flowschema-Uid") == string(madeSchema.GetUID()) {
				defer resp.Body.Close()
				break
			}
			if level != "" {
				t.Fatalf("sorted into %s", level)
			}
			resp.Body.Close() // the server has not looked yet
		}
	}
}
