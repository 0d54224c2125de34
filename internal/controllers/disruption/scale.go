package disruption

import (
	"context"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
)

// scale sums up what the owners of pods claim, each owner once. unmanaged are
// the pods that have none.
func (c *Controller) scale(ctx context.Context) func([]*corev1.Pod) (int, []string, error) {
	return func(pods []*corev1.Pod) (claimed int, unmanaged []string, err error) {
		seen := map[types.UID]bool{}
		for _, pod := range pods {
			ref := metav1.GetControllerOfNoCopy(pod)
			if ref == nil {
				unmanaged = append(unmanaged, pod.Name)
				continue
			}
			owner, n, err := c.claimOf(ctx, pod.Namespace, ref)
			if err != nil {
				return 0, unmanaged, err
			}
			if !seen[owner] {
				seen[owner] = true
				claimed += n
			}
		}
		return claimed, unmanaged, nil
	}
}

// claimOf finds the owner that decides on the number of pods and what it
// claims: of a ReplicaSet that a Deployment controls, the Deployment.
func (c *Controller) claimOf(ctx context.Context, namespace string, ref *metav1.OwnerReference) (types.UID, int, error) {
	group := strings.Split(ref.APIVersion, "/")[0]
	switch {
	case ref.Kind == "ReplicaSet" && group == appsv1.GroupName:
		rs := client.In[*appsv1.ReplicaSet](c.sets, namespace, ref.Name)
		if rs == nil || rs.UID != ref.UID {
			return "", 0, notFound(ref)
		}
		if above := metav1.GetControllerOfNoCopy(rs); above != nil && above.Kind == "Deployment" {
			if d := client.In[*appsv1.Deployment](c.deployments, namespace, above.Name); d != nil && d.UID == above.UID {
				return d.UID, int(*d.Spec.Replicas), nil
			}
			return "", 0, notFound(above)
		}
		return rs.UID, int(*rs.Spec.Replicas), nil
	case ref.Kind == "StatefulSet" && group == appsv1.GroupName:
		if s := client.In[*appsv1.StatefulSet](c.stateful, namespace, ref.Name); s != nil && s.UID == ref.UID {
			return s.UID, int(*s.Spec.Replicas), nil
		}
		return "", 0, notFound(ref)
	case ref.Kind == "ReplicationController":
		if rc := client.In[*corev1.ReplicationController](c.older, namespace, ref.Name); rc != nil && rc.UID == ref.UID {
			return rc.UID, int(*rc.Spec.Replicas), nil
		}
		return "", 0, notFound(ref)
	}
	return c.customClaim(ctx, namespace, ref)
}

func notFound(ref *metav1.OwnerReference) error {
	return fmt.Errorf("found no controller ref for %s %s", ref.Kind, ref.Name)
}

// customClaim asks the server for the scale of an owner of another kind. One
// whose kind has none cannot be counted.
func (c *Controller) customClaim(ctx context.Context, namespace string, ref *metav1.OwnerReference) (types.UID, int, error) {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return "", 0, err
	}
	served, err := c.client.Resources(ctx)
	if err != nil {
		return "", 0, err
	}
	for _, r := range served {
		if r.Kind != ref.Kind || r.Resource.Group != gv.Group {
			continue
		}
		scale, err := controllers.Scale(ctx, c.client, r.Resource, namespace, ref.Name)
		switch {
		case err == nil && scale.UID == ref.UID:
			return ref.UID, int(scale.Spec.Replicas), nil
		case err == nil:
			return "", 0, notFound(ref)
		case !apierrors.IsNotFound(err):
			return "", 0, err
		}
		if _, err := c.client.Get(ctx, r.Resource, namespace, ref.Name); err == nil {
			return "", 0, fmt.Errorf("%s does not implement the scale subresource", r.Resource.GroupResource())
		} else if !apierrors.IsNotFound(err) {
			return "", 0, err
		}
		return "", 0, notFound(ref)
	}
	return "", 0, fmt.Errorf("found no resource of kind %s in %s", ref.Kind, ref.APIVersion)
}
