package certificates

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/kinds/check"
)

const minExpiration = 600

// usages are all uses of a key that a request may name.
var usages = []certificatesv1.KeyUsage{
	certificatesv1.UsageAny, certificatesv1.UsageCRLSign, certificatesv1.UsageCertSign, certificatesv1.UsageClientAuth,
	certificatesv1.UsageCodeSigning, certificatesv1.UsageContentCommitment, certificatesv1.UsageDataEncipherment, certificatesv1.UsageDecipherOnly,
	certificatesv1.UsageDigitalSignature, certificatesv1.UsageEmailProtection, certificatesv1.UsageEncipherOnly, certificatesv1.UsageIPsecEndSystem,
	certificatesv1.UsageIPsecTunnel, certificatesv1.UsageIPsecUser, certificatesv1.UsageKeyAgreement, certificatesv1.UsageKeyEncipherment,
	certificatesv1.UsageMicrosoftSGC, certificatesv1.UsageNetscapeSGC, certificatesv1.UsageOCSPSigning, certificatesv1.UsageSMIME,
	certificatesv1.UsageServerAuth, certificatesv1.UsageSigning, certificatesv1.UsageTimestamping,
}

func validateRequest(r *certificatesv1.CertificateSigningRequest) field.ErrorList {
	var c check.Errors
	spec, path := &r.Spec, field.NewPath("spec")
	if err := readable(spec.Request); err != nil {
		c.Invalid(path, "request", spec.Request, err.Error())
	}
	if len(spec.Usages) == 0 {
		c.Required(path, "usages", "")
	}
	var seen check.Unique[certificatesv1.KeyUsage]
	for i, usage := range spec.Usages {
		p := path.Child("usages").Index(i)
		check.Among(&c, p, "", usage, usages...)
		if seen.Seen(usage) {
			c.Duplicate(p, "", usage)
		}
	}
	if spec.SignerName == certificatesv1.SchemeGroupVersion.Group+"/legacy-unknown" || spec.SignerName == "kubernetes.io/legacy-unknown" {
		c.Invalid(path, "signerName", spec.SignerName, "the legacy signerName is not allowed via this API version")
	} else {
		validateSignerName(&c, path.Child("signerName"), spec.SignerName)
	}
	if n := spec.ExpirationSeconds; n != nil && *n < minExpiration {
		c.Invalid(path, "expirationSeconds", *n, "may not specify a duration less than 600 seconds (10 minutes)")
	}
	return c.List
}

// readable tells why text is no request that its sender signed.
func readable(text []byte) error {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return errors.New("PEM block type must be CERTIFICATE REQUEST")
	}
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return err
	}
	return csr.CheckSignature()
}

// unset are the conditions that end a request; they are set once.
var unset = []certificatesv1.RequestConditionType{certificatesv1.CertificateApproved, certificatesv1.CertificateDenied, certificatesv1.CertificateFailed}

// validateConditions checks new conditions. settable are those that this
// writer may set; what ended a request stays with any writer.
func validateConditions(c *check.Errors, now, was []certificatesv1.CertificateSigningRequestCondition, settable ...certificatesv1.RequestConditionType) {
	path := field.NewPath("status", "conditions")
	var seen check.Unique[certificatesv1.RequestConditionType]
	approved, denied := false, false
	for i, condition := range now {
		p := path.Index(i)
		approved = approved || condition.Type == certificatesv1.CertificateApproved
		denied = denied || condition.Type == certificatesv1.CertificateDenied
		switch {
		case condition.Status == "":
			c.Required(p, "status", "")
		case slices.Contains(unset, condition.Type):
			check.Among(c, p, "status", condition.Status, corev1.ConditionTrue)
		default:
			check.Among(c, p, "status", condition.Status, corev1.ConditionFalse, corev1.ConditionTrue, corev1.ConditionUnknown)
		}
		if condition.Type == "" {
			c.Required(p, "type", "")
		}
		if seen.Seen(condition.Type) {
			c.Duplicate(p, "type", condition.Type)
		}
		if approved && denied && (condition.Type == certificatesv1.CertificateApproved || condition.Type == certificatesv1.CertificateDenied) {
			c.Invalid(p, "type", condition.Type, "Approved and Denied conditions are mutually exclusive")
		}
	}
	for _, t := range unset {
		before, after := find(was, t), find(now, t)
		switch {
		case before != nil && after == nil:
			c.Forbidden(path, "", fmt.Sprintf("updates may not remove a condition of type %q", t))
		case before == nil && after != nil && !slices.Contains(settable, t):
			c.Forbidden(path, "", fmt.Sprintf("updates may not add a condition of type %q", t))
		case before != nil && !slices.Contains(settable, t) && !apiequality.Semantic.DeepEqual(before, after):
			c.Forbidden(path, "", fmt.Sprintf("updates may not modify a condition of type %q", t))
		}
	}
}

func find(list []certificatesv1.CertificateSigningRequestCondition, t certificatesv1.RequestConditionType) *certificatesv1.CertificateSigningRequestCondition {
	for i := range list {
		if list[i].Type == t {
			return &list[i]
		}
	}
	return nil
}

func validateApproval(r, old *certificatesv1.CertificateSigningRequest) field.ErrorList {
	var c check.Errors
	validateConditions(&c, r.Status.Conditions, old.Status.Conditions, certificatesv1.CertificateApproved, certificatesv1.CertificateDenied)
	return c.List
}

func validateIssue(r, old *certificatesv1.CertificateSigningRequest) field.ErrorList {
	var c check.Errors
	validateConditions(&c, r.Status.Conditions, old.Status.Conditions, certificatesv1.CertificateFailed)
	path := field.NewPath("status")
	if now, was := r.Status.Certificate, old.Status.Certificate; !bytes.Equal(now, was) {
		if len(was) > 0 {
			c.Forbidden(path, "certificate", "updates may not modify existing certificate content")
		} else if err := certificates(now); err != nil {
			c.Invalid(path, "certificate", "<certificate data>", err.Error())
		}
	}
	return c.List
}

// certificates tells why text is no list of certificates.
func certificates(text []byte) error {
	count := 0
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return errors.New("only CERTIFICATE PEM blocks are allowed, found \"" + block.Type + "\"")
		}
		if len(block.Headers) > 0 {
			return errors.New("no PEM block headers are permitted")
		}
		parsed, err := x509.ParseCertificates(block.Bytes)
		if err != nil {
			return err
		}
		if count += len(parsed); len(parsed) == 0 {
			return errors.New("found CERTIFICATE PEM block containing 0 certificates")
		}
	}
	if count == 0 {
		return errors.New("must contain at least one CERTIFICATE PEM block")
	}
	return nil
}

// stampConditions dates the conditions that their writer did not: when they
// were written, and when they last turned.
func stampConditions(now, was []certificatesv1.CertificateSigningRequestCondition) {
	t := metav1.Now()
	for i := range now {
		c := &now[i]
		if c.LastUpdateTime.IsZero() {
			c.LastUpdateTime = t
		}
		if !c.LastTransitionTime.IsZero() {
			continue
		}
		c.LastTransitionTime = t
		if old := find(was, c.Type); old != nil && old.Status == c.Status && !old.LastTransitionTime.IsZero() {
			c.LastTransitionTime = old.LastTransitionTime
		}
	}
}
