package v1

import (
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of this package's types.
var GroupVersion = schema.GroupVersion{Group: "database.example.com", Version: "v1"}

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
	out.Spec.Storage = c.Spec.Storage.DeepCopy()
	out.Spec.Parameters = maps.Clone(c.Spec.Parameters)
	c.Status.DeepCopyInto(&out.Status)
	return &out
}

// DeepCopy copies everything that s points to.
func (s *PostgresClusterStatus) DeepCopy() *PostgresClusterStatus {
	out := *s
	s.DeepCopyInto(&out)
	return &out
}

// DeepCopyInto lets out share nothing with s, of which it is a copy.
func (s *PostgresClusterStatus) DeepCopyInto(out *PostgresClusterStatus) {
	if s.Conditions == nil {
		return
	}
	out.Conditions = make([]metav1.Condition, len(s.Conditions))
	for i := range s.Conditions {
		s.Conditions[i].DeepCopyInto(&out.Conditions[i])
	}
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
