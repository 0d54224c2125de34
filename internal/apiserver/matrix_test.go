package apiserver_test

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
	"github.com/setpoint-project/setpoint/internal/client"
)

// TestListMatrix holds combinations of resourceVersion, resourceVersionMatch,
// limit, continue and sendInitialEvents against what is documented at
// https://kubernetes.io/docs/reference/using-api/api-concepts/#semantics-for-get-and-list
// and against the words of upstream's refusals.
func TestListMatrix(t *testing.T) {
	h := apitest.New(t, apitest.Options{HTTP: true})
	w, c := newWeb(t, h), h.Client("t")
	first := create(t, c, configMap("a")).GetResourceVersion()
	create(t, c, configMap("b"))
	last := create(t, c, configMap("c")).GetResourceVersion()
	page := decode[corev1.ConfigMapList](t, w.want(200, "GET", cmPath+"?limit=1", ""))
	token := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	const forbidden = `ListOptions.meta.k8s.io \"\" is invalid: `
	for _, tc := range []struct {
		query string // "k=v k=v", values are escaped
		code  int
		want  string // names of the objects, or part of the message
	}{
		{"", 200, "a b c"},
		{"resourceVersion=0", 200, "a b c"},
		{"resourceVersion=" + first, 200, "a b c"},
		{"resourceVersion=" + first + " resourceVersionMatch=NotOlderThan", 200, "a b c"},
		{"resourceVersion=0 resourceVersionMatch=NotOlderThan", 200, "a b c"},
		{"resourceVersion=" + first + " resourceVersionMatch=Exact", 200, "a"},
		{"resourceVersion=" + first + " limit=5", 200, "a"},
		{"resourceVersion=" + first + " limit=5 resourceVersionMatch=NotOlderThan", 200, "a b c"},
		{"resourceVersion=" + last + " resourceVersionMatch=Exact limit=2", 200, "a b +1"},
		{"resourceVersion=0 limit=2", 200, "a b +1"},
		{"limit=2", 200, "a b +1"},
		{"limit=2 labelSelector=x!=y", 200, "a b +?"},
		{"limit=2 fieldSelector=metadata.name!=a", 200, "b c"},
		{"limit=0", 200, "a b c"},
		{"limit=-1", 200, "a b c"},
		{"continue=" + page.Continue, 200, "b c"},
		{"limit=1 continue=" + page.Continue, 200, "b +1"},
		{"resourceVersion=0 continue=" + page.Continue, 200, "b c"},
		{"continue=" + token(`{"v":"meta.k8s.io/v1","rv":-1,"start":"a"}`), 200, "b c"},

		{"limit=many", 400, `strconv.ParseInt: parsing \"many\": invalid syntax`},
		{"resourceVersion=abc", 400, `invalid resource version: resourceVersion: Invalid value: \"abc\": strconv.ParseUint: parsing \"abc\": invalid syntax`},
		{"resourceVersion=-1", 400, `invalid resource version: `},
		{"resourceVersion=" + first + " continue=" + page.Continue, 400, `specifying resource version is not allowed when using continue`},
		{"continue=!", 400, `invalid continue token: continue key is not valid: illegal base64 data at input byte 0`},
		{"continue=" + token(`{"v":"meta.k8s.io/v2","rv":1,"start":"a"}`), 400, `invalid continue token: continue key is not valid: server does not recognize this encoded version meta.k8s.io/v2`},
		{"continue=" + token(`{"v":"meta.k8s.io/v1","rv":0,"start":"a"}`), 400, `incorrect encoded start resourceVersion (version meta.k8s.io/v1)`},
		{"continue=" + token(`{"v":"meta.k8s.io/v1","rv":1,"start":""}`), 400, `encoded start key empty (version meta.k8s.io/v1)`},
		{"continue=" + token(`{"v":"meta.k8s.io/v1","rv":5,"start":"../secrets/x"}`), 400, `continue key is not valid: ../secrets/x`},
		{"resourceVersionMatch=Exact", 422, forbidden + `resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided`},
		{"resourceVersion=0 resourceVersionMatch=Exact", 422, forbidden + `resourceVersionMatch: Forbidden: resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"`},
		{"resourceVersion=1 resourceVersionMatch=Newest", 422, forbidden + `resourceVersionMatch: Unsupported value: \"Newest\"`},
		{"resourceVersion=0 resourceVersionMatch=NotOlderThan continue=" + page.Continue, 422, `resourceVersionMatch is forbidden when continue is provided`},
		{"sendInitialEvents=true", 422, forbidden + `sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list`},
		{"resourceVersion=1000000 timeout=1ms", 504, `Timeout`},

		{"watch=1 sendInitialEvents=true", 422, forbidden + `resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan`},
		{"watch=1 sendInitialEvents=true resourceVersionMatch=Exact", 422, `sendInitialEvents requires setting resourceVersionMatch to NotOlderThan`},
		{"watch=1 resourceVersionMatch=NotOlderThan", 422, forbidden + `resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided`},
		{"watch=1 sendInitialEvents=true resourceVersionMatch=NotOlderThan continue=x", 422, `resourceVersionMatch is forbidden when continue is provided`},
		{"watch=1 resourceVersion=abc", 400, `resourceVersion: Invalid value: \"abc\"`},
		{"watch=1 labelSelector=a=b=c", 400, `found '=', expected: ',' or 'end of string'`},
		{"watch=1 fieldSelector=spec.x=y", 400, `is not a known field selector`},
	} {
		q := url.Values{}
		for pair := range strings.FieldsSeq(tc.query) {
			k, v, _ := strings.Cut(pair, "=")
			q.Set(k, v)
		}
		resp, body := w.do("GET", cmPath+"?"+q.Encode(), "")
		got := body
		if resp.StatusCode == 200 {
			list := decode[corev1.ConfigMapList](t, body)
			got = strings.Join(names(list), " ") + left(list)
		}
		if resp.StatusCode != tc.code || got != tc.want && (tc.code == 200 || !strings.Contains(got, tc.want)) {
			t.Errorf("%s: got %d %s, want %d %s", tc.query, resp.StatusCode, got, tc.code, tc.want)
		}
	}
}

// left tells how much a page leaves for the next.
func left(list *corev1.ConfigMapList) string {
	switch {
	case list.Continue == "":
		return ""
	case list.RemainingItemCount == nil:
		return " +?"
	}
	return fmt.Sprint(" +", *list.RemainingItemCount)
}

// TestTooLargeResourceVersion: a revision that has not come is told so that
// clients know to start over.
func TestTooLargeResourceVersion(t *testing.T) {
	inBubble(t, func(t *testing.T, h *apitest.Harness, c client.Interface) {
		_, _, err := c.List(t.Context(), configMaps, "default", metav1.ListOptions{ResourceVersion: "1000000"})
		status, ok := err.(apierrors.APIStatus)
		if !ok {
			t.Fatalf("got %v", err)
		}
		st := status.Status()
		want := fmt.Sprint("Timeout: Too large resource version: 1000000, current: ", h.Store.Revision())
		if st.Code != 504 || st.Message != want || !apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) || st.Details.RetryAfterSeconds != 1 {
			t.Errorf("got %+v, want %q", st, want)
		}
	})
}
