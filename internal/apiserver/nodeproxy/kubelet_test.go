package nodeproxy

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"

	"github.com/setpoint-project/setpoint/internal/apiserver/authn"
	"github.com/setpoint-project/setpoint/internal/apiserver/authz"
	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/pki"
)

// world is the objects that exist, by "resource/namespace/name".
type world map[string]client.Object

func (w world) get(_ context.Context, res client.Resource, ns, name string) (client.Object, error) {
	if o := w[res.Resource+"/"+ns+"/"+name]; o != nil {
		return o, nil
	}
	return nil, apierrors.NewNotFound(res.GroupResource(), name)
}

func (w world) list(_ context.Context, res client.Resource, ns string) (out []client.Object, err error) {
	for key, o := range w {
		if strings.HasPrefix(key, res.Resource+"/"+ns+"/") {
			out = append(out, o)
		}
	}
	return out, nil
}

// kubelet is the server that a container runtime uses for its streams, behind
// the paths of a kubelet. It lets in only the API server.
type kubelet struct {
	mu       sync.Mutex
	requests []string // path and query, in order
	sizes    []remotecommand.TerminalSize
}

type exitError int

func (e exitError) Error() string   { return fmt.Sprintf("exit status %d", int(e)) }
func (e exitError) String() string  { return e.Error() }
func (e exitError) Exited() bool    { return true }
func (e exitError) ExitStatus() int { return int(e) }

// ExecInContainer knows the commands cat, both, size and exit.
func (k *kubelet) ExecInContainer(_ context.Context, _, _, _ string, cmd []string, in io.Reader, out, errOut io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize, _ time.Duration) error {
	switch cmd[0] {
	case "cat":
		_, err := io.Copy(out, in)
		return err
	case "both":
		fmt.Fprint(out, "to out")
		fmt.Fprint(errOut, "to err")
	case "size":
		size := <-resize
		fmt.Fprintf(out, "%dx%d", size.Width, size.Height)
	case "exit":
		return exitError(7)
	}
	return nil
}

func (k *kubelet) AttachContainer(ctx context.Context, _, _, _ string, in io.Reader, out, errOut io.WriteCloser, _ bool, _ <-chan remotecommand.TerminalSize) error {
	fmt.Fprint(out, "attached")
	return nil
}

// PortForward answers every line with the port and the line.
func (k *kubelet) PortForward(_ context.Context, _, _ string, port int32, stream io.ReadWriteCloser) error {
	buf := make([]byte, 100)
	n, err := stream.Read(buf)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(stream, "%d says %s", port, buf[:n])
	return err
}

func (k *kubelet) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	k.mu.Lock()
	k.requests = append(k.requests, r.Method+" "+r.URL.RequestURI())
	k.mu.Unlock()
	if cn := r.TLS.PeerCertificates[0].Subject.CommonName; cn != pki.KubeletClientUser {
		http.Error(w, "who is "+cn, http.StatusForbidden)
		return
	}
	switch what, _, _ := strings.Cut(r.URL.Path[1:], "/"); what {
	case "containerLogs":
		if strings.HasSuffix(r.URL.Path, "/broken") {
			http.Error(w, `container "broken" in pod "x" is waiting to start: ContainerCreating`, http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "text/plain")
		for i := range 3 {
			fmt.Fprintf(w, "line %d\n", i)
			w.(http.Flusher).Flush()
		}
	case "exec":
		if r.URL.Query().Get("command") == "refused" {
			http.Error(w, "container not found", http.StatusNotFound)
			return
		}
		opts, err := remotecommand.NewOptions(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		remotecommand.ServeExec(w, r, k, "", "", "", r.URL.Query()["command"], opts, time.Minute, time.Minute, remotecommand.SupportedStreamingProtocols)
	case "attach":
		opts, err := remotecommand.NewOptions(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		remotecommand.ServeAttach(w, r, k, "", "", "", opts, time.Minute, time.Minute, remotecommand.SupportedStreamingProtocols)
	case "portForward":
		opts, err := portforward.NewV4Options(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		portforward.ServePortForward(w, r, k, "", "", opts, time.Minute, time.Minute, portforward.SupportedProtocols)
	default:
		fmt.Fprintf(w, "%s of kubelet", r.URL.RequestURI())
	}
}

type fixture struct {
	w       world
	kubelet *kubelet
	url     string // of the API server
	proxy   *Proxy
	local   http.Handler // in the kubelet's place; nil: none
}

func meta(ns, name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: ns, Name: name} }

// newFixture has a node n1 with a kubelet, and a pod web/x on it.
func newFixture(t *testing.T) *fixture {
	t.Helper()
	ca, err := pki.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	serving, err := pki.NewRotating(func() (*pki.Pair, error) { return ca.KubeletServing("n1", nil) })
	if err != nil {
		t.Fatal(err)
	}
	own, err := pki.NewRotating(ca.KubeletClient)
	if err != nil {
		t.Fatal(err)
	}
	conf := ca.ServerTLS(serving)
	conf.ClientAuth = tls.RequireAndVerifyClientCert
	conf.NextProtos = nil
	ln, err := tls.Listen("tcp", "127.0.0.1:0", conf)
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{kubelet: &kubelet{}}
	far := &http.Server{Handler: f.kubelet, ErrorLog: log.New(io.Discard, "", 0)}
	go far.Serve(ln)
	t.Cleanup(func() { far.Close() })
	node := &corev1.Node{ObjectMeta: meta("", "n1"), Status: corev1.NodeStatus{
		Addresses:       []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: "nowhere.invalid"}, {Type: corev1.NodeInternalIP, Address: "127.0.0.1"}},
		DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: int32(ln.Addr().(*net.TCPAddr).Port)}},
	}}
	f.w = world{
		"nodes//n1":  node,
		"pods/web/x": &corev1.Pod{ObjectMeta: meta("web", "x"), Spec: corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{Name: "main"}}}},
		"pods/web/many": &corev1.Pod{ObjectMeta: meta("web", "many"), Spec: corev1.PodSpec{NodeName: "n1",
			Containers: []corev1.Container{{Name: "a"}, {Name: "broken"}}, InitContainers: []corev1.Container{{Name: "init"}}}},
		"pods/web/pending": &corev1.Pod{ObjectMeta: meta("web", "pending"), Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main"}}}},
	}
	p := New(Config{Get: f.w.get, List: f.w.list, KubeletTLS: ca.ClientTLS(own), Local: func(*corev1.Node) http.Handler { return f.local }})
	f.proxy = p
	t.Cleanup(p.kubelets.CloseIdleConnections)
	handlers := p.Handlers()
	near := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := &authz.Attributes{User: &authn.User{Name: "admin"}, Verb: "get"}
		parts := strings.Split(r.URL.Path, "/")
		if parts[3] == "namespaces" {
			a.Namespace, parts = parts[4], parts[2:]
		}
		a.Resource, a.Name, a.Subresource = parts[3], parts[4], parts[5]
		handlers[a.Resource+"/"+a.Subresource](w, r, a)
	}))
	t.Cleanup(near.Close)
	f.url = near.URL
	return f
}

func (f *fixture) get(t *testing.T, path string) (int, string) {
	t.Helper()
	resp, err := http.Get(f.url + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func (f *fixture) lastRequest() string {
	f.kubelet.mu.Lock()
	defer f.kubelet.mu.Unlock()
	if len(f.kubelet.requests) == 0 {
		return ""
	}
	return f.kubelet.requests[len(f.kubelet.requests)-1]
}
