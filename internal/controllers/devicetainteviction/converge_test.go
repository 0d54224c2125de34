package devicetainteviction_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/controllertest"
	"github.com/setpoint-project/setpoint/internal/controllers/devicetainteviction"
)

const driver = "gpu.example.com"

// file makes a pod with a device of its name.
func file(w *controllertest.World, name string, tolerations ...resourcev1.DeviceToleration) {
	p := w.Create(client.Pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.PodSpec{NodeName: "n", TerminationGracePeriodSeconds: new(int64(0)), Containers: []corev1.Container{{Name: "c", Image: "app"}},
			ResourceClaims: []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &name}}}})
	w.Create(client.ResourceClaims, &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: resourcev1.ResourceClaimSpec{
		Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{Name: "gpu", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu",
			AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1, Tolerations: tolerations}}}}}})
	w.Edit(client.ResourceClaims, "default", name, func(obj client.Object) {
		c := obj.(*resourcev1.ResourceClaim)
		c.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{
			{Request: "gpu", Driver: driver, Pool: "n", Device: name, Tolerations: tolerations}}}}
		c.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: name, UID: p.GetUID()}}
	}, "status")
}

func taint(effect resourcev1.DeviceTaintEffect) resourcev1.DeviceTaint {
	return resourcev1.DeviceTaint{Key: "example.com/sick", Effect: effect}
}

// Pods leave devices with a taint that says so, by their slice or by a rule, and
// those alone; who tolerates it for a while leaves after that.
func TestConverges(t *testing.T) {
	exists := resourcev1.DeviceToleration{Key: "example.com/sick", Operator: resourcev1.DeviceTolerationOpExists, Effect: resourcev1.DeviceTaintEffectNoExecute}
	minute := exists
	minute.TolerationSeconds = new(int64(60))
	controllertest.Run(t, controllertest.Case{
		Loops: func(o controllers.Options) []controllers.Controller {
			return []controllers.Controller{devicetainteviction.New(o)}
		},
		Start: func(w *controllertest.World) {
			s := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: resourcev1.ResourceSliceSpec{Driver: driver,
				Pool: resourcev1.ResourcePool{Name: "n", Generation: 1, ResourceSliceCount: 1}, NodeName: new("n")}}
			for _, name := range []string{"well", "sick", "held", "ruled"} {
				d := resourcev1.Device{Name: name}
				switch name {
				case "sick":
					d.Taints = []resourcev1.DeviceTaint{taint(resourcev1.DeviceTaintEffectNoExecute)}
				case "held":
					d.Taints = []resourcev1.DeviceTaint{taint(resourcev1.DeviceTaintEffectNoSchedule)}
				}
				s.Spec.Devices = append(s.Spec.Devices, d)
			}
			w.Create(client.ResourceSlices, s)
			for _, name := range []string{"well", "sick", "held", "ruled"} {
				file(w, name)
			}
			file(w, "patient", exists)
			file(w, "a-minute", minute)
		},
		Meanwhile: func(w *controllertest.World) {
			for _, device := range []string{"ruled", "patient", "a-minute"} {
				w.Create(client.DeviceTaintRules, &resourcev1.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: device}, Spec: resourcev1.DeviceTaintRuleSpec{
					DeviceSelector: &resourcev1.DeviceTaintSelector{Driver: new(driver), Device: &device}, Taint: taint(resourcev1.DeviceTaintEffectNoExecute)}})
			}
			w.Rest(time.Second)
			file(w, "late")
		},
		End: func(w *controllertest.World) string {
			return w.Lines(client.Pods, func(obj client.Object) string { return obj.GetName() })
		},
		Check: func(w *controllertest.World) error {
			for name, stays := range map[string]bool{"well": true, "held": true, "patient": true, "late": true, "sick": false, "ruled": false, "a-minute": false} {
				if there := w.Get(client.Pods, "default", name) != nil; there != stays {
					return fmt.Errorf("pod %s is there: %t", name, there)
				}
			}
			return nil
		},
	})
}
