package kubelet_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"

	"github.com/setpoint-project/setpoint/internal/pki"
)

const node = "https://127.0.0.1:10250"

// as is how somebody with a pair reaches the kubelet.
func (r *rig) as(issue func() (*pki.Pair, error)) *rest.Config {
	r.t.Helper()
	pair, err := issue()
	if err != nil {
		r.t.Fatal(err)
	}
	return &rest.Config{Host: node, TLSClientConfig: rest.TLSClientConfig{Insecure: true, CertData: pair.CertPEM, KeyData: pair.KeyPEM}}
}

func httpFor(r *rig, c *rest.Config) *http.Client {
	r.t.Helper()
	h, err := rest.HTTPClientFor(c)
	if err != nil {
		r.t.Fatal(err)
	}
	return h
}

func serve(r *rig) {
	t := r.t
	r.pod("served", `
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: setpoint.test/box:1
    stdin: true
    command: [sh, -c, 'echo one; echo two; mkdir /tmp/w; echo page > /tmp/w/index.html; httpd -p 8080 -h /tmp/w; while read x; do echo got $x; done; while :; do sleep 0.1; done']
`)
	p := r.await("served", "ready", ready)
	r.logged(p, "main", 0, "two\n")
	config := r.as(r.pki.KubeletClient)
	hc := httpFor(r, config)
	get := func(c *http.Client, path string) (int, string) {
		resp, err := c.Get(node + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(b)
	}
	for path, want := range map[string]string{
		"/healthz":                           "ok",
		"/containerLogs/default/served/main": "one\ntwo\n",
		"/containerLogs/default/served/main?tailLines=1": "two\n",
	} {
		if code, got := get(hc, path); code != 200 || got != want {
			t.Errorf("%s: %d %q, want %q", path, code, got, want)
		}
	}
	for path, want := range map[string]int{
		"/containerLogs/default/served/none":               404,
		"/containerLogs/default/none/main":                 404,
		"/containerLogs/default/served/main?previous=true": 400,
		"/pods": 200, "/stats/summary": 200, "/metrics/resource": 200,
	} {
		if code, got := get(hc, path); code != want {
			t.Errorf("%s: %d %q, want %d", path, code, got, want)
		}
	}
	nobody := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	if code, _ := get(nobody, "/pods"); code != 401 {
		t.Errorf("without a certificate: %d, want 401", code)
	}
	other := r.as(func() (*pki.Pair, error) { return r.pki.Node("n2") })
	if code, _ := get(httpFor(r, other), "/pods"); code != 403 {
		t.Errorf("as another node: %d, want 403", code)
	}
	r.execute(config)
	r.forward(config)
	r.follow(hc, p)
	r.delete("served", nil)
	r.await("served", "gone", gone)
}

func (r *rig) spdy(config *rest.Config) (http.RoundTripper, spdy.Upgrader) {
	r.t.Helper()
	rt, up, err := spdy.RoundTripperFor(config)
	if err != nil {
		r.t.Fatal(err)
	}
	return rt, up
}

func (r *rig) execute(config *rest.Config) {
	rt, up := r.spdy(config)
	u, _ := url.Parse(node + "/exec/default/served/main?command=sh&command=-c&command=read+x%3B+echo+got+$x%3B+echo+err+>%262%3B+exit+3&input=1&output=1&error=1")
	e, err := remotecommand.NewSPDYExecutorForTransports(rt, up, "POST", u)
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	in, write := io.Pipe()
	defer write.Close()
	go write.Write([]byte("word\n"))
	var stdout, stderr bytes.Buffer
	err = e.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: in, Stdout: &stdout, Stderr: &stderr})
	if stdout.String() != "got word\n" || stderr.String() != "err\n" || err == nil || !strings.Contains(err.Error(), "exit code 3") {
		r.t.Errorf("exec: %q, %q, %v", stdout.String(), stderr.String(), err)
	}
}

// forward fetches a page through port-forward.
func (r *rig) forward(config *rest.Config) {
	rt, up := r.spdy(config)
	u, _ := url.Parse(node + "/portForward/default/served")
	dialer := spdy.NewDialer(up, &http.Client{Transport: rt}, "POST", u)
	stop, readyc := make(chan struct{}), make(chan struct{})
	fw, err := portforward.NewOnAddresses(dialer, []string{"127.0.0.1"}, []string{"0:8080"}, stop, readyc, io.Discard, io.Discard)
	if err != nil {
		r.t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- fw.ForwardPorts() }()
	select {
	case <-readyc:
	case err := <-done:
		r.t.Fatalf("port-forward: %v", err)
	case <-time.After(patience):
		r.t.Fatal("port-forward: not ready")
	}
	ports, err := fw.GetPorts()
	if err != nil {
		r.t.Fatal(err)
	}
	resp, err := (&http.Client{Timeout: patience}).Get("http://127.0.0.1:" + strconv.Itoa(int(ports[0].Local)) + "/index.html")
	if err != nil {
		r.t.Fatal(err)
	}
	b, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if string(b) != "page\n" {
		r.t.Errorf("through port-forward: %q", b)
	}
	close(stop)
	<-done
}

// follow follows a log while attach makes the container write.
func (r *rig) follow(hc *http.Client, p *v1.Pod) {
	resp, err := hc.Get(node + "/containerLogs/default/served/main?follow=true&tailLines=0")
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	rt, up := r.spdy(r.as(r.pki.KubeletClient))
	u, _ := url.Parse(node + "/attach/default/served/main?input=1&output=1")
	e, err := remotecommand.NewSPDYExecutorForTransports(rt, up, "POST", u)
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	in, write := io.Pipe()
	defer write.Close()
	go e.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: in, Stdout: io.Discard})
	if _, err := write.Write([]byte("word\n")); err != nil {
		r.t.Fatal(err)
	}
	buf := make([]byte, len("got word\n"))
	if _, err := io.ReadFull(resp.Body, buf); err != nil || string(buf) != "got word\n" {
		r.t.Errorf("followed %q, %v", buf, err)
	}
}
