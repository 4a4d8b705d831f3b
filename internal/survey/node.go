package survey

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/nodestate"
	"github.com/berth-dev/berth/internal/survey/source"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// NodeState is the state of one node: its report and its pods, read at about the same time.
type NodeState struct {
	Name   string
	Object *corev1.Node // nil if nodes may not be read
	// Heard is the time of the agent's last sign of life, or zero.
	Heard time.Time
	// Reading is the node's report, or nil.
	Reading *nodestate.Reading
	// Account is the node's ledger. It has the report and the node's pods. It is nil if there is no
	// usable report.
	Account *ledger.Node
	// Trouble explains why the report is not reliable. It is nil if the report is reliable.
	Trouble *Trouble
	// InFlight and Lingering count bound pods that could be pinned, have not ended, and are in no
	// report. Lingering counts the pods that are being deleted, and InFlight counts the others.
	InFlight, Lingering int
	// notes describe pods of the node, and reports of other exporters, that could not be read.
	notes []string
	// Bound are the node's pods, and pods that stand for places of Reservations on the node.
	Bound []*corev1.Pod
	// held has the unused parts of Reservations' places, by the Reservation's UID. It may be nil.
	held map[string]ledger.Holding
	// Given has the providers' resources that the node's pods use.
	Given []Given
}

// glance has the inputs of a NodeState that are the same for all nodes.
type glance struct {
	kinds *nodestate.Kinds
	// staleAfter is Options.StaleAfter.
	staleAfter time.Duration
}

// at computes the state of a node. The parameter held becomes NodeState.held.
func (g *glance) at(name string, s *source.NodeFacts, held map[string]ledger.Holding) *NodeState {
	n := &NodeState{Name: name, Object: s.Object, Bound: s.Pods, held: held, Given: givenOf(s.Pods)}
	if s.Report != nil {
		n.Reading = g.kinds.Read(s.Report, nil)
		n.Heard = wire.LastWritten(&s.Report.ObjectMeta, s.Report.Status.ObservedTime.Time)
	}
	if n.hears(&s.Beat) {
		n.Heard = s.Beat.Written
	}
	if s.Report == nil {
		n.goByAmounts(g, s)
	}
	n.judge(g, s)
	if n.Reading == nil || n.Reading.Unusable != nil {
		return n
	}
	n.Account = new(ledger.Ledger).Open(nil)
	n.Account.Accept(n.Reading.State)
	for _, pod := range s.Pods {
		if err := n.See(pod); err != nil {
			n.notes = append(n.notes, fmt.Sprintf("node %s: %v", n.Name, err))
		}
	}
	return n
}

// goByAmounts sets Reading and Heard of a node without a NodeTopology, from another exporter's
// report, which contains only amounts.
func (n *NodeState) goByAmounts(g *glance, s *source.NodeFacts) {
	beside := nodestate.BesideOf(s.Object, s.Pods)
	var readings []*nodestate.Reading
	for _, o := range s.Coarse {
		r, err := g.kinds.ReadCoarse(o, beside, nil)
		if err != nil {
			n.notes = append(n.notes, fmt.Sprintf("node %s: %v", n.Name, err))
			continue
		}
		readings = append(readings, r)
	}
	n.Reading = nodestate.Prefer(readings)
	for _, o := range s.Coarse {
		if n.Reading != nil && string(o.GetUID()) == n.Reading.Source.UID {
			n.Heard = wire.LastWritten(o, o.GetCreationTimestamp().Time)
		}
	}
}

// hears reports whether a heartbeat is newer than n.Heard. If there is a NodeTopology, the
// heartbeat must also confirm it.
func (n *NodeState) hears(b *source.Beat) bool {
	if n.Reading != nil && n.Reading.Mark != (nodestate.Mark{}) && !b.VouchesFor(n.Reading.Mark.Sequence()) {
		return false
	}
	return b.Written.After(n.Heard)
}

// judge sets Trouble if the node's report is not reliable.
func (n *NodeState) judge(g *glance, f *source.NodeFacts) {
	switch {
	case f.NodesKnown && n.Object == nil:
		n.Trouble = troubleOf(nodestate.Stray(n.Name), n.Name)
	case n.Reading == nil:
		n.Trouble = troubleOf(nodestate.NotReported(), n.Name)
	case n.Reading.Unusable != nil:
		n.Trouble = troubleOf(n.Reading.Unusable, n.Name)
		if s := &n.Reading.Source; n.coarse() {
			n.Trouble.Advice = "find out which program writes the object: kubectl get " + strings.ToLower(s.Kind) + " " + s.Name +
				" --show-managed-fields -o yaml; or let berth-agent report the node"
		}
	case !n.Reading.Coarse() && f.BeatsKnown && f.Now.Sub(n.Heard) > g.staleAfter:
		n.Trouble = troubleOf(nodestate.FellSilent(), n.Name)
	}
}

// See adds a pod of the node to the node's Account. The error describes what could not be read in
// the pod.
func (n *NodeState) See(pod *corev1.Pod) error {
	if wire.OfReservation(pod) {
		return n.seeHeld(pod)
	}
	s, err := nodestate.SightingOf(pod)
	switch {
	case errors.Is(err, nodestate.ErrNotPinnable):
		return nil
	case err != nil:
		return err
	case wire.Ended(pod) && !n.Account.View().Report().Has(s.UID):
		return nil // the pod holds no resources, and the scheduler ignores it, too
	}
	n.Account.See(s.Sighting)
	switch listed := n.Account.View().Report().Has(s.UID); {
	case listed:
	case s.Ending():
		n.Lingering++
	default:
		n.InFlight++
	}
	return s.Ignored
}

// Report returns the node's report, or nil if it could not be read.
func (n *NodeState) Report() *wire.Report {
	if n == nil || n.Reading == nil {
		return nil
	}
	return n.Reading.Report
}

// Spec returns the node's machine and configuration, or nil if it could not be read.
func (n *NodeState) Spec() *wire.NodeSpec {
	if n == nil || n.Reading == nil || n.Reading.Kind == nil {
		return nil
	}
	return &n.Reading.Kind.Spec
}

// Machine returns the node's hardware, or an empty machine if it is not known.
func (n *NodeState) Machine() *topology.Machine {
	if s := n.Spec(); s != nil {
		return s.Machine
	}
	return new(topology.Machine)
}

func (n *NodeState) guarantee() wire.Guarantee {
	if n.Trouble != nil {
		return wire.GuaranteeNone
	}
	return n.Reading.Guarantee
}

// coarse reports whether another project's exporter wrote the node's report. The ledger uses only
// the amounts of such a report. coarse returns false if n is nil.
func (n *NodeState) coarse() bool { return n != nil && n.Reading != nil && n.Reading.Coarse() }

// Sequence returns the number of the report, or 0.
func (n *NodeState) Sequence() int64 {
	if r := n.Report(); r != nil {
		return r.Sequence
	}
	return 0
}

// Reported returns the pod's entry in the report, and its state there. If no report lists the pod,
// it returns nil and StateAbsent.
func (n *NodeState) Reported(uid string) (*placement.PodAllocation, string) {
	r := n.Report()
	if r == nil {
		return nil, StateAbsent
	}
	i := slices.IndexFunc(r.Snapshot.Pods, func(p placement.PodAllocation) bool { return p.UID == uid })
	if i < 0 {
		return nil, StateAbsent
	}
	return &r.Snapshot.Pods[i], stateWord(r.Pods[i].State)
}
