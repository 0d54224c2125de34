package podcertificate

import (
	"crypto/tls"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
)

// TestConverges: whatever is lost, late, deleted or denied on the way, and
// whenever the kubelet starts anew, a pod has in the end a certificate for its
// key that is not about to be renewed, and nothing more is asked.
func TestConverges(t *testing.T) {
	for seed := range uint64(40) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			dice := rand.New(rand.NewPCG(seed, 0))
			for range 40 {
				r.disturb(dice)
			}
			r.client.away, r.client.lose = false, false
			if e := r.m.entry(r.pod.UID, source{"v", 0}); e.refused != nil {
				r.start() // that is for good otherwise
			}
			for range 3 { // what was answered too late, what could not be asked, what is due
				_, _, _ = r.get()
				for _, one := range r.unanswered() {
					r.issue(one)
				}
				_, _, _ = r.get()
				time.Sleep(againIn + againJitter)
			}
			got, renew, err := r.get()
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if _, err := tls.X509KeyPair(got.Chain, got.Key); err != nil {
				t.Errorf("seed %d: %v", seed, err)
			}
			asked := len(r.all())
			if again := r.keeps(got); !again.Equal(renew) || !renew.After(time.Now()) || len(r.all()) != asked || len(r.unanswered()) != 0 {
				t.Errorf("seed %d: renewed in %v, then %v, %d requests after %d", seed, time.Until(renew), time.Until(again), len(r.all()), asked)
			}
		})
	}
}

func (r *rig) unanswered() []*certificatesv1.PodCertificateRequest {
	var out []*certificatesv1.PodCertificateRequest
	for _, one := range r.all() {
		if verdict(one) == nil {
			out = append(out, one)
		}
	}
	return out
}

// disturb does one of the things that happen.
func (r *rig) disturb(dice *rand.Rand) {
	r.t.Helper()
	open := r.unanswered()
	some := func() *certificatesv1.PodCertificateRequest { return open[dice.IntN(len(open))] }
	switch what := dice.IntN(10); {
	case what == 0:
		r.start()
	case what == 1:
		r.client.lose = true
	case what == 2:
		r.client.away = !r.client.away
	case what == 3:
		time.Sleep(time.Duration(dice.Int64N(int64(time.Hour))))
	case what == 4 && len(open) > 0:
		r.remove(some())
	case what == 5 && len(open) > 0:
		r.refuse(some(), []string{"Denied", "Failed"}[dice.IntN(2)])
	case what == 6 && len(open) > 0:
		r.issue(some())
	default:
		_, _, _ = r.get()
	}
}
