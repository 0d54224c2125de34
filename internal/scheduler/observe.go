package scheduler

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/scheduler/volumes"
	"github.com/setpoint-project/setpoint/loop"
)

func (s *Scheduler) nodeChanged(old, new client.Object) {
	if a, ok := old.(*corev1.Node); ok {
		if b, ok := new.(*corev1.Node); ok && sameForPlacing(a, b) {
			return // a heartbeat
		}
	}
	s.inbox.node(nameOf(old, new).Name)
}

func (s *Scheduler) podChanged(old, new client.Object) {
	a, hadOld := old.(*corev1.Pod)
	b, hasNew := new.(*corev1.Pod)
	if hadOld && hasNew && a.UID == b.UID && a.Spec.NodeName != "" && a.Spec.NodeName == b.Spec.NodeName &&
		terminal(a) == terminal(b) && b.Generation <= 1 &&
		(a.DeletionTimestamp == nil) == (b.DeletionTimestamp == nil) && maps.Equal(a.Labels, b.Labels) {
		return // its kubelet reports; the spec, and so the requests, are as they were made
	}
	s.inbox.pod(nameOf(old, new))
}

func (s *Scheduler) namespaceChanged(old, new client.Object) {
	if old != nil && new != nil && maps.Equal(old.GetLabels(), new.GetLabels()) {
		return
	}
	s.inbox.namespace()
}

func nameOf(old, new client.Object) types.NamespacedName {
	obj := new
	if obj == nil {
		obj = old
	}
	return types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

// lookAtAll puts everything that is or was into the inbox, and lets go of what
// nobody has asked for since the last time.
func (s *Scheduler) lookAtAll(ctx context.Context) {
	s.lookAtPendings(ctx)
	s.cluster.groups.forgetUnused(s.asked)
	s.cluster.forgetNodeSets(s.asked)
	s.cluster.forgetEquivalences(s.asked)
	s.asked = s.cluster.groups.now
	for _, obj := range s.nodes.List("") {
		s.inbox.node(obj.GetName())
	}
	for name := range s.cluster.nodes {
		s.inbox.node(name)
	}
	there := 0
	client.EachVersion(s.pods, func(namespace, name, version string) {
		key := types.NamespacedName{Namespace: namespace, Name: name}
		at, held := s.cluster.pods[key]
		if held {
			there++
		}
		if !held || at.assumed || at.revision == 0 || at.revision != revisionOf(version) {
			s.inbox.pod(key)
		}
	})
	if there < len(s.cluster.pods) {
		for key := range s.cluster.pods {
			s.inbox.pod(key)
		}
	}
	for key := range s.queue.pods {
		s.inbox.pod(key)
	}
}

// revisionOf is a resourceVersion as a number; 0: it is none.
func revisionOf(resourceVersion string) uint64 {
	n, _ := strconv.ParseUint(resourceVersion, 10, 64)
	return n
}

// take looks at what is in the inbox, and wakes the pods that it helps.
func (s *Scheduler) take(ctx context.Context, now time.Time) {
	m := s.inbox.take()
	for name := range m.nodes {
		s.observeNode(name)
	}
	for _, key := range m.pods {
		s.observePod(key, now)
	}
	for _, r := range m.bindings {
		s.bindings--
		s.observeBinding(r, now)
	}
	for _, r := range m.statuses {
		s.observeStatus(ctx, r, now)
	}
	if m.namespaces {
		s.cluster.groups.namespaceChanged()
		s.moved = true
	}
	for _, c := range m.objects {
		s.observeObject(ctx, c)
	}
	for _, f := range m.calls {
		f()
	}
	s.wakeHelped()
}

// wakeHelped wakes the pods that what changed may help.
func (s *Scheduler) wakeHelped() {
	if len(s.queue.waiting.ruled) > 0 && (s.moved || len(s.events) > 0) {
		s.queue.wakeRuled(func(p *podInfo) bool {
			return s.moved || slices.ContainsFunc(s.events, func(e event) bool { return e.helps(p, s.cluster.groups) })
		})
	}
	s.moved, s.events = false, s.events[:0]
	for name := range s.dirty {
		if n := s.cluster.nodes[name]; n != nil && s.queue.waiting.pods > 0 {
			s.queue.wake(n, &s.cluster.nominated)
		}
	}
	clear(s.dirty)
}

// note remembers that a pod came to a node or went from one, if somebody waits
// for that.
func (s *Scheduler) note(p *podInfo, gone bool) {
	if len(s.queue.waiting.ruled) > 0 {
		s.events = append(s.events, event{p, gone})
	}
}

func (s *Scheduler) observeNode(name string) {
	node := client.In[*corev1.Node](s.nodes, "", name)
	if node == nil {
		s.cluster.removeNode(name)
		s.nodeGone(name)
		s.moved = true
		return
	}
	if s.cluster.setNode(node) {
		s.dirty[name] = true
		s.moved = true
	}
}

func (s *Scheduler) observePod(key types.NamespacedName, now time.Time) {
	pod := client.In[*corev1.Pod](s.pods, key.Namespace, key.Name)
	at, held := s.cluster.pods[key]
	switch {
	case pod == nil || terminal(pod):
		s.drop(key)
		s.release(key)
	case pod.Spec.NodeName != "":
		s.drop(key)
		s.observePlaced(pod, at, held)
	case held && at.info.uid == pod.UID:
		// Its binding is on the way, or newer than what is shown here.
	case s.profiles[pod.Spec.SchedulerName] == nil || pod.DeletionTimestamp != nil:
		s.drop(key)
		s.release(key)
	case len(pod.Spec.SchedulingGates) > 0 && s.profiles[pod.Spec.SchedulerName].without&withoutGates == 0:
		s.drop(key)
		s.release(key)
		s.gaps.set(key, loop.Waiting, "", "scheduling is blocked by the gate "+pod.Spec.SchedulingGates[0].Name)
	default:
		s.release(key) // of a pod of that name before
		p := newPodInfoOf(pod, s.profiles[pod.Spec.SchedulerName])
		s.spreadByDefault(p)
		s.queue.add(p, now)
		if node := s.cluster.nominated.node[key]; node != "" || p.nominated != "" {
			s.cluster.nominated.set(p, cmp.Or(p.nominated, node))
		}
	}
}

// observePlaced takes over that a pod is on a node; at is where it was held.
func (s *Scheduler) observePlaced(pod *corev1.Pod, at placed, held bool) {
	// As long as the spec is as it was made, so are the requests. Later a
	// resize in progress counts by its status.
	same := held && at.info.uid == pod.UID && at.info.generation == pod.Generation && pod.Generation <= 1
	var info *podInfo
	switch {
	case same && !at.assumed && at.node.name == pod.Spec.NodeName && at.info.leaving == (pod.DeletionTimestamp != nil) && maps.Equal(at.info.labels, pod.Labels):
		s.cluster.saw(pod)
		return
	case same:
		info = at.info.onNode()
		info.leaving = pod.DeletionTimestamp != nil
		if !maps.Equal(info.labels, pod.Labels) {
			info.labels, info.group = pod.Labels, groupKey(pod.Namespace, pod.Labels)
		}
	default:
		info = newPodInfo(pod).onNode()
	}
	if held {
		s.letGo(at.info)
	}
	if held && (at.info.group != info.group || at.info.leaving != info.leaving) {
		s.note(at.info, true)
	}
	if !held || at.info.group != info.group {
		s.note(info, false)
	}
	if left := s.cluster.confirm(info, pod.Spec.NodeName); left != nil {
		s.dirty[left.name] = true
	}
	s.cluster.saw(pod)
	if held && !same {
		s.dirty[pod.Spec.NodeName] = true // it may ask for less than before
	}
}

// drop takes a pod out of the queue.
func (s *Scheduler) drop(key types.NamespacedName) {
	if node := s.cluster.nominated.node[key]; node != "" {
		s.cluster.nominated.forget(key)
		s.dirty[node] = true // it may hold no room any more
	}
	if p := s.queue.remove(key); p != nil {
		s.settleWoken(p, "")
	}
	s.gaps.delete(key)
	s.statuses.forget(key)
}

// release gives back the place of a pod that is gone.
func (s *Scheduler) release(key types.NamespacedName) {
	at, held := s.cluster.pods[key]
	if !held {
		return
	}
	s.note(at.info, true)
	s.letGo(at.info)
	s.dirty[s.cluster.forget(key).name] = true
	for _, claim := range at.info.claims {
		s.queue.helped(volumes.OnUsers(claim))
	}
}

func (s *Scheduler) observeBinding(r bindResult, now time.Time) {
	key := r.pod.key
	if r.err == nil {
		s.letGo(r.pod)
		s.gaps.delete(key)
		s.observe(key, loop.Acted("bound to node %s", r.node), nil)
		r.pod.profile.recorder.Event(r.pod.pod, corev1.EventTypeNormal, "Scheduled", "Successfully assigned %s to %s", key, r.node)
		return
	}
	if !s.unplace(r.pod, r.err, now) {
		return // it was seen bound, or gone, in the meantime
	}
	if apierrors.IsNotFound(r.err) || apierrors.IsConflict(r.err) {
		// The pod is gone, another one by that name, or bound by somebody
		// else; the view shows it soon, if not yet.
		s.opts.Logger.Debug("binding was refused", "pod", key.String(), "node", r.node, "error", r.err)
	}
}

// unplace gives back the place that was taken for p, and lets it be tried
// again after a back-off. It reports whether p had it still.
func (s *Scheduler) unplace(p *podInfo, err error, now time.Time) bool {
	at, held := s.cluster.pods[p.key]
	if !held || !at.assumed || at.info != p {
		return false
	}
	s.release(p.key)
	s.observe(p.key, loop.Outcome{}, err)
	s.gaps.set(p.key, loop.Failing, "", err.Error())
	s.queue.retry(p, now)
	s.inbox.pod(p.key)
	return true
}

func (s *Scheduler) observeStatus(ctx context.Context, r statusResult, now time.Time) {
	failed := s.statuses.done(ctx, r)
	if failed == nil {
		return
	}
	if p := s.queue.remove(r.key); p != nil {
		s.queue.retry(p, now) // to be said again
	}
	s.observe(r.key, loop.Outcome{}, failed)
}
