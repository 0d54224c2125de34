package controller

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	databasev1 "github.com/setpoint-project/setpoint/examples/postgres-operator/api/v1"
)

const port = 5432

func endpoint(c *databasev1.PostgresCluster) string {
	return fmt.Sprintf("%s.%s.svc:%d", c.Name, c.Namespace, port)
}

func labels(c *databasev1.PostgresCluster) map[string]string {
	return map[string]string{"app.kubernetes.io/name": "postgres", "app.kubernetes.io/instance": c.Name}
}

// children makes and mends everything that the cluster owns.
func (r *Reconciler) children(ctx context.Context, c *databasev1.PostgresCluster) (*appsv1.StatefulSet, error) {
	named := metav1.ObjectMeta{Namespace: c.Namespace, Name: c.Name}
	secret, config := &corev1.Secret{ObjectMeta: named}, &corev1.ConfigMap{ObjectMeta: named}
	service, set := &corev1.Service{ObjectMeta: named}, &appsv1.StatefulSet{ObjectMeta: named}
	for _, child := range []struct {
		object client.Object
		want   func()
	}{
		{secret, func() {
			if len(secret.Data["password"]) == 0 { // once: who knows it goes on using it
				secret.Data = map[string][]byte{"password": []byte(rand.Text())}
			}
		}},
		{config, func() { config.Data = map[string]string{"postgresql.conf": configuration(c)} }},
		{service, func() {
			service.Spec.Selector = labels(c)
			service.Spec.ClusterIP = corev1.ClusterIPNone
			service.Spec.Ports = []corev1.ServicePort{{Name: "postgres", Port: port, TargetPort: intstr.FromInt32(port), Protocol: corev1.ProtocolTCP}}
		}},
		{set, func() { fill(set, c) }},
	} {
		_, err := controllerutil.CreateOrUpdate(ctx, r.Client, child.object, func() error {
			meta := labels(c)
			maps.Copy(meta, child.object.GetLabels())
			child.object.SetLabels(meta)
			child.want()
			return controllerutil.SetControllerReference(c, child.object, r.Scheme())
		})
		if err != nil {
			return nil, fmt.Errorf("%T: %w", child.object, err)
		}
	}
	return set, nil
}

// configuration is postgresql.conf.
func configuration(c *databasev1.PostgresCluster) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(c.Spec.Parameters)) {
		fmt.Fprintf(&b, "%s = '%s'\n", name, strings.ReplaceAll(c.Spec.Parameters[name], "'", "''"))
	}
	return b.String()
}

// fill sets the fields of the StatefulSet that the claim decides, and no
// others: what the API server defaults stays as it is, so that a set that is
// right is not written again.
func fill(set *appsv1.StatefulSet, c *databasev1.PostgresCluster) {
	set.Spec.Replicas = &c.Spec.Replicas
	template := &set.Spec.Template
	template.Labels = labels(c)
	if set.CreationTimestamp.IsZero() {
		set.Spec.ServiceName = c.Name
		set.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels(c)}
		set.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{
			ObjectMeta: metav1.ObjectMeta{Name: "data"},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: c.Spec.Storage}},
			},
		}}
		template.Spec.Containers = []corev1.Container{{Name: "postgres"}}
	}
	server := &template.Spec.Containers[0]
	server.Image = fmt.Sprintf("postgres:%d", c.Spec.Version)
	server.Ports = []corev1.ContainerPort{{Name: "postgres", ContainerPort: port, Protocol: corev1.ProtocolTCP}}
	server.Env = []corev1.EnvVar{{Name: "POSTGRES_PASSWORD", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: c.Name}, Key: "password"}}}}
	server.VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/var/lib/postgresql/data"}}
}
