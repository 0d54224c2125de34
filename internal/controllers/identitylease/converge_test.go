package identitylease_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/controllertest"
	"github.com/setpoint-project/setpoint/internal/controllers/identitylease"
)

var id = identitylease.Identity{Name: "apiserver-us", Holder: "apiserver-us_1", Hostname: "us"}

func lease(name, holder string, renewed time.Duration, labelled bool) *coordinationv1.Lease {
	seconds, at := int32(3600), metav1.NewMicroTime(time.Now().Add(-renewed))
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &at}}
	if labelled {
		l.Labels = map[string]string{identitylease.Label: identitylease.Value}
	}
	return l
}

func line(obj client.Object) string {
	l := obj.(*coordinationv1.Lease)
	return fmt.Sprint(l.Name, " ", *l.Spec.HolderIdentity, " ", l.Labels["kubernetes.io/hostname"])
}

func TestConverges(t *testing.T) {
	controllertest.Run(t, controllertest.Case{
		Loops: func(o controllers.Options) []controllers.Controller {
			return []controllers.Controller{identitylease.New(o, id)}
		},
		Renewal: func(w client.Write) bool { return w.Verb == "update" && w.Name == id.Name },
		Start: func(w *controllertest.World) {
			if w.Rand.IntN(2) == 0 { // of the process before
				w.Create(client.Leases, lease(id.Name, "apiserver-us_0", time.Duration(w.Rand.IntN(7200))*time.Second, true))
			}
			for i := range w.Rand.IntN(3) {
				w.Create(client.Leases, lease(fmt.Sprint("apiserver-gone-", i), "x", 2*time.Hour, true))
			}
			w.Create(client.Leases, lease("apiserver-lives", "y", 0, true))
			w.Create(client.Leases, lease("somebody-else", "z", 2*time.Hour, false))
		},
		Meanwhile: func(w *controllertest.World) {
			w.Delete(client.Leases, "kube-system", id.Name, metav1.DeleteOptions{})
		},
		End: func(w *controllertest.World) string {
			return w.Lines(client.Leases, func(obj client.Object) string {
				if obj.GetName() == id.Name {
					return line(obj)[:len(id.Name)+1+len(id.Holder)]
				}
				return line(obj)
			})
		},
		Check: func(w *controllertest.World) error {
			if n := len(w.List(client.Leases)); n != 3 {
				return fmt.Errorf("%d leases, want ours, that of who lives and that of somebody else", n)
			}
			l := w.Get(client.Leases, "kube-system", id.Name).(*coordinationv1.Lease)
			if since := time.Since(l.Spec.RenewTime.Time); *l.Spec.HolderIdentity != id.Holder || since > identitylease.Renewal {
				return fmt.Errorf("ours is held by %s and was renewed %v ago", *l.Spec.HolderIdentity, since)
			}
			return nil
		},
	})
}

// A machine whose name is no label has a lease all the same.
func TestNameThatIsNoLabel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := apitest.New(t, apitest.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		odd := identitylease.Identity{Name: "apiserver-odd", Holder: "x", Hostname: "-odd-"}
		go func() {
			identitylease.New(controllers.Options{Client: h.Client("loops")}, odd).Run(ctx)
			close(ended)
		}()
		time.Sleep(time.Minute)
		lease, err := h.Client("tester").Get(ctx, client.Leases, "kube-system", "apiserver-odd")
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := lease.GetLabels()["kubernetes.io/hostname"]; ok || lease.GetLabels()[identitylease.Label] != identitylease.Value {
			t.Errorf("labels %v", lease.GetLabels())
		}
		cancel()
		<-ended
	})
}

// A lease is renewed six times in its life, and another's goes when its own is
// over.
func TestTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := apitest.New(t, apitest.Options{})
		w := &controllertest.World{TB: t, Client: h.Client("tester")}
		w.Create(client.Leases, lease("apiserver-other", "y", 0, true))
		var renewed []time.Duration
		begin := time.Now()
		w.Client.View(client.Leases, client.ViewOptions{}).Handle(func(_, new client.Object) {
			if new != nil && new.GetName() == id.Name {
				renewed = append(renewed, time.Since(begin).Round(time.Second))
			}
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			identitylease.New(controllers.Options{Client: w.Client}, id).Run(ctx)
			close(ended)
		}()
		time.Sleep(time.Hour - time.Second)
		synctest.Wait()
		if n := len(renewed); n != 6 || renewed[5] != 50*time.Minute {
			t.Errorf("written after %v, want each ten minutes", renewed)
		}
		if w.Get(client.Leases, "kube-system", "apiserver-other") == nil {
			t.Error("a lease goes before its time")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if w.Get(client.Leases, "kube-system", "apiserver-other") != nil {
			t.Error("a lease stays after its time")
		}
		cancel()
		<-ended
	})
}

func TestOf(t *testing.T) {
	a, again, b := identitylease.Of("a"), identitylease.Of("a"), identitylease.Of("b")
	if a.Name != again.Name || a.Holder == again.Holder || a.Name == b.Name || len(a.Name) != len("apiserver-")+26 {
		t.Errorf("%+v, again %+v, another %+v", a, again, b)
	}
}
