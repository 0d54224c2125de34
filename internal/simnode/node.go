package simnode

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/localpath"
	"github.com/setpoint-project/setpoint/loop"
)

// volumesFolder is where nodes say that their volumes lie: nowhere.
const volumesFolder = "/simulated/volumes"

// How a kubelet keeps its node alive:
// https://kubernetes.io/docs/reference/node/node-status/#heartbeats
const (
	leaseDuration = 40 * time.Second
	renewEvery    = 10 * time.Second
	statusEvery   = 5 * time.Minute
)

// beat is the heart of one node. The loop looks at one key in one worker at a
// time, so that beat needs no lock.
type beat struct {
	index int
	made  bool                  // the Node was there or made since Run
	lease *coordinationv1.Lease // as last written, shared
	due   time.Time             // when the lease is renewed
}

// lookAtNode takes the next step for one node.
func (s *Nodes) lookAtNode(ctx context.Context, key loop.Key) (loop.Outcome, error) {
	b := s.beat(key.Name)
	node := client.In[*corev1.Node](s.nodes, "", key.Name)
	switch {
	case node == nil && b.made:
		return s.observed(key, loop.WaitFor("Node "+key.Name, "the node was deleted; it comes back at the next start"), nil)
	case node == nil:
		_, err := s.opts.Client.Create(ctx, client.Nodes, s.newNode(b.index, nil, time.Now()))
		if apierrors.IsAlreadyExists(err) {
			err = nil // the view shows it soon
		}
		b.made = err == nil
		return s.observed(key, loop.Acted("registered the node"), err)
	}
	b.made = true
	if silent(node) {
		return s.observed(key, loop.WaitFor("Node "+key.Name, "silent by its annotation"), nil)
	}
	now := time.Now()
	if !s.posted(node, now) {
		if status := nodeStatus(node, s.newNode(b.index, node.Spec.PodCIDRs, now), now); status != nil {
			_, err := s.opts.Client.Update(ctx, client.Nodes, status, "status")
			return s.observed(key, loop.Acted("wrote the node's status"), err)
		}
	}
	if b.lease == nil || !now.Before(b.due) {
		err := s.renew(ctx, b, node, now)
		return s.observed(key, loop.DoneUntil(b.due.Sub(now)), err)
	}
	return s.observed(key, loop.DoneUntil(b.due.Sub(now)), nil)
}

func (s *Nodes) observed(key loop.Key, o loop.Outcome, err error) (loop.Outcome, error) {
	if s.opts.Observer != nil {
		s.opts.Observer("simnode", key, o, err)
	}
	return o, err
}

// renew writes the lease. The first renewals are spread over the interval, so
// that those of many nodes never come at once.
func (s *Nodes) renew(ctx context.Context, b *beat, node *corev1.Node, now time.Time) error {
	due := now.Add(renewEvery)
	if b.lease == nil {
		due = now.Add(renewEvery * time.Duration(b.index+1) / time.Duration(s.opts.Count))
	}
	err := s.writeLease(ctx, b, node, now)
	if err != nil {
		b.lease = nil // read it again
		return err
	}
	b.due = due
	return nil
}

func (s *Nodes) writeLease(ctx context.Context, b *beat, node *corev1.Node, now time.Time) error {
	seconds, renewed := int32(leaseDuration/time.Second), metav1.NewMicroTime(now)
	if b.lease == nil {
		had, err := client.Get[*coordinationv1.Lease](ctx, s.opts.Client, client.Leases, corev1.NamespaceNodeLease, node.Name)
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		if err == nil {
			b.lease = had
		}
	}
	lease := &coordinationv1.Lease{}
	if b.lease != nil {
		lease = b.lease.DeepCopy()
	}
	lease.Namespace, lease.Name = corev1.NamespaceNodeLease, node.Name
	lease.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}}
	lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds, lease.Spec.RenewTime = &node.Name, &seconds, &renewed
	var err error
	if b.lease == nil {
		b.lease, err = client.Create(ctx, s.opts.Client, client.Leases, lease)
	} else {
		b.lease, err = client.Update(ctx, s.opts.Client, client.Leases, lease)
	}
	return err
}

// newNode is the node as it registers, or as it is with these ranges.
func (s *Nodes) newNode(i int, cidrs []string, now time.Time) *corev1.Node {
	name := s.nodeName(i)
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			corev1.LabelHostname: name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64",
			simulated: "true",
		}, Annotations: map[string]string{localpath.FolderAnnotation: volumesFolder}},
		Status: corev1.NodeStatus{
			Capacity: s.amounts.DeepCopy(), Allocatable: s.amounts.DeepCopy(),
			Addresses: s.nodeAddresses(i, cidrs),
			NodeInfo: corev1.NodeSystemInfo{
				MachineID: name, SystemUUID: name, BootID: name, OperatingSystem: "linux", Architecture: "amd64",
				KubeletVersion: s.opts.Version, OSImage: "Setpoint simulated node", KernelVersion: "none", ContainerRuntimeVersion: "sim://1",
			},
			Conditions: conditions(now),
		},
	}
	for k, v := range s.opts.Labels {
		node.Labels[k] = v
	}
	return node
}

func (s *Nodes) nodeAddresses(i int, cidrs []string) (out []corev1.NodeAddress) {
	for _, ip := range s.addresses.ofNode(i, cidrs) {
		out = append(out, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: ip})
	}
	return append(out, corev1.NodeAddress{Type: corev1.NodeHostName, Address: s.nodeName(i)})
}

func conditions(now time.Time) []corev1.NodeCondition {
	at := metav1.NewTime(now).Rfc3339Copy()
	condition := func(t corev1.NodeConditionType, status corev1.ConditionStatus, reason, message string) corev1.NodeCondition {
		return corev1.NodeCondition{Type: t, Status: status, Reason: reason, Message: message, LastHeartbeatTime: at, LastTransitionTime: at}
	}
	return []corev1.NodeCondition{
		condition(corev1.NodeMemoryPressure, corev1.ConditionFalse, "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
		condition(corev1.NodeDiskPressure, corev1.ConditionFalse, "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
		condition(corev1.NodePIDPressure, corev1.ConditionFalse, "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
		condition(corev1.NodeReady, corev1.ConditionTrue, "KubeletReady", "kubelet is posting ready status"),
	}
}

// posted tells of most nodes that nodeStatus has nothing to say about them,
// without making a status to compare with.
func (s *Nodes) posted(node *corev1.Node, now time.Time) bool {
	st := &node.Status
	if len(st.Conditions) != 4 || st.NodeInfo.KubeletVersion != s.opts.Version || !addressed(st.Addresses, node.Spec.PodCIDRs) || len(st.Capacity) != 4 || len(st.Allocatable) != 4 {
		return false
	}
	for name, q := range s.amounts {
		if q.Cmp(st.Capacity[name]) != 0 || q.Cmp(st.Allocatable[name]) != 0 {
			return false
		}
	}
	for i := range st.Conditions {
		c := &st.Conditions[i]
		if (c.Status == corev1.ConditionTrue) != (c.Type == corev1.NodeReady) || c.Status == corev1.ConditionUnknown || now.Sub(c.LastHeartbeatTime.Time) >= statusEvery {
			return false
		}
	}
	return true
}

// nodeStatus returns the node with the status that must be written now, or nil
// when there is nothing to say: want is the node as it would register now.
func nodeStatus(had, want *corev1.Node, now time.Time) *corev1.Node {
	next := had.DeepCopy()
	next.Status.Capacity, next.Status.Allocatable = want.Status.Capacity, want.Status.Allocatable
	next.Status.Addresses, next.Status.NodeInfo = want.Status.Addresses, want.Status.NodeInfo
	changed := !equality.Semantic.DeepEqual(had.Status, next.Status)
	for _, c := range want.Status.Conditions {
		at := -1
		for i := range next.Status.Conditions {
			if next.Status.Conditions[i].Type == c.Type {
				at = i
			}
		}
		if at < 0 {
			next.Status.Conditions = append(next.Status.Conditions, c)
			changed = true
			continue
		}
		old := &next.Status.Conditions[at]
		if old.Status == c.Status {
			c.LastTransitionTime = old.LastTransitionTime
		}
		if old.Status != c.Status || old.Reason != c.Reason || now.Sub(old.LastHeartbeatTime.Time) >= statusEvery {
			changed = true
		}
		*old = c
	}
	if !changed {
		return nil
	}
	return next
}

func readyStatus(node *corev1.Node) corev1.ConditionStatus {
	for i := range node.Status.Conditions {
		if node.Status.Conditions[i].Type == corev1.NodeReady {
			return node.Status.Conditions[i].Status
		}
	}
	return corev1.ConditionUnknown
}
