package config_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/setpoint-project/setpoint/internal/scheduler"
	"github.com/setpoint-project/setpoint/internal/scheduler/config"
)

const head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"

// licence is a plugin of one's own.
type licence struct{}

func (licence) Name() string                              { return "Licence" }
func (licence) Filter(*corev1.Pod, scheduler.Node) string { return "" }

func TestRead(t *testing.T) {
	profiles, extenders, err := config.Read([]byte(head+`
percentageOfNodesToScore: 30
leaderElection: {leaderElect: false}
profiles:
- schedulerName: packed
  percentageOfNodesToScore: 70
  plugins:
    multiPoint:
      enabled: [{name: Licence}]
      disabled: [{name: ImageLocality}]
    filter: {disabled: [{name: NodePorts}]}
    score:
      disabled: [{name: '*'}]
      enabled: [{name: NodeResourcesFit, weight: 5}]
    postFilter: {disabled: [{name: DefaultPreemption}]}
  pluginConfig:
  - name: NodeResourcesFit
    args:
      ignoredResources: [example.com/licence]
      ignoredResourceGroups: [example.org]
      scoringStrategy:
        type: RequestedToCapacityRatio
        resources: [{name: cpu, weight: 3}, {name: example.com/gpu}]
        requestedToCapacityRatio: {shape: [{utilization: 0, score: 0}, {utilization: 100, score: 10}]}
  - name: PodTopologySpread
    args: {defaultingType: List}
  - name: VolumeBinding
    args: {bindTimeoutSeconds: 30}
  - name: NodeAffinity
    args: {addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: pool, operator: Exists}]}]}}}
  - name: InterPodAffinity
    args: {hardPodAffinityWeight: 7, ignorePreferredTermsOfExistingPods: true}
  - name: NodeResourcesBalancedAllocation
    args: {resources: [{name: cpu, weight: 1}, {name: memory, weight: 1}, {name: ephemeral-storage, weight: 1}]}
- {}
extenders:
- urlPrefix: http://localhost:80/
  filterVerb: filter
  prioritizeVerb: score
  weight: 3
  nodeCacheCapable: true
  ignorable: true
  httpTimeout: 2s
  managedResources: [{name: example.com/gpu}]
`), licence{})
	if err != nil {
		t.Fatal(err)
	}
	p := profiles[0]
	if p.SchedulerName != "packed" || p.Sample != 70 || p.BindTimeout != 30*time.Second || profiles[1].Sample != 30 || profiles[1].SchedulerName != "" {
		t.Errorf("profiles are %+v", profiles)
	}
	if d := cmp.Diff([]string{"ImageLocality"}, p.Disabled); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"NodePorts", "DefaultPreemption"}, p.Unfiltered); d != "" {
		t.Error(d)
	}
	if p.Weights["NodeResourcesFit"] != 5 || p.Weights["TaintToleration"] != 0 || len(p.Plugins) != 1 || p.Spread == nil || len(p.Spread) != 0 ||
		p.Strategy != "RequestedToCapacityRatio" || len(p.Shape) != 2 || p.Shape[1].Score != 10 {
		t.Errorf("got %+v", p)
	}
	if d := cmp.Diff(scheduler.Args{
		AddedAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
			{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "pool", Operator: corev1.NodeSelectorOpExists}}}}}},
		HardPodAffinityWeight: new(int32(7)), IgnorePreferredTermsOfExistingPods: true,
		IgnoredResources: []string{"example.com/licence"}, IgnoredResourceGroups: []string{"example.org"},
		Resources:         []scheduler.ResourceWeight{{Name: "cpu", Weight: 3}, {Name: "example.com/gpu", Weight: 1}},
		BalancedResources: []corev1.ResourceName{"cpu", "memory", "ephemeral-storage"},
	}, p.Args); d != "" {
		t.Error(d)
	}
	e := extenders[0]
	if e.URL != "http://localhost:80" || e.Filter != "filter" || e.Prioritize != "score" || e.Weight != 3 || !e.Names || !e.Ignorable ||
		e.Timeout.Seconds() != 2 || len(e.Resources) != 1 {
		t.Errorf("got %+v", e)
	}
}

// What cannot be had is said, with where it stands.
func TestReadRefuses(t *testing.T) {
	spread := func(args string) string {
		return "profiles: [{pluginConfig: [{name: PodTopologySpread, args: {" + args + "}}]}]"
	}
	shape := func(points string) string {
		return "profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: RequestedToCapacityRatio, requestedToCapacityRatio: {shape: [" + points + "]}}}}]}]"
	}
	preemption := func(args string) string {
		return "profiles: [{pluginConfig: [{name: DefaultPreemption, args: {" + args + "}}]}]"
	}
	strategy := func(args string) string {
		return "profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {" + args + "}}}]}]"
	}
	for _, test := range []struct{ text, want string }{
		{"kind: Pod", "a KubeSchedulerConfiguration of"},
		{head + "colour: red", "colour"},
		{head + "profiles: [{plugins: {score: {enabled: [{name: Nobody}]}}}]", "profiles[0]: plugins.score.enabled: there is no plugin Nobody"},
		{head + "profiles: [{plugins: {bind: {enabled: [{name: Mine}]}}}]", "profiles[0]: plugins.bind.enabled: there is no plugin Mine"},
		{head + "profiles: [{pluginConfig: [{name: InterPodAffinity, args: {hardPodAffinityWeight: 107}}]}]", "profiles[0]: scheduler: profile default-scheduler: hardPodAffinityWeight: 107 is not between 0 and 100"},
		{head + "profiles: [{pluginConfig: [{name: InterPodAffinity, args: {hardPodAffinityWeight: x}}]}]", "pluginConfig[0]: args of InterPodAffinity"},
		{head + "profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {ignoredResourceGroups: [a.io/b]}}]}]", "ignoredResourceGroups: a.io/b is no group"},
		{head + "profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: LeastAllocated, resources: [{name: cpu, weight: 101}]}}}]}]", "the weight of cpu, 101, is not between 1 and 100"},
		{head + "profiles: [{pluginConfig: [{name: NodeResourcesBalancedAllocation, args: {resources: [{name: cpu, weight: 2}]}}]}]", "the weight of cpu must be 1"},
		{head + "profiles: [{pluginConfig: [{name: NodeAffinity, args: {addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: k, operator: Likes}]}]}}}}]}]", "addedAffinity: "},
		{head + "profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {nonsense: 7}}]}]", "nonsense"},
		{head + "profiles: [{pluginConfig: [{name: Nobody}]}]", "there is no plugin Nobody that takes args"},
		{head + "profiles: [{}, {}]", "profiles[1]: there is a profile default-scheduler already"},
		{head + "podInitialBackoffSeconds: 5", "podInitialBackoffSeconds: it is always 1"},
		{head + "podMaxBackoffSeconds: 60", "podMaxBackoffSeconds: it is always 10"},
		{head + "percentageOfNodesToScore: 101", "percentageOfNodesToScore: 101 is not between 0 and 100"},
		{head + "profiles: [{pluginConfig: [{name: NodeAffinity, args: {}}, {name: NodeAffinity, args: {}}]}]", "pluginConfig[1]: there are args of NodeAffinity already"},
		{head + "profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {ignoredResources: [a/b/c]}}]}]", "ignoredResources: \"a/b/c\" is no name of a resource"},
		{head + "profiles: [{pluginConfig: [{name: DefaultPreemption, args: {nonsense: 7}}]}]", "nonsense"},
		{head + "profiles: [{pluginConfig: [{name: VolumeBinding, args: {bindTimeoutSeconds: -1}}]}]", "bindTimeoutSeconds"},
		{head + spread("defaultingType: Lists"), "defaultingType: Lists is neither List nor System"},
		{head + spread("defaultConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]"), "there must be none unless defaultingType is List"},
		{head + spread("defaultingType: List, defaultConstraints: [{maxSkew: 0, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]"), "defaultConstraints[0]: the maxSkew, 0, is not more than 0"},
		{head + spread("defaultingType: List, defaultConstraints: [{maxSkew: 1, whenUnsatisfiable: DoNotSchedule}]"), "it has no topologyKey"},
		{head + spread("defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: zone}]"), "whenUnsatisfiable \"\" is neither"},
		{head + spread("defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {}}]"), "it must not have a labelSelector"},
		{head + shape("{utilization: 101, score: 1}"), "the utilization, 101, is not between 0 and 100"},
		{head + shape("{utilization: 0, score: 11}"), "the score, 11, is not between 0 and 10"},
		{head + shape("{utilization: 9, score: 1}, {utilization: 9, score: 2}"), "shape[1]: the utilization, 9, is not more than that before it"},
		{head + "extenders: [{urlPrefix: 'http://x', prioritizeVerb: score}]", "extenders[0]: weight"},
		{head + "extenders: [{urlPrefix: 'http://x', managedResources: [{name: a/b/c}]}]", "extenders[0]: managedResources[0]: name: \"a/b/c\""},
		{head + "extenders: [{urlPrefix: 'http://x', managedResources: [{name: cpu}]}]", "cpu is no extended resource"},
		{head + "extenders: [{urlPrefix: 'http://x', managedResources: [{name: storage.kubernetes.io/x}]}]", "is no extended resource"},
		{head + "extenders: [{urlPrefix: 'http://x', managedResources: [{name: a.io/x}]}, {urlPrefix: 'http://y', managedResources: [{name: b.io/x}, {name: a.io/x}]}]", "extenders[1]: managedResources[1]: name: a.io/x is managed already"},
		{head + "extenders: [{urlPrefix: 'http://x', bindVerb: b}, {urlPrefix: 'http://y', bindVerb: b}]", "extenders: 2 have a bindVerb"},
		{head + "extenders: [{urlPrefix: 'https://x', enableHTTPS: true, tlsConfig: {insecure: true, caData: bm8=}}]", "extenders[0]: tlsConfig: insecure"},
		{head + "extenders: [{urlPrefix: 'https://x', tlsConfig: {certFile: /nowhere}}]", "extenders[0]: tlsConfig: open /nowhere"},
		{head + "parallelism: 0", "parallelism: 0 is not greater than 0"},
		{head + "clientConnection: {burst: -1}", "clientConnection: burst: -1"},
		{head + "percentageOfNodesToScore: -1\nprofiles: [{percentageOfNodesToScore: 5}]", "percentageOfNodesToScore: -1 is not between 0 and 100"},
		{head + "leaderElection: {leaseDuration: 5s}", "leaderElection: leaseDuration: 5s is not greater than the renewDeadline, 10s"},
		{head + "leaderElection: {renewDeadline: -5s}", "renewDeadline: -5s is not greater than 0"},
		{head + "leaderElection: {retryPeriod: -5s}", "retryPeriod: -5s is not greater than 0"},
		{head + "leaderElection: {leaseDuration: -5s}", "leaseDuration: -5s is not greater than 0"},
		{head + "leaderElection: {resourceLock: endpoints}", "resourceLock: endpoints is not leases"},
		{head + "profiles: [{plugins: {multiPoint: {disabled: [{name: '*'}]}}}]", "profiles[0]: plugins.queueSort: no plugin sorts the queue: PrioritySort must be enabled"},
		{head + "profiles: [{plugins: {multiPoint: {disabled: [{name: PrioritySort}]}}}]", "no plugin sorts the queue"},
		{head + "profiles: [{plugins: {queueSort: {disabled: [{name: '*'}]}}}]", "no plugin sorts the queue"},
		{head + "profiles: [{plugins: {multiPoint: {enabled: [{name: PrioritySort}], disabled: [{name: '*'}]}}}]", "plugins.bind: no plugin binds: DefaultBinder must be enabled"},
		{head + "profiles: [{plugins: {bind: {disabled: [{name: DefaultBinder}]}}}]", "no plugin binds"},
		{head + "profiles: [{plugins: {queueSort: {enabled: [{name: NodeName}]}}}]", "plugins.queueSort.enabled: NodeName is no plugin for that"},
		{head + "profiles: [{plugins: {permit: {enabled: [{name: Nobody}]}}}]", "plugins.permit.enabled: there is no plugin Nobody"},
		{head + "profiles: [{plugins: {podGroupPostFilter: {enabled: [{name: DefaultPreemption}]}}}]", "plugins.podGroupPostFilter.enabled: DefaultPreemption is no plugin for that"},
		{head + "profiles: [{plugins: {score: {enabled: [{name: NodeAffinity}, {name: NodeAffinity}]}}}]", "plugins.score.enabled[1]: there is NodeAffinity already"},
		{head + "profiles: [{plugins: {score: {enabled: [{name: NodeAffinity, weight: -1}]}}}]", "plugins.score.enabled[0]: weight: -1"},
		{head + "profiles: [{plugins: {filter: {enabled: [{name: EBSLimits}]}}}]", "there is no plugin EBSLimits"},
		{head + preemption("minCandidateNodesPercentage: 101"), "minCandidateNodesPercentage: 101 is not between 0 and 100"},
		{head + preemption("minCandidateNodesPercentage: -1"), "minCandidateNodesPercentage: -1 is not between 0 and 100"},
		{head + preemption("minCandidateNodesAbsolute: -1"), "minCandidateNodesAbsolute: -1 is less than 0"},
		{head + preemption("minCandidateNodesPercentage: 0, minCandidateNodesAbsolute: 0"), "it must not be 0 when minCandidateNodesAbsolute is"},
		{head + "profiles: [{pluginConfig: [{name: DynamicResources, args: {filterTimeout: -1s}}]}]", "filterTimeout"},
		{head + "profiles: [{pluginConfig: [{name: DynamicResources, args: {bindingTimeout: 500ms}}]}]", "bindingTimeout"},
		{head + "profiles: [{pluginConfig: [{name: VolumeBinding, args: {shape: [{utilization: 0, score: 0}]}}]}]", "shape must be empty"},
		{head + "profiles: [{pluginConfig: [{name: NodeResourcesBalancedAllocation, args: {resources: [{name: cpu, weight: -1}]}}]}]", "the weight of cpu must be 1"},
		{head + "profiles: [{pluginConfig: [{name: NodeResourcesBalancedAllocation, args: {resources: [{name: cpu}, {name: cpu}]}}]}]", "resources: there is cpu already"},
		{head + "profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {ignoredResourceGroups: ['no group']}}]}]", "ignoredResourceGroups: \"no group\" is no group"},
		{head + strategy("resources: [{name: cpu, weight: 1}]"), "scoringStrategy: type: it must be"},
		{head + strategy("type: Least"), "strategy \"Least\" is none of"},
		{head + strategy("type: LeastAllocated, resources: [{name: cpu, weight: -3}]"), "the weight of cpu, -3, is not between 1 and 100"},
		{head + strategy("type: RequestedToCapacityRatio"), "requestedToCapacityRatio: it must be there"},
		{head + strategy("type: RequestedToCapacityRatio, requestedToCapacityRatio: {}"), "needs a shape"},
		{head + strategy("type: MostAllocated, requestedToCapacityRatio: {shape: [{utilization: 0, score: 0}]}"), "requestedToCapacityRatio: it must not be there when the type is MostAllocated"},
		{head + spread("defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: 'no key', whenUnsatisfiable: DoNotSchedule}]"), "the topologyKey, \"no key\", is no name of a label"},
		{head + spread("defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: z, whenUnsatisfiable: DoNotSchedule}, {maxSkew: 2, topologyKey: z, whenUnsatisfiable: DoNotSchedule}]"), "defaultConstraints[1]: there is one for z, DoNotSchedule already"},
		{head + "extenders: [{urlPrefix: 'https://x', enableHTTPS: true, tlsConfig: {caData: bm8=}}]", "no certificate"},
	} {
		if _, _, err := config.Read([]byte(test.text)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s\ngot %v, want %s", test.text, err, test.want)
		}
	}
}

// What upstream takes is taken, also where it changes nothing here, and comes to
// where it is heeded.
func TestReadTakes(t *testing.T) {
	for _, text := range []string{
		"parallelism: 4\nclientConnection: {qps: 50, burst: 100}\nleaderElection: {leaderElect: true, leaseDuration: 30s}\nenableProfiling: true\ndelayCacheUntilActive: true",
		"leaderElection: {leaderElect: false, resourceLock: endpoints}",
		"podInitialBackoffSeconds: 1\npodMaxBackoffSeconds: 10",
		"profiles: [{plugins: {multiPoint: {disabled: [{name: '*'}], enabled: [{name: PrioritySort}, {name: DefaultBinder}, {name: NodeResourcesFit}]}}}]",
		"profiles: [{plugins: {multiPoint: {disabled: [{name: '*'}]}, queueSort: {enabled: [{name: PrioritySort}]}, bind: {enabled: [{name: DefaultBinder}]}}}]",
		"profiles: [{plugins: {queueSort: {disabled: [{name: '*'}], enabled: [{name: PrioritySort}]}, reserve: {enabled: [{name: VolumeBinding}]}, preFilter: {enabled: [{name: NodePorts}]}}}]",
		"profiles: [{pluginConfig: [{name: DynamicResources, args: {filterTimeout: 0s, bindingTimeout: 1s}}]}]",
		"extenders: [{urlPrefix: 'https://x', enableHTTPS: true}]",
	} {
		if _, _, err := config.Read([]byte(head + text)); err != nil {
			t.Errorf("%s\n%v", text, err)
		}
	}
	profiles, extenders, err := config.Read([]byte(head + `
profiles:
- pluginConfig: [{name: DefaultPreemption, args: {minCandidateNodesPercentage: 0, minCandidateNodesAbsolute: 7}}]
- schedulerName: other
  pluginConfig: [{name: NodeResourcesFit, args: {ignoredResources: [c.io/x]}}]
extenders:
- urlPrefix: https://x//
  preemptVerb: preempt
  bindVerb: bind
  enableHTTPS: true
  managedResources: [{name: a.io/x, ignoredByScheduler: true}, {name: b.io/x}]
`))
	if err != nil {
		t.Fatal(err)
	}
	if p := profiles[0]; *p.MinCandidateNodesPercentage != 0 || *p.MinCandidateNodesAbsolute != 7 {
		t.Errorf("got %+v", p.Args)
	}
	if d := cmp.Diff([][]string{{"a.io/x"}, {"c.io/x", "a.io/x"}}, [][]string{profiles[0].IgnoredResources, profiles[1].IgnoredResources}); d != "" {
		t.Error(d)
	}
	e := extenders[0]
	if e.URL != "https://x" || e.Preempt != "preempt" || e.Bind != "bind" || len(e.Resources) != 2 || !e.Client.Transport.(*http.Transport).TLSClientConfig.InsecureSkipVerify {
		t.Errorf("got %+v", e)
	}
}
