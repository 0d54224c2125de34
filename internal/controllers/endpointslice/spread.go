package endpointslice

import (
	"cmp"
	"fmt"
	"math"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
)

// overload is by how much the endpoints meant for a zone may have more to do
// than those of the whole service would have on average.
const overload = 0.2

// located is a ready endpoint, in the zone of its node.
type located struct {
	uid  types.UID
	zone string
}

// spread says for which zone each endpoint is meant, so that each zone has
// endpoints in proportion to its CPUs: its own as far as there are enough, then
// the last of zones that have more than their share. It says why when that
// cannot be.
func spread(all []located, w weights) (meant map[types.UID]string, why string) {
	share, least, sum := map[string]float64{}, map[string]int{}, 0
	for _, zone := range w.names() {
		share[zone] = float64(len(all)) * float64(w[zone]) / float64(w.total())
		least[zone] = int(math.Ceil(share[zone] / (1 + overload)))
		sum += least[zone]
	}
	if len(all) < len(w) {
		return nil, fmt.Sprintf("Insufficient number of endpoints (%d), fewer than zones (%d)", len(all), len(w))
	}
	if sum > len(all) {
		return nil, fmt.Sprintf("Insufficient number of endpoints (%d), impossible to safely allocate proportionally", len(all))
	}
	own := map[string][]types.UID{}
	for _, ep := range all {
		if ep.zone == "" {
			return nil, "One or more endpoints do not have a zone specified"
		}
		own[ep.zone] = append(own[ep.zone], ep.uid)
	}
	meant = make(map[types.UID]string, len(all))
	for _, ep := range all {
		meant[ep.uid] = ep.zone
	}
	// A zone without weight needs none: what it has is for others.
	for {
		from, to := most(own, share, least), poorest(own, share, least)
		if to == "" {
			from, to = strayed(own, w), neediest(own, share, w)
		}
		if from == "" || to == "" {
			return meant, ""
		}
		last := own[from][len(own[from])-1]
		own[from] = own[from][:len(own[from])-1]
		own[to] = append(own[to], last)
		meant[last] = to
	}
}

// most is the zone that can spare an endpoint, and is the furthest above its
// share.
func most(own map[string][]types.UID, share map[string]float64, least map[string]int) string {
	return furthest(own, func(zone string) (float64, bool) {
		return float64(len(own[zone])) - share[zone], len(own[zone]) > least[zone]
	})
}

// poorest is the zone that has too few, and is the furthest below its share.
func poorest(own map[string][]types.UID, share map[string]float64, least map[string]int) string {
	return furthest(least, func(zone string) (float64, bool) {
		return share[zone] - float64(len(own[zone])), len(own[zone]) < least[zone]
	})
}

// strayed is a zone that has endpoints and no weight: nobody there asks for
// them.
func strayed(own map[string][]types.UID, w weights) string {
	return furthest(own, func(zone string) (float64, bool) {
		_, weighs := w[zone]
		return float64(len(own[zone])), !weighs && len(own[zone]) > 0
	})
}

// neediest is the zone that is the furthest below its share.
func neediest(own map[string][]types.UID, share map[string]float64, w weights) string {
	return furthest(w, func(zone string) (float64, bool) { return share[zone] - float64(len(own[zone])), true })
}

// furthest is the zone with the highest measure of those that are asked for, by
// name where two have the same; "" when there is none.
func furthest[V any](zones map[string]V, measure func(zone string) (float64, bool)) string {
	found, best := "", 0.0
	for zone := range zones {
		if m, ok := measure(zone); ok && (found == "" || m > best || m == best && zone < found) {
			found, best = zone, m
		}
	}
	return found
}

// enabled is said of endpoints that are spread.
const enabled = "Topology Aware Hints has been enabled"

// spread gives the ready endpoints of all groups hints for zones, those of
// their pods in order, or none; it says that, or why not.
func (w world) spread(groups []*group) string {
	zones, why := w.zones()
	if why != "" {
		return why
	}
	var all []located
	for _, pod := range w.pods {
		for _, g := range groups {
			if ep, ok := g.endpoints[pod.UID]; ok && *ep.Conditions.Ready {
				zone := ""
				if ep.Zone != nil {
					zone = *ep.Zone
				}
				all = append(all, located{pod.UID, zone})
			}
		}
	}
	meant, why := spread(all, zones)
	for _, g := range groups {
		for uid, ep := range g.endpoints {
			if zone, ok := meant[uid]; ok {
				ep.Hints = &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: zone}}}
				g.endpoints[uid] = ep
			}
		}
	}
	return cmp.Or(why, enabled)
}
