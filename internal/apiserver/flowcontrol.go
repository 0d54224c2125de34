package apiserver

import (
	"errors"
	"net/http"
	"sync"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"

	"github.com/setpoint-project/setpoint/internal/apiserver/fairness"
	"github.com/setpoint-project/setpoint/internal/client"
)

// objectsPerSeat: a list of so many objects takes one more seat.
const objectsPerSeat = 1000

// enter waits for the request's turn. Its seats are given back when it ends;
// those of a watch or a stream as soon as it has begun.
func (x *exchange) enter(t *target, sv *served) error {
	if x.s.cfg.Fairness == nil || x.loop != nil {
		return nil
	}
	r := fairness.Request{User: x.call.user, Verb: x.attrs.Verb, Group: t.group, Resource: t.resource, Namespace: t.namespace}
	if t.sub != "" {
		r.Resource += "/" + t.sub
	}
	ticket, matched, err := x.s.cfg.Fairness.Enter(x.r.Context(), &r, x.seats(t, sv))
	x.ticket = ticket
	if matched.FlowSchemaUID != "" || matched.PriorityLevelUID != "" {
		x.w.Header().Set(flowcontrolv1.ResponseHeaderMatchedFlowSchemaUID, matched.FlowSchemaUID)
		x.w.Header().Set(flowcontrolv1.ResponseHeaderMatchedPriorityLevelConfigurationUID, matched.PriorityLevelUID)
	}
	return err
}

// seats is what a request costs.
func (x *exchange) seats(t *target, sv *served) int {
	switch x.attrs.Verb {
	case "list", "deletecollection":
	case "watch":
		if rv := x.query.get("resourceVersion"); rv != "" && rv != "0" {
			return 1
		}
	default:
		return 1
	}
	if sv == nil || x.attrs.Name != "" {
		return 1
	}
	n, err := x.s.store.Count(x.r.Context(), sv.kind.Prefix(t.namespace))
	if err != nil {
		return 1
	}
	if limit, err := x.query.int("limit"); err == nil && limit != nil && *limit > 0 {
		n = min(n, int(*limit))
	}
	return 1 + n/objectsPerSeat
}

// tooMany answers as Kubernetes does: in plain text.
func (x *exchange) tooMany() {
	x.w.Header().Set("Retry-After", "1")
	http.Error(&x.w, "Too many requests, please try again later.", http.StatusTooManyRequests)
}

func isTooMany(err error) bool { return errors.Is(err, fairness.ErrTooMany) }

// followFlowControl tells the limiter of the API's objects, at each change.
// They are few.
func (s *Server) followFlowControl() {
	if s.cfg.Fairness == nil {
		return
	}
	c := s.Client(client.Identity{User: "system:apiserver", Groups: []string{"system:masters"}, UserAgent: "setpoint-fairness"})
	schemas := c.View(flowcontrolv1.SchemeGroupVersion.WithResource("flowschemas"), client.ViewOptions{})
	levels := c.View(flowcontrolv1.SchemeGroupVersion.WithResource("prioritylevelconfigurations"), client.ViewOptions{})
	var mu sync.Mutex // an older picture must not come after a younger one
	set := func(_, _ client.Object) {
		mu.Lock()
		defer mu.Unlock()
		s.cfg.Fairness.Set(objectsOf[*flowcontrolv1.FlowSchema](schemas), objectsOf[*flowcontrolv1.PriorityLevelConfiguration](levels))
	}
	schemas.Handle(set)
	levels.Handle(set)
}

func objectsOf[T client.Object](v client.View) []T {
	var out []T
	for _, obj := range v.List("") {
		if o, ok := obj.(T); ok {
			out = append(out, o)
		}
	}
	return out
}
