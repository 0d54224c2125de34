package cluster

import (
	"context"
	"crypto/x509"
	"maps"
	"net/http"
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/setpoint-project/setpoint/internal/apiserver"
	"github.com/setpoint-project/setpoint/internal/apiserver/admission"
	"github.com/setpoint-project/setpoint/internal/apiserver/admission/dynamic"
	"github.com/setpoint-project/setpoint/internal/apiserver/aggregation"
	"github.com/setpoint-project/setpoint/internal/apiserver/authn"
	"github.com/setpoint-project/setpoint/internal/apiserver/authz"
	"github.com/setpoint-project/setpoint/internal/apiserver/crd"
	"github.com/setpoint-project/setpoint/internal/apiserver/discovery"
	"github.com/setpoint-project/setpoint/internal/apiserver/fairness"
	"github.com/setpoint-project/setpoint/internal/apiserver/health"
	"github.com/setpoint-project/setpoint/internal/apiserver/nodeproxy"
	"github.com/setpoint-project/setpoint/internal/apiserver/openapi"
	"github.com/setpoint-project/setpoint/internal/apiserver/tokens"
	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/all"
	"github.com/setpoint-project/setpoint/internal/pki"
	"github.com/setpoint-project/setpoint/internal/version"
)

// openServer wires the API server: who asks, whether they may, what changes and
// checks what they send, and what is served besides resources.
func (c *controlPlane) openServer() error {
	issuer, key, keys, err := c.signing()
	if err != nil {
		return err
	}
	signer, err := authn.NewSigner(issuer, key)
	if err != nil {
		return err
	}
	audiences := []string{issuer}
	accounts, err := authn.NewServiceAccounts(issuer, audiences, keys, c.get)
	if err != nil {
		return err
	}
	allocator, err := admission.NewServiceAllocator(c.state.ServiceCIDRs, c.get, c.list)
	if err != nil {
		return err
	}
	configured, err := c.opts.admission()
	if err != nil {
		return err
	}
	roles := &authz.Builtin{Nodes: &authz.Nodes{PodsOn: c.podsOn, VolumeOf: c.volumeOf, AttachedTo: c.attachedTo}}
	rbac := &authz.RBAC{View: func(res client.Resource) client.View { return c.self().View(res, client.ViewOptions{}) }}
	authorizer := authz.Union{roles, reporters{}, rbac}
	rules := authz.All{roles, rbac}
	c.hooks = dynamic.New(dynamic.Config{Get: c.get, List: c.list, Reach: c.resolver(), Authorizer: c.authorizer(authorizer), Resource: c.resourceOf, Fields: c.fieldsOf})
	accounts.Used = (&tokens.Uses{Update: c.update}).Note
	bearers := authn.Tokens{&authn.BootstrapTokens{Get: c.get, Audiences: audiences}, accounts}
	cfg := apiserver.Config{
		Store: c.store, Kinds: all.Kinds(), Logger: c.log, Metrics: prometheus.NewRegistry(),
		Authenticators: c.authenticators(bearers),
		Authorizer:     c.authorizer(authorizer),
		Fairness:       fairness.New(fairness.Options{}),
		Admission: c.plugins([]admission.Plugin{
			&admission.NamespaceLifecycle{Get: c.get},
			&admission.LimitRanger{List: c.list},
			&admission.ServiceAccount{Get: c.get},
			&admission.NodeRestriction{Get: c.get, NodeOf: authz.NodeOf},
			admission.TaintNodesByCondition{},
			&admission.PodSecurity{Get: c.get, List: c.list, Config: configured.PodSecurity},
			&admission.Priority{Get: c.get, List: c.list},
			&admission.DefaultTolerationSeconds{},
			&admission.DefaultStorageClass{List: c.list},
			admission.StorageObjectInUseProtection{},
			&admission.PersistentVolumeClaimResize{Get: c.get},
			&admission.RuntimeClass{Get: c.get},
			&admission.Certificates{Authorizer: c.authorizer(authorizer)},
			&admission.DefaultIngressClass{List: c.list},
			&admission.PodTopologyLabels{Get: c.get},
			c.hooks.Mutations(),
			c.hooks.Mutating(),
			allocator,
			&admission.RBAC{Escalation: &authz.Escalation{Authorizer: c.authorizer(authorizer), Rules: rules}, RoleRules: rbac.RoleRules},
			c.hooks.Policies(),
			c.hooks.Validating(),
			&admission.ResourceQuota{List: c.list, Get: c.get, Update: c.update}, // last: it takes what is refused no more
		}),
	}
	if c.requests != nil {
		cfg.RequestLog = c.requests.record
	}
	if cfg.Subresources, err = c.subresources(signer, bearers, audiences, authorizer, rules.RulesFor); err != nil {
		return err
	}
	if cfg.Paths, err = c.paths(cfg.Metrics, signer); err != nil {
		return err
	}
	cfg.Computed = map[string]apiserver.Computed{"componentstatuses": c.components}
	cfg.Extension = func(group, version string) http.Handler { return c.aggregator.Extension(group, version) }
	cfg.Foreign = func() []client.ResourceInfo { return c.aggregator.Foreign() }
	if c.server, err = apiserver.New(cfg); err != nil {
		return err
	}
	c.hooks.Open(func(res client.Resource) client.View { return c.self().View(res, client.ViewOptions{}) })
	if c.aggregator, err = aggregation.New(aggregation.Config{Client: c.self(), Kinds: c.server.Kinds, Reach: c.resolver(), ClientCA: c.authority.CAPEM(), Builtin: c.builtin(c.nodes), Logger: c.log}); err != nil {
		return err
	}
	c.definitions = crd.New(crd.Config{Client: c.self(), Registry: c.server, Reach: c.resolver(), Logger: c.log, Changed: c.aggregator.Sync})
	return c.definitions.Load(context.Background())
}

// subresources are what is no view of an object: tokens, reviews, and the
// streams that go on to a node.
func (c *controlPlane) subresources(signer *authn.Signer, bearers authn.TokenAuthenticator, audiences []string, authorizer authz.Authorizer, rulesFor func(*authz.Attributes) []authz.Rule) (map[string]apiserver.SubresourceHandler, error) {
	kubeletClient, err := pki.NewRotating(c.authority.KubeletClient)
	if err != nil {
		return nil, err
	}
	reviews := &tokens.Reviews{Tokens: bearers, Audiences: audiences}
	access := &tokens.Access{Authorizer: authorizer, RulesFor: rulesFor}
	handlers := map[string]apiserver.SubresourceHandler{
		"serviceaccounts/token":                          (&tokens.Issuer{Signer: signer, Audiences: audiences, Get: c.get}).ServeToken,
		"tokenreviews.authentication.k8s.io":             reviews.ServeToken,
		"selfsubjectreviews.authentication.k8s.io":       reviews.ServeSelf,
		"subjectaccessreviews.authorization.k8s.io":      access.ServeSubject,
		"localsubjectaccessreviews.authorization.k8s.io": access.ServeLocal,
		"selfsubjectaccessreviews.authorization.k8s.io":  access.ServeSelf,
		"selfsubjectrulesreviews.authorization.k8s.io":   access.ServeRules,
	}
	c.nodes = nodeproxy.New(nodeproxy.Config{Get: c.get, List: c.list, KubeletTLS: c.authority.ClientTLS(kubeletClient),
		Admit: c.hooks.Connect(c.coreKind), Local: c.simulatedKubelets(), Dial: c.resolver().Dial})
	for name, h := range c.nodes.Handlers() {
		handlers[name] = h
	}
	return handlers, nil
}

// paths are what the API server serves besides resources.
func (c *controlPlane) paths(registry *prometheus.Registry, signer *authn.Signer) (map[string]http.Handler, error) {
	token, err := c.authority.JoinToken(filepath.Join(c.opts.DataDir, "token"))
	if err != nil {
		return nil, err
	}
	list := func() []*kinds.Kind { return c.server.Kinds() }
	changes := func() uint64 { return c.server.CatalogVersion() + c.aggregator.Version() }
	found := discovery.New(list, changes)
	found.Merge(func() []discovery.Remote { return c.aggregator.Remote() })
	paths := map[string]http.Handler{
		"/api": found, "/api/": found, "/apis": found, "/apis/": found,
		"/version": health.Version(health.Build{Version: version.Setpoint, Commit: version.Revision()}),
		"/metrics": health.Metrics(registry),
		GapsPath:   c.reports, GapsPath + "/": c.reports,
		WhyPath:      http.HandlerFunc(c.serveWhy),
		RangesPath:   jsonHandler(c.ranges()),
		pki.JoinPath: c.authority.JoinHandler(token, func() *x509.Certificate { return c.serving.Pair().Cert }),
	}
	checks := &health.Checks{Logger: c.log}
	checks.Add(health.Check{Name: "watches", Live: true, Test: func(context.Context) error { return c.server.Ready() }})
	if failing, ok := c.store.(interface{ Failed() error }); ok {
		checks.Add(health.Check{Name: "store", Live: true, Test: func(context.Context) error { return failing.Failed() }})
	}
	maps.Copy(paths, checks.Paths())
	maps.Copy(paths, profiles())
	described := openapi.New(version.Kubernetes, list, changes)
	described.Merge(func() []openapi.Remote { return c.aggregator.Described() })
	maps.Copy(paths, described.Paths())
	maps.Copy(paths, tokens.OpenID(signer, "https://"+hostOf(c.state.apiServiceIP())))
	return paths, nil
}
