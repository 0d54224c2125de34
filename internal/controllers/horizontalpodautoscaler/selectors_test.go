package horizontalpodautoscaler

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-project/setpoint/loop"
)

func TestRivals(t *testing.T) {
	var s selectors
	key := func(name string) loop.Key { return loop.Key{Namespace: "default", Name: name} }
	for name, by := range map[string]string{
		"web": "app=web", "front": "app=web,tier=front", "some": "app in (web,db)", "any": "tier", "not": "tier!=front", "db": "app=db",
	} {
		parsed, err := labels.Parse(by)
		if err != nil {
			t.Fatal(err)
		}
		s.set(key(name), parsed)
	}
	web, _ := labels.Parse("app=web")
	s.set(loop.Key{Namespace: "other", Name: "web"}, web)
	pods := func(set map[string]string) []*corev1.Pod {
		return []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Labels: set}}}
	}
	s.set(key("gone"), web)
	there := func(k loop.Key) bool { return k.Name != "gone" }
	for _, tc := range []struct {
		of   string
		pods []*corev1.Pod
		want string
	}{
		{"web", nil, "[]"},
		{"web", pods(map[string]string{"app": "web", "tier": "front"}), "[default/any default/front default/some default/web]"},
		{"web", pods(map[string]string{"app": "web"}), "[default/not default/some default/web]"},
		{"not", pods(map[string]string{"app": "cache"}), "[]"},
		{"db", append(pods(map[string]string{"app": "db", "tier": "front"}), pods(map[string]string{"app": "db", "tier": "front"})...), "[default/any default/db default/some]"},
	} {
		if got := fmt.Sprint(s.selecting(key(tc.of), tc.pods, there)); got != tc.want {
			t.Errorf("%s with %v: %s, want %s", tc.of, tc.pods, got, tc.want)
		}
	}
	s.set(key("any"), nil)
	s.forget(key("some"))
	if got := fmt.Sprint(s.selecting(key("db"), pods(map[string]string{"app": "db", "tier": "front"}), there)); got != "[]" {
		t.Errorf("after they went: %s", got)
	}
	if !s.known(key("any")) || s.known(key("some")) {
		t.Error("what was looked at is remembered wrongly")
	}
	for _, name := range []string{"web", "front", "any", "not", "db", "gone"} {
		s.forget(key(name))
	}
	s.forget(loop.Key{Namespace: "other", Name: "web"})
	if len(s.by) != 0 || len(s.of) != 0 {
		t.Errorf("left are %v, %v", s.by, s.of)
	}
}
