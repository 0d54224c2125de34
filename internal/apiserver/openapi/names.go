package openapi

import (
	authenticationv1 "k8s.io/api/authentication/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// catalog finds the models that operations speak of, and adds them.
type catalog struct {
	*models
	objects map[schema.GroupVersionKind]func() any
	lists   map[schema.GroupVersionKind]func() any
}

// catalog of everything that s serves; models are added as they are asked for.
func (s *snapshot) catalog(d dialect) *catalog {
	c := &catalog{models: newModels(d), objects: map[schema.GroupVersionKind]func() any{}, lists: map[schema.GroupVersionKind]func() any{}}
	c.objects[policyv1.SchemeGroupVersion.WithKind("Eviction")] = func() any { return &policyv1.Eviction{} }
	c.objects[authenticationv1.SchemeGroupVersion.WithKind("TokenRequest")] = func() any { return &authenticationv1.TokenRequest{} }
	for i := range s.groups {
		for _, one := range s.groups[i].served {
			for _, sub := range one.kind.Subresources {
				if sub.NewView != nil && !sub.GroupVersionKind.Empty() {
					c.objects[sub.GroupVersionKind] = func() any { return sub.NewView() }
				}
			}
		}
	}
	for i := range s.groups {
		for _, one := range s.groups[i].served {
			c.objects[one.gvk()] = func() any { return one.version.New() }
			if one.version.NewList != nil {
				c.lists[one.gvk()] = func() any { return one.version.NewList() }
			}
		}
	}
	return c
}

// answerOf names the model of what an operation answers; "" when unknown.
func (c *catalog) answerOf(o *operation) string {
	switch o.answer {
	case answerList:
		if make := c.lists[o.gvk]; make != nil {
			return c.kind(make(), o.gvk.GroupVersion().WithKind(o.gvk.Kind+"List"))
		}
		return ""
	case answerStatus:
		return c.kind(&metav1.Status{}, schema.GroupVersionKind{Version: "v1", Kind: "Status"})
	}
	return c.object(o.gvk)
}

func (c *catalog) object(gvk schema.GroupVersionKind) string {
	if make := c.objects[gvk]; make != nil {
		return c.kind(make(), gvk)
	}
	return ""
}
