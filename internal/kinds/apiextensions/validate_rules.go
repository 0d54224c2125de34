package apiextensions

import (
	"fmt"
	"math"
	"math/bits"
	"sort"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

// Limits of what rules may cost by estimate, as upstream has them.
// https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#resource-use-by-validation-functions
const (
	ruleLimit   = 10_000_000
	schemaLimit = 100_000_000
)

// unbounded is a count without limit, or a cost beyond all limits.
const unbounded = math.MaxUint64

func multiply(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	if hi != 0 {
		return unbounded
	}
	return lo
}

// elements is how often what is below a schema can be there for each time that
// it is there itself.
func elements(s *apiextensions.JSONSchemaProps) uint64 {
	limit := func(n *int64) uint64 {
		if n == nil {
			return unbounded
		}
		return uint64(max(0, *n))
	}
	switch {
	case s.Type == "array":
		return limit(s.MaxItems)
	case s.Type == "object" && s.AdditionalProperties != nil:
		return limit(s.MaxProperties)
	}
	return 1
}

// costs add up what the rules of a schema cost.
type costs struct {
	total uint64
	most  []cost // those that matter, dearest first
}

type cost struct {
	path *field.Path
	cost uint64
}

func (c *costs) add(path *field.Path, n uint64) {
	if c.total > unbounded-n {
		c.total = unbounded
	} else {
		c.total += n
	}
	if n < schemaLimit/100 {
		return
	}
	c.most = append(c.most, cost{path, n})
	sort.SliceStable(c.most, func(i, j int) bool { return c.most[i].cost > c.most[j].cost })
	c.most = c.most[:min(4, len(c.most))]
}

func (c *costs) check(path *field.Path, errs *field.ErrorList) {
	if c.total <= schemaLimit {
		return
	}
	for _, one := range c.most {
		*errs = append(*errs, field.Forbidden(one.path, "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"))
	}
	*errs = append(*errs, field.Forbidden(path, exceeds("x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema", c.total, schemaLimit)))
}

func exceeds(what string, n, limit uint64) string {
	by := fmt.Sprintf("%.1fx", float64(n)/float64(limit))
	switch f := float64(n) / float64(limit); {
	case f > 100:
		by = "more than 100x"
	case f < 1.5:
		by = fmt.Sprintf("%fx", f)
	}
	return what + " exceeds budget by factor of " + by + " (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
}

// compile checks what the rules of one schema say.
func (w *walk) compile(s *apiextensions.JSONSchemaProps, path *field.Path, at place, root bool) {
	rules := path.Child("x-kubernetes-validations")
	st, err := schema.NewStructural(s)
	if err != nil {
		w.ruleErrs = append(w.ruleErrs, field.InternalError(rules, err))
		return
	}
	declared := model.SchemaDeclType(st, root || s.XEmbeddedResource)
	if declared == nil {
		w.ruleErrs = append(w.ruleErrs, field.InternalError(rules, fmt.Errorf("the types of the schema cannot be declared to CEL")))
		return
	}
	env := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
	results, err := cel.Compile(st, declared, celconfig.PerCallLimit, env, cel.NewExpressionsEnvLoader())
	if err != nil {
		w.ruleErrs = append(w.ruleErrs, field.InternalError(rules, err))
		return
	}
	for i := range results {
		w.result(&results[i], &s.XValidations[i], rules.Index(i), at)
	}
}

// result is what compiling one rule came to.
func (w *walk) result(r *cel.CompilationResult, rule *apiextensions.ValidationRule, path *field.Path, at place) {
	tell := func(e *field.Error) { w.ruleErrs = append(w.ruleErrs, e) }
	often := at.count
	if often == unbounded {
		often = r.MaxCardinality
	}
	n := multiply(r.MaxCost, often)
	if n > ruleLimit {
		tell(field.Forbidden(path.Child("rule"), exceeds("estimated rule cost", n, ruleLimit)))
	}
	w.costs.add(path.Child("rule"), n)
	switch {
	case r.Error == nil:
	case r.Error.Type == apiservercel.ErrorTypeRequired:
		tell(field.Required(path.Child("rule"), r.Error.Detail))
	default:
		tell(field.Invalid(path.Child("rule"), *rule, r.Error.Detail))
	}
	switch {
	case r.MessageExpressionError != nil:
		tell(field.Invalid(path.Child("messageExpression"), *rule, r.MessageExpressionError.Detail))
	case r.MessageExpression != nil:
		if r.MessageExpressionMaxCost > ruleLimit {
			tell(field.Forbidden(path.Child("messageExpression"), exceeds("estimated messageExpression cost", r.MessageExpressionMaxCost, ruleLimit)))
		}
		w.costs.add(path.Child("messageExpression"), r.MessageExpressionMaxCost)
	}
	switch {
	case r.UsesOldSelf && at.unrelated != nil:
		tell(field.Invalid(path.Child("rule"), rule.Rule, fmt.Sprintf("oldSelf cannot be used on the uncorrelatable portion of the schema within %v", at.unrelated)))
	case !r.UsesOldSelf && rule.OptionalOldSelf != nil:
		tell(field.Invalid(path.Child("optionalOldSelf"), *rule.OptionalOldSelf, "may not be set if oldSelf is not used in rule"))
	}
}

// leadsSomewhere tells whether a rule's field path names a field. A schema
// that is not structural is told of elsewhere.
func leadsSomewhere(s *apiextensions.JSONSchemaProps, path string) bool {
	st, err := schema.NewStructural(s)
	if err != nil {
		return true
	}
	_, _, err = cel.ValidFieldPath(path, st)
	return err == nil
}
