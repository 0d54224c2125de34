package deployment

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"maps"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/utils/dump"
)

// Annotations that a Deployment and its ReplicaSets carry, as kubectl reads
// them.
const (
	revisionAnnotation = "deployment.kubernetes.io/revision"
	historyAnnotation  = "deployment.kubernetes.io/revision-history"
	desiredAnnotation  = "deployment.kubernetes.io/desired-replicas"
	maxAnnotation      = "deployment.kubernetes.io/max-replicas"

	// historyLimit bounds the text of the history annotation, in bytes.
	historyLimit = 2000
)

// ownAnnotations are not copied from a Deployment to its ReplicaSets.
var ownAnnotations = map[string]bool{
	corev1.LastAppliedConfigAnnotation: true,
	revisionAnnotation:                 true,
	historyAnnotation:                  true,
	desiredAnnotation:                  true,
	maxAnnotation:                      true,
	appsv1.DeprecatedRollbackTo:        true,
}

var deploymentKind = appsv1.SchemeGroupVersion.WithKind("Deployment")

// Hash labels what a template made. It is upstream's: FNV-32a over the dump of
// the template, then the count of collisions, in letters that spell no words.
func Hash(template *corev1.PodTemplateSpec, collisions *int32) string {
	h := fnv.New32a()
	fmt.Fprint(h, dump.ForHash(*template))
	if collisions != nil {
		var b [8]byte
		binary.LittleEndian.PutUint32(b[:], uint32(*collisions))
		h.Write(b[:])
	}
	return rand.SafeEncodeString(strconv.FormatUint(uint64(h.Sum32()), 10))
}

// newReplicaSet is the ReplicaSet of the present template, sized for now.
func (r *rollout) newReplicaSet() *appsv1.ReplicaSet {
	d := r.d.DeepCopy()
	hash := Hash(&d.Spec.Template, d.Status.CollisionCount)
	template := d.Spec.Template
	template.Labels = with(template.Labels, templateHash, hash)
	selector := d.Spec.Selector
	selector.MatchLabels = with(selector.MatchLabels, templateHash, hash)

	size := r.newSize(0)
	rs := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{
			Name:            d.Name + "-" + hash,
			Namespace:       d.Namespace,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(r.d, deploymentKind)},
			Labels:          maps.Clone(template.Labels),
		},
		Spec: appsv1.ReplicaSetSpec{
			Replicas:        &size,
			MinReadySeconds: d.Spec.MinReadySeconds,
			Selector:        selector,
			Template:        template,
		},
	}
	annotate(rs, r.d, r.nextRevision())
	recordClaim(rs, r.d)
	return rs
}

func with(m map[string]string, key, value string) map[string]string {
	m = maps.Clone(m)
	if m == nil {
		m = map[string]string{}
	}
	m[key] = value
	return m
}

// nextRevision is one above the old ones'.
func (r *rollout) nextRevision() (n int64) {
	for _, rs := range r.old {
		n = max(n, revision(rs))
	}
	return n + 1
}

// syncRevision keeps the record straight: the new ReplicaSet carries the
// highest revision and what the Deployment says of it, the Deployment carries
// the same revision.
func (r *rollout) syncRevision() step {
	rs := r.newRS
	if rs == nil {
		return step{}
	}
	changed := rs.DeepCopy()
	dirty := annotate(changed, r.d, r.nextRevision())
	if changed.Spec.MinReadySeconds != r.d.Spec.MinReadySeconds {
		changed.Spec.MinReadySeconds = r.d.Spec.MinReadySeconds
		dirty = true
	}
	if dirty {
		return step{update: changed, what: "brought ReplicaSet " + rs.Name + " up to date"}
	}
	d := r.d.DeepCopy()
	moved := d.Annotations[revisionAnnotation] != rs.Annotations[revisionAnnotation]
	if moved {
		d.Annotations = with(d.Annotations, revisionAnnotation, rs.Annotations[revisionAnnotation])
	}
	// A rollout starts: from here its deadline counts. Upstream keeps the
	// condition of the last rollout when one goes back to an old ReplicaSet,
	// so that one never misses its deadline; we start anew in both cases.
	begun := hasDeadline(d) && !d.Spec.Paused && (moved || condition(&d.Status, appsv1.DeploymentProgressing) == nil)
	if begun {
		reason, text := reasonFound, fmt.Sprintf("Found new replica set %q", rs.Name)
		if rs.Annotations[historyAnnotation] == "" && !rs.CreationTimestamp.Before(&d.CreationTimestamp) {
			reason, text = reasonCreated, fmt.Sprintf("Created new replica set %q", rs.Name)
		}
		set(&d.Status, r.newCondition(appsv1.DeploymentProgressing, corev1.ConditionTrue, reason, text))
	}
	if moved || begun {
		conditions := d.Status.Conditions
		d.Status = r.count()
		d.Status.Conditions = conditions
		return step{status: d, what: "recorded revision " + rs.Annotations[revisionAnnotation]}
	}
	return step{}
}

// annotate brings a ReplicaSet's annotations up to date and tells whether
// anything changed.
func annotate(rs *appsv1.ReplicaSet, d *appsv1.Deployment, next int64) (changed bool) {
	if rs.Annotations == nil {
		rs.Annotations = map[string]string{}
	}
	put := func(key, value string) {
		if had, ok := rs.Annotations[key]; !ok || had != value {
			rs.Annotations[key] = value
			changed = true
		}
	}
	for key, value := range d.Annotations {
		if !ownAnnotations[key] {
			put(key, value)
		}
	}
	had, ok := rs.Annotations[revisionAnnotation]
	if revision(rs) < next {
		put(revisionAnnotation, strconv.FormatInt(next, 10))
		if ok && had != "" {
			put(historyAnnotation, remember(rs.Annotations[historyAnnotation], had))
		}
	}
	return changed
}

// remember appends a revision to a history and forgets the oldest that do not
// fit.
func remember(history, revision string) string {
	if history == "" {
		return revision
	}
	history += "," + revision
	for len(history) > historyLimit {
		_, rest, ok := strings.Cut(history, ",")
		if !ok {
			break
		}
		history = rest
	}
	return history
}

// recordClaim notes on a ReplicaSet which claim it was sized for.
func recordClaim(rs *appsv1.ReplicaSet, d *appsv1.Deployment) (changed bool) {
	for key, n := range map[string]int32{desiredAnnotation: *d.Spec.Replicas, maxAnnotation: *d.Spec.Replicas + maxSurge(d)} {
		if value := strconv.FormatInt(int64(n), 10); rs.Annotations[key] != value {
			rs.Annotations = with(rs.Annotations, key, value)
			changed = true
		}
	}
	return changed
}

func revision(rs *appsv1.ReplicaSet) int64 {
	n, err := strconv.ParseInt(rs.Annotations[revisionAnnotation], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func number(rs *appsv1.ReplicaSet, annotation string) (int32, bool) {
	n, err := strconv.ParseInt(rs.Annotations[annotation], 10, 32)
	return int32(n), err == nil
}

func equalWithout(a, b *corev1.PodTemplateSpec, label string) bool {
	if !equality.Semantic.DeepEqual(a.Spec, b.Spec) {
		return false
	}
	strip := func(t *corev1.PodTemplateSpec) metav1.ObjectMeta {
		meta := t.ObjectMeta
		if _, ok := meta.Labels[label]; ok {
			meta.Labels = maps.Clone(meta.Labels)
			delete(meta.Labels, label)
		}
		return meta
	}
	return equality.Semantic.DeepEqual(strip(a), strip(b))
}
