package client

import (
	"context"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
)

// Pauses after failures of list and watch double from the first to the last:
// short, so that loops go on soon after the server is back.
const (
	firstPause = 50 * time.Millisecond
	lastPause  = 2 * time.Second
	// watchTime is the least after which the server ends a watch, so that its
	// load spreads over servers.
	watchTime = 5 * time.Minute
)

// remoteView follows a resource by list and watch.
//
//	list --replace--> picture at R --watch from R--> set, remove, move
//	 ^                                    |
//	 +------ history gone (410) ----------+--- broken off: watch again from where
//	                                           the picture is
type remoteView struct {
	*cache
	client *Remote
	res    Resource
	opts   ViewOptions
}

func (r *Remote) View(res Resource, opts ViewOptions) View {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := viewKey{res, opts}
	v := r.views[key]
	if v == nil {
		v = &remoteView{cache: newCache(r.ctx), client: r, res: res, opts: opts}
		r.views[key] = v
		go v.run(r.ctx)
	}
	return v
}

func (v *remoteView) run(ctx context.Context) {
	pause := firstPause
	at := "" // the revision that the picture shows; "" is none
	for ctx.Err() == nil {
		var err error
		if at == "" {
			at, err = v.relist(ctx)
		} else {
			at, err = v.follow(ctx, at)
		}
		if err == nil {
			pause = firstPause
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause + rand.N(pause)):
		}
		pause = min(2*pause, lastPause)
	}
}

func (v *remoteView) relist(ctx context.Context) (at string, err error) {
	objs, at, err := v.list(ctx)
	if err != nil {
		return "", err
	}
	v.replace(objs, at)
	return at, nil
}

// follow watches from a revision and returns the one it got to: "" when the
// server has forgotten what came since.
func (v *remoteView) follow(ctx context.Context, at string) (string, error) {
	w, err := v.watch(ctx, at)
	if err != nil {
		if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
			return "", nil
		}
		return at, err
	}
	defer w.Stop()
	begun := at
	for event := range w.ResultChan() {
		switch event.Type {
		case watch.Error:
			err := apierrors.FromObject(event.Object)
			if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
				return "", nil
			}
			return at, err
		case watch.Bookmark, watch.Added, watch.Modified, watch.Deleted:
			obj, ok := event.Object.(Object)
			if !ok {
				continue
			}
			at = obj.GetResourceVersion()
			switch event.Type {
			case watch.Bookmark:
				v.move(at)
			case watch.Deleted:
				v.remove(obj.GetNamespace(), obj.GetName(), at)
			default:
				v.set(obj)
			}
		}
	}
	if at == begun { // a server that ends every watch at once is not asked in a rush
		return at, errEnded
	}
	return at, nil
}

var errEnded = apierrors.NewTimeoutError("the watch ended before anything happened", 0)

func (v *remoteView) list(ctx context.Context) ([]Object, string, error) {
	opts := metav1.ListOptions{FieldSelector: v.opts.FieldSelector, LabelSelector: v.opts.LabelSelector}
	if !v.opts.Metadata {
		return v.client.List(ctx, v.res, v.opts.Namespace, opts)
	}
	list, err := v.metadata().List(ctx, opts)
	if err != nil {
		return nil, "", err
	}
	return items(list)
}

func (v *remoteView) watch(ctx context.Context, at string) (watch.Interface, error) {
	seconds := int64((watchTime + rand.N(watchTime)) / time.Second)
	opts := metav1.ListOptions{
		FieldSelector: v.opts.FieldSelector, LabelSelector: v.opts.LabelSelector,
		ResourceVersion: at, AllowWatchBookmarks: true, TimeoutSeconds: &seconds,
	}
	if v.opts.Metadata {
		return v.metadata().Watch(ctx, opts)
	}
	return v.client.Watch(ctx, v.res, v.opts.Namespace, opts)
}

func (v *remoteView) metadata() metadata.ResourceInterface {
	if v.opts.Namespace == "" {
		return v.client.metadata.Resource(v.res)
	}
	return v.client.metadata.Resource(v.res).Namespace(v.opts.Namespace)
}
