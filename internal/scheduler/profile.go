package scheduler

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/setpoint-project/setpoint/internal/client"
)

// The plugins by upstream's names. Those of ours are not apart, but each can
// be weighed or left out.
//
// https://kubernetes.io/docs/reference/scheduling/config/#scheduling-plugins
const (
	nodeUnschedulable = "NodeUnschedulable"
	nodeName          = "NodeName"
	taintToleration   = "TaintToleration"
	nodeAffinity      = "NodeAffinity"
	nodePorts         = "NodePorts"
	nodeResourcesFit  = "NodeResourcesFit"
	balanced          = "NodeResourcesBalancedAllocation"
	imageLocality     = "ImageLocality"
	interPodAffinity  = "InterPodAffinity"
	podTopologySpread = "PodTopologySpread"
	defaultPreemption = "DefaultPreemption"
	schedulingGates   = "SchedulingGates"
	volumeBinding     = "VolumeBinding"
	volumeZone        = "VolumeZone"
	volumeRestricted  = "VolumeRestrictions"
	nodeVolumeLimits  = "NodeVolumeLimits"
	dynamicResources  = "DynamicResources"
)

// without says which plugins are left out; 0 is none.
type without uint16

const (
	withoutUnschedulable without = 1 << iota
	withoutTaints
	withoutAffinity
	withoutPorts
	withoutResources
	withoutPods // InterPodAffinity
	withoutSpread
	withoutPreemption
	withoutGates
	withoutVolumes // VolumeBinding
	withoutZones
	withoutRestrictions
	withoutLimits
	withoutDevices
)

var filterBits = map[string]without{
	nodeUnschedulable: withoutUnschedulable, taintToleration: withoutTaints, nodeAffinity: withoutAffinity, nodePorts: withoutPorts,
	nodeResourcesFit: withoutResources, interPodAffinity: withoutPods, podTopologySpread: withoutSpread,
	defaultPreemption: withoutPreemption, schedulingGates: withoutGates,
	volumeBinding: withoutVolumes, volumeZone: withoutZones, volumeRestricted: withoutRestrictions, nodeVolumeLimits: withoutLimits,
	dynamicResources: withoutDevices,
}

// Profile is a scheduler of a name of its own, that pods choose by their
// spec.schedulerName. The zero value is upstream's default scheduler.
type Profile struct {
	// SchedulerName; "" means "default-scheduler".
	SchedulerName string
	// Weights of the scores by plugin, instead of the default ones; 0 leaves a
	// score out.
	Weights map[string]int64
	// Disabled plugins neither filter nor score; Unfiltered ones score only.
	// Without VolumeBinding nothing is known of claims, and what else is about
	// volumes has nothing to go by.
	Disabled, Unfiltered []string
	// Strategy of NodeResourcesFit: LeastAllocated, the default, MostAllocated
	// or RequestedToCapacityRatio, which needs a Shape.
	Strategy string
	Shape    []ShapePoint
	// Spread are the topology spread constraints of pods that have none of
	// their own, all ScheduleAnyway or DoNotSchedule and without a selector.
	// nil means upstream's: over hosts and zones, softly.
	Spread []corev1.TopologySpreadConstraint
	// Plugins of one's own; see Filter and Scorer. Their weight is in Weights,
	// or 1.
	Plugins []Plugin
	// Sample is the share of the nodes in percent that must fit before the
	// search ends; 0 means that it depends on the size of the cluster.
	Sample int
	// BindTimeout is how long the volumes of a pod may take until they are
	// bound; 0 means 10 minutes.
	BindTimeout time.Duration

	Args
}

// ShapePoint says which score, 0 to 10, a node has that is used to so many
// percent. Between two points the score follows the line.
type ShapePoint struct {
	Utilization, Score int32
}

// profile is a Profile, worked out.
type profile struct {
	Profile
	args
	without without
	weights map[string]int64
	filters []Filter
	scorers []Scorer

	recorder client.Recorder
	usage    func(share int64) int64 // of a capacity used, both of maxScore

	fitWeight, evenWeight int64
}

var defaultWeights = map[string]int64{
	taintToleration: 3, nodeAffinity: 2, podTopologySpread: 2, interPodAffinity: 2,
	nodeResourcesFit: 1, balanced: 1, imageLocality: 1,
}

func newProfile(from Profile) (*profile, error) {
	p := &profile{Profile: from, weights: maps.Clone(defaultWeights)}
	if p.SchedulerName == "" {
		p.SchedulerName = corev1.DefaultSchedulerName
	}
	for _, plugin := range from.Plugins {
		if _, taken := p.weights[plugin.Name()]; taken || filterBits[plugin.Name()] != 0 {
			return nil, fmt.Errorf("scheduler: profile %s: the name of plugin %s is taken", p.SchedulerName, plugin.Name())
		}
		p.weights[plugin.Name()] = 1
		filter, ok := plugin.(Filter)
		if ok {
			p.filters = append(p.filters, filter)
		}
		scorer, scores := plugin.(Scorer)
		if scores {
			p.scorers = append(p.scorers, scorer)
		}
		if !ok && !scores {
			return nil, fmt.Errorf("scheduler: profile %s: plugin %s is neither a Filter nor a Scorer", p.SchedulerName, plugin.Name())
		}
	}
	maps.Copy(p.weights, from.Weights)
	for _, name := range slices.Concat(from.Disabled, from.Unfiltered) {
		p.without |= filterBits[name]
		p.filters = slices.DeleteFunc(p.filters, func(f Filter) bool { return f.Name() == name })
	}
	for _, name := range from.Disabled {
		p.weights[name] = 0
		p.scorers = slices.DeleteFunc(p.scorers, func(s Scorer) bool { return s.Name() == name })
	}
	var err error
	if p.args, err = newArgs(&p.Args); err != nil {
		return nil, fmt.Errorf("scheduler: profile %s: %w", p.SchedulerName, err)
	}
	if err := from.checkNumbers(); err != nil {
		return nil, fmt.Errorf("scheduler: profile %s: %w", p.SchedulerName, err)
	}
	p.fitWeight, p.evenWeight = p.weights[nodeResourcesFit], p.weights[balanced]
	switch p.Strategy {
	case "", "LeastAllocated":
		p.usage = func(share int64) int64 { return maxScore - share }
	case "MostAllocated":
		p.usage = func(share int64) int64 { return share }
	case "RequestedToCapacityRatio":
		if len(p.Shape) == 0 {
			return nil, fmt.Errorf("scheduler: profile %s: RequestedToCapacityRatio needs a shape", p.SchedulerName)
		}
		p.usage = p.shaped
		if p.Resources == nil {
			p.Resources = []ResourceWeight{{corev1.ResourceCPU, 1}, {corev1.ResourceMemory, 1}}
		}
	default:
		return nil, fmt.Errorf("scheduler: profile %s: strategy %q is none of LeastAllocated, MostAllocated and RequestedToCapacityRatio", p.SchedulerName, p.Strategy)
	}
	return p, nil
}

// checkNumbers says what is out of its bounds, which are upstream's.
func (p *Profile) checkNumbers() error {
	if p.Sample < 0 || p.Sample > 100 {
		return fmt.Errorf("percentageOfNodesToScore: %d is not between 0 and 100", p.Sample)
	}
	for i, point := range p.Shape {
		switch {
		case point.Utilization < 0 || point.Utilization > 100:
			return fmt.Errorf("shape[%d]: the utilization, %d, is not between 0 and 100", i, point.Utilization)
		case point.Score < 0 || point.Score > 10:
			return fmt.Errorf("shape[%d]: the score, %d, is not between 0 and 10", i, point.Score)
		case i > 0 && point.Utilization <= p.Shape[i-1].Utilization:
			return fmt.Errorf("shape[%d]: the utilization, %d, is not more than that before it", i, point.Utilization)
		}
	}
	for i := range p.Spread {
		c := &p.Spread[i]
		switch {
		case c.MaxSkew <= 0:
			return fmt.Errorf("defaultConstraints[%d]: the maxSkew, %d, is not more than 0", i, c.MaxSkew)
		case c.TopologyKey == "":
			return fmt.Errorf("defaultConstraints[%d]: it has no topologyKey", i)
		case len(validation.IsQualifiedName(c.TopologyKey)) > 0:
			return fmt.Errorf("defaultConstraints[%d]: the topologyKey, %q, is no name of a label: %s", i, c.TopologyKey, validation.IsQualifiedName(c.TopologyKey)[0])
		case slices.ContainsFunc(p.Spread[:i], func(o corev1.TopologySpreadConstraint) bool {
			return o.TopologyKey == c.TopologyKey && o.WhenUnsatisfiable == c.WhenUnsatisfiable
		}):
			return fmt.Errorf("defaultConstraints[%d]: there is one for %s, %s already", i, c.TopologyKey, c.WhenUnsatisfiable)
		case c.WhenUnsatisfiable != corev1.DoNotSchedule && c.WhenUnsatisfiable != corev1.ScheduleAnyway:
			return fmt.Errorf("defaultConstraints[%d]: whenUnsatisfiable %q is neither DoNotSchedule nor ScheduleAnyway", i, c.WhenUnsatisfiable)
		case c.LabelSelector != nil:
			return fmt.Errorf("defaultConstraints[%d]: it must not have a labelSelector: that comes from each pod", i)
		}
	}
	return nil
}

// Validate says what is wrong with a profile.
func (p *Profile) Validate() error {
	_, err := newProfile(*p)
	return err
}

// shaped finds the score on the lines between the points.
func (p *profile) shaped(share int64) int64 {
	const point = maxScore / 10 // of a score
	at := func(s ShapePoint) int64 { return int64(s.Utilization) * maxScore / 100 }
	if share <= at(p.Shape[0]) {
		return int64(p.Shape[0].Score) * point
	}
	for i, next := range p.Shape[1:] {
		last := p.Shape[i]
		if share <= at(next) {
			return int64(last.Score)*point + int64(next.Score-last.Score)*point*(share-at(last))/max(1, at(next)-at(last))
		}
	}
	return int64(p.Shape[len(p.Shape)-1].Score) * point
}

// PluginNames lists the plugins that are built in.
func PluginNames() []string {
	names := slices.Collect(maps.Keys(defaultWeights))
	for name := range filterBits {
		if _, ok := defaultWeights[name]; !ok {
			names = append(names, name)
		}
	}
	return slices.Sorted(slices.Values(append(names, nodeName)))
}

// defaultProfile is what a podInfo without a profile of its own has.
var defaultProfile = func() *profile {
	p, err := newProfile(Profile{})
	if err != nil {
		panic(err)
	}
	return p
}()
