package scheduler_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/scheduler"
)

// arbiter is an extender that answers by a func, without a network.
type arbiter struct {
	mu      sync.Mutex
	asked   []string // "verb question", guarded by mu
	answers map[string]func(question []byte) (any, error)
}

func (a *arbiter) RoundTrip(req *http.Request) (*http.Response, error) {
	verb := req.URL.Path[strings.LastIndexByte(req.URL.Path, '/')+1:]
	question, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	a.asked = append(a.asked, verb)
	answer := a.answers[verb]
	a.mu.Unlock()
	if answer == nil {
		return nil, errors.New("connection refused")
	}
	out, err := answer(question)
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(out)
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader(data)), Header: http.Header{}, Request: req}, nil
}

// offered shows who would have to leave: "a:small b:one,two".
func offered(t *testing.T, question []byte) (string, *extenderv1.ExtenderPreemptionArgs) {
	t.Helper()
	var args extenderv1.ExtenderPreemptionArgs
	if err := json.Unmarshal(question, &args); err != nil {
		t.Error(err)
	}
	var out []string
	for node, v := range args.NodeNameToVictims {
		var names []string
		for _, p := range v.Pods {
			names = append(names, p.Name)
		}
		slices.Sort(names)
		out = append(out, node+":"+strings.Join(names, ","))
	}
	for node, v := range args.NodeNameToMetaVictims {
		out = append(out, fmt.Sprint(node, ":", len(v.Pods), " by uid"))
	}
	slices.Sort(out)
	return strings.Join(out, " "), &args
}

// TestExtenderPreempts: an extender chooses among the nodes, and the pods that
// leave them; what it may not choose is not done.
func TestExtenderPreempts(t *testing.T) {
	type victims = map[string]*extenderv1.MetaVictims
	by := func(uids ...string) *extenderv1.MetaVictims {
		v := &extenderv1.MetaVictims{}
		for _, uid := range uids {
			v.Pods = append(v.Pods, &extenderv1.MetaPod{UID: uid})
		}
		return v
	}
	// Of the nodes a and b, each full, a has the less urgent pods.
	for _, test := range []struct {
		name   string
		names  bool // it knows the nodes
		ignore bool
		answer func(uid func(pod string) string) (victims, error)
		offer  string
		gone   string // who leaves, and for which node
	}{
		{"as offered", false, false, func(uid func(string) string) (victims, error) {
			return victims{"a": by(uid("a-low")), "b": by(uid("b-low"))}, nil
		}, "a:a-low b:b-low", "a-low for a"},
		{"one node is out", false, false, func(uid func(string) string) (victims, error) {
			return victims{"b": by(uid("b-low"))}, nil
		}, "a:a-low b:b-low", "b-low for b"},
		{"by uid", true, false, func(uid func(string) string) (victims, error) {
			return victims{"b": by(uid("b-low"))}, nil
		}, "a:1 by uid b:1 by uid", "b-low for b"},
		{"another pod of the node", false, false, func(uid func(string) string) (victims, error) {
			return victims{"a": by(uid("a-high"))}, nil
		}, "a:a-low b:b-low", "a-high for a"},
		{"more pods of the node", false, false, func(uid func(string) string) (victims, error) {
			return victims{"a": by(uid("a-low"), uid("a-high"))}, nil
		}, "a:a-low b:b-low", "a-high,a-low for a"},
		{"more broken budgets", false, false, func(uid func(string) string) (victims, error) {
			broken := by(uid("a-low"))
			broken.NumPDBViolations = 1
			return victims{"a": broken, "b": by(uid("b-low"))}, nil
		}, "a:a-low b:b-low", "b-low for b"},
		{"no node", false, false, func(func(string) string) (victims, error) { return nil, nil }, "a:a-low b:b-low", ""},
		{"a pod that is elsewhere", false, false, func(uid func(string) string) (victims, error) {
			return victims{"a": by(uid("b-low"))}, nil
		}, "a:a-low b:b-low", ""},
		{"a node that is not there", false, false, func(uid func(string) string) (victims, error) {
			return victims{"c": by(uid("a-low"))}, nil
		}, "a:a-low b:b-low", ""},
		{"nobody of a node", false, false, func(uid func(string) string) (victims, error) {
			return victims{"a": by(), "b": by(uid("b-low"))}, nil
		}, "a:a-low b:b-low", ""},
		{"nobody of a node, which can be done without", false, true, func(uid func(string) string) (victims, error) {
			return victims{"a": by(), "b": by(uid("b-low"))}, nil
		}, "a:a-low b:b-low", "b-low for b"},
		{"no answer", false, false, func(func(string) string) (victims, error) { return nil, errors.New("down") }, "a:a-low b:b-low", ""},
		{"no answer, which can be done without", false, true, func(func(string) string) (victims, error) { return nil, errors.New("down") },
			"a:a-low b:b-low", "a-low for a"},
	} {
		t.Run(test.name, func(t *testing.T) {
			story(t, nil, func(w *world) {
				w.stop()
				uid := func(name string) string { return string(w.get(name).UID) }
				a, told := &arbiter{}, ""
				a.answers = map[string]func([]byte) (any, error){"preempt": func(question []byte) (any, error) {
					told, _ = offered(t, question)
					v, err := test.answer(uid)
					return extenderv1.ExtenderPreemptionResult{NodeNameToMetaVictims: v}, err
				}}
				e := scheduler.Extender{URL: "http://arbiter.test", Preempt: "preempt", Names: test.names, Ignorable: test.ignore, Client: &http.Client{Transport: a}}
				for _, n := range []string{"a", "b"} {
					w.node(n, "4")
				}
				on := func(node string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Spec.NodeName = node } }
				w.pod("a-low", "2", urgency(1), grace(30), on("a"))
				w.pod("a-high", "2", urgency(3), grace(30), on("a"))
				w.pod("b-low", "2", urgency(2), grace(30), on("b"))
				w.pod("b-high", "2", urgency(3), grace(30), on("b"))
				w.startWith(scheduler.Options{Client: w.client, Extenders: []scheduler.Extender{e}})
				w.pod("urgent", "2", urgency(9))
				synctest.Wait()
				var gone []string
				for _, name := range []string{"a-high", "a-low", "b-high", "b-low"} {
					if w.get(name).DeletionTimestamp != nil {
						gone = append(gone, name)
					}
				}
				got := strings.Join(gone, ",")
				if n := w.get("urgent").Status.NominatedNodeName; n != "" {
					got += " for " + n
				}
				if told != test.offer || got != test.gone {
					t.Errorf("offered %q, went %q; want %q, %q", told, got, test.offer, test.gone)
				}
				if test.gone == "" {
					return
				}
				asked := len(a.asked)
				for _, name := range gone {
					w.delete(client.Pods, "default", name)
				}
				time.Sleep(20 * time.Second)
				synctest.Wait()
				if n := w.get("urgent").Spec.NodeName; n != test.gone[len(test.gone)-1:] || len(a.asked) != asked {
					t.Errorf("it is on %q, and %d more questions were asked", n, len(a.asked)-asked)
				}
			})
		})
	}
}

// TestExtendersInTurn: the second is shown what the first left.
func TestExtendersInTurn(t *testing.T) {
	story(t, nil, func(w *world) {
		w.stop()
		var extenders []scheduler.Extender
		var told []string
		for _, out := range []string{"a", "b"} {
			a := &arbiter{answers: map[string]func([]byte) (any, error){"preempt": func(question []byte) (any, error) {
				text, args := offered(t, question)
				told = append(told, text)
				delete(args.NodeNameToMetaVictims, out)
				return extenderv1.ExtenderPreemptionResult{NodeNameToMetaVictims: args.NodeNameToMetaVictims}, nil
			}}}
			extenders = append(extenders, scheduler.Extender{URL: "http://arbiter.test", Preempt: "preempt", Names: true, Client: &http.Client{Transport: a}})
		}
		for _, n := range []string{"a", "b", "c"} {
			w.node(n, "4")
			w.pod("on-"+n, "4", urgency(1), grace(30), func(p *corev1.Pod) { p.Spec.NodeName = n })
		}
		w.startWith(scheduler.Options{Client: w.client, Extenders: extenders})
		w.pod("urgent", "2", urgency(9))
		synctest.Wait()
		if got, want := strings.Join(told, "; "), "a:1 by uid b:1 by uid c:1 by uid; b:1 by uid c:1 by uid"; got != want {
			t.Errorf("told %q, want %q", got, want)
		}
		if n := w.get("urgent").Status.NominatedNodeName; n != "c" {
			t.Errorf("room is made on %q", n)
		}
	})
}

// TestExtenderAnswers: what an extender may say of nodes, and of a binding, and
// what comes of it.
func TestExtenderAnswers(t *testing.T) {
	names := func(list ...string) any { return extenderv1.ExtenderFilterResult{NodeNames: &list} }
	nodes := func(list ...string) any {
		out := extenderv1.ExtenderFilterResult{Nodes: &corev1.NodeList{}}
		for _, name := range list {
			n := corev1.Node{}
			n.Name = name
			out.Nodes.Items = append(out.Nodes.Items, n)
		}
		return out
	}
	failed := func(list ...string) any {
		out := names(list...).(extenderv1.ExtenderFilterResult)
		out.FailedNodes = extenderv1.FailedNodesMap{"a": "it is taken", "b": "it is blue"}
		return out
	}
	scores := extenderv1.HostPriorityList{{Host: "b", Score: 10}}
	const filter, prioritize, bind = "filter", "prioritize", "bind"
	for _, test := range []struct {
		name    string
		e       scheduler.Extender
		answers map[string]any // an error: none
		asked   string
		on      string // the node; "": none
	}{
		{"all pass", scheduler.Extender{Filter: filter, Prioritize: prioritize, Weight: 1, Names: true}, map[string]any{filter: names("a", "b"), prioritize: scores}, "filter prioritize", "b"},
		{"one passes: scores are of no use", scheduler.Extender{Filter: filter, Prioritize: prioritize, Weight: 1, Names: true}, map[string]any{filter: names("a"), prioritize: scores}, "filter", "a"},
		{"nodes are sent back whole", scheduler.Extender{Filter: filter}, map[string]any{filter: nodes("a")}, "filter", "a"},
		{"names are no answer of who was sent nodes", scheduler.Extender{Filter: filter}, map[string]any{filter: names("a")}, "filter", ""},
		{"what passes passes, whatever else is said of it", scheduler.Extender{Filter: filter, Names: true}, map[string]any{filter: failed("a")}, "filter", "a"},
		{"none passes", scheduler.Extender{Filter: filter, Prioritize: prioritize, Weight: 1, Names: true}, map[string]any{filter: failed(), prioritize: scores}, "filter", ""},
		{"a node that nobody asked about", scheduler.Extender{Filter: filter, Names: true}, map[string]any{filter: names("a", "z")}, "filter", ""},
		{"a node that nobody asked about, which can be done without", scheduler.Extender{Filter: filter, Names: true, Ignorable: true}, map[string]any{filter: names("a", "z")}, "filter", "a b"},
		{"an error in the answer", scheduler.Extender{Filter: filter, Names: true}, map[string]any{filter: extenderv1.ExtenderFilterResult{Error: "no"}}, "filter", ""},
		{"no answer, which can be done without", scheduler.Extender{Filter: filter, Names: true, Ignorable: true}, map[string]any{filter: errors.New("down")}, "filter", "a b"},
		{"no scores", scheduler.Extender{Prioritize: prioritize, Weight: 1}, map[string]any{prioritize: errors.New("down")}, "prioritize", "a b"},
		{"a binding that fails", scheduler.Extender{Bind: bind}, map[string]any{bind: errors.New("down")}, "bind", ""},
		{"a binding that is refused", scheduler.Extender{Bind: bind}, map[string]any{bind: extenderv1.ExtenderBindingResult{Error: "no"}}, "bind", ""},
		{"a binding that fails, which can be done without", scheduler.Extender{Bind: bind, Ignorable: true}, map[string]any{bind: errors.New("down")}, "bind", "a b"},
		{"a resource of which the pod wants nothing", scheduler.Extender{Filter: filter, Names: true, Resources: []corev1.ResourceName{"other.io/x"}}, map[string]any{filter: names()}, "", "a b"},
		{"a resource of which the pod has none, but says so", scheduler.Extender{Filter: filter, Names: true, Resources: []corev1.ResourceName{"example.com/zero"}}, map[string]any{filter: names("b")}, "filter", "b"},
	} {
		t.Run(test.name, func(t *testing.T) {
			story(t, nil, func(w *world) {
				w.stop()
				a := &arbiter{answers: map[string]func([]byte) (any, error){}}
				for verb, answer := range test.answers {
					a.answers[verb] = func([]byte) (any, error) {
						if err, bad := answer.(error); bad {
							return nil, err
						}
						return answer, nil
					}
				}
				test.e.URL, test.e.Client = "http://arbiter.test", &http.Client{Transport: a}
				w.startWith(scheduler.Options{Client: w.client, Extenders: []scheduler.Extender{test.e}})
				w.node("a", "4")
				w.node("b", "4")
				w.pod("p", "1", func(p *corev1.Pod) {
					p.Spec.Containers[0].Resources.Requests["example.com/zero"] = *p.Spec.Containers[0].Resources.Requests.Cpu()
					zero := p.Spec.Containers[0].Resources.Requests["example.com/zero"]
					zero.Set(0)
					p.Spec.Containers[0].Resources.Requests["example.com/zero"] = zero
					p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"example.com/zero": zero}
				})
				synctest.Wait()
				if got := strings.Join(a.asked, " "); got != test.asked {
					t.Errorf("asked %q, want %q", got, test.asked)
				}
				if got := w.get("p").Spec.NodeName; (got == "") != (test.on == "") || !strings.Contains(test.on, got) {
					t.Errorf("it is on %q, want %q", got, test.on)
				}
			})
		})
	}
}
