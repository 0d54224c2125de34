package nodeipam

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-project/setpoint/internal/client"
)

const (
	// recordName is that of the ConfigMap in kube-system that promises are
	// written down in.
	recordName = "node-ranges"
	// mostPromises are made at once, so that they fit into an object.
	mostPromises = 1000
)

// promises are the ranges that nodes are about to get, by their UIDs.
type promises map[types.UID][]string

// record is the ConfigMap as it was read, with what it promises.
type record struct {
	had      *corev1.ConfigMap // nil: there is none
	promised promises
}

// readRecord asks the API server, not a view: what is decided by it must not be
// older than what others have decided.
func readRecord(ctx context.Context, c client.Interface) (record, error) {
	had, err := client.Get[*corev1.ConfigMap](ctx, c, client.ConfigMaps, metav1.NamespaceSystem, recordName)
	if apierrors.IsNotFound(err) {
		return record{promised: promises{}}, nil
	}
	if err != nil {
		return record{}, fmt.Errorf("read which ranges are promised: %w", err)
	}
	r := record{had: had, promised: promises{}}
	for uid, text := range had.Data {
		r.promised[types.UID(uid)] = strings.Split(text, ",")
	}
	return r, nil
}

// write promises what want says, unless somebody has written the record since it
// was read.
func (r record) write(ctx context.Context, c client.Interface, want promises) error {
	if maps.EqualFunc(r.promised, want, slices.Equal) {
		return nil
	}
	if r.had != nil && r.had.Immutable != nil && *r.had.Immutable {
		uid, version := r.had.UID, r.had.ResourceVersion
		err := c.Delete(ctx, client.ConfigMaps, r.had.Namespace, r.had.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version}})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("remove the record of promises, which somebody has made immutable: %w", err)
		}
		r.had = nil
	}
	next := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: recordName}}
	if r.had != nil {
		next = r.had.DeepCopy()
	}
	next.Data = make(map[string]string, len(want))
	for uid, ranges := range want {
		next.Data[string(uid)] = strings.Join(ranges, ",")
	}
	var err error
	if r.had == nil {
		_, err = client.Create(ctx, c, client.ConfigMaps, next)
	} else {
		_, err = c.Update(ctx, client.ConfigMaps, next)
	}
	if err != nil {
		return fmt.Errorf("promise ranges to %d nodes: %w", len(want), err)
	}
	return nil
}
