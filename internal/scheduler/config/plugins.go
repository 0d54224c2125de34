package config

import (
	"fmt"
	"slices"

	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/setpoint-project/setpoint/internal/scheduler"
)

// A profile must have one of each: these, as there are no others.
const (
	prioritySort  = "PrioritySort"
	defaultBinder = "DefaultBinder"
)

// pluginSet is one of the sets of a profile.
type pluginSet struct {
	name string
	configv1.PluginSet
}

// readPlugins: the sets that filter and score can be changed, in the others
// stand those only that are there anyhow.
func readPlugins(p *scheduler.Profile, sets *configv1.Plugins, own []scheduler.Plugin) error {
	known := scheduler.PluginNames()
	r := pluginReader{p: p, own: own, known: known}
	p.Disabled = r.disabled(sets.MultiPoint)
	p.Unfiltered = slices.Concat(r.disabled(sets.Filter), r.disabled(sets.PreEnqueue), r.disabled(sets.PostFilter))
	for _, name := range r.disabled(sets.Score) {
		p.Weights[name] = 0
	}
	everywhere := append(slices.Clone(known), prioritySort, defaultBinder)
	for _, s := range []struct {
		pluginSet
		known []string
		own   bool
	}{
		{pluginSet{"multiPoint", sets.MultiPoint}, everywhere, true},
		{pluginSet{"filter", sets.Filter}, known, true},
		{pluginSet{"score", sets.Score}, known, true},
		{pluginSet{"preEnqueue", sets.PreEnqueue}, known, false},
		{pluginSet{"preFilter", sets.PreFilter}, known, false},
		{pluginSet{"postFilter", sets.PostFilter}, known, false},
		{pluginSet{"preScore", sets.PreScore}, known, false},
		{pluginSet{"queueSort", sets.QueueSort}, []string{prioritySort}, false},
		{pluginSet{"reserve", sets.Reserve}, []string{"VolumeBinding", "DynamicResources"}, false},
		{pluginSet{"permit", sets.Permit}, nil, false},
		{pluginSet{"preBind", sets.PreBind}, []string{"VolumeBinding", "DynamicResources"}, false},
		{pluginSet{"bind", sets.Bind}, []string{defaultBinder}, false},
		{pluginSet{"postBind", sets.PostBind}, nil, false},
		{pluginSet{"placementGenerate", sets.PlacementGenerate}, nil, false},
		{pluginSet{"placementScore", sets.PlacementScore}, nil, false},
		{pluginSet{"podGroupPostFilter", sets.PodGroupPostFilter}, nil, false},
	} {
		if err := r.enable(s.pluginSet, s.known, s.own); err != nil {
			return fmt.Errorf("plugins.%s.enabled%w", s.name, err)
		}
	}
	for _, must := range []struct {
		plugin string
		pluginSet
		task string
	}{{prioritySort, pluginSet{"queueSort", sets.QueueSort}, "sorts the queue"}, {defaultBinder, pluginSet{"bind", sets.Bind}, "binds"}} {
		if !enabled(must.PluginSet, must.plugin) && (takesAway(sets.MultiPoint, must.plugin) || takesAway(must.PluginSet, must.plugin)) {
			return fmt.Errorf("plugins.%s: no plugin %s: %s must be enabled", must.name, must.task, must.plugin)
		}
	}
	return nil
}

func enabled(set configv1.PluginSet, name string) bool {
	return slices.ContainsFunc(set.Enabled, func(e configv1.Plugin) bool { return e.Name == name })
}

// takesAway tells whether a plugin that is there by default is not with this
// set.
func takesAway(set configv1.PluginSet, name string) bool {
	return !enabled(set, name) && slices.ContainsFunc(set.Disabled, func(d configv1.Plugin) bool { return d.Name == "*" || d.Name == name })
}

type pluginReader struct {
	p     *scheduler.Profile
	own   []scheduler.Plugin
	known []string // the built-in ones
}

// enable takes in what a set enables. The error begins behind "enabled".
func (r *pluginReader) enable(set pluginSet, known []string, own bool) error {
	for i, plugin := range set.Enabled {
		mine := slices.IndexFunc(r.own, func(o scheduler.Plugin) bool { return o.Name() == plugin.Name })
		switch {
		case enabled(configv1.PluginSet{Enabled: set.Enabled[:i]}, plugin.Name):
			return fmt.Errorf("[%d]: there is %s already", i, plugin.Name)
		case mine >= 0 && own:
			if !slices.Contains(r.p.Plugins, r.own[mine]) {
				r.p.Plugins = append(r.p.Plugins, r.own[mine])
			}
		case mine >= 0:
			return fmt.Errorf(": %s can filter and score only", plugin.Name)
		case !slices.Contains(known, plugin.Name) && slices.Contains(append(r.known, prioritySort, defaultBinder), plugin.Name):
			return fmt.Errorf(": %s is no plugin for that", plugin.Name)
		case !slices.Contains(known, plugin.Name):
			return fmt.Errorf(": there is no plugin %s", plugin.Name)
		}
		switch {
		case plugin.Weight != nil && *plugin.Weight < 0:
			return fmt.Errorf("[%d]: weight: %d is less than 0", i, *plugin.Weight)
		case plugin.Weight != nil && *plugin.Weight > 0:
			r.p.Weights[plugin.Name] = int64(*plugin.Weight)
		case set.name == "score" && mine < 0:
			r.p.Weights[plugin.Name] = 1
		}
	}
	return nil
}

// disabled lists the built-in plugins that a set takes away.
func (r *pluginReader) disabled(set configv1.PluginSet) (names []string) {
	for _, plugin := range set.Disabled {
		if plugin.Name == "*" {
			for _, name := range r.known {
				if !enabled(set, name) {
					names = append(names, name)
				}
			}
			continue
		}
		if !enabled(set, plugin.Name) {
			names = append(names, plugin.Name)
		}
	}
	return names
}
