package intern_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/randfill"

	"github.com/setpoint-project/setpoint/internal/apiserver/intern"
	"github.com/setpoint-project/setpoint/internal/kinds/all"
)

type message interface {
	intern.Message
	Marshal() ([]byte, error)
}

func filler(seed int64) *randfill.Filler {
	return randfill.NewWithSeed(seed).NilChance(0.3).NumElements(0, 3).MaxDepth(12).Funcs(
		func(q *resource.Quantity, c randfill.Continue) {
			*q = resource.MustParse(fmt.Sprint(c.Intn(1<<20), "Ki"))
		},
		func(t *metav1.Time, c randfill.Continue) { *t = metav1.Unix(int64(c.Intn(1<<31)), 0) },
		func(t *metav1.MicroTime, c randfill.Continue) {
			*t = metav1.NewMicroTime(time.Unix(int64(c.Intn(1<<31)), 0))
		},
		func(f *metav1.FieldsV1, c randfill.Continue) {
			f.SetRawBytes([]byte(fmt.Sprintf(`{"f:a%d":{}}`, c.Intn(9))))
		},
		func(r *runtime.RawExtension, _ randfill.Continue) { r.Raw = []byte(`{"a":1}`) },
	)
}

// Objects of all kinds are read as they read themselves, whether what they have
// in common with others is known or not.
func TestUnmarshalAllKinds(t *testing.T) {
	table := intern.New()
	pods := 0
	for _, k := range all.Kinds() {
		for i := range k.Versions {
			if _, ok := k.Versions[i].New().(message); !ok {
				continue
			}
			for seed := range int64(6) {
				in := k.Versions[i].New()
				filler(seed).Fill(in)
				raw, err := in.(message).Marshal()
				if err != nil {
					t.Fatal(err)
				}
				want := k.Versions[i].New()
				if err := want.(message).Unmarshal(raw); err != nil {
					t.Fatal(err)
				}
				want.(message).Size()
				for range 3 {
					got := k.Versions[i].New()
					if err := table.Unmarshal(got.(message), raw); err != nil {
						t.Fatal(err)
					}
					if !reflect.DeepEqual(got, want) {
						t.Fatalf("%T, seed %d:\ngot  %+v\nwant %+v", got, seed, got, want)
					}
				}
				if _, ok := in.(*corev1.Pod); ok {
					pods++
				}
			}
		}
	}
	if pods == 0 {
		t.Error("no pod was read")
	}
}

// replica is a pod as a ReplicaSet makes it and a node reports it.
func replica(i int) *corev1.Pod {
	yes := true
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprint("web-", i), Namespace: "shop", UID: types.UID(fmt.Sprint("uid-", i)), Labels: map[string]string{"app": "web"},
			OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web", UID: "1", Controller: &yes}},
			ManagedFields:   []metav1.ManagedFieldsEntry{{Manager: "a"}, {Manager: "b"}, {Manager: "c"}},
		},
		Spec: corev1.PodSpec{
			NodeName: fmt.Sprint("node-", i), Volumes: []corev1.Volume{{Name: "token"}},
			Affinity:   &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}},
			Containers: []corev1.Container{{Name: "c", Image: "web:1", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("10m")}}}},
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: fmt.Sprint("10.0.0.", i), PodIPs: []corev1.PodIP{{IP: fmt.Sprint("10.0.0.", i)}},
			Conditions:        []corev1.PodCondition{{Type: corev1.PodReady}, {Type: corev1.PodInitialized}, {Type: corev1.PodScheduled}},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "c", Image: "web:1", ContainerID: fmt.Sprint("sim://", i)}},
		},
	}
}

// The third pod of a shape shares its parts with those after it.
func TestReplicasShare(t *testing.T) {
	table := intern.New()
	read := func(i int) *corev1.Pod {
		raw, err := replica(i).Marshal()
		if err != nil {
			t.Fatal(err)
		}
		pod := &corev1.Pod{}
		if err := table.Unmarshal(pod, raw); err != nil {
			t.Fatal(err)
		}
		return pod
	}
	read(1)
	read(2)
	a, b := read(3), read(4)
	same := func(what string, x, y any) {
		t.Helper()
		if reflect.ValueOf(x).Pointer() != reflect.ValueOf(y).Pointer() {
			t.Errorf("%s are there twice", what)
		}
	}
	same("containers", a.Spec.Containers, b.Spec.Containers)
	same("volumes", a.Spec.Volumes, b.Spec.Volumes)
	same("affinities", a.Spec.Affinity, b.Spec.Affinity)
	same("labels", a.Labels, b.Labels)
	same("owners", a.OwnerReferences, b.OwnerReferences)
	if a.Name == b.Name || a.UID == b.UID || a.Spec.NodeName == b.Spec.NodeName || a.Status.PodIP == b.Status.PodIP {
		t.Errorf("pods are taken for one another: %v, %v", a, b)
	}
	if len(a.ManagedFields) != cap(a.ManagedFields) || len(a.Status.Conditions) != cap(a.Status.Conditions) {
		t.Errorf("room for %d of %d managers, %d of %d conditions", cap(a.ManagedFields), len(a.ManagedFields), cap(a.Status.Conditions), len(a.Status.Conditions))
	}
}

// What is in one object only does not fill the table, and a full table goes on
// to share.
func TestMany(t *testing.T) {
	table := intern.New()
	for i := range 20_000 {
		pod := replica(i % 200)
		pod.Labels = map[string]string{"app": fmt.Sprint(i / 3), "i": fmt.Sprint(i % 7)}
		raw, err := pod.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		got := &corev1.Pod{}
		if err := table.Unmarshal(got, raw); err != nil {
			t.Fatal(err)
		}
		if got.Labels["app"] != fmt.Sprint(i/3) || got.Labels["i"] != fmt.Sprint(i%7) || got.Name != pod.Name {
			t.Fatalf("%d was read as %v", i, got.ObjectMeta)
		}
	}
}

// FuzzUnmarshal changes the bytes of a pod: what comes out is what the pod's
// own Unmarshal says, and no other pod is touched.
func FuzzUnmarshal(f *testing.F) {
	good, err := replica(7).Marshal()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	rng := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		bad := bytes.Clone(good)
		for range 1 + rng.IntN(3) {
			switch i := rng.IntN(len(bad)); rng.IntN(4) {
			case 0:
				bad[i] = byte(rng.IntN(256))
			case 1:
				bad = append(bad[:i:i], bad[min(len(bad), i+1+rng.IntN(4)):]...)
			case 2:
				bad = append(bad[:i:i], append([]byte{byte(rng.IntN(256))}, bad[i:]...)...)
			default:
				bad = append(bad, good[rng.IntN(len(good)):]...)
			}
			if len(bad) == 0 {
				bad = []byte{0}
			}
		}
		f.Add(bad)
	}
	table := intern.New()
	var first corev1.Pod
	for range 3 {
		first = corev1.Pod{}
		if err := table.Unmarshal(&first, good); err != nil {
			f.Fatal(err)
		}
	}
	was := first.DeepCopy()
	f.Fuzz(func(t *testing.T, raw []byte) {
		var got, want corev1.Pod
		wantErr := want.Unmarshal(raw)
		want.Size()
		if err := table.Unmarshal(&got, raw); (err == nil) != (wantErr == nil) {
			t.Fatalf("got %v, the pod's own says %v", err, wantErr)
		}
		if wantErr == nil && !reflect.DeepEqual(&got, &want) {
			t.Fatalf("got  %+v\nwant %+v", &got, &want)
		}
		if !reflect.DeepEqual(&first, was) {
			t.Fatalf("a pod that was read before is now %+v", &first)
		}
	})
}

func BenchmarkUnmarshal(b *testing.B) {
	var raws [64][]byte
	for i := range raws {
		raws[i], _ = replica(i).Marshal()
	}
	table := intern.New()
	for name, read := range map[string]func(*corev1.Pod, []byte) error{
		"own": (*corev1.Pod).Unmarshal, "shared": func(p *corev1.Pod, raw []byte) error { return table.Unmarshal(p, raw) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for i := range b.N {
				if err := read(&corev1.Pod{}, raws[i%len(raws)]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
