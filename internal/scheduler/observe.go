package scheduler

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-project/setpoint/internal/client"
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
		(a.DeletionTimestamp == nil) == (b.DeletionTimestamp == nil) && equalLabels(a.Labels, b.Labels) {
		return // its kubelet reports; the spec, and so the requests, are as they were made
	}
	s.inbox.pod(nameOf(old, new))
}

func nameOf(old, new client.Object) types.NamespacedName {
	obj := new
	if obj == nil {
		obj = old
	}
	return types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

// lookAtAll puts everything that is or was into the inbox.
func (s *Scheduler) lookAtAll() {
	for _, obj := range s.nodes.List("") {
		s.inbox.node(obj.GetName())
	}
	for name := range s.cluster.nodes {
		s.inbox.node(name)
	}
	for _, obj := range s.pods.List("") {
		s.inbox.pod(nameOf(nil, obj))
	}
	for key := range s.cluster.pods {
		s.inbox.pod(key)
	}
	for key := range s.queue.pods {
		s.inbox.pod(key)
	}
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
	if (s.changed || len(s.dirty) > 0) && len(s.queue.ruled) > 0 {
		s.queue.wakeRuled()
	}
	s.changed = false
	for name := range s.dirty {
		if n := s.cluster.nodes[name]; n != nil && len(s.queue.waiting) > 0 {
			s.queue.wake(n)
		}
	}
	clear(s.dirty)
}

func (s *Scheduler) observeNode(name string) {
	node := client.In[*corev1.Node](s.nodes, "", name)
	if node == nil {
		s.cluster.removeNode(name)
		return
	}
	if s.cluster.setNode(node) {
		s.dirty[name] = true
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
	case pod.Spec.SchedulerName != s.opts.SchedulerName || pod.DeletionTimestamp != nil:
		s.drop(key)
		s.release(key)
	case len(pod.Spec.SchedulingGates) > 0:
		s.drop(key)
		s.release(key)
		s.gaps.set(key, loop.Waiting, "scheduling is blocked by the gate "+pod.Spec.SchedulingGates[0].Name)
	default:
		s.release(key) // of a pod of that name before
		s.queue.add(newPodInfo(pod), now)
	}
}

// observePlaced takes over that a pod is on a node; at is where it was held.
func (s *Scheduler) observePlaced(pod *corev1.Pod, at placed, held bool) {
	// As long as the spec is as it was made, so are the requests. Later a
	// resize in progress counts by its status.
	same := held && at.info.uid == pod.UID && at.info.generation == pod.Generation && pod.Generation <= 1
	var info *podInfo
	switch {
	case same && !at.assumed && at.node.name == pod.Spec.NodeName && at.info.leaving == (pod.DeletionTimestamp != nil) && equalLabels(at.info.labels, pod.Labels):
		return
	case same:
		info = at.info.onNode()
		info.leaving, info.labels = pod.DeletionTimestamp != nil, pod.Labels
	default:
		info = newPodInfo(pod).onNode()
	}
	s.changed = true
	if left := s.cluster.confirm(info, pod.Spec.NodeName); left != nil {
		s.dirty[left.name] = true
	}
	if held && !same {
		s.dirty[pod.Spec.NodeName] = true // it may ask for less than before
	}
}

// drop takes a pod out of the queue.
func (s *Scheduler) drop(key types.NamespacedName) {
	if p := s.queue.remove(key); p != nil {
		s.settleWoken(p, "")
	}
	s.gaps.delete(key)
	s.statuses.forget(key)
}

// release gives back the place of a pod that is gone.
func (s *Scheduler) release(key types.NamespacedName) {
	if n := s.cluster.forget(key); n != nil {
		s.dirty[n.name] = true
	}
}

func (s *Scheduler) observeBinding(r bindResult, now time.Time) {
	key := r.pod.key
	if r.err == nil {
		s.gaps.delete(key)
		s.observe(key, loop.Acted("bound to node %s", r.node), nil)
		s.opts.Recorder.Event(r.pod.pod, corev1.EventTypeNormal, "Scheduled", "Successfully assigned %s to %s", key, r.node)
		return
	}
	at, held := s.cluster.pods[key]
	if !held || !at.assumed || at.info != r.pod {
		return // it was seen bound, or gone, in the meantime
	}
	s.cluster.forget(key)
	s.dirty[r.node] = true
	s.observe(key, loop.Outcome{}, r.err)
	if apierrors.IsNotFound(r.err) || apierrors.IsConflict(r.err) {
		// The pod is gone, another one by that name, or bound by somebody
		// else; the view shows it soon, if not yet.
		s.opts.Logger.Debug("binding was refused", "pod", key.String(), "node", r.node, "error", r.err)
	}
	s.gaps.set(key, loop.Failing, r.err.Error())
	s.queue.retry(r.pod, now)
	s.inbox.pod(key)
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
