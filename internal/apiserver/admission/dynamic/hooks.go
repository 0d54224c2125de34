package dynamic

import (
	"context"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/apiserver/admission"
	"github.com/setpoint-project/setpoint/internal/apiserver/apply"
	"github.com/setpoint-project/setpoint/internal/apiserver/authz"
	"github.com/setpoint-project/setpoint/internal/apiserver/reach"
	"github.com/setpoint-project/setpoint/internal/client"
)

// Config is what the plugins need of the server.
type Config struct {
	// Get and List read from the API server's own memory: namespaces,
	// services, parameters of policies.
	Get  admission.GetFunc
	List admission.ListFunc
	// Reach finds the services of webhooks; nil: by their cluster IPs.
	Reach *reach.Resolver
	// Authorizer answers what expressions ask; nil allows everything.
	Authorizer authz.Authorizer
	// Resource finds the resource of a kind, for the parameters of policies.
	Resource func(apiVersion, kind string) (res client.Resource, namespaced, ok bool)
	// Fields is who merges the objects of a resource, or a view of them that
	// is of another type; for policies that mutate.
	Fields func(gr schema.GroupResource, sub string) *apply.Kind
}

// Hooks are the plugins' common state.
type Hooks struct {
	cfg        Config
	mutating   source[[]*hook]
	validating source[[]*hook]
	policies   source[*policy]
	bindings   source[*binding]

	mutations        source[*mutation]
	mutationBindings source[*attachment]
}

// New makes plugins that admit everything until Open.
func New(cfg Config) *Hooks {
	if cfg.Reach == nil {
		cfg.Reach = &reach.Resolver{Get: cfg.Get}
	}
	h := &Hooks{cfg: cfg}
	h.mutating.compile, h.validating.compile = h.mutatingHooks, h.validatingHooks
	h.policies.compile, h.bindings.compile = newPolicy, newBinding
	h.mutations.compile, h.mutationBindings.compile = newMutation, newMutationBinding
	return h
}

// Open lets the plugins follow their configurations.
func (h *Hooks) Open(view func(client.Resource) client.View) {
	of := func(resource string) client.View {
		return view(admissionregistrationv1.SchemeGroupVersion.WithResource(resource))
	}
	h.mutating.open(of("mutatingwebhookconfigurations"))
	h.validating.open(of("validatingwebhookconfigurations"))
	h.policies.open(of("validatingadmissionpolicies"))
	h.bindings.open(of("validatingadmissionpolicybindings"))
	h.mutations.open(of("mutatingadmissionpolicies"))
	h.mutationBindings.open(of("mutatingadmissionpolicybindings"))
}

// Names of the plugins that keep notes.
const (
	mutationPlugin = "MutatingAdmissionPolicy"
	webhookPlugin  = "MutatingAdmissionWebhook"
)

type (
	mutating   struct{ *Hooks }
	validating struct{ *Hooks }
	policies   struct{ *Hooks }
	mutations  struct{ *Hooks }
)

// Mutating asks the mutating webhooks, one after the other.
func (h *Hooks) Mutating() admission.Plugin { return mutating{h} }

// Validating asks the validating webhooks, all at once.
func (h *Hooks) Validating() admission.Plugin { return validating{h} }

// Policies holds objects against validating admission policies.
func (h *Hooks) Policies() admission.Plugin { return policies{h} }

// Mutations lets mutating admission policies change objects.
func (h *Hooks) Mutations() admission.Plugin { return mutations{h} }

func (mutating) Name() string                                            { return webhookPlugin }
func (mutating) Validate(context.Context, *admission.Request) error      { return nil }
func (m mutating) Admit(ctx context.Context, r *admission.Request) error { return m.mutate(ctx, r) }

func (mutating) Reinvokes() {}

func (mutations) Name() string                                            { return mutationPlugin }
func (mutations) Validate(context.Context, *admission.Request) error      { return nil }
func (m mutations) Admit(ctx context.Context, r *admission.Request) error { return m.rewrite(ctx, r) }
func (mutations) Reinvokes()                                              {}

func (validating) Name() string                                    { return "ValidatingAdmissionWebhook" }
func (validating) Admit(context.Context, *admission.Request) error { return nil }
func (v validating) Validate(ctx context.Context, r *admission.Request) error {
	return v.validate(ctx, r)
}

func (policies) Name() string                                    { return "ValidatingAdmissionPolicy" }
func (policies) Admit(context.Context, *admission.Request) error { return nil }
func (p policies) Validate(ctx context.Context, r *admission.Request) error {
	return p.enforce(ctx, r)
}
