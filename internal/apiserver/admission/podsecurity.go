package admission

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/kinds"
)

// Bounds on how many pods a namespace's new level is held against, and how
// long: the answer only warns.
const (
	podsChecked   = 3000
	podsCheckTime = time.Second
)

// PodSecurity holds pods against the Pod Security Standards that the labels of
// their namespaces name: those who break the enforced one are refused, those
// who break the one to warn of are warned. Templates of pods are only warned
// of. What is to be audited is not written down: there is no audit log.
// https://kubernetes.io/docs/concepts/security/pod-security-admission/
type PodSecurity struct {
	Get  GetFunc
	List ListFunc
	// Config is for namespaces without labels; the zero value asks nothing.
	Config PodSecurityConfig
	mutateNothing

	once sync.Once
	eval policy.Evaluator
	err  error
}

// PodSecurityConfig is what holds without labels, and for whom nothing does.
type PodSecurityConfig struct {
	Defaults api.Policy // zero: privileged, the latest
	// Users, namespaces and runtime classes whose pods are not looked at.
	Users, Namespaces, RuntimeClasses []string
}

// Name implements Plugin.
func (*PodSecurity) Name() string { return "PodSecurity" }

// Validate implements Plugin.
func (p *PodSecurity) Validate(ctx context.Context, r *Request) error {
	if r.Operation != Create && r.Operation != Update {
		return nil
	}
	switch r.Resource {
	case namespaces.GroupResource():
		return p.namespace(ctx, r)
	case schema.GroupResource{Resource: "pods"}:
		return p.pod(ctx, r)
	}
	if meta, spec := templateOf(r.Object); spec != nil && r.Subresource == "" {
		return p.judge(ctx, r, meta, spec, false)
	}
	return nil
}

// templateOf finds the pods that an object will make; nil where it makes none.
func templateOf(obj kinds.Object) (*metav1.ObjectMeta, *corev1.PodSpec) {
	var t *corev1.PodTemplateSpec
	switch o := obj.(type) {
	case *corev1.PodTemplate:
		t = &o.Template
	case *corev1.ReplicationController:
		t = o.Spec.Template
	case *appsv1.ReplicaSet:
		t = &o.Spec.Template
	case *appsv1.Deployment:
		t = &o.Spec.Template
	case *appsv1.DaemonSet:
		t = &o.Spec.Template
	case *appsv1.StatefulSet:
		t = &o.Spec.Template
	case *batchv1.Job:
		t = &o.Spec.Template
	case *batchv1.CronJob:
		t = &o.Spec.JobTemplate.Spec.Template
	}
	if t == nil {
		return nil, nil
	}
	return &t.ObjectMeta, &t.Spec
}

// defaults are the configured ones, with what they leave out.
func (p *PodSecurity) defaults() api.Policy {
	d := p.Config.Defaults
	for _, lv := range [...]*api.LevelVersion{&d.Enforce, &d.Audit, &d.Warn} {
		if *lv == (api.LevelVersion{}) {
			*lv = api.LevelVersion{Level: api.LevelPrivileged, Version: api.LatestVersion()}
		}
	}
	return d
}

// evaluator is made for the first pod that is to be judged.
func (p *PodSecurity) evaluator() (policy.Evaluator, error) {
	p.once.Do(func() { p.eval, p.err = policy.NewEvaluator(policy.DefaultChecks(), nil) })
	return p.eval, p.err
}

// asksNothing tells that no pod can break a level.
func asksNothing(levels ...api.LevelVersion) bool {
	return !slices.ContainsFunc(levels, func(lv api.LevelVersion) bool { return lv.Level != api.LevelPrivileged })
}

// pod judges a pod that is new, or whose containers change.
func (p *PodSecurity) pod(ctx context.Context, r *Request) error {
	pod, ok := r.Object.(*corev1.Pod)
	if !ok || r.Subresource == "status" {
		return nil // a binding or an eviction makes no other pod of it
	}
	if old, ok := r.Old.(*corev1.Pod); ok && r.Operation == Update && !saferToLook(pod, old) {
		return nil
	}
	return p.judge(ctx, r, &pod.ObjectMeta, &pod.Spec, true)
}

// saferToLook tells whether an update changes what the standards look at. Most
// of a pod is immutable: what is left are images, new ephemeral containers and
// the annotations that once named seccomp profiles.
func saferToLook(pod, old *corev1.Pod) bool {
	seccomp := func(key string) bool { return pod.Annotations[key] != old.Annotations[key] }
	if seccomp(corev1.SeccompPodAnnotationKey) {
		return true
	}
	had := map[string]string{} // image by place and name
	collect(old, func(key, _, image string) { had[key] = image })
	changed, n := false, 0
	collect(pod, func(key, name, image string) {
		n++
		was, ok := had[key]
		changed = changed || !ok || was != image || seccomp(corev1.SeccompContainerAnnotationKeyPrefix+name)
	})
	return changed || n != len(had)
}

func collect(pod *corev1.Pod, each func(key, name, image string)) {
	for _, c := range pod.Spec.InitContainers {
		each("init/"+c.Name, c.Name, c.Image)
	}
	for _, c := range pod.Spec.Containers {
		each("main/"+c.Name, c.Name, c.Image)
	}
	for _, c := range pod.Spec.EphemeralContainers {
		each("ephemeral/"+c.Name, c.Name, c.Image)
	}
}

// judge holds a pod, or what pods will be made of, against the levels of its
// namespace.
func (p *PodSecurity) judge(ctx context.Context, r *Request, meta *metav1.ObjectMeta, spec *corev1.PodSpec, enforce bool) error {
	if slices.Contains(p.Config.Namespaces, r.Namespace) || r.User != nil && slices.Contains(p.Config.Users, r.User.Name) || p.exemptClass(spec) {
		return nil
	}
	ns, err := p.Get(ctx, namespaces, "", r.Namespace)
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("failed to lookup namespace %q: %w", r.Namespace, err))
	}
	// Labels that cannot be read ask for the strictest level to be enforced.
	levels, _ := api.PolicyToEvaluate(ns.GetLabels(), p.defaults())
	if asksNothing(levels.Enforce, levels.Warn) || !enforce && asksNothing(levels.Warn) {
		return nil
	}
	eval, err := p.evaluator()
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	if enforce {
		if got := policy.AggregateCheckResults(eval.EvaluatePod(levels.Enforce, meta, spec)); !got.Allowed {
			return r.forbidden(fmt.Sprintf("violates PodSecurity %q: %s", levels.Enforce.String(), got.ForbiddenDetail()))
		}
		if levels.Warn == levels.Enforce {
			return nil
		}
	}
	if got := policy.AggregateCheckResults(eval.EvaluatePod(levels.Warn, meta, spec)); !got.Allowed {
		r.warn(fmt.Sprintf("would violate PodSecurity %q: %s", levels.Warn.String(), got.ForbiddenDetail()))
	}
	return nil
}

func (p *PodSecurity) exemptClass(spec *corev1.PodSpec) bool {
	return spec.RuntimeClassName != nil && slices.Contains(p.Config.RuntimeClasses, *spec.RuntimeClassName)
}

// namespace checks the labels of a namespace, and warns of the pods that break
// a level which is newly enforced.
func (p *PodSecurity) namespace(ctx context.Context, r *Request) error {
	ns, ok := r.Object.(*corev1.Namespace)
	if !ok || r.Subresource != "" {
		return nil
	}
	now, wrong := api.PolicyToEvaluate(ns.Labels, p.defaults())
	refusal := apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Namespace").GroupKind(), ns.Name, wrong)
	old, ok := r.Old.(*corev1.Namespace)
	if !ok || r.Operation == Create {
		if len(wrong) > 0 {
			return refusal
		}
		return nil
	}
	before, wrongBefore := api.PolicyToEvaluate(old.Labels, p.defaults())
	if len(wrong) > 0 && wrong.ToAggregate().Error() != errorText(wrongBefore.ToAggregate()) {
		return refusal // what was wrong already may stay
	}
	relaxed := now.Enforce.Version == before.Enforce.Version && api.CompareLevels(now.Enforce.Level, before.Enforce.Level) < 1
	if now.Enforce == before.Enforce || asksNothing(now.Enforce) || relaxed || slices.Contains(p.Config.Namespaces, ns.Name) {
		return nil
	}
	r.warn(p.survey(ctx, ns.Name, now.Enforce)...)
	return nil
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// offence is what is wrong with some pods of a namespace.
type offence struct {
	first string // name of the first of them
	pods  int
}

// survey tells which pods of a namespace break a level.
func (p *PodSecurity) survey(ctx context.Context, namespace string, level api.LevelVersion) []string {
	limit := podsCheckTime
	if deadline, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(deadline)/2)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	list, err := p.List(ctx, client.Pods, namespace)
	eval, evalErr := p.evaluator()
	if errors.Join(err, evalErr) != nil {
		return []string{"failed to list pods while checking new PodSecurity enforce level"}
	}
	found, checked := map[string]offence{}, 0
	for _, obj := range firstOfEach(list) {
		if checked == podsChecked || checked > 0 && ctx.Err() != nil {
			break
		}
		checked++
		pod, ok := obj.(*corev1.Pod)
		if !ok || p.exemptClass(&pod.Spec) {
			continue
		}
		if got := policy.AggregateCheckResults(eval.EvaluatePod(level, &pod.ObjectMeta, &pod.Spec)); !got.Allowed {
			o := found[got.ForbiddenReason()]
			if o.pods++; o.pods == 1 || pod.Name < o.first {
				o.first = pod.Name
			}
			found[got.ForbiddenReason()] = o
		}
	}
	var out, each []string
	if checked < len(list) {
		out = append(out, fmt.Sprintf("new PodSecurity enforce level only checked against the first %d of %d existing pods", checked, len(list)))
	}
	if len(found) > 0 {
		out = append(out, fmt.Sprintf("existing pods in namespace %q violate the new PodSecurity enforce level %q", namespace, level.String()))
	}
	for reason, o := range found {
		each = append(each, o.String()+": "+reason)
	}
	slices.Sort(each)
	return append(out, each...)
}

func (o offence) String() string {
	switch others := o.pods - 1; others {
	case 0:
		return o.first
	case 1:
		return o.first + " (and 1 other pod)"
	default:
		return fmt.Sprintf("%s (and %d other pods)", o.first, others)
	}
}

// firstOfEach puts one pod of each owner before the others, which are likely
// like it. Within that, by name.
func firstOfEach(list []client.Object) []client.Object {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b client.Object) int { return cmp.Compare(a.GetName(), b.GetName()) })
	seen := map[types.UID]bool{}
	var first, rest []client.Object
	for _, obj := range list {
		owner := metav1.GetControllerOfNoCopy(obj)
		if owner != nil && seen[owner.UID] {
			rest = append(rest, obj)
			continue
		}
		if owner != nil {
			seen[owner.UID] = true
		}
		first = append(first, obj)
	}
	return append(first, rest...)
}
