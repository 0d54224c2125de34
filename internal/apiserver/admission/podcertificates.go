package admission

import (
	"context"
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/setpoint-project/setpoint/internal/client"
)

// admitPodCertificate lets a kubelet ask for certificates of the pods that run
// on it, and of no other: a signer takes what a request says of pod, account and
// node for true.
// https://kubernetes.io/docs/reference/access-authn-authz/certificate-signing-requests/#pod-certificate-requests
func (p *NodeRestriction) admitPodCertificate(ctx context.Context, r *Request, node string) error {
	asked, ok := r.Object.(*certificatesv1.PodCertificateRequest)
	if !ok || r.Operation != Create || r.Subresource != "" {
		return r.forbidden(fmt.Sprintf("node %q may only create PodCertificateRequests", node))
	}
	s := &asked.Spec
	if string(s.NodeName) != node {
		return r.forbidden(fmt.Sprintf("PodCertificateRequest.Spec.NodeName=%q, which is not the requesting node %q", s.NodeName, node))
	}
	pod, err := read[*corev1.Pod](ctx, p.Get, client.Pods, r.Namespace, s.PodName)
	if err != nil {
		return err
	}
	differs := func(what string, said, is any) error {
		return r.forbidden(fmt.Sprintf("PodCertificateRequest for pod %q contains %s (%q) which differs from the %s of the running pod (%q)", s.PodName, what, said, what, is))
	}
	switch {
	case isMirror(pod):
		return r.forbidden(fmt.Sprintf("pod %q is a mirror pod", s.PodName))
	case pod.Spec.NodeName != node:
		return r.forbidden(fmt.Sprintf("pod %q is not running on node %q", s.PodName, node))
	case s.PodUID != pod.UID:
		return differs("podUID", s.PodUID, pod.UID)
	case s.ServiceAccountName != pod.Spec.ServiceAccountName:
		return differs("serviceAccountName", s.ServiceAccountName, pod.Spec.ServiceAccountName)
	}
	account, err := read[*corev1.ServiceAccount](ctx, p.Get, client.ServiceAccounts, r.Namespace, s.ServiceAccountName)
	if err != nil {
		return err
	}
	if s.ServiceAccountUID != account.UID {
		return differs("serviceAccountUID", s.ServiceAccountUID, account.UID)
	}
	own, err := read[*corev1.Node](ctx, p.Get, client.Nodes, "", node)
	if err != nil {
		return err
	}
	if s.NodeUID != own.UID {
		return differs("nodeUID", s.NodeUID, own.UID)
	}
	return nil
}

// read gets an object of a built-in kind.
func read[T client.Object](ctx context.Context, get GetFunc, res client.Resource, namespace, name string) (T, error) {
	obj, err := get(ctx, res, namespace, name)
	t, ok := obj.(T)
	switch {
	case apierrors.IsNotFound(err):
		return t, err
	case err != nil:
		return t, apierrors.NewInternalError(err)
	case !ok:
		return t, apierrors.NewInternalError(fmt.Errorf("%s %s/%s is a %T", res.Resource, namespace, name, obj))
	}
	return t, nil
}
