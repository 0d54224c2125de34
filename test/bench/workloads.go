package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/scheduler"
	"github.com/setpoint-project/setpoint/internal/store/local"
)

// workload is one of the shapes that upstream publishes thresholds for (its
// scheduler_perf): nodes and pods that are there, and pods whose placing is
// measured while they are being made.
type workload struct {
	name      string
	threshold float64 // pods a second
	nodes     int
	initial   []batch
	measured  batch
	churn     func(ctx context.Context, c client.Interface, i int) error // every interval, meanwhile
	interval  time.Duration
}

// batch is so many pods, each as pod makes it.
type batch struct {
	count int
	pod   func(p *corev1.Pod, i int)
}

func color(c string) map[string]string { return map[string]string{"color": c} }

func podTerm(key string, set map[string]string, namespaces ...string) corev1.PodAffinityTerm {
	return corev1.PodAffinityTerm{TopologyKey: key, LabelSelector: &metav1.LabelSelector{MatchLabels: set}, Namespaces: namespaces}
}

func plain(*corev1.Pod, int) {}

func near(p *corev1.Pod, _ int) {
	p.Labels = color("blue")
	p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{podTerm(corev1.LabelTopologyZone, color("blue"))}}}
}

func apart(p *corev1.Pod, _ int) {
	p.Labels = color("green")
	p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{podTerm(corev1.LabelHostname, color("green"))}}}
}

func rather(sign int) func(*corev1.Pod, int) {
	return func(p *corev1.Pod, _ int) {
		p.Labels = color("red")
		terms := []corev1.WeightedPodAffinityTerm{{Weight: 1, PodAffinityTerm: podTerm(corev1.LabelHostname, color("red"))}}
		if p.Spec.Affinity = (&corev1.Affinity{PodAffinity: &corev1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: terms}}); sign < 0 {
			p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: terms}}
		}
	}
}

func spread(when corev1.UnsatisfiableConstraintAction) func(*corev1.Pod, int) {
	return func(p *corev1.Pod, _ int) {
		p.Labels = color("blue")
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 5, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: when, LabelSelector: &metav1.LabelSelector{MatchLabels: color("blue")}}}
	}
}

// inZones is the node affinity of the pods that upstream measures.
func inZones(p *corev1.Pod, _ int) {
	p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{"zone1", "zone2"}}}}}}}}
}

// ofDaemon asks for one node by its name, as the pods of a DaemonSet do.
func ofDaemon(p *corev1.Pod, i int) {
	p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{nodeName(i % 5000)}}}}}}}}
}

func low(p *corev1.Pod, _ int) {
	p.Spec.Priority = new(int32(0))
	p.Spec.TerminationGracePeriodSeconds = new(int64(0))
	request(p, "900m")
}

func high(p *corev1.Pod, _ int) {
	p.Spec.Priority = new(int32(10))
	request(p, "3000m")
}

func request(p *corev1.Pod, cpu string) {
	list := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("500Mi")}
	p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: list, Limits: list}
}

// huge fits nowhere.
func huge(ctx context.Context, c client.Interface, i int) error {
	p := newPod("huge", i)
	request(p, "9000m")
	_, err := c.Create(ctx, client.Pods, p)
	return err
}

// comeAndGo makes and deletes a node, a pod that fits nowhere and a Service.
func comeAndGo(ctx context.Context, c client.Interface, i int) error {
	if i%2 == 0 {
		if err := huge(ctx, c, 0); err != nil {
			return err
		}
		return makeNode(ctx, c, "churn")
	}
	if err := c.Delete(ctx, client.Pods, "default", "huge-0", metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
		return err
	}
	return c.Delete(ctx, client.Nodes, "", "churn", metav1.DeleteOptions{})
}

var workloads = []workload{
	{name: "Basic", threshold: 680, nodes: 5000, initial: []batch{{1000, plain}}, measured: batch{10000, plain}},
	{name: "PodAntiAffinity", threshold: 180, nodes: 5000, initial: []batch{{1000, apart}}, measured: batch{2000, apart}},
	{name: "PodAffinity", threshold: 70, nodes: 5000, initial: []batch{{5000, near}}, measured: batch{5000, near}},
	{name: "PreferredPodAffinity", threshold: 160, nodes: 5000, initial: []batch{{5000, rather(1)}}, measured: batch{5000, rather(1)}},
	{name: "PreferredPodAntiAffinity", threshold: 190, nodes: 5000, initial: []batch{{5000, rather(-1)}}, measured: batch{5000, rather(-1)}},
	{name: "NodeAffinity", threshold: 540, nodes: 5000, initial: []batch{{5000, inZones}}, measured: batch{10000, inZones}},
	{name: "TopologySpreading", threshold: 460, nodes: 5000, initial: []batch{{5000, plain}}, measured: batch{5000, spread(corev1.DoNotSchedule)}},
	{name: "PreferredTopologySpreading", threshold: 340, nodes: 5000, initial: []batch{{5000, plain}}, measured: batch{5000, spread(corev1.ScheduleAnyway)}},
	{name: "MixedSchedulingBasePod", threshold: 540, nodes: 5000, initial: []batch{{2000, plain}, {2000, near}, {2000, apart}, {2000, rather(1)}, {2000, rather(-1)}}, measured: batch{5000, plain}},
	{name: "Preemption", threshold: 570, nodes: 5000, initial: []batch{{20000, low}}, measured: batch{5000, plain}, churn: func(ctx context.Context, c client.Interface, i int) error {
		p := newPod("urgent", i)
		high(p, i)
		_, err := c.Create(ctx, client.Pods, p)
		return err
	}, interval: 200 * time.Millisecond},
	{name: "Unschedulable", threshold: 590, nodes: 5000, initial: []batch{{100, plain}}, measured: batch{10000, plain}, churn: huge, interval: 200 * time.Millisecond},
	{name: "Daemonset", threshold: 1100, nodes: 5000, measured: batch{10000, ofDaemon}},
	{name: "MixedChurn", threshold: 710, nodes: 5000, measured: batch{10000, plain}, churn: comeAndGo, interval: time.Second},
	{name: "Gated", threshold: 680, nodes: 5000, initial: []batch{{5000, func(p *corev1.Pod, _ int) {
		p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/hold"}}
	}}}, measured: batch{10000, plain}},
}

func nodeName(i int) string { return fmt.Sprintf("node-%d", i) }

func makeNode(ctx context.Context, c client.Interface, name string) error {
	zone := "zone1"
	list := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("32Gi"), corev1.ResourcePods: resource.MustParse("110")}
	made, err := client.Create(ctx, c, client.Nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name, corev1.LabelTopologyZone: zone}}})
	if err != nil {
		return err
	}
	made = made.DeepCopy()
	made.Status.Capacity, made.Status.Allocatable = list, list
	_, err = c.Update(ctx, client.Nodes, made, "status")
	return err
}

func newPod(name string, i int) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("%s-%d", name, i)},
		Spec: corev1.PodSpec{SchedulerName: corev1.DefaultSchedulerName, Containers: []corev1.Container{{Name: "pause", Image: "pause", Ports: []corev1.ContainerPort{{ContainerPort: 80, Protocol: corev1.ProtocolTCP}}}}}}
	request(p, "100m")
	return p
}

// measureWorkload plays a workload once. As upstream's, it has an API server
// with a store on disk and a scheduler in one process (this one), and nodes
// that are objects only.
// With profiles, a folder, it leaves a CPU profile of what was measured there.
func measureWorkload(w *workload, profiles string, emit func(string, map[string]any)) error {
	testing.Init()
	if err := flag.Set("test.benchtime", "1x"); err != nil {
		return err
	}
	if r := testing.Benchmark(func(b *testing.B) { w.play(b, profiles, emit) }); r.N == 0 {
		return fmt.Errorf("scheduling %s failed", w.name)
	}
	return nil
}

func (w *workload) play(b *testing.B, profiles string, emit func(string, map[string]any)) {
	st, err := local.Open(local.Options{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer st.Close()
	h := apitest.New(b, apitest.Options{Store: st, Mutable: true})
	defer h.Stop()
	c := h.Client("admin")
	ctx, cancel := context.WithCancel(b.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	each(b, w.nodes, func(i int) error { return makeNode(ctx, c, nodeName(i)) })
	s, err := scheduler.New(scheduler.Options{Client: h.Client("system:kube-scheduler"), Seed: 1})
	if err != nil {
		b.Fatal(err)
	}
	wg.Go(func() { s.Run(ctx) })
	bound := make(chan string, 1<<17)
	defer c.View(client.Pods, client.ViewOptions{}).Handle(func(old, new client.Object) {
		is, _ := new.(*corev1.Pod)
		if was, _ := old.(*corev1.Pod); is != nil && is.Spec.NodeName != "" && (was == nil || was.Spec.NodeName == "") {
			bound <- is.GenerateName
		}
	})()
	wait := func(name string, n int) {
		for n > 0 {
			select {
			case got := <-bound:
				if got == name {
					n--
				}
			case <-time.After(2 * time.Minute):
				b.Fatalf("%s: %d pods of %s are not bound", w.name, n, name)
			}
		}
	}
	file := func(name string, of batch) {
		each(b, of.count, func(i int) error {
			p := newPod(name, i)
			of.pod(p, i)
			p.GenerateName = name
			_, err := c.Create(ctx, client.Pods, p)
			return err
		})
	}
	for i, of := range w.initial {
		name := fmt.Sprint("initial", i)
		file(name, of)
		if w.name != "Gated" {
			wait(name, of.count)
		}
	}
	if w.churn != nil {
		wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				if err := w.churn(ctx, c, i); err != nil && ctx.Err() == nil {
					b.Error(err)
					return
				}
				select {
				case <-time.After(w.interval):
				case <-ctx.Done():
				}
			}
		})
	}
	runtime.GC()
	defer w.profile(b, profiles)()
	b.ResetTimer()
	begin, cpu := time.Now(), cpuSeconds()
	file("measured", w.measured)
	wait("measured", w.measured.count)
	took := time.Since(begin)
	b.StopTimer()
	rate := float64(w.measured.count) / took.Seconds()
	b.ReportMetric(rate, "pods/s")
	b.ReportMetric(rate/w.threshold, "x-threshold")
	b.ReportMetric((cpuSeconds()-cpu)*1000/float64(w.measured.count), "cpu-ms/pod")
	emit("scheduling "+w.name, map[string]any{"nodes": w.nodes, "pods": w.measured.count, "pods_per_second": round(rate), "upstream_threshold": w.threshold,
		"times_threshold": round(rate / w.threshold), "target_times": 5, "cpu_ms_each": round((cpuSeconds() - cpu) * 1000 / float64(w.measured.count))})
}

// profile takes a CPU profile of this process until the end is called.
func (w *workload) profile(b *testing.B, dir string) (end func()) {
	if dir == "" {
		return func() {}
	}
	f, err := os.Create(filepath.Join(dir, "scheduling-"+w.name+".cpu"))
	if err != nil {
		b.Fatal(err)
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		b.Fatal(err)
	}
	return func() {
		pprof.StopCPUProfile()
		f.Close()
	}
}

// writers is how many requests are under way at the same time. Each waits for the
// disk, and those that wait together wait once.
const writers = 128

// each calls f from many goroutines.
func each(b *testing.B, n int, f func(i int) error) {
	b.Helper()
	var next atomic.Int64
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				if err := f(int(i)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if b.Failed() {
		b.FailNow()
	}
}

// cpuSeconds is the CPU that this process has used.
func cpuSeconds() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}
