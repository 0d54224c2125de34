package apiserver

import (
	"sync"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// deleteWorkers share the store's group commits: with few of them most of the
// time goes into waiting for the disk.
const deleteWorkers = 64

// deleteCollection deletes all that a list would show, and returns the list.
func (s *Server) deleteCollection(c *call, del *metav1.DeleteOptions, opts *metav1.ListOptions) (*page, error) {
	p, _, err := s.list(c, opts)
	if err != nil {
		return nil, err
	}
	var (
		next   atomic.Int64
		failed atomic.Pointer[error]
		wg     sync.WaitGroup
	)
	for range min(deleteWorkers, len(p.records)) {
		wg.Go(func() {
			for failed.Load() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(p.records) {
					return
				}
				one := *c
				one.namespace, one.name = c.sv.names(p.records[i].Key)
				each := *del
				if _, err := s.delete(&one, &each); err != nil && !apierrors.IsNotFound(err) {
					failed.CompareAndSwap(nil, &err)
					return
				}
			}
		})
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		return nil, *err
	}
	return p, nil
}
