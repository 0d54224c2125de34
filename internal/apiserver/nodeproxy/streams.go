package nodeproxy

import (
	"io"
	"log"
	"net/http"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/setpoint-project/setpoint/internal/apiserver/authz"
)

// discard takes what net/http would write to standard error.
var discard = log.New(io.Discard, "", 0)

// streams are those that an exec or attach asks for.
type streams struct {
	stdin, stdout, stderr, tty bool
}

// flag reads a boolean as the API does: there without a value means true.
func flag(q url.Values, name string) bool {
	values, ok := q[name]
	if !ok {
		return false
	}
	v := strings.ToLower(values[0])
	return v != "false" && v != "0"
}

func parseStreams(q url.Values) (s streams, kubelet url.Values, err error) {
	s = streams{flag(q, "stdin"), flag(q, "stdout"), flag(q, "stderr"), flag(q, "tty")}
	if !s.stdin && !s.stdout && !s.stderr {
		return s, nil, apierrors.NewBadRequest("you must specify at least 1 of stdin, stdout, stderr")
	}
	kubelet = url.Values{}
	for name, on := range map[string]bool{"input": s.stdin, "output": s.stdout, "error": s.stderr, "tty": s.tty} {
		if on {
			kubelet.Set(name, "1")
		}
	}
	return s, kubelet, nil
}

func (p *Proxy) exec(w http.ResponseWriter, r *http.Request, a *authz.Attributes) error {
	return p.remoteCommand(w, r, a, "exec")
}

func (p *Proxy) attach(w http.ResponseWriter, r *http.Request, a *authz.Attributes) error {
	return p.remoteCommand(w, r, a, "attach")
}

func (p *Proxy) remoteCommand(w http.ResponseWriter, r *http.Request, a *authz.Attributes, what string) error {
	q := r.URL.Query()
	pod, err := p.podOf(r.Context(), a)
	if err != nil {
		return err
	}
	container, err := containerOf(pod, q.Get("container"))
	if err != nil {
		return err
	}
	s, query, err := parseStreams(q)
	if err != nil {
		return err
	}
	if what == "exec" {
		query["command"] = q["command"]
	}
	if !isUpgrade(r) {
		return apierrors.NewBadRequest("Upgrade request required")
	}
	to, err := p.locate(r.Context(), pod, "/"+what+"/"+pod.Namespace+"/"+pod.Name+"/"+container, query)
	if err != nil {
		return err
	}
	if offers(r, protocolV5) {
		return p.translate(w, r, to, s, pod.Name)
	}
	forward(w, r, to, p.kubelets, kubeletErrors(pods.GroupResource(), pod.Name))
	return nil
}

func (p *Proxy) portForward(w http.ResponseWriter, r *http.Request, a *authz.Attributes) error {
	pod, err := p.podOf(r.Context(), a)
	if err != nil {
		return err
	}
	query := url.Values{}
	if ports := r.URL.Query()["ports"]; len(ports) > 0 {
		for _, list := range ports {
			for port := range strings.SplitSeq(list, ",") {
				query.Add("port", port)
			}
		}
	}
	if !isUpgrade(r) {
		return apierrors.NewBadRequest("Upgrade request required")
	}
	to, err := p.locate(r.Context(), pod, "/portForward/"+pod.Namespace+"/"+pod.Name, query)
	if err != nil {
		return err
	}
	if offers(r, tunnelPrefix+portForwardProtocol) {
		return p.tunnel(w, r, to, pod.Name)
	}
	forward(w, r, to, p.kubelets, kubeletErrors(pods.GroupResource(), pod.Name))
	return nil
}

// offers tells whether a request for a WebSocket offers a subprotocol.
func offers(r *http.Request, protocol string) bool {
	if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		return false
	}
	for _, h := range r.Header.Values("Sec-WebSocket-Protocol") {
		for p := range strings.SplitSeq(h, ",") {
			if strings.TrimSpace(p) == protocol {
				return true
			}
		}
	}
	return false
}
