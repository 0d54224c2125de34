package kubelet_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func (r *rig) configMap(name string, data map[string]string) {
	r.t.Helper()
	cm := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Data: data}
	if _, err := r.client.Create(context.Background(), v1.SchemeGroupVersion.WithResource("configmaps"), cm); err != nil {
		r.t.Fatal(err)
	}
}

// exec runs a command in a container that runs.
func (r *rig) exec(p *v1.Pod, command ...string) string {
	r.t.Helper()
	id := strings.TrimPrefix(p.Status.ContainerStatuses[0].ContainerID, "containerd://")
	resp, err := r.rt.ExecSync(context.Background(), &runtimeapi.ExecSyncRequest{ContainerId: id, Cmd: command, Timeout: 30})
	if err != nil {
		r.t.Fatalf("exec %q: %v", command, err)
	}
	if resp.ExitCode != 0 {
		r.t.Fatalf("exec %q: %d: %s", command, resp.ExitCode, resp.Stderr)
	}
	return string(resp.Stdout)
}

// A startup probe gates the others; readiness comes and goes; liveness
// restarts.
func probes(r *rig) {
	r.pod("probed", `
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: setpoint.test/box:1
    command: [sh, -c, 'mkdir /tmp/www; cd /tmp/www; touch live; httpd -p 8080 -h /tmp/www; while :; do sleep 0.1; done']
    ports: [{name: http, containerPort: 8080}]
    startupProbe: {tcpSocket: {port: http}, periodSeconds: 1, timeoutSeconds: 10, failureThreshold: 60}
    readinessProbe: {httpGet: {path: /ready, port: http}, periodSeconds: 1, timeoutSeconds: 10, failureThreshold: 1}
    livenessProbe: {exec: {command: [test, -f, /tmp/www/live]}, periodSeconds: 1, failureThreshold: 2, timeoutSeconds: 30}
`)
	p := r.await("probed", "started", func(p *v1.Pod) bool {
		return p != nil && len(p.Status.ContainerStatuses) > 0 && p.Status.ContainerStatuses[0].Started != nil && *p.Status.ContainerStatuses[0].Started
	})
	if ready(p) {
		r.t.Errorf("ready without its file: %+v", p.Status)
	}
	r.wait("Unhealthy event", func() bool {
		return strings.Contains(strings.Join(r.events("probed"), "\n"), "Unhealthy: Readiness probe failed: HTTP probe failed with statuscode: 404")
	})
	r.exec(p, "touch", "/tmp/www/ready")
	p = r.await("probed", "ready", ready)
	r.exec(p, "rm", "/tmp/www/ready")
	p = r.await("probed", "unready", func(p *v1.Pod) bool { return !ready(p) })
	if p.Status.Phase != v1.PodRunning {
		r.t.Errorf("phase is %s", p.Status.Phase)
	}
	r.exec(p, "rm", "/tmp/www/live")
	p = r.await("probed", "restarted", func(p *v1.Pod) bool {
		return p.Status.ContainerStatuses[0].RestartCount == 1 && p.Status.ContainerStatuses[0].State.Running != nil
	})
	r.wait("Killing event", func() bool {
		return strings.Contains(strings.Join(r.events("probed"), "\n"), "Killing: Container main failed liveness probe, will be restarted")
	})
	zero := int64(0)
	r.delete("probed", &zero)
	r.await("probed", "gone", gone)
}

func hooks(r *rig) {
	r.pod("hooked", `
spec:
  terminationGracePeriodSeconds: 20
  volumes: [{name: v, hostPath: {path: `+r.t.(interface{ TempDir() string }).TempDir()+`, type: Directory}}]
  containers:
  - name: main
    image: setpoint.test/box:1
    command: [sh, -c, 'trap "echo term >> /v/f; exit 0" TERM; while :; do sleep 0.1; done']
    volumeMounts: [{name: v, mountPath: /v}]
    lifecycle:
      postStart: {exec: {command: [sh, -c, 'echo start >> /v/f']}}
      preStop: {exec: {command: [sh, -c, 'echo stop >> /v/f']}}
`)
	p := r.await("hooked", "ready", ready)
	dir := p.Spec.Volumes[0].HostPath.Path
	r.delete("hooked", nil)
	r.await("hooked", "gone", gone)
	if b, err := os.ReadFile(filepath.Join(dir, "f")); err != nil || string(b) != "start\nstop\nterm\n" {
		r.t.Errorf("hooks wrote %q (%v)", b, err)
	}
}

func volumes(r *rig) {
	r.configMap("conf", map[string]string{"a": "1", "b": "2"})
	secret := &v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "sec"}, Data: map[string][]byte{"k": []byte("hidden")}}
	if _, err := r.client.Create(context.Background(), v1.SchemeGroupVersion.WithResource("secrets"), secret); err != nil {
		r.t.Fatal(err)
	}
	r.pod("vols", `
metadata: {labels: {app: vols}}
spec:
  terminationGracePeriodSeconds: 1
  serviceAccountName: robot
  securityContext: {fsGroup: 1234}
  volumes:
  - {name: conf, configMap: {name: conf, defaultMode: 0440, items: [{key: a, path: sub/a}]}}
  - {name: sec, secret: {secretName: sec}}
  - {name: mem, emptyDir: {medium: Memory, sizeLimit: 1Mi}}
  - {name: disk, emptyDir: {}}
  - name: all
    projected:
      sources:
      - {configMap: {name: conf}}
      - {secret: {name: none, optional: true}}
      - {serviceAccountToken: {path: token, expirationSeconds: 3600, audience: them}}
      - {downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: metadata.labels}}]}}
  containers:
  - name: main
    image: setpoint.test/box:1
    command: [sh, -c, `+forever+`]
    volumeMounts:
    - {name: conf, mountPath: /conf}
    - {name: sec, mountPath: /sec}
    - {name: mem, mountPath: /mem}
    - {name: disk, mountPath: /disk}
    - {name: disk, mountPath: /sub, subPath: deep/er}
    - {name: conf, mountPath: /one, subPath: sub/a}
    - {name: all, mountPath: /all}
`)
	p := r.await("vols", "ready", ready)
	got := r.exec(p, "sh", "-c", `cat /conf/sub/a; echo; cat /sec/k; echo; cat /all/b; echo; cat /all/token; echo; cat /all/labels; echo; cat /one; echo; `+
		`stat -c %a /conf/..data/sub/a; stat -c %g /disk; grep -c " /mem tmpfs" /proc/mounts; df -k /mem | tail -1 | awk '{print $2}'; touch /sub/x; ls /disk/deep/er`)
	want := "1\nhidden\n2\ntoken of robot for [them]\napp=\"vols\"\n1\n440\n1234\n1\n1024\nx\n"
	if got != want {
		r.t.Errorf("volumes show\n%s\nwant\n%s", got, want)
	}
	o, err := r.client.Get(context.Background(), v1.SchemeGroupVersion.WithResource("configmaps"), "default", "conf")
	if err != nil {
		r.t.Fatal(err)
	}
	cm := o.(*v1.ConfigMap).DeepCopy()
	cm.Data["a"] = "changed"
	if _, err := r.client.Update(context.Background(), v1.SchemeGroupVersion.WithResource("configmaps"), cm); err != nil {
		r.t.Fatal(err)
	}
	r.wait("the change is in the volume", func() bool { return r.exec(p, "cat", "/conf/sub/a") == "changed" })
	r.delete("vols", nil)
	r.await("vols", "gone", gone)
	r.leftNothing(p)

	r.pod("novol", `
spec:
  volumes: [{name: conf, configMap: {name: nosuch}}]
  containers:
  - {name: main, image: setpoint.test/box:1}
`)
	r.wait("FailedMount event", func() bool {
		return strings.Contains(strings.Join(r.events("novol"), "\n"), `FailedMount: MountVolume.SetUp failed for volume "conf" : configmaps "nosuch" not found`)
	})
	if p := r.get("novol"); p.Status.Phase != v1.PodPending || !waiting("ContainerCreating")(p) {
		r.t.Errorf("status is %+v", p.Status)
	}
	r.delete("novol", nil)
	r.await("novol", "gone", gone)
}

func environment(r *rig) {
	r.configMap("vars", map[string]string{"A": "1"})
	svc := &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "my-svc"},
		Spec: v1.ServiceSpec{ClusterIP: "10.0.0.5", ClusterIPs: []string{"10.0.0.5"}, Ports: []v1.ServicePort{{Name: "p", Port: 80, Protocol: v1.ProtocolTCP}}}}
	if _, err := r.client.Create(context.Background(), v1.SchemeGroupVersion.WithResource("services"), svc); err != nil {
		r.t.Fatal(err)
	}
	r.pod("env", `
spec:
  restartPolicy: Never
  hostAliases: [{ip: 1.2.3.4, hostnames: [far.example]}]
  containers:
  - name: main
    image: setpoint.test/box:1
    command: [sh, -c, 'echo $PRE_A,$B,$MY_SVC_SERVICE_HOST,$MY_SVC_PORT_80_TCP,$IP,$LIM; hostname; grep -c -e far.example -e $(IP) /etc/hosts']
    resources: {limits: {cpu: 1500m}, requests: {cpu: 10m}}
    envFrom: [{prefix: PRE_, configMapRef: {name: vars}}]
    env:
    - {name: B, value: '$(PRE_A)2$$(X)'}
    - {name: IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
    - {name: LIM, valueFrom: {resourceFieldRef: {resource: limits.cpu, divisor: "1"}}}
`)
	p := r.await("env", "Succeeded", phase(v1.PodSucceeded))
	want := "1,12$(X),10.0.0.5,tcp://10.0.0.5:80," + p.Status.PodIP + ",2\nenv\n2\n"
	if got := r.log(p, "main", 0); got != want {
		r.t.Errorf("wrote %q, want %q", got, want)
	}
}

func security(r *rig) {
	r.pod("secure", `
spec:
  restartPolicy: Never
  securityContext: {runAsUser: 1000, runAsGroup: 2000, supplementalGroups: [3000], seccompProfile: {type: RuntimeDefault}}
  containers:
  - name: main
    image: setpoint.test/box:1
    command: [sh, -c, 'id -u; id -g; id -G; grep -e NoNewPrivs -e CapEff -e Seccomp: /proc/self/status | tr -d "\t"; touch /x 2>&1']
    securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
`)
	p := r.await("secure", "ended", func(p *v1.Pod) bool { return phase(v1.PodFailed)(p) || phase(v1.PodSucceeded)(p) })
	want := "1000\n2000\n2000 3000\nCapEff:0000000000000000\nNoNewPrivs:1\nSeccomp:2\ntouch: /x: Read-only file system\n"
	if got := r.log(p, "main", 0); got != want {
		r.t.Errorf("wrote %q, want %q", got, want)
	}
	r.pod("noroot", `
spec:
  containers:
  - name: main
    image: setpoint.test/box:1
    securityContext: {runAsNonRoot: true}
`)
	p = r.await("noroot", "CreateContainerConfigError", waiting("CreateContainerConfigError"))
	if m := p.Status.ContainerStatuses[0].State.Waiting.Message; !strings.HasPrefix(m, "container has runAsNonRoot and image will run as root (pod:") {
		r.t.Errorf("message is %q", m)
	}
	r.delete("noroot", nil)
	r.await("noroot", "gone", gone)
}

// Another kubelet takes over the very containers that run, and says the same
// of them; pods deleted meanwhile are taken away.
func takeOver(r *rig) {
	spec := `
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - {name: main, image: setpoint.test/box:1, command: [sh, -c, ` + forever + `], readinessProbe: {exec: {command: ["true"]}, timeoutSeconds: 10}}
`
	r.pod("stays", spec)
	goes := r.pod("goes", spec)
	r.pod("killed", spec)
	before := r.await("stays", "ready", ready)
	r.await("goes", "ready", ready)
	killed := r.await("killed", "ready", ready)
	r.halt()
	zero := int64(0)
	r.delete("goes", &zero)
	if _, err := r.rt.StopContainer(context.Background(), &runtimeapi.StopContainerRequest{
		ContainerId: strings.TrimPrefix(killed.Status.ContainerStatuses[0].ContainerID, "containerd://")}); err != nil {
		r.t.Fatal(err)
	}
	r.start()
	r.wait("what was deleted is gone", func() bool {
		_, err := os.Stat(filepath.Join(r.opts.RootDir, "pods", string(goes.UID)))
		return os.IsNotExist(err)
	})
	r.await("killed", "restarted", func(p *v1.Pod) bool { return ready(p) && p.Status.ContainerStatuses[0].RestartCount == 1 })
	after := r.get("stays")
	if after.ResourceVersion != before.ResourceVersion {
		r.t.Errorf("the kubelet changed the pod from\n%+v\nto\n%+v", before.Status, after.Status)
	}
	if resp, err := r.rt.ContainerStatus(context.Background(), &runtimeapi.ContainerStatusRequest{
		ContainerId: strings.TrimPrefix(before.Status.ContainerStatuses[0].ContainerID, "containerd://")}); err != nil || resp.Status.State != runtimeapi.ContainerState_CONTAINER_RUNNING {
		r.t.Errorf("the container: %v %v", resp, err)
	}
	for _, n := range []string{"stays", "killed"} {
		r.delete(n, nil)
		r.await(n, "gone", gone)
	}
}
