package fairness

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"

	"github.com/setpoint-project/setpoint/internal/apiserver/authn"
)

func who(name string, groups ...string) *authn.User { return &authn.User{Name: name, Groups: groups} }

func jane(name string) *Request {
	return &Request{User: who(name, "system:authenticated"), Verb: "get", Resource: "pods", Namespace: "default"}
}

// TestSorting: requests come to the levels that Kubernetes suggests.
func TestSorting(t *testing.T) {
	l := New(Options{})
	account := func(namespace, name string) *authn.User {
		return who("system:serviceaccount:"+namespace+":"+name, "system:serviceaccounts", "system:authenticated")
	}
	for _, tc := range []struct {
		r    Request
		want string
	}{
		{Request{User: who("admin", "system:masters"), Verb: "list", Resource: "secrets"}, "exempt"},
		{Request{User: who("system:node:n", "system:nodes"), Verb: "patch", Resource: "nodes/status"}, "node-high"},
		{Request{User: who("system:node:n", "system:nodes"), Verb: "update", Group: "coordination.k8s.io", Resource: "leases", Namespace: "kube-node-lease"}, "node-high"},
		{Request{User: who("system:node:n", "system:nodes"), Verb: "list", Resource: "pods"}, "system"},
		{Request{User: who("system:kube-scheduler"), Verb: "update", Group: "coordination.k8s.io", Resource: "leases", Namespace: "kube-system"}, "leader-election"},
		{Request{User: who("system:kube-scheduler"), Verb: "list", Resource: "pods"}, "workload-high"},
		{Request{User: account("kube-system", "dns"), Verb: "list", Resource: "services"}, "workload-high"},
		{Request{User: account("web", "app"), Verb: "list", Resource: "services"}, "workload-low"},
		{Request{User: who("jane", "system:authenticated"), Verb: "get", Resource: "pods", Namespace: "default"}, "global-default"},
		{Request{User: who("system:anonymous", "system:unauthenticated"), Verb: "get", Resource: "pods"}, "global-default"},
		{Request{User: who("nobody"), Verb: "get", Resource: "pods"}, "catch-all"},
	} {
		if got := l.plan.Load().match(&tc.r).level.name; got != tc.want {
			t.Errorf("%s %s of %s: level %s, want %s", tc.r.Verb, tc.r.Resource, tc.r.User.Name, got, tc.want)
		}
	}
}

// TestTurns: among flows that wait, each has its turn, however many requests
// one of them has, and one that costs more waits longer for its next.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Options{Seats: 1})
		first, _, err := l.Enter(t.Context(), jane("noisy"), 1)
		if err != nil {
			t.Fatal(err)
		}
		var order []string
		enter := func(user string, seats int) {
			go func() {
				ticket, _, err := l.Enter(t.Context(), jane(user), seats)
				if err != nil {
					t.Error(err)
				}
				order = append(order, user)
				ticket.Done()
			}()
			synctest.Wait()
		}
		for range 3 {
			enter("noisy", 1)
		}
		for range 3 {
			enter("heavy", 2)
		}
		for range 3 {
			enter("late", 1)
		}
		first.Done()
		synctest.Wait()
		if len(order) != 9 {
			t.Fatalf("%d of 9 ran: %q", len(order), order)
		}
		first3 := slices.Sorted(slices.Values(order[:3]))
		if !slices.Equal(first3, []string{"heavy", "late", "noisy"}) {
			t.Errorf("the first three are %q", order[:3])
		}
		if order[8] != "heavy" {
			t.Errorf("who costs more is not last: %q", order)
		}
	})
}

// TestShares: a level uses what others leave free, and one below its share
// never waits for it.
func TestShares(t *testing.T) {
	l := New(Options{Seats: 49})
	l.opts.MaxWait = time.Nanosecond
	var held []Ticket
	for {
		ticket, _, err := l.Enter(t.Context(), jane("noisy"), 1)
		if errors.Is(err, ErrTooMany) {
			break
		}
		held = append(held, ticket)
	}
	if len(held) != 49 {
		t.Errorf("one level alone has %d seats, want all 49", len(held))
	}
	node := &Request{User: who("system:node:n", "system:nodes"), Verb: "list", Resource: "pods"}
	for range l.plan.Load().levels["system"].nominal {
		if _, _, err := l.Enter(t.Context(), node, 1); err != nil {
			t.Fatalf("a node waits for a user: %v", err)
		}
	}
	if _, _, err := l.Enter(t.Context(), &Request{User: who("admin", "system:masters")}, 1); err != nil {
		t.Errorf("an administrator waits: %v", err)
	}
	for _, ticket := range held {
		ticket.Done()
		ticket.Done() // does nothing
	}
}

func TestFullQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Options{Seats: 1, Queue: 2, MaxWait: 10 * time.Second})
		first, _, _ := l.Enter(t.Context(), jane("a"), MaxSeats+7)
		outcome := make(chan error, 3)
		ctx, cancel := context.WithCancel(t.Context())
		for i := range 3 {
			go func() {
				c := t.Context()
				if i == 0 {
					c = ctx
				}
				_, _, err := l.Enter(c, jane("a"), 1)
				outcome <- err
			}()
			synctest.Wait()
		}
		if err := <-outcome; !errors.Is(err, ErrTooMany) {
			t.Errorf("behind a full queue: %v", err)
		}
		cancel()
		if err := <-outcome; !errors.Is(err, context.Canceled) {
			t.Errorf("who went away: %v", err)
		}
		start := time.Now()
		if err := <-outcome; !errors.Is(err, ErrTooMany) || time.Since(start) != 10*time.Second {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		first.Done()
		if len(l.waiting) != 0 || l.inUse != 0 || len(l.plan.Load().levels["global-default"].flows) != 0 {
			t.Errorf("left behind: %+v", l)
		}
	})
}

// TestObjects: objects of the API take the place of what is built in, or come in
// addition, also for those who wait already.
func TestObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Options{Seats: 1})
		first, _, _ := l.Enter(t.Context(), jane("a"), 1)
		ran := false
		go func() {
			if _, _, err := l.Enter(t.Context(), jane("jane"), 1); err != nil {
				t.Error(err)
			}
			ran = true
		}()
		synctest.Wait()
		free := &flowcontrolv1.PriorityLevelConfiguration{}
		free.Name, free.UID, free.Spec.Type = "free", "level-1", flowcontrolv1.PriorityLevelEnablementExempt
		fs := schemaOf("janes", "free", 5, "", users("jane"), rule([]string{"get"}, []string{""}, "pods"))
		fs.UID = "schema-1"
		lost := schemaOf("lost", "nowhere", 2, "", users("jane"), rule([]string{anything}, []string{anything}, anything))
		l.Set([]*flowcontrolv1.FlowSchema{fs, lost}, []*flowcontrolv1.PriorityLevelConfiguration{free})
		_, matched, err := l.Enter(t.Context(), jane("jane"), 1)
		if err != nil || matched != (Matched{"schema-1", "level-1"}) {
			t.Errorf("got %+v and %v", matched, err)
		}
		if ran {
			t.Error("who was sorted before runs ahead of its level")
		}
		open := &flowcontrolv1.PriorityLevelConfiguration{}
		open.Name, open.Spec.Type = "global-default", flowcontrolv1.PriorityLevelEnablementExempt
		l.Set(nil, []*flowcontrolv1.PriorityLevelConfiguration{open})
		synctest.Wait()
		if !ran {
			t.Error("the level was opened, and its queue still waits")
		}
		first.Done()
	})
}

// TestRandom: whatever comes and goes, no seat is lost and nobody is forgotten.
func TestRandom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(3, 4))
		l := New(Options{Seats: 5, Queue: 5, MaxWait: time.Second})
		outcomes := map[string]int{}
		done := make(chan string)
		const all = 2000
		for range all {
			user, seats := fmt.Sprint("user-", r.IntN(5)), 1+r.IntN(MaxSeats)
			start, work, patience := time.Duration(r.IntN(10000)), time.Duration(r.IntN(100)), time.Duration(r.IntN(2000))
			go func() {
				time.Sleep(start * time.Millisecond)
				ctx, cancel := context.WithTimeout(t.Context(), patience*time.Millisecond)
				defer cancel()
				ticket, _, err := l.Enter(ctx, jane(user), seats)
				if err != nil {
					done <- err.Error()
					return
				}
				time.Sleep(work * time.Millisecond)
				ticket.Done()
				done <- "ran"
			}()
		}
		for range all {
			outcomes[<-done]++
		}
		if outcomes["ran"] == 0 || outcomes[ErrTooMany.Error()] == 0 || outcomes["context deadline exceeded"] == 0 {
			t.Errorf("outcomes: %v", outcomes)
		}
		if l.inUse != 0 || len(l.waiting) != 0 {
			t.Errorf("%d seats are in use, %d levels wait", l.inUse, len(l.waiting))
		}
	})
}

func BenchmarkEnter(b *testing.B) {
	l := New(Options{})
	r := jane("jane")
	for b.Loop() {
		ticket, _, _ := l.Enter(context.Background(), r, 1)
		ticket.Done()
	}
}
