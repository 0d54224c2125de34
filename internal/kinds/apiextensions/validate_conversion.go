package apiextensions

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/kinds/check"
)

func validateConversion(d, was *definition) (errs field.ErrorList) {
	path, c := specPath.Child("conversion"), d.Spec.Conversion
	if c == nil {
		return nil
	}
	if c.Strategy != apiextensionsv1.NoneConverter && d.Spec.PreserveUnknownFields {
		errs = append(errs, field.Invalid(path.Child("strategy"), c.Strategy, "must be None if spec.preserveUnknownFields is true"))
	}
	errs = append(errs, oneOf(path.Child("strategy"), string(c.Strategy), string(apiextensionsv1.NoneConverter), string(apiextensionsv1.WebhookConverter))...)
	// Upstream names the fields as its internal version has them.
	client, reviews := path.Child("webhookClientConfig"), path.Child("conversionReviewVersions")
	if c.Strategy != apiextensionsv1.WebhookConverter {
		if c.Webhook != nil && c.Webhook.ClientConfig != nil {
			errs = append(errs, field.Forbidden(client, "should not be set when strategy is not set to Webhook"))
		}
		if c.Webhook != nil && len(c.Webhook.ConversionReviewVersions) > 0 {
			errs = append(errs, field.Forbidden(reviews, "should not be set when strategy is not set to Webhook"))
		}
		return errs
	}
	if c.Webhook == nil || c.Webhook.ClientConfig == nil {
		errs = append(errs, field.Required(client, "required when strategy is set to Webhook"))
	} else {
		errs = append(errs, validateClient(c.Webhook.ClientConfig, client, caMustBeValid(was))...)
	}
	var versions []string
	if c.Webhook != nil {
		versions = c.Webhook.ConversionReviewVersions
	}
	return append(errs, validateReviews(versions, reviews, reviewsMustBeKnown(was))...)
}

// reviewsMustBeKnown: a definition that named no version we speak may go on
// like that.
func reviewsMustBeKnown(was *definition) bool {
	if was == nil || was.Spec.Conversion == nil || was.Spec.Conversion.Webhook == nil {
		return true
	}
	had := was.Spec.Conversion.Webhook.ConversionReviewVersions
	return len(had) == 0 || slices.ContainsFunc(had, func(v string) bool { return slices.Contains(reviewVersions, v) })
}

// caMustBeValid: tools write definitions before they know the certificates.
func caMustBeValid(was *definition) bool {
	if was == nil || !apihelpers.IsCRDConditionTrue(was, apiextensionsv1.Established) {
		return false
	}
	c := was.Spec.Conversion
	if c == nil || c.Webhook == nil || c.Webhook.ClientConfig == nil || len(c.Webhook.ClientConfig.CABundle) == 0 {
		return true
	}
	return validBundle(c.Webhook.ClientConfig.CABundle) == nil
}

func validateReviews(versions []string, path *field.Path, known bool) (errs field.ErrorList) {
	if len(versions) == 0 {
		return field.ErrorList{field.Required(path, "")}
	}
	seen, spoken := map[string]bool{}, false
	for i, v := range versions {
		if seen[v] {
			errs = append(errs, field.Invalid(path.Index(i), v, "duplicate version"))
			continue
		}
		seen[v] = true
		for _, wrong := range utilvalidation.IsDNS1035Label(v) {
			errs = append(errs, field.Invalid(path.Index(i), v, wrong))
		}
		spoken = spoken || slices.Contains(reviewVersions, v)
	}
	if known && !spoken {
		errs = append(errs, field.Invalid(path, versions, "must include at least one of "+strings.Join(reviewVersions, ", ")))
	}
	return errs
}

func validateClient(c *apiextensionsv1.WebhookClientConfig, path *field.Path, bundle bool) (errs field.ErrorList) {
	switch {
	case (c.URL == nil) == (c.Service == nil):
		errs = append(errs, field.Required(path, "exactly one of url or service is required"))
	case c.URL != nil:
		errs = append(errs, check.WebhookURL(path.Child("url"), *c.URL)...)
	default:
		errs = append(errs, check.WebhookService(path.Child("service"), c.Service.Namespace, c.Service.Name, c.Service.Path, c.Service.Port)...)
	}
	if len(c.CABundle) > 0 && bundle {
		if err := validBundle(c.CABundle); err != nil {
			errs = append(errs, field.Invalid(path.Child("caBundle"), c.CABundle, err.Error()))
		}
	}
	return errs
}

// validBundle wants certificates in PEM.
func validBundle(data []byte) error {
	found := false
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" || len(block.Headers) != 0 {
			continue
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return fmt.Errorf("unable to load root certificates: %w", err)
		}
		found = true
	}
	if !found {
		return fmt.Errorf("unable to load root certificates: unable to parse bytes as PEM block")
	}
	return nil
}
