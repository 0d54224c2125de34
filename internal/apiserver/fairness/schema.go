package fairness

import (
	"cmp"
	"slices"
	"strings"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"

	"github.com/setpoint-project/setpoint/internal/apiserver/authn"
)

// Request is what decides about a request's level and flow.
type Request struct {
	User      *authn.User
	Verb      string
	Group     string
	Resource  string // with the subresource: "pods/status"
	Namespace string
}

// Matched says which objects of the API a request was sorted by; "" for what is
// built in.
type Matched struct {
	FlowSchemaUID, PriorityLevelUID string
}

// plan is what requests are sorted by.
type plan struct {
	schemas []schema // the first that matches wins; the last matches all
	levels  map[string]*level
}

type schema struct {
	name, uid   string
	levelUID    string
	precedence  int32
	exempt      bool
	level       *level
	tally       *tally
	distinguish flowcontrolv1.FlowDistinguisherMethodType
	rules       []flowcontrolv1.PolicyRulesWithSubjects
}

// Set makes the objects of the API the plan, over what is built in.
func (l *Limiter) Set(schemas []*flowcontrolv1.FlowSchema, levels []*flowcontrolv1.PriorityLevelConfiguration) {
	specs := map[string]*flowcontrolv1.PriorityLevelConfiguration{}
	for _, plc := range slices.Concat(builtinLevels(), levels) {
		specs[plc.Name] = plc
	}
	shares := int32(0)
	for _, plc := range specs {
		shares += sharesOf(plc)
	}
	next := &plan{levels: map[string]*level{}}
	old := l.plan.Load()
	l.mu.Lock()
	for name, plc := range specs {
		lv := (*level)(nil)
		if old != nil {
			lv = old.levels[name] // with its seats and queues
		}
		if lv == nil {
			lv = &level{name: name, flows: map[string]*flow{}}
		}
		lv.exempt = plc.Spec.Type == flowcontrolv1.PriorityLevelEnablementExempt
		lv.reject = plc.Spec.Limited != nil && plc.Spec.Limited.LimitResponse.Type == flowcontrolv1.LimitResponseTypeReject
		lv.nominal = (l.opts.Seats*int(sharesOf(plc)) + int(shares) - 1) / max(int(shares), 1)
		next.levels[name] = lv
	}
	l.nextLocked()
	l.mu.Unlock()

	byName := map[string]*flowcontrolv1.FlowSchema{}
	for _, fs := range slices.Concat(builtinSchemas(), schemas) {
		byName[fs.Name] = fs
	}
	for name, fs := range byName {
		plc := specs[fs.Spec.PriorityLevelConfiguration.Name]
		if plc == nil {
			continue // as Kubernetes: it matches nothing until its level is there
		}
		s := schema{
			name: name, uid: string(fs.UID), precedence: fs.Spec.MatchingPrecedence, rules: fs.Spec.Rules,
			level: next.levels[plc.Name], levelUID: string(plc.UID), exempt: plc.Spec.Type == flowcontrolv1.PriorityLevelEnablementExempt,
		}
		if d := fs.Spec.DistinguisherMethod; d != nil {
			s.distinguish = d.Type
		}
		l.mu.Lock()
		s.tally = l.tallyLocked(name, plc.Name)
		l.mu.Unlock()
		next.schemas = append(next.schemas, s)
	}
	slices.SortFunc(next.schemas, func(a, b schema) int {
		return cmp.Or(cmp.Compare(a.precedence, b.precedence), cmp.Compare(a.name, b.name))
	})
	l.plan.Store(next)
}

// sharesOf is how much of the seats is a level's own.
func sharesOf(plc *flowcontrolv1.PriorityLevelConfiguration) int32 {
	if plc.Spec.Limited == nil {
		return 0
	}
	if n := plc.Spec.Limited.NominalConcurrencyShares; n != nil {
		return *n
	}
	return 30
}

func (p *plan) match(r *Request) *schema {
	for i := range p.schemas {
		for j := range p.schemas[i].rules {
			if matches(&p.schemas[i].rules[j], r) {
				return &p.schemas[i]
			}
		}
	}
	return &p.schemas[len(p.schemas)-1]
}

func matches(rule *flowcontrolv1.PolicyRulesWithSubjects, r *Request) bool {
	for i := range rule.Subjects {
		if !isSubject(&rule.Subjects[i], r.User) {
			continue
		}
		for j := range rule.ResourceRules {
			if covers(&rule.ResourceRules[j], r) {
				return true
			}
		}
		return false
	}
	return false
}

const anything = "*"

func isSubject(s *flowcontrolv1.Subject, u *authn.User) bool {
	switch {
	case s.User != nil:
		return s.User.Name == anything || s.User.Name == u.Name
	case s.Group != nil:
		return s.Group.Name == anything || u.InGroup(s.Group.Name)
	case s.ServiceAccount != nil:
		rest, ok := strings.CutPrefix(u.Name, "system:serviceaccount:")
		if !ok {
			return false
		}
		namespace, name, _ := strings.Cut(rest, ":")
		return namespace == s.ServiceAccount.Namespace && (s.ServiceAccount.Name == anything || s.ServiceAccount.Name == name)
	}
	return false
}

func covers(rule *flowcontrolv1.ResourcePolicyRule, r *Request) bool {
	has := func(list []string, one string) bool {
		return slices.Contains(list, one) || slices.Contains(list, anything)
	}
	if !has(rule.Verbs, r.Verb) || !has(rule.APIGroups, r.Group) || !has(rule.Resources, r.Resource) {
		return false
	}
	if r.Namespace == "" {
		return rule.ClusterScope
	}
	return has(rule.Namespaces, r.Namespace)
}

// flow is what requests of one schema are told apart by.
func (s *schema) flow(r *Request) string {
	switch s.distinguish {
	case flowcontrolv1.FlowDistinguisherMethodByUserType:
		return s.name + "/" + r.User.Name
	case flowcontrolv1.FlowDistinguisherMethodByNamespaceType:
		return s.name + "/" + r.Namespace
	}
	return s.name
}
