package nodeproxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	restclient "k8s.io/client-go/rest"
	toolsportforward "k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	utilexec "k8s.io/client-go/util/exec"
	"k8s.io/streaming/pkg/httpstream"
	streamingspdy "k8s.io/streaming/pkg/httpstream/spdy"
)

func TestLogs(t *testing.T) {
	f := newFixture(t)
	for _, tc := range []struct {
		path string
		code int
		body string
		asks string // of the kubelet
	}{
		{"pods/x/log", 200, "line 0\nline 1\nline 2\n", "GET /containerLogs/web/x/main"},
		{"pods/x/log?follow=true&tailLines=5&timestamps=1&sinceSeconds=3&limitBytes=9&previous", 200, "line 0",
			"GET /containerLogs/web/x/main?follow=true&limitBytes=9&previous=true&sinceSeconds=3&tailLines=5&timestamps=true"},
		{"pods/many/log?container=init", 200, "line 0", "GET /containerLogs/web/many/init"},
		{"pods/many/log?container=broken", 400, `container \"broken\" in pod \"x\" is waiting to start: ContainerCreating`, "GET /containerLogs/web/many/broken"},
		{"pods/many/log", 400, `a container name must be specified for pod many, choose one of: [a broken] or one of the init containers: [init]`, ""},
		{"pods/many/log?container=none", 400, "container none is not valid for pod many", ""},
		{"pods/none/log", 404, `pods \"none\" not found`, ""},
		{"pods/pending/log", 200, "", ""},
		{"pods/x/log?tailLines=-1", 422, `PodLogOptions \"x\" is invalid: tailLines: Invalid value: -1: must be greater than or equal to 0`, ""},
		{"pods/x/log?sinceSeconds=1&sinceTime=2020-01-01T00:00:00Z", 422, "at most one of `sinceTime` or `sinceSeconds`", ""},
		{"pods/x/log?sinceTime=yesterday", 422, "sinceTime", ""},
		{"pods/x/log?stream=Both", 422, "Unsupported value", ""},
	} {
		f.kubelet.requests = nil
		code, body := f.get(t, "/api/v1/namespaces/web/"+tc.path)
		if code != tc.code || !strings.Contains(body, tc.body) || f.lastRequest() != tc.asks {
			t.Errorf("%s: %d %q asking %q,\nwant %d %q asking %q", tc.path, code, body, f.lastRequest(), tc.code, tc.body, tc.asks)
		}
	}
}

// executors are the ways in which clients run commands.
func executors(t *testing.T, f *fixture, pod, query string) map[string]remotecommand.Executor {
	t.Helper()
	at := f.url + "/api/v1/namespaces/web/pods/" + pod + "?" + query
	conf := &restclient.Config{}
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]remotecommand.Executor{}
	add := func(name string, e remotecommand.Executor, err error) {
		if err != nil {
			t.Fatal(err)
		}
		out[name] = e
	}
	ws, err := remotecommand.NewWebSocketExecutor(conf, "GET", at)
	add("WebSocket v5", ws, err)
	old, err := remotecommand.NewWebSocketExecutorForProtocols(conf, "GET", at, "v4.channel.k8s.io")
	add("WebSocket v4", old, err)
	sp, err := remotecommand.NewSPDYExecutor(conf, "POST", u)
	add("SPDY", sp, err)
	return out
}

type oneSize struct{ sent bool }

func (s *oneSize) Next() *remotecommand.TerminalSize {
	if s.sent {
		return nil
	}
	s.sent = true
	return &remotecommand.TerminalSize{Width: 80, Height: 24}
}

func TestExec(t *testing.T) {
	f := newFixture(t)
	large := strings.Repeat("0123456789abcdef", 64<<10) // a megabyte
	for _, tc := range []struct {
		name, query  string
		stdin        string
		tty          bool
		stdout, want string // want is on standard error
		exit         int
		not          string // executor that cannot do it
	}{
		{name: "both", query: "command=both&stdout=true&stderr=true", stdout: "to out", want: "to err"},
		{name: "stdin", query: "command=cat&stdin=true&stdout=true", stdin: "hello", stdout: "hello", not: "WebSocket v4"}, // v4 cannot end stdin
		{name: "large", query: "command=cat&stdin=true&stdout=true", stdin: large, stdout: large, not: "WebSocket v4"},
		{name: "exit", query: "command=exit&stdout=true", exit: 7},
		{name: "tty", query: "command=size&stdin=true&stdout=true&tty=true", tty: true, stdout: "80x24"},
	} {
		for kind, e := range executors(t, f, "x/exec", tc.query) {
			if kind == tc.not {
				continue
			}
			t.Run(tc.name+"/"+kind, func(t *testing.T) {
				var stdout, stderr bytes.Buffer
				opts := remotecommand.StreamOptions{Stdout: &stdout, Tty: tc.tty}
				if strings.Contains(tc.query, "stdin") {
					opts.Stdin = strings.NewReader(tc.stdin)
				}
				if strings.Contains(tc.query, "stderr") {
					opts.Stderr = &stderr
				}
				if tc.tty {
					opts.TerminalSizeQueue = &oneSize{}
				}
				err := e.StreamWithContext(t.Context(), opts)
				var exit utilexec.CodeExitError
				if errors.As(err, &exit) && exit.Code == tc.exit {
					err = nil
				} else if tc.exit != 0 {
					t.Errorf("got %v, want exit code %d", err, tc.exit)
				}
				if err != nil {
					t.Fatal(err)
				}
				if stdout.String() != tc.stdout || stderr.String() != tc.want {
					t.Errorf("got %d bytes %.40q and %.40q, want %d bytes %.40q and %.40q", stdout.Len(), stdout.String(), stderr.String(), len(tc.stdout), tc.stdout, tc.want)
				}
			})
		}
	}
}

func TestAttach(t *testing.T) {
	f := newFixture(t)
	for kind, e := range executors(t, f, "x/attach", "stdout=true") {
		var stdout bytes.Buffer
		if err := e.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdout: &stdout}); err != nil || stdout.String() != "attached" {
			t.Errorf("%s: %q, %v", kind, stdout.String(), err)
		}
	}
}

func TestExecRefused(t *testing.T) {
	f := newFixture(t)
	for _, tc := range []struct{ pod, query, want string }{
		{"none/exec", "command=cat&stdout=true", `pods "none" not found`},
		{"pending/exec", "command=cat&stdout=true", "pod pending does not have a host assigned"},
		{"many/exec", "command=cat&stdout=true", "a container name must be specified for pod many"},
		{"x/exec", "command=cat", "you must specify at least 1 of stdin, stdout, stderr"},
		{"x/exec", "command=refused&stdout=true", "container not found"},
	} {
		for kind, e := range executors(t, f, tc.pod, tc.query) {
			err := e.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdout: io.Discard})
			if err == nil {
				t.Errorf("%s %s?%s: no error", kind, tc.pod, tc.query)
				continue
			}
			// client-go tells what the server said in SPDY only.
			if kind == "SPDY" && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s %s?%s: %v, want %q", kind, tc.pod, tc.query, err, tc.want)
			}
			if kind != "SPDY" && !httpstream.IsUpgradeFailure(err) {
				t.Errorf("%s %s?%s: %v is no failed upgrade, so clients would not fall back", kind, tc.pod, tc.query, err)
			}
		}
	}
	if code, body := f.get(t, "/api/v1/namespaces/web/pods/x/exec?command=cat&stdout=true"); code != 400 || !strings.Contains(body, "Upgrade request required") {
		t.Errorf("without upgrade: %d %s", code, body)
	}
}

// A client that goes away takes the stream with it.
func TestClientGoesAway(t *testing.T) {
	f := newFixture(t)
	for kind, e := range executors(t, f, "x/exec", "command=cat&stdin=true&stdout=true") {
		ctx, cancel := context.WithCancel(t.Context())
		in, feed := io.Pipe()
		seen := make(chan struct{})
		done := make(chan error, 1)
		go func() {
			done <- e.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: in, Stdout: notify{seen}})
		}()
		fmt.Fprint(feed, "x")
		<-seen
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", kind, err)
		}
		feed.Close()
	}
}

type notify struct{ c chan struct{} }

func (n notify) Write(b []byte) (int, error) {
	if len(b) > 0 {
		n.c <- struct{}{}
	}
	return len(b), nil
}

func TestPortForward(t *testing.T) {
	f := newFixture(t)
	u, err := url.Parse(f.url + "/api/v1/namespaces/web/pods/x/portforward")
	if err != nil {
		t.Fatal(err)
	}
	tunneled, err := toolsportforward.NewSPDYOverWebsocketDialerForStreaming(u, &restclient.Config{})
	if err != nil {
		t.Fatal(err)
	}
	transport, err := streamingspdy.NewRoundTripperWithConfig(streamingspdy.RoundTripperConfig{})
	if err != nil {
		t.Fatal(err)
	}
	plain := spdy.NewDialerForStreaming(spdy.NewUpgraderForStreaming(transport), &http.Client{Transport: transport}, "POST", u)
	for kind, dialer := range map[string]httpstream.Dialer{"tunnel": tunneled, "SPDY": plain} {
		t.Run(kind, func(t *testing.T) {
			conn, _, err := dialer.Dial("portforward.k8s.io")
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			for port := 8080; port < 8083; port++ {
				if got := forwardOnce(t, conn, port); got != fmt.Sprintf("%d says hello", port) {
					t.Errorf("got %q", got)
				}
			}
		})
	}
	u.Path = strings.Replace(u.Path, "/x/", "/pending/", 1)
	tunneled, err = toolsportforward.NewSPDYOverWebsocketDialerForStreaming(u, &restclient.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := tunneled.Dial("portforward.k8s.io"); !httpstream.IsUpgradeFailure(err) {
		t.Errorf("to a pod without node: %v", err)
	}
}

func forwardOnce(t *testing.T, conn httpstream.Connection, port int) string {
	t.Helper()
	h := http.Header{}
	h.Set(corev1.PortHeader, fmt.Sprint(port))
	h.Set(corev1.PortForwardRequestIDHeader, fmt.Sprint(port))
	h.Set(corev1.StreamType, corev1.StreamTypeError)
	failures, err := conn.CreateStream(h)
	if err != nil {
		t.Fatal(err)
	}
	failures.Close()
	h.Set(corev1.StreamType, corev1.StreamTypeData)
	data, err := conn.CreateStream(h)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(data, "hello")
	got, err := io.ReadAll(data)
	if err != nil {
		t.Fatal(err)
	}
	if text, _ := io.ReadAll(failures); len(text) > 0 {
		t.Errorf("port %d: %s", port, text)
	}
	conn.RemoveStreams(data, failures)
	return string(got)
}

func TestNodeProxy(t *testing.T) {
	f := newFixture(t)
	for path, want := range map[string]string{
		"/api/v1/nodes/n1/proxy/configz?a=b%20c": "/configz?a=b%20c of kubelet",
		"/api/v1/nodes/n1/proxy/":                "/ of kubelet",
		"/api/v1/nodes/n1/proxy":                 "/ of kubelet",
		"/api/v1/nodes/n1/proxy/a%2Fb/proxy/c":   "/a%2Fb/proxy/c of kubelet",
	} {
		if code, body := f.get(t, path); code != 200 || body != want {
			t.Errorf("%s: %d %q, want %q", path, code, body, want)
		}
	}
	if code, body := f.get(t, "/api/v1/nodes/none/proxy/"); code != 404 || !strings.Contains(body, `nodes \"none\" not found`) {
		t.Errorf("a node that is not there: %d %s", code, body)
	}
	f.w["nodes//n2"] = &corev1.Node{ObjectMeta: meta("", "n2"), Status: f.w["nodes//n1"].(*corev1.Node).Status}
	if code, body := f.get(t, "/api/v1/nodes/n2/proxy/"); code != 500 || !strings.Contains(body, "n2") {
		t.Errorf("a kubelet with another node's certificate: %d %s, want it refused", code, body)
	}
}

func TestPodAndServiceProxy(t *testing.T) {
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "app got %s", r.URL.RequestURI())
	}))
	defer app.Close()
	_, port, _ := strings.Cut(strings.TrimPrefix(app.URL, "http://"), ":")
	f := newFixture(t)
	// Loopback is refused: it would be the API server's own machine.
	x := f.w["pods/web/x"].(*corev1.Pod)
	x.Status.PodIP = "127.0.0.1"
	for _, path := range []string{"pods/x:" + port + "/proxy/", "pods/none:80/proxy/", "pods/a:b:c:d/proxy/", "services/s/proxy/"} {
		if code, _ := f.get(t, "/api/v1/namespaces/web/"+path); code != 400 && code != 404 {
			t.Errorf("%s: %d", path, code)
		}
	}
	number := int32(80)
	var portNumber int32
	fmt.Sscan(port, &portNumber)
	name := "http"
	f.w["services/web/s"] = &corev1.Service{ObjectMeta: meta("web", "s"), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: number}}}}
	code, body := f.get(t, "/api/v1/namespaces/web/services/s:http/proxy/")
	if code != 503 || !strings.Contains(body, `no endpoints available for service \"s\"`) {
		t.Errorf("without endpoints: %d %s", code, body)
	}
	code, body = f.get(t, "/api/v1/namespaces/web/services/s:ftp/proxy/")
	if code != 503 || !strings.Contains(body, `no service port \"ftp\" found for service \"s\"`) {
		t.Errorf("unknown port: %d %s", code, body)
	}
	slice := &discoveryv1.EndpointSlice{ObjectMeta: meta("web", "s-1"), AddressType: "IPv4",
		Ports: []discoveryv1.EndpointPort{{Name: &name, Port: &portNumber}}, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.9.8.7"}}}}
	slice.Labels = map[string]string{discoveryv1.LabelServiceName: "s"}
	f.w["endpointslices/web/s-1"] = slice
	p := New(Config{Get: f.w.get, List: f.w.list})
	for _, asked := range []string{"http", "80", ""} {
		svc := f.w["services/web/s"].(*corev1.Service)
		pn, err := servicePort(svc, asked)
		if err != nil {
			t.Fatal(err)
		}
		if host, err := p.endpoint(t.Context(), svc, pn); err != nil || host != "10.9.8.7:"+port {
			t.Errorf("port %q: %s, %v", asked, host, err)
		}
	}
}

// A kubelet is asked on the API server's own behalf; one in this process
// answers in its place, to clients as well.
func TestAsk(t *testing.T) {
	f := newFixture(t)
	node := f.w["nodes//n1"].(*corev1.Node)
	if got, err := f.proxy.Ask(t.Context(), node, "/stats/summary"); err != nil || string(got) != "/stats/summary of kubelet" {
		t.Errorf("%v, %s", err, got)
	}
	if _, err := f.proxy.Ask(t.Context(), node, "/containerLogs/web/x/broken"); err == nil {
		t.Error("a refusal is no answer")
	}
	f.local = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/none" {
			http.Error(w, "there is none", http.StatusNotFound)
			return
		}
		fmt.Fprintf(w, "%s here", r.URL.RequestURI())
	})
	if got, err := f.proxy.Ask(t.Context(), node, "/metrics/resource"); err != nil || string(got) != "/metrics/resource here" {
		t.Errorf("%v, %s", err, got)
	}
	if _, err := f.proxy.Ask(t.Context(), node, "/none"); err == nil || !strings.Contains(err.Error(), "there is none") {
		t.Errorf("a refusal here: %v", err)
	}
	if code, got := f.get(t, "/api/v1/nodes/n1/proxy/stats/summary?a=b"); code != 200 || got != "/stats/summary?a=b here" {
		t.Errorf("%d %s", code, got)
	}
	// Beyond what it answers nobody connects to its node, whose addresses may
	// be a stranger's.
	f.proxy.kubelets.CloseIdleConnections()
	f.kubelet.requests = nil
	const nobody = "node n1 is simulated"
	for _, path := range []string{"namespaces/web/pods/x/log", "nodes/n1:80/proxy/"} {
		if code, got := f.get(t, "/api/v1/"+path); code < 500 || !strings.Contains(got, nobody) {
			t.Errorf("%s: %d %s", path, code, got)
		}
	}
	for name, e := range executors(t, f, "x/exec", "command=ls&stdout=true") {
		if err := e.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdout: io.Discard}); err == nil || name == "SPDY" && !strings.Contains(err.Error(), nobody) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if asked := f.lastRequest(); asked != "" {
		t.Errorf("the node is asked %s", asked)
	}
}
