package apiserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
	"github.com/setpoint-project/setpoint/internal/client"
)

// model is the API in a few lines: what a ConfigMap is, what each verb makes of
// it, and who owns which of its keys.
type model struct {
	objects map[string]modelObject
	past    map[int64]map[string]modelObject // the last revisions
	order   []int64                          // of past

	h    *apitest.Harness
	c    client.Interface
	r    *rand.Rand
	done map[string]int // how often each thing was done, and how it went
}

// modelObject is never changed: a step makes another.
type modelObject struct {
	Data      map[string]string
	Owners    map[string]string // of the keys of Data: "Apply a, Update u"
	Label     string
	RV        string
	Finalizer bool
	Deleted   bool
	// Tracked: somebody owns something of it. The model takes the server's word
	// for it. What nobody owns is tracked from the next apply on only.
	Tracked bool
}

// modelPast is how many revisions the model remembers.
const modelPast = 200

// TestModel sends random operations to the server, as HTTP, and to the model:
// the outcomes, the lists at every revision, page by page too, the owners of
// fields and the story that watches tell must be the same.
//
// SETPOINT_MODEL_STEPS is how many steps there are in place of 400 for each
// seed, SETPOINT_MODEL_SEED the only seed.
func TestModel(t *testing.T) {
	steps, seeds := 400, []uint64{0, 1, 2, 3, 4, 5, 6, 7}
	if n, err := strconv.Atoi(os.Getenv("SETPOINT_MODEL_STEPS")); err == nil {
		steps = n
	}
	if n, err := strconv.ParseUint(os.Getenv("SETPOINT_MODEL_SEED"), 10, 64); err == nil {
		seeds = []uint64{n}
	}
	all := map[string]int{}
	for _, seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inBubble(t, func(t *testing.T, h *apitest.Harness, c client.Interface) {
				m := &model{objects: map[string]modelObject{}, past: map[int64]map[string]modelObject{}, h: h, c: c, r: rand.New(rand.NewPCG(seed, 77)), done: all}
				m.run(t, steps)
			})
		})
	}
	t.Logf("%d steps: %v", steps*len(seeds), all)
	for _, what := range []string{"create 201", "create 409", "update 200", "update 404", "update 409", "delete 200", "delete 404", "delete 409",
		"release 200", "apply 200", "apply 201", "apply 409", "patch 200", "patch 422", "clear 200", "dry 200", "dry 201", "pages", "tail"} {
		if all[what] == 0 && steps >= 400 {
			t.Errorf("never came to pass: %s", what)
		}
	}
}

func (m *model) run(t *testing.T, steps int) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	start := m.h.Store.Revision()
	m.remember(start)
	story := &telling{objects: map[string]string{}, last: start}
	go story.follow(ctx, m.c)
	for step := range steps {
		if wrong := m.step(); wrong != "" {
			t.Fatalf("step %d: %s", step, wrong)
		}
		if step%50 != 49 && step != steps-1 {
			continue
		}
		synctest.Wait()
		if diff := cmp.Diff(versions(m.objects), story.objects); diff != "" || story.wrong != "" {
			t.Fatalf("step %d: the watch tells another story: %s %s", step, story.wrong, diff)
		}
		m.compare(t, "")
		for range 5 {
			rv := m.order[m.r.IntN(len(m.order))]
			m.compare(t, strconv.FormatInt(rv, 10))
			m.tail(t, rv)
		}
		if t.Failed() {
			t.Fatalf("at step %d", step)
		}
	}
}

func versions(objects map[string]modelObject) map[string]string {
	out := map[string]string{}
	for name, o := range objects {
		out[name] = o.RV
	}
	return out
}

// telling is what a watch makes of the world.
type telling struct {
	objects map[string]string // resourceVersion by name
	last    int64
	wrong   string
}

// follow watches, and takes the watch up again where it was cut off.
func (s *telling) follow(ctx context.Context, c client.Interface) {
	for ctx.Err() == nil {
		w, err := c.Watch(ctx, configMaps, "default", metav1.ListOptions{ResourceVersion: strconv.FormatInt(s.last, 10)})
		if err != nil {
			s.wrong = err.Error()
			return
		}
		for ev := range w.ResultChan() {
			cm, ok := ev.Object.(*corev1.ConfigMap)
			if !ok {
				break
			}
			_, there := s.objects[cm.Name]
			if there != (ev.Type != "ADDED") {
				s.wrong = fmt.Sprintf("%s is %s; was it there? %v", cm.Name, ev.Type, there)
			}
			if s.objects[cm.Name] = cm.ResourceVersion; ev.Type == "DELETED" {
				delete(s.objects, cm.Name)
			}
			s.last, _ = strconv.ParseInt(cm.ResourceVersion, 10, 64)
		}
		w.Stop()
	}
}

// tail watches from a revision of the past up to now.
func (m *model) tail(t *testing.T, rv int64) {
	ctx, cancel := context.WithCancel(context.Background())
	s := &telling{objects: versions(m.past[rv]), last: rv}
	done := make(chan struct{})
	go func() { defer close(done); s.follow(ctx, m.c) }()
	synctest.Wait()
	cancel()
	<-done
	m.done["tail"]++
	if diff := cmp.Diff(versions(m.objects), s.objects); diff != "" || s.wrong != "" && s.wrong != context.Canceled.Error() {
		t.Errorf("a watch from %d leads elsewhere: %s %s", rv, s.wrong, diff)
	}
}

func (m *model) remember(rv int64) {
	if _, ok := m.past[rv]; !ok {
		m.order = append(m.order, rv)
	}
	m.past[rv] = maps.Clone(m.objects)
	if len(m.order) > modelPast {
		delete(m.past, m.order[0])
		m.order = m.order[1:]
	}
}

// send is one request about the ConfigMaps of the namespace. query is
// "key=value&...".
func (m *model) send(method, name, query, contentType string, body any) (int, []byte) {
	path := cmPath
	if name != "" {
		path += "/" + name
	}
	text := ""
	if body != nil {
		data, _ := json.Marshal(body)
		text = string(data)
	}
	r := httptest.NewRequest(method, path+"?"+query, strings.NewReader(text))
	if text != "" {
		r.Header.Set("Content-Type", contentType)
	}
	w := httptest.NewRecorder()
	m.h.Server.ServeHTTP(w, r)
	return w.Code, w.Body.Bytes()
}

// step does one thing; it returns what differs.
func (m *model) step() string {
	name := fmt.Sprintf("cm-%d", m.r.IntN(6))
	before := m.h.Store.Revision()
	what, code, wrong := m.act(name)
	m.done[what]++
	if code != 0 {
		m.done[fmt.Sprint(what, " ", code)]++
	}
	now := m.h.Store.Revision()
	if what == "dry" && now != before {
		wrong += fmt.Sprintf("; the store went from %d to %d", before, now)
	}
	if wrong != "" {
		return what + " " + name + ": " + wrong
	}
	m.remember(now)
	return ""
}

func (m *model) act(name string) (what string, code int, wrong string) {
	switch n := m.r.IntN(24); {
	case n < 5:
		return m.create(name)
	case n < 9:
		return m.update(name)
	case n < 11:
		return m.delete(name)
	case n < 13:
		return m.release(name)
	case n < 18:
		return m.apply(name)
	case n < 20:
		return m.patch(name)
	case n < 21:
		return m.clear()
	case n < 22:
		return m.dry(name)
	}
	return m.pages()
}

// randomData has some of four keys.
func (m *model) randomData() map[string]string {
	data := map[string]string{}
	for i := range 4 {
		if m.r.IntN(2) == 0 {
			data[fmt.Sprint("k", i)] = fmt.Sprint(m.r.IntN(3))
		}
	}
	return data
}

func (m *model) create(name string) (string, int, string) {
	_, there := m.objects[name]
	o := modelObject{Data: m.randomData(), Finalizer: m.r.IntN(3) == 0, Label: []string{"", "a", "b"}[m.r.IntN(3)]}
	o.Owners = map[string]string{}
	for k := range o.Data {
		o.Owners[k] = "Update u"
	}
	code, body := m.send("POST", "", "fieldManager=u", "application/json", o.object(name))
	if there {
		return "create", code, wantCode(code, 409, body)
	}
	return "create", code, m.put(name, o, code, 201, body, "")
}

// object is what is sent.
func (o *modelObject) object(name string) *corev1.ConfigMap {
	cm := configMap(name)
	cm.Data = o.Data
	if o.Finalizer {
		cm.Finalizers = []string{"example.com/f"}
	}
	if o.Label != "" {
		cm.Labels = map[string]string{"l": o.Label}
	}
	return cm
}

// put is what becomes of a write that must have code want. It keeps the
// revision when had, if not "", is the revision of the same object.
func (m *model) put(name string, o modelObject, code, want int, body []byte, had string) string {
	if code != want {
		return wantCode(code, want, body)
	}
	got := &corev1.ConfigMap{}
	if err := json.Unmarshal(body, got); err != nil {
		return err.Error()
	}
	if had != "" && had != got.ResourceVersion {
		return fmt.Sprintf("nothing changed, but the revision did, from %s to %s", had, got.ResourceVersion)
	}
	if old := m.objects[name]; had == "" && old.RV == got.ResourceVersion {
		return fmt.Sprintf("%+v became %+v, but kept its revision", old, o)
	}
	o.RV, o.Tracked = got.ResourceVersion, len(got.ManagedFields) > 0
	m.objects[name] = o
	if diff := cmp.Diff(o, seen(got)); diff != "" {
		return fmt.Sprintf("the answer is another (-want +got): %s%s", diff, body)
	}
	return ""
}

func wantCode(code, want int, body []byte) string {
	if code != want {
		return fmt.Sprintf("got %d, want %d: %s", code, want, body)
	}
	return ""
}

// overwritten is what an update or a patch makes of the owners: who set what it
// changed owns it no more.
func (o *modelObject) overwritten(data map[string]string) (map[string]string, bool) {
	owners, same := map[string]string{}, len(data) == len(o.Data)
	defer func() { maps.DeleteFunc(owners, func(_, who string) bool { return who == "" }) }()
	for k, v := range data {
		switch was, ok := o.Data[k]; {
		case ok && was == v:
			owners[k] = o.Owners[k]
			continue
		case o.Tracked:
			owners[k] = "Update u"
		}
		same = false
	}
	return owners, same
}

func (m *model) update(name string) (string, int, string) {
	had, there := m.objects[name]
	o := had
	o.Data = m.randomData()
	if m.r.IntN(3) == 0 {
		o.Data = had.Data
	}
	if m.r.IntN(4) == 0 {
		o.Label = "b"
	}
	cm := o.object(name)
	mode := m.r.IntN(3)
	switch mode { // with the right revision, a wrong one or none
	case 0:
		cm.ResourceVersion = had.RV
	case 1:
		cm.ResourceVersion = "2"
	}
	code, body := m.send("PUT", name, "fieldManager=u", "application/json", cm)
	switch {
	case !there:
		return "update", code, wantCode(code, 404, body)
	case mode == 1:
		return "update", code, wantCode(code, 409, body)
	}
	same := false
	if o.Owners, same = had.overwritten(o.Data); same && o.Label == had.Label {
		return "update", code, m.put(name, o, code, 200, body, had.RV)
	}
	return "update", code, m.put(name, o, code, 200, body, "")
}

func (m *model) delete(name string) (string, int, string) {
	had, there := m.objects[name]
	opts := &metav1.DeleteOptions{}
	mode := m.r.IntN(3)
	switch mode {
	case 0:
		opts.Preconditions = &metav1.Preconditions{ResourceVersion: new(had.RV)}
	case 1:
		opts.Preconditions = &metav1.Preconditions{ResourceVersion: new("2")}
	}
	code, body := m.send("DELETE", name, "", "application/json", opts)
	switch {
	case !there:
		return "delete", code, wantCode(code, 404, body)
	case mode == 1:
		return "delete", code, wantCode(code, 409, body)
	case code != 200:
		return "delete", code, wantCode(code, 200, body)
	}
	return "delete", code, m.gone(name, had)
}

// gone is what a deletion leaves.
func (m *model) gone(name string, had modelObject) string {
	code, body := m.send("GET", name, "", "", nil)
	if !had.Finalizer {
		delete(m.objects, name)
		return wantCode(code, 404, body)
	}
	if had.Deleted {
		return m.put(name, had, code, 200, body, had.RV)
	}
	had.Deleted = true
	return m.put(name, had, code, 200, body, "")
}

// release takes the finalizer away.
func (m *model) release(name string) (string, int, string) {
	had, there := m.objects[name]
	code, body := m.send("PATCH", name, "fieldManager=u", "application/merge-patch+json", map[string]any{"metadata": map[string]any{"finalizers": nil}})
	o := had
	o.Finalizer = false
	switch {
	case !there:
		return "release", code, wantCode(code, 404, body)
	case had.Deleted:
		delete(m.objects, name)
		return "release", code, wantCode(code, 200, body)
	case !had.Finalizer:
		return "release", code, m.put(name, o, code, 200, body, had.RV)
	}
	return "release", code, m.put(name, o, code, 200, body, "")
}

// patch sets a key that is there, or changes the label if it is what it says.
func (m *model) patch(name string) (string, int, string) {
	had, there := m.objects[name]
	key, value := fmt.Sprint("k", m.r.IntN(4)), fmt.Sprint(m.r.IntN(3))
	ops := []map[string]string{{"op": "replace", "path": "/data/" + key, "value": value}}
	code, body := m.send("PATCH", name, "fieldManager=u", "application/json-patch+json", ops)
	was, has := had.Data[key]
	switch {
	case !there:
		return "patch", code, wantCode(code, 404, body)
	case len(had.Data) == 0: // else a key that is not there is added
		return "patch", code, wantCode(code, 422, body)
	}
	o := had
	o.Data = maps.Clone(had.Data)
	o.Data[key] = value
	o.Owners, _ = had.overwritten(o.Data)
	if has && was == value {
		return "patch", code, m.put(name, o, code, 200, body, had.RV)
	}
	return "patch", code, m.put(name, o, code, 200, body, "")
}

// clear deletes all with a label, or all.
func (m *model) clear() (string, int, string) {
	query, label := "", ""
	if m.r.IntN(4) != 0 {
		query, label = "labelSelector=l%3Da", "a"
	}
	code, body := m.send("DELETE", "", query, "", nil)
	wrong := wantCode(code, 200, body)
	for _, name := range slices.Sorted(maps.Keys(m.objects)) {
		if o := m.objects[name]; (label == "" || o.Label == label) && wrong == "" {
			wrong = m.gone(name, o)
		}
	}
	return "clear", code, wrong
}

// dry asks what would be.
func (m *model) dry(name string) (string, int, string) {
	_, there := m.objects[name]
	o := modelObject{Data: m.randomData()}
	if m.r.IntN(2) == 0 {
		code, body := m.send("POST", "", "dryRun=All", "application/json", o.object(name))
		if there {
			return "dry", code, wantCode(code, 409, body)
		}
		return "dry", code, wantCode(code, 201, body)
	}
	code, body := m.send("DELETE", name, "dryRun=All", "", nil)
	if !there {
		return "dry", code, wantCode(code, 404, body)
	}
	return "dry", code, wantCode(code, 200, body)
}

// pages lists in pages, while others write: all pages are of one revision.
func (m *model) pages() (string, int, string) {
	limit := 1 + m.r.IntN(3)
	got, next, rv, first := map[string]string{}, "", int64(0), map[string]modelObject{}
	for page := 0; ; page++ {
		code, body := m.send("GET", "", fmt.Sprintf("limit=%d&continue=%s", limit, url.QueryEscape(next)), "", nil)
		list := &corev1.ConfigMapList{}
		if err := json.Unmarshal(body, list); err != nil || code != 200 {
			return "pages", 0, fmt.Sprintf("page %d: got %d: %s", page, code, body)
		}
		if page == 0 {
			rv, _ = strconv.ParseInt(list.ResourceVersion, 10, 64)
			first = maps.Clone(m.objects)
		}
		for i := range list.Items {
			got[list.Items[i].Name] = list.Items[i].ResourceVersion
		}
		if list.ResourceVersion != strconv.FormatInt(rv, 10) {
			return "pages", 0, fmt.Sprintf("page %d is of revision %s, the first of %d", page, list.ResourceVersion, rv)
		}
		if rest := len(first) - len(got); (list.RemainingItemCount == nil) != (rest == 0) || rest > 0 && *list.RemainingItemCount != int64(rest) {
			return "pages", 0, fmt.Sprintf("page %d: %v remain, want %d", page, list.RemainingItemCount, rest)
		}
		if next = list.Continue; next == "" {
			break
		}
		for range m.r.IntN(3) {
			if wrong := m.step(); wrong != "" {
				return "pages", 0, wrong
			}
		}
	}
	return "pages", 0, cmp.Diff(versions(first), got)
}

// compare holds the list at a revision, "" for now, against the model.
func (m *model) compare(t *testing.T, rv string) {
	t.Helper()
	want, query := m.objects, ""
	if n, err := strconv.ParseInt(rv, 10, 64); err == nil {
		want, query = m.past[n], "resourceVersionMatch=Exact&resourceVersion="+rv
	}
	code, body := m.send("GET", "", query, "", nil)
	list := &corev1.ConfigMapList{}
	if err := json.Unmarshal(body, list); err != nil || code != 200 {
		t.Fatalf("list at %q: %d %s", rv, code, body)
	}
	got := map[string]modelObject{}
	for i := range list.Items {
		got[list.Items[i].Name] = seen(&list.Items[i])
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("list at %q (-want +got): %s", rv, diff)
	}
}

// seen is an object as the model has it.
func seen(cm *corev1.ConfigMap) modelObject {
	o := modelObject{Data: cm.Data, Owners: map[string]string{}, Label: cm.Labels["l"], RV: cm.ResourceVersion, Finalizer: len(cm.Finalizers) > 0, Deleted: cm.DeletionTimestamp != nil, Tracked: len(cm.ManagedFields) > 0}
	if o.Data == nil {
		o.Data = map[string]string{}
	}
	owners := map[string][]string{}
	for _, e := range cm.ManagedFields {
		var set struct {
			Data map[string]any `json:"f:data"`
		}
		json.Unmarshal(e.FieldsV1.GetRawBytes(), &set)
		for key := range set.Data {
			if key, ok := strings.CutPrefix(key, "f:"); ok {
				owners[key] = append(owners[key], string(e.Operation)+" "+e.Manager)
			}
		}
	}
	for key, list := range owners {
		slices.Sort(list)
		o.Owners[key] = strings.Join(list, ", ")
	}
	return o
}
