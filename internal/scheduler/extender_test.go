package scheduler_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/setpoint-project/setpoint/internal/scheduler"
)

// oracle is an extender without a network.
type oracle struct {
	mu    sync.Mutex
	asked []string // guarded by mu
	down  bool
}

func (o *oracle) RoundTrip(req *http.Request) (*http.Response, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	verb := req.URL.Path[strings.LastIndexByte(req.URL.Path, '/')+1:]
	o.asked = append(o.asked, verb)
	if o.down {
		return nil, errors.New("connection refused")
	}
	var args extenderv1.ExtenderArgs
	if err := json.NewDecoder(req.Body).Decode(&args); err != nil {
		return nil, err
	}
	w := httptest.NewRecorder()
	switch verb {
	case "filter": // all but a
		var names []string
		for _, name := range *args.NodeNames {
			if name != "a" {
				names = append(names, name)
			}
		}
		json.NewEncoder(w).Encode(extenderv1.ExtenderFilterResult{NodeNames: &names, FailedNodes: extenderv1.FailedNodesMap{"a": "node(s) were disliked"}})
	case "score": // c is best
		json.NewEncoder(w).Encode(extenderv1.HostPriorityList{{Host: "b", Score: 1}, {Host: "c", Score: 10}})
	}
	return w.Result(), nil
}

func TestExtender(t *testing.T) {
	story(t, nil, func(w *world) {
		w.stop()
		o := &oracle{}
		e := scheduler.Extender{URL: "http://oracle.test/v1", Filter: "filter", Prioritize: "score", Weight: 5, Names: true,
			Resources: []corev1.ResourceName{"example.com/gpu"}, Client: &http.Client{Transport: o}}
		w.startWith(scheduler.Options{Client: w.client, Extenders: []scheduler.Extender{e}})
		gpu := func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests["example.com/gpu"] = resource.MustParse("1")
			p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"example.com/gpu": resource.MustParse("1")}
		}
		w.gpus = "4"
		w.node("a", "8")
		w.pod("disliked", "1", gpu)
		w.expect("a is refused", "disliked=")
		if c := w.scheduled("disliked"); !strings.HasPrefix(c.Message, "0/1 nodes are available: 1 node(s) were disliked.") {
			w.Errorf("got %s", c.Message)
		}
		w.pod("plain", "1")
		w.expect("not its business", "disliked= plain=a")
		w.node("b", "4")
		time.Sleep(2 * time.Second) // not at once: nobody but the extender knows whether it helps
		w.expect("b came", "disliked=b plain=a")
		w.node("c", "2")
		w.pod("best", "1", gpu)
		w.expect("the best by its score", "best=c disliked=b plain=a")
		o.mu.Lock()
		o.down = true
		o.mu.Unlock()
		w.pod("later", "1", gpu)
		w.expect("it does not answer", "best=c disliked=b later= plain=a")
		o.mu.Lock()
		o.down = false
		o.mu.Unlock()
		time.Sleep(time.Minute)
		synctest.Wait()
		if w.get("later").Spec.NodeName == "" {
			w.Error("it is not asked again")
		}
	})
}
