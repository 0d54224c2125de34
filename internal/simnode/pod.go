package simnode

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/loop"
)

// step is what is done next for a pod: at most one of status and remove.
type step struct {
	status *corev1.PodStatus // to be written
	remove bool              // the pod has ended: delete it for good
	wait   time.Duration     // look again after that time; 0 means never
	what   string
}

// lookAtPod takes the next step for one pod.
func (s *Nodes) lookAtPod(ctx context.Context, key loop.Key) (loop.Outcome, error) {
	pod := client.In[*corev1.Pod](s.pods, key.Namespace, key.Name)
	if pod == nil || s.beat(pod.Spec.NodeName) == nil {
		return loop.Done(), nil
	}
	node := client.In[*corev1.Node](s.nodes, "", pod.Spec.NodeName)
	if node == nil {
		return loop.WaitFor("Node "+pod.Spec.NodeName, "the node is not there"), nil
	}
	if silent(node) {
		return loop.WaitFor("Node "+node.Name, "silent by its annotation"), nil
	}
	if readyStatus(node) != corev1.ConditionTrue {
		return loop.WaitFor("Node "+node.Name, "the node has to say that it is back first"), nil
	}
	host := s.addresses.ofNode(s.beat(node.Name).index, node.Spec.PodCIDRs)
	own := host
	if !pod.Spec.HostNetwork && !ended(pod) && pod.DeletionTimestamp == nil {
		var full string
		if own, full = s.addresses.ofPod(key, node.Spec.PodCIDRs, pod.Status.PodIPs); own == nil {
			return loop.WaitFor("Node "+node.Name, "its range %s has no address left", full).In(time.Second), nil
		}
	}
	next := podStep(pod, host, own, time.Now())
	switch {
	case next.remove:
		return loop.Done(), gone(s.opts.Client.Delete(ctx, client.Pods, key.Namespace, key.Name, metav1.DeleteOptions{
			GracePeriodSeconds: new(int64), Preconditions: &metav1.Preconditions{UID: &pod.UID}}))
	case next.status != nil:
		update := *pod // Update copies what it is given; only the status is replaced here
		update.Status = *next.status
		_, err := s.opts.Client.Update(ctx, client.Pods, &update, "status")
		// The view shows it soon, and a change is a look.
		return loop.Done(), gone(err)
	}
	return loop.DoneUntil(next.wait), nil
}

// gone forgives that what was to be changed is no more.
func gone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// podStep decides what is next for a pod on a node that is alive.
func podStep(pod *corev1.Pod, host, own []string, now time.Time) step {
	if pod.DeletionTimestamp != nil {
		switch {
		case len(pod.Finalizers) > 0 && !ended(pod):
			// Whoever holds the pod wants to know how it ended.
			return step{status: stopped(pod, 137, "Error", now), what: "stopped the containers"}
		case pod.DeletionGracePeriodSeconds != nil && *pod.DeletionGracePeriodSeconds == 0 && len(pod.Finalizers) > 0:
			return step{} // the next step is the finalizers'
		}
		return step{remove: true, what: "the pod has ended"}
	}
	if ended(pod) {
		return step{}
	}
	if !steady(pod, host, own) {
		if want := running(pod, host, own, now); want != nil {
			return step{status: want, what: "started the containers"}
		}
	}
	after, err := time.ParseDuration(pod.Annotations[ExitAfter])
	if err != nil {
		return step{}
	}
	// Starts are told in whole seconds; less than one would restart at once.
	left := startedAt(pod).Add(max(after, time.Second)).Sub(now)
	if left > 0 {
		return step{wait: left}
	}
	code, _ := strconv.Atoi(pod.Annotations[ExitCode])
	if p := pod.Spec.RestartPolicy; p == corev1.RestartPolicyNever || p == corev1.RestartPolicyOnFailure && code == 0 {
		reason := "Completed"
		if code != 0 {
			reason = "Error"
		}
		return step{status: stopped(pod, int32(code), reason, now), what: "the containers ended"}
	}
	return step{status: restarted(pod, int32(code), now), what: "restarted the containers"}
}

func ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

func startedAt(pod *corev1.Pod) time.Time {
	var at time.Time
	for _, c := range pod.Status.ContainerStatuses {
		if r := c.State.Running; r != nil && r.StartedAt.After(at) {
			at = r.StartedAt.Time
		}
	}
	return at
}

// steady tells of most pods that run that running has nothing to write for
// them, without making a status to compare with.
func steady(pod *corev1.Pod, host, own []string) bool {
	st := &pod.Status
	if st.Phase != corev1.PodRunning || !at(st, host, own) || st.ObservedGeneration != pod.Generation ||
		pod.Annotations[NotReady] != "" || len(pod.Spec.ReadinessGates) > 0 || len(pod.Spec.InitContainers) > 0 ||
		len(st.ContainerStatuses) != len(pod.Spec.Containers) {
		return false
	}
	for i := range st.ContainerStatuses {
		c, spec := &st.ContainerStatuses[i], &pod.Spec.Containers[i]
		if c.Name != spec.Name || c.Image != spec.Image || c.State.Running == nil || !c.Ready {
			return false
		}
	}
	met := 0
	for i := range st.Conditions {
		switch c := &st.Conditions[i]; c.Type {
		case corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady:
			if c.Status == corev1.ConditionTrue && c.Reason == "" && c.Message == "" {
				met++
			}
		}
	}
	return met == 4
}

// running returns the status of a pod that runs, or nil if it is that already.
func running(pod *corev1.Pod, host, own []string, now time.Time) *corev1.PodStatus {
	st := pod.Status.DeepCopy()
	changed := st.Phase != corev1.PodRunning
	st.Phase = corev1.PodRunning
	if st.StartTime == nil {
		at := metav1.NewTime(now).Rfc3339Copy()
		st.StartTime = &at
	}
	st.HostIP, st.HostIPs = host[0], hostIPs(host)
	st.PodIP, st.PodIPs = own[0], podIPs(own)
	changed = changed || !at(&pod.Status, host, own) || st.ObservedGeneration != pod.Generation
	st.ObservedGeneration = pod.Generation
	ready := pod.Annotations[NotReady] != "true"
	var c1, c2 bool
	st.InitContainerStatuses, c1 = containers(pod, pod.Spec.InitContainers, st.InitContainerStatuses, true, true, now)
	st.ContainerStatuses, c2 = containers(pod, pod.Spec.Containers, st.ContainerStatuses, false, ready, now)
	c3 := setReady(st, pod, ready, now)
	if !(changed || c1 || c2 || c3) {
		return nil
	}
	return st
}

// containers returns the statuses of containers that run, or, of init
// containers, that have run. One whose image was changed is started again.
func containers(pod *corev1.Pod, specs []corev1.Container, had []corev1.ContainerStatus, init, ready bool, now time.Time) ([]corev1.ContainerStatus, bool) {
	var out []corev1.ContainerStatus
	at := metav1.NewTime(now).Rfc3339Copy()
	changed := len(specs) != len(had)
	for i := range specs {
		spec := &specs[i]
		var st corev1.ContainerStatus
		if k := slices.IndexFunc(had, func(c corev1.ContainerStatus) bool { return c.Name == spec.Name }); k >= 0 {
			st = had[k]
		}
		sidecar := spec.RestartPolicy != nil && *spec.RestartPolicy == corev1.ContainerRestartPolicyAlways
		completes := init && !sidecar
		started := st.State.Running != nil || completes && st.State.Terminated != nil
		if !started || st.Image != spec.Image {
			if started {
				st.RestartCount++
			}
			id := containerID(pod, spec.Name, st.RestartCount)
			st = corev1.ContainerStatus{Name: spec.Name, Image: spec.Image, ImageID: "sim://" + spec.Image, ContainerID: id, RestartCount: st.RestartCount, Started: new(!completes)}
			if completes {
				st.State.Terminated = &corev1.ContainerStateTerminated{Reason: "Completed", StartedAt: at, FinishedAt: at, ContainerID: id}
			} else {
				st.State.Running = &corev1.ContainerStateRunning{StartedAt: at}
			}
			changed = true
		}
		if st.Ready != ready {
			st.Ready, changed = ready, true
		}
		out = append(out, st)
	}
	return out, changed
}

// setReady sets the conditions of a pod that runs.
func setReady(st *corev1.PodStatus, pod *corev1.Pod, ready bool, now time.Time) bool {
	changed := false
	set := func(t corev1.PodConditionType, ok bool, reason, message string) {
		c := corev1.PodCondition{Type: t, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now).Rfc3339Copy(), ObservedGeneration: pod.Generation}
		if !ok {
			c.Status, c.Reason, c.Message = corev1.ConditionFalse, reason, message
		}
		for i := range st.Conditions {
			if had := &st.Conditions[i]; had.Type == t {
				if had.Status == c.Status {
					c.LastTransitionTime = had.LastTransitionTime
				}
				changed = changed || had.Status != c.Status || had.Reason != c.Reason || had.Message != c.Message
				*had = c
				return
			}
		}
		st.Conditions = append(st.Conditions, c)
		changed = true
	}
	names := make([]string, len(pod.Spec.Containers))
	for i := range names {
		names[i] = pod.Spec.Containers[i].Name
	}
	unready := fmt.Sprintf("containers with unready status: %v", names)
	set(corev1.PodReadyToStartContainers, true, "", "")
	set(corev1.PodInitialized, true, "", "")
	set(corev1.ContainersReady, ready, "ContainersNotReady", unready)
	reason, message := "ContainersNotReady", unready
	for _, gate := range pod.Spec.ReadinessGates {
		open := slices.ContainsFunc(st.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == gate.ConditionType && c.Status == corev1.ConditionTrue
		})
		if ready && !open {
			ready, reason = false, "ReadinessGatesNotReady"
			message = fmt.Sprintf("corresponding condition of pod readiness gate %q is not True.", gate.ConditionType)
		}
	}
	set(corev1.PodReady, ready, reason, message)
	return changed
}

// stopped returns the status of a pod whose containers have ended for good.
func stopped(pod *corev1.Pod, code int32, reason string, now time.Time) *corev1.PodStatus {
	st := pod.Status.DeepCopy()
	st.Phase = corev1.PodSucceeded
	if code != 0 {
		st.Phase = corev1.PodFailed
	}
	end(pod, st.InitContainerStatuses, 0, "Completed", now)
	end(pod, st.ContainerStatuses, code, reason, now)
	for i := range st.Conditions {
		c := &st.Conditions[i]
		if (c.Type == corev1.PodReady || c.Type == corev1.ContainersReady) && c.Status != corev1.ConditionFalse {
			c.Status, c.LastTransitionTime = corev1.ConditionFalse, metav1.NewTime(now).Rfc3339Copy()
			c.Reason = "PodCompleted"
			if code != 0 {
				c.Reason = "PodFailed"
			}
		}
	}
	return st
}

// restarted returns the status of a pod whose containers have ended and run
// again.
func restarted(pod *corev1.Pod, code int32, now time.Time) *corev1.PodStatus {
	st := pod.Status.DeepCopy()
	reason := "Completed"
	if code != 0 {
		reason = "Error"
	}
	end(pod, st.ContainerStatuses, code, reason, now)
	for i := range st.ContainerStatuses {
		c := &st.ContainerStatuses[i]
		c.LastTerminationState, c.RestartCount = c.State, c.RestartCount+1
		c.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(now).Rfc3339Copy()}}
		c.ContainerID = containerID(pod, c.Name, c.RestartCount)
		c.Ready, c.Started = true, new(true)
	}
	return st
}

func end(pod *corev1.Pod, statuses []corev1.ContainerStatus, code int32, reason string, now time.Time) {
	for i := range statuses {
		c := &statuses[i]
		if c.State.Terminated != nil {
			continue
		}
		t := &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason, FinishedAt: metav1.NewTime(now).Rfc3339Copy(), ContainerID: c.ContainerID}
		if c.State.Running != nil {
			t.StartedAt = c.State.Running.StartedAt
		}
		c.State, c.Ready, c.Started = corev1.ContainerState{Terminated: t}, false, new(false)
	}
}

// containerID is made up from what names the container, so that whoever takes
// over says the same.
func containerID(pod *corev1.Pod, container string, restarts int32) string {
	h := fnv.New128a()
	fmt.Fprintf(h, "%s/%s/%d", pod.UID, container, restarts)
	return fmt.Sprintf("sim://%x", h.Sum(nil))
}
