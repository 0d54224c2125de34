// Package legacytokens is the loop that takes away service account tokens which
// nobody uses: those that were once made by themselves for every account, and
// that an account still lists among its secrets.
//
//	not used for a period --> label invalid-since: it is taken no more
//	    not missed for another period --> deleted
//
// The API server notes on each Secret the day of its token's last use, and in
// the ConfigMap kube-system/kube-apiserver-legacy-service-account-token-tracking
// since when it does so: before that nobody knows. A token that a pod mounts
// stays. Taking the label off makes the token good again.
//
// Failure: all is worked out from what is written in the objects; a deletion
// is guarded by the revision that was looked at.
//
// See https://kubernetes.io/docs/reference/access-authn-authz/service-accounts-admin/#legacy-serviceaccount-token-cleaner.
package legacytokens

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Labels of the Secrets: days in UTC.
const (
	lastUsed     = "kubernetes.io/legacy-token-last-used"
	invalidSince = "kubernetes.io/legacy-token-invalid-since"
)

// step is what is next for a Secret: at most one of the three.
type step struct {
	mark, remove bool
	wait         time.Duration // look again after that; 0: when something changes
}

// plan decides what is next for the Secret of a token that was made by itself
// and that no pod mounts. since is when the uses began to be noted; zero:
// nobody notes them.
func plan(s *corev1.Secret, since, now time.Time, period time.Duration) step {
	if since.IsZero() {
		return step{}
	}
	used, ok := day(s.Labels[lastUsed])
	if !ok {
		used = since
	}
	if s.CreationTimestamp.After(used) {
		used = s.CreationTimestamp.Time
	}
	if due := used.Add(period); now.Before(due) {
		return step{wait: due.Sub(now)}
	}
	marked, ok := day(s.Labels[invalidSince])
	if !ok {
		return step{mark: true}
	}
	if due := marked.Add(period); now.Before(due) {
		return step{wait: due.Sub(now)}
	}
	return step{remove: true}
}

func day(text string) (time.Time, bool) {
	t, err := time.Parse(time.DateOnly, text)
	return t, err == nil
}
