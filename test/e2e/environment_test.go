package e2e

import (
	"fmt"

	"github.com/setpoint-project/setpoint/test/e2e/harness"
)

// testEnvironment: where the variables of a container come from.
func testEnvironment(c *harness.Cluster, image string) {
	c.Apply(`
apiVersion: v1
kind: ConfigMap
metadata: {name: env}
data: {COLOR: blue, key: value}
---
apiVersion: v1
kind: Secret
metadata: {name: env}
stringData: {PASSWORD: s3cret}
---
apiVersion: v1
kind: Service
metadata: {name: env-service}
spec: {ports: [{port: 81, name: web}], selector: {app: none}}
`)
	ip := clusterIP(c, "env-service")
	c.Apply(onePod("environment", image, "", `
    command: [sh, -c, 'echo "args $0 $1"; env; sleep 1000000', $(A)-arg, $$(A)],
    resources: {limits: {cpu: 500m, memory: 64Mi}, requests: {cpu: 100m}},
    envFrom: [{prefix: P_, configMapRef: {name: env}}, {secretRef: {name: env}}, {configMapRef: {name: nope, optional: true}}],
    env: [
      {name: A, value: x}, {name: B, value: $(A)/y}, {name: C, value: $$(A)}, {name: D, value: $(NOT_THERE)},
      {name: FROM_SERVICE, value: "$(ENV_SERVICE_SERVICE_HOST)"},
      {name: NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}},
      {name: LABEL, valueFrom: {fieldRef: {fieldPath: "metadata.labels['app']"}}},
      {name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}},
      {name: IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}},
      {name: CPU, valueFrom: {resourceFieldRef: {resource: limits.cpu, divisor: 1m}}},
      {name: CPUS, valueFrom: {resourceFieldRef: {resource: limits.cpu}}},
      {name: MEMORY, valueFrom: {resourceFieldRef: {resource: limits.memory, divisor: 1Mi}}},
      {name: SECRET, valueFrom: {secretKeyRef: {name: env, key: PASSWORD}}},
      {name: KEY, valueFrom: {configMapKeyRef: {name: env, key: key}}},
      {name: NONE, valueFrom: {configMapKeyRef: {name: env, key: nope, optional: true}}}]`))
	ready(c, "environment")
	p := pod(c, "environment")
	wants := []string{"args x-arg $(A)", "A=x", "B=x/y", "C=$(A)", "D=$(NOT_THERE)", "FROM_SERVICE=" + ip,
		"NAME=environment", "LABEL=environment", "NODE=" + p.Spec.NodeName, "IP=" + p.Status.PodIP, "CPU=500", "CPUS=1", "MEMORY=64",
		"SECRET=s3cret", "KEY=value", "P_COLOR=blue", "P_key=value", "PASSWORD=s3cret", "HOSTNAME=environment",
		"KUBERNETES_SERVICE_HOST=" + clusterIP(c, "kubernetes"), "KUBERNETES_SERVICE_PORT=443",
		"ENV_SERVICE_SERVICE_HOST=" + ip, "ENV_SERVICE_SERVICE_PORT_WEB=81", fmt.Sprintf("ENV_SERVICE_PORT_81_TCP=tcp://%s:81", ip)}
	for i := range wants[1:] {
		wants[i+1] = "\n" + wants[i+1] + "\n"
	}
	c.Shows(wants, "logs", "environment")
}
