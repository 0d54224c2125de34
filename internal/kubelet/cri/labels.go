package cri

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strconv"

	v1 "k8s.io/api/core/v1"
)

// The labels of sandboxes and containers are upstream's, so that other tools
// (crictl, log shippers) know them. LabelOwner is ours: several clusters may
// share one runtime, and a kubelet looks after its own containers only.
const (
	LabelPodName       = "io.kubernetes.pod.name"
	LabelPodNamespace  = "io.kubernetes.pod.namespace"
	LabelPodUID        = "io.kubernetes.pod.uid"
	LabelContainerName = "io.kubernetes.container.name"
	LabelOwner         = "io.setpoint.kubelet"
)

// The annotations of containers, also upstream's.
const (
	annotationHash                = "io.kubernetes.container.hash"
	AnnotationRestartCount        = "io.kubernetes.container.restartCount"
	annotationTerminationPath     = "io.kubernetes.container.terminationMessagePath"
	annotationTerminationPolicy   = "io.kubernetes.container.terminationMessagePolicy"
	AnnotationPodGracePeriod      = "io.kubernetes.pod.terminationGracePeriod"
	AnnotationPodDeletionGrace    = "io.kubernetes.pod.deletionGracePeriod"
	annotationContainerPreStop    = "io.kubernetes.container.preStopHandler"
	annotationContainerPorts      = "io.kubernetes.container.ports"
	annotationContainerHashFormat = "%x"
)

// PodLabels are the labels of a pod's sandbox: the pod's own and those by
// which it is found again.
func PodLabels(pod *v1.Pod, owner string) map[string]string {
	labels := make(map[string]string, len(pod.Labels)+4)
	for k, v := range pod.Labels {
		labels[k] = v
	}
	labels[LabelPodName] = pod.Name
	labels[LabelPodNamespace] = pod.Namespace
	labels[LabelPodUID] = string(pod.UID)
	labels[LabelOwner] = owner
	return labels
}

// ContainerLabels are the labels of one container.
func ContainerLabels(pod *v1.Pod, container, owner string) map[string]string {
	return map[string]string{
		LabelPodName:       pod.Name,
		LabelPodNamespace:  pod.Namespace,
		LabelPodUID:        string(pod.UID),
		LabelContainerName: container,
		LabelOwner:         owner,
	}
}

// ContainerAnnotations say what is needed to judge a container later without
// its pod: what it was made from, and how it must end.
func ContainerAnnotations(pod *v1.Pod, c *v1.Container, restarts int32) map[string]string {
	a := map[string]string{
		annotationHash:              Hash(c),
		AnnotationRestartCount:      strconv.Itoa(int(restarts)),
		annotationTerminationPath:   c.TerminationMessagePath,
		annotationTerminationPolicy: string(c.TerminationMessagePolicy),
	}
	if g := pod.Spec.TerminationGracePeriodSeconds; g != nil {
		a[AnnotationPodGracePeriod] = strconv.FormatInt(*g, 10)
	}
	if g := pod.DeletionGracePeriodSeconds; g != nil {
		a[AnnotationPodDeletionGrace] = strconv.FormatInt(*g, 10)
	}
	if c.Lifecycle != nil && c.Lifecycle.PreStop != nil {
		if b, err := json.Marshal(c.Lifecycle.PreStop); err == nil {
			a[annotationContainerPreStop] = string(b)
		}
	}
	if len(c.Ports) > 0 {
		if b, err := json.Marshal(c.Ports); err == nil {
			a[annotationContainerPorts] = string(b)
		}
	}
	return a
}

// Hash tells whether a container was made from what its spec says now. Of a
// running pod's containers only the image may change in a way that asks for a
// new container, so name and image are what is hashed; resources may be
// resized in place.
func Hash(c *v1.Container) string {
	h := fnv.New32a()
	b, err := json.Marshal(struct{ Name, Image string }{c.Name, c.Image})
	if err != nil {
		panic(err) // two strings always marshal
	}
	h.Write(b)
	return fmt.Sprintf(annotationContainerHashFormat, h.Sum32())
}
