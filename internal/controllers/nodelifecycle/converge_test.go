package nodelifecycle_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/controllertest"
	"github.com/setpoint-project/setpoint/internal/controllers/nodelifecycle"
	"github.com/setpoint-project/setpoint/internal/simnode"
)

// simulated plays the nodes.
func simulated(o controllers.Options) []controllers.Controller {
	s, err := simnode.New(simnode.Options{Client: o.Client, Count: 4})
	if err != nil {
		panic(err)
	}
	return []controllers.Controller{s}
}

func silence(w *controllertest.World, node string, silent bool) {
	w.Edit(client.Nodes, "", node, func(obj client.Object) {
		annotations := obj.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[simnode.Silent] = fmt.Sprint(silent)
		obj.SetAnnotations(annotations)
	})
}

func filePod(w *controllertest.World, name, node string, tolerations ...corev1.Toleration) {
	w.Create(client.Pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.PodSpec{NodeName: node, Tolerations: tolerations, Containers: []corev1.Container{{Name: "c", Image: "app"}}}})
}

func tolerate(seconds ...int64) corev1.Toleration {
	t := corev1.Toleration{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}
	if len(seconds) > 0 {
		t.TolerationSeconds = &seconds[0]
	}
	return t
}

func end(w *controllertest.World) string {
	nodes := w.Lines(client.Nodes, func(obj client.Object) string {
		node := obj.(*corev1.Node)
		var words []string
		for _, c := range node.Status.Conditions {
			words = append(words, fmt.Sprintf("%s=%s", c.Type, c.Status))
		}
		for _, t := range node.Spec.Taints {
			words = append(words, t.Key+":"+string(t.Effect))
		}
		slices.Sort(words)
		return node.Name + " " + strings.Join(words, " ")
	})
	return nodes + w.Lines(client.Pods, func(obj client.Object) string {
		pod := obj.(*corev1.Pod)
		line := fmt.Sprintf("%s deleted=%v", pod.Name, pod.DeletionTimestamp != nil)
		for _, c := range pod.Status.Conditions {
			line += fmt.Sprintf(" %s=%s", c.Type, c.Status)
		}
		return line
	})
}

func start(w *controllertest.World) {
	w.Create(client.Namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: corev1.NamespaceNodeLease}})
	for i := range 4 {
		node := fmt.Sprint("sim-", i)
		filePod(w, "forever-"+node, node, tolerate())
		filePod(w, "a-while-"+node, node, tolerate(120))
		filePod(w, "not-at-all-"+node, node)
	}
}

func loops(o controllers.Options) []controllers.Controller {
	return []controllers.Controller{nodelifecycle.New(o)}
}

// A node falls silent for good.
func TestConvergesSilent(t *testing.T) {
	controllertest.Run(t, controllertest.Case{
		Loops: loops, Others: simulated, Start: start, End: end, Runs: 50,
		Meanwhile: func(w *controllertest.World) { silence(w, "sim-1", true) },
		Check: func(w *controllertest.World) error {
			node := w.Get(client.Nodes, "", "sim-1").(*corev1.Node)
			if len(node.Spec.Taints) != 2 {
				return fmt.Errorf("taints %v", node.Spec.Taints)
			}
			if n := w.Done("delete", client.Pods); n < 2 || n > 2*w.Copies && !w.Faulty {
				return fmt.Errorf("%d pods were evicted, want 2", n)
			}
			return nil
		},
	})
}

// A node falls silent and comes back, another is cordoned: nothing is left.
func TestConvergesBack(t *testing.T) {
	controllertest.Run(t, controllertest.Case{
		Loops: loops, Others: simulated, Start: start, Runs: 50,
		Meanwhile: func(w *controllertest.World) {
			silence(w, "sim-1", true)
			w.Rest(100 * time.Second)
			silence(w, "sim-1", false)
			w.Edit(client.Nodes, "", "sim-2", func(obj client.Object) { obj.(*corev1.Node).Spec.Unschedulable = true })
		},
		// How many pods had to go depends on how long the node was away.
		End: func(w *controllertest.World) string {
			nodes, _, _ := strings.Cut(end(w), "pods:")
			return nodes
		},
		Check: func(w *controllertest.World) error {
			for _, obj := range w.List(client.Nodes) {
				node := obj.(*corev1.Node)
				if taints := len(node.Spec.Taints); node.Name == "sim-2" && taints != 1 || node.Name != "sim-2" && taints != 0 {
					return fmt.Errorf("%s has %v", node.Name, node.Spec.Taints)
				}
			}
			for _, obj := range w.List(client.Pods) {
				for _, c := range obj.(*corev1.Pod).Status.Conditions {
					if c.Type == corev1.PodReady && c.Status != corev1.ConditionTrue {
						return fmt.Errorf("%s is not ready", obj.GetName())
					}
				}
			}
			return nil
		},
	})
}
