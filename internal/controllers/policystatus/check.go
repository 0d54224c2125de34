package policystatus

import (
	"fmt"
	"slices"
	"strings"

	celgo "github.com/google/cel-go/cel"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"
	"k8s.io/apiserver/pkg/cel/openapi"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// mostKinds bounds the kinds that a policy is checked against.
const mostKinds = 10

// typed is a kind that a policy is checked against.
type typed struct {
	kind   schema.GroupVersionKind
	schema *spec.Schema
}

// check tells what of a policy's expressions does not fit the kinds that it
// looks at. params is the schema of its parameters, nil when that is not known.
func check(p *admissionregistrationv1.ValidatingAdmissionPolicy, kinds []typed, params *spec.Schema) (warnings []admissionregistrationv1.ExpressionWarning) {
	var compilers []*compiler
	for i := range kinds {
		compilers = append(compilers, newCompiler(p, &kinds[i], params))
	}
	look := func(path *field.Path, text string) {
		warning := ""
		for _, c := range compilers {
			if wrong := c.wrong(text); wrong != "" {
				warning += fmt.Sprintf("%v: %s\n", c.kind, wrong)
			}
		}
		if warning != "" {
			warnings = append(warnings, admissionregistrationv1.ExpressionWarning{FieldRef: path.String(), Warning: warning})
		}
	}
	path := field.NewPath("spec", "validations")
	for i, v := range p.Spec.Validations {
		look(path.Index(i).Child("expression"), v.Expression)
		if v.MessageExpression != "" {
			look(path.Index(i).Child("messageExpression"), v.MessageExpression)
		}
	}
	return warnings
}

// compiler compiles a policy's expressions for objects of one kind.
type compiler struct {
	kind     schema.GroupVersionKind
	composed *cel.CompositedCompiler
	broken   error // there is no environment for the kind
}

func newCompiler(p *admissionregistrationv1.ValidatingAdmissionPolicy, k *typed, params *spec.Schema) *compiler {
	c := &compiler{kind: k.kind}
	env, err := environmentFor(declared(k.schema, "Object"), p.Spec.ParamKind != nil, declared(params, "Params"))
	if err == nil {
		c.composed, err = cel.NewCompositedCompilerForTypeChecking(env)
	}
	if err != nil {
		c.broken = err
		return c
	}
	c.composed.Compiler = c
	vars := cel.OptionalVariableDeclarations{HasParams: p.Spec.ParamKind != nil, HasAuthorizer: true}
	for _, v := range p.Spec.Variables {
		c.composed.CompileAndStoreVariable(variable(v), vars, environment.StoredExpressions)
	}
	return c
}

// declared is a schema as CEL has it; nil: nothing is known.
func declared(s *spec.Schema, name string) *apiservercel.DeclType {
	if s == nil {
		return nil
	}
	t := openapi.SchemaDeclType(s, true)
	if t == nil {
		return nil
	}
	return t.MaybeAssignTypeName(name)
}

// environmentFor declares what an expression of a policy can name.
func environmentFor(object *apiservercel.DeclType, hasParams bool, params *apiservercel.DeclType) (*environment.EnvSet, error) {
	var types []*apiservercel.DeclType
	var vars []celgo.EnvOption
	declare := func(t *apiservercel.DeclType, names ...string) {
		of := celgo.DynType
		if t != nil {
			of = t.CelType()
			types = append(types, t)
		}
		for _, name := range names {
			vars = append(vars, celgo.Variable(name, of))
		}
	}
	declare(object, cel.ObjectVarName, cel.OldObjectVarName)
	declare(cel.BuildRequestType(), cel.RequestVarName)
	declare(cel.BuildNamespaceType(), cel.NamespaceVarName)
	if hasParams {
		declare(params, cel.ParamsVarName)
	}
	vars = append(vars, celgo.Variable(cel.AuthorizerVarName, library.AuthorizerType))
	return environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()).Extend(environment.VersionedOptions{
		IntroducedVersion: version.MajorMinor(1, 0), EnvOptions: vars, DeclTypes: types,
	})
}

// CompileCELExpression implements cel.Compiler: it finds types and makes no
// program. Whether an expression comes to a bool was checked when the policy
// was written.
func (c *compiler) CompileCELExpression(e cel.ExpressionAccessor, _ cel.OptionalVariableDeclarations, mode environment.Type) cel.CompilationResult {
	env, err := c.composed.Env(mode)
	if err != nil {
		return cel.CompilationResult{Error: &apiservercel.Error{Type: apiservercel.ErrorTypeInternal, Detail: err.Error()}}
	}
	tree, issues := env.Compile(e.GetExpression())
	if issues != nil && issues.Err() != nil {
		return cel.CompilationResult{Error: &apiservercel.Error{Type: apiservercel.ErrorTypeInvalid, Detail: issues.String()}}
	}
	return cel.CompilationResult{OutputType: tree.OutputType()}
}

// wrong is what does not fit, "" when all does.
func (c *compiler) wrong(text string) string {
	if c.broken != nil {
		return "type checking error: " + c.broken.Error()
	}
	r := c.CompileCELExpression(expression(text), cel.OptionalVariableDeclarations{}, environment.StoredExpressions)
	if r.Error == nil {
		return ""
	}
	return r.Error.Detail
}

// expression is one of any type.
type expression string

// GetExpression implements cel.ExpressionAccessor.
func (e expression) GetExpression() string { return string(e) }

// ReturnTypes implements cel.ExpressionAccessor.
func (e expression) ReturnTypes() []*celgo.Type { return []*celgo.Type{celgo.AnyType} }

type variable admissionregistrationv1.Variable

// GetExpression implements cel.ExpressionAccessor.
func (v variable) GetExpression() string { return v.Expression }

// ReturnTypes implements cel.ExpressionAccessor.
func (v variable) ReturnTypes() []*celgo.Type { return []*celgo.Type{celgo.AnyType, celgo.DynType} }

// GetName implements cel.NamedExpressionAccessor.
func (v variable) GetName() string { return v.Name }

// named are the resources that a policy names one by one. What it matches by a
// "*" could be anything: nothing is known of it.
func named(p *admissionregistrationv1.ValidatingAdmissionPolicy) (all []schema.GroupVersionResource) {
	if p.Spec.MatchConstraints == nil {
		return nil
	}
	for _, rule := range p.Spec.MatchConstraints.ResourceRules {
		if slices.Contains(rule.APIGroups, "*") || slices.Contains(rule.APIVersions, "*") {
			continue
		}
		for _, group := range rule.APIGroups {
			for _, v := range rule.APIVersions {
				for _, resource := range rule.Resources {
					if !strings.ContainsAny(resource, "*/") {
						all = append(all, schema.GroupVersionResource{Group: group, Version: v, Resource: resource})
					}
				}
			}
		}
	}
	return all
}
