package v1alpha1

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/conversion"

	databasev1 "github.com/setpoint-project/setpoint/examples/postgres-operator/api/v1"
)

// KeptAnnotation holds, in an object of this version, what v1 can say and this
// version cannot, so that nothing is lost by who reads and writes it back.
const KeptAnnotation = "database.example.com/v1"

// kept is KeptAnnotation's content.
type kept struct {
	Storage            *resource.Quantity `json:"storage,omitempty"`
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
}

const gib = 1 << 30

// inGiB rounds up.
func inGiB(q resource.Quantity) int64 { return (q.Value() + gib - 1) / gib }

// ConvertTo makes a v1 object of c.
func (c *PostgresCluster) ConvertTo(hub conversion.Hub) error {
	out := hub.(*databasev1.PostgresCluster)
	c.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	var k kept
	if text, ok := c.Annotations[KeptAnnotation]; ok {
		if err := json.Unmarshal([]byte(text), &k); err != nil {
			return fmt.Errorf("annotation %s: %w", KeptAnnotation, err)
		}
		if delete(out.Annotations, KeptAnnotation); len(out.Annotations) == 0 {
			out.Annotations = nil
		}
	}
	out.Spec = databasev1.PostgresClusterSpec{Replicas: c.Spec.Instances, Storage: *resource.NewQuantity(c.Spec.StorageGiB*gib, resource.BinarySI)}
	if v := c.Spec.PostgresVersion; v != "" { // else the webhook's default
		n, err := strconv.ParseInt(v, 10, 32)
		if err != nil {
			return fmt.Errorf("spec.postgresVersion: %q is no number", v)
		}
		out.Spec.Version = int32(n)
	}
	if k.Storage != nil && inGiB(*k.Storage) == c.Spec.StorageGiB {
		out.Spec.Storage = *k.Storage
	}
	if c.Spec.Settings != nil {
		out.Spec.Parameters = map[string]string{}
		for _, s := range c.Spec.Settings {
			out.Spec.Parameters[s.Name] = s.Value
		}
	}
	out.Status = databasev1.PostgresClusterStatus{ObservedGeneration: k.ObservedGeneration, Replicas: c.Status.Instances,
		ReadyReplicas: c.Status.ReadyInstances, Endpoint: c.Status.Endpoint, Conditions: k.Conditions}
	return nil
}

// ConvertFrom makes c of a v1 object.
func (c *PostgresCluster) ConvertFrom(hub conversion.Hub) error {
	in := hub.(*databasev1.PostgresCluster)
	in.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	c.Spec = PostgresClusterSpec{Instances: in.Spec.Replicas, StorageGiB: inGiB(in.Spec.Storage)}
	if in.Spec.Version != 0 {
		c.Spec.PostgresVersion = strconv.Itoa(int(in.Spec.Version))
	}
	for _, name := range slices.Sorted(maps.Keys(in.Spec.Parameters)) {
		c.Spec.Settings = append(c.Spec.Settings, Setting{name, in.Spec.Parameters[name]})
	}
	c.Status = PostgresClusterStatus{Instances: in.Status.Replicas, ReadyInstances: in.Status.ReadyReplicas, Endpoint: in.Status.Endpoint}
	if ready := meta.FindStatusCondition(in.Status.Conditions, databasev1.Ready); ready != nil {
		c.Status.Phase = Starting
		if ready.Status == metav1.ConditionTrue {
			c.Status.Phase = Running
		}
	}
	k := kept{ObservedGeneration: in.Status.ObservedGeneration, Conditions: in.Status.Conditions}
	if in.Spec.Storage.Cmp(*resource.NewQuantity(c.Spec.StorageGiB*gib, resource.BinarySI)) != 0 {
		k.Storage = &in.Spec.Storage
	}
	if k.Storage == nil && k.ObservedGeneration == 0 && len(k.Conditions) == 0 {
		return nil
	}
	text, err := json.Marshal(k)
	if err != nil {
		return err
	}
	metav1.SetMetaDataAnnotation(&c.ObjectMeta, KeptAnnotation, string(text))
	return nil
}
