package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func list(cpu, mem string) v1.ResourceList {
	l := v1.ResourceList{}
	if cpu != "" {
		l[v1.ResourceCPU] = resource.MustParse(cpu)
	}
	if mem != "" {
		l[v1.ResourceMemory] = resource.MustParse(mem)
	}
	return l
}

func podOf(uid string, rs ...v1.ResourceRequirements) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid)}}
	for i, r := range rs {
		p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: fmt.Sprint(i), Resources: r})
	}
	return p
}

func TestPodLimits(t *testing.T) {
	for name, c := range map[string]struct {
		pod  *v1.Pod
		want Limits
	}{
		"best effort": {podOf("", v1.ResourceRequirements{}), Limits{Shares: 2, Period: 100000}},
		"guaranteed": {podOf("", v1.ResourceRequirements{Requests: list("500m", "64Mi"), Limits: list("500m", "64Mi")}),
			Limits{RequestMilli: 500, Shares: 512, Quota: 50000, Period: 100000, Memory: 64 << 20}},
		"one without limits": {podOf("", v1.ResourceRequirements{Requests: list("1", ""), Limits: list("2", "1Gi")}, v1.ResourceRequirements{}),
			Limits{RequestMilli: 1000, Shares: 1024, Period: 100000}},
		"tiny": {podOf("", v1.ResourceRequirements{Limits: list("1m", ""), Requests: list("1m", "")}), Limits{RequestMilli: 1, Shares: 2, Quota: 1000, Period: 100000}},
	} {
		if got := podLimits(c.pod); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func TestWeight(t *testing.T) {
	for shares, want := range map[int64]int64{2: 1, 1024: 39, 262144: 10000} {
		if got := weight(shares); got != want {
			t.Errorf("weight of %d is %d, want %d", shares, got, want)
		}
	}
}

func TestOOMScoreAdj(t *testing.T) {
	for name, c := range map[string]struct {
		r    v1.ResourceRequirements
		want int64
	}{
		"best effort": {v1.ResourceRequirements{}, 1000},
		"guaranteed":  {v1.ResourceRequirements{Requests: list("1", "1Gi"), Limits: list("1", "1Gi")}, -997},
		"burstable":   {v1.ResourceRequirements{Requests: list("", "1Gi")}, 750},
		"greedy":      {v1.ResourceRequirements{Requests: list("", "4Gi")}, 3},
		"modest":      {v1.ResourceRequirements{Requests: list("", "1Ki")}, 999},
	} {
		p := podOf("", c.r)
		if got := oomScoreAdj(p, &p.Spec.Containers[0], 4<<30); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// On the real thing: groups of every class come and go.
func TestTree(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: it makes control groups")
	}
	parent := fmt.Sprintf("/setpoint-test-%d", os.Getpid())
	tree, err := Open(parent)
	if errors.Is(err, ErrNone) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, m := range tree.mounts() {
			if err := remove(filepath.Join(m, parent)); err != nil {
				t.Error(err)
			}
		}
	})
	pods := []*v1.Pod{
		podOf("a", v1.ResourceRequirements{}),
		podOf("b", v1.ResourceRequirements{Requests: list("100m", "")}),
		podOf("c", v1.ResourceRequirements{Requests: list("500m", "64Mi"), Limits: list("500m", "64Mi")}),
	}
	for i, want := range []string{"/kubepods/besteffort/poda", "/kubepods/burstable/podb", "/kubepods/podc"} {
		if got := tree.Parent(pods[i]); got != parent+want {
			t.Errorf("parent is %s, want %s", got, parent+want)
		}
		for range 2 { // twice: it is idempotent
			if err := tree.Ensure(pods[i]); err != nil {
				t.Fatal(err)
			}
		}
	}
	file, want := filepath.Join(tree.v1["memory"], parent, "kubepods/podc/memory.limit_in_bytes"), "67108864"
	if tree.V2() {
		file = filepath.Join(tree.v2, parent, "kubepods/podc/memory.max")
	}
	if b, err := os.ReadFile(file); err != nil || strings.TrimSpace(string(b)) != want {
		t.Errorf("%s is %q (%v), want %s", file, b, err, want)
	}
	uids := tree.Pods()
	slices.Sort(uids)
	if !slices.Equal(uids, []types.UID{"a", "b", "c"}) {
		t.Errorf("pods are %v", uids)
	}
	for _, p := range pods {
		if !tree.Exists(p.UID) {
			t.Errorf("%s has no group", p.UID)
		}
		for range 2 {
			if err := tree.Remove(p.UID); err != nil {
				t.Error(err)
			}
		}
		if tree.Exists(p.UID) {
			t.Errorf("the group of %s is there", p.UID)
		}
	}
}
