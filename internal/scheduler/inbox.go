package scheduler

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-project/setpoint/internal/client"
)

// inbox gathers what happened until the scheduler's goroutine takes it: the
// keys of what changed, each once, and the results of writes.
type inbox struct {
	wake   chan struct{} // one slot: something is in the inbox
	writes sync.WaitGroup

	mu       sync.Mutex
	pods     map[types.NamespacedName]bool // guarded by mu, as the rest
	order    []types.NamespacedName        // of pods, first come first
	nodes    map[string]bool
	bindings []bindResult
	statuses []statusResult
	// namespaces: the labels of one have changed.
	namespaces bool
	objects    []change // of what pods wait for besides nodes and pods
	calls      []func() // to be made by the scheduler's goroutine
}

type bindResult struct {
	pod  *podInfo
	node string
	err  error
}

type statusResult struct {
	key types.NamespacedName
	err error
}

// mail is what the inbox held.
type mail struct {
	pods     []types.NamespacedName
	nodes    map[string]bool
	bindings []bindResult
	statuses []statusResult

	namespaces bool
	objects    []change
	calls      []func()
}

// change of an object; see client.View.Handle.
type change struct{ old, new client.Object }

func newInbox() *inbox {
	return &inbox{wake: make(chan struct{}, 1), pods: map[types.NamespacedName]bool{}, nodes: map[string]bool{}}
}

func (in *inbox) put(f func()) {
	in.mu.Lock()
	f()
	in.mu.Unlock()
	select {
	case in.wake <- struct{}{}:
	default:
	}
}

func (in *inbox) pod(key types.NamespacedName) {
	in.put(func() {
		if !in.pods[key] {
			in.pods[key] = true
			in.order = append(in.order, key)
		}
	})
}

func (in *inbox) node(name string) { in.put(func() { in.nodes[name] = true }) }

func (in *inbox) bound(p *podInfo, node string, err error) {
	in.put(func() { in.bindings = append(in.bindings, bindResult{p, node, err}) })
}

func (in *inbox) wrote(key types.NamespacedName, err error) {
	in.put(func() { in.statuses = append(in.statuses, statusResult{key, err}) })
}

func (in *inbox) namespace() { in.put(func() { in.namespaces = true }) }

func (in *inbox) object(old, new client.Object) {
	in.put(func() { in.objects = append(in.objects, change{old, new}) })
}

func (in *inbox) call(f func()) { in.put(func() { in.calls = append(in.calls, f) }) }

func (in *inbox) take() mail {
	in.mu.Lock()
	defer in.mu.Unlock()
	m := mail{pods: in.order, bindings: in.bindings, statuses: in.statuses, namespaces: in.namespaces, objects: in.objects, calls: in.calls}
	clear(in.pods)
	in.order, in.bindings, in.statuses, in.namespaces, in.objects, in.calls = nil, nil, nil, false, nil, nil
	if len(in.nodes) > 0 {
		m.nodes, in.nodes = in.nodes, map[string]bool{}
	}
	return m
}
