package apply

import (
	"reflect"
	"sync"

	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"github.com/setpoint-project/setpoint/internal/kinds"
)

// Managers is what all kinds of a server share.
type Managers struct {
	defs  *defs
	plans *plans
	table *table
}

// New makes one for a server.
func New() *Managers { return &Managers{defs: newDefs(), plans: newPlans(), table: newTable()} }

// Kind keeps the managed fields of one kind.
type Kind struct {
	kind   *kinds.Kind
	custom bool // its objects are kinds.Dynamic
	shared *Managers

	mu       sync.Mutex
	types    map[int]*typed.ParseableType         // guarded by mu; by version
	managers map[view]*managedfields.FieldManager // guarded by mu

	plans sync.Map // view to *plan
}

// view is what a request is about.
type view struct {
	version int
	sub     string
}

// Kind is k under the care of m. Built-in kinds tell by their Go types what is
// in them, custom ones by the schemas of their versions.
func (m *Managers) Kind(k *kinds.Kind) *Kind {
	out := &Kind{kind: k, shared: m, types: map[int]*typed.ParseableType{}, managers: map[view]*managedfields.FieldManager{}}
	_, out.custom = k.HubVersion().New().(kinds.Dynamic)
	return out
}

// parseable is the type of a version, made when it is first needed.
func (k *Kind) parseable(version int) *typed.ParseableType {
	k.mu.Lock()
	defer k.mu.Unlock()
	t := k.types[version]
	if t != nil {
		return t
	}
	if k.custom {
		t = &typed.DeducedParseableType // field by field, but lists as a whole
		if s := k.kind.Versions[version].Schema; s != nil {
			t = s.Typed()
		}
	} else {
		p := k.shared.defs.parseable(reflect.TypeOf(k.kind.Versions[version].New()))
		t = &p
	}
	k.types[version] = t
	return t
}

// manager is the library's manager for a view.
func (k *Kind) manager(v view) (*managedfields.FieldManager, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if m := k.managers[v]; m != nil {
		return m, nil
	}
	c := converter{k}
	reset := map[fieldpath.APIVersion]fieldpath.Filter{}
	if f := filter(k.kind, v.sub, k.custom); f != nil {
		for i := range k.kind.Versions {
			reset[fieldpath.APIVersion(k.kind.Versions[i].GroupVersion.String())] = f
		}
	}
	m, err := managedfields.NewDefaultCRDFieldManager(c, c, c, c, k.gvk(v.version), k.kind.HubVersion().GroupVersion, v.sub, reset)
	if err != nil {
		return nil, err
	}
	k.managers[v] = m
	return m, nil
}

// plan is how the writes of a view are tracked.
type plan struct {
	node     *node      // of a custom kind, that of its metadata
	loose    *looseNode // of a custom kind's other fields
	not, but [][]string // what a request may not change, and all that it may
}

func (k *Kind) plan(v view) *plan {
	if p, ok := k.plans.Load(v); ok {
		return p.(*plan)
	}
	p := &plan{}
	if k.custom {
		p.node, p.loose = k.shared.plans.metadata(), looseFields(k.parseable(v.version))
	} else {
		p.node = k.shared.plans.of(reflect.TypeOf(k.kind.Versions[v.version].New()))
	}
	p.not, p.but = resetPaths(k.kind, v.sub, k.custom)
	k.plans.Store(v, p)
	return p
}

// mine is what of a set a request may change.
func (p *plan) mine(s []set) []set {
	if p.but != nil {
		return within(s, p.but)
	}
	return without(s, p.not)
}
