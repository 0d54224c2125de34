package apiextensions

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"
)

const good = `
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, kind: Widget}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              size: {type: integer}
`

// schemaOf is the good definition with another schema below spec.
func schemaOf(spec string) string {
	lines := strings.Split(strings.TrimSpace(spec), "\n")
	return good[:strings.Index(good, "          spec:")] + "          " + strings.Join(lines, "\n          ") + "\n"
}

func read(t testing.TB, text string) *definition {
	t.Helper()
	d := &definition{}
	if err := yaml.UnmarshalStrict([]byte(text), d); err != nil {
		t.Fatalf("read: %v\n%s", err, text)
	}
	setDefaults(d)
	return d
}

// told are errors in short: reason and path.
func told(errs field.ErrorList) (out []string) {
	for _, e := range errs {
		out = append(out, string(e.Type)+" "+e.Field)
	}
	slices.Sort(out)
	return out
}

// Each case is the good definition with one thing wrong, and what is said.
func TestValidate(t *testing.T) {
	with := func(old, new string) string { return strings.Replace(good, old, new, 1) }
	const props = "spec.versions[0].schema.openAPIV3Schema.properties"
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"good", good, nil},
		{"name", with("widgets.example.com", "gadgets.example.com"), []string{"FieldValueInvalid metadata.name"}},
		{"no dot in the group", strings.ReplaceAll(good, "example.com", "example"), []string{"FieldValueInvalid spec.group"}},
		{"protected group", strings.ReplaceAll(good, "example.com", "x.k8s.io"), []string{"FieldValueRequired metadata.annotations[api-approved.kubernetes.io]"}},
		{"scope", with("Namespaced", "Galaxy"), []string{"FieldValueNotSupported spec.scope"}},
		{"kind", with("kind: Widget", "kind: Wid_get"), []string{"FieldValueInvalid spec.names.kind", "FieldValueInvalid spec.names.listKind", "FieldValueInvalid spec.names.singular"}},
		{"storage", with("storage: true", "storage: false"), []string{"FieldValueInvalid spec.versions", "FieldValueInvalid status.storedVersions"}},
		{"version", with("name: v1", "name: V1"), []string{"FieldValueInvalid spec.versions[0].name"}},
		{"no schema", good[:strings.Index(good, "    schema:")], []string{"FieldValueRequired spec.versions[0].schema.openAPIV3Schema"}},
		{"preserve", with("  scope:", "  preserveUnknownFields: true\n  scope:"), []string{"FieldValueInvalid spec.preserveUnknownFields"}},
		{"no type", schemaOf("spec: {properties: {a: {type: string}}}"), []string{"FieldValueRequired " + props + "[spec].type"}},
		{"default of another type", schemaOf("spec: {type: object, properties: {a: {type: integer, default: x}}}"),
			[]string{"FieldValueTypeInvalid " + props + "[spec].properties[a].default"}},
		{"map without keys", schemaOf("spec: {type: array, x-kubernetes-list-type: map, items: {type: object}}"),
			[]string{"FieldValueRequired " + props + "[spec].x-kubernetes-list-map-keys"}},
		{"optional key", schemaOf("spec: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [a], items: {type: object, properties: {a: {type: string}}}}"),
			[]string{"FieldValueRequired " + props + "[spec].items.properties[a].default"}},
		{"set of objects", schemaOf("spec: {type: array, x-kubernetes-list-type: set, items: {type: object}}"),
			[]string{"FieldValueInvalid " + props + "[spec].items.x-kubernetes-map-type"}},
		{"unique items", schemaOf("spec: {type: array, uniqueItems: true, items: {type: string}}"),
			[]string{"FieldValueForbidden " + props + "[spec].uniqueItems"}},
		{"rule that does not compile", schemaOf("spec: {type: object, x-kubernetes-validations: [{rule: self.b > 1}], properties: {a: {type: integer}}}"),
			[]string{"FieldValueInvalid " + props + "[spec].x-kubernetes-validations[0].rule"}},
		{"good rule", schemaOf("spec: {type: object, x-kubernetes-validations: [{rule: self.a > 1, fieldPath: .a}], properties: {a: {type: integer}}}"), nil},
		{"rule with a bad path", schemaOf("spec: {type: object, x-kubernetes-validations: [{rule: self.a > 1, fieldPath: .b}], properties: {a: {type: integer}}}"),
			[]string{"FieldValueInvalid " + props + "[spec].x-kubernetes-validations[0].fieldPath"}},
		{"dear rule", schemaOf("spec: {type: array, items: {type: array, items: {type: string}}, x-kubernetes-validations: [{rule: 'self.all(a, self.all(b, a.all(c, b.all(d, c == d))))'}]}"),
			[]string{"FieldValueForbidden spec.versions[0].schema.openAPIV3Schema", "FieldValueForbidden " + props + "[spec].x-kubernetes-validations[0].rule", "FieldValueForbidden " + props + "[spec].x-kubernetes-validations[0].rule"}},
		{"old self in an atomic list", schemaOf("spec: {type: array, maxItems: 5, items: {type: integer, x-kubernetes-validations: [{rule: self >= oldSelf}]}}"),
			[]string{"FieldValueInvalid " + props + "[spec].items.x-kubernetes-validations[0].rule"}},
		{"scale", good + "    subresources: {scale: {specReplicasPath: .status.a, statusReplicasPath: .status.b, labelSelectorPath: x}}\n",
			[]string{"FieldValueInvalid spec.versions[0].subresources.scale.labelSelectorPath", "FieldValueInvalid spec.versions[0].subresources.scale.specReplicasPath"}},
		{"column", good + "    additionalPrinterColumns: [{name: A, type: text, jsonPath: spec}]\n",
			[]string{"FieldValueInvalid spec.versions[0].additionalPrinterColumns[0].JSONPath", "FieldValueInvalid spec.versions[0].additionalPrinterColumns[0].type"}},
		{"selectable", good + "    selectableFields: [{jsonPath: .spec}, {jsonPath: .spec.size}, {jsonPath: .spec.size}]\n",
			[]string{"FieldValueDuplicate spec.versions[0].selectableFields[2].jsonPath", "FieldValueInvalid spec.versions[0].selectableFields[0].jsonPath"}},
		{"conversion", good + "  conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v7], clientConfig: {url: 'http://a'}}}\n",
			[]string{"FieldValueInvalid spec.conversion.conversionReviewVersions", "FieldValueInvalid spec.conversion.webhookClientConfig.url"}},
		{"no client", good + "  conversion: {strategy: Webhook}\n",
			[]string{"FieldValueRequired spec.conversion.conversionReviewVersions", "FieldValueRequired spec.conversion.webhookClientConfig"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := read(t, c.text)
			if diff := cmp.Diff(c.want, told(validate(context.Background(), d))); diff != "" {
				t.Errorf("(-want +got):\n%s%v", diff, validate(context.Background(), d))
			}
		})
	}
}

// What an established definition may not change.
func TestValidateUpdate(t *testing.T) {
	old := read(t, good)
	apihelpers.SetCRDCondition(old, apiextensionsv1.CustomResourceDefinitionCondition{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue})
	d := old.DeepCopy()
	d.Spec.Scope, d.Spec.Names.Kind, d.Spec.Names.Plural = apiextensionsv1.ClusterScoped, "Other", "others"
	want := []string{"FieldValueInvalid spec.names.kind", "FieldValueInvalid spec.names.plural", "FieldValueInvalid spec.scope"}
	if diff := cmp.Diff(want, told(validateUpdate(context.Background(), d, old))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	d = old.DeepCopy()
	d.Spec.Versions[0].Name = "v2"
	noteStored(d)
	if diff := cmp.Diff([]string{"FieldValueInvalid status.storedVersions[0]"}, told(validateUpdate(context.Background(), d, old))); diff != "" {
		t.Errorf("a version was dropped that may be stored (-want +got):\n%s", diff)
	}
}
