package fairness

import (
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The levels and schemas that Kubernetes suggests, under their names, with
// their shares and precedences.
// https://kubernetes.io/docs/concepts/cluster-administration/flow-control/#defaults

func builtinLevels() []*flowcontrolv1.PriorityLevelConfiguration {
	level := func(name string, shares int32) *flowcontrolv1.PriorityLevelConfiguration {
		plc := &flowcontrolv1.PriorityLevelConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}}
		plc.Spec.Type = flowcontrolv1.PriorityLevelEnablementLimited
		plc.Spec.Limited = &flowcontrolv1.LimitedPriorityLevelConfiguration{NominalConcurrencyShares: &shares}
		return plc
	}
	exempt := &flowcontrolv1.PriorityLevelConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "exempt"}}
	exempt.Spec.Type = flowcontrolv1.PriorityLevelEnablementExempt
	// Kubernetes refuses at once what catch-all has no seat for. Anonymous
	// readers of a public namespace, say, are better off waiting in line.
	return []*flowcontrolv1.PriorityLevelConfiguration{exempt,
		level("leader-election", 10), level("node-high", 40), level("system", 30), level("workload-high", 40),
		level("workload-low", 100), level("global-default", 20), level("catch-all", 5)}
}

func builtinSchemas() []*flowcontrolv1.FlowSchema {
	all := rule([]string{anything}, []string{anything}, anything)
	leases := rule([]string{"get", "create", "update"}, []string{"coordination.k8s.io"}, "leases")
	return []*flowcontrolv1.FlowSchema{
		schemaOf("exempt", "exempt", 1, "", groups("system:masters"), all),
		schemaOf("system-leader-election", "leader-election", 100, byUser,
			users("system:kube-controller-manager", "system:kube-scheduler"), leases),
		schemaOf("system-node-high", "node-high", 400, byUser, groups("system:nodes"),
			rule([]string{anything}, []string{""}, "nodes", "nodes/status"), rule([]string{anything}, []string{"coordination.k8s.io"}, "leases")),
		schemaOf("system-nodes", "system", 500, byUser, groups("system:nodes"), all),
		schemaOf("kube-controller-manager", "workload-high", 800, byNamespace, users("system:kube-controller-manager"), all),
		schemaOf("kube-scheduler", "workload-high", 800, byNamespace, users("system:kube-scheduler"), all),
		schemaOf("kube-system-service-accounts", "workload-high", 900, byNamespace, serviceAccounts("kube-system"), all),
		schemaOf("service-accounts", "workload-low", 9000, byUser, groups("system:serviceaccounts"), all),
		schemaOf("global-default", "global-default", 9900, byUser, groups("system:authenticated", "system:unauthenticated"), all),
		schemaOf("catch-all", "catch-all", 10000, byUser, groups(anything), all),
	}
}

const (
	byUser      = flowcontrolv1.FlowDistinguisherMethodByUserType
	byNamespace = flowcontrolv1.FlowDistinguisherMethodByNamespaceType
)

func schemaOf(name, level string, precedence int32, by flowcontrolv1.FlowDistinguisherMethodType, who []flowcontrolv1.Subject, rules ...flowcontrolv1.ResourcePolicyRule) *flowcontrolv1.FlowSchema {
	fs := &flowcontrolv1.FlowSchema{ObjectMeta: metav1.ObjectMeta{Name: name}}
	fs.Spec.PriorityLevelConfiguration.Name = level
	fs.Spec.MatchingPrecedence = precedence
	if by != "" {
		fs.Spec.DistinguisherMethod = &flowcontrolv1.FlowDistinguisherMethod{Type: by}
	}
	fs.Spec.Rules = []flowcontrolv1.PolicyRulesWithSubjects{{Subjects: who, ResourceRules: rules}}
	return fs
}

func rule(verbs, apiGroups []string, resources ...string) flowcontrolv1.ResourcePolicyRule {
	return flowcontrolv1.ResourcePolicyRule{Verbs: verbs, APIGroups: apiGroups, Resources: resources, Namespaces: []string{anything}, ClusterScope: true}
}

func groups(names ...string) (out []flowcontrolv1.Subject) {
	for _, name := range names {
		out = append(out, flowcontrolv1.Subject{Kind: flowcontrolv1.SubjectKindGroup, Group: &flowcontrolv1.GroupSubject{Name: name}})
	}
	return out
}

func users(names ...string) (out []flowcontrolv1.Subject) {
	for _, name := range names {
		out = append(out, flowcontrolv1.Subject{Kind: flowcontrolv1.SubjectKindUser, User: &flowcontrolv1.UserSubject{Name: name}})
	}
	return out
}

func serviceAccounts(namespace string) []flowcontrolv1.Subject {
	return []flowcontrolv1.Subject{{Kind: flowcontrolv1.SubjectKindServiceAccount,
		ServiceAccount: &flowcontrolv1.ServiceAccountSubject{Namespace: namespace, Name: anything}}}
}
