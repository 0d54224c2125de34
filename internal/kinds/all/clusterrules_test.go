package all

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
)

// signed makes a request for a certificate, and a certificate.
func signed(t *testing.T) (request, certificate []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "u"}}, key)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "u"}, IsCA: true, BasicConstraintsValid: true}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})
}

func indent(text []byte) string {
	return "|\n      " + strings.ReplaceAll(strings.TrimSpace(string(text)), "\n", "\n      ") + "\n"
}

func TestCertificateRules(t *testing.T) {
	request, certificate := signed(t)
	text := base64.StdEncoding.EncodeToString(request)
	const approved = `{type: Approved, status: "True"}`
	runRules(t, []ruleCase{
		{name: "valid", kind: "CertificateSigningRequest", obj: `{spec: {request: ` + text + `, signerName: a.example/b, usages: [client auth]}}`},
		{name: "nothing", kind: "CertificateSigningRequest", obj: `{}`, want: `spec.request: Invalid value: null: PEM block type must be CERTIFICATE REQUEST
spec.usages: Required value
spec.signerName: Required value: signerName must be provided`},
		{name: "rest", kind: "CertificateSigningRequest", obj: `{spec: {request: ` + text + `, signerName: a/B, usages: [signing, signing], expirationSeconds: 599}}`,
			want: `spec.usages[1]: Duplicate value: "signing"
spec.signerName: Invalid value: "a": should be a domain with at least two segments separated by dots
spec.signerName: Invalid value: "B": validating label "B": ` + dnsName + `
spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 600 seconds (10 minutes)`},
		{name: "legacy", kind: "CertificateSigningRequest", obj: `{spec: {request: ` + text + `, signerName: kubernetes.io/legacy-unknown, usages: [signing]}}`,
			want: `spec.signerName: Invalid value: "kubernetes.io/legacy-unknown": the legacy signerName is not allowed via this API version`},
		{name: "approved", kind: "CertificateSigningRequest/approval", old: `{}`, obj: `{status: {conditions: [` + approved + `]}}`},
		{name: "both", kind: "CertificateSigningRequest/approval", old: `{}`, obj: `{status: {conditions: [` + approved + `, {type: Denied, status: "False"}, {type: x}]}}`,
			want: `status.conditions[1].status: Unsupported value: "False": supported values: "True"
status.conditions[1].type: Invalid value: "Denied": Approved and Denied conditions are mutually exclusive
status.conditions[2].status: Required value`},
		{name: "taken back", kind: "CertificateSigningRequest/approval", old: `{status: {conditions: [` + approved + `]}}`, obj: `{}`,
			want: `status.conditions: Forbidden: updates may not remove a condition of type "Approved"`},
		{name: "approved by status", kind: "CertificateSigningRequest/status", old: `{}`, obj: `{status: {conditions: [` + approved + `]}}`,
			want: `status.conditions: Forbidden: updates may not add a condition of type "Approved"`},
		{name: "issued", kind: "CertificateSigningRequest/status", old: `{}`, obj: `{status: {certificate: ` + base64.StdEncoding.EncodeToString(certificate) + `}}`},
		{name: "issued nothing", kind: "CertificateSigningRequest/status", old: `{}`, obj: `{status: {certificate: eA==}}`,
			want: `status.certificate: Invalid value: "<certificate data>": must contain at least one CERTIFICATE PEM block`},
		{name: "issued again", kind: "CertificateSigningRequest/status", old: `{status: {certificate: eA==}}`, obj: `{status: {certificate: eQ==}}`,
			want: `status.certificate: Forbidden: updates may not modify existing certificate content`},

		{name: "valid", kind: "ClusterTrustBundle", obj: "metadata: {name: b}\nspec:\n    trustBundle: " + indent(certificate)},
		{name: "name", kind: "ClusterTrustBundle", obj: "metadata: {name: b}\nspec:\n    signerName: a.example/b\n    trustBundle: " + indent(append(certificate, certificate...)),
			want: `metadata.name: Invalid value: "b": ClusterTrustBundle for signerName a.example/b must be named with prefix a.example:b:
spec.trustBundle: Invalid value: "<value omitted>": duplicate trust anchor (indices [0 1])`},
		{name: "empty", kind: "ClusterTrustBundle", obj: `{metadata: {name: "a:b"}}`,
			want: "metadata.name: Invalid value: \"a:b\": ClusterTrustBundle without signer name must not have \":\" in its name\nspec.trustBundle: Invalid value: \"<value omitted>\": at least one trust anchor must be provided"},
	})
}

// podRequest is a PodCertificateRequest with one field after the other changed
// to another text.
func podRequest(t *testing.T, changes ...string) string {
	t.Helper()
	request, _ := signed(t)
	der, _ := pem.Decode(request)
	text := `{spec: {signerName: a.example/b, podName: p, podUID: u, serviceAccountName: s, serviceAccountUID: v, nodeName: nn, nodeUID: w,
		maxExpirationSeconds: 86401, stubPKCS10Request: ` + base64.StdEncoding.EncodeToString(der.Bytes) + `}}`
	return strings.NewReplacer(changes...).Replace(text)
}

// stub is a request for a certificate for a key.
func stub(t *testing.T, key any, err error) []byte {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func TestPodCertificateRequests(t *testing.T) {
	small, err := rsa.GenerateKey(rand.Reader, 2048)
	weak := stub(t, small, err)
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	good := stub(t, ed, err)
	forged := bytes.Clone(good)
	forged[len(forged)-1] ^= 1
	with := func(der []byte) string {
		return podRequest(t, "stubPKCS10Request: ", "stubPKCS10Request: "+base64.StdEncoding.EncodeToString(der)+" # ", "}}", "\n}}")
	}
	runRules(t, []ruleCase{
		{name: "valid", kind: "PodCertificateRequest", obj: podRequest(t)},
		{name: "edwards", kind: "PodCertificateRequest", obj: with(good)},
		{name: "life", kind: "PodCertificateRequest", obj: podRequest(t, "86401", "1"),
			want: `spec.maxExpirationSeconds: Invalid value: 1: must be in the range [3600, 7862400]`},
		{name: "own signer", kind: "PodCertificateRequest", obj: podRequest(t, "a.example", "a.kubernetes.io"),
			want: `spec.maxExpirationSeconds: Invalid value: 86401: must be in the range [3600, 86400]`},
		{name: "UIDs", kind: "PodCertificateRequest", obj: podRequest(t, "podUID: u, ", "", "nodeUID: w", "nodeUID: "+strings.Repeat("w", 129)),
			want: "spec.podUID: Invalid value: \"\": must not be empty\nspec.nodeUID: Too long: may not be more than 128 bytes"},
		{name: "annotations", kind: "PodCertificateRequest", obj: podRequest(t, "podName: p", "podName: p, unverifiedUserAnnotations: {A.Example/B: c, d: e}"),
			want: `spec.unverifiedUserAnnotations: Invalid value: "d": must be a domain-prefixed key (such as "acme.io/foo")`},
		{name: "no stub", kind: "PodCertificateRequest", obj: podRequest(t, "stubPKCS10Request: ", "#", "}}", "\n}}"),
			want: `spec: Invalid value: exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set`},
		{name: "no request", kind: "PodCertificateRequest", obj: with([]byte("x")),
			want: `spec.stubPKCS10Request: Invalid value: must be a valid PKCS#10 CSR`},
		{name: "long", kind: "PodCertificateRequest", obj: with(make([]byte, 10<<10+1)),
			want: `spec.stubPKCS10Request: Too long: may not be more than 10240 bytes`},
		{name: "weak", kind: "PodCertificateRequest", obj: with(weak),
			want: `spec.stubPKCS10Request: Invalid value: "2048-bit modulus": RSA keys must have modulus size 3072 or 4096`},
		{name: "forged", kind: "PodCertificateRequest", obj: with(forged),
			want: `spec.stubPKCS10Request: Invalid value: invalid signature`},
	})
}

// TestRequestsStay: nobody rewrites what a certificate is asked for with, and
// conditions are dated.
func TestRequestsStay(t *testing.T) {
	k := kindOf(t, "CertificateSigningRequest")
	old := read(t, k, `{spec: {signerName: a.example/b, username: u}}`)
	obj := read(t, k, `{spec: {signerName: a.example/c, username: root}, status: {conditions: [{type: Approved, status: "True"}]}}`)
	k.Subresources["approval"].PrepareUpdate(context.Background(), obj, old)
	got := obj.(*certificatesv1.CertificateSigningRequest)
	if got.Spec.Username != "u" || got.Spec.SignerName != "a.example/b" {
		t.Errorf("rewritten: %+v", got.Spec)
	}
	if c := got.Status.Conditions; len(c) != 1 || c[0].LastUpdateTime.IsZero() || c[0].LastTransitionTime.IsZero() {
		t.Errorf("conditions: %+v", c)
	}
	k.PrepareUpdate(context.Background(), obj, old)
	if len(got.Status.Conditions) > 0 {
		t.Error("the main resource changes conditions")
	}
}

func TestFlowRules(t *testing.T) {
	const rest = `priorityLevelConfiguration: {name: p}`
	runRules(t, []ruleCase{
		{name: "valid", kind: "FlowSchema", obj: `{spec: {` + rest + `, rules: [{subjects: [{kind: Group, group: {name: g}}], resourceRules: [{verbs: ["*"], apiGroups: ["*"], resources: ["*"], clusterScope: true}], nonResourceRules: [{verbs: [get], nonResourceURLs: [/x/*]}]}]}}`},
		{name: "nothing", kind: "FlowSchema", obj: `{spec: {matchingPrecedence: 1, distinguisherMethod: {type: x}}}`,
			want: `spec.matchingPrecedence: Invalid value: 1: only the schema named 'exempt' may have matchingPrecedence 1
spec.distinguisherMethod.type: Unsupported value: "x": supported values: "ByNamespace", "ByUser"
spec.priorityLevelConfiguration.name: Required value: must reference a priority level`},
		{name: "rules", kind: "FlowSchema", obj: `{spec: {` + rest + `, rules: [{}, {subjects: [{kind: User, group: {name: ""}}, {kind: x}], resourceRules: [{verbs: [get, "*"], apiGroups: [], resources: ["*", a]}], nonResourceRules: [{verbs: [x], nonResourceURLs: [a, "/a*"]}]}]}}`,
			want: `spec.rules[0].subjects: Required value: subjects must contain at least one value
spec.rules[0]: Required value: at least one of resourceRules and nonResourceRules has to be non-empty
spec.rules[1].subjects[0].user: Required value: user is required when subject kind is 'User'
spec.rules[1].subjects[0].group: Forbidden: group is forbidden when subject kind is not 'Group'
spec.rules[1].subjects[0].group.name: Required value
spec.rules[1].subjects[1].kind: Unsupported value: "x": supported values: "Group", "ServiceAccount", "User"
spec.rules[1].resourceRules[0].verbs: Invalid value: ["get","*"]: if '*' is present, must not specify other verbs
spec.rules[1].resourceRules[0].apiGroups: Required value: resource rules must supply at least one api group
spec.rules[1].resourceRules[0].resources: Invalid value: ["*","a"]: if '*' is present, must not specify other resources
spec.rules[1].resourceRules[0].namespaces: Required value: resource rules that are not cluster scoped must supply at least one namespace
spec.rules[1].nonResourceRules[0].verbs: Unsupported value: ["x"]: supported values: "create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"
spec.rules[1].nonResourceRules[0].nonResourceURLs[0]: Invalid value: "a": must start with slash
spec.rules[1].nonResourceRules[0].nonResourceURLs[1]: Invalid value: "/a*": wildcard can only do suffix matching`},
		{name: "valid", kind: "PriorityLevelConfiguration", obj: `{spec: {type: Limited, limited: {limitResponse: {type: Queue, queuing: {}}}}}`},
		{name: "no type", kind: "PriorityLevelConfiguration", obj: `{}`, want: `spec.type: Unsupported value: "": supported values: "Exempt", "Limited"`},
		{name: "exempt", kind: "PriorityLevelConfiguration", obj: `{spec: {type: Exempt, limited: {limitResponse: {type: Reject}}}}`,
			want: "spec.type: Invalid value: \"Exempt\": type must be 'Exempt' if and only if name is 'exempt'\nspec.limited: Forbidden: must be nil if the type is not Limited"},
		{name: "limited", kind: "PriorityLevelConfiguration", obj: `{spec: {type: Limited, limited: {nominalConcurrencyShares: -1, lendablePercent: 101, limitResponse: {type: Queue, queuing: {queues: 2, handSize: 3, queueLengthLimit: -1}}}}}`,
			want: `spec.limited.nominalConcurrencyShares: Invalid value: -1: must be a non-negative integer
spec.limited.lendablePercent: Invalid value: 101: must be between 0 and 100, inclusive
spec.limited.limitResponse.queuing.queueLengthLimit: Invalid value: -1: must be positive
spec.limited.limitResponse.queuing.handSize: Invalid value: 3: should not be greater than queues (2)`},

		{name: "valid", kind: "RuntimeClass", obj: `{handler: h, overhead: {podFixed: {cpu: 1}}, scheduling: {nodeSelector: {a: b}, tolerations: [{operator: Exists}]}}`},
		{name: "handler", kind: "RuntimeClass", obj: `{handler: "", overhead: {podFixed: {cpu: -1}}, scheduling: {tolerations: [{}]}}`,
			want: `handler: Invalid value: "": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')
overhead.limits[cpu]: Invalid value: "-1": must be greater than or equal to 0
scheduling.tolerations[0].operator: Invalid value: "": operator must be Exists when ` + "`key` is empty, which means \"match all values and all keys\""},
		{name: "handler changed", kind: "RuntimeClass", old: `{handler: a}`, obj: `{handler: b}`, want: `handler: Invalid value: "b": field is immutable`},
		{name: "migration", kind: "StorageVersionMigration", obj: `{}`, want: `spec.resource.resource: Required value: resource is required`},
	})
}

func TestDeviceRules(t *testing.T) {
	runRules(t, []ruleCase{
		{name: "valid", kind: "ResourceClaim", obj: `{spec: {devices: {requests: [{name: a, exactly: {deviceClassName: c}}, {name: b, firstAvailable: [{name: s, deviceClassName: c, allocationMode: All}]}], constraints: [{requests: [a, b/s], matchAttribute: d.example/m}]}}}`},
		{name: "requests", kind: "ResourceClaim", obj: `{spec: {devices: {requests: [{name: a}, {name: a, exactly: {deviceClassName: "", count: -1, selectors: [{}], tolerations: [{operator: x}]}}], constraints: [{requests: [z], matchAttribute: m}, {}], config: [{}]}}}`,
			want: "spec.devices.requests[0]: Required value: exactly one of `exactly` or `firstAvailable` is required\n" +
				"spec.devices.requests[1].name: Duplicate value: \"a\"\n" +
				"spec.devices.requests[1].exactly.deviceClassName: Required value\n" +
				"spec.devices.requests[1].exactly.selectors[0].cel: Required value\n" +
				"spec.devices.requests[1].exactly.count: Invalid value: -1: must be greater than zero\n" +
				"spec.devices.requests[1].exactly.tolerations[0].operator: Unsupported value: \"x\": supported values: \"Equal\", \"Exists\"\n" +
				"spec.devices.constraints[0].requests[0]: Invalid value: \"z\": must be the name of a request in the claim or the name of a request and a subrequest separated by '/'\n" +
				"spec.devices.constraints[0].matchAttribute: Invalid value: \"m\": must include a domain\n" +
				"spec.devices.constraints[1]: Required value: exactly one of `matchAttribute` or `distinctAttribute` is required\n" +
				"spec.devices.config[0].opaque: Required value"},
		{name: "changed", kind: "ResourceClaim", old: `{spec: {devices: {}}}`, obj: `{spec: {devices: {requests: [{name: a, exactly: {deviceClassName: c}}]}}}`,
			want: `spec: Invalid value: {"devices":{"requests":[{"name":"a","exactly":{"deviceClassName":"c","allocationMode":"ExactCount","count":1}}]}}: field is immutable`},
		{name: "reserved", kind: "ResourceClaim/status", old: `{}`, obj: `{status: {reservedFor: [{resource: pods, name: p, uid: u}, {name: q, uid: u}]}}`,
			want: "status.reservedFor[1].resource: Required value\nstatus.reservedFor[1].uid: Duplicate value: \"u\"\nstatus.reservedFor: Forbidden: may not be specified when `allocated` is not set"},
		{name: "allocated", kind: "ResourceClaim/status", old: `{}`, obj: `{status: {allocation: {devices: {results: [{request: a, driver: d, pool: p, device: x}]}}, reservedFor: [{resource: pods, name: p, uid: u}]}}`},
		{name: "allocated anew", kind: "ResourceClaim/status", old: `{status: {allocation: {devices: {}}}}`, obj: `{status: {allocation: {devices: {results: [{request: a, driver: d, pool: p, device: x}]}}}}`,
			want: `status.allocation: Invalid value: {"devices":{"results":[{"request":"a","driver":"d","pool":"p","device":"x"}]}}: field is immutable`},
		{name: "template", kind: "ResourceClaimTemplate", obj: `{spec: {spec: {devices: {requests: [{name: "", exactly: {deviceClassName: c}}]}}}}`, want: `spec.spec.devices.requests[0].name: Required value`},

		{name: "valid", kind: "ResourceSlice", obj: `{spec: {driver: d, nodeName: nn, pool: {name: p, resourceSliceCount: 1}, devices: [{name: a, attributes: {m: {string: v}, d.example/v: {version: 1.2.3}}}]}}`},
		{name: "rest", kind: "ResourceSlice", obj: `{spec: {driver: "", pool: {name: p/Q, generation: -1}, devices: [{name: a, attributes: {"a-b": {}, v: {version: "1"}}, allNodes: true}, {name: a, taints: [{key: k}]}]}}`,
			want: "spec.driver: Required value\n" +
				"spec.pool.name: Invalid value: \"Q\": " + dnsName + "\n" +
				"spec.pool.resourceSliceCount: Invalid value: 0: must be greater than zero\n" +
				"spec.pool.generation: Invalid value: -1: must be greater than or equal to zero\n" +
				"spec: Required value: exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required\n" +
				"spec.devices[0].attributes[a-b]: Invalid value: \"a-b\": a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')\n" +
				"spec.devices[0].attributes[a-b]: Required value: exactly one value must be specified\n" +
				"spec.devices[0].attributes[v].version: Invalid value: \"1\": must be a string compatible with semver.org spec 2.0.0\n" +
				"spec.devices[0]: Invalid value: `nodeName`, `nodeSelector` and `allNodes` can only be specified when `perDeviceNodeSelection` is set to true\n" +
				"spec.devices[1].name: Duplicate value: \"a\"\n" +
				"spec.devices[1].taints[0].effect: Required value"},
		{name: "moved", kind: "ResourceSlice", old: `{spec: {driver: d, nodeName: n1, pool: {name: p, resourceSliceCount: 1}}}`, obj: `{spec: {driver: e, nodeName: n2, pool: {name: q, resourceSliceCount: 1}}}`,
			want: "spec.driver: Invalid value: \"e\": field is immutable\nspec.pool.name: Invalid value: \"q\": field is immutable\nspec.nodeName: Invalid value: \"n2\": field is immutable"},
		{name: "class", kind: "DeviceClass", obj: `{spec: {selectors: [{cel: {expression: ""}}], config: [{opaque: {driver: d, parameters: {a: b}}}]}}`, want: `spec.selectors[0].cel.expression: Required value`},
		{name: "class that selects", kind: "DeviceClass", obj: `{spec: {selectors: [{cel: {expression: 'device.driver == "d" && device.attributes["d"].size > 3'}}]}}`},
		{name: "expressions", kind: "ResourceClaim", obj: `{spec: {devices: {requests: [{name: a, exactly: {deviceClassName: c, selectors: [{cel: {expression: 'device.driver'}}, {cel: {expression: 'device.driver == "d"'}}]}}]}}}`,
			want: `spec.devices.requests[0].exactly.selectors[0].cel.expression: Invalid value: "device.driver": must evaluate to bool or the unknown type, not string`},
		{name: "expressions of alternatives", kind: "ResourceClaimTemplate", obj: `{spec: {spec: {devices: {requests: [{name: a, firstAvailable: [{name: b, deviceClassName: c, selectors: [{cel: {expression: '1'}}]}]}]}}}}`,
			want: `spec.spec.devices.requests[0].firstAvailable[0].selectors[0].cel.expression: Invalid value: "1": must evaluate to bool or the unknown type, not int`},
		{name: "expression that costs too much", kind: "DeviceClass", obj: `{spec: {selectors: [{cel: {expression: 'device.attributes["d"].all(a, device.attributes["d"].all(b, device.attributes["d"].all(c, device.attributes["d"].all(e, a+b+c+e != "x"))))'}}]}}`,
			want: `spec.selectors[0].cel.expression: Forbidden: too complex, exceeds cost limit`},
		{name: "taint rule", kind: "DeviceTaintRule", obj: `{spec: {deviceSelector: {driver: d}, taint: {key: k, effect: x}}}`,
			want: `spec.taint.effect: Unsupported value: "x": supported values: "NoExecute", "NoSchedule", "None"`},
	})
}
