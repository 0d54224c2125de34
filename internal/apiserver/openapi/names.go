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
	custom  map[schema.GroupVersionKind]served // whose objects no Go type describes
}

// catalog of everything that s serves; models are added as they are asked for.
func (s *snapshot) catalog(d dialect) *catalog {
	c := &catalog{models: newModels(d), objects: map[schema.GroupVersionKind]func() any{}, lists: map[schema.GroupVersionKind]func() any{}, custom: map[schema.GroupVersionKind]served{}}
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
			if one.version.Schema != nil {
				c.custom[one.gvk()] = one
				continue
			}
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
		if one, ok := c.custom[o.gvk]; ok {
			return c.customList(one)
		}
		if make := c.lists[o.gvk]; make != nil {
			return c.kind(make(), o.gvk.GroupVersion().WithKind(o.gvk.Kind+"List"))
		}
		return ""
	case answerStatus:
		return c.kind(&metav1.Status{}, schema.GroupVersionKind{Version: "v1", Kind: "Status"})
	case answerEvents:
		return c.kind(&metav1.WatchEvent{}, schema.GroupVersionKind{Version: "v1", Kind: "WatchEvent"})
	case answerResources:
		return c.kind(&metav1.APIResourceList{}, schema.GroupVersionKind{Version: "v1", Kind: "APIResourceList"})
	case answerGroup:
		return c.kind(&metav1.APIGroup{}, schema.GroupVersionKind{Version: "v1", Kind: "APIGroup"})
	case answerVersions:
		return c.kind(&metav1.APIVersions{}, schema.GroupVersionKind{Version: "v1", Kind: "APIVersions"})
	}
	return c.object(o.gvk)
}

// answerModel is what an operation answers; nil when unknown.
func (c *catalog) answerModel(o *operation) *model {
	if o.answer == answerText {
		return &model{Type: "string"}
	}
	if name := c.answerOf(o); name != "" {
		return c.ref(name)
	}
	return nil
}

func (c *catalog) object(gvk schema.GroupVersionKind) string {
	if one, ok := c.custom[gvk]; ok {
		return c.customObject(one)
	}
	if make := c.objects[gvk]; make != nil {
		return c.kind(make(), gvk)
	}
	return ""
}
