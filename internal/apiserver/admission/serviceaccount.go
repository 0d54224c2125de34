package admission

import (
	"context"
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilrand "k8s.io/apimachinery/pkg/util/rand"

	"github.com/setpoint-project/setpoint/internal/client"
)

const (
	defaultServiceAccount = "default"
	tokenVolumePrefix     = "kube-api-access-"
	tokenMountPath        = "/var/run/secrets/kubernetes.io/serviceaccount"
	rootCAConfigMap       = "kube-root-ca.crt"
	// tokenSeconds is an hour and a bit: by the odd number a token that was
	// mounted by default can be told from one that was asked for.
	tokenSeconds = 60*60 + 7
)

// ServiceAccount gives a pod its service account: the default one if it names
// none, a volume with a token, and the account's image pull secrets.
// https://kubernetes.io/docs/reference/access-authn-authz/service-accounts-admin/#serviceaccount-admission-controller
type ServiceAccount struct {
	Get GetFunc
}

// Name implements Plugin.
func (*ServiceAccount) Name() string { return "ServiceAccount" }

var serviceAccounts = client.Resource{Version: "v1", Resource: "serviceaccounts"}

// Admit implements Plugin.
func (p *ServiceAccount) Admit(ctx context.Context, r *Request) error {
	pod := objectAs[*corev1.Pod](r, "", "pods")
	if pod == nil || r.Operation != Create || isMirror(pod) {
		return nil
	}
	if pod.Spec.ServiceAccountName == "" {
		pod.Spec.ServiceAccountName = defaultServiceAccount
	}
	pod.Spec.DeprecatedServiceAccount = pod.Spec.ServiceAccountName
	account, err := p.account(ctx, r.Namespace, pod.Spec.ServiceAccountName)
	if err != nil {
		return r.forbidden(fmt.Sprintf("error looking up service account %s/%s: %v", r.Namespace, pod.Spec.ServiceAccountName, err))
	}
	if automount(account, pod) {
		mountToken(pod)
	}
	if len(pod.Spec.ImagePullSecrets) == 0 {
		pod.Spec.ImagePullSecrets = append(pod.Spec.ImagePullSecrets, account.ImagePullSecrets...)
	}
	return nil
}

// Validate implements Plugin.
func (p *ServiceAccount) Validate(ctx context.Context, r *Request) error {
	pod := objectAs[*corev1.Pod](r, "", "pods")
	if pod == nil || r.Operation != Create {
		return nil
	}
	if !isMirror(pod) {
		// A later plugin may have changed the account.
		if _, err := p.account(ctx, r.Namespace, pod.Spec.ServiceAccountName); err != nil {
			return r.forbidden(fmt.Sprintf("error looking up service account %s/%s: %v", r.Namespace, pod.Spec.ServiceAccountName, err))
		}
		return nil
	}
	// Nobody checked what a mirror pod's node runs, so it gets no identity.
	if pod.Spec.ServiceAccountName != "" {
		return r.forbidden("a mirror pod may not reference service accounts")
	}
	for _, v := range pod.Spec.Volumes {
		if v.Projected == nil {
			continue
		}
		for _, s := range v.Projected.Sources {
			if s.ServiceAccountToken != nil {
				return r.forbidden("a mirror pod may not use ServiceAccountToken volume projections")
			}
		}
	}
	return nil
}

func isMirror(pod *corev1.Pod) bool {
	_, ok := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return ok
}

// How long a pod may wait for the default account of a namespace that has just
// been made: the loop that makes the account needs a moment.
const (
	defaultAccountWait  = time.Second
	defaultAccountPoll  = 20 * time.Millisecond
	defaultAccountTries = int(defaultAccountWait / defaultAccountPoll)
)

func (p *ServiceAccount) account(ctx context.Context, namespace, name string) (*corev1.ServiceAccount, error) {
	for try := 0; ; try++ {
		obj, err := p.Get(ctx, serviceAccounts, namespace, name)
		if err == nil {
			account, ok := obj.(*corev1.ServiceAccount)
			if !ok {
				return nil, fmt.Errorf("it is a %T", obj)
			}
			return account, nil
		}
		if !apierrors.IsNotFound(err) {
			return nil, err
		}
		if name != defaultServiceAccount || try >= defaultAccountTries {
			return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "serviceaccount"}, name)
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(defaultAccountPoll):
		}
	}
}

func automount(account *corev1.ServiceAccount, pod *corev1.Pod) bool {
	if pod.Spec.AutomountServiceAccountToken != nil {
		return *pod.Spec.AutomountServiceAccountToken
	}
	return account.AutomountServiceAccountToken == nil || *account.AutomountServiceAccountToken
}

// mountToken mounts the token into every container that mounts nothing else
// there.
func mountToken(pod *corev1.Pod) {
	name, exists := "", false
	for _, v := range pod.Spec.Volumes {
		if strings.HasPrefix(v.Name, tokenVolumePrefix) {
			name, exists = v.Name, true
			break
		}
	}
	if !exists {
		name = tokenVolumePrefix + tokenVolumeSuffix(pod)
	}
	used := mountInto(pod.Spec.InitContainers, name)
	used = mountInto(pod.Spec.Containers, name) || used
	if used && !exists {
		pod.Spec.Volumes = append(pod.Spec.Volumes, tokenVolume(name))
	}
}

// tokenVolumeSuffix is the same for all pods of one controller, so that what
// they have in common is one thing in memory. Upstream's is random.
func tokenVolumeSuffix(pod *corev1.Pod) string {
	const length = 5
	owner := metav1.GetControllerOf(pod)
	if owner == nil {
		return utilrand.String(length)
	}
	h := fnv.New32a()
	h.Write([]byte(owner.UID))
	return utilrand.SafeEncodeString(fmt.Sprintf("%010d", h.Sum32()))[10-length:]
}

func mountInto(containers []corev1.Container, name string) (used bool) {
next:
	for i := range containers {
		c := &containers[i]
		for _, m := range c.VolumeMounts {
			if m.MountPath == tokenMountPath {
				continue next
			}
		}
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: name, ReadOnly: true, MountPath: tokenMountPath})
		used = true
	}
	return used
}

func tokenVolume(name string) corev1.Volume {
	mode, seconds := int32(0o644), int64(tokenSeconds)
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		DefaultMode: &mode,
		Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: &seconds}},
			{ConfigMap: &corev1.ConfigMapProjection{
				LocalObjectReference: corev1.LocalObjectReference{Name: rootCAConfigMap},
				Items:                []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}},
			}},
			{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{
				Path:     "namespace",
				FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"},
			}}}},
		},
	}}}
}
