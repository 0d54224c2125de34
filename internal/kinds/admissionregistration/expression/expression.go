// Package expression compiles the CEL expressions that stand in admission
// webhooks and admission policies, to check them when they are filed and to
// evaluate them when requests come.
//
// The environment is upstream's, the variables too: object, oldObject,
// request, namespaceObject, and as declared params, authorizer and variables.
// It is built at first use, which takes some milliseconds; a server without
// webhooks' conditions and policies never pays for it. Everything here may be
// used from many goroutines, but a Composer, which belongs to one.
package expression

import (
	"strings"
	"sync"

	celgo "github.com/google/cel-go/cel"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/mutation"
)

// Expression is a text and what it must evaluate to. It implements upstream's
// ExpressionAccessor, and with a Name its NamedExpressionAccessor.
type Expression struct {
	Name  string // of a variable or condition
	Text  string
	Types []*celgo.Type
}

// GetExpression is the text.
func (e *Expression) GetExpression() string { return e.Text }

// ReturnTypes are what the text may evaluate to.
func (e *Expression) ReturnTypes() []*celgo.Type { return e.Types }

// GetName of a variable or condition.
func (e *Expression) GetName() string { return e.Name }

// Condition is true or false.
func Condition(name, text string) *Expression {
	return &Expression{Name: name, Text: strings.TrimSpace(text), Types: []*celgo.Type{celgo.BoolType}}
}

// Message is a text for people.
func Message(text string) *Expression {
	return &Expression{Text: strings.TrimSpace(text), Types: []*celgo.Type{celgo.StringType}}
}

// Annotation is a text, or null for none.
func Annotation(text string) *Expression {
	return &Expression{Text: strings.TrimSpace(text), Types: []*celgo.Type{celgo.StringType, celgo.NullType}}
}

// Variable may be anything.
func Variable(name, text string) *Expression {
	return &Expression{Name: name, Text: strings.TrimSpace(text), Types: []*celgo.Type{celgo.AnyType, celgo.DynType}}
}

// ApplyConfiguration is an object that holds the fields to be set.
func ApplyConfiguration(text string) *Expression {
	return &Expression{Text: strings.TrimSpace(text), Types: []*celgo.Type{celgo.ObjectType(mutation.ObjectTypeName)}}
}

// JSONPatch is a list of operations.
func JSONPatch(text string) *Expression {
	return &Expression{Text: strings.TrimSpace(text), Types: []*celgo.Type{celgo.ListType(celgo.ObjectType(mutation.JSONPatchTypeName))}}
}

func base() *environment.EnvSet {
	return environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
}

// Plain is the compiler of expressions that have no variables of their own.
var Plain = sync.OnceValue(func() cel.Compiler { return cel.NewCompiler(base()) })

// Composer compiles the expressions of one policy, which share variables. A
// variable is added in the order in which they stand, so that each knows those
// before it.
type Composer struct{ *cel.CompositedCompiler }

// NewComposer makes an empty one.
func NewComposer() *Composer {
	c, err := cel.NewCompositedCompiler(base())
	if err != nil { // the base is upstream's own
		panic("expression: " + err.Error())
	}
	return &Composer{c}
}

// Check says what is wrong with an expression. New ones may not use what is
// deprecated or came after this version; stored says that it is not new.
func Check(c cel.Compiler, e *Expression, vars cel.OptionalVariableDeclarations, stored bool, path *field.Path) field.ErrorList {
	return Explain(c.CompileCELExpression(e, vars, Mode(stored)), e, path)
}

// Mode is the environment for new or for stored expressions.
func Mode(stored bool) environment.Type {
	if stored {
		return environment.StoredExpressions
	}
	return environment.NewExpressions
}

// Explain gives what a compiler said the form of a validation.
func Explain(r cel.CompilationResult, e *Expression, path *field.Path) field.ErrorList {
	switch {
	case r.Error == nil:
		return nil
	case r.Error.Type == apiservercel.ErrorTypeRequired:
		return field.ErrorList{field.Required(path, r.Error.Detail)}
	case r.Error.Type == apiservercel.ErrorTypeInvalid:
		return field.ErrorList{field.Invalid(path, e.Text, r.Error.Detail)}
	default:
		return field.ErrorList{field.InternalError(path, r.Error)}
	}
}
