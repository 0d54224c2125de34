package job

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/podbatch"
)

const indexEnv = "JOB_COMPLETION_INDEX"

var kind = batchv1.SchemeGroupVersion.WithKind("Job")

// remember takes note of the pods that are there.
func (w *world) remember() {
	w.memo.pods.Forget(w.pods)
	if !isIndexed(w.job) {
		return
	}
	limit := completions(w.job)
	done := parseIndexes(w.job.Status.CompletedIndexes, limit)
	w.memo.indexes.See(w.pods, func(pod *corev1.Pod) (int, bool) {
		i := indexOf(pod, limit)
		return i, i != noIndex && !done.has(i)
	})
	w.memo.indexes.Keep(func(i int) bool { return i < limit && !done.has(i) })
}

// newPods are those of the slots, with their names. For an index it stays the
// same until another pod of the index is seen; for the others see numbered.
func (w *world) newPods(slots []slot) []*corev1.Pod {
	limit := completions(w.job)
	byIndex := map[int][]*corev1.Pod{}
	for _, pod := range w.pods {
		if i := indexOf(pod, limit); i != noIndex {
			byIndex[i] = append(byIndex[i], pod)
		}
	}
	var names []string
	if !isIndexed(w.job) {
		names = w.numbered(len(slots))
	}
	pods := make([]*corev1.Pod, len(slots))
	for n, s := range slots {
		pods[n] = w.template()
		if s.index != noIndex {
			w.putIndex(pods[n], s, byIndex[s.index])
		} else {
			pods[n].Name = names[n]
		}
	}
	return pods
}

// numbered are names for n more pods of a Job without indexes. Its pods are
// numbered, and the number makes the name, so that copies of the loop that do
// not see the same give the pod that is missing the same name all the same:
// nothing is done twice that counts. Numbers that are not seen are of pods that
// have yet to be made, but for as many as were counted and are gone, for which
// the lowest are taken.
func (w *world) numbered(n int) (names []string) {
	st := &w.job.Status
	gone := int(st.Succeeded) + int(st.Failed) // of those that are counted
	if u := st.UncountedTerminatedPods; u != nil {
		gone += len(u.Succeeded) + len(u.Failed)
	}
	there := make(map[string]bool, len(w.pods))
	for _, pod := range w.pods {
		there[pod.Name] = true
	}
	gone -= w.stillThere()
	prefix := podbatch.Prefix(w.job.Name, "-")
	for number := uint64(0); len(names) < n; number++ {
		name := podbatch.Seed([]string{string(w.job.UID)}, w.memo.salt, number).Next(prefix)
		switch {
		case there[name]:
		case gone > 0:
			gone--
		default:
			names = append(names, name)
		}
	}
	return names
}

// stillThere is how many of the pods that are counted can be seen.
func (w *world) stillThere() (n int) {
	listed := map[types.UID]bool{}
	if u := w.job.Status.UncountedTerminatedPods; u != nil {
		for _, uid := range slices.Concat(u.Succeeded, u.Failed) {
			listed[uid] = true
		}
	}
	for _, pod := range w.pods {
		loose := !isHeld(pod) && controllers.Ended(pod)
		if listed[pod.UID] || loose && (pod.Status.Phase == corev1.PodSucceeded || judge(w.job.Spec.PodFailurePolicy, pod).counted) {
			n++
		}
	}
	return n
}

// template is the pod that the Job describes.
func (w *world) template() *corev1.Pod {
	j := w.job
	finalizers := slices.Clone(j.Spec.Template.Finalizers)
	if !slices.Contains(finalizers, batchv1.JobTrackingFinalizer) {
		finalizers = append(finalizers, batchv1.JobTrackingFinalizer)
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName:    podbatch.Prefix(j.Name, "-"),
			Namespace:       j.Namespace,
			Labels:          maps.Clone(j.Spec.Template.Labels),
			Annotations:     maps.Clone(j.Spec.Template.Annotations),
			Finalizers:      finalizers,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(j, kind)},
		},
		Spec: j.Spec.Template.Spec, // copied by the client
	}
	w.mark(pod)
	return pod
}

// ownAnnotation of a pod without the label of its Job, which selects what its
// user says, is the uid of the Job that once had it.
const ownAnnotation = "setpoint.dev/job-uid"

// known tells whether a pod is or was one of the Job's own.
func (w *world) known(pod *corev1.Pod) bool {
	uid := string(w.job.UID)
	return pod.Labels[batchv1.ControllerUidLabel] == uid || pod.Annotations[ownAnnotation] == uid
}

// mark makes a pod known.
func (w *world) mark(pod *corev1.Pod) {
	if !w.known(pod) {
		pod.Annotations = put(pod.Annotations, ownAnnotation, string(w.job.UID))
	}
}

// takeIn is a pod that is to be adopted, with the finalizer until it is
// counted. One that was the Job's own before and has ended without it has been
// counted.
func (w *world) takeIn(pod *corev1.Pod) *corev1.Pod {
	pod = pod.DeepCopy()
	if !isHeld(pod) && !(controllers.Ended(pod) && w.known(pod)) {
		pod.Finalizers = append(pod.Finalizers, batchv1.JobTrackingFinalizer)
	}
	w.mark(pod)
	return pod
}

// putIndex tells a pod of an Indexed Job which one it is. there are the pods
// that its index has already.
func (w *world) putIndex(pod *corev1.Pod, s slot, there []*corev1.Pod) {
	j, index := w.job, strconv.Itoa(s.index)
	names := podbatch.Seed([]string{string(j.UID), index, string(s.after)}, w.memo.salt)
	w.memo.indexes.Sway(names, s.index, there)
	pod.GenerateName = podbatch.Prefix(j.Name, "-"+index+"-")
	pod.Name = names.Next(pod.GenerateName)
	pod.Annotations = put(pod.Annotations, batchv1.JobCompletionIndexAnnotation, index)
	pod.Labels = put(pod.Labels, batchv1.JobCompletionIndexAnnotation, index)
	if perIndex(j) {
		pod.Annotations[batchv1.JobIndexFailureCountAnnotation] = strconv.Itoa(s.counted)
		if s.ignored > 0 {
			pod.Annotations[batchv1.JobIndexIgnoredFailureCountAnnotation] = strconv.Itoa(s.ignored)
		}
	}
	pod.Spec.Hostname = fmt.Sprintf("%s-%d", j.Name, s.index)
	pod.Spec.Containers = withIndex(pod.Spec.Containers)
	pod.Spec.InitContainers = withIndex(pod.Spec.InitContainers)
}

func put(m map[string]string, key, value string) map[string]string {
	if m == nil {
		m = map[string]string{}
	}
	m[key] = value
	return m
}

// withIndex gives containers the index in their environment, unless they set
// it themselves.
func withIndex(containers []corev1.Container) []corev1.Container {
	containers = slices.Clone(containers)
	for i := range containers {
		c := &containers[i]
		if slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == indexEnv }) {
			continue
		}
		c.Env = append(slices.Clone(c.Env), corev1.EnvVar{
			Name: indexEnv,
			ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{
				APIVersion: "v1", FieldPath: "metadata.labels['" + batchv1.JobCompletionIndexAnnotation + "']",
			}},
		})
	}
	return containers
}
