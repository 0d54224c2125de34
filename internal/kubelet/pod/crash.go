package pod

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/setpoint-project/setpoint/internal/kubelet/cri"
	"github.com/setpoint-project/setpoint/internal/kubelet/logs"
	"github.com/setpoint-project/setpoint/internal/kubelet/status"
)

// crash is the back-off of a container that keeps ending.
type crash struct {
	id    string // of the container that ended last
	delay time.Duration
	until time.Time
	ended time.Time
	wait  v1.ContainerStateWaiting
}

const (
	crashFirst = 10 * time.Second
	crashMax   = 300 * time.Second
	crashReset = 10 * time.Minute
)

// CrashLoopBackOff is the reason of a container that waits for its next try.
const CrashLoopBackOff = "CrashLoopBackOff"

// nextDelay is how long a container waits that ended again: not at all the
// first time, and again after it ran well for a while.
func nextDelay(prev *crash, finished time.Time) time.Duration {
	switch {
	case prev == nil, finished.Sub(prev.ended) > crashReset:
		return 0
	case prev.delay == 0:
		return crashFirst
	}
	return min(2*prev.delay, crashMax)
}

// backUntil is the end of a back-off, by the clock that nobody sets: finished,
// which is by the clock on the wall, may lie in the future when that was set
// back.
func backUntil(finished, now time.Time, delay time.Duration) time.Time {
	return now.Add(delay - max(now.Sub(finished), 0))
}

// adoptedDelay is that of a container found in its back-off by a kubelet that
// restarted: what its restarts so far come to.
func adoptedDelay(restarts int32) time.Duration {
	d := crashFirst
	for range min(restarts-1, 8) {
		d = min(2*d, crashMax)
	}
	return d
}

// harvest takes in what became of containers: last words, back-offs, probes.
func (w *Worker) harvest() {
	ids := map[string]bool{}
	for i := range w.state.Containers {
		c := &w.state.Containers[i]
		ids[c.ID] = true
		if _, read := w.messages[c.ID]; c.Exited() && !read {
			w.messages[c.ID] = w.lastWords(c)
		}
	}
	if w.ended == nil {
		for id := range w.messages {
			if !ids[id] {
				delete(w.messages, id)
			}
		}
	}
	w.watch()
	if w.stop != nil {
		return
	}
	for _, list := range [][]v1.Container{w.pod.Spec.InitContainers, w.pod.Spec.Containers} {
		for i := range list {
			w.back(&list[i])
		}
	}
}

// back settles the back-off of one container.
func (w *Worker) back(spec *v1.Container) {
	c := w.state.Latest(spec.Name)
	if c == nil || !c.Exited() {
		return
	}
	prev := w.crashes[spec.Name]
	if prev != nil && prev.id == c.ID {
		return
	}
	now := time.Now()
	finished := c.FinishedAt
	if finished.IsZero() {
		finished = now
	}
	next := &crash{id: c.ID, ended: finished, delay: nextDelay(prev, finished)}
	if s := lastStatus(w.pod, spec.Name); prev == nil && s != nil && s.State.Waiting != nil && s.State.Waiting.Reason == CrashLoopBackOff {
		next.delay = adoptedDelay(c.Restarts)
	}
	next.until = backUntil(finished, now, next.delay)
	if next.delay > 0 {
		full := fmt.Sprintf("%s_%s(%s)", w.pod.Name, w.pod.Namespace, w.pod.UID)
		next.wait = v1.ContainerStateWaiting{Reason: CrashLoopBackOff,
			Message: fmt.Sprintf("back-off %s restarting failed container=%s pod=%s", next.delay, spec.Name, full)}
	}
	w.crashes[spec.Name] = next
	if next.delay > 0 && status.Restarts(&w.pod.Spec, spec, c.ExitCode) {
		w.deps.Events.Pod(w.pod, spec.Name, v1.EventTypeWarning, "BackOff", "Back-off restarting failed container %s in pod %s_%s(%s)",
			spec.Name, w.pod.Name, w.pod.Namespace, w.pod.UID)
	}
}

const (
	maxMessage      = 4096
	maxMessageLog   = 2048
	maxMessageLines = 80
)

// lastWords is what a container left in its termination message file, or,
// where it failed without a word and its policy says so, the end of its log.
func (w *Worker) lastWords(c *cri.Container) string {
	if c.TerminationPath != "" {
		if f, err := os.Open(c.TerminationPath); err == nil {
			b, _ := io.ReadAll(io.LimitReader(f, maxMessage))
			_ = f.Close()
			if len(b) > 0 {
				return string(b)
			}
		}
	}
	if c.TerminationPolicy != string(v1.TerminationMessageFallbackToLogsOnError) || c.ExitCode == 0 {
		return ""
	}
	path := c.LogPath
	if path == "" {
		path = filepath.Join(w.deps.logDir(w.pod), c.Name, fmt.Sprintf("%d.log", c.Restarts))
	}
	lines := int64(maxMessageLines)
	var out strings.Builder
	if err := logs.Read(w.ctx, path, logs.Options{Tail: &lines, Limit: new(int64(maxMessageLog * 8))}, &out, &out); err != nil {
		return ""
	}
	s := out.String()
	return s[max(0, len(s)-maxMessageLog):]
}
