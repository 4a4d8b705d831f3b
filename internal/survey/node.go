package survey

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/nodestate"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// node is one node at about one moment: its report and what is bound to it, taken together.
type node struct {
	name   string
	object *corev1.Node // nil if nodes may not be read
	// heard is the last sign of life of the agent, zero when there was none.
	heard time.Time
	// reading is the node's report; nil without one.
	reading *nodestate.Reading
	// account is what the ledger makes of report and pods; nil if there is no report to be relied
	// on.
	account *ledger.Node
	trouble *Trouble
	// inFlight counts pods that are bound and in no report yet; lingering those of them that have
	// ended or are being deleted.
	inFlight, lingering int
	// notes are which of its pods could not be understood.
	notes []string
	// bound are its pods, and what Reservations hold there.
	bound []*corev1.Pod
	// held is what is left of the places of Reservations, by UID; nil if there is none.
	held map[string]ledger.Holding
	// given is what providers gave its pods.
	given []Given
}

// nodeFacts are what the API says about one node.
type nodeFacts struct {
	object *corev1.Node           // nil if there is none, or it may not be read
	report *v1alpha1.NodeTopology // nil if there is none
	coarse []metav1.Object        // reports of others, the one to go by first
	beat   beat                   // the agent's last heartbeat, zero if there is none
	pods   []*corev1.Pod          // the ones that are bound to it
	held   map[string]ledger.Holding
}

// glance is what nodes are looked at with.
type glance struct {
	kinds      *nodestate.Kinds
	nodesKnown bool // Nodes may be read
	silence    silence
}

// silence says when an agent counts as silent.
type silence struct {
	after time.Duration
	told  bool // heartbeats could be read
	now   time.Time
}

// at looks at a node.
func (g *glance) at(name string, s *nodeFacts) *node {
	n := &node{name: name, object: s.object, bound: s.pods, held: s.held, given: givenOf(s.pods)}
	if s.report != nil {
		n.reading = g.kinds.Read(s.report, nil)
		n.heard = wire.LastWritten(&s.report.ObjectMeta, s.report.Status.ObservedTime.Time)
	}
	if n.hears(&s.beat) {
		n.heard = s.beat.written
	}
	if s.report == nil {
		n.goByAmounts(g, s)
	}
	n.judge(g)
	if n.reading == nil || n.reading.Unusable != nil {
		return n
	}
	n.account = new(ledger.Ledger).Open(nil)
	n.account.Accept(n.reading.State)
	for _, pod := range s.pods {
		if err := n.see(pod); err != nil {
			n.notes = append(n.notes, fmt.Sprintf("node %s: %v", n.name, err))
		}
	}
	return n
}

// goByAmounts reads the reports of others, which tell amounts alone, if no agent reports.
func (n *node) goByAmounts(g *glance, s *nodeFacts) {
	beside := nodestate.BesideOf(s.object, s.pods)
	var readings []*nodestate.Reading
	for _, o := range s.coarse {
		r, err := g.kinds.ReadCoarse(o, beside, nil)
		if err != nil {
			n.notes = append(n.notes, fmt.Sprintf("node %s: %v", n.name, err))
			continue
		}
		readings = append(readings, r)
	}
	n.reading = nodestate.Prefer(readings)
	for _, o := range s.coarse {
		if n.reading != nil && string(o.GetUID()) == n.reading.Source.UID {
			n.heard = wire.LastWritten(o, o.GetCreationTimestamp().Time)
		}
	}
}

// hears reports whether a heartbeat is the agent's last sign of life: it came after the report, and
// vouches for it.
func (n *node) hears(b *beat) bool {
	if n.reading != nil && n.reading.Mark != (nodestate.Mark{}) && !b.VouchesFor(n.reading.Mark.Sequence()) {
		return false
	}
	return b.written.After(n.heard)
}

// judge sets what is wrong with the node.
func (n *node) judge(g *glance) {
	q := g.silence
	switch {
	case g.nodesKnown && n.object == nil:
		n.trouble = troubleOf(nodestate.Stray(n.name), n.name)
	case n.reading == nil:
		n.trouble = troubleOf(nodestate.NotReported(), n.name)
	case n.reading.Unusable != nil:
		n.trouble = troubleOf(n.reading.Unusable, n.name)
		if s := &n.reading.Source; n.coarse() {
			n.trouble.Advice = "look at what writes the object: kubectl get " + strings.ToLower(s.Kind) + " " + s.Name +
				" --show-managed-fields -o yaml; or let berth-agent report the node"
		}
	case !n.reading.Coarse() && q.told && q.now.Sub(n.heard) > q.after:
		n.trouble = troubleOf(nodestate.FellSilent(), n.name)
	}
}

// see takes in a pod that is bound to the node.
func (n *node) see(pod *corev1.Pod) error {
	if wire.OfReservation(pod) {
		return n.seeHeld(pod)
	}
	s, err := nodestate.SightingOf(pod)
	switch {
	case errors.Is(err, nodestate.ErrNotPinnable):
		return nil
	case err != nil:
		return err
	case wire.Ended(pod) && !n.account.View().Report().Has(s.UID):
		return nil // it holds nothing any more, and a scheduler's watch shows no such pod
	}
	n.account.See(s.Sighting)
	switch listed := n.account.View().Report().Has(s.UID); {
	case listed:
	case s.Ending():
		n.lingering++
	default:
		n.inFlight++
	}
	return s.Ignored
}

// report is what the agent wrote; nil where that could not be read.
func (n *node) report() *wire.Report {
	if n == nil || n.reading == nil {
		return nil
	}
	return n.reading.Report
}

// spec is the node's machine and configuration; nil where that could not be read.
func (n *node) spec() *wire.NodeSpec {
	if n == nil || n.reading == nil || n.reading.Kind == nil {
		return nil
	}
	return &n.reading.Kind.Spec
}

// machine returns the node's hardware; an empty one if it is not known.
func (n *node) machine() *topology.Machine {
	if s := n.spec(); s != nil {
		return s.Machine
	}
	return new(topology.Machine)
}

// guarantee is what can be promised on this node.
func (n *node) guarantee() wire.Guarantee {
	if n.trouble != nil {
		return wire.GuaranteeNone
	}
	return n.reading.Guarantee
}

// coarse says that the report tells amounts alone; false of a node that is not there.
func (n *node) coarse() bool { return n != nil && n.reading != nil && n.reading.Coarse() }

// sequence is the number of the report; 0 without one.
func (n *node) sequence() int64 {
	if r := n.report(); r != nil {
		return r.Sequence
	}
	return 0
}

// reported finds a pod in the report; nil if it is not listed.
func (n *node) reported(uid string) (*placement.PodAllocation, string) {
	r := n.report()
	if r == nil {
		return nil, StateAbsent
	}
	i := slices.IndexFunc(r.Snapshot.Pods, func(p placement.PodAllocation) bool { return p.UID == uid })
	if i < 0 {
		return nil, StateAbsent
	}
	return &r.Snapshot.Pods[i], stateWord(r.Pods[i].State)
}
