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

// node is the state of one node: its report and the pods that are bound to it, read at about the
// same time.
type node struct {
	name   string
	object *corev1.Node // nil if nodes may not be read
	// heard is the time of the agent's last sign of life, or zero.
	heard time.Time
	// reading is the node's report, or nil.
	reading *nodestate.Reading
	// account is the ledger's account of report and pods, or nil if there is no reliable report.
	account *ledger.Node
	trouble *Trouble
	// inFlight and lingering count bound pods that no report lists. lingering counts those that
	// have ended or are being deleted, and inFlight the others.
	inFlight, lingering int
	// notes has a note about each pod that could not be read.
	notes []string
	// bound are the node's pods, and pods that stand for places of Reservations on the node.
	bound []*corev1.Pod
	// held has the unused parts of Reservations' places, by UID, or is nil.
	held map[string]ledger.Holding
	// given has the providers' resources that the node's pods use.
	given []Given
}

// glance has the inputs, common to all nodes, for computing a node's state.
type glance struct {
	kinds *nodestate.Kinds
	// staleAfter is Options.StaleAfter.
	staleAfter time.Duration
}

// at computes the state of a node. held has the Holding of each pod that stands for a place of a
// Reservation.
func (g *glance) at(name string, s *source.NodeFacts, held map[string]ledger.Holding) *node {
	n := &node{name: name, object: s.Object, bound: s.Pods, held: held, given: givenOf(s.Pods)}
	if s.Report != nil {
		n.reading = g.kinds.Read(s.Report, nil)
		n.heard = wire.LastWritten(&s.Report.ObjectMeta, s.Report.Status.ObservedTime.Time)
	}
	if n.hears(&s.Beat) {
		n.heard = s.Beat.Written
	}
	if s.Report == nil {
		n.goByAmounts(g, s)
	}
	n.judge(g, s)
	if n.reading == nil || n.reading.Unusable != nil {
		return n
	}
	n.account = new(ledger.Ledger).Open(nil)
	n.account.Accept(n.reading.State)
	for _, pod := range s.Pods {
		if err := n.see(pod); err != nil {
			n.notes = append(n.notes, fmt.Sprintf("node %s: %v", n.name, err))
		}
	}
	return n
}

// goByAmounts uses the report of another exporter, which contains only amounts, if no agent
// reports.
func (n *node) goByAmounts(g *glance, s *source.NodeFacts) {
	beside := nodestate.BesideOf(s.Object, s.Pods)
	var readings []*nodestate.Reading
	for _, o := range s.Coarse {
		r, err := g.kinds.ReadCoarse(o, beside, nil)
		if err != nil {
			n.notes = append(n.notes, fmt.Sprintf("node %s: %v", n.name, err))
			continue
		}
		readings = append(readings, r)
	}
	n.reading = nodestate.Prefer(readings)
	for _, o := range s.Coarse {
		if n.reading != nil && string(o.GetUID()) == n.reading.Source.UID {
			n.heard = wire.LastWritten(o, o.GetCreationTimestamp().Time)
		}
	}
}

// hears reports whether a heartbeat is newer than the report and confirms it.
func (n *node) hears(b *source.Beat) bool {
	if n.reading != nil && n.reading.Mark != (nodestate.Mark{}) && !b.VouchesFor(n.reading.Mark.Sequence()) {
		return false
	}
	return b.Written.After(n.heard)
}

// judge sets the trouble of the node if its report is not reliable.
func (n *node) judge(g *glance, f *source.NodeFacts) {
	switch {
	case f.NodesKnown && n.object == nil:
		n.trouble = troubleOf(nodestate.Stray(n.name), n.name)
	case n.reading == nil:
		n.trouble = troubleOf(nodestate.NotReported(), n.name)
	case n.reading.Unusable != nil:
		n.trouble = troubleOf(n.reading.Unusable, n.name)
		if s := &n.reading.Source; n.coarse() {
			n.trouble.Advice = "find out which program writes the object: kubectl get " + strings.ToLower(s.Kind) + " " + s.Name +
				" --show-managed-fields -o yaml; or let berth-agent report the node"
		}
	case !n.reading.Coarse() && f.BeatsKnown && f.Now.Sub(n.heard) > g.staleAfter:
		n.trouble = troubleOf(nodestate.FellSilent(), n.name)
	}
}

// see adds a pod that is bound to the node.
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
		return nil // an ended pod holds no resources, and schedulers do not watch ended pods
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

// report returns the node's report, or nil if it could not be read.
func (n *node) report() *wire.Report {
	if n == nil || n.reading == nil {
		return nil
	}
	return n.reading.Report
}

// spec returns the node's machine and configuration, or nil if it could not be read.
func (n *node) spec() *wire.NodeSpec {
	if n == nil || n.reading == nil || n.reading.Kind == nil {
		return nil
	}
	return &n.reading.Kind.Spec
}

// machine returns the node's hardware, or an empty machine if it is not known.
func (n *node) machine() *topology.Machine {
	if s := n.spec(); s != nil {
		return s.Machine
	}
	return new(topology.Machine)
}

// guarantee returns the node's guarantee.
func (n *node) guarantee() wire.Guarantee {
	if n.trouble != nil {
		return wire.GuaranteeNone
	}
	return n.reading.Guarantee
}

// coarse reports whether the report has only amounts. It is false for a missing node.
func (n *node) coarse() bool { return n != nil && n.reading != nil && n.reading.Coarse() }

// sequence returns the number of the report, or 0.
func (n *node) sequence() int64 {
	if r := n.report(); r != nil {
		return r.Sequence
	}
	return 0
}

// reported returns the pod's entry in the report, or nil, and the pod's state.
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
