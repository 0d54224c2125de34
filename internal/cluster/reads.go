package cluster

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/apiserver/apply"
	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/pki"
	"github.com/setpoint-project/setpoint/internal/volumes"
)

// coreKind finds a kind of the core group.
func (c *controlPlane) coreKind(resource string) *kinds.Kind {
	for _, k := range c.server.Kinds() {
		if k.Resource.Group == "" && k.Resource.Resource == resource {
			return k
		}
	}
	return nil
}

// resourceOf finds the resource of a kind, for the parameters of policies.
func (c *controlPlane) resourceOf(apiVersion, kind string) (res client.Resource, namespaced, ok bool) {
	for _, k := range c.server.Kinds() {
		for i := range k.Versions {
			if v := &k.Versions[i]; k.VersionKind(v) == kind && v.GroupVersion.String() == apiVersion {
				return v.GroupVersion.WithResource(k.Resource.Resource), k.Namespaced, true
			}
		}
	}
	return res, false, false
}

// fieldsOf is who merges the objects of a resource.
func (c *controlPlane) fieldsOf(gr schema.GroupResource, sub string) *apply.Kind {
	return c.server.Fields(gr, sub)
}

// get and list are how plugins read: from the API server's own memory.
func (c *controlPlane) get(ctx context.Context, res client.Resource, namespace, name string) (client.Object, error) {
	return c.self().Get(ctx, res, namespace, name)
}

func (c *controlPlane) list(ctx context.Context, res client.Resource, namespace string) ([]client.Object, error) {
	objects, _, err := c.self().List(ctx, res, namespace, metav1.ListOptions{})
	return objects, err
}

func (c *controlPlane) update(ctx context.Context, res client.Resource, obj client.Object, subresource string) (client.Object, error) {
	return c.self().Update(ctx, res, obj, subresource)
}

// nodeGone tells that a user is a node that has been deleted: nobody waits for
// its reports.
func (c *controlPlane) nodeGone(user string) bool {
	name, ok := strings.CutPrefix(user, pki.NodeUserPrefix)
	if !ok {
		return false
	}
	_, err := c.get(context.Background(), client.Nodes, "", name)
	return apierrors.IsNotFound(err)
}

const byNode = "node"

// podsOn lists the pods of a node, for the node authorizer.
func (c *controlPlane) podsOn(node string) []*corev1.Pod {
	view := c.self().View(client.Pods, client.ViewOptions{})
	view.Index(byNode, func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} })
	return client.Indexed[*corev1.Pod](view, byNode, node)
}

// volumeOf is the volume of a claim that is bound to it, for the node authorizer.
func (c *controlPlane) volumeOf(namespace, claim string) *corev1.PersistentVolume {
	self, all := c.self(), client.ViewOptions{}
	pvc := client.In[*corev1.PersistentVolumeClaim](self.View(client.PersistentVolumeClaims, all), namespace, claim)
	if pvc == nil || pvc.Spec.VolumeName == "" {
		return nil
	}
	if v := client.In[*corev1.PersistentVolume](self.View(client.PersistentVolumes, all), "", pvc.Spec.VolumeName); volumes.Bound(v, pvc) {
		return v
	}
	return nil
}

// attachedTo is the node that a VolumeAttachment is for; "": there is none.
func (c *controlPlane) attachedTo(name string) string {
	if a := client.In[*storagev1.VolumeAttachment](c.self().View(client.VolumeAttachments, client.ViewOptions{}), "", name); a != nil {
		return a.Spec.NodeName
	}
	return ""
}

// self is the API server's own client, for what stands in the request path.
func (c *controlPlane) self() client.Interface {
	return c.server.Client(client.Identity{User: "system:apiserver", Groups: []string{pki.MastersGroup}, UserAgent: "setpoint-apiserver"})
}
