package node

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	renewEvery    = 10 * time.Second
	leaseDuration = 40 // seconds
)

var leases = coordinationv1.SchemeGroupVersion.WithResource("leases")

// renew keeps the node's lease until ctx ends.
func (r *Reporter) renew(ctx context.Context) {
	var have *coordinationv1.Lease
	wait := time.Duration(0)
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		next, err := r.Renew(ctx, have)
		have, wait = next, renewEvery
		if err != nil {
			have, wait = nil, lookSoon*5
			if ctx.Err() == nil {
				r.opts.Logger.Debug("lease not renewed", "node", r.opts.Name, "error", err)
			}
		}
	}
}

// Renew writes the lease once: have is what the last renewal returned, nil
// when that is not known.
func (r *Reporter) Renew(ctx context.Context, have *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	if have == nil {
		o, err := r.opts.Client.Get(ctx, leases, v1.NamespaceNodeLease, r.opts.Name)
		switch {
		case err == nil:
			have = o.(*coordinationv1.Lease)
		case apierrors.IsNotFound(err):
			o, err = r.opts.Client.Create(ctx, leases, r.lease(nil))
			if err != nil {
				return nil, err
			}
			return o.(*coordinationv1.Lease), nil
		default:
			return nil, err
		}
	}
	o, err := r.opts.Client.Update(ctx, leases, r.lease(have))
	if err != nil {
		return nil, err
	}
	return o.(*coordinationv1.Lease), nil
}

// lease is have, renewed now.
func (r *Reporter) lease(have *coordinationv1.Lease) *coordinationv1.Lease {
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: v1.NamespaceNodeLease, Name: r.opts.Name}}
	if have != nil {
		l = have.DeepCopy()
	}
	now, seconds := metav1.NowMicro(), int32(leaseDuration)
	l.Spec.HolderIdentity, l.Spec.LeaseDurationSeconds, l.Spec.RenewTime = &r.opts.Name, &seconds, &now
	// The lease goes with its node.
	if n := r.Node(); n != nil && len(l.OwnerReferences) == 0 {
		l.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: n.Name, UID: n.UID}}
	}
	return l
}
