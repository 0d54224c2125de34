package aggregation

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/setpoint-project/setpoint/internal/apiserver/discovery"
	"github.com/setpoint-project/setpoint/internal/apiserver/reach"
	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/loop"
)

// APIServices is the resource of the APIServices.
var APIServices = apiregistrationv1.SchemeGroupVersion.WithResource("apiservices")

// How often a server is asked whether it still answers.
const (
	wellEvery = 30 * time.Second
	illEvery  = 2 * time.Second
)

// Config is what an Aggregator is made of.
type Config struct {
	Client   client.Interface     // the API server's own
	Kinds    func() []*kinds.Kind // what the API server serves itself
	Reach    *reach.Resolver      // finds services; nil: by their cluster IPs
	ClientCA []byte               // who signs the certificates of clients, in PEM
	// Builtin serve versions that no kind of the API server is of, as long as
	// no APIService leads elsewhere. They have no APIService of their own:
	// whoever brings his own server for one finds the name free.
	Builtin map[schema.GroupVersion]Builtin
	Logger  *slog.Logger // nil: no log
}

// Builtin serves a version of a group in this process.
type Builtin interface {
	http.Handler
	Resources() []metav1.APIResource // what discovery shows
}

// Aggregator is the loop over the APIServices.
type Aggregator struct {
	cfg     Config
	id      *identity
	loop    *loop.Loop
	view    client.View
	routes  atomic.Pointer[map[schema.GroupVersion]*route]
	version atomic.Uint64 // counts the changes of what is served behind services

	mu    sync.Mutex
	local map[string]schema.GroupVersion // guarded by mu; by name, what we serve
}

// New makes an Aggregator.
func New(cfg Config) (*Aggregator, error) {
	id, err := newIdentity()
	if err != nil {
		return nil, fmt.Errorf("make the certificate of the front proxy: %w", err)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Reach == nil {
		cfg.Reach = &reach.Resolver{Get: cfg.Client.Get}
	}
	a := &Aggregator{cfg: cfg, id: id}
	a.routes.Store(&map[schema.GroupVersion]*route{})
	a.loop = loop.New(loop.Options{Name: "apiservice", Reconcile: a.reconcile, Workers: 2, MaxBackoff: 10 * time.Second, Logger: cfg.Logger})
	return a, nil
}

// Loop is the loop, for those who show its gaps.
func (a *Aggregator) Loop() *loop.Loop { return a.loop }

// Extension is who serves a version of a group in the API server's stead; nil
// when nobody does.
func (a *Aggregator) Extension(group, version string) http.Handler {
	gv := schema.GroupVersion{Group: group, Version: version}
	if r := (*a.routes.Load())[gv]; r != nil {
		return r
	}
	if b := a.cfg.Builtin[gv]; b != nil {
		return b
	}
	return nil
}

// Sync looks again at what the API server itself serves.
func (a *Aggregator) Sync() {
	local := map[string]schema.GroupVersion{}
	for _, k := range a.cfg.Kinds() {
		for i := range k.Versions {
			if gv := k.Versions[i].GroupVersion; !k.Versions[i].Unserved {
				local[gv.Version+"."+gv.Group] = gv
			}
		}
	}
	a.mu.Lock()
	old := a.local
	a.local = local
	a.mu.Unlock()
	for name := range local {
		if _, ok := old[name]; !ok {
			a.loop.Look(loop.Key{Name: name})
		}
	}
	for name := range old {
		if _, ok := local[name]; !ok {
			a.loop.Look(loop.Key{Name: name})
		}
	}
}

func (a *Aggregator) serves(name string) (schema.GroupVersion, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	gv, ok := a.local[name]
	return gv, ok
}

// Run follows the APIServices until ctx ends.
func (a *Aggregator) Run(ctx context.Context) error {
	a.view = a.cfg.Client.View(APIServices, client.ViewOptions{})
	defer a.view.Handle(func(old, now client.Object) {
		for _, obj := range []client.Object{now, old} {
			if obj != nil {
				a.loop.Look(loop.Key{Name: obj.GetName()})
				return
			}
		}
	})()
	if err := a.view.WaitSynced(ctx); err != nil {
		a.loop.Stop()
		return err
	}
	a.loop.Look(configKey)
	a.Sync()
	return a.loop.Run(ctx)
}

// configKey stands for the ConfigMap among the APIServices: no APIService has
// its name.
var configKey = loop.Key{Namespace: configNamespace, Name: configName}

func (a *Aggregator) reconcile(ctx context.Context, key loop.Key) (loop.Outcome, error) {
	if key == configKey {
		err := tellConfig(ctx, a.cfg.Client, a.id.config(a.cfg.ClientCA))
		if apierrors.IsNotFound(err) {
			return loop.WaitFor("Namespace "+configNamespace, "the namespace is not there yet").In(time.Second), nil
		}
		return loop.Done(), err
	}
	s := client.In[*apiregistrationv1.APIService](a.view, "", key.Name)
	gv, ours := a.serves(key.Name)
	switch {
	case s == nil && ours:
		a.drop(gv)
		return a.written(ctx, "registered")(a.cfg.Client.Create(ctx, APIServices, localService(gv)))
	case s == nil:
		version, group, _ := strings.Cut(key.Name, ".")
		a.drop(schema.GroupVersion{Group: group, Version: version})
		return loop.Done(), nil
	case s.Spec.Service == nil && s.Labels[automanaged] != "" && !ours:
		rv := s.ResourceVersion
		err := a.cfg.Client.Delete(ctx, APIServices, "", s.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &s.UID, ResourceVersion: &rv}})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return loop.Outcome{}, err
		}
		return loop.Acted("took away what is no longer served"), nil
	case s.Spec.Service == nil:
		a.drop(groupVersion(s))
		return a.tell(ctx, s, apiregistrationv1.ConditionTrue, "Local", "Local APIServices are always available", loop.Done())
	}
	return a.remote(ctx, s)
}

// written waits until the view shows what was written.
func (a *Aggregator) written(ctx context.Context, step string) func(client.Object, error) (loop.Outcome, error) {
	return func(obj client.Object, err error) (loop.Outcome, error) {
		switch {
		case apierrors.IsAlreadyExists(err), apierrors.IsConflict(err), apierrors.IsNotFound(err):
			return loop.Acted("met another write"), nil
		case err != nil:
			return loop.Outcome{}, err
		}
		if err := a.view.WaitFor(ctx, obj.GetResourceVersion()); err != nil {
			return loop.Outcome{}, err
		}
		return loop.Acted("%s", step), nil
	}
}

// tell sets the condition; when it is that already, the outcome is o.
func (a *Aggregator) tell(ctx context.Context, s *apiregistrationv1.APIService, status apiregistrationv1.ConditionStatus, reason, message string, o loop.Outcome) (loop.Outcome, error) {
	want := apiregistrationv1.APIServiceCondition{Type: apiregistrationv1.Available, Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.Now()}
	next := s.DeepCopy()
	for i := range next.Status.Conditions {
		c := &next.Status.Conditions[i]
		if c.Type != want.Type {
			continue
		}
		if c.Status == want.Status {
			want.LastTransitionTime = c.LastTransitionTime
		}
		if reflect.DeepEqual(*c, want) {
			return o, nil
		}
		*c = want
		return a.written(ctx, "told of a change")(a.cfg.Client.Update(ctx, APIServices, next, "status"))
	}
	next.Status.Conditions = append(next.Status.Conditions, want)
	return a.written(ctx, "told of the first look")(a.cfg.Client.Update(ctx, APIServices, next, "status"))
}

func groupVersion(s *apiregistrationv1.APIService) schema.GroupVersion {
	return groupVersionOf(&s.Spec)
}

func groupVersionOf(s *apiregistrationv1.APIServiceSpec) schema.GroupVersion {
	return schema.GroupVersion{Group: s.Group, Version: s.Version}
}

// remote looks after a version that a service serves.
func (a *Aggregator) remote(ctx context.Context, s *apiregistrationv1.APIService) (loop.Outcome, error) {
	gv := groupVersion(s)
	had := (*a.routes.Load())[gv]
	r := had
	if r == nil || !reflect.DeepEqual(r.spec, s.Spec) {
		var err error
		if r, err = newRoute(s.Spec, a.id, a.cfg.Reach); err != nil {
			a.drop(gv)
			return a.tell(ctx, s, apiregistrationv1.ConditionFalse, "InvalidCABundle", err.Error(), loop.WaitFor("", "%v", err))
		}
	}
	now := *r
	reason := "FailedDiscoveryCheck"
	service, port := s.Spec.Service, int32(443)
	if service.Port != nil {
		port = *service.Port
	}
	if _, now.available = a.cfg.Reach.Address(ctx, service.Namespace, service.Name, port); errors.Is(now.available, reach.ErrNoEndpoints) {
		reason = "MissingEndpoints"
	} else if apierrors.IsNotFound(now.available) {
		reason, now.available = "ServiceNotFound", fmt.Errorf("service/%s in %q is not present", service.Name, service.Namespace)
	} else if now.available != nil {
		reason = "ServiceAccessError"
	} else if now.resources, now.available = now.ask(ctx); now.available != nil {
		now.resources = r.resources
	} else {
		now.described = now.describe(ctx)
	}
	now.proxy = r.proxy
	if had == nil || (had.available == nil) != (now.available == nil) || had.spec.Service != now.spec.Service || !reflect.DeepEqual(had.resources, now.resources) || !sameText(had.described, now.described) {
		a.put(gv, &now)
	}
	if now.available == nil {
		return a.tell(ctx, s, apiregistrationv1.ConditionTrue, "Passed", "all checks passed", loop.DoneUntil(wellEvery))
	}
	on := "Service " + s.Spec.Service.Namespace + "/" + s.Spec.Service.Name
	return a.tell(ctx, s, apiregistrationv1.ConditionFalse, reason, now.available.Error(), loop.WaitFor(on, "%v", now.available).In(illEvery))
}

func (a *Aggregator) put(gv schema.GroupVersion, r *route) {
	a.change(func(m map[schema.GroupVersion]*route) { m[gv] = r })
}

func (a *Aggregator) drop(gv schema.GroupVersion) {
	if (*a.routes.Load())[gv] != nil {
		a.change(func(m map[schema.GroupVersion]*route) { delete(m, gv) })
	}
}

func (a *Aggregator) change(f func(map[schema.GroupVersion]*route)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	next := maps.Clone(*a.routes.Load())
	f(next)
	a.routes.Store(&next)
	a.version.Add(1)
}

// Version counts the changes of what Remote returns.
func (a *Aggregator) Version() uint64 { return a.version.Load() }

// Remote lists what is served behind services, for discovery.
func (a *Aggregator) Remote() []discovery.Remote {
	var out []discovery.Remote
	routes := *a.routes.Load()
	for gv, b := range a.cfg.Builtin {
		if routes[gv] == nil {
			out = append(out, discovery.Remote{GroupVersion: gv, Resources: &metav1.APIResourceList{APIResources: b.Resources()}, Current: true})
		}
	}
	for gv, r := range routes {
		out = append(out, discovery.Remote{GroupVersion: gv, Resources: r.resources, Current: r.available == nil})
	}
	slices.SortFunc(out, func(x, y discovery.Remote) int {
		return strings.Compare(x.GroupVersion.String(), y.GroupVersion.String())
	})
	return out
}
