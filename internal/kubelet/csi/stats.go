package csi

import (
	"context"
	"sync"
	"time"

	pb "github.com/container-storage-interface/spec/lib/go/csi"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

const (
	// measuredFor is how long a driver's word on a volume is good enough:
	// upstream's kubelet asks as often.
	measuredFor = time.Minute
	// statsPatience is how long somebody who asks for all volumes waits for the
	// drivers. What comes later is for who asks next.
	statsPatience = 5 * time.Second
)

// measured is what a driver said of a volume of a pod. The fields are guarded by
// Manager.mu.
type measured struct {
	at     time.Time
	asking bool
	stats  *statsv1alpha1.FsStats // nil: nothing
}

// Stats is what drivers say of the volumes that pods have, by pod and its
// volume's name; at most a minute old.
func (m *Manager) Stats(ctx context.Context) map[types.UID]map[string]*statsv1alpha1.FsStats {
	ctx, cancel := context.WithTimeout(ctx, statsPatience)
	defer cancel()
	all := m.measure(ctx)
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[types.UID]map[string]*statsv1alpha1.FsStats{}
	for at, of := range all {
		if of.stats == nil {
			continue
		}
		if out[at.uid] == nil {
			out[at.uid] = map[string]*statsv1alpha1.FsStats{}
		}
		out[at.uid][at.name] = of.stats
	}
	return out
}

// place is a pod's volume.
type place struct {
	uid  types.UID
	name string
}

// measure asks drivers of what has not been asked for a while, until ctx ends,
// and forgets what is gone.
func (m *Manager) measure(ctx context.Context) map[place]*measured {
	m.mu.Lock()
	uids := map[types.UID]bool{}
	for _, k := range m.volumes {
		for uid := range k.users {
			uids[uid] = true
		}
	}
	m.mu.Unlock()
	records := map[place]*record{}
	for uid := range uids {
		all, _ := m.published(uid) // what cannot be read is not told of
		for _, r := range all {
			if r.Done && r.Boot == m.opts.Boot {
				records[place{uid, r.Name}] = r
			}
		}
	}
	var asked sync.WaitGroup
	m.mu.Lock()
	next := map[place]*measured{}
	for at, r := range records {
		of := m.measured[at]
		if of == nil {
			of = &measured{}
		}
		next[at] = of
		if of.asking || time.Since(of.at) < measuredFor {
			continue
		}
		of.asking = true
		asked.Go(func() {
			stats := m.ofVolume(r)
			m.mu.Lock()
			defer m.mu.Unlock()
			of.at, of.asking, of.stats = time.Now(), false, stats
		})
	}
	m.measured = next
	m.mu.Unlock()
	done := make(chan struct{})
	go func() { asked.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
	}
	return next
}

// ofVolume asks a driver for the statistics of a volume; nil: it has none.
func (m *Manager) ofVolume(r *record) *statsv1alpha1.FsStats {
	caps, err := m.capabilities(m.life, r.Driver)
	if err != nil || !caps[pb.NodeServiceCapability_RPC_GET_VOLUME_STATS] {
		return nil
	}
	var resp *pb.NodeGetVolumeStatsResponse
	err = m.ask(m.life, r.Driver, func(ctx context.Context, c pb.NodeClient) (err error) {
		req := &pb.NodeGetVolumeStatsRequest{VolumeId: r.Handle, VolumePath: m.seen(r.Driver, r.target())}
		if caps[pb.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME] && r.Volume != "" {
			req.StagingTargetPath = m.seen(r.Driver, (&record{dir: m.stagingDir(r.id())}).staging())
		}
		resp, err = c.NodeGetVolumeStats(ctx, req)
		return err
	})
	if err != nil {
		m.opts.Logger.Info("a driver does not say what a volume holds", "driver", r.Driver, "volume", r.Handle, "error", err)
		return nil
	}
	out := &statsv1alpha1.FsStats{Time: metav1.Now()}
	for _, u := range resp.GetUsage() {
		total, used, free := number(u.Total), number(u.Used), number(u.Available)
		switch u.Unit {
		case pb.VolumeUsage_BYTES:
			out.CapacityBytes, out.UsedBytes, out.AvailableBytes = total, used, free
		case pb.VolumeUsage_INODES:
			out.Inodes, out.InodesUsed, out.InodesFree = total, used, free
		}
	}
	return out
}

// number is what a driver counted; nothing is less than nothing.
func number(n int64) *uint64 { return new(uint64(max(n, 0))) }
