package scheduler_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/controllertest"
	"github.com/setpoint-project/setpoint/internal/controllers/persistentvolume"
	"github.com/setpoint-project/setpoint/internal/controllers/resourceclaim"
)

func settled(w *controllertest.World) string {
	return w.Lines(client.Pods, func(obj client.Object) string {
		return fmt.Sprint(obj.GetName(), " placed ", obj.(*corev1.Pod).Spec.NodeName != "")
	})
}

// withVolumes files a pod that has a claim of a class.
func withVolumes(w *controllertest.World, name, class string) {
	w.Create(client.PersistentVolumeClaims, claim(name, class, "1Gi"))
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.PodSpec{SchedulerName: corev1.DefaultSchedulerName, Containers: []corev1.Container{{Name: "c", Image: "app"}}}}
	using(name)(p)
	w.Create(client.Pods, p)
}

// onTheirVolumes checks that each pod is where its volume is.
func onTheirVolumes(w *controllertest.World) error {
	host := map[string]string{}
	for _, obj := range w.List(client.PersistentVolumes) {
		v := obj.(*corev1.PersistentVolume)
		host[v.Name] = v.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values[0]
	}
	for _, obj := range w.List(client.Pods) {
		pod := obj.(*corev1.Pod)
		c := w.Get(client.PersistentVolumeClaims, "default", pod.Name).(*corev1.PersistentVolumeClaim)
		if pod.Spec.NodeName != "" && host[c.Spec.VolumeName] != pod.Spec.NodeName {
			return fmt.Errorf("pod %s is on %s, its volume %s on %s", pod.Name, pod.Spec.NodeName, c.Spec.VolumeName, host[c.Spec.VolumeName])
		}
	}
	return nil
}

// Whatever fails between choosing a volume and binding the pod, in the end each
// pod is where its volume is.
func TestConvergesWithVolumes(t *testing.T) {
	mode := storagev1.VolumeBindingWaitForFirstConsumer
	controllertest.Run(t, controllertest.Case{
		Loops: loops, End: settled, Check: onTheirVolumes,
		Others: func(o controllers.Options) []controllers.Controller {
			return []controllers.Controller{persistentvolume.New(o)}
		},
		Start: func(w *controllertest.World) {
			w.Create(client.StorageClasses, &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "local"}, Provisioner: "kubernetes.io/no-provisioner", VolumeBindingMode: &mode})
			for i := range 3 {
				name := fmt.Sprint("n", i)
				w.Create(client.Nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}}})
				w.Edit(client.Nodes, "", name, func(obj client.Object) {
					node := obj.(*corev1.Node)
					node.Status.Capacity, node.Status.Allocatable = amounts(64), amounts(64)
				}, "status")
				for j := range 2 {
					w.Create(client.PersistentVolumes, localVolume(fmt.Sprintf("v%d-%d", i, j), "local", "1Gi", name))
				}
			}
			for i := range 1 + w.Rand.IntN(4) {
				withVolumes(w, fmt.Sprint("a", i), "local")
			}
		},
		Meanwhile: func(w *controllertest.World) {
			for i := range w.Rand.IntN(3) {
				withVolumes(w, fmt.Sprint("b", i), "local")
			}
		},
	})
}

// eachOnce checks that no two claims have a device.
func eachOnce(w *controllertest.World) error {
	had := map[string]string{}
	for _, obj := range w.List(client.ResourceClaims) {
		c := obj.(*resourcev1.ResourceClaim)
		if c.Status.Allocation == nil {
			continue
		}
		for _, r := range c.Status.Allocation.Devices.Results {
			if other := had[r.Pool+r.Device]; other != "" {
				return fmt.Errorf("claims %s and %s have device %s/%s", c.Name, other, r.Pool, r.Device)
			}
			had[r.Pool+r.Device] = c.Name
		}
	}
	return nil
}

// Whatever fails between allocating a device and binding the pod, in the end
// each pod has one of its own.
func TestConvergesWithDevices(t *testing.T) {
	controllertest.Run(t, controllertest.Case{
		Loops: loops, End: settled, Check: eachOnce, Single: true,
		Others: func(o controllers.Options) []controllers.Controller {
			return []controllers.Controller{resourceclaim.New(o), resourceclaim.NewCleaner(o)}
		},
		Start: func(w *controllertest.World) {
			w.Create(client.DeviceClasses, gpuClass())
			w.Create(client.ResourceClaimTemplates, &resourcev1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "gpu"},
				Spec: resourcev1.ResourceClaimTemplateSpec{Spec: gpuClaim("", 1, "").Spec}})
			for i := range 3 {
				name := fmt.Sprint("n", i)
				fileNode(w, name, 64)
				w.Create(client.ResourceSlices, slice(name, "g0 big", "g1 big"))
			}
			for i := range 3 + w.Rand.IntN(4) {
				fileClaiming(w, fmt.Sprint("a", i))
			}
		},
		Meanwhile: func(w *controllertest.World) {
			for i := range w.Rand.IntN(3) {
				w.Delete(client.Pods, "default", fmt.Sprint("a", i), metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
				fileClaiming(w, fmt.Sprint("b", i))
			}
		},
	})
}

func fileClaiming(w *controllertest.World, name string) {
	w.Create(client.Pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.PodSpec{SchedulerName: corev1.DefaultSchedulerName, Containers: []corev1.Container{{Name: "c", Image: "app"}},
			ResourceClaims: []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: new("gpu")}}}})
}
