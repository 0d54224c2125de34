package core

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/kinds"
)

// row is a line of a wide table.
func row(k *kinds.Kind, obj kinds.Object) string {
	var cells []string
	for _, c := range k.Columns {
		cells = append(cells, fmt.Sprint(c.Cell(obj)))
	}
	return strings.Join(cells, " | ")
}

func head(k *kinds.Kind) string {
	var names []string
	for _, c := range k.Columns {
		name := strings.ToUpper(c.Name)
		if c.Priority > 0 {
			name = "(" + name + ")"
		}
		names = append(names, name)
	}
	return strings.Join(names, " ")
}

func TestHeads(t *testing.T) {
	for _, tc := range []struct {
		kind *kinds.Kind
		want string
	}{
		{pod(), "NAME READY STATUS RESTARTS AGE (IP) (NODE) (NOMINATED NODE) (READINESS GATES)"},
		{node(), "NAME STATUS ROLES AGE VERSION (INTERNAL-IP) (EXTERNAL-IP) (OS-IMAGE) (KERNEL-VERSION) (CONTAINER-RUNTIME)"},
		{service(), "NAME TYPE CLUSTER-IP EXTERNAL-IP PORT(S) AGE (SELECTOR)"},
		{namespace(), "NAME STATUS AGE"},
		{configMap(), "NAME DATA AGE"},
		{secret(), "NAME TYPE DATA AGE"},
		{serviceAccount(), "NAME SECRETS AGE"},
		{endpoints(), "NAME ENDPOINTS AGE"},
		{event(), "LAST SEEN TYPE REASON OBJECT (SUBOBJECT) (SOURCE) MESSAGE (FIRST SEEN) (COUNT) (NAME)"},
	} {
		if got := head(tc.kind); got != tc.want {
			t.Errorf("%s:\n got %s\nwant %s", tc.kind.Kind, got, tc.want)
		}
	}
}

func TestPodStatusWords(t *testing.T) {
	waiting := func(reason string) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: "c", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}}
	}
	ended := func(code, signal int32, reason string) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: "c", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Signal: signal, Reason: reason}}}
	}
	running := corev1.ContainerStatus{Name: "r", Ready: true, Started: new(true), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
	always := corev1.ContainerRestartPolicyAlways
	synctest.Test(t, func(t *testing.T) {
		now := metav1.Now()
		time.Sleep(5 * time.Minute) // of the bubble's own time
		restarted := running
		restarted.RestartCount = 3
		restarted.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{FinishedAt: now}
		for _, tc := range []struct {
			name string
			pod  func(*corev1.Pod)
			want string // ready | status | restarts
		}{
			{"pending", func(p *corev1.Pod) {}, "0/1 | Pending | 0"},
			{"creating", func(p *corev1.Pod) {
				p.Status.ContainerStatuses = []corev1.ContainerStatus{waiting("ContainerCreating")}
			}, "0/1 | ContainerCreating | 0"},
			{"running", func(p *corev1.Pod) {
				p.Status.Phase, p.Status.ContainerStatuses = "Running", []corev1.ContainerStatus{running}
			}, "1/1 | Running | 0"},
			{"restarted", func(p *corev1.Pod) {
				p.Status.Phase, p.Status.ContainerStatuses = "Running", []corev1.ContainerStatus{restarted}
			}, "1/1 | Running | 3 (5m ago)"},
			{"crash loop", func(p *corev1.Pod) {
				p.Status.Phase, p.Status.ContainerStatuses = "Running", []corev1.ContainerStatus{waiting("CrashLoopBackOff")}
			}, "0/1 | CrashLoopBackOff | 0"},
			{"completed", func(p *corev1.Pod) {
				p.Status.Phase, p.Status.ContainerStatuses = "Succeeded", []corev1.ContainerStatus{ended(0, 0, "Completed")}
			}, "0/1 | Completed | 0"},
			{"half completed", func(p *corev1.Pod) {
				p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "r"})
				p.Status.Phase, p.Status.ContainerStatuses = "Running", []corev1.ContainerStatus{ended(0, 0, "Completed"), running}
			}, "1/2 | NotReady | 0"},
			{"exit code", func(p *corev1.Pod) { p.Status.ContainerStatuses = []corev1.ContainerStatus{ended(3, 0, "")} }, "0/1 | ExitCode:3 | 0"},
			{"signal", func(p *corev1.Pod) { p.Status.ContainerStatuses = []corev1.ContainerStatus{ended(1, 9, "")} }, "0/1 | Signal:9 | 0"},
			{"init", func(p *corev1.Pod) {
				p.Spec.InitContainers = []corev1.Container{{Name: "i"}, {Name: "j"}}
				p.Status.InitContainerStatuses = []corev1.ContainerStatus{ended(0, 0, "Completed"), waiting("PodInitializing")}
			}, "0/1 | Init:1/2 | 0"},
			{"init failed", func(p *corev1.Pod) {
				p.Spec.InitContainers = []corev1.Container{{Name: "i"}}
				p.Status.InitContainerStatuses = []corev1.ContainerStatus{ended(1, 0, "Error")}
			}, "0/1 | Init:Error | 0"},
			{"init crash loop", func(p *corev1.Pod) {
				p.Spec.InitContainers = []corev1.Container{{Name: "i"}}
				p.Status.InitContainerStatuses = []corev1.ContainerStatus{waiting("CrashLoopBackOff")}
			}, "0/1 | Init:CrashLoopBackOff | 0"},
			{"sidecar", func(p *corev1.Pod) {
				p.Spec.InitContainers = []corev1.Container{{Name: "r", RestartPolicy: &always}}
				p.Status.Phase = "Running"
				p.Status.InitContainerStatuses = []corev1.ContainerStatus{restarted}
				p.Status.ContainerStatuses = []corev1.ContainerStatus{running}
			}, "2/2 | Running | 3 (5m ago)"},
			{"terminating", func(p *corev1.Pod) { p.DeletionTimestamp = &now }, "0/1 | Terminating | 0"},
			{"node lost", func(p *corev1.Pod) { p.DeletionTimestamp, p.Status.Reason = &now, "NodeLost" }, "0/1 | Unknown | 0"},
			{"evicted", func(p *corev1.Pod) { p.Status.Phase, p.Status.Reason = "Failed", "Evicted" }, "0/1 | Evicted | 0"},
			{"gated", func(p *corev1.Pod) {
				p.Status.Conditions = []corev1.PodCondition{{Type: "PodScheduled", Reason: "SchedulingGated"}}
			}, "0/1 | SchedulingGated | 0"},
		} {
			p := newPod(nil)
			p.Status.Phase = "Pending"
			tc.pod(p)
			if got := strings.Join(strings.Split(row(pod(), p), " | ")[1:4], " | "); got != tc.want {
				t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
			}
		}
	})
}

func TestRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		meta := metav1.ObjectMeta{Name: "x", Namespace: "ns", CreationTimestamp: metav1.Now()}
		labelled := meta
		labelled.Labels = map[string]string{"node-role.kubernetes.io/b": "", "node-role.kubernetes.io/a": ""}
		time.Sleep(90 * time.Second)
		for _, tc := range []struct {
			kind *kinds.Kind
			obj  kinds.Object
			want string
		}{
			{pod(), &corev1.Pod{ObjectMeta: meta}, "x | 0/0 |  | 0 | 90s | <none> | <none> | <none> | <none>"},
			{node(), &corev1.Node{ObjectMeta: labelled, Spec: corev1.NodeSpec{Unschedulable: true}, Status: corev1.NodeStatus{
				Conditions: []corev1.NodeCondition{{Type: "Ready", Status: "True"}}, Addresses: []corev1.NodeAddress{{Type: "InternalIP", Address: "10.0.0.1"}},
				NodeInfo: corev1.NodeSystemInfo{KubeletVersion: "v1.37.0"},
			}}, "x | Ready,SchedulingDisabled | a,b | 90s | v1.37.0 | 10.0.0.1 | <none> | <unknown> | <unknown> | <unknown>"},
			{service(), &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{
				Type: "NodePort", ClusterIP: "10.43.0.9", ClusterIPs: []string{"10.43.0.9"}, Selector: map[string]string{"a": "b"},
				Ports: []corev1.ServicePort{{Port: 80, NodePort: 30080, Protocol: "TCP"}, {Port: 53, Protocol: "UDP"}},
			}}, "x | NodePort | 10.43.0.9 | <none> | 80:30080/TCP,53/UDP | 90s | a=b"},
			{service(), &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{Type: "LoadBalancer"}}, "x | LoadBalancer | <none> | <pending> | <none> | 90s | <none>"},
			{namespace(), &corev1.Namespace{ObjectMeta: meta, Status: corev1.NamespaceStatus{Phase: "Active"}}, "x | Active | 90s"},
			{configMap(), &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"a": ""}, BinaryData: map[string][]byte{"b": nil}}, "x | 2 | 90s"},
			{secret(), &corev1.Secret{ObjectMeta: meta, Type: "Opaque", Data: map[string][]byte{"b": nil}}, "x | Opaque | 1 | 90s"},
			{serviceAccount(), &corev1.ServiceAccount{}, " | 0 | <unknown>"},
			{endpoints(), &corev1.Endpoints{ObjectMeta: meta, Subsets: []corev1.EndpointSubset{{
				Addresses: []corev1.EndpointAddress{{IP: "10.0.0.1"}, {IP: "10.0.0.2"}}, Ports: []corev1.EndpointPort{{Port: 80}, {Port: 81}},
			}}}, "x | 10.0.0.1:80,10.0.0.2:80,10.0.0.1:81 + 1 more... | 90s"},
			{event(), &corev1.Event{ObjectMeta: meta, InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: "p"}, Reason: "Killing", Message: " m\n",
				Type: "Normal", EventTime: metav1.NowMicro(), ReportingController: "kubelet", ReportingInstance: "n"},
				"0s | Normal | Killing | pod/p |  | kubelet, n | m | 0s | 1 | x"},
		} {
			if got := row(tc.kind, tc.obj); got != tc.want {
				t.Errorf("%s:\n got %s\nwant %s", tc.kind.Kind, got, tc.want)
			}
		}
	})
}
