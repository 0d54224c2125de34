package admissionregistration

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// defaults are what the two sorts of webhooks have in common.
type defaults struct {
	failurePolicy     **admissionregistrationv1.FailurePolicyType
	matchPolicy       **admissionregistrationv1.MatchPolicyType
	namespaceSelector **metav1.LabelSelector
	objectSelector    **metav1.LabelSelector
	timeoutSeconds    **int32
	client            *admissionregistrationv1.WebhookClientConfig
	rules             []admissionregistrationv1.RuleWithOperations
}

func defaultWebhook(w defaults) {
	if *w.failurePolicy == nil {
		*w.failurePolicy = new(admissionregistrationv1.Fail)
	}
	if *w.matchPolicy == nil {
		*w.matchPolicy = new(admissionregistrationv1.Equivalent)
	}
	if *w.namespaceSelector == nil {
		*w.namespaceSelector = &metav1.LabelSelector{}
	}
	if *w.objectSelector == nil {
		*w.objectSelector = &metav1.LabelSelector{}
	}
	if *w.timeoutSeconds == nil {
		*w.timeoutSeconds = new(int32(10))
	}
	if s := w.client.Service; s != nil && s.Port == nil {
		s.Port = new(int32(443))
	}
	for i := range w.rules {
		if w.rules[i].Scope == nil {
			w.rules[i].Scope = new(admissionregistrationv1.AllScopes)
		}
	}
}
