package controllers_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/loop"
)

// counting is a view that counts the objects it hands over.
type counting struct {
	client.View
	shown int
}

func (v *counting) List(namespace string) []client.Object {
	objs := v.View.List(namespace)
	v.shown += len(objs)
	return objs
}

func (v *counting) ByIndex(name, value string) []client.Object {
	objs := v.View.ByIndex(name, value)
	v.shown += len(objs)
	return objs
}

func names[T client.Object](objs []T) []string {
	var out []string
	for _, obj := range objs {
		out = append(out, obj.GetName())
	}
	slices.Sort(out)
	return out
}

// What a look at three pods of one app costs must not depend on how many pods
// of others there are, even where all share a label.
func TestSelectedCostsWhatItFinds(t *testing.T) {
	shown := func(others int) (n int) {
		synctest.Test(t, func(t *testing.T) {
			c := apitest.New(t, apitest.Options{}).Client("tester")
			file := func(name, app string) {
				if _, err := c.Create(t.Context(), client.Pods, &corev1.Pod{
					ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"env": "prod", "app": app}},
					Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}); err != nil {
					t.Fatal(err)
				}
			}
			for i := range others {
				file(fmt.Sprint("other-", i), fmt.Sprint("other-", i/3))
			}
			for i := range 3 {
				file(fmt.Sprint("web-", i), "web")
			}
			view := &counting{View: c.View(client.Pods, client.ViewOptions{})}
			controllers.IndexByLabel(view)
			if err := view.WaitSynced(t.Context()); err != nil {
				t.Fatal(err)
			}
			got := names(controllers.Selected[*corev1.Pod](view, "default", map[string]string{"env": "prod", "app": "web"}))
			if want := []string{"web-0", "web-1", "web-2"}; !slices.Equal(got, want) {
				t.Errorf("selected %v, want %v", got, want)
			}
			for _, set := range []map[string]string{nil, {"app": "nobody"}, {"app": "web", "env": "test"}} {
				if got := controllers.Selected[*corev1.Pod](view, "default", set); len(got) != 0 {
					t.Errorf("%v selects %v", set, names(got))
				}
			}
			if got := controllers.Selected[*corev1.Pod](view, "kube-system", map[string]string{"app": "web"}); len(got) != 0 {
				t.Errorf("another namespace has %v", names(got))
			}
			n = view.shown
		})
		return n
	}
	if few, many := shown(6), shown(60); few != many {
		t.Errorf("%d objects were looked at among few, %d among ten times as many", few, many)
	}
}

func TestSelectingCostsWhatItFinds(t *testing.T) {
	shown := func(others int) (n int) {
		synctest.Test(t, func(t *testing.T) {
			c := apitest.New(t, apitest.Options{}).Client("tester")
			file := func(name string, selector map[string]string) {
				if _, err := c.Create(t.Context(), client.Services, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
					Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, ClusterIP: corev1.ClusterIPNone, ClusterIPs: []string{corev1.ClusterIPNone}, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}, SessionAffinity: corev1.ServiceAffinityNone, Selector: selector, Ports: []corev1.ServicePort{{Port: 80, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(80)}}}}); err != nil {
					t.Fatal(err)
				}
			}
			for i := range others {
				file(fmt.Sprint("other-", i), map[string]string{"app": fmt.Sprint("other-", i)})
			}
			file("web", map[string]string{"app": "web"})
			file("web-front", map[string]string{"app": "web", "tier": "front"})
			view := &counting{View: c.View(client.Services, client.ViewOptions{})}
			controllers.IndexBySelector(view, func(obj client.Object) map[string]string { return obj.(*corev1.Service).Spec.Selector })
			if err := view.WaitSynced(t.Context()); err != nil {
				t.Fatal(err)
			}
			got := names(controllers.Selecting[*corev1.Service](view, "default", map[string]string{"app": "web", "more": "labels"}))
			if want := []string{"web", "web-front"}; !slices.Equal(got, want) { // the second asks for more: the caller looks
				t.Errorf("got %v, want %v", got, want)
			}
			n = view.shown
		})
		return n
	}
	if few, many := shown(5), shown(50); few != many {
		t.Errorf("%d objects were looked at among few, %d among ten times as many", few, many)
	}
}

func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var looks []string
		l := controllers.NewLoop(controllers.Options{}, "test", 1, func(_ context.Context, key loop.Key) (loop.Outcome, error) {
			looks = append(looks, fmt.Sprint(key.Name, " after ", time.Since(begin)))
			return loop.Done(), nil
		})
		go l.Run(t.Context())
		pace := controllers.Pace{Few: 10, Each: time.Millisecond, Most: time.Second}
		for name, size := range map[string]int{"small": 9, "large": 300, "huge": 5000, "shrunk": 7000} {
			pace.Note(loop.Key{Name: name}, size)
		}
		pace.Note(loop.Key{Name: "shrunk"}, 0)
		for _, name := range []string{"huge", "large", "large", "small", "shrunk"} {
			pace.Look(l, loop.Key{Name: name})
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		want := []string{"small after 0s", "shrunk after 0s", "large after 300ms", "huge after 1s"}
		if !slices.Equal(looks, want) {
			t.Errorf("got %q, want %q", looks, want)
		}
	})
}
