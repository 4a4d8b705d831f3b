package scheduler

import (
	"context"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-dev/berth/internal/amounts"
	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/nodestate"
	"github.com/berth-dev/berth/internal/scheduler/gang"
	"github.com/berth-dev/berth/internal/scheduler/nodes"
	"github.com/berth-dev/berth/internal/suppose"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

const cycleKey fwk.StateKey = Name

// way implements Filter, PostFilter, Reserve and Unreserve for one kind of pod. PreFilter chooses
// it:
//
//	alone      is a pod of none of the other kinds: Berth looks for a node for this pod only
//	owner      is a pod that uses the place of a Reservation
//	gangMember is a member of a gang; the gang's plan names its node
//	inGroup    is a member in a Kubernetes group cycle, which tries all members before it commits
//	untouched  is a pod about which Berth decides nothing
type way interface {
	// filter reports whether the node admits the pod. It is called for several nodes concurrently.
	filter(ctx context.Context, c *cycle, info fwk.NodeInfo) *fwk.Status
	// postFilter ends an attempt that found no node.
	postFilter(ctx context.Context, c *cycle, pod *corev1.Pod, statuses fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status)
	// reserve decides with the current state of the node, and adds the pod to the node's account,
	// unless the plan of the pod's gang has done this already.
	reserve(state fwk.CycleState, c *cycle, pod *corev1.Pod, n *nodes.Node) *fwk.Status
	// unreserve reverts reserve. It is also called after a refusal by reserve.
	unreserve(state fwk.CycleState, c *cycle, pod *corev1.Pod, n *nodes.Node)
}

// cycle is the plugin's state during one attempt to place one pod.
type cycle struct {
	way way
	pod *corev1.Pod
	// ask is the pod's request, as PreFilter has read it.
	ask   *wire.Ask
	query nodes.Query
	// plugin is the plugin of the pod's profile.
	plugin *Plugin
	began  time.Time
	// dry has the assumptions of a dry run, or is nil outside of a dry run.
	dry *dryRun
	// refused means that the node has refused the pod in Reserve or Bind, and may admit it after a
	// change.
	refused bool
	// unpinned means that no kubelet would pin anything for the pod. Berth then ignores the pod on
	// each node for which passes returns true.
	unpinned bool
	// number is the pod's number in the order of the calls of Reserve. Bindings to a node are
	// written in this order. It is 0 if there is no decision.
	number uint64
	// kept has, by node, the devices near which Berth places the pod if the pod gets the node. It
	// is nil if the pod does not ask for CPUs near the devices of its claims.
	kept *kept
	// judge compares the pod's devices with the decision that is about to be written. It is nil if
	// the pod has no claims, or the profile does not have BerthClaims.
	judge func() error
	// doubtful means that the pod's Binding may have been written although Bind failed.
	doubtful bool
}

// dryRun has the nodes on which a cycle assumes more or fewer pods, to see how they would then
// answer. The framework makes such dry runs for preemption and for nominated pods.
type dryRun struct {
	suppose.Field[*nodes.Node]
	// removed has the pods that the dry run has removed, by UID. It includes pods that the dry run
	// has added again.
	removed map[string]*corev1.Pod
	// amounts has the total requests of the pod to place. It is nil until the dry run has removed a
	// pod.
	amounts amounts.List
}

// Clone implements fwk.StateData. It copies the fields that AddPod and RemovePod change.
func (c *cycle) Clone() fwk.StateData {
	copied := *c
	if c.dry != nil {
		copied.dry = &dryRun{Field: c.dry.Clone(), removed: maps.Clone(c.dry.removed), amounts: c.dry.amounts}
	}
	return &copied
}

// cycleOf returns the plugin's state. It is nil for a pod about which Berth decides nothing, and
// for a pod that has not passed PreFilter.
func cycleOf(state fwk.CycleState) *cycle {
	data, _ := state.Read(cycleKey)
	c, _ := data.(*cycle)
	return c
}

// cycle returns cycleOf(state) or, if that is nil, the cycle of a pod about which Berth decides
// nothing.
func (p *Plugin) cycle(state fwk.CycleState) *cycle {
	if c := cycleOf(state); c != nil {
		return c
	}
	return &cycle{plugin: p, way: untouched{}}
}

// bare returns a node without assumed changes, and without amounts, because NodeResourcesFit checks
// those.
func bare(n *nodes.Node) suppose.Node { return suppose.On(n.Account(), nil) }

// assume begins or continues a dry run.
func (c *cycle) assume() *dryRun {
	if c.dry == nil {
		c.dry = &dryRun{Field: suppose.Field[*nodes.Node]{Bare: bare}, removed: map[string]*corev1.Pod{}}
	}
	return c.dry
}

// take removes a pod from a node in the dry run, to make room for the pod of the cycle.
func (c *cycle) take(pod, from *corev1.Pod, n *nodes.Node) {
	run := c.assume()
	if run.amounts == nil {
		run.amounts = wire.ReadAmounts(pod)
	}
	run.removed[uidOf(from)] = from
	run.At(n).Take(&suppose.Pod{UID: uidOf(from), Candidate: &ledger.Candidate{}})
}

// assumed returns the node with the changes that the cycle assumes.
func (c *cycle) assumed(n *nodes.Node) suppose.Node {
	if c.dry != nil {
		if on := c.dry.Known(n); on != nil {
			return *on
		}
	}
	return bare(n)
}

// askNow asks a node in its current state, without assumed changes.
func (c *cycle) askNow(n *nodes.Node) ledger.Answer {
	return n.Account().View().Ask(ledger.Question{Candidate: &c.query.Candidate})
}

// suppose asks the node with the changes that the dry run assumes.
//
// Preemption first removes all pods of lower priority. It then puts the pods back one by one, and
// evicts only a pod with which the node would refuse the preemptor. If pods in flight, which the
// node's report does not list yet, make the answers uncertain, preemption would put no pod back and
// evict all of them. In this case the preemptor waits for the node's report.
func (c *cycle) suppose(n *nodes.Node, info fwk.NodeInfo) *fwk.Status {
	a, assumed := c.askWithoutSome(n, info), c.assumed(n)
	switch {
	case !a.OK():
	case c.overlooked(n, info):
		a = ledger.Answer{Outcome: ledger.Waiting, Wait: ledger.Unshown}
	case !a.Certain && len(assumed.Trial().Without) > 0 && n.Account().View().Census().InFlight() > 0:
		a = ledger.Answer{Outcome: ledger.Waiting, Wait: ledger.Undecided}
	}
	if a.Outcome == ledger.Waiting {
		c.plugin.core.waiters.BlameToo(c.query.Candidate.Request.UID, n.Account())
	}
	return c.status(nodes.Pack(0, &a), false)
}

// waitsForAPI is the answer of a node with overlooked pods (cycle.overlooked).
var waitsForAPI = nodes.Pack(0, &ledger.Answer{Outcome: ledger.Waiting, Wait: ledger.Unshown})

// unlessOverlooked returns waitsForAPI if a is an admission by a node with overlooked pods, and
// otherwise a.
func (c *cycle) unlessOverlooked(a nodes.PackedAnswer, n *nodes.Node, info fwk.NodeInfo) nodes.PackedAnswer {
	if a.Admits() && c.overlooked(n, info) {
		return waitsForAPI
	}
	return a
}

// overlooked reports whether the node has too few CPUs for the pod only because of pods that its
// report lists and the API has not shown yet. The kubelet counts these pods (OutOfcpu), but
// NodeResourcesFit does not. Plans of gangs and owners of Reservations do not use this function.
func (c *cycle) overlooked(n *nodes.Node, info fwk.NodeInfo) bool {
	if !n.Unshown() {
		return false
	}
	left := gang.RoomIn(info).Free(amounts.CPU) - wire.ReadAmounts(c.pod)[amounts.CPU]
	unshown := n.Account().View().UnshownCPUs(func(uid string) bool {
		return slices.ContainsFunc(info.GetPods(), func(p fwk.PodInfo) bool { return uidOf(p.GetPod()) == uid })
	})
	return left >= 0 && left < 1000*int64(unshown)
}

// passes reports whether Berth ignores an unpinned pod on the node. On nodes where a kubelet
// decides, Berth ignores the pod unless the pod requests a specific number of NUMA nodes or
// exclusive NUMA nodes. The kubelet would ignore such a request. If the node's report is not
// usable, Berth ignores the pod unless the pod has rules of its own. A pod without rules runs on
// shared CPUs, and it may be the agent that the node lacks.
func (c *cycle) passes(n *nodes.Node) bool {
	rules := &c.query.Candidate.Request.Rules
	return !n.Obeys() && !rules.CountsNUMANodes() || rules.Own() == (placement.Rules{}) && c.plugin.core.table.Unusable(n) != nil
}

// unexpected reports whether no agent is expected on the node and no agent has reported. Pods are
// placed there without a decision.
func (p *Plugin) unexpected(node *corev1.Node) bool {
	if p.args.NodesWithoutAgents == "" || !p.agentless.Matches(labels.Set(node.Labels)) {
		return false
	}
	why := p.core.table.Unusable(p.core.table.Of(node))
	return why != nil && why.Reason == nodestate.NoReport
}

// unexpectedNamed is like unexpected, for the name of a node.
func (p *Plugin) unexpectedNamed(name string) bool {
	if p.args.NodesWithoutAgents == "" {
		return false
	}
	info, err := p.handle.SnapshotSharedLister().NodeInfos().Get(name)
	return err == nil && p.unexpected(info.Node())
}

// unasked returns the refusal of a node that need not be asked, because its report is not usable or
// its configuration cannot meet the pod's rules. It returns nil for other nodes.
func (c *cycle) unasked(n *nodes.Node) *fwk.Status {
	if why := c.plugin.core.table.Unusable(n); why != nil {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, why.Text)
	}
	if why := n.Unmet(c.query.Candidate.Request); why != "" {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, c.ask.Said.In(wire.OfNodes(why)))
	}
	return nil
}

// decide adds the pod to the node's account and gives the decision a number. It returns a status if
// the node refuses the pod or the decision cannot be written. If from is the UID of a Reservation,
// the pod gets resources of that Reservation.
func (c *cycle) decide(pod *corev1.Pod, n *nodes.Node, from string) *fwk.Status {
	var d placement.Decision
	var a ledger.Answer
	if from == "" {
		a = n.Account().Reserve(c.candidateOn(n.Name()), &d)
	} else {
		a = n.Account().ReserveOwner(c.candidateOn(n.Name()), from, &d)
	}
	verdicts.WithLabelValues("Reserve", a.Outcome.String(), reasonOf(&a)).Inc()
	if status := c.status(nodes.Pack(0, &a), false); status != nil {
		return c.refuse(status)
	}
	if status := writable(pod, n, &d); status != nil {
		return status
	}
	c.number = c.plugin.core.reserved.Add(1)
	return nil
}

// writable returns an error status if the decision cannot be written. This is checked before Bind,
// because other plugins may tie the pod to the node before Bind, for example by its volumes.
func writable(pod *corev1.Pod, n *nodes.Node, d *placement.Decision) *fwk.Status {
	check := wire.CheckPlacement
	if n.Obeys() {
		check = wire.CheckOwnPlacement
	}
	if err := check(pod, d); err != nil {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "Berth cannot write the placement: "+err.Error())
	}
	return nil
}

func (c *cycle) refuse(status *fwk.Status) *fwk.Status {
	c.refused = true
	return status
}

func (c *cycle) placed(pod *corev1.Pod, nodeName string) {
	core := c.plugin.core
	core.delays.is(pod.UID, inBinding)
	core.waiters.Done(uidOf(pod))
	if left := pod.Status.NominatedNodeName; left != "" && left != nodeName {
		// The resources that were kept for the pod on that node are now free, but no event shows
		// this.
		if n := core.table.Known(left); n != nil {
			core.waiters.NodeReturned(n.Account())
		}
		core.gangs.Stir()
	}
}

// giveBack releases the pod's place on the node, and wakes other pods. It keeps the pod among the
// Waiters only if the node has refused the pod.
func (c *cycle) giveBack(pod *corev1.Pod, n *nodes.Node) {
	core := c.plugin.core
	n.Account().Forget(uidOf(pod))
	if !c.refused {
		core.waiters.Done(uidOf(pod))
	}
	core.waiters.NodeChanged(n.Account())
	core.gangs.Stir()
}
