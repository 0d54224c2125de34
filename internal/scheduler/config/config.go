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
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
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
	if err := backoffs(&file); err != nil {
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
	for i := range file.Extenders {
		e, err := readExtender(&file.Extenders[i])
		if err != nil {
			return nil, nil, fmt.Errorf("scheduler configuration: extenders[%d]: %w", i, err)
		}
		extenders = append(extenders, e)
	}
	return profiles, extenders, nil
}

// backoffs says that pods are tried again after the usual time only.
func backoffs(file *configv1.KubeSchedulerConfiguration) error {
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

// readPlugins: the sets that filter and score can be changed, the others are
// fixed here.
func readPlugins(p *scheduler.Profile, sets *configv1.Plugins, own []scheduler.Plugin) error {
	known := scheduler.PluginNames()
	enable := func(set configv1.PluginSet, where string) error {
		for _, plugin := range set.Enabled {
			i := slices.IndexFunc(own, func(o scheduler.Plugin) bool { return o.Name() == plugin.Name })
			switch {
			case i >= 0:
				if !slices.Contains(p.Plugins, own[i]) {
					p.Plugins = append(p.Plugins, own[i])
				}
			case !slices.Contains(known, plugin.Name):
				return fmt.Errorf("plugins.%s.enabled: there is no plugin %s", where, plugin.Name)
			}
			if plugin.Weight != nil && *plugin.Weight > 0 {
				p.Weights[plugin.Name] = int64(*plugin.Weight)
			} else if where == "score" && i < 0 {
				p.Weights[plugin.Name] = 1
			}
		}
		return nil
	}
	disabled := func(set configv1.PluginSet) (names []string) {
		for _, plugin := range set.Disabled {
			if plugin.Name == "*" {
				for _, name := range known {
					if !slices.ContainsFunc(set.Enabled, func(e configv1.Plugin) bool { return e.Name == name }) {
						names = append(names, name)
					}
				}
				continue
			}
			if !slices.ContainsFunc(set.Enabled, func(e configv1.Plugin) bool { return e.Name == plugin.Name }) {
				names = append(names, plugin.Name)
			}
		}
		return names
	}
	p.Disabled = disabled(sets.MultiPoint)
	p.Unfiltered = slices.Concat(disabled(sets.Filter), disabled(sets.PreEnqueue), disabled(sets.PostFilter))
	for _, name := range disabled(sets.Score) {
		p.Weights[name] = 0
	}
	for _, set := range []struct {
		name string
		set  configv1.PluginSet
	}{{"multiPoint", sets.MultiPoint}, {"filter", sets.Filter}, {"score", sets.Score}, {"preEnqueue", sets.PreEnqueue}, {"postFilter", sets.PostFilter}} {
		if err := enable(set.set, set.name); err != nil {
			return err
		}
	}
	for name, set := range map[string]configv1.PluginSet{"queueSort": sets.QueueSort, "reserve": sets.Reserve, "permit": sets.Permit,
		"preBind": sets.PreBind, "bind": sets.Bind, "postBind": sets.PostBind} {
		if len(set.Enabled) > 0 {
			return fmt.Errorf("plugins.%s: plugins can filter and score only", name)
		}
	}
	return nil
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
			if r.Weight > 1 {
				return fmt.Errorf("args of %s: resources: the weight of %s must be 1", c.Name, r.Name)
			}
			p.BalancedResources = append(p.BalancedResources, corev1.ResourceName(r.Name))
		}
		return nil
	case "DefaultPreemption": // bounds of work, which is bounded otherwise here
		return read(&configv1.DefaultPreemptionArgs{})
	case "DynamicResources":
		return read(&configv1.DynamicResourcesArgs{})
	}
	return fmt.Errorf("there is no plugin %s that takes args", c.Name)
}

func readStrategy(p *scheduler.Profile, s *configv1.ScoringStrategy) error {
	if s == nil {
		return nil
	}
	for _, r := range s.Resources {
		p.Resources = append(p.Resources, scheduler.ResourceWeight{Name: corev1.ResourceName(r.Name), Weight: max(r.Weight, 1)})
	}
	p.Strategy = string(s.Type)
	if s.RequestedToCapacityRatio != nil {
		for _, point := range s.RequestedToCapacityRatio.Shape {
			p.Shape = append(p.Shape, scheduler.ShapePoint{Utilization: point.Utilization, Score: point.Score})
		}
	}
	return nil
}

func readExtender(from *configv1.Extender) (scheduler.Extender, error) {
	e := scheduler.Extender{URL: strings.TrimSuffix(from.URLPrefix, "/"), Filter: from.FilterVerb, Prioritize: from.PrioritizeVerb, Bind: from.BindVerb,
		Weight: from.Weight, Names: from.NodeCacheCapable, Ignorable: from.Ignorable, Timeout: from.HTTPTimeout.Duration}
	if from.PreemptVerb != "" {
		return e, fmt.Errorf("preemptVerb: extenders are not asked about preemption")
	}
	if e.Prioritize != "" && e.Weight <= 0 {
		return e, fmt.Errorf("weight: it must be greater than 0 when there is a prioritizeVerb")
	}
	for _, r := range from.ManagedResources {
		if r.IgnoredByScheduler {
			return e, fmt.Errorf("managedResources: %s cannot be ignored by the scheduler", r.Name)
		}
		e.Resources = append(e.Resources, corev1.ResourceName(r.Name))
	}
	var err error
	e.Client, err = clientFor(from)
	return e, err
}

// clientFor makes a client from the TLS part of an extender.
func clientFor(from *configv1.Extender) (*http.Client, error) {
	if !from.EnableHTTPS && from.TLSConfig == nil {
		return nil, nil
	}
	tlsConfig := &tls.Config{MinVersion: tls.VersionTLS12}
	if t := from.TLSConfig; t != nil {
		tlsConfig.InsecureSkipVerify, tlsConfig.ServerName = t.Insecure, t.ServerName
		ca, err := dataOr(t.CAData, t.CAFile)
		if err != nil {
			return nil, err
		}
		if len(ca) > 0 {
			tlsConfig.RootCAs = x509.NewCertPool()
			if !tlsConfig.RootCAs.AppendCertsFromPEM(ca) {
				return nil, fmt.Errorf("tlsConfig: no certificate in the CA")
			}
		}
		cert, err := dataOr(t.CertData, t.CertFile)
		if err != nil {
			return nil, err
		}
		key, err := dataOr(t.KeyData, t.KeyFile)
		if err != nil {
			return nil, err
		}
		if len(cert) > 0 {
			pair, err := tls.X509KeyPair(cert, key)
			if err != nil {
				return nil, fmt.Errorf("tlsConfig: %w", err)
			}
			tlsConfig.Certificates = []tls.Certificate{pair}
		}
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: tlsConfig, Proxy: http.ProxyFromEnvironment}}, nil
}

func dataOr(data []byte, file string) ([]byte, error) {
	if len(data) > 0 || file == "" {
		return data, nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("tlsConfig: %w", err)
	}
	return data, nil
}
