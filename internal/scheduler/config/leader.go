package config

import (
	"cmp"
	"fmt"
	"time"

	componentbaseconfigv1alpha1 "k8s.io/component-base/config/v1alpha1"
)

// leaderElection checks what a file says of it, with upstream's defaults in
// place of what it does not say. Nothing comes of it: a scheduler leads as it
// is started.
func leaderElection(l *componentbaseconfigv1alpha1.LeaderElectionConfiguration) error {
	if l.LeaderElect != nil && !*l.LeaderElect {
		return nil
	}
	lease := cmp.Or(l.LeaseDuration.Duration, 15*time.Second)
	renew := cmp.Or(l.RenewDeadline.Duration, 10*time.Second)
	retry := cmp.Or(l.RetryPeriod.Duration, 2*time.Second)
	switch {
	case lease < 0:
		return fmt.Errorf("leaseDuration: %s is not greater than 0", lease)
	case renew < 0:
		return fmt.Errorf("renewDeadline: %s is not greater than 0", renew)
	case retry < 0:
		return fmt.Errorf("retryPeriod: %s is not greater than 0", retry)
	case lease <= renew:
		return fmt.Errorf("leaseDuration: %s is not greater than the renewDeadline, %s", lease, renew)
	case cmp.Or(l.ResourceLock, "leases") != "leases":
		return fmt.Errorf("resourceLock: %s is not leases", l.ResourceLock)
	}
	return nil
}
