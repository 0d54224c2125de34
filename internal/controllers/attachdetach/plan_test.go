package attachdetach

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func at(node string, change ...func(*place)) *place {
	p := &place{node: node, known: true, managed: true, ready: true}
	for _, f := range change {
		f(p)
	}
	return p
}

func needed(p *place) { p.pods = []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "pod"}}} }
func asked(p *place) {
	p.attachment = &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "va"}}
}
func done(p *place)     { asked(p); p.attachment.Status.Attached = true }
func going(p *place)    { p.attachment.DeletionTimestamp = &metav1.Time{} }
func reported(p *place) { p.reported = true }
func used(p *place)     { p.inUse = true }
func silent(p *place)   { p.ready = false }
func off(p *place)      { p.ready, p.outOfService = false, true }
func gone(p *place)     { p.known, p.managed, p.ready = false, false, false }
func byItself(p *place) { p.managed = false }
func elsewhere(p *place) {
	p.foreign = true
}
func since(d time.Duration) func(*place) { return func(p *place) { p.unneeded = d } }

// TestPlan is a table of what is next at a node, for a volume that is there
// alone.
func TestPlan(t *testing.T) {
	for name, test := range map[string]struct {
		p     *place
		do    verb
		wait  bool
		after time.Duration
	}{
		"nobody needs it, nothing is there":        {at("a"), none, false, 0},
		"needed":                                   {at("a", needed), create, false, 0},
		"needed where the kubelet attaches":        {at("a", needed, byItself), none, false, 0},
		"needed on a node that is not there":       {at("a", needed, gone), none, false, 0},
		"asked for":                                {at("a", needed, asked), none, true, 0},
		"attached":                                 {at("a", needed, done), report, false, 0},
		"attached and said":                        {at("a", needed, done, reported), none, false, 0},
		"attached on a node that is gone":          {at("a", needed, done, gone), none, false, 0},
		"said, but not so":                         {at("a", needed, asked, reported), withdraw, false, 0},
		"said, and being detached":                 {at("a", needed, done, going, reported, used), withdraw, false, 0},
		"being detached, needed again":             {at("a", needed, done, going), none, true, 0},
		"said, and nothing is there":               {at("a", reported), withdraw, false, 0},
		"needed no more, mounted":                  {at("a", done, reported, used), none, true, 0},
		"needed no more, mounted for long":         {at("a", done, reported, used, since(time.Hour)), none, true, 0},
		"needed no more, unmounted":                {at("a", done, reported), withdraw, false, 0},
		"needed no more, withdrawn":                {at("a", done), remove, false, 0},
		"needed no more, where the kubelet does":   {at("a", done, byItself), remove, false, 0},
		"the node is silent":                       {at("a", done, reported, used, silent, since(time.Minute)), none, true, 5 * time.Minute},
		"the node was silent for long":             {at("a", done, reported, used, silent, since(6*time.Minute)), withdraw, false, 0},
		"the node is silent, and had unmounted":    {at("a", done, silent), remove, false, 0},
		"the node is off for good":                 {at("a", done, used, off), remove, false, 0},
		"the node is off for good, but has a pod":  {at("a", needed, done, reported, used, off), none, false, 0},
		"the node is gone":                         {at("a", done, gone, since(time.Minute)), none, true, 5 * time.Minute},
		"the node was gone for long":               {at("a", done, gone, since(time.Hour)), remove, false, 0},
		"asked for and needed no more":             {at("a", asked), remove, false, 0},
		"asked for and said to be mounted already": {at("a", asked, used), none, true, 0},
	} {
		for _, exclusive := range []bool{false, true} {
			got := plan([]*place{test.p}, exclusive)[0]
			if got.do != test.do || (got.on != "") != test.wait || got.after != test.after || got.blocked {
				t.Errorf("%s: got %q, waits for %q for %s, blocked %t", name, got.do, got.on, got.after, got.blocked)
			}
		}
	}
}

// TestExclusive: of several nodes that ask for a volume that may be on one only,
// one gets it.
func TestExclusive(t *testing.T) {
	early := func(p *place) {
		needed(p)
		p.pods[0].CreationTimestamp = metav1.NewTime(time.Unix(1, 0))
	}
	late := func(p *place) {
		needed(p)
		p.pods[0].CreationTimestamp = metav1.NewTime(time.Unix(2, 0))
	}
	for name, test := range map[string]struct {
		places  []*place
		do      []verb // by node
		blocked []bool
	}{
		"the earlier":               {[]*place{at("a", late), at("b", early)}, []verb{none, create}, []bool{true, false}},
		"the first by name":         {[]*place{at("b", needed), at("a", needed)}, []verb{create, none}, []bool{false, true}},
		"that has it":               {[]*place{at("a", early), at("b", late, done, reported)}, []verb{none, none}, []bool{true, false}},
		"that still has it":         {[]*place{at("a", needed), at("b", done, going)}, []verb{none, none}, []bool{true, false}},
		"that is losing it":         {[]*place{at("a", needed), at("b", done, reported)}, []verb{none, withdraw}, []bool{true, false}},
		"given it by somebody":      {[]*place{at("a", needed), at("b", elsewhere)}, []verb{none, none}, []bool{true, false}},
		"that can have it":          {[]*place{at("a", early, byItself), at("b", late)}, []verb{none, create}, []bool{false, false}},
		"both were asked for":       {[]*place{at("a", needed, asked), at("b", needed, done)}, []verb{remove, report}, []bool{false, false}},
		"both have it, one uses it": {[]*place{at("a", needed, done, reported), at("b", needed, done, reported, used)}, []verb{withdraw, none}, []bool{false, false}},
		"both use it":               {[]*place{at("a", needed, done, reported, used), at("b", needed, done, reported, used)}, []verb{none, none}, []bool{false, false}},
	} {
		for i, got := range plan(test.places, true) {
			if got.do != test.do[i] || got.blocked != test.blocked[i] {
				t.Errorf("%s: on node %s got %q, blocked %t, want %q, %t", name, got.at.node, got.do, got.blocked, test.do[i], test.blocked[i])
			}
		}
	}
	for i, got := range plan([]*place{at("a", needed), at("b", needed)}, false) {
		if got.do != create {
			t.Errorf("a volume for many: %d got %q", i, got.do)
		}
	}
}
