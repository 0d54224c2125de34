package nodestats

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Point is what one container, or a node, used up to a moment.
type Point struct {
	At     time.Time
	Start  time.Time // zero when unknown
	CPU    float64   // core-seconds since Start
	Memory uint64    // working set in bytes

	cpu, memory bool
}

// Sample is what a node used up to a moment.
type Sample struct {
	Node Point
	// Pods are the containers of each pod that runs.
	Pods map[types.NamespacedName]map[string]Point
}

// Read reads what a kubelet answers at /metrics/resource. Times that are not
// told are now. Containers of which something is missing are left out.
func Read(text []byte, now time.Time) (*Sample, error) {
	s := &Sample{Pods: map[types.NamespacedName]map[string]Point{}}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		name, rest := line, ""
		if i := strings.IndexAny(line, "{ "); i >= 0 {
			name, rest = line[:i], line[i:]
		}
		switch name {
		case containerCPU, containerMemory, containerStart, nodeCPU, nodeMemory:
		default:
			continue
		}
		set, rest, err := readLabels(rest)
		if err != nil {
			return nil, fmt.Errorf("%w in %q", err, line)
		}
		value, at, err := readValue(rest, now)
		if err != nil {
			return nil, fmt.Errorf("%w in %q", err, line)
		}
		if name == nodeCPU || name == nodeMemory {
			s.Node.take(name, value, at)
			continue
		}
		key := types.NamespacedName{Namespace: set["namespace"], Name: set["pod"]}
		pod := s.Pods[key]
		if pod == nil {
			pod = map[string]Point{}
			s.Pods[key] = pod
		}
		p := pod[set["container"]]
		p.take(name, value, at)
		pod[set["container"]] = p
	}
	for key, pod := range s.Pods {
		for name, p := range pod {
			if !p.cpu || !p.memory {
				delete(pod, name)
			}
		}
		if len(pod) == 0 {
			delete(s.Pods, key)
		}
	}
	if !s.Node.cpu || !s.Node.memory {
		return nil, fmt.Errorf("no %s and %s", nodeCPU, nodeMemory)
	}
	return s, nil
}

func (p *Point) take(name string, value float64, at time.Time) {
	switch name {
	case containerCPU, nodeCPU:
		p.CPU, p.At, p.cpu = value, at, true
	case containerMemory, nodeMemory:
		p.Memory, p.memory = uint64(value), true
	case containerStart:
		p.Start = time.Unix(0, int64(value*1e9))
	}
}

// readLabels takes {name="value",...} off the front.
func readLabels(s string) (map[string]string, string, error) {
	if !strings.HasPrefix(s, "{") {
		return nil, s, nil
	}
	out := map[string]string{}
	s = s[1:]
	for {
		s = strings.TrimLeft(s, ", ")
		if after, end := strings.CutPrefix(s, "}"); end {
			return out, after, nil
		}
		name, rest, ok := strings.Cut(s, `="`)
		if !ok {
			return nil, "", fmt.Errorf("labels do not end")
		}
		var value strings.Builder
		i := 0
		for ; i < len(rest) && rest[i] != '"'; i++ {
			c := rest[i]
			if c == '\\' && i+1 < len(rest) {
				i++
				if c = rest[i]; c == 'n' {
					c = '\n'
				}
			}
			value.WriteByte(c)
		}
		if i == len(rest) {
			return nil, "", fmt.Errorf("a label's value does not end")
		}
		out[name], s = value.String(), rest[i+1:]
	}
}

func readValue(s string, now time.Time) (float64, time.Time, error) {
	f := strings.Fields(s)
	if len(f) == 0 || len(f) > 2 {
		return 0, now, fmt.Errorf("no value")
	}
	v, err := strconv.ParseFloat(f[0], 64)
	if err != nil || v < 0 || v != v {
		return 0, now, fmt.Errorf("the value is no amount")
	}
	if len(f) == 1 {
		return v, now, nil
	}
	ms, err := strconv.ParseInt(f[1], 10, 64)
	if err != nil {
		return 0, now, fmt.Errorf("the time is no number of milliseconds")
	}
	return v, time.UnixMilli(ms), nil
}
