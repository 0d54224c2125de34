// Package image makes sure that an image that a pod needs, for a container or
// as a volume, is on the node: by the pull policy, with the pod's pull secrets, with a back-off for what fails
// (10 s doubling to 300 s), a few pulls at a time.
//
// Concurrency: a Puller may be used from many goroutines. Failure: Ensure
// answers with an *Error, whose Reason is what the container's status says.
package image

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/distribution/reference"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/setpoint-project/setpoint/internal/kubelet/cri"
)

// Reasons of a container whose image is not there, as upstream names them.
const (
	ErrImagePull     = "ErrImagePull"
	ImagePullBackOff = "ImagePullBackOff"
	ErrNeverPull     = "ErrImageNeverPull"
	InvalidImageName = "InvalidImageName"
	ErrImageInspect  = "ImageInspectError"
)

const (
	firstBackoff = 10 * time.Second
	maxBackoff   = 300 * time.Second
)

// Error says why an image is not there.
type Error struct {
	Reason  string
	Message string
	Retry   time.Time // when it makes sense to look again
}

func (e *Error) Error() string { return e.Reason + ": " + e.Message }

// Events is where a Puller tells what it does.
type Events interface {
	Pod(pod *v1.Pod, container, kind, reason, format string, args ...any)
}

// Secrets finds a pull secret.
type Secrets func(ctx context.Context, namespace, name string) (*v1.Secret, error)

// Options of a Puller.
type Options struct {
	Images   runtimeapi.ImageServiceClient
	Events   Events
	Secrets  Secrets
	Parallel int // pulls at a time; 0 means 4
}

// Puller ensures images.
type Puller struct {
	opts  Options
	slots chan struct{}

	mu   sync.Mutex
	back map[string]*failure // guarded by mu; by pod UID and image
}

type failure struct {
	delay time.Duration
	until time.Time
	at    time.Time
	last  string
}

// New makes a Puller.
func New(opts Options) *Puller {
	if opts.Parallel == 0 {
		opts.Parallel = 4
	}
	return &Puller{opts: opts, slots: make(chan struct{}, opts.Parallel), back: map[string]*failure{}}
}

// Need is an image that a pod needs.
type Need struct {
	Container string // whose image it is, for events; empty: it is a volume's
	Image     string // as the spec names it
	Policy    v1.PullPolicy
}

// OfContainer is the image that a container is made from.
func OfContainer(c *v1.Container) Need { return Need{c.Name, c.Image, c.ImagePullPolicy} }

// OfVolume is the image that a volume shows.
func OfVolume(s *v1.ImageVolumeSource) Need { return Need{"", s.Reference, s.PullPolicy} }

// normalize adds the tag "latest" to a name that has neither tag nor digest.
func normalize(image string) (string, error) {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return "", err
	}
	if reference.IsNameOnly(named) {
		return image + ":latest", nil
	}
	return image, nil
}

// Ensure makes sure that an image is there and returns the runtime's
// reference to it.
func (p *Puller) Ensure(ctx context.Context, pod *v1.Pod, c Need, sandbox *runtimeapi.PodSandboxConfig) (string, error) {
	name, err := normalize(c.Image)
	if err != nil {
		msg := fmt.Sprintf("Failed to apply default image tag %q: couldn't parse image name %q: %v", c.Image, c.Image, err)
		p.opts.Events.Pod(pod, c.Container, v1.EventTypeWarning, "InspectFailed", "%s", msg)
		p.failed(pod, c, InvalidImageName)
		return "", &Error{InvalidImageName, msg, time.Now().Add(maxBackoff)}
	}
	spec := &runtimeapi.ImageSpec{Image: name, UserSpecifiedImage: c.Image, Annotations: pod.Annotations}
	ref, err := p.present(ctx, spec)
	if err != nil {
		msg := fmt.Sprintf("Failed to inspect image %q: %s", c.Image, cri.Message(err))
		p.opts.Events.Pod(pod, c.Container, v1.EventTypeWarning, "InspectFailed", "%s", msg)
		p.failed(pod, c, ErrImageInspect)
		return "", &Error{ErrImageInspect, msg, time.Now().Add(firstBackoff / 5)}
	}
	switch policy := c.policy(); {
	case ref != "" && policy != v1.PullAlways:
		p.opts.Events.Pod(pod, c.Container, v1.EventTypeNormal, "Pulled", "Container image %q already present on machine and can be accessed by the pod", c.Image)
		return ref, nil
	case policy == v1.PullNever:
		msg := fmt.Sprintf("Container image %q is not present with pull policy of Never", c.Image)
		p.opts.Events.Pod(pod, c.Container, v1.EventTypeWarning, ErrNeverPull, "%s", msg)
		p.failed(pod, c, ErrNeverPull)
		return "", &Error{ErrNeverPull, msg, time.Now().Add(firstBackoff)}
	}
	key := string(pod.UID) + "/" + c.Image
	if f := p.inBackoff(key); f != nil {
		msg := fmt.Sprintf("Back-off pulling image %q", c.Image)
		p.opts.Events.Pod(pod, c.Container, v1.EventTypeNormal, "BackOff", "%s", msg)
		p.failed(pod, c, ImagePullBackOff)
		return "", &Error{ImagePullBackOff, msg + ": " + ErrImagePull + ": " + f.last, f.until}
	}
	return p.pull(ctx, key, pod, c, spec, sandbox)
}

// policy is the pull policy; the API server sets it, so the default here only
// counts for pods of others' making.
func (c Need) policy() v1.PullPolicy {
	if c.Policy != "" {
		return c.Policy
	}
	if name, err := normalize(c.Image); err == nil && strings.HasSuffix(name, ":latest") {
		return v1.PullAlways
	}
	return v1.PullIfNotPresent
}

func (p *Puller) failed(pod *v1.Pod, c Need, reason string) {
	p.opts.Events.Pod(pod, c.Container, v1.EventTypeWarning, "Failed", "Error: %s", reason)
}

// present is the runtime's reference to an image, empty when it is not there.
func (p *Puller) present(ctx context.Context, spec *runtimeapi.ImageSpec) (string, error) {
	resp, err := p.opts.Images.ImageStatus(ctx, &runtimeapi.ImageStatusRequest{Image: spec})
	if err != nil {
		return "", err
	}
	return resp.GetImage().GetId(), nil
}

// Digest is the name by which people know an image that is there: one with a
// digest, or the runtime's reference when it came without a name.
func (p *Puller) Digest(ctx context.Context, ref string) string {
	resp, err := p.opts.Images.ImageStatus(ctx, &runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: ref}})
	if err != nil || len(resp.GetImage().GetRepoDigests()) == 0 {
		return ref
	}
	return resp.Image.RepoDigests[0]
}

func (p *Puller) pull(ctx context.Context, key string, pod *v1.Pod, c Need, spec *runtimeapi.ImageSpec, sandbox *runtimeapi.PodSandboxConfig) (string, error) {
	asked := time.Now()
	p.opts.Events.Pod(pod, c.Container, v1.EventTypeNormal, "Pulling", "Pulling image %q", c.Image)
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	start := time.Now()
	ref, err := p.pullWith(ctx, pod, spec, sandbox)
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if err != nil {
		msg := cri.Message(err)
		p.opts.Events.Pod(pod, c.Container, v1.EventTypeWarning, "Failed", "Failed to pull image %q: %s", c.Image, msg)
		p.failed(pod, c, ErrImagePull)
		p.note(key, msg)
		return "", &Error{ErrImagePull, msg, time.Now().Add(time.Second)}
	}
	p.forget(key)
	done := time.Now()
	var size uint64
	if resp, err := p.opts.Images.ImageStatus(ctx, &runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: ref}}); err == nil {
		size = resp.GetImage().GetSize()
	}
	p.opts.Events.Pod(pod, c.Container, v1.EventTypeNormal, "Pulled", "Successfully pulled image %q in %v (%v including waiting). Image size: %d bytes.",
		c.Image, done.Sub(start).Truncate(time.Millisecond), done.Sub(asked).Truncate(time.Millisecond), size)
	return ref, nil
}

// pullWith tries the credentials that fit the image, one after the other, and
// without any when none fits.
func (p *Puller) pullWith(ctx context.Context, pod *v1.Pod, spec *runtimeapi.ImageSpec, sandbox *runtimeapi.PodSandboxConfig) (string, error) {
	auths, err := p.credentials(ctx, pod, spec.Image)
	if err != nil {
		return "", err
	}
	if len(auths) == 0 {
		auths = []*runtimeapi.AuthConfig{nil}
	}
	var errs []error
	for _, auth := range auths {
		resp, err := p.opts.Images.PullImage(ctx, &runtimeapi.PullImageRequest{Image: spec, Auth: auth, SandboxConfig: sandbox})
		if err == nil {
			return resp.ImageRef, nil
		}
		errs = append(errs, err)
	}
	if len(errs) == 1 {
		return "", errs[0]
	}
	return "", errors.Join(errs...)
}

func (p *Puller) inBackoff(key string) *failure {
	p.mu.Lock()
	defer p.mu.Unlock()
	if f := p.back[key]; f != nil && time.Now().Before(f.until) {
		return f
	}
	return nil
}

// note counts a failure; what failed long ago starts anew.
func (p *Puller) note(key, msg string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	for k, f := range p.back { // the failures of pods that are gone
		if now.Sub(f.at) > 2*maxBackoff {
			delete(p.back, k)
		}
	}
	next := &failure{delay: firstBackoff, at: now, last: msg}
	if f := p.back[key]; f != nil {
		next.delay = min(2*f.delay, maxBackoff)
	}
	next.until = now.Add(next.delay)
	p.back[key] = next
}

func (p *Puller) forget(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.back, key)
}
