// Package webhook is what the API server asks of PostgresClusters before it
// takes them: it fills in what a user left out, refuses what cannot be, and
// converts between versions (package v1alpha1 says how). Rules that need one
// object only, or it and its predecessor, are the schema's, in config/crd.yaml.
package webhook

import (
	"context"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	databasev1 "github.com/setpoint-project/setpoint/examples/postgres-operator/api/v1"
)

const (
	// DefaultVersion is what who names none gets.
	DefaultVersion = 17
	// KeepAnnotation, when "true", protects a cluster from being deleted.
	KeepAnnotation = "database.example.com/keep"
)

// SetupWithManager serves the webhooks. They are v1's: who writes v1alpha1 has
// the API server convert it first. Conversion is served as well, because the
// scheme knows a hub and what is convertible to it.
func SetupWithManager(m ctrl.Manager) error {
	return ctrl.NewWebhookManagedBy(m, &databasev1.PostgresCluster{}).WithDefaulter(defaults{}).WithValidator(rules{}).Complete()
}

type defaults struct{}

func (defaults) Default(_ context.Context, c *databasev1.PostgresCluster) error {
	if c.Spec.Version == 0 {
		c.Spec.Version = DefaultVersion
	}
	if c.Spec.Parameters == nil {
		c.Spec.Parameters = map[string]string{}
	}
	if _, ok := c.Spec.Parameters["max_connections"]; !ok {
		c.Spec.Parameters["max_connections"] = "100"
	}
	return nil
}

type rules struct{}

// own are the parameters that the operator sets.
var own = []string{"data_directory", "listen_addresses", "port"}

func (rules) ValidateCreate(_ context.Context, c *databasev1.PostgresCluster) (admission.Warnings, error) {
	return check(c)
}

func (rules) ValidateUpdate(_ context.Context, _, c *databasev1.PostgresCluster) (admission.Warnings, error) {
	if !c.DeletionTimestamp.IsZero() {
		return nil, nil // nobody may be kept from taking a finalizer off
	}
	return check(c)
}

func (rules) ValidateDelete(_ context.Context, c *databasev1.PostgresCluster) (admission.Warnings, error) {
	if c.Annotations[KeepAnnotation] == "true" {
		return nil, apierrors.NewForbidden(databasev1.GroupVersion.WithResource("postgresclusters").GroupResource(), c.Name,
			fmt.Errorf("annotation %s protects it", KeepAnnotation))
	}
	return nil, nil
}

func check(c *databasev1.PostgresCluster) (warnings admission.Warnings, err error) {
	if n := c.Spec.Replicas; n%2 == 0 {
		warnings = append(warnings, fmt.Sprintf("spec.replicas: %d servers survive the loss of no more of them than %d do", n, n-1))
	}
	var wrong field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(c.Spec.Parameters)) {
		if slices.Contains(own, name) {
			wrong = append(wrong, field.Forbidden(field.NewPath("spec", "parameters").Key(name), "the operator sets it"))
		}
	}
	if len(wrong) > 0 {
		return warnings, apierrors.NewInvalid(databasev1.GroupVersion.WithKind("PostgresCluster").GroupKind(), c.Name, wrong)
	}
	return warnings, nil
}
