package apiregistration

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

func TestValidate(t *testing.T) {
	good := func() *apiService {
		s := &apiService{
			ObjectMeta: metav1.ObjectMeta{Name: "v1.example.com"},
			Spec: apiregistrationv1.APIServiceSpec{
				Group: "example.com", Version: "v1", GroupPriorityMinimum: 100, VersionPriority: 10, CABundle: []byte("x"),
				Service: &apiregistrationv1.ServiceReference{Namespace: "a", Name: "b"},
			},
		}
		setDefaults(s)
		return s
	}
	for name, c := range map[string]struct {
		change func(*apiService)
		want   []string
	}{
		"good":         {func(*apiService) {}, nil},
		"name":         {func(s *apiService) { s.Name = "v2.example.com" }, []string{"metadata.name"}},
		"no group":     {func(s *apiService) { s.Spec.Group, s.Spec.Version, s.Name = "", "v2", "v2." }, []string{"spec.group"}},
		"priorities":   {func(s *apiService) { s.Spec.GroupPriorityMinimum, s.Spec.VersionPriority = 0, 2000 }, []string{"spec.groupPriorityMinimum", "spec.versionPriority"}},
		"local":        {func(s *apiService) { s.Spec.Service = nil }, []string{"spec.caBundle"}},
		"both":         {func(s *apiService) { s.Spec.InsecureSkipTLSVerify = true }, []string{"spec.insecureSkipTLSVerify"}},
		"half service": {func(s *apiService) { s.Spec.Service.Namespace = "" }, []string{"spec.service.namespace"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := good()
			c.change(s)
			var got []string
			for _, e := range validate(s) {
				got = append(got, e.Field)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
