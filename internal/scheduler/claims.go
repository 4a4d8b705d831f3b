package scheduler

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/utils/clock"

	dra "github.com/berth-dev/berth/internal/claims"
	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/scheduler/gang"
	"github.com/berth-dev/berth/internal/scheduler/nodes"
	"github.com/berth-dev/berth/internal/scheduler/steer"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// ClaimsName is the name of the plugin that replaces DynamicResources (package steer).
const ClaimsName = steer.Name

// steerers has the plugins of package steer (type *steer.Plugin) by scheduler and profile (type
// ofProfile), because a plugin cannot ask the framework for another plugin of its profile.
var steerers sync.Map

type ofProfile struct {
	informers informers.SharedInformerFactory
	name      string
}

// steererOf returns the plugin BerthClaims of the profile, or nil if the profile does not have it.
func steererOf(handle fwk.Handle) *steer.Plugin {
	found, _ := steerers.Load(ofProfile{handle.SharedInformerFactory(), handle.ProfileName()})
	s, _ := found.(*steer.Plugin)
	return s
}

// NewClaims creates the plugin of package steer. It has the signature of
// frameworkruntime.PluginFactory. It uses the decisions of the plugin Berth in the same profile.
func NewClaims(ctx context.Context, obj runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	made, err := steer.New(ctx, obj, handle, steer.Options{
		Berth: &lyings{handle: handle}, Clock: clock.RealClock{}, Features: feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate),
	})
	if err != nil {
		return nil, err
	}
	key := ofProfile{handle.SharedInformerFactory(), handle.ProfileName()}
	steerers.Store(key, made)
	context.AfterFunc(ctx, func() { steerers.CompareAndDelete(key, made) })
	return made, nil
}

// lyings implements steer.Berth: it tells package steer on which NUMA nodes pods of a profile are
// placed.
type lyings struct {
	handle fwk.Handle
	once   sync.Once
	shared *core
}

var _ steer.Berth = (*lyings)(nil)

// core returns the core of the scheduler. It exists before the first pod is tried, because all
// profiles have their plugins by then.
func (l *lyings) core() *core {
	l.once.Do(func() { l.shared = coreOf(l.handle.SharedInformerFactory()) })
	return l.shared
}

// Mode implements steer.Berth.
func (l *lyings) Mode(pod *corev1.Pod) (dra.Mode, error) {
	mode, err := wire.ReadClaims(pod)
	if err != nil || mode != dra.Free {
		return mode, err
	}
	return l.settings().claims, nil
}

// Sources implements steer.Berth.
func (l *lyings) Sources() *dra.Sources { return &l.settings().sources }

func (l *lyings) settings() *settings {
	s, _ := l.core().profiles.of(l.handle.ProfileName())
	return s
}

// Machine implements steer.Berth.
func (l *lyings) Machine(node string) *topology.Machine { return l.core().table.Named(node).Machine() }

// Free implements steer.Berth.
func (l *lyings) Free(node string) uint64 {
	return uint64(l.core().table.Named(node).Account().View().Stamp().State)
}

// Refused implements steer.Berth. It has the same effect as a refusal by the node in Reserve.
func (l *lyings) Refused(state fwk.CycleState) {
	if c := cycleOf(state); c != nil {
		c.refused = true
	}
}

// Bound implements steer.Berth.
func (l *lyings) Bound(mode dra.Mode, a dra.Alignment) {
	claimPods.WithLabelValues(mode.String(), a.String()).Inc()
}

// Doubtful implements steer.Berth. It also returns true if another plugin writes the Binding,
// because Berth then does not learn the result.
func (l *lyings) Doubtful(state fwk.CycleState) bool {
	c := cycleOf(state)
	return c == nil || !c.decided() || c.doubtful
}

// Waits implements steer.Berth. It withdraws the promise of particular CPUs to the pod, so that no
// other pod has to wait because of this promise. Bind decides again.
func (l *lyings) Waits(pod *corev1.Pod, node string) {
	l.core().table.Named(node).Account().Loosen(uidOf(pod))
}

// Decided implements steer.Berth.
func (l *lyings) Decided(pod *corev1.Pod, node string) (steer.Lying, bool) {
	n := l.core().table.Named(node)
	d, ok := n.Account().View().Promised(uidOf(pod))
	if !ok {
		return nil, false
	}
	return dra.NUMAOf(&d, n.Machine()), true
}

// Keep implements steer.Berth.
func (l *lyings) Keep(state fwk.CycleState, node string, near *placement.Claimed) {
	c := cycleOf(state)
	if c == nil || c.kept == nil {
		return
	}
	c.kept.Lock()
	defer c.kept.Unlock()
	if near == nil {
		delete(c.kept.near, node)
		return
	}
	if c.kept.near == nil {
		c.kept.near = map[string]*placement.Claimed{}
	}
	c.kept.near[node] = near
}

// kept records, by node, the devices of the pod's claims near which Berth places the pod if the pod
// gets the node. Filter, which runs for several nodes in parallel, fills it.
type kept struct {
	sync.Mutex
	near map[string]*placement.Claimed
}

// candidateOn returns the candidate for a node. If c.kept has devices of the pod on this node, the
// candidate requests a place near them.
func (c *cycle) candidateOn(node string) *ledger.Candidate {
	if c.kept == nil {
		return &c.query.Candidate
	}
	c.kept.Lock()
	defer c.kept.Unlock()
	near := c.kept.near[node]
	if near == nil {
		return &c.query.Candidate
	}
	return c.query.Candidate.Near(near)
}

// Ways implements steer.Berth.
func (l *lyings) Ways(state fwk.CycleState, pod *corev1.Pod, info fwk.NodeInfo, mode dra.Mode, stock func() *placement.Claimed) steer.Ways {
	c := cycleOf(state)
	switch {
	case gang.InTrial(state), c != nil && c.dry != nil:
		return steer.Ways{}
	case c == nil, c.plugin.unexpected(info.Node()):
		return lies(nil)
	}
	n := c.plugin.core.table.Of(info.Node())
	switch w := c.way.(type) {
	case *gangMember:
		if lying, decided := l.Decided(pod, n.Name()); decided {
			return lies(lying)
		}
		return lies(nil)
	case *alone:
		if c.unpinned && c.passes(n) {
			return lies(nil)
		}
		return c.ways(n, n.Account().View().Decide, mode, stock)
	case *owner:
		if c.unpinned && c.passes(n) {
			return lies(nil)
		}
		return c.ways(n, func(who *ledger.Candidate, d *placement.Decision) ledger.Answer {
			return n.Account().View().DecideOwner(who, w.from, d)
		}, mode, stock)
	case *inGroup:
		if w.evicting {
			return steer.Ways{}
		}
		return c.ways(n, w.account(n).View().Decide, mode, stock)
	case untouched:
		return lies(nil)
	}
	return steer.Ways{} // nothing is decided before Reserve
}

// lies returns Ways with this placement as the only way.
func lies(lying steer.Lying) steer.Ways {
	return steer.Ways{Known: steer.Foreseen, All: func(yield func(steer.Way) bool) { yield(steer.Way{Lying: lying}) }}
}

// The reasons why the NUMA nodes of a pod are unknown.
const (
	doesNotTakeIt = "the node no longer admits the pod"
	isUncertain   = "it is not certain yet which CPUs the pod would get there"
)

// ways returns the possible placements of the pod on a node, as the function decide finds them. If
// the kubelet decides on the node, there is only one: the predicted placement.
func (c *cycle) ways(n *nodes.Node, decide func(*ledger.Candidate, *placement.Decision) ledger.Answer, mode dra.Mode, stock func() *placement.Claimed) steer.Ways {
	var d placement.Decision
	a := decide(&c.query.Candidate, &d)
	switch {
	case !a.OK():
		return steer.Ways{Known: steer.Unforeseen, Why: doesNotTakeIt}
	case mode == dra.Required && !a.Exact && !n.Obeys():
		return steer.Ways{Known: steer.Unforeseen, Why: isUncertain}
	}
	m := n.Machine()
	first := dra.NUMAOf(&d, m)
	if !n.Obeys() || m == nil {
		return lies(first)
	}
	return steer.Ways{Known: steer.Foreseen, All: dra.Ways(first, mode, stock, func(near *placement.Claimed) (steer.Lying, bool) {
		a := decide(c.query.Candidate.Near(near), &d)
		return dra.NUMAOf(&d, m), a.OK()
	})}
}

// devices begins a search for devices for a gang's members. It returns nil if the profile does not
// have BerthClaims.
func (p *Plugin) devices(ctx context.Context) gang.Devices {
	s := steererOf(p.handle)
	if s == nil {
		return nil
	}
	return &devices{s.Trial(ctx), p.core.table}
}

// devices implements gang.Devices.
type devices struct {
	*steer.Trial
	table *nodes.Table
}

// Give implements gang.Devices.
func (d *devices) Give(pod *corev1.Pod, on fwk.NodeInfo, would gang.Lies, again gang.Again) bool {
	n := d.table.Of(on.Node())
	m := n.Machine()
	w := steer.Would{Lying: dra.NUMAOf(would.Decision, m), Sure: would.Sure || n.Obeys(), Loose: would.Loose && !n.Obeys()}
	if n.Obeys() && m != nil {
		w.Again = func(near *placement.Claimed) (steer.Lying, bool) {
			lies, ok := again(near)
			if !ok {
				return nil, false
			}
			return dra.NUMAOf(lies.Decision, m), true
		}
	}
	return d.Trial.Give(pod, on, w)
}

// lacksSteerer reports whether the pod needs BerthClaims and the profile does not have it.
func (p *Plugin) lacksSteerer(pod *corev1.Pod) bool {
	_, asks := pod.Annotations[wire.ClaimsAnnotation]
	return (asks && dra.MayClaim(pod) || p.args.Claims != "" && len(pod.Spec.ResourceClaims) > 0) && steererOf(p.handle) == nil
}

const noSteerer = "Berth: " + wire.ClaimsAnnotation + " needs the plugin " + ClaimsName + " in place of DynamicResources in the scheduler's profile"
