package scheduler

import (
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	dra "github.com/berth-dev/berth/internal/claims"
	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/scheduler/nodes"
	"github.com/berth-dev/berth/internal/scheduler/wake"
)

// alone implements the extension points for a pod that is placed alone: it is in no gang and in no
// group cycle, and it uses no Reservation (see way).
type alone struct {
	// patient means that the pod waits for a node on which its CPUs are certain. It waits until
	// patientUntil, or without a limit if it requires devices near its CPUs.
	patient      bool
	patientUntil time.Time
	// waiting has the nodes that must report before they can admit the pod. alone.better compares
	// the chosen node with them. waiting is nil if the pod does not wait for better nodes.
	waiting *waitingNodes
	// again means that the pod, which Reserve has refused, is tried again at once: Filter had only
	// an estimate, or the pod did not fit into the place of its Reservation.
	again bool
	// betterFor is the remaining time for which the pod waits for a better node, or 0 if it does
	// not wait.
	betterFor time.Duration
}

var _ way = (*alone)(nil)

// waitingNodes collects the nodes that make a pod wait. It has a lock because Filter runs for
// several nodes in parallel.
type waitingNodes struct {
	mu   sync.Mutex
	list []*nodes.Node
}

// maxHopes is the maximum length of waitingNodes.list.
const maxHopes = 32

// add adds a node unless w already has it or is full. w may be nil.
func (w *waitingNodes) add(n *nodes.Node) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.list) < maxHopes && !slices.Contains(w.list, n) {
		w.list = append(w.list, n)
	}
}

// wait adds the pod to core.waiters at the beginning of its attempt, so that package wake can wake
// it. Members of a Kubernetes PodGroup are not added, because kube-scheduler tries them again when
// their back-off ends. If the namespace is crowded (Delays.crowded), no particular CPUs are
// promised to its pods (ledger.Candidate.Loose), and these pods do not wait until their CPUs are
// certain. A promise of particular CPUs would keep other new pods off the node until its next
// report. While the watch of pods is late (nodes.Feed.Prompt), all namespaces count as crowded. A
// pod that requires devices near its CPUs always waits until its CPUs are certain, because they
// determine which devices it may use.
func (a *alone) wait(c *cycle, pod *corev1.Pod) {
	core, patience := c.plugin.core, c.plugin.args.Patience.Duration
	insists := c.ask != nil && c.ask.Claims == dra.Required && dra.MayClaim(pod)
	c.query.Candidate.Loose = !insists && (core.delays.crowded(pod.Namespace, core.table.Size()) || !core.feed.Prompt())
	a.patientUntil = core.waiters.Add(waiterOf(pod), &c.query.Candidate).Add(patience)
	core.forgetIfGone(pod)
	a.patient = !c.query.Candidate.Loose && (core.clock.Now().Before(a.patientUntil) || insists)
	if patience > 0 && pod.Status.NominatedNodeName == "" {
		a.waiting = &waitingNodes{}
	}
}

// filter returns the node's answer. If ctx has ended, for example because enough other nodes admit
// the pod, filter does not ask the node. The framework ignores the status that filter then returns,
// but an error would end the attempt.
func (a *alone) filter(ctx context.Context, c *cycle, info fwk.NodeInfo) *fwk.Status {
	n := c.plugin.core.table.Of(info.Node())
	if c.unpinned && c.passes(n) || c.plugin.unexpected(info.Node()) {
		return nil
	}
	var answer nodes.PackedAnswer
	known := false
	if c.dry == nil {
		answer, known = c.query.Recall(n)
	}
	if !known {
		if ctx.Err() != nil {
			return fwk.NewStatus(fwk.Unschedulable, attemptEnded)
		}
		if status := c.unasked(n); status != nil {
			return status
		}
		if c.dry != nil {
			return c.suppose(n, info)
		}
		answer = c.query.Ask(n)
	}
	if n.Unshown() { // rarely true; the check avoids the call of unlessOverlooked for nearly all nodes
		answer = c.unlessOverlooked(answer, n, info)
	}
	if answer.Kind() == nodes.Takes { // the most frequent answer
		return nil
	}
	return a.say(c, n, answer)
}

// attemptEnded is the message for nodes that were not asked because the attempt has ended.
const attemptEnded = "the attempt to place the pod has ended"

// say converts a node's answer to a status of the framework. If the status is Pending, say adds the
// node to a.waiting.
func (a *alone) say(c *cycle, n *nodes.Node, answer nodes.PackedAnswer) *fwk.Status {
	status := c.status(answer, a.patient)
	if status.Code() == fwk.Pending {
		a.waiting.add(n)
	}
	return status
}

// postFilter prevents evictions while some node must report first: for at most wake.ReportLimit, or
// for as long as the pod is patient and a node would admit it. The report wakes the pod, and its
// next attempt may evict. Otherwise postFilter explains why the nodes refuse the pod, and evicts
// pods or lets preemption run (makeRoom).
func (a *alone) postFilter(ctx context.Context, c *cycle, pod *corev1.Pod, statuses fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	d := &diagnosis{c, statuses}
	var by [3][]*nodes.Node
	for i, code := range []fwk.Code{fwk.Pending, fwk.Unschedulable, fwk.UnschedulableAndUnresolvable} {
		var err error
		if by[i], err = d.with(code); err != nil {
			return nil, fwk.AsStatus(err)
		}
	}
	core := c.plugin.core
	waitsFrom := core.waiters.Blame(uidOf(pod), wakeNodes(by[0]), wakeNodes(by[1], by[2]))
	core.forgetIfGone(pod)
	fits := d.fits(by[0])
	if waiting := by[0]; len(waiting) > 0 && (core.clock.Now().Sub(waitsFrom) < wake.ReportLimit || a.patient && fits) {
		a.runOutOfPatience(c, pod, waitsFrom, fits)
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "Berth: "+whatWaits(len(waiting), fits))
	}
	text, err := d.text(by[1], by[2])
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	if result, status := c.plugin.makeRoom(ctx, pod, text); status != nil {
		return result, status
	}
	if text != "" {
		return nil, fwk.NewStatus(fwk.Unschedulable, text)
	}
	return nil, fwk.NewStatus(fwk.Unschedulable)
}

// runOutOfPatience plans to wake the pod when it should no longer wait for reports. The parameter
// fits means that a node would admit the pod now, although it is not certain which CPUs the pod
// would get. In this case, the pod is also woken when it should no longer wait until its CPUs are
// certain.
func (a *alone) runOutOfPatience(c *cycle, pod *corev1.Pod, waitsFrom time.Time, fits bool) {
	now := c.plugin.core.clock.Now()
	left := waitsFrom.Add(wake.ReportLimit).Sub(now)
	if patient := a.patientUntil.Sub(now); fits && patient > 0 && (patient < left || left <= 0) {
		left = patient
	}
	if left <= 0 { // a pod that requires aligned claims never accepts uncertain CPUs
		left = wake.ReportLimit
	}
	c.plugin.core.waiters.WakeOneAfter(left, uidOf(pod))
}

func (a *alone) reserve(_ fwk.CycleState, c *cycle, pod *corev1.Pod, n *nodes.Node) *fwk.Status {
	core := c.plugin.core
	if c.unpinned && c.passes(n) || c.plugin.unexpectedNamed(n.Name()) {
		c.way = untouched{}
		core.waiters.Done(uidOf(pod))
		return nil
	}
	if why := core.table.Unusable(n); why != nil {
		return c.refuse(fwk.NewStatus(fwk.Unschedulable, why.Text))
	}
	if a.betterFor = a.better(c, pod, n); a.betterFor > 0 {
		verdicts.WithLabelValues("Reserve", ledger.Waiting.String(), "BetterNode").Inc()
		return c.refuse(fwk.NewStatus(fwk.Pending, waitBetter))
	}
	if status := c.decide(pod, n, ""); status != nil {
		c.query.Refused(n)
		a.again = c.refused && c.query.Estimates(n)
		return status
	}
	c.placed(pod, n.Name())
	return nil
}

// betterPatience is the maximum time for which a pod waits for better nodes, as a multiple of
// Args.Patience. In a burst of pods, a node often admits only one pod per report, so the last pod
// waits for several reports.
const betterPatience = 5

// better returns the time for which the pod still waits for a node better than n, or 0 if the pod
// should go to n. A node is better if it would probably give the pod fewer NUMA nodes, or strand
// fewer devices, after its next report.
func (a *alone) better(c *cycle, pod *corev1.Pod, n *nodes.Node) time.Duration {
	if a.waiting == nil || c.query.Better(n, a.waiting.list) == nil {
		return 0
	}
	core := c.plugin.core
	since := core.waiters.Tempted(uidOf(pod))
	return max(0, betterPatience*c.plugin.args.Patience.Duration-core.clock.Now().Sub(since))
}

// unreserve releases the pod's place. If the node refused the pod in Reserve or Bind, the pod is
// tried again when a node changes or a short pause ends, even before its back-off ends. If another
// plugin refused the pod, it is tried again when its back-off ends.
func (a *alone) unreserve(_ fwk.CycleState, c *cycle, pod *corev1.Pod, n *nodes.Node) {
	if a.betterFor == 0 { // otherwise nothing was reserved
		c.giveBack(pod, n)
	}
	if !c.refused {
		return
	}
	core := c.plugin.core
	core.waiters.Add(waiterOf(pod), &c.query.Candidate)
	core.waiters.Tried(uidOf(pod))
	core.forgetIfGone(pod)
	switch { // Filter found nodes that admit the pod, so they need not change to wake it
	case a.again:
		core.waiters.WakeOne(uidOf(pod))
	case a.betterFor > 0: // a report of the better node may wake it earlier
		core.waiters.WakeOneAfter(a.betterFor, uidOf(pod))
	default:
		core.waiters.WakeOneAfter(wake.RoundPause, uidOf(pod))
	}
}
