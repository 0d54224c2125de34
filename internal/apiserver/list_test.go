package apiserver_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
)

const cmPath = "/api/v1/namespaces/default/configmaps"

func names(list *corev1.ConfigMapList) []string {
	var out []string
	for i := range list.Items {
		out = append(out, list.Items[i].Name)
	}
	return out
}

// TestPages reads a list in pages while it changes: what the pages hold is
// what was there at the first.
func TestPages(t *testing.T) {
	h := apitest.New(t, apitest.Options{HTTP: true})
	w := newWeb(t, h)
	var want []string
	for i := range 7 {
		name := fmt.Sprintf("cm-%d", i)
		want = append(want, name)
		w.want(201, "POST", cmPath, toJSON(t, configMap(name)))
	}
	var got []string
	next := ""
	for page := 0; ; page++ {
		list := decode[corev1.ConfigMapList](t, w.want(200, "GET", cmPath+"?limit=3&continue="+next, ""))
		got = append(got, names(list)...)
		if page == 0 {
			if list.RemainingItemCount == nil || *list.RemainingItemCount != 4 {
				t.Errorf("remainingItemCount is %v, want 4", list.RemainingItemCount)
			}
			w.want(200, "DELETE", cmPath+"/cm-5", "")
			w.want(201, "POST", cmPath, toJSON(t, configMap("cm-55")))
		}
		if next = list.Continue; next == "" {
			if list.RemainingItemCount != nil {
				t.Errorf("the last page has remainingItemCount %d", *list.RemainingItemCount)
			}
			break
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestPagesWithSelector(t *testing.T) {
	h := apitest.New(t, apitest.Options{HTTP: true})
	w := newWeb(t, h)
	var want []string
	for i := range 20 {
		cm := configMap(fmt.Sprintf("cm-%02d", i))
		if i%3 == 0 {
			cm.Labels = map[string]string{"third": "yes"}
			want = append(want, cm.Name)
		}
		w.want(201, "POST", cmPath, toJSON(t, cm))
	}
	var got []string
	next := ""
	for {
		list := decode[corev1.ConfigMapList](t, w.want(200, "GET", cmPath+"?labelSelector=third%3Dyes&limit=2&continue="+next, ""))
		if len(list.Items) > 2 {
			t.Fatalf("a page of %d, want at most 2", len(list.Items))
		}
		if list.RemainingItemCount != nil {
			t.Error("remainingItemCount with a selector")
		}
		got = append(got, names(list)...)
		if next = list.Continue; next == "" {
			break
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestExpiredPages(t *testing.T) {
	h := apitest.New(t, apitest.Options{HTTP: true})
	w := newWeb(t, h)
	for i := range 4 {
		w.want(201, "POST", cmPath, toJSON(t, configMap(fmt.Sprintf("cm-%d", i))))
	}
	list := decode[corev1.ConfigMapList](t, w.want(200, "GET", cmPath+"?limit=2", ""))
	old := list.ResourceVersion
	w.want(200, "DELETE", cmPath+"/cm-2", "")
	if err := h.Store.Compact(context.Background(), h.Store.Revision()); err != nil {
		t.Fatal(err)
	}
	st := decode[metav1.Status](t, w.want(410, "GET", cmPath+"?limit=2&continue="+list.Continue, ""))
	if st.Reason != metav1.StatusReasonExpired || st.Continue == "" {
		t.Fatalf("got %+v", st)
	}
	list = decode[corev1.ConfigMapList](t, w.want(200, "GET", cmPath+"?limit=2&continue="+st.Continue, ""))
	if diff := cmp.Diff([]string{"cm-3"}, names(list)); diff != "" {
		t.Error(diff)
	}
	st = decode[metav1.Status](t, w.want(410, "GET", cmPath+"?resourceVersionMatch=Exact&resourceVersion="+old, ""))
	if want := "The resourceVersion for the provided list is too old."; st.Message != want {
		t.Errorf("got %q, want %q", st.Message, want)
	}
}

func TestResourceVersions(t *testing.T) {
	h := apitest.New(t, apitest.Options{})
	c := h.Client("tester")
	ctx := context.Background()
	first, err := c.Create(ctx, configMaps, configMap("a"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Create(ctx, configMaps, configMap("b")); err != nil {
		t.Fatal(err)
	}
	elsewhere := configMap("a")
	elsewhere.Namespace = "kube-system"
	create(t, c, elsewhere)
	for _, tc := range []struct {
		opts metav1.ListOptions
		want int
	}{
		{metav1.ListOptions{}, 2},
		{metav1.ListOptions{ResourceVersion: "0"}, 2},
		{metav1.ListOptions{ResourceVersion: first.GetResourceVersion()}, 2},
		{metav1.ListOptions{ResourceVersion: first.GetResourceVersion(), ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan}, 2},
		{metav1.ListOptions{ResourceVersion: first.GetResourceVersion(), ResourceVersionMatch: metav1.ResourceVersionMatchExact}, 1},
		{metav1.ListOptions{ResourceVersion: first.GetResourceVersion(), Limit: 10}, 1},
		{metav1.ListOptions{FieldSelector: "metadata.name=a"}, 1},
		{metav1.ListOptions{FieldSelector: "metadata.name!=a"}, 1},
		{metav1.ListOptions{FieldSelector: "metadata.name=a,metadata.namespace=default"}, 1},
		{metav1.ListOptions{FieldSelector: "metadata.namespace=other"}, 0},
		{metav1.ListOptions{FieldSelector: "metadata.name=a", Limit: 1}, 1},
		{metav1.ListOptions{FieldSelector: "metadata.name=a", LabelSelector: "no=no"}, 0},
	} {
		objs, rv, err := c.List(ctx, configMaps, "default", tc.opts)
		if err != nil || len(objs) != tc.want || rv == "" {
			t.Errorf("%+v: got %d objects at %q and %v, want %d", tc.opts, len(objs), rv, err, tc.want)
		}
	}
}

func TestPresentations(t *testing.T) {
	h := apitest.New(t, apitest.Options{HTTP: true})
	w := newWeb(t, h)
	cm := configMap("a", "k", "v")
	cm.Labels = map[string]string{"l": "m"}
	w.want(201, "POST", cmPath, toJSON(t, cm))
	table := decode[metav1.Table](t, w.want(200, "GET", cmPath, "", "Accept: application/json;as=Table;v=v1;g=meta.k8s.io,application/json"))
	if len(table.Rows) != 1 || table.Rows[0].Cells[0] != "a" || table.ColumnDefinitions[0].Name != "Name" {
		t.Errorf("got the table %+v", table)
	}
	if got := string(table.Rows[0].Object.Raw); !strings.Contains(got, `"kind":"PartialObjectMetadata"`) || strings.Contains(got, `"data"`) {
		t.Errorf("the row has the object %s", got)
	}
	table = decode[metav1.Table](t, w.want(200, "GET", cmPath+"/a?includeObject=Object", "", "Accept: application/json;as=Table;v=v1;g=meta.k8s.io"))
	if got := string(table.Rows[0].Object.Raw); !strings.Contains(got, `"data":{"k":"v"}`) {
		t.Errorf("the row has the object %s", got)
	}
	partial := w.want(200, "GET", cmPath, "", "Accept: application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io")
	if !strings.Contains(partial, `"kind":"PartialObjectMetadataList"`) || strings.Contains(partial, `"data"`) || !strings.Contains(partial, `"labels":{"l":"m"}`) {
		t.Errorf("got %s", partial)
	}
	yaml := w.want(200, "GET", cmPath+"/a", "", "Accept: application/yaml")
	if !strings.Contains(yaml, "data:\n  k: v\n") {
		t.Errorf("got %s", yaml)
	}
	w.want(201, "POST", cmPath, "metadata:\n  name: from-yaml\ndata:\n  k: v\n", "Content-Type: application/yaml")
}

// TestProtobuf speaks protobuf in both directions.
func TestProtobuf(t *testing.T) {
	h := apitest.New(t, apitest.Options{HTTP: true})
	for _, ct := range []string{"application/vnd.kubernetes.protobuf", "application/json"} {
		c := newRESTClient(t, h, ct)
		ctx := context.Background()
		cm := configMap("by-"+strings.ReplaceAll(ct[len("application/"):], ".", "-"), "k", "v")
		var got corev1.ConfigMap
		if err := c.Post().Namespace("default").Resource("configmaps").Body(cm).Do(ctx).Into(&got); err != nil {
			t.Fatal(err)
		}
		if got.Data["k"] != "v" || got.ResourceVersion == "" {
			t.Errorf("created %+v", got)
		}
		var list corev1.ConfigMapList
		if err := c.Get().Namespace("default").Resource("configmaps").Do(ctx).Into(&list); err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(names(&list), cm.Name) || list.ResourceVersion == "" || list.Items[0].ResourceVersion == "" {
			t.Errorf("listed %+v", list)
		}
		err := c.Get().Namespace("default").Resource("configmaps").Name("missing").Do(ctx).Error()
		if !apierrors.IsNotFound(err) {
			t.Errorf("got %v, want not found", err)
		}
		if err := c.Delete().Namespace("default").Resource("configmaps").Name(cm.Name).Body(metav1.NewPreconditionDeleteOptions(string(got.UID))).Do(ctx).Error(); err != nil {
			t.Error(err)
		}
	}
}
