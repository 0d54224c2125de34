// Package metricsserver serves metrics.k8s.io/v1beta1: what pods and nodes use,
// for `kubectl top` and the HorizontalPodAutoscaler.
// https://kubernetes.io/docs/tasks/debug/debug-cluster/resource-metrics-pipeline/
//
//	GET .../nodes --> scrape the kubelets of those nodes --> two samples of each,
//	GET .../pods  --> scrape those where the pods run    --> usage between them
//
// It works only while somebody asks: a node is scraped when an answer needs it
// and the last one is too old (sampler.go). Who asks for the first time in a
// while waits for a second sample, a second after the first; nobody else pays.
//
// To clients it is what upstream's metrics-server is, with one difference:
// there is no APIService for it, so that a user who installs a metrics server
// of his own finds the name free, and his serves from then on.
//
// Concurrency: a Server may be used from many goroutines. Failure: a node that
// does not answer, and its pods, are left out; so are pods of which a container
// has not been measured twice.
package metricsserver

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"github.com/setpoint-project/setpoint/internal/client"
)

// GroupVersion is what a Server serves.
var GroupVersion = metricsv1beta1.SchemeGroupVersion

// Config is what a Server is made of.
type Config struct {
	Nodes, Pods client.View
	// Scrape asks the kubelet of a node for its /metrics/resource.
	Scrape func(ctx context.Context, node *corev1.Node) ([]byte, error)
	Logger *slog.Logger // nil: no log
}

// Server serves the group. Requests are authorized before.
type Server struct {
	cfg     Config
	sampler *sampler
}

// New makes a Server.
func New(cfg Config) *Server {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Server{cfg: cfg, sampler: newSampler(cfg.Scrape, cfg.Logger)}
}

// Resources is what discovery shows.
func (s *Server) Resources() []metav1.APIResource {
	verbs := metav1.Verbs{"get", "list"}
	return []metav1.APIResource{
		{Name: "nodes", Kind: "NodeMetrics", Verbs: verbs},
		{Name: "pods", Kind: "PodMetrics", Namespaced: true, Verbs: verbs},
	}
}

// target is what a request asks for.
type target struct {
	resource, namespace, name string
	namespaced                bool
}

// parse takes the path behind the version apart.
func parse(path string) (t target, ok bool) {
	_, path, ok = strings.Cut(path, "/"+GroupVersion.Version+"/")
	if !ok {
		return t, false
	}
	parts := strings.Split(strings.TrimSuffix(path, "/"), "/")
	if parts[0] == "namespaces" && len(parts) > 2 {
		t.namespace, t.namespaced, parts = parts[1], true, parts[2:]
	}
	switch len(parts) {
	case 2:
		t.name = parts[1]
	case 1:
	default:
		return t, false
	}
	t.resource = parts[0]
	switch t.resource {
	case "pods":
		return t, t.namespaced || t.name == ""
	case "nodes":
		return t, !t.namespaced
	}
	return t, false
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	obj, err := s.serve(r)
	if err != nil {
		fail(w, err)
		return
	}
	if err := write(w, r, obj); err != nil {
		fail(w, err)
	}
}

func (s *Server) serve(r *http.Request) (runtime.Object, error) {
	t, ok := parse(r.URL.Path)
	if !ok {
		return nil, &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusNotFound,
			Reason: metav1.StatusReasonNotFound, Message: "the server could not find the requested resource", Details: &metav1.StatusDetails{}}}
	}
	group := schema.GroupResource{Group: GroupVersion.Group, Resource: t.resource}
	q := r.URL.Query()
	switch watched := q.Get("watch"); {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		return nil, apierrors.NewMethodNotSupported(group, strings.ToLower(r.Method))
	case watched == "true" || watched == "1":
		return nil, apierrors.NewMethodNotSupported(group, "watch")
	}
	if t.name != "" {
		return s.one(r.Context(), t)
	}
	by, err := labels.Parse(q.Get("labelSelector"))
	if err != nil {
		return nil, apierrors.NewBadRequest("unable to parse requirement: " + err.Error())
	}
	where, err := fields.ParseAndTransformSelector(q.Get("fieldSelector"), func(field, value string) (string, string, error) {
		return runtime.DefaultMetaV1FieldSelectorConversion(field, value)
	})
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	selects := func(obj client.Object) bool {
		return by.Matches(labels.Set(obj.GetLabels())) &&
			where.Matches(fields.Set{"metadata.name": obj.GetName(), "metadata.namespace": obj.GetNamespace()})
	}
	if t.resource == "nodes" {
		list := &metricsv1beta1.NodeMetricsList{TypeMeta: kind("NodeMetricsList"), Items: []metricsv1beta1.NodeMetrics{}}
		nodes := slices.DeleteFunc(client.Listed[*corev1.Node](s.cfg.Nodes, ""), func(n *corev1.Node) bool { return !selects(n) })
		slices.SortFunc(nodes, func(a, b *corev1.Node) int { return strings.Compare(a.Name, b.Name) })
		list.Items = append(list.Items, s.nodes(r.Context(), nodes)...)
		return list, r.Context().Err()
	}
	list := &metricsv1beta1.PodMetricsList{TypeMeta: kind("PodMetricsList"), Items: []metricsv1beta1.PodMetrics{}}
	pods := slices.DeleteFunc(client.Listed[*corev1.Pod](s.cfg.Pods, t.namespace), func(p *corev1.Pod) bool { return !selects(p) })
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name) })
	list.Items = append(list.Items, s.pods(r.Context(), pods)...)
	return list, r.Context().Err()
}

func kind(name string) metav1.TypeMeta {
	return metav1.TypeMeta{Kind: name, APIVersion: GroupVersion.String()}
}

// one serves a single object. The names in a refusal are upstream's.
func (s *Server) one(ctx context.Context, t target) (runtime.Object, error) {
	if t.resource == "nodes" {
		if n := client.In[*corev1.Node](s.cfg.Nodes, "", t.name); n != nil {
			if found := s.nodes(ctx, []*corev1.Node{n}); len(found) == 1 {
				found[0].TypeMeta = kind("NodeMetrics")
				return &found[0], nil
			}
		}
		return nil, apierrors.NewNotFound(schema.GroupResource{Group: GroupVersion.Group, Resource: "nodemetrics"}, t.name)
	}
	if p := client.In[*corev1.Pod](s.cfg.Pods, t.namespace, t.name); p != nil {
		if found := s.pods(ctx, []*corev1.Pod{p}); len(found) == 1 {
			found[0].TypeMeta = kind("PodMetrics")
			return &found[0], nil
		}
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Group: GroupVersion.Group, Resource: "podmetrics"}, t.namespace+"/"+t.name)
}
