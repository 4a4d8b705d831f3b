package scheduler

import (
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-dev/berth/internal/amounts"
	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/scheduler/nodes"
	"github.com/berth-dev/berth/internal/suppose"
	"github.com/berth-dev/berth/internal/wire"
)

const cycleKey fwk.StateKey = Name

// cycle is what the plugin keeps for one attempt to place one pod.
type cycle struct {
	query nodes.Query
	// said names the keys with which the pod asks for its placement.
	said wire.Said
	// plugin is that of the pod's profile.
	plugin *Plugin
	// began is when the attempt began.
	began  time.Time
	member member
	// dry is what a dry run assumes; nil in none.
	dry *dryRun
	// patient says that the pod still waits for certainty, until patientUntil.
	patient      bool
	patientUntil time.Time
	// waiting are nodes that told the pod to wait in Filter; nil where it does not wait for better
	// ones.
	waiting *waitingNodes
	// refused: it is the node that refused in Reserve or Bind, and not something that may do so for
	// ever.
	refused bool
	// again: Reserve refused what Filter had merely estimated; another node may do at once.
	again bool
	// unpinned: no kubelet would pin anything for the pod. It is decided for on nodes that obey,
	// and passes all others untouched.
	unpinned bool
	// untouched: its node is one of those others.
	untouched bool
	// betterFor is how long the pod still waits for a better node; 0 where it does not.
	betterFor time.Duration
	// planned is the node that a member of a gang gets; "" for pods that look for one.
	planned string
	// from is the Reservation that the pod is sent to, by UID, and heldOn its node; "" for a pod
	// that looks for a node.
	from, heldOn string
	// number is the pod's place in the order of Reserve; 0 before.
	number uint64
}

// dryRun is nodes as a cycle assumes them.
type dryRun struct {
	suppose.Field[*nodes.Node]
	// removed are the pods that were taken away, by UID. Some of them may be back.
	removed map[string]*corev1.Pod
	// amounts are what the pod asks for in all, once others were taken away for it.
	amounts amounts.List
}

// waitingNodes are nodes that make a pod wait. Filter finds them, for several nodes at a time.
type waitingNodes struct {
	mu   sync.Mutex
	list []*nodes.Node
}

// maxHopes bounds how many nodes that wait are looked at for one attempt.
const maxHopes = 32

// add notes a node once, if there are not enough. It may be called on nil.
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

// Clone implements fwk.StateData: what AddPod and RemovePod change is copied.
func (c *cycle) Clone() fwk.StateData {
	copied := *c
	if c.dry != nil {
		copied.dry = &dryRun{Field: c.dry.Clone(), removed: maps.Clone(c.dry.removed), amounts: c.dry.amounts}
	}
	return &copied
}

// cycleOf returns the plugin's state; nil for a pod that passes untouched.
func cycleOf(state fwk.CycleState) *cycle {
	data, err := state.Read(cycleKey)
	if err != nil {
		return nil
	}
	c, _ := data.(*cycle)
	return c
}

// bare is a node about which nothing is assumed. The framework looks at its amounts.
func bare(n *nodes.Node) suppose.Node { return suppose.On(n.Account(), nil) }

// assume begins a dry run, or goes on with it.
func (c *cycle) assume() *dryRun {
	if c.dry == nil {
		c.dry = &dryRun{Field: suppose.Field[*nodes.Node]{Bare: bare}, removed: map[string]*corev1.Pod{}}
	}
	return c.dry
}

// take takes a pod from a node, to make room for the one to place.
func (c *cycle) take(pod, from *corev1.Pod, n *nodes.Node) {
	run := c.assume()
	if run.amounts == nil {
		run.amounts = wire.ReadAmounts(pod)
	}
	run.removed[uidOf(from)] = from
	run.At(n).Take(&suppose.Pod{UID: uidOf(from), Candidate: &ledger.Candidate{}})
}

// assumed is a node as the cycle assumes it.
func (c *cycle) assumed(n *nodes.Node) suppose.Node {
	if c.dry != nil {
		if on := c.dry.Known(n); on != nil {
			return *on
		}
	}
	return bare(n)
}

// askNow asks a node as it is, whatever is assumed of it.
func (c *cycle) askNow(n *nodes.Node) ledger.Answer {
	return n.Account().View().Ask(ledger.Question{Candidate: &c.query.Candidate})
}
