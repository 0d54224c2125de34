package apply

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/setpoint-project/setpoint/internal/kinds"
)

// Request is who writes what.
type Request struct {
	Version     int    // in which the request is made, of the kind's
	Subresource string // "": the object itself
	Manager     string
}

// ManagerOf is the manager's name for a request that does not give one: what
// stands before the first slash of its user agent.
func ManagerOf(userAgent string) string {
	name, _, _ := strings.Cut(userAgent, "/")
	plain := len(name) <= validation.FieldManagerMaxLength
	for i := 0; plain && i < len(name); i++ {
		plain = name[i] >= ' ' && name[i] <= '~'
	}
	if plain {
		return name
	}
	var b strings.Builder
	for _, r := range name {
		if !unicode.IsPrint(r) {
			continue
		}
		if b.Len()+utf8.RuneLen(r) > validation.FieldManagerMaxLength {
			break
		}
		b.WriteRune(r)
	}
	return b.String()
}

// Apply merges what a manager wants into live, which it does not change, and
// returns the new object in the hub version. live is nil when there is none.
func (k *Kind) Apply(live kinds.Object, config map[string]any, force bool, by Request) (kinds.Object, error) {
	m, err := k.manager(view{by.Version, by.Subresource})
	if err != nil {
		return nil, err
	}
	if live == nil {
		live = k.kind.Versions[by.Version].New()
		live.GetObjectKind().SetGroupVersionKind(k.gvk(by.Version))
	} else if k.custom {
		live = live.DeepCopyObject().(kinds.Object) // the merge shares parts of it
	}
	var out runtime.Object
	err = guarded(func() error {
		out, err = m.Apply(live, &unstructured.Unstructured{Object: config}, by.Manager, force)
		return err
	})
	if err != nil {
		return nil, err
	}
	obj, err := converter{k}.ConvertToVersion(out, k.kind.HubVersion().GroupVersion)
	if err != nil {
		return nil, err
	}
	return obj.(kinds.Object), nil
}

var (
	_ runtime.ObjectConvertor = converter{}
	_ runtime.ObjectDefaulter = converter{}
	_ runtime.ObjectCreater   = converter{}
)
