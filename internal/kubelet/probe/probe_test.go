package probe

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	healthserver "google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func TestCounter(t *testing.T) {
	c := Counter{Success: 2, Failure: 3, Verdict: Success}
	var got []Result
	for _, r := range []Result{Failure, Failure, Success, Failure, Failure, Unknown, Failure, Success, Success, Success} {
		v, _ := c.Add(r)
		got = append(got, v)
	}
	want := []Result{Success, Success, Success, Success, Success, Success, Failure, Failure, Success, Success}
	if !slices.Equal(got, want) {
		t.Errorf("verdicts are %v, want %v", got, want)
	}
}

// Looks come at the initial delay and then every period.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var at []time.Duration
		var outcomes []Outcome
		p := &v1.Probe{InitialDelaySeconds: 5, PeriodSeconds: 10, FailureThreshold: 2, SuccessThreshold: 1}
		n := 0
		Run(t.Context(), Liveness, p, began, Success, func(context.Context) (Result, string) {
			at = append(at, time.Since(began)/time.Second)
			time.Sleep(time.Second) // the look itself takes a while
			n++
			if n > 2 {
				return Failure, "bad"
			}
			return Success, ""
		}, func(o Outcome) { outcomes = append(outcomes, o) })
		if want := []time.Duration{5, 15, 25, 35}; !slices.Equal(at, want) {
			t.Errorf("looked at %v, want %v", at, want)
		}
		if last := outcomes[len(outcomes)-1]; last.Verdict != Failure || !last.Changed || last.Message != "bad" {
			t.Errorf("last outcome is %+v", last)
		}
	})
}

// A container that started in the future, since the clock was set back, is
// looked at after the initial delay all the same.
func TestRunAfterTheClockWasSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var first time.Duration
		ctx, cancel := context.WithCancel(t.Context())
		p := &v1.Probe{InitialDelaySeconds: 5, PeriodSeconds: 10}
		Run(ctx, Readiness, p, began.Add(time.Hour), Failure, func(context.Context) (Result, string) {
			first = time.Since(began)
			cancel()
			return Success, ""
		}, func(Outcome) {})
		if first != 5*time.Second {
			t.Errorf("looked after %v, want 5s", first)
		}
	})
}

func TestHTTP(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/ok":
			if r.Host != "given" || r.Header.Get("X-A") != "1" || r.UserAgent() != userAgent {
				t.Errorf("request is %v %v", r.Host, r.Header)
			}
		case "/away":
			http.Redirect(w, r, "http://elsewhere.invalid/", http.StatusFound)
		case "/slow":
			<-r.Context().Done()
		default:
			http.Error(w, "no", http.StatusServiceUnavailable)
		}
	}))
	defer s.Close()
	u, _ := url.Parse(s.URL)
	port, _ := strconv.Atoi(u.Port())
	target := Target{Host: u.Hostname(), Ports: []v1.ContainerPort{{Name: "web", ContainerPort: int32(port)}}}
	for path, want := range map[string]struct {
		r   Result
		msg string
	}{
		"/ok": {Success, ""}, "/away": {Success, "<a href"}, "/bad": {Failure, "HTTP probe failed with statuscode: 503"}, "/slow": {Failure, "context deadline exceeded"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		if path == "/slow" {
			cancel()
			ctx, cancel = context.WithTimeout(t.Context(), time.Millisecond)
		}
		a := &v1.HTTPGetAction{Path: path, Port: intstr.FromString("web"), HTTPHeaders: []v1.HTTPHeader{{Name: "Host", Value: "given"}, {Name: "X-A", Value: "1"}}}
		r, msg := Check(ctx, v1.ProbeHandler{HTTPGet: a}, time.Minute, target)
		cancel()
		if r != want.r || !strings.Contains(msg, want.msg) {
			t.Errorf("%s: %v %q, want %v %q", path, r, msg, want.r, want.msg)
		}
	}
}

// TestIPv6: an address of IPv6 is asked as one of IPv4 is, by each kind of probe.
func TestIPv6(t *testing.T) {
	l, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	web := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if want := net.JoinHostPort("::1", strconv.Itoa(port)); r.Host != want {
			t.Errorf("asked for %s, want %s", r.Host, want)
		}
	})}
	go web.Serve(l)
	defer web.Close()
	rpc, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Fatal(err)
	}
	health := grpc.NewServer()
	healthpb.RegisterHealthServer(health, healthserver.NewServer())
	go health.Serve(rpc)
	defer health.Stop()
	for name, h := range map[string]v1.ProbeHandler{
		"HTTP":         {HTTPGet: &v1.HTTPGetAction{Path: "/", Port: intstr.FromInt(port)}},
		"HTTP by host": {HTTPGet: &v1.HTTPGetAction{Host: "::1", Path: "/", Port: intstr.FromInt(port)}},
		"TCP":          {TCPSocket: &v1.TCPSocketAction{Port: intstr.FromInt(port)}},
		"gRPC":         {GRPC: &v1.GRPCAction{Port: int32(rpc.Addr().(*net.TCPAddr).Port)}},
	} {
		if r, msg := Check(t.Context(), h, time.Minute, Target{Host: "::1"}); r != Success {
			t.Errorf("%s: %v %q", name, r, msg)
		}
	}
}

func TestTCP(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	h := v1.ProbeHandler{TCPSocket: &v1.TCPSocketAction{Port: intstr.FromInt(port)}}
	if r, msg := Check(t.Context(), h, time.Minute, Target{Host: "127.0.0.1"}); r != Success {
		t.Errorf("open: %v %q", r, msg)
	}
	l.Close()
	if r, msg := Check(t.Context(), h, time.Minute, Target{Host: "127.0.0.1"}); r != Failure || !strings.Contains(msg, "connection refused") {
		t.Errorf("closed: %v %q", r, msg)
	}
	h.TCPSocket.Port = intstr.FromString("none")
	if r, _ := Check(t.Context(), h, time.Minute, Target{Host: "127.0.0.1"}); r != Unknown {
		t.Errorf("no such port: %v", r)
	}
}

func TestExec(t *testing.T) {
	exit, err := int32(0), error(nil)
	target := Target{Exec: func(context.Context, []string, time.Duration) (int32, []byte, error) {
		return exit, []byte("said"), err
	}}
	h := v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"x"}}}
	for _, c := range []struct {
		exit int32
		err  error
		want Result
	}{{0, nil, Success}, {1, nil, Failure}, {0, context.DeadlineExceeded, Failure}, {0, net.ErrClosed, Unknown}} {
		exit, err = c.exit, c.err
		if r, msg := Check(t.Context(), h, time.Minute, target); r != c.want {
			t.Errorf("%d %v: %v %q, want %v", c.exit, c.err, r, msg, c.want)
		}
	}
}
