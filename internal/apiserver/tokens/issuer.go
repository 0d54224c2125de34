package tokens

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/google/uuid"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/apiserver/authn"
	"github.com/setpoint-project/setpoint/internal/apiserver/authz"
	"github.com/setpoint-project/setpoint/internal/client"
)

const (
	defaultSeconds = 60 * 60
	minSeconds     = 10 * 60
	maxSeconds     = 1 << 32
)

var (
	tokenRequestGVK = authenticationv1.SchemeGroupVersion.WithKind("TokenRequest")

	pods            = client.Resource{Version: "v1", Resource: "pods"}
	nodes           = client.Resource{Version: "v1", Resource: "nodes"}
	secrets         = client.Resource{Version: "v1", Resource: "secrets"}
	serviceAccounts = client.Resource{Version: "v1", Resource: "serviceaccounts"}
)

// Issuer issues the tokens of service accounts.
// https://kubernetes.io/docs/reference/kubernetes-api/authentication-resources/token-request-v1/
type Issuer struct {
	Signer *authn.Signer
	// Audiences are those of a token that asks for none: the API server's.
	Audiences []string
	Get       authn.GetFunc
}

// ServeToken serves serviceaccounts/token.
func (i *Issuer) ServeToken(w http.ResponseWriter, r *http.Request, a *authz.Attributes) {
	if a.Verb != "create" {
		refuse(w, r, apierrors.NewMethodNotSupported(serviceAccounts.GroupResource(), a.Verb))
		return
	}
	req := &authenticationv1.TokenRequest{}
	if err := read(w, r, tokenRequestGVK, req); err != nil {
		refuse(w, r, err)
		return
	}
	out, err := i.Issue(r.Context(), a.User, a.Namespace, a.Name, req)
	if err != nil {
		refuse(w, r, err)
		return
	}
	answer(w, r, http.StatusCreated, tokenRequestGVK, out)
}

// Issue answers a request of user for a token of an account. req is not
// changed.
func (i *Issuer) Issue(ctx context.Context, user *authn.User, namespace, name string, req *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error) {
	out := req.DeepCopy()
	if err := identify(&out.ObjectMeta, namespace, name); err != nil {
		return nil, err
	}
	if out.Spec.ExpirationSeconds == nil {
		seconds := int64(defaultSeconds)
		out.Spec.ExpirationSeconds = &seconds
	}
	if errs := validate(&out.Spec); len(errs) > 0 {
		return nil, apierrors.NewInvalid(tokenRequestGVK.GroupKind(), "", errs)
	}
	if len(out.Spec.Audiences) == 0 {
		out.Spec.Audiences = i.Audiences
	}
	account, err := get[*corev1.ServiceAccount](ctx, i, serviceAccounts, namespace, name)
	if err != nil {
		return nil, err
	}
	claims := authn.KubernetesClaims{
		Namespace:      namespace,
		ServiceAccount: authn.Object{Name: account.Name, UID: string(account.UID)},
	}
	if err := i.bind(ctx, account, out.Spec.BoundObjectRef, &claims); err != nil {
		return nil, err
	}
	if err := i.mayNode(ctx, user, out); err != nil {
		return nil, err
	}
	now := time.Now()
	expiry := now.Add(time.Duration(*out.Spec.ExpirationSeconds) * time.Second)
	token, err := i.Signer.Sign(&authn.Claims{
		Claims: jwt.Claims{
			Subject:   authn.ServiceAccountPrefix + namespace + ":" + name,
			Audience:  jwt.Audience(out.Spec.Audiences),
			IssuedAt:  jwt.NewNumericDate(now),
			NotBefore: jwt.NewNumericDate(now),
			Expiry:    jwt.NewNumericDate(expiry),
			ID:        uuid.NewString(),
		},
		Kubernetes: claims,
	})
	if err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("sign the token: %w", err))
	}
	out.CreationTimestamp = metav1.NewTime(now)
	out.Status = authenticationv1.TokenRequestStatus{Token: token, ExpirationTimestamp: metav1.NewTime(expiry)}
	return out, nil
}

// identify checks that an object that is posted to a name does not say another.
func identify(meta *metav1.ObjectMeta, namespace, name string) error {
	if meta.Name != "" && meta.Name != name {
		return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", meta.Name, name))
	}
	if meta.Namespace != "" && meta.Namespace != namespace {
		return apierrors.NewBadRequest(fmt.Sprintf("the namespace of the object (%s) does not match the namespace on the request (%s)", meta.Namespace, namespace))
	}
	meta.Name, meta.Namespace = name, namespace
	return nil
}

func validate(spec *authenticationv1.TokenRequestSpec) (errs field.ErrorList) {
	path := field.NewPath("spec").Child("expirationSeconds")
	if *spec.ExpirationSeconds < minSeconds {
		errs = append(errs, field.Invalid(path, *spec.ExpirationSeconds, "may not specify a duration less than 10 minutes"))
	}
	if *spec.ExpirationSeconds > maxSeconds {
		errs = append(errs, field.Invalid(path, *spec.ExpirationSeconds, "may not specify a duration larger than 2^32 seconds"))
	}
	return errs
}

// bind writes into claims what the token's life is bound to.
func (i *Issuer) bind(ctx context.Context, account *corev1.ServiceAccount, ref *authenticationv1.BoundObjectReference, claims *authn.KubernetesClaims) error {
	if ref == nil {
		return nil
	}
	var uid types.UID
	gvk := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
	switch gvk {
	case corev1.SchemeGroupVersion.WithKind("Pod"):
		pod, err := get[*corev1.Pod](ctx, i, pods, account.Namespace, ref.Name)
		if err != nil {
			return err
		}
		if pod.Spec.ServiceAccountName != account.Name {
			return apierrors.NewBadRequest(fmt.Sprintf("cannot bind token for serviceaccount %q to pod running with different serviceaccount name.", account.Name))
		}
		uid = pod.UID
		claims.Pod = &authn.Object{Name: pod.Name, UID: string(uid)}
		if claims.Node, err = i.nodeOf(ctx, pod); err != nil {
			return err
		}
	case corev1.SchemeGroupVersion.WithKind("Node"):
		node, err := get[*corev1.Node](ctx, i, nodes, "", ref.Name)
		if err != nil {
			return err
		}
		uid = node.UID
		claims.Node = &authn.Object{Name: node.Name, UID: string(uid)}
	case corev1.SchemeGroupVersion.WithKind("Secret"):
		secret, err := get[*corev1.Secret](ctx, i, secrets, account.Namespace, ref.Name)
		if err != nil {
			return err
		}
		uid = secret.UID
		claims.Secret = &authn.Object{Name: secret.Name, UID: string(uid)}
	default:
		return apierrors.NewBadRequest(fmt.Sprintf("cannot bind token to object of type %s", gvk.String()))
	}
	if ref.UID != "" && ref.UID != uid {
		return apierrors.NewConflict(schema.GroupResource{Group: gvk.Group, Resource: gvk.Kind}, ref.Name,
			fmt.Errorf("the UID in the bound object reference (%s) does not match the UID in record. The object might have been deleted and then recreated", ref.UID))
	}
	return nil
}

// nodeOf is where a pod runs: told in the token, but not what binds it.
func (i *Issuer) nodeOf(ctx context.Context, pod *corev1.Pod) (*authn.Object, error) {
	if pod.Spec.NodeName == "" {
		return nil, nil
	}
	node, err := get[*corev1.Node](ctx, i, nodes, "", pod.Spec.NodeName)
	if apierrors.IsNotFound(err) {
		return &authn.Object{Name: pod.Spec.NodeName}, nil
	}
	if err != nil {
		return nil, err
	}
	return &authn.Object{Name: node.Name, UID: string(node.UID)}, nil
}

// mayNode lets a kubelet have only tokens bound to pods of its own.
func (i *Issuer) mayNode(ctx context.Context, user *authn.User, req *authenticationv1.TokenRequest) error {
	node, ok := authz.NodeOf(user)
	if !ok {
		return nil
	}
	refuse := func(why string) error {
		return apierrors.NewForbidden(serviceAccounts.GroupResource(), req.Name, fmt.Errorf("%s", why))
	}
	ref := req.Spec.BoundObjectRef
	switch {
	case ref == nil || ref.Kind != "Pod" || ref.APIVersion != "v1" || ref.Name == "":
		return refuse("node requested token not bound to a pod")
	case ref.UID == "":
		return refuse("node requested token with a pod binding without a uid")
	}
	pod, err := get[*corev1.Pod](ctx, i, pods, req.Namespace, ref.Name)
	if err != nil {
		return err
	}
	if pod.Spec.NodeName != node {
		return refuse("node requested token bound to a pod scheduled on a different node")
	}
	return nil
}

// get reads an object of a built-in type.
func get[T client.Object](ctx context.Context, i *Issuer, res client.Resource, namespace, name string) (T, error) {
	var zero T
	obj, err := i.Get(ctx, res, namespace, name)
	if err != nil {
		return zero, err
	}
	typed, ok := obj.(T)
	if !ok {
		return zero, apierrors.NewInternalError(fmt.Errorf("%s %s/%s is a %T", res.Resource, namespace, name, obj))
	}
	return typed, nil
}
