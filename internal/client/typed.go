package client

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Get reads one object as a T: client.Get[*corev1.Pod](ctx, c, client.Pods, ns, name).
// What it returns is shared; DeepCopy before changing.
func Get[T Object](ctx context.Context, c Interface, res Resource, namespace, name string) (T, error) {
	obj, err := c.Get(ctx, res, namespace, name)
	return as[T](obj, err)
}

// List reads objects as Ts, and the resourceVersion of the list.
func List[T Object](ctx context.Context, c Interface, res Resource, namespace string, opts metav1.ListOptions) ([]T, string, error) {
	objs, rv, err := c.List(ctx, res, namespace, opts)
	if err != nil {
		return nil, "", err
	}
	out := make([]T, 0, len(objs))
	for _, obj := range objs {
		t, err := as[T](obj, nil)
		if err != nil {
			return nil, "", err
		}
		out = append(out, t)
	}
	return out, rv, nil
}

// Create creates obj and returns what the server made of it.
func Create[T Object](ctx context.Context, c Interface, res Resource, obj T) (T, error) {
	return as[T](c.Create(ctx, res, obj))
}

// Update replaces obj and returns what the server made of it.
func Update[T Object](ctx context.Context, c Interface, res Resource, obj T, subresource ...string) (T, error) {
	return as[T](c.Update(ctx, res, obj, subresource...))
}

// In reads one object from a view as a T; the zero T when it is not there.
func In[T Object](v View, namespace, name string) T {
	t, _ := v.Get(namespace, name).(T)
	return t
}

// Listed reads a namespace ("" is all) from a view as Ts.
func Listed[T Object](v View, namespace string) []T { return each[T](v.List(namespace)) }

// Indexed reads what an index of a view holds under value as Ts.
func Indexed[T Object](v View, index, value string) []T { return each[T](v.ByIndex(index, value)) }

func each[T Object](objs []Object) []T {
	out := make([]T, 0, len(objs))
	for _, obj := range objs {
		if t, ok := obj.(T); ok {
			out = append(out, t)
		}
	}
	return out
}

func as[T Object](obj Object, err error) (T, error) {
	var zero T
	if err != nil {
		return zero, err
	}
	t, ok := obj.(T)
	if !ok {
		return zero, fmt.Errorf("client: the server answered with a %T where a %T is due", obj, zero)
	}
	return t, nil
}
