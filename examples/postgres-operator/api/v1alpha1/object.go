package v1alpha1

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of this package's types.
var GroupVersion = schema.GroupVersion{Group: "database.example.com", Version: "v1alpha1"}

// AddToScheme makes the types known to a client.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &PostgresCluster{}, &PostgresClusterList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}

// DeepCopyObject implements runtime.Object.
func (c *PostgresCluster) DeepCopyObject() runtime.Object { return c.DeepCopy() }

// DeepCopy copies everything that c points to.
func (c *PostgresCluster) DeepCopy() *PostgresCluster {
	out := *c
	c.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Spec.Settings = slices.Clone(c.Spec.Settings)
	return &out
}

// DeepCopyObject implements runtime.Object.
func (l *PostgresClusterList) DeepCopyObject() runtime.Object {
	out := *l
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	if l.Items != nil {
		out.Items = make([]PostgresCluster, len(l.Items))
		for i := range l.Items {
			out.Items[i] = *l.Items[i].DeepCopy()
		}
	}
	return &out
}
