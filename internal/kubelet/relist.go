package kubelet

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/setpoint-project/setpoint/internal/kubelet/cri"
	"github.com/setpoint-project/setpoint/internal/kubelet/pod"
)

const (
	// relistEvery is how often the runtime is asked for everything it has,
	// where it tells no events. One list serves all pods.
	relistEvery = time.Second
	// relistSeldom is that with events, which may still be lost.
	relistSeldom = 5 * time.Second
)

// found is what the runtime has of one pod.
type found struct {
	print  string // changes when any state does
	labels map[string]string
	notes  map[string]string // annotations of a container
}

// relist watches the runtime until ctx ends and wakes the workers of pods that
// changed there. Pods that are in the runtime only get a worker too, which
// takes them away.
func (k *Kubelet) relist(ctx context.Context) {
	events := make(chan string, 256)
	told := make(chan bool, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		k.listen(ctx, events, told)
	}()
	defer func() { <-done }()
	every := relistEvery
	last := map[types.UID]string{}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case uid := <-events:
			k.wake(types.UID(uid), (*pod.Worker).WakeRuntime)
			continue
		case listening := <-told:
			every = relistEvery
			if listening {
				every = relistSeldom
			}
			timer.Reset(0)
			continue
		case <-timer.C:
			timer.Reset(every)
		}
		now, err := k.list(ctx)
		if err != nil {
			if ctx.Err() == nil {
				k.opts.Logger.Debug("runtime not listed", "error", err)
			}
			continue
		}
		k.compare(last, now)
		last = map[types.UID]string{}
		for uid, f := range now {
			last[uid] = f.print
		}
	}
}

// compare wakes whoever changed.
func (k *Kubelet) compare(last map[types.UID]string, now map[types.UID]*found) {
	for uid, f := range now {
		if last[uid] == f.print {
			continue
		}
		if !k.wake(uid, (*pod.Worker).WakeRuntime) && k.unknown(uid, f) {
			k.worker(orphan(uid, f)).WakeRuntime()
		}
	}
	for uid := range last {
		if now[uid] == nil {
			k.wake(uid, (*pod.Worker).WakeRuntime)
		}
	}
}

// unknown tells whether the API server knows nothing of a pod. One it knows
// gets its worker from the view.
func (k *Kubelet) unknown(uid types.UID, f *found) bool {
	o := k.pods.Get(f.labels[cri.LabelPodNamespace], f.labels[cri.LabelPodName])
	return o == nil || o.GetUID() != uid
}

// orphan is what can be told of a pod from its containers only.
func orphan(uid types.UID, f *found) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{
		UID: uid, Name: f.labels[cri.LabelPodName], Namespace: f.labels[cri.LabelPodNamespace]}}
	for _, key := range []string{cri.AnnotationPodDeletionGrace, cri.AnnotationPodGracePeriod} {
		if s, err := strconv.ParseInt(f.notes[key], 10, 64); err == nil {
			p.Spec.TerminationGracePeriodSeconds = &s
			break
		}
	}
	return p
}

// list asks the runtime for all this kubelet has there.
func (k *Kubelet) list(ctx context.Context) (map[types.UID]*found, error) {
	mine := map[string]string{cri.LabelOwner: k.opts.Owner}
	sandboxes, err := k.rt.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{Filter: &runtimeapi.PodSandboxFilter{LabelSelector: mine}})
	if err != nil {
		return nil, err
	}
	containers, err := k.rt.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{LabelSelector: mine}})
	if err != nil {
		return nil, err
	}
	out := map[types.UID]*found{}
	prints := map[types.UID][]string{}
	get := func(labels map[string]string) (types.UID, *found) {
		uid := types.UID(labels[cri.LabelPodUID])
		if out[uid] == nil {
			out[uid] = &found{labels: labels}
		}
		return uid, out[uid]
	}
	for _, b := range sandboxes.Items {
		uid, _ := get(b.Labels)
		prints[uid] = append(prints[uid], fmt.Sprint(b.Id, b.State))
	}
	for _, c := range containers.Containers {
		uid, f := get(c.Labels)
		f.notes = c.Annotations
		prints[uid] = append(prints[uid], fmt.Sprint(c.Id, c.State))
	}
	for uid, f := range out {
		slices.Sort(prints[uid])
		f.print = strings.Join(prints[uid], ",")
	}
	return out, nil
}

// listen takes the runtime's events where it has them, and tells whether it
// does.
func (k *Kubelet) listen(ctx context.Context, events chan<- string, told chan<- bool) {
	for ctx.Err() == nil {
		stream, err := k.rt.GetContainerEvents(ctx, &runtimeapi.GetEventsRequest{})
		for first := true; err == nil; first = false {
			var e *runtimeapi.ContainerEventResponse
			if e, err = stream.Recv(); err != nil {
				break
			}
			if first {
				tell(ctx, told, true)
			}
			if uid := e.GetPodSandboxStatus().GetLabels()[cri.LabelPodUID]; uid != "" {
				select {
				case events <- uid:
				case <-ctx.Done():
				}
			}
		}
		if ctx.Err() != nil || isUnimplemented(err) {
			return
		}
		tell(ctx, told, false)
		select {
		case <-ctx.Done():
		case <-time.After(relistEvery):
		}
	}
}

func tell(ctx context.Context, told chan<- bool, v bool) {
	select {
	case told <- v:
	case <-ctx.Done():
	}
}
