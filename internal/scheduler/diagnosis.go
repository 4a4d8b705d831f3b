package scheduler

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/nodestate"
	"github.com/berth-dev/berth/internal/scheduler/nodes"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

// maxExplained is the maximum number of nodes whose refusals are explained. Further nodes are only
// counted.
const maxExplained = 64

// maxExplanations is the maximum number of different explanations in an event.
const maxExplanations = 4

// diagnosis explains why an attempt found no node. statuses has the answers of the nodes in this
// attempt.
type diagnosis struct {
	*cycle
	statuses fwk.NodeToStatusReader
}

// text explains in one line why nodes refuse the pod. Evictions may help on the nodes of the
// parameter refusing, but not on those of the parameter never.
func (d *diagnosis) text(refusing, never []*nodes.Node) (string, error) {
	hopeless, err := d.hopeless()
	if err != nil {
		return "", err
	}
	told, silent := d.sortOut(never)
	text := join(join(d.explain(append(told, hopeless...)), d.explain(refusing)), d.silence(silent))
	if text != "" {
		text = "Berth: " + text
	}
	return text, nil
}

// with returns the nodes with a status of the given code from this plugin or from BerthClaims,
// which uses this plugin's decisions.
func (d *diagnosis) with(code fwk.Code) ([]*nodes.Node, error) {
	infos, err := d.statuses.NodesForStatusCode(d.plugin.handle.SnapshotSharedLister().NodeInfos(), code)
	if err != nil {
		return nil, err
	}
	var out []*nodes.Node
	for _, info := range infos {
		name := info.Node().Name
		if by := d.statuses.Get(name).Plugin(); by == Name || by == ClaimsName {
			out = append(out, d.plugin.core.table.Named(name))
		}
	}
	return out, nil
}

// fits reports whether one of the waiting nodes would admit the pod now. The pod then only waits
// until its CPUs are certain.
func (d *diagnosis) fits(waiting []*nodes.Node) bool {
	return slices.ContainsFunc(waiting, func(n *nodes.Node) bool { return d.statuses.Get(n.Name()).Message() == waitCertainty })
}

// sortOut selects two kinds of nodes from a list of nodes on which evictions do not help: nodes
// that refuse the pod although their reports are usable, and nodes whose agent is silent. It omits
// all other nodes.
func (d *diagnosis) sortOut(list []*nodes.Node) (refusing, silent []*nodes.Node) {
	for _, n := range list {
		switch why := d.plugin.core.table.Unusable(n); {
		case why == nil && n.Unmet(d.query.Candidate.Request) == "":
			refusing = append(refusing, n)
		case why != nil && why.Reason == nodestate.Silent:
			silent = append(silent, n)
		}
	}
	return refusing, silent
}

// hopeless returns nodes that another plugin refused, for example because they are full, and that
// would refuse the pod even if they were empty. For the user, the second reason is more important.
// hopeless asks at most maxExplained nodes.
func (d *diagnosis) hopeless() ([]*nodes.Node, error) {
	infos, err := d.statuses.NodesForStatusCode(d.plugin.handle.SnapshotSharedLister().NodeInfos(), fwk.Unschedulable)
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
		if d.statuses.Get(name).Plugin() == Name {
			continue
		}
		asked++
		n := d.plugin.core.table.Named(name)
		if d.plugin.core.table.Unusable(n) != nil || n.Unmet(d.query.Candidate.Request) != "" {
			continue
		}
		if a := d.askNow(n); a.Outcome == ledger.Refused && a.Verdict.Scarcity == placement.Unresolvable {
			out = append(out, n)
		}
	}
	return out, nil
}

// silence describes the time since the last heartbeats of silent agents: the shortest and the
// longest.
func (d *diagnosis) silence(list []*nodes.Node) string {
	if len(list) == 0 {
		return ""
	}
	shortest, longest := d.plugin.core.table.Silence(list[0]), time.Duration(0)
	for _, n := range list {
		silence := d.plugin.core.table.Silence(n)
		shortest, longest = min(shortest, silence), max(longest, silence)
	}
	text := duration.HumanDuration(shortest)
	if long := duration.HumanDuration(longest); long != text {
		text += " to " + long
	}
	return fmt.Sprintf("%s: last sign of life %s ago", wire.Counted(len(list), "node"), text)
}

// explain explains in one line why nodes refuse the pod. The most frequent reason comes first.
func (d *diagnosis) explain(refusing []*nodes.Node) string {
	count := map[string]int{}
	for _, n := range refusing[:min(len(refusing), maxExplained)] {
		switch refusal, ok := n.Account().View().Explain(d.query.Candidate.Request); {
		case ok && refusal.Reason != placement.Admitted:
			count[d.ask.Said.In(refusal.String())]++
		case ok && d.askNow(n).Held:
			count[keptByReservation]++
		case ok && len(d.plugin.handle.NominatedPodsForNode(n.Name())) > 0:
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
		fmt.Fprintf(&b, "%s: %s", wire.Counted(count[text], "node"), text)
		told += count[text]
	}
	if more := len(refusing) - told; more > 0 {
		fmt.Fprintf(&b, "; %s more", wire.Counted(more, "node"))
	}
	return b.String()
}

// whatWaits describes the reports for which the pod waits. If fits is true, the pod waits only
// until its CPUs are certain.
func whatWaits(nodes int, fits bool) string {
	if fits {
		return "the pod fits, but waits until its CPUs are certain; no pod is preempted"
	}
	return nodesWait(nodes) + " for a report that will show if the pod fits; no pod is preempted before that report"
}

func nodesWait(n int) string {
	if n == 1 {
		return "1 node waits"
	}
	return fmt.Sprintf("%d nodes wait", n)
}

func join(a, b string) string {
	if a != "" && b != "" {
		return a + "; " + b
	}
	return a + b
}
