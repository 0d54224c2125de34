package scheduler_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/controllertest"
	"github.com/setpoint-project/setpoint/internal/scheduler"
)

// newScheduler makes one from options that are right.
func newScheduler(opts scheduler.Options) *scheduler.Scheduler {
	s, err := scheduler.New(opts)
	if err != nil {
		panic(err)
	}
	return s
}

func loops(o controllers.Options) []controllers.Controller {
	return []controllers.Controller{newScheduler(scheduler.Options{Client: o.Client, Recorder: o.Events, Bindings: 4})}
}

func amounts(cpu int) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(int64(cpu), resource.DecimalSI),
		corev1.ResourceMemory: resource.MustParse("64Gi"), corev1.ResourcePods: resource.MustParse("110")}
}

func fileNode(w *controllertest.World, name string, cpu int) {
	w.Create(client.Nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
	w.Edit(client.Nodes, "", name, func(obj client.Object) {
		node := obj.(*corev1.Node)
		node.Status.Capacity, node.Status.Allocatable = amounts(cpu), amounts(cpu)
	}, "status")
}

func filePod(w *controllertest.World, name string, cpu int) { filePodOf(w, name, cpu, 0) }

func filePodOf(w *controllertest.World, name string, cpu int, priority int32) {
	w.Create(client.Pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.PodSpec{Priority: &priority, SchedulerName: corev1.DefaultSchedulerName, Containers: []corev1.Container{{Name: "c", Image: "app",
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(int64(cpu), resource.DecimalSI)}}}}}})
}

// placed writes down which pods have a node, and of the others why not.
func placed(w *controllertest.World) string {
	return w.Lines(client.Pods, func(obj client.Object) string {
		pod := obj.(*corev1.Pod)
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodScheduled {
				return fmt.Sprintf("%s %s %s %s", pod.Name, c.Status, c.Reason, c.Message)
			}
		}
		return pod.Name
	})
}

// fitting checks that no node has more than it can hold.
func fitting(w *controllertest.World) error {
	used := map[string]int64{}
	for _, obj := range w.List(client.Pods) {
		pod := obj.(*corev1.Pod)
		used[pod.Spec.NodeName] += pod.Spec.Containers[0].Resources.Requests.Cpu().Value()
	}
	for _, obj := range w.List(client.Nodes) {
		if node := obj.(*corev1.Node); used[node.Name] > node.Status.Allocatable.Cpu().Value() {
			return fmt.Errorf("node %s has %s CPUs, its pods ask for %d", node.Name, node.Status.Allocatable.Cpu(), used[node.Name])
		}
	}
	return nil
}

// There is room for all: all are placed, by one scheduler or two.
func TestConvergesWithRoom(t *testing.T) {
	controllertest.Run(t, controllertest.Case{
		Loops: loops, End: placed,
		Start: func(w *controllertest.World) {
			for i := range 3 {
				fileNode(w, fmt.Sprint("n", i), 100)
			}
			for i := range 1 + w.Rand.IntN(8) {
				filePod(w, fmt.Sprint("a", i), 1)
			}
		},
		Meanwhile: func(w *controllertest.World) {
			for i := range w.Rand.IntN(6) {
				w.Delete(client.Pods, "default", fmt.Sprint("a", i), metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
				filePod(w, fmt.Sprint("b", i), 1)
			}
		},
	})
}

// There is room for all in the end, and never for more: each place that comes
// free is filled, no node holds more than it can. (By one scheduler: two that
// see the same place free both fill it, and the kubelet turns a pod away.)
func TestConvergesFull(t *testing.T) {
	controllertest.Run(t, controllertest.Case{
		Loops: loops, End: placed, Check: fitting, Single: true,
		Start: func(w *controllertest.World) {
			fileNode(w, "n0", 3)
			for i := range 6 {
				filePod(w, fmt.Sprint("p", i), 1)
			}
		},
		Meanwhile: func(w *controllertest.World) {
			for i := range w.Rand.IntN(4) {
				w.Delete(client.Pods, "default", fmt.Sprint("p", i), metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
			}
			fileNode(w, "n1", 6)
		},
	})
}

// Whatever is lost or crashes amid a preemption, in the end every urgent pod
// has its place, and no node more than it can hold.
func TestConvergesByPreemption(t *testing.T) {
	urgent := func(name string) bool { return name[0] == 'u' }
	controllertest.Run(t, controllertest.Case{
		Loops: loops, Others: controllertest.Kubelets, Check: fitting, Single: true,
		Start: func(w *controllertest.World) {
			for i := range 2 {
				fileNode(w, fmt.Sprint("n", i), 4)
			}
			for i := range 8 {
				filePod(w, fmt.Sprint("low", i), 1)
			}
		},
		Meanwhile: func(w *controllertest.World) {
			for i := range 1 + w.Rand.IntN(4) {
				filePodOf(w, fmt.Sprint("urgent", i), 2, 1000)
				w.Rest(time.Duration(w.Rand.IntN(4)) * time.Second)
			}
		},
		End: func(w *controllertest.World) string {
			return w.Lines(client.Pods, func(obj client.Object) string {
				if !urgent(obj.GetName()) {
					return ""
				}
				return fmt.Sprint(obj.GetName(), " placed ", obj.(*corev1.Pod).Spec.NodeName != "")
			})
		},
	})
}
