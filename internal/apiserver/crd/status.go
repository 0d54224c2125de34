package crd

import (
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

func conditionTrue(crd *apiextensionsv1.CustomResourceDefinition, t apiextensionsv1.CustomResourceDefinitionConditionType) bool {
	return apihelpers.IsCRDConditionTrue(crd, t)
}

// settle makes the status of a definition what it ought to be, next to
// others of its group. Changes crd.
func settle(crd *apiextensionsv1.CustomResourceDefinition, others taken) {
	names, accepted := accept(crd, others)
	crd.Status.AcceptedNames = names
	set(crd, accepted)
	switch {
	case conditionTrue(crd, apiextensionsv1.Established): // for good
	case accepted.Status == apiextensionsv1.ConditionTrue:
		set(crd, apiextensionsv1.CustomResourceDefinitionCondition{
			Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue,
			Reason: "InitialNamesAccepted", Message: "the initial names have been accepted",
		})
	default:
		set(crd, apiextensionsv1.CustomResourceDefinitionCondition{
			Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionFalse,
			Reason: "NotAccepted", Message: "not all names are accepted",
		})
	}
	if cond := approval(crd); cond != nil {
		set(crd, *cond)
	}
}

// set sets a condition, and leaves the time of one that is that already.
func set(crd *apiextensionsv1.CustomResourceDefinition, cond apiextensionsv1.CustomResourceDefinitionCondition) {
	if had := apihelpers.FindCRDCondition(crd, cond.Type); had != nil &&
		had.Status == cond.Status && had.Reason == cond.Reason && had.Message == cond.Message {
		return
	}
	apihelpers.SetCRDCondition(crd, cond)
}

// approval says, of groups that are Kubernetes' own, whether their API was
// approved.
func approval(crd *apiextensionsv1.CustomResourceDefinition) *apiextensionsv1.CustomResourceDefinitionCondition {
	if !apihelpers.IsProtectedCommunityGroup(crd.Spec.Group) {
		return nil
	}
	cond := &apiextensionsv1.CustomResourceDefinitionCondition{
		Type: apiextensionsv1.KubernetesAPIApprovalPolicyConformant, Status: apiextensionsv1.ConditionFalse,
	}
	state, message := apihelpers.GetAPIApprovalState(crd.Annotations)
	cond.Message = message
	switch state {
	case apihelpers.APIApproved:
		cond.Status, cond.Reason = apiextensionsv1.ConditionTrue, "ApprovedAnnotation"
	case apihelpers.APIApprovalBypassed:
		cond.Reason = "UnapprovedAnnotation"
	case apihelpers.APIApprovalMissing:
		cond.Reason = "MissingAnnotation"
	default:
		cond.Reason = "InvalidAnnotation"
	}
	return cond
}

// terminating is the condition of a definition whose objects are being deleted.
func terminating(status apiextensionsv1.ConditionStatus, reason, message string) apiextensionsv1.CustomResourceDefinitionCondition {
	return apiextensionsv1.CustomResourceDefinitionCondition{Type: apiextensionsv1.Terminating, Status: status, Reason: reason, Message: message}
}
