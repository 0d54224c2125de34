package admission

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/kinds"
)

// GetFunc and ListFunc are how plugins read: from the API server's own memory,
// so that a plugin sees every write that was acknowledged before.
type (
	GetFunc  func(ctx context.Context, res client.Resource, namespace, name string) (client.Object, error)
	ListFunc func(ctx context.Context, res client.Resource, namespace string) ([]client.Object, error)
)

// forbidden refuses the request with a 403 that says what.
func (r *Request) forbidden(what string) *apierrors.StatusError {
	return apierrors.NewForbidden(r.Resource, r.objectName(), errors.New(what))
}

// warn tells the client of something, if it can hear it.
func (r *Request) warn(texts ...string) {
	if r.Warn != nil && len(texts) > 0 {
		r.Warn(texts...)
	}
}

// Forbidden is forbidden for plugins in packages of their own.
func (r *Request) Forbidden(what string) *apierrors.StatusError { return r.forbidden(what) }

// objectName is the name as far as there is one: plugins run before a name is
// generated.
func (r *Request) objectName() string {
	if r.Name != "" {
		return r.Name
	}
	for _, o := range []kinds.Object{r.Object, r.Old} {
		if o == nil {
			continue
		}
		if n := o.GetName(); n != "" {
			return n
		}
		if n := o.GetGenerateName(); n != "" {
			return n
		}
	}
	return "Unknown"
}

// objectAs returns the object if the request is about the main resource of a
// kind of type T, and nil else.
func objectAs[T kinds.Object](r *Request, group, resource string) (obj T) {
	if r.Subresource != "" || r.Resource.Group != group || r.Resource.Resource != resource || r.Object == nil {
		return obj
	}
	obj, _ = r.Object.(T)
	return obj
}

// mutateOnly is for plugins that have nothing to validate.
type mutateOnly struct{}

func (mutateOnly) Validate(context.Context, *Request) error { return nil }

// mutateNothing is for plugins that only validate.
type mutateNothing struct{}

func (mutateNothing) Admit(context.Context, *Request) error { return nil }
