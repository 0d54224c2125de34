// Package namespace is the loop that empties a namespace that is being
// deleted, and lets it go when nothing is left in it.
//
//	deleted --> pods away --> all else away --> conditions --> finalize
//
// Pods go first, since what they need (secrets, policies) must outlive them.
//
// See https://kubernetes.io/docs/concepts/overview/working-with-objects/namespaces/#automatic-labelling
// and KEP-5080, "Ordered Namespace Deletion".
package namespace

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
)

// content is what a look found of one resource in a namespace.
type content struct {
	resource   client.Resource
	objects    int
	finalizers map[string]int // how many objects each holds back
	err        error          // of listing or deleting
}

// contents is what a look found in a namespace.
type contents struct {
	all       []content
	discovery error
}

func (c contents) left() (n int) {
	for _, one := range c.all {
		n += one.objects
	}
	return n
}

func (c contents) errors() (errs []string) {
	for _, one := range c.all {
		if one.err != nil {
			errs = append(errs, one.err.Error())
		}
	}
	return errs
}

// finished tells whether nothing is left, for sure.
func (c contents) finished() bool {
	return c.discovery == nil && c.left() == 0 && len(c.errors()) == 0
}

// blocking says in one sentence what keeps the namespace from going.
func (c contents) blocking() string {
	for _, condition := range []corev1.NamespaceCondition{c.discovered(), c.deleted(), c.remaining()} {
		if condition.Status == corev1.ConditionTrue {
			return condition.Message
		}
	}
	return c.remaining().Message
}

// conditions are what people read of a deletion under way, with upstream's
// reasons and messages.
func (c contents) conditions() []corev1.NamespaceCondition {
	return []corev1.NamespaceCondition{
		c.discovered(),
		told(corev1.NamespaceDeletionGVParsingFailure, "ParsedGroupVersions", "All legacy kube types successfully parsed", "", ""),
		c.deleted(), c.remaining(), c.heldBack(),
	}
}

// told is a condition that is false and good, or true when there is a bad
// text.
func told(t corev1.NamespaceConditionType, goodReason, good, badReason, bad string) corev1.NamespaceCondition {
	if bad != "" {
		return corev1.NamespaceCondition{Type: t, Status: corev1.ConditionTrue, Reason: badReason, Message: bad}
	}
	return corev1.NamespaceCondition{Type: t, Status: corev1.ConditionFalse, Reason: goodReason, Message: good}
}

func (c contents) discovered() corev1.NamespaceCondition {
	bad := ""
	if c.discovery != nil {
		bad = "Discovery failed for some groups, 1 failing: " + c.discovery.Error()
	}
	return told(corev1.NamespaceDeletionDiscoveryFailure, "ResourcesDiscovered", "All resources successfully discovered", "DiscoveryFailed", bad)
}

func (c contents) deleted() corev1.NamespaceCondition {
	bad := ""
	if errs := c.errors(); len(errs) > 0 {
		sort.Strings(errs)
		bad = fmt.Sprintf("Failed to delete all resource types, %d remaining: %s", len(errs), strings.Join(errs, ", "))
	}
	return told(corev1.NamespaceDeletionContentFailure, "ContentDeleted", "All content successfully deleted, may be waiting on finalization", "ContentDeletionFailed", bad)
}

func (c contents) remaining() corev1.NamespaceCondition {
	var parts []string
	for _, one := range c.all {
		if one.objects > 0 {
			parts = append(parts, fmt.Sprintf("%s.%s has %d resource instances", one.resource.Resource, one.resource.Group, one.objects))
		}
	}
	bad := ""
	if len(parts) > 0 {
		sort.Strings(parts)
		bad = "Some resources are remaining: " + strings.Join(parts, ", ")
	}
	return told(corev1.NamespaceContentRemaining, "ContentRemoved", "All content successfully removed", "SomeResourcesRemain", bad)
}

func (c contents) heldBack() corev1.NamespaceCondition {
	count := map[string]int{}
	for _, one := range c.all {
		for finalizer, n := range one.finalizers {
			count[finalizer] += n
		}
	}
	var parts []string
	for finalizer, n := range count {
		parts = append(parts, fmt.Sprintf("%s in %d resource instances", finalizer, n))
	}
	bad := ""
	if len(parts) > 0 {
		sort.Strings(parts)
		bad = "Some content in the namespace has finalizers remaining: " + strings.Join(parts, ", ")
	}
	return told(corev1.NamespaceFinalizersRemaining, "ContentHasNoFinalizers", "All content-preserving finalizers finished", "SomeFinalizersRemain", bad)
}

// report brings conditions into a namespace's status; nil when they are there.
func report(ns *corev1.Namespace, c contents, now time.Time) *corev1.Namespace {
	changed := ns.DeepCopy()
	changed.Status.Phase = corev1.NamespaceTerminating
	for _, want := range c.conditions() {
		want.LastTransitionTime = metav1.NewTime(now).Rfc3339Copy()
		i := slices.IndexFunc(changed.Status.Conditions, func(had corev1.NamespaceCondition) bool { return had.Type == want.Type })
		switch {
		case i < 0:
			changed.Status.Conditions = append(changed.Status.Conditions, want)
		default:
			had := &changed.Status.Conditions[i]
			if had.Status == want.Status {
				want.LastTransitionTime = had.LastTransitionTime
			}
			*had = want
		}
	}
	if equality.Semantic.DeepEqual(changed.Status, ns.Status) {
		return nil
	}
	return changed
}
