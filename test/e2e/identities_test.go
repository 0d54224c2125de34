package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-project/setpoint/test/e2e/harness"
)

// TestIdentities: everything by which somebody becomes known to a cluster, from
// the request to the day when it counts no more.
func TestIdentities(t *testing.T) {
	t.Parallel()
	c := harness.Start(t, "--nodes", "sim=1")
	for name, f := range map[string]func(*harness.Cluster){
		"certificate": certificateOfAUser, "bootstrap": bootstrapOfANode, "secret": tokenInASecret, "rest": whatLoopsKeep,
	} {
		t.Run(name, func(t *testing.T) { f(c.In(t)) })
	}
}

// TestIdentitiesAlone: the loops do the same over the network, with the keys in
// the server's data folder.
func TestIdentitiesAlone(t *testing.T) {
	t.Parallel()
	c := harness.StartServer(t)
	c.Part("controllers")
	for name, f := range map[string]func(*harness.Cluster){"bootstrap": bootstrapOfANode, "secret": tokenInASecret, "rest": whatLoopsKeep} {
		t.Run(name, func(t *testing.T) { f(c.In(t)) })
	}
}

// as is the cluster as somebody else reaches it, by what credentials says of a
// user in a kubeconfig.
func as(c *harness.Cluster, name string, credentials map[string]string) *harness.Cluster {
	c.T.Helper()
	var config map[string]any
	decode(c, &config, "config", "view", "--raw", "--minify", "-o", "json")
	config["users"].([]any)[0].(map[string]any)["user"] = credentials
	data, err := json.Marshal(config)
	if err != nil {
		c.T.Fatal(err)
	}
	other := *c
	other.Kubeconfig = filepath.Join(c.T.TempDir(), name+".kubeconfig")
	if err := os.WriteFile(other.Kubeconfig, data, 0o600); err != nil {
		c.T.Fatal(err)
	}
	return &other
}

// newKey returns a key in PEM, and the request for a certificate as a manifest.
func newKey(t testing.TB, name, signer string, subject pkix.Name) (key []byte, manifest string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	asked, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: subject}, private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), fmt.Sprintf(`apiVersion: certificates.k8s.io/v1
kind: CertificateSigningRequest
metadata: {name: %s}
spec:
  signerName: %s
  usages: [digital signature, client auth]
  expirationSeconds: 86400
  request: %s
`, name, signer, base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: asked})))
}

// issued waits for the certificate of a request, in base64.
func issued(c *harness.Cluster, name string) (certificate string) {
	c.T.Helper()
	c.Eventually(30*time.Second, "the certificate "+name+" is issued", func() error {
		certificate = c.Kubectl("get", "csr", name, "-o", "jsonpath={.status.certificate}")
		if certificate == "" {
			return errors.New(c.Kubectl("get", "csr", name))
		}
		return nil
	})
	return certificate
}

func certificateOfAUser(c *harness.Cluster) {
	key, manifest := newKey(c.T, "jane", "kubernetes.io/kube-apiserver-client", pkix.Name{CommonName: "jane", Organization: []string{"dev"}})
	c.Apply(manifest)
	contains(c.T, "a request that waits", c.Kubectl("get", "csr", "jane"), "Pending", "24h")
	c.Tells([]string{"kubectl certificate approve jane"}, "status")
	c.Kubectl("certificate", "approve", "jane")
	jane := as(c, "jane", map[string]string{"client-certificate-data": issued(c, "jane"), "client-key-data": base64.StdEncoding.EncodeToString(key)})
	contains(c.T, "whoami", jane.Kubectl("auth", "whoami"), "jane", "dev", "system:authenticated")
	contains(c.T, "jane has no rights", fails(jane, "", "get", "pods"), `User "jane" cannot list resource "pods"`)
	c.Kubectl("create", "clusterrolebinding", "dev", "--clusterrole=view", "--group=dev")
	c.Eventually(10*time.Second, "jane may look", func() error { _, err := jane.Try("get", "pods"); return err })

	_, manifest = newKey(c.T, "masters", "kubernetes.io/kube-apiserver-client", pkix.Name{CommonName: "eve", Organization: []string{"system:masters"}})
	contains(c.T, "a request for masters", fails(c, manifest, "apply", "-f", "-"), "system:masters group is not allowed")
	_, manifest = newKey(c.T, "wrong", "kubernetes.io/kube-apiserver-client-kubelet", pkix.Name{CommonName: "eve", Organization: []string{"system:nodes"}})
	c.Apply(manifest)
	c.Kubectl("certificate", "approve", "wrong")
	c.Eventually(30*time.Second, "a request that breaks its signer's rules fails", func() error {
		if out := c.Kubectl("get", "csr", "wrong"); !strings.Contains(out, "Approved,Failed") {
			return errors.New(out)
		}
		return nil
	})
	contains(c.T, "why", c.Kubectl("get", "csr", "wrong", "-o", "jsonpath={.status.conditions}"), "SignerValidationFailure", "does not begin with system:node:")
	_, manifest = newKey(c.T, "denied", "kubernetes.io/kube-apiserver-client", pkix.Name{CommonName: "eve"})
	c.Apply(manifest)
	c.Kubectl("certificate", "deny", "denied")
	contains(c.T, "denied", c.Kubectl("get", "csr", "denied"), "Denied")
}

// bootstrapOfANode: a machine that has only a bootstrap token becomes a node.
func bootstrapOfANode(c *harness.Cluster) {
	const token = "abcdef.0123456789abcdef"
	c.Apply(`apiVersion: v1
kind: Secret
metadata: {namespace: kube-system, name: bootstrap-token-abcdef}
type: bootstrap.kubernetes.io/token
stringData:
  token-id: abcdef
  token-secret: 0123456789abcdef
  usage-bootstrap-authentication: "true"
  usage-bootstrap-signing: "true"
  auth-extra-groups: system:bootstrappers:workers
---
apiVersion: v1
kind: ConfigMap
metadata: {namespace: kube-public, name: cluster-info}
data: {kubeconfig: "whatever it is that is signed"}
`)
	machine := as(c, "machine", map[string]string{"token": token})
	contains(c.T, "whoami", machine.Kubectl("auth", "whoami"), "system:bootstrap:abcdef", "system:bootstrappers:workers")
	guess := as(c, "guess", map[string]string{"token": "abcdef.0123456789abcdee"})
	contains(c.T, "a guess", fails(guess, "", "auth", "whoami"), "Unauthorized")

	c.Kubectl("create", "clusterrolebinding", "ask", "--clusterrole=system:node-bootstrapper", "--group=system:bootstrappers")
	key, manifest := newKey(c.T, "joins", "kubernetes.io/kube-apiserver-client-kubelet", pkix.Name{CommonName: "system:node:joins", Organization: []string{"system:nodes"}})
	c.Eventually(10*time.Second, "the machine may ask", func() error {
		out, err := machine.Input(manifest, "create", "-f", "-")
		if err != nil {
			return errors.New(out)
		}
		return nil
	})
	contains(c.T, "nobody lets it in", c.Kubectl("get", "csr", "joins"), "Pending")
	c.Kubectl("create", "clusterrolebinding", "let-in", "--clusterrole=system:certificates.k8s.io:certificatesigningrequests:nodeclient", "--group=system:bootstrappers")
	node := as(c, "node", map[string]string{"client-certificate-data": issued(c, "joins"), "client-key-data": base64.StdEncoding.EncodeToString(key)})
	contains(c.T, "whoami", node.Kubectl("auth", "whoami"), "system:node:joins", "system:nodes")
	contains(c.T, "by whom", c.Kubectl("get", "csr", "joins", "-o", "jsonpath={.status.conditions}"), "AutoApproved")

	c.Eventually(10*time.Second, "cluster-info is signed", func() error {
		if out := c.Kubectl("-n", "kube-public", "get", "configmap", "cluster-info", "-o", "yaml"); !strings.Contains(out, "jws-kubeconfig-abcdef: ey") {
			return errors.New(out)
		}
		return nil
	})
	c.Kubectl("-n", "kube-system", "patch", "secret", "bootstrap-token-abcdef", "-p", `{"stringData":{"expiration":"2020-01-01T00:00:00Z"}}`)
	contains(c.T, "an expired token", fails(machine, "", "auth", "whoami"), "Unauthorized")
	c.Eventually(10*time.Second, "an expired token and its signature are gone", func() error {
		out, err := c.Try("-n", "kube-system", "get", "secret", "bootstrap-token-abcdef")
		if err == nil {
			return errors.New(out)
		}
		if out := c.Kubectl("-n", "kube-public", "get", "configmap", "cluster-info", "-o", "yaml"); strings.Contains(out, "jws-kubeconfig-abcdef") {
			return errors.New(out)
		}
		return nil
	})
}

func tokenInASecret(c *harness.Cluster) {
	c.Kubectl("create", "serviceaccount", "robot")
	c.Apply(`apiVersion: v1
kind: Secret
metadata: {name: robot-token, annotations: {kubernetes.io/service-account.name: robot}}
type: kubernetes.io/service-account-token
`)
	encoded := ""
	c.Eventually(10*time.Second, "the Secret holds a token", func() error {
		if encoded = c.Kubectl("get", "secret", "robot-token", "-o", "jsonpath={.data.token}"); encoded == "" {
			return errors.New("none yet")
		}
		return nil
	})
	token, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		c.T.Fatal(err)
	}
	contains(c.T, "the Secret", c.Kubectl("describe", "secret", "robot-token"), "ca.crt:", "namespace:  7 bytes", "kubernetes.io/service-account.uid:")
	robot := as(c, "robot", map[string]string{"token": string(token)})
	contains(c.T, "whoami", robot.Kubectl("auth", "whoami"), "system:serviceaccount:default:robot", "system:serviceaccounts:default")
	c.Shows([]string{"kubernetes.io/legacy-token-last-used", time.Now().UTC().Format("2006-01")},
		"get", "secret", "robot-token", "-o", "jsonpath={.metadata.labels}")
	c.Kubectl("delete", "serviceaccount", "robot")
	contains(c.T, "a token without its account", fails(robot, "", "auth", "whoami"), "Unauthorized")
	c.Eventually(10*time.Second, "the Secret goes with its account", func() error {
		if out, err := c.Try("get", "secret", "robot-token"); err == nil {
			return errors.New(out)
		}
		return nil
	})
}

// whatLoopsKeep: gathered roles, the authority's bundle, hints to kubelets,
// leases of API servers, rewritten objects, checked policies.
func whatLoopsKeep(c *harness.Cluster) {
	c.Apply(`apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: things-view, labels: {rbac.authorization.k8s.io/aggregate-to-view: "true"}}
rules: [{apiGroups: [example.com], resources: [things], verbs: [get]}]
---
apiVersion: v1
kind: Node
metadata: {name: told}
---
apiVersion: storagemigration.k8s.io/v1
kind: StorageVersionMigration
metadata: {name: maps}
spec: {resource: {group: "", resource: configmaps}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: typo}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments], operations: [CREATE]}]
  validations: [{expression: object.spec.replica < 5}]
`)
	for what, look := range map[string]struct {
		args []string
		want string
	}{
		"a rule for view is admin's as well":   {[]string{"get", "clusterrole", "admin", "-o", "yaml"}, "example.com"},
		"the authority's bundle is published":  {[]string{"get", "clustertrustbundle"}, "kubernetes.io:kube-apiserver-serving:"},
		"nodes know how long to remember":      {[]string{"get", "node", "told", "-o", "jsonpath={.metadata.annotations}"}, `"node.alpha.kubernetes.io/ttl":"0"`},
		"the API server has a lease":           {[]string{"-n", "kube-system", "get", "lease", "-l", "apiserver.kubernetes.io/identity=kube-apiserver"}, "apiserver-"},
		"objects are written anew":             {[]string{"get", "storageversionmigration", "maps", "-o", "jsonpath={.status.conditions[*].type}"}, "Succeeded"},
		"a policy's typing mistake is told":    {[]string{"get", "validatingadmissionpolicy", "typo", "-o", "jsonpath={.status.typeChecking}"}, "undefined field 'replica'"},
		"it is known since when uses are told": {[]string{"-n", "kube-system", "get", "configmap", "kube-apiserver-legacy-service-account-token-tracking", "-o", "jsonpath={.data.since}"}, "20"},
	} {
		c.Eventually(20*time.Second, what, func() error {
			out, err := c.Try(look.args...)
			if err != nil || !strings.Contains(out, look.want) {
				return fmt.Errorf("want %q, got %v %s", look.want, err, out)
			}
			return nil
		})
	}
}
