package scheduler

// Which changes let a pod be tried again that fits nowhere:
//
//   - a node changed, or got room: those that fit on it (queue.wake);
//   - a pod came to a node, or its labels changed: those that want such a pod
//     near, or spread over such pods;
//   - a pod went: those that want to be apart from it or it from them, or
//     spread over such pods, or want such pods near and are such: the first of
//     them may go anywhere.
//
// What changed is looked at once for each shape of waiting pods, not for each.

// event is a pod that came to a node or went from one.
type event struct {
	pod  *podInfo
	gone bool
}

// helps tells whether an event may let p fit where rules about other pods kept
// it away.
func (e event) helps(p *podInfo, gs *groups) bool {
	about := func(t *term) bool { return t.matches(e.pod.key.Namespace, e.pod.labels, gs.namespaceLabels) }
	if t := p.terms; t != nil {
		for i := range t.spread {
			if about(&t.spread[i].term) {
				return true
			}
		}
		for i := range t.affinity {
			if about(&t.affinity[i]) && (!e.gone || t.affinity[i].matches(p.key.Namespace, p.labels, gs.namespaceLabels)) {
				return true
			}
		}
		for i := range t.antiAffinity {
			if e.gone && about(&t.antiAffinity[i]) {
				return true
			}
		}
	}
	if t := e.pod.terms; t != nil && e.gone {
		for i := range t.antiAffinity {
			if t.antiAffinity[i].matches(p.key.Namespace, p.labels, gs.namespaceLabels) {
				return true
			}
		}
	}
	return false
}
