package all

import "testing"

func TestWebhookRules(t *testing.T) {
	const rest = `sideEffects: None, admissionReviewVersions: [v1], clientConfig: {url: "https://a.example/x"}`
	runRules(t, []ruleCase{
		{name: "valid", kind: "ValidatingWebhookConfiguration", obj: `{webhooks: [{name: a.b.example, ` + rest + `, rules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods, pods/*]}], matchConditions: [{name: c, expression: "request.userInfo.username != 'x' && authorizer.group('').resource('pods').check('get').allowed()"}]}]}`},
		{name: "nothing", kind: "ValidatingWebhookConfiguration", obj: `{webhooks: [{}]}`, want: `webhooks[0].name: Required value
webhooks[0].sideEffects: Required value: must specify one of None, NoneOnDryRun
webhooks[0].clientConfig: Required value: exactly one of url or service is required
webhooks[0].admissionReviewVersions: Required value: must specify one of v1, v1beta1`},
		{name: "rest", kind: "MutatingWebhookConfiguration", obj: `{webhooks: [{name: a, sideEffects: Some, timeoutSeconds: 31, failurePolicy: x, matchPolicy: w, reinvocationPolicy: z, admissionReviewVersions: [v2, v2], clientConfig: {service: {name: "", namespace: s, path: a//b, port: 0}},
			rules: [{operations: ["*", CREATE], apiGroups: ["*", a], apiVersions: [], resources: ["*/*", pods], scope: x}], matchConditions: [{name: "", expression: "1"}, {name: c, expression: "foo"}, {name: c, expression: ""}]}]}`,
			want: `webhooks[0].name: Invalid value: "a": should be a domain with at least three segments separated by dots
webhooks[0].rules[0].operations: Invalid value: ["*","CREATE"]: if '*' is present, must not specify other operations
webhooks[0].rules[0].apiGroups: Invalid value: ["*","a"]: if '*' is present, must not specify other API groups
webhooks[0].rules[0].apiVersions: Required value
webhooks[0].rules[0].resources: Invalid value: ["*/*","pods"]: if '*/*' is present, must not specify other resources
webhooks[0].rules[0].scope: Unsupported value: "x": supported values: "*", "Cluster", "Namespaced"
webhooks[0].failurePolicy: Unsupported value: "x": supported values: "Fail", "Ignore"
webhooks[0].matchPolicy: Unsupported value: "w": supported values: "Equivalent", "Exact"
webhooks[0].sideEffects: Unsupported value: "Some": supported values: "None", "NoneOnDryRun"
webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds
webhooks[0].clientConfig.service.name: Required value
webhooks[0].clientConfig.service.port: Invalid value: 0: port is not valid: must be between 1 and 65535, inclusive
webhooks[0].clientConfig.service.path: Invalid value: "a//b": must start with a '/'
webhooks[0].clientConfig.service.path: Invalid value: "a//b": segment[0] may not be empty
webhooks[0].clientConfig.service.path: Invalid value: "a//b": segment[1] may not be empty
webhooks[0].matchConditions[0].expression: Invalid value: "1": must evaluate to bool but got int
webhooks[0].matchConditions[0].name: Required value
webhooks[0].matchConditions[1].expression: Invalid value: "foo": compilation failed: ERROR: <input>:1:1: undeclared reference to 'foo' (in container '')
 | foo
 | ^
webhooks[0].matchConditions[2].expression: Required value
webhooks[0].matchConditions[2].name: Duplicate value: "c"
webhooks[0].admissionReviewVersions[1]: Invalid value: "v2": duplicate version
webhooks[0].admissionReviewVersions: Invalid value: ["v2","v2"]: must include at least one of v1, v1beta1
webhooks[0].reinvocationPolicy: Unsupported value: "z": supported values: "IfNeeded", "Never"`},
		{name: "URL", kind: "ValidatingWebhookConfiguration", obj: `{webhooks: [{name: a.b.example, sideEffects: None, admissionReviewVersions: [v1], clientConfig: {url: "http://u@a.example/?x#y"}}, {name: a.b.example, ` + rest + `}]}`,
			want: `webhooks[0].clientConfig.url: Invalid value: "http": 'https' is the only allowed URL scheme; desired format: https://host[/path]
webhooks[0].clientConfig.url: Invalid value: "u": user information is not permitted in the URL
webhooks[0].clientConfig.url: Invalid value: "y": fragments are not permitted in the URL
webhooks[0].clientConfig.url: Invalid value: "x": query parameters are not permitted in the URL
webhooks[1].name: Duplicate value: "a.b.example"`},
	})
}

func TestAdmissionPolicyRules(t *testing.T) {
	const match = `matchConstraints: {resourceRules: [{operations: [CREATE], apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]}`
	runRules(t, []ruleCase{
		{name: "valid", kind: "ValidatingAdmissionPolicy", obj: `{spec: {paramKind: {apiVersion: v1, kind: ConfigMap}, ` + match + `, variables: [{name: have, expression: object.spec.replicas}, {name: more, expression: variables.have + 1}],
			validations: [{expression: variables.more < int(params.data.max), messageExpression: "'too many: ' + string(variables.have)"}], auditAnnotations: [{key: k, valueExpression: "'v'"}], matchConditions: [{name: c, expression: "has(object.spec)"}]}}`},
		{name: "nothing", kind: "ValidatingAdmissionPolicy", obj: `{}`, want: `spec.matchConstraints: Required value
spec.validations: Required value: validations or auditAnnotations must contain at least one item
spec.auditAnnotations: Required value: validations or auditAnnotations must contain at least one item`},
		{name: "rest", kind: "ValidatingAdmissionPolicy", obj: `{spec: {paramKind: {apiVersion: "", kind: a.b}, matchConstraints: {}, variables: [{name: a-b, expression: "1"}, {name: c, expression: ""}],
			validations: [{expression: "1"}, {expression: "params == null", message: "a\nb", reason: x}, {expression: "true", message: " ", messageExpression: " "}, {expression: "true ||\nfalse"}, {expression: "true", messageExpression: "1"}],
			auditAnnotations: [{key: "", valueExpression: "1"}]}}`,
			want: `spec.paramKind.apiVersion: Required value
spec.paramKind.kind: Invalid value: "a.b": may have mixed case, but should otherwise match: a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')
spec.matchConstraints.resourceRules: Required value
spec.variables[0].name: Invalid value: "a-b": name is not a valid CEL identifier
spec.variables[1].expression: Required value: expression is not specified
spec.validations[0].expression: Invalid value: "1": must evaluate to bool but got int
spec.validations[1].message: Invalid value: "a\nb": message must not contain line breaks
spec.validations[1].reason: Unsupported value: "x": supported values: "Forbidden", "Invalid", "RequestEntityTooLarge", "Unauthorized"
spec.validations[2].messageExpression: Invalid value: " ": must be non-empty if specified
spec.validations[2].message: Invalid value: " ": message must be non-empty if specified
spec.validations[3].message: Required value: message must be specified if expression contains line breaks
spec.validations[4].messageExpression: Invalid value: "1": must evaluate to string but got int
spec.auditAnnotations[0].key: Required value: key is not specified
spec.auditAnnotations[0].valueExpression: Invalid value: "1": must evaluate to one of [string null_type] but got int`},
		{name: "no params", kind: "ValidatingAdmissionPolicy", obj: `{spec: {` + match + `, validations: [{expression: "params.x"}]}}`,
			want: `spec.validations[0].expression: Invalid value: "params.x": compilation failed: ERROR: <input>:1:1: undeclared reference to 'params' (in container '')
 | params.x
 | ^`},

		{name: "valid", kind: "MutatingAdmissionPolicy", obj: `{spec: {reinvocationPolicy: Never, ` + match + `, mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: "Object{metadata: Object.metadata{labels: {'a': 'b'}}}"}}, {patchType: JSONPatch, jsonPatch: {expression: "[JSONPatch{op: 'add', path: '/x', value: 1}]"}}]}}`},
		{name: "mutations", kind: "MutatingAdmissionPolicy", obj: `{spec: {` + match + `, mutations: [{}, {patchType: JSONPatch, applyConfiguration: {expression: "Object{}"}}, {patchType: JSONPatch, jsonPatch: {expression: "1"}}]}}`,
			want: `spec.mutations[0].patchType: Required value
spec.mutations[1].jsonPatch: Required value: must be specified when patchType is JSONPatch
spec.mutations[1].applyConfiguration: Invalid value: "": must not be specified when patchType is JSONPatch
spec.mutations[2].jsonPatch.expression: Invalid value: "1": must evaluate to list(JSONPatch) but got int
spec.reinvocationPolicy: Required value`},
		{name: "none", kind: "MutatingAdmissionPolicy", obj: `{spec: {reinvocationPolicy: Never, ` + match + `}}`, want: `spec.mutations: Required value: mutations must contain at least one item`},

		{name: "valid", kind: "ValidatingAdmissionPolicyBinding", obj: `{spec: {policyName: p, validationActions: [Deny], paramRef: {name: c, parameterNotFoundAction: Deny}}}`},
		{name: "nothing", kind: "ValidatingAdmissionPolicyBinding", obj: `{spec: {paramRef: {}}}`, want: `spec.policyName: Required value
spec.paramRef: Required value: one of name or selector must be specified
spec.paramRef.parameterNotFoundAction: Required value
spec.validationActions: Required value: at least one validation action is required`},
		{name: "actions", kind: "ValidatingAdmissionPolicyBinding", obj: `{spec: {policyName: p, validationActions: [Deny, Warn, Warn, x], paramRef: {name: c, selector: {}, parameterNotFoundAction: w}}}`,
			want: `spec.paramRef.name: Forbidden: name and selector are mutually exclusive
spec.paramRef.selector: Forbidden: name and selector are mutually exclusive
spec.paramRef.parameterNotFoundAction: Unsupported value: "w": supported values: "Allow", "Deny"
spec.validationActions[2]: Duplicate value: "Warn"
spec.validationActions[3]: Unsupported value: "x": supported values: "Audit", "Deny", "Warn"
spec.validationActions: Invalid value: ["Deny","Warn","Warn","x"]: must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)`},
		{name: "nothing", kind: "MutatingAdmissionPolicyBinding", obj: `{}`, want: `spec.policyName: Required value`},
	})
}
