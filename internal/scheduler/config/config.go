// Package config reads KubeSchedulerConfiguration files, so that what was
// written for upstream's scheduler works here.
//
//	options, err := config.Read(data)
//
// What a file asks for and cannot have is an error, never left out silently;
// but leader election, client connections and debugging, which are not the
// scheduler's business here, are.
//
// https://kubernetes.io/docs/reference/config-api/kube-scheduler-config.v1/
package config

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"sigs.k8s.io/yaml"

	"github.com/setpoint-project/setpoint/internal/scheduler"
)

// Read returns the profiles and extenders of a file. plugins of one's own are
// those that profiles may enable.
func Read(data []byte, plugins ...scheduler.Plugin) (profiles []scheduler.Profile, extenders []scheduler.Extender, err error) {
	var file configv1.KubeSchedulerConfiguration
	if err := yaml.UnmarshalStrict(data, &file); err != nil {
		return nil, nil, fmt.Errorf("scheduler configuration: %w", err)
	}
	if file.Kind != "KubeSchedulerConfiguration" || file.APIVersion != configv1.SchemeGroupVersion.String() {
		return nil, nil, fmt.Errorf("scheduler configuration: it is a %s of %s; a KubeSchedulerConfiguration of %s is due", file.Kind, file.APIVersion, configv1.SchemeGroupVersion)
	}
	if err := general(&file); err != nil {
		return nil, nil, fmt.Errorf("scheduler configuration: %w", err)
	}
	extenders, ignored, err := readExtenders(file.Extenders)
	if err != nil {
		return nil, nil, fmt.Errorf("scheduler configuration: %w", err)
	}
	if len(file.Profiles) == 0 {
		file.Profiles = []configv1.KubeSchedulerProfile{{}}
	}
	names := map[string]bool{}
	for i := range file.Profiles {
		p, err := readProfile(&file.Profiles[i], plugins)
		if err != nil {
			return nil, nil, fmt.Errorf("scheduler configuration: profiles[%d]: %w", i, err)
		}
		p.IgnoredResources = append(p.IgnoredResources, ignored...)
		if p.Sample == 0 && file.PercentageOfNodesToScore != nil {
			p.Sample = int(*file.PercentageOfNodesToScore)
		}
		if err := p.Validate(); err != nil {
			return nil, nil, fmt.Errorf("scheduler configuration: profiles[%d]: %w", i, err)
		}
		name := cmp.Or(p.SchedulerName, corev1.DefaultSchedulerName)
		if names[name] {
			return nil, nil, fmt.Errorf("scheduler configuration: profiles[%d]: there is a profile %s already", i, name)
		}
		names[name] = true
		profiles = append(profiles, p)
	}
	return profiles, extenders, nil
}

// general checks what is said for all profiles. How many nodes are looked at at
// the same time, and who leads, is not for the file to say here: it has to make
// sense all the same. Pods are tried again after the usual time only.
func general(file *configv1.KubeSchedulerConfiguration) error {
	if n := file.Parallelism; n != nil && *n <= 0 {
		return fmt.Errorf("parallelism: %d is not greater than 0", *n)
	}
	if n := file.PercentageOfNodesToScore; n != nil && (*n < 0 || *n > 100) {
		return fmt.Errorf("percentageOfNodesToScore: %d is not between 0 and 100", *n)
	}
	if n := file.ClientConnection.Burst; n < 0 {
		return fmt.Errorf("clientConnection: burst: %d is less than 0", n)
	}
	if err := leaderElection(&file.LeaderElection); err != nil {
		return fmt.Errorf("leaderElection: %w", err)
	}
	for _, b := range []struct {
		name  string
		asked *int64
		is    int64
	}{{"podInitialBackoffSeconds", file.PodInitialBackoffSeconds, 1}, {"podMaxBackoffSeconds", file.PodMaxBackoffSeconds, 10}} {
		if b.asked != nil && *b.asked != b.is {
			return fmt.Errorf("%s: it is always %d", b.name, b.is)
		}
	}
	return nil
}

func readProfile(from *configv1.KubeSchedulerProfile, plugins []scheduler.Plugin) (scheduler.Profile, error) {
	p := scheduler.Profile{Weights: map[string]int64{}}
	if from.SchedulerName != nil {
		p.SchedulerName = *from.SchedulerName
	}
	if from.PercentageOfNodesToScore != nil {
		p.Sample = int(*from.PercentageOfNodesToScore)
	}
	if from.Plugins != nil {
		if err := readPlugins(&p, from.Plugins, plugins); err != nil {
			return p, err
		}
	}
	for i := range from.PluginConfig {
		name := from.PluginConfig[i].Name
		if slices.ContainsFunc(from.PluginConfig[:i], func(c configv1.PluginConfig) bool { return c.Name == name }) {
			return p, fmt.Errorf("pluginConfig[%d]: there are args of %s already", i, name)
		}
		if err := readArgs(&p, &from.PluginConfig[i]); err != nil {
			return p, fmt.Errorf("pluginConfig[%d]: %w", i, err)
		}
	}
	return p, nil
}

// readArgs reads the arguments of a plugin.
func readArgs(p *scheduler.Profile, c *configv1.PluginConfig) error {
	read := func(args any) error {
		d := json.NewDecoder(strings.NewReader(string(c.Args.Raw)))
		d.DisallowUnknownFields()
		if err := d.Decode(args); err != nil {
			return fmt.Errorf("args of %s: %w", c.Name, err)
		}
		return nil
	}
	switch c.Name {
	case "NodeResourcesFit":
		var args configv1.NodeResourcesFitArgs
		if err := read(&args); err != nil {
			return err
		}
		p.IgnoredResources, p.IgnoredResourceGroups = args.IgnoredResources, args.IgnoredResourceGroups
		return readStrategy(p, args.ScoringStrategy)
	case "PodTopologySpread":
		var args configv1.PodTopologySpreadArgs
		if err := read(&args); err != nil {
			return err
		}
		switch {
		case args.DefaultingType == configv1.ListDefaulting:
			p.Spread = append([]corev1.TopologySpreadConstraint{}, args.DefaultConstraints...)
		case args.DefaultingType != "" && args.DefaultingType != configv1.SystemDefaulting:
			return fmt.Errorf("args of %s: defaultingType: %s is neither List nor System", c.Name, args.DefaultingType)
		case len(args.DefaultConstraints) > 0:
			return fmt.Errorf("args of %s: defaultConstraints: there must be none unless defaultingType is List", c.Name)
		}
		return nil
	case "InterPodAffinity":
		var args configv1.InterPodAffinityArgs
		if err := read(&args); err != nil {
			return err
		}
		p.HardPodAffinityWeight, p.IgnorePreferredTermsOfExistingPods = args.HardPodAffinityWeight, args.IgnorePreferredTermsOfExistingPods
		return nil
	case "NodeAffinity":
		var args configv1.NodeAffinityArgs
		if err := read(&args); err != nil {
			return err
		}
		p.AddedAffinity = args.AddedAffinity
		return nil
	case "VolumeBinding":
		var args configv1.VolumeBindingArgs
		if err := read(&args); err != nil {
			return err
		}
		if args.BindTimeoutSeconds != nil {
			if *args.BindTimeoutSeconds < 0 {
				return fmt.Errorf("args of %s: bindTimeoutSeconds: it must not be less than 0", c.Name)
			}
			p.BindTimeout = time.Duration(*args.BindTimeoutSeconds) * time.Second
		}
		if len(args.Shape) > 0 {
			return fmt.Errorf("args of %s: nodes are not scored by their storage: shape must be empty", c.Name)
		}
		return nil
	case "NodeResourcesBalancedAllocation":
		var args configv1.NodeResourcesBalancedAllocationArgs
		if err := read(&args); err != nil {
			return err
		}
		for _, r := range args.Resources {
			if r.Weight != 0 && r.Weight != 1 {
				return fmt.Errorf("args of %s: resources: the weight of %s must be 1", c.Name, r.Name)
			}
			if slices.Contains(p.BalancedResources, corev1.ResourceName(r.Name)) {
				return fmt.Errorf("args of %s: resources: there is %s already", c.Name, r.Name)
			}
			p.BalancedResources = append(p.BalancedResources, corev1.ResourceName(r.Name))
		}
		return nil
	case "DefaultPreemption":
		var args configv1.DefaultPreemptionArgs
		if err := read(&args); err != nil {
			return err
		}
		p.MinCandidateNodesPercentage, p.MinCandidateNodesAbsolute = args.MinCandidateNodesPercentage, args.MinCandidateNodesAbsolute
		return nil
	case "DynamicResources":
		var args configv1.DynamicResourcesArgs
		if err := read(&args); err != nil {
			return err
		}
		if t := args.FilterTimeout; t != nil && t.Duration < 0 {
			return fmt.Errorf("args of %s: filterTimeout: it must not be less than 0", c.Name)
		}
		if t := args.BindingTimeout; t != nil && t.Duration < time.Second {
			return fmt.Errorf("args of %s: bindingTimeout: it must not be less than 1s", c.Name)
		}
		return nil
	}
	return fmt.Errorf("there is no plugin %s that takes args", c.Name)
}

func readStrategy(p *scheduler.Profile, s *configv1.ScoringStrategy) error {
	if s == nil {
		return nil
	}
	byShape := s.Type == configv1.RequestedToCapacityRatio
	switch {
	case s.Type == "":
		return fmt.Errorf("scoringStrategy: type: it must be LeastAllocated, MostAllocated or RequestedToCapacityRatio")
	case byShape && s.RequestedToCapacityRatio == nil:
		return fmt.Errorf("scoringStrategy: requestedToCapacityRatio: it must be there when the type is RequestedToCapacityRatio")
	case !byShape && s.RequestedToCapacityRatio != nil:
		return fmt.Errorf("scoringStrategy: requestedToCapacityRatio: it must not be there when the type is %s", s.Type)
	}
	for _, r := range s.Resources {
		weight := r.Weight
		if weight == 0 {
			weight = 1
		}
		p.Resources = append(p.Resources, scheduler.ResourceWeight{Name: corev1.ResourceName(r.Name), Weight: weight})
	}
	p.Strategy = string(s.Type)
	if byShape {
		for _, point := range s.RequestedToCapacityRatio.Shape {
			p.Shape = append(p.Shape, scheduler.ShapePoint{Utilization: point.Utilization, Score: point.Score})
		}
	}
	return nil
}
