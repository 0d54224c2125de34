package podcertificate

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestIssued: a request says who the pod is, and its answer is what the pod
// finds; nothing is asked twice.
func TestIssued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		_, _, err := r.get()
		if err == nil || !strings.Contains(err.Error(), `signer "example.com/s" has not answered PodCertificateRequest default/p-`) {
			t.Fatalf("before the signer answers: %v", err)
		}
		asked := r.open()
		spec := asked.Spec
		spec.StubPKCS10Request = nil
		want := certificatesv1.PodCertificateRequestSpec{
			SignerName: "example.com/s", PodName: "p", PodUID: r.pod.UID, ServiceAccountName: "worker", ServiceAccountUID: r.account.UID,
			NodeName: "n1", NodeUID: r.node.UID, MaxExpirationSeconds: new(int32(7200)), UnverifiedUserAnnotations: map[string]string{"example.com/a": "b"},
		}
		if !equality.Semantic.DeepEqual(spec, want) {
			t.Errorf("asked for %+v, want %+v", spec, want)
		}
		if o := asked.OwnerReferences; len(o) != 1 || o[0].UID != r.pod.UID {
			t.Errorf("owners are %v", o)
		}
		if _, _, err = r.get(); err == nil {
			t.Error("there is a certificate before the signer answers")
		}
		r.issue(asked)
		if !slices.Equal(r.told(), []types.UID{r.pod.UID}) {
			t.Errorf("told %v of the answer", r.changed)
		}
		got, renew, err := r.get()
		if err != nil {
			t.Fatal(err)
		}
		if pair, err := tls.X509KeyPair(got.Bundle(), got.Bundle()); err != nil || len(pair.Certificate) != 2 {
			t.Errorf("the bundle holds %d certificates: %v", len(pair.Certificate), err)
		}
		if _, err := tls.X509KeyPair(got.Chain, got.Key); err != nil {
			t.Errorf("key and chain: %v", err)
		}
		if block, _ := pem.Decode(got.Bundle()); block == nil || block.Type != "PRIVATE KEY" {
			t.Errorf("the bundle begins with %v", block)
		}
		if bytes.Contains(got.Chain, []byte("words")) {
			t.Errorf("headers and comments are in the chain:\n%s", got.Chain)
		}
		if from := time.Now().Add(time.Hour); renew.Before(from) || !renew.Before(from.Add(renewJitter)) {
			t.Errorf("renewed at %v, want up to %v after %v", renew, renewJitter, from)
		}
		if again, _, err := r.get(); err != nil || !bytes.Equal(again.Bundle(), got.Bundle()) || len(r.all()) != 1 {
			t.Errorf("the next look differs, or asked again: %d requests, %v", len(r.all()), err)
		}
	})
}

// TestLimit: a pod that does not say gets certificates of a day.
func TestLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.source.MaxExpirationSeconds = nil
		r.wait()
		if n := *r.open().Spec.MaxExpirationSeconds; n != 86400 {
			t.Errorf("asked for %d seconds", n)
		}
	})
}

// TestRefused: a signer's no is readable, and final for a pod without a
// certificate.
func TestRefused(t *testing.T) {
	for _, how := range []string{"Denied", "Failed"} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			r.wait()
			r.refuse(r.open(), how)
			if !slices.Equal(r.told(), []types.UID{r.pod.UID}) {
				t.Errorf("%s: told %v of the answer", how, r.changed)
			}
			for range 2 {
				_, _, err := r.get()
				if err == nil || !strings.Contains(err.Error(), `signer "example.com/s" `+strings.ToLower(how)+" PodCertificateRequest default/p-") ||
					!strings.HasSuffix(err.Error(), ": NoSuchPods: not these") {
					t.Errorf("%s: %v", how, err)
				}
				time.Sleep(time.Hour)
			}
			if n := len(r.all()); n != 1 {
				t.Errorf("%s: asked %d times", how, n)
			}
		})
	}
}

// TestRenewed: when it is time another key is made; the pod keeps what it has
// until that is certified, also when a signer says no.
func TestRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.wait()
		r.issue(r.open())
		first, renew, err := r.get()
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Until(renew) - time.Second)
		r.keeps(first)
		if n := len(r.all()); n != 1 {
			t.Fatalf("asked %d times before it is time", n)
		}
		time.Sleep(time.Second)
		r.keeps(first)
		r.refuse(r.open(), "Denied")
		again := r.keeps(first)
		if in := time.Until(again); in < againIn || in >= againIn+againJitter || len(r.warned) != 1 {
			t.Errorf("asks again in %v, warned of %v", in, r.warned)
		}
		time.Sleep(time.Until(again))
		r.keeps(first)
		r.issue(r.open())
		second, _, err := r.get()
		if err != nil || bytes.Equal(second.Key, first.Key) || bytes.Equal(second.Chain, first.Chain) {
			t.Errorf("key and chain are to be others (%v)", err)
		}
		if _, err := tls.X509KeyPair(second.Chain, second.Key); err != nil {
			t.Error(err)
		}
		if n := len(r.all()); n != 3 {
			t.Errorf("asked %d times", n)
		}
	})
}

// TestUnanswered: what nobody answers, or somebody deletes, is asked anew with
// another key.
func TestUnanswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.wait()
		first := r.open()
		time.Sleep(answerIn - time.Second)
		r.wait()
		if n := len(r.all()); n != 1 {
			t.Fatalf("asked %d times within %v", n, answerIn)
		}
		time.Sleep(answerJitter + time.Second)
		r.wait()
		all := r.all()
		if len(all) != 2 {
			t.Fatalf("asked %d times", len(all))
		}
		r.issue(first) // too late
		if _, _, err := r.get(); err == nil {
			t.Error("took an answer to a request that was given up")
		}
		for _, one := range all {
			r.remove(one)
		}
		if !slices.Contains(r.told(), r.pod.UID) {
			t.Error("nobody was told that the request is gone")
		}
		r.wait()
		third := r.open()
		for _, one := range all {
			if bytes.Equal(one.Spec.StubPKCS10Request, third.Spec.StubPKCS10Request) {
				t.Error("asked anew with the same key")
			}
		}
	})
}

// TestRestart: the next kubelet knows no keys. It asks anew, whatever was
// answered before.
func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.wait()
		old := r.open()
		r.start()
		r.wait()
		r.issue(old)
		if _, _, err := r.get(); err == nil {
			t.Fatal("took an answer to another kubelet's key")
		}
		r.issue(r.open())
		if got, _, err := r.get(); err != nil {
			t.Error(err)
		} else if _, err := tls.X509KeyPair(got.Chain, got.Key); err != nil {
			t.Error(err)
		}
	})
}

// TestLostAnswer: a request that was filed although an error came back is found
// again.
func TestLostAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.client.lose = true
		if _, _, err := r.get(); err == nil || !strings.Contains(err.Error(), "the answer was lost") {
			t.Fatalf("got %v", err)
		}
		r.wait()
		r.issue(r.open())
		if _, _, err := r.get(); err != nil || len(r.all()) != 1 {
			t.Errorf("asked %d times: %v", len(r.all()), err)
		}
	})
}

// TestUnreachable: a certificate outlives an API server that cannot be asked.
func TestUnreachable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.wait()
		r.issue(r.open())
		first, renew, err := r.get()
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Until(renew))
		r.client.away = true
		again := r.keeps(first)
		if in := time.Until(again); in < againIn || len(r.warned) != 1 {
			t.Errorf("asks again in %v, warned of %v", in, r.warned)
		}
		r.client.away = false
		time.Sleep(time.Until(again))
		r.keeps(first)
		r.issue(r.open())
		if second, _, err := r.get(); err != nil || bytes.Equal(second.Key, first.Key) {
			t.Errorf("is not renewed: %v", err)
		}
	})
}

// TestForget: nothing is left of a pod, and another's stays.
func TestForget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.wait()
		r.issue(r.open())
		kept, _, err := r.get()
		if err != nil {
			t.Fatal(err)
		}
		r.m.Forget("another")
		r.keeps(kept)
		r.m.Forget(r.pod.UID)
		if len(r.m.pods) != 0 {
			t.Errorf("%d pods are known still", len(r.m.pods))
		}
		r.wait()
		r.open()
	})
}

// TestSources: each source of a pod has a key of its own.
func TestSources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		for n, volume := range []string{"a", "a", "b"} {
			if _, _, err := r.m.Get(t.Context(), r.pod, volume, n, r.source); err == nil {
				t.Error("there is a certificate before the signer answers")
			}
		}
		keys := map[string]bool{}
		for _, one := range r.all() {
			asked, err := x509.ParseCertificateRequest(one.Spec.StubPKCS10Request)
			if err != nil {
				t.Fatal(err)
			}
			keys[string(asked.RawSubjectPublicKeyInfo)] = true
		}
		if len(keys) != 3 {
			t.Errorf("%d keys for 3 sources", len(keys))
		}
	})
}

// TestNodeUnknown: nothing is asked before the node is known.
func TestNodeUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.node = nil
		if _, _, err := r.get(); err == nil || !strings.Contains(err.Error(), "is not known yet") || len(r.all()) != 0 {
			t.Errorf("%d requests: %v", len(r.all()), err)
		}
	})
}

// TestName: names of requests are names, however long the pod's is.
func TestName(t *testing.T) {
	long := strings.Repeat("a", longestName-1) + ".b"
	for _, name := range []string{"p", long} {
		a, err := newAttempt(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}}, "ED25519")
		if err != nil || len(a.name) > 253 || strings.Contains(a.name, ".-") {
			t.Errorf("%s: %s (%v)", name, a.name, err)
		}
	}
}

// TestSpread: certificates that were issued together are not renewed together,
// and none later than it may be.
func TestSpread(t *testing.T) {
	now := time.Now()
	r := &certificatesv1.PodCertificateRequest{Status: certificatesv1.PodCertificateRequestStatus{BeginRefreshAt: &metav1.Time{Time: now}}}
	times := map[time.Time]bool{}
	for range 100 {
		at := renewal(r, now)
		if at.Before(now) || !at.Before(now.Add(renewJitter)) {
			t.Fatalf("renewed %v after it is time", at.Sub(now))
		}
		times[at] = true
	}
	if len(times) < 50 {
		t.Errorf("100 certificates are renewed at %d times", len(times))
	}
}

// TestClockSetBack: a certificate of the future is replaced at once, and once.
func TestClockSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.wait()
		r.issue(r.open())
		first, _, err := r.get()
		if err != nil {
			t.Fatal(err)
		}
		e := r.m.entry(r.pod.UID, source{"v", 0})
		for _, tc := range []struct {
			ahead    time.Duration
			requests int
		}{{maxSkew, 1}, {maxSkew + time.Second, 2}} {
			e.from = time.Now().Add(tc.ahead)
			for range 2 {
				r.keeps(first)
			}
			if n := len(r.all()); n != tc.requests {
				t.Errorf("begins in %v: asked %d times, want %d", tc.ahead, n, tc.requests)
			}
		}
		r.refuse(r.open(), "Denied")
		for range 2 {
			r.keeps(first)
		}
		if n := len(r.all()); n != 2 {
			t.Errorf("asked %d times after a no", n)
		}
	})
}
