package apiserver_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// apply is server-side apply of some keys, in the model: what others set to
// something else is in conflict, or taken from them by force; what is no longer
// asked for goes, if nobody else owns it.
func (m *model) apply(name string) (string, int, string) {
	had, there := m.objects[name]
	who := []string{"a", "b"}[m.r.IntN(2)]
	me := "Apply " + who
	force := m.r.IntN(3) == 0
	config := m.randomData()
	body := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name}}
	if len(config) > 0 {
		body["data"] = config
	}
	code, out := m.send("PATCH", name, fmt.Sprintf("fieldManager=%s&force=%v", who, force), "application/apply-patch+yaml", body)

	o := had
	o.Data, o.Owners = maps.Clone(had.Data), maps.Clone(had.Owners)
	if !there {
		o.Data, o.Owners = map[string]string{}, map[string]string{}
	}
	first := there && !had.Tracked
	if first { // whatever is there is somebody's
		for k := range o.Data {
			o.Owners[k] = "Update before-first-apply"
		}
	}
	conflict := false
	for k, v := range config {
		if was, ok := o.Data[k]; ok && was != v {
			if o.Owners[k] != me {
				conflict = true
			}
			o.Owners[k] = me
		}
		o.Data[k], o.Owners[k] = v, joined(o.Owners[k], me)
	}
	// Who once made the map owns it, also when others took all its keys and let
	// go of them: the merge library says so.
	if len(had.Data) == 0 && code == 409 && !force && strings.Contains(string(out), `"field":".data"}`) {
		conflict = true
	}
	if conflict && !force {
		return "apply", code, wantCode(code, 409, out)
	}
	for k, owners := range o.Owners {
		if _, ok := config[k]; ok || !slices.Contains(strings.Split(owners, ", "), me) {
			continue
		}
		if owners == me {
			delete(o.Data, k)
			delete(o.Owners, k)
			continue
		}
		o.Owners[k] = without(owners, me)
	}
	switch {
	case !there:
		return "apply", code, m.put(name, o, code, 201, out, "")
	case first && (o.Label != "" || o.Finalizer): // come to be owned
	case maps.Equal(o.Data, had.Data) && maps.Equal(o.Owners, had.Owners):
		return "apply", code, m.put(name, o, code, 200, out, had.RV)
	}
	return "apply", code, m.put(name, o, code, 200, out, "")
}

func joined(owners, me string) string {
	list := strings.Split(owners, ", ")
	if owners == "" {
		list = nil
	}
	if !slices.Contains(list, me) {
		list = append(list, me)
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

func without(owners, me string) string {
	list := slices.DeleteFunc(strings.Split(owners, ", "), func(o string) bool { return o == me })
	return strings.Join(list, ", ")
}
