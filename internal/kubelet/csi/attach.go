package csi

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/volumes"
)

const (
	// attachPatience is how long is waited for an attachment before people are
	// told; then it is waited for again.
	attachPatience = 2 * time.Minute
	// attachEvery is how often an attachment is looked at that the Node says is
	// there.
	attachEvery = time.Second
)

// attached waits until a volume, which the Node has been told is in use, is
// attached to this node, and returns what the attacher has to say to the driver.
//
// The Node's word comes first: the loop that attaches takes it back, in a write
// that fails when the volume has come to be in use, before it has anything
// detached. See package attachdetach.
func (m *Manager) attached(ctx context.Context, v id) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, attachPatience)
	defer cancel()
	if _, err := m.reportInUse(ctx); err != nil {
		return nil, fmt.Errorf("say that the volume is in use: %w", err)
	}
	name := volumes.AttachmentName(v.driver, v.handle, m.opts.Node)
	why := "it is not there"
	for {
		m.mu.Lock()
		changed := m.changed
		m.mu.Unlock()
		// The view shows the write of above, or something later.
		said := volumes.Attached(client.In[*v1.Node](m.nodes, "", m.opts.Node), volumes.UniqueName(v.driver, v.handle))
		a, err := client.Get[*storagev1.VolumeAttachment](ctx, m.opts.Client, client.VolumeAttachments, "", name)
		switch {
		case err != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err): // a node may read its own, and no other name tells it that there is none
			return nil, err
		case err != nil:
		case a.DeletionTimestamp != nil:
			why = "the volume is being detached"
		case a.Status.AttachError != nil:
			why = a.Status.AttachError.Message
		case a.Status.Attached && said:
			return a.Status.AttachmentMetadata, nil
		default:
			why = "it is not attached yet"
		}
		var soon <-chan time.Time
		if said {
			soon = time.After(attachEvery)
		}
		select {
		case <-changed:
		case <-soon:
		case <-ctx.Done():
			if cause := context.Cause(ctx); cause != context.DeadlineExceeded {
				return nil, cause
			}
			return nil, fmt.Errorf("timed out waiting for external-attacher of %s CSI driver to attach volume %s: attachment %s: %s", v.driver, v.handle, name, why)
		}
	}
}
