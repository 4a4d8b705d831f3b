package scheduler

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/duration"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/nodestate"
	"github.com/berth-dev/berth/internal/scheduler/nodes"
	"github.com/berth-dev/berth/internal/scheduler/wake"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

// maxExplained bounds how many nodes a refusal is worked out for; the others are counted.
const maxExplained = 64

// maxExplanations bounds how many different explanations an event names.
const maxExplanations = 4

// PostFilter comes before preemption. While any node merely waits for a report, it ends the
// attempt. The report will tell whether somebody has to be evicted, and wakes the pod at once.
// Otherwise it says why the nodes refuse, per NUMA node, and leaves the rest to preemption.
func (p *Plugin) PostFilter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, statuses fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	if result, status, member := p.postFilterMember(state, pod); member {
		return result, status
	}
	c := cycleOf(state)
	switch {
	case c == nil:
		if result, status := p.makeRoom(ctx, pod, ""); status != nil {
			return result, status
		}
		return nil, fwk.NewStatus(fwk.Unschedulable)
	case p.core.notYet(ctx) != "":
		// Preemption would find no node that helps, and take the pod's nomination from it.
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable)
	case c.member.group != nil:
		return p.postFilterGroup(c, statuses)
	case c.from != "":
		return nil, p.postFilterOwner(c, pod)
	}
	var by [3][]*nodes.Node
	for i, code := range []fwk.Code{fwk.Pending, fwk.Unschedulable, fwk.UnschedulableAndUnresolvable} {
		var err error
		if by[i], err = p.withStatus(statuses, code); err != nil {
			return nil, fwk.AsStatus(err)
		}
	}
	waitsFrom := p.core.waiters.Blame(uidOf(pod), wakeNodes(by[0]), wakeNodes(by[1], by[2]))
	p.forgetIfGone(pod)
	if waiting := len(by[0]); waiting > 0 && (p.core.clock.Now().Sub(waitsFrom) < wake.ReportLimit || c.patient && fits(statuses, by[0])) {
		p.runOutOfPatience(pod, c, waitsFrom)
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "Berth: "+whatWaits(waiting, fits(statuses, by[0])))
	}
	hopeless, err := p.hopeless(c, statuses)
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	told, silent := p.sortOut(c, by[2])
	never := p.explain(c, append(told, hopeless...))
	text := join(join(never, p.explain(c, by[1])), p.silence(silent))
	if text != "" {
		text = "Berth: " + text
	}
	if result, status := p.makeRoom(ctx, pod, text); status != nil {
		return result, status
	}
	if text != "" {
		return nil, fwk.NewStatus(fwk.Unschedulable, text)
	}
	return nil, fwk.NewStatus(fwk.Unschedulable)
}

// makeRoom evicts for a pod of no gang where a gang could be among the victims. The status is nil
// where none could: then kube-scheduler's own preemption comes, and else it does not. text says why
// the nodes refuse the pod.
func (p *Plugin) makeRoom(ctx context.Context, pod *corev1.Pod, text string) (*fwk.PostFilterResult, *fwk.Status) {
	if p.args.EvictsNobody {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, text)
	}
	if wire.OfReservation(pod) {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, cmp.Or(text, evictsNobody))
	}
	node, asked := p.core.gangs.MakeRoom(ctx, p.gangProfile(), pod)
	switch {
	case !asked:
		return nil, nil
	case node != "":
		return framework.NewPostFilterResultWithNominatedNode(node), fwk.NewStatus(fwk.Success, text)
	}
	text = join(text, "Berth: evicting pods of lower priority, gangs whole or not at all, does not help")
	return framework.NewPostFilterResultWithNominatedNode(""), fwk.NewStatus(fwk.UnschedulableAndUnresolvable, text)
}

// fits says whether one of the nodes that wait would take the pod, were it not patient.
func fits(statuses fwk.NodeToStatusReader, waiting []*nodes.Node) bool {
	return slices.ContainsFunc(waiting, func(n *nodes.Node) bool { return statuses.Get(n.Name()).Message() == waitCertainty })
}

// sortOut finds, among nodes that no eviction helps, those whose kubelet would refuse the pod, and
// those whose agent is silent.
func (p *Plugin) sortOut(c *cycle, list []*nodes.Node) (refusing, silent []*nodes.Node) {
	for _, n := range list {
		switch why := p.core.table.Unusable(n); {
		case why == nil && n.Unmet(c.query.Candidate.Request) == "":
			refusing = append(refusing, n)
		case why != nil && why.Reason == nodestate.Silent:
			silent = append(silent, n)
		}
	}
	return refusing, silent
}

// hopeless finds, among nodes that another plugin refused, as when they are full, those whose
// kubelet would refuse the pod whatever leaves them: that is what a person has to know first.
func (p *Plugin) hopeless(c *cycle, statuses fwk.NodeToStatusReader) ([]*nodes.Node, error) {
	infos, err := statuses.NodesForStatusCode(p.handle.SnapshotSharedLister().NodeInfos(), fwk.Unschedulable)
	if err != nil {
		return nil, err
	}
	var out []*nodes.Node
	asked := 0
	for _, info := range infos {
		name := info.Node().Name
		if asked == maxExplained {
			break
		}
		if statuses.Get(name).Plugin() == Name {
			continue
		}
		asked++
		n := p.core.table.Named(name)
		if p.core.table.Unusable(n) != nil || n.Unmet(c.query.Candidate.Request) != "" {
			continue
		}
		if a := c.askNow(n); a.Outcome == ledger.Refused && a.Verdict.Scarcity == placement.Unresolvable {
			out = append(out, n)
		}
	}
	return out, nil
}

// silence says how long ago silent agents were last heard: the shortest and the longest time.
func (p *Plugin) silence(list []*nodes.Node) string {
	if len(list) == 0 {
		return ""
	}
	shortest, longest := p.core.table.Silence(list[0]), time.Duration(0)
	for _, n := range list {
		silence := p.core.table.Silence(n)
		shortest, longest = min(shortest, silence), max(longest, silence)
	}
	text := duration.HumanDuration(shortest)
	if long := duration.HumanDuration(longest); long != text {
		text += " to " + long
	}
	return fmt.Sprintf("%s: last sign of life %s ago", nodeCount(len(list)), text)
}

func join(a, b string) string {
	if a != "" && b != "" {
		return a + "; " + b
	}
	return a + b
}

// runOutOfPatience wakes the pod when it should no longer wait for certainty, or for reports.
func (p *Plugin) runOutOfPatience(pod *corev1.Pod, c *cycle, waitsFrom time.Time) {
	now := p.core.clock.Now()
	left := waitsFrom.Add(wake.ReportLimit).Sub(now)
	if patient := c.patientUntil.Sub(now); patient > 0 && (patient < left || left <= 0) {
		left = patient
	}
	p.core.waiters.WakeOneAfter(left, uidOf(pod))
}

// forgetIfGone forgets a pod that left the API while it was being tried. Its deletion was told
// before it joined those who wait.
func (p *Plugin) forgetIfGone(pod *corev1.Pod) {
	if wire.OfReservation(pod) {
		if !p.core.reservations.Wants(pod.UID) {
			p.core.waiters.Done(uidOf(pod))
		}
		return
	}
	now, err := p.pods.Pods(pod.Namespace).Get(pod.Name)
	gone := err == nil && (now.UID != pod.UID || now.Spec.NodeName != "")
	if gone || err != nil && apierrors.IsNotFound(err) { // which is slow where there is no error
		p.core.waiters.Done(uidOf(pod))
	}
}

// whatWaits says what the pod waits for. Where a node would take it, it waits for certainty alone.
func whatWaits(nodes int, fits bool) string {
	if fits {
		return "the pod fits, and waits to be certain of the CPUs; nobody is preempted"
	}
	return nodesWait(nodes) + " for a report that will tell whether the pod fits; nobody is preempted before"
}

func nodesWait(n int) string {
	if n == 1 {
		return "1 node waits"
	}
	return fmt.Sprintf("%d nodes wait", n)
}

// withStatus returns the nodes that this plugin gave a status of the code.
func (p *Plugin) withStatus(statuses fwk.NodeToStatusReader, code fwk.Code) ([]*nodes.Node, error) {
	infos, err := statuses.NodesForStatusCode(p.handle.SnapshotSharedLister().NodeInfos(), code)
	if err != nil {
		return nil, err
	}
	var out []*nodes.Node
	for _, info := range infos {
		name := info.Node().Name
		if statuses.Get(name).Plugin() == Name {
			out = append(out, p.core.table.Named(name))
		}
	}
	return out, nil
}

// explain says in one line why nodes refuse, the most frequent reason first.
func (p *Plugin) explain(c *cycle, refusing []*nodes.Node) string {
	count := map[string]int{}
	for _, n := range refusing[:min(len(refusing), maxExplained)] {
		switch refusal, ok := n.Account().View().Explain(c.query.Candidate.Request); {
		case ok && refusal.Reason != placement.Admitted:
			count[c.said.In(refusal.String())]++
		case ok && c.askNow(n).Held:
			count[keptByReservation]++
		case ok && len(p.handle.NominatedPodsForNode(n.Name())) > 0:
			count[ledger.AfterOthers.Text()]++
		}
	}
	if len(count) == 0 {
		return ""
	}
	texts := slices.SortedFunc(maps.Keys(count), func(a, b string) int {
		return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(a, b))
	})
	var b strings.Builder
	told := 0
	for i, text := range texts[:min(len(texts), maxExplanations)] {
		if i > 0 {
			b.WriteString("; ")
		}
		fmt.Fprintf(&b, "%s: %s", nodeCount(count[text]), text)
		told += count[text]
	}
	if more := len(refusing) - told; more > 0 {
		fmt.Fprintf(&b, "; %s more", nodeCount(more))
	}
	return b.String()
}

func nodeCount(n int) string {
	if n == 1 {
		return "1 node"
	}
	return fmt.Sprintf("%d nodes", n)
}
