package nodes

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/clip"
	"github.com/berth-dev/berth/internal/demand"
	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/nodestate"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// The most frequent reasons why nodes are unusable. The texts are constant, so that an event can
// group nodes with equal texts.
var (
	unreported = nodestate.NotReported()
	silent     = nodestate.FellSilent()
)

// hotFields are the fields of a node that are read for every pod. They are adjacent in memory.
type hotFields struct {
	changes ledger.ChangeCounter
	// heard is the time of the agent's last report or heartbeat, as a time.Duration after the
	// package variable began.
	heard atomic.Int64
	// troubled means that Berth does not use the node, even if stored answers are valid.
	// Node.trouble has the reason.
	troubled atomic.Bool
	// obeys means that Berth decides on the node, according to the last readable report.
	obeys atomic.Bool
	// traits are the node's properties that do not depend on its free resources.
	traits traits
	// number is the node's index in answer tables.
	number int32
	// object is the node's Node object in the scheduler's last snapshot.
	object atomic.Pointer[corev1.Node]
	// free is the last result of Node.outline, or nil.
	free atomic.Pointer[ledger.Outline]
}

// traits has the node's demand.Level, and a bit for a Node object with a taint PreferNoSchedule.
type traits struct{ word atomic.Uint32 }

const shunned = 1 << demand.Bits

// set sets the bits in mask to those of value.
func (t *traits) set(mask, value uint32) {
	for {
		old := t.word.Load()
		if t.word.CompareAndSwap(old, old&^mask|value) {
			return
		}
	}
}

// trusted reports whether the node's report is reliable and its agent is not silent.
func (h *hotFields) trusted(now, staleAfter time.Duration) bool {
	return !h.troubled.Load() && now-time.Duration(h.heard.Load()) <= staleAfter
}

// began is the time from which this package counts time. Differences between times of one process
// use the monotonic clock, so they do not change if the wall clock jumps.
var began = time.Now()

func since(now time.Time) time.Duration { return now.Sub(began) }

// Node is a scheduler's record of one node. It is safe for concurrent use.
type Node struct {
	hot     hotFields
	name    string
	account *ledger.Node
	// turnstile lets one Binding to the node be written at a time.
	turnstile turnstile
	// amounts has the node's reports that have only amounts.
	amounts amountReports

	// took is the time, since began, at which Feed.Took last recorded a pod on the node, or 0.
	took atomic.Int64
	// koordlet means that Koordinator's koordlet carries out Berth's decisions on the node.
	koordlet atomic.Bool

	mu sync.RWMutex
	// trouble is the reason why the node's report is not reliable, or nil.
	trouble *nodestate.Unusable
	// newest identifies the newest report, and accepted the last reliable report.
	newest, accepted nodestate.Mark
	// kind is the NodeKind in the last readable report, or nil before the first such report.
	kind *nodestate.NodeKind
	// restored is a report that Node.older has put aside, or nil.
	restored *nodestate.Reading
	// renewed is the time in the newest heartbeat, by the agent's clock.
	renewed time.Time
	// version is the resource version of the accepted report.
	version string

	// obeying means that Table.obeying counts the node. Feed.reports protects it.
	obeying bool
	// unproven means that Table.unproven counts the node. Table.mu protects it.
	unproven bool

	// The padding makes the size a multiple of 64 bytes, so that every Node, and so its field hot,
	// begins at the start of a cache line.
	_ [46]byte
}

// Name returns the name of the node.
func (n *Node) Name() string { return n.name }

// Number returns a number less than Table.Size that no other node has at the same time.
func (n *Node) Number() int { return int(n.hot.number) }

// Account returns the ledger's account of the node.
func (n *Node) Account() *ledger.Node { return n.account }

// Changes returns the node's change count (ledger.ChangeCounter.Count).
func (n *Node) Changes() uint32 { return n.hot.changes.Count() }

// Enter waits until the caller may write a Binding to the node. Only one caller may write at a
// time; the caller with the lowest number comes first. Enter returns an error if ctx ends first.
// Otherwise the caller must call Leave after the write.
func (n *Node) Enter(ctx context.Context, number uint64) error { return n.turnstile.enter(ctx, number) }

// Leave lets the next caller of Enter write its Binding.
func (n *Node) Leave() { n.turnstile.leave() }

// TookSince reports whether, after the given time, a pod that this scheduler did not place appeared
// on the node, or a pod on the node was resized.
func (n *Node) TookSince(then time.Time) bool {
	took := n.took.Load()
	return took != 0 && took > int64(since(then))
}

// Obeys reports whether Berth decides on the node, according to the last readable report.
func (n *Node) Obeys() bool { return n.hot.obeys.Load() }

// Shunned reports whether the Node object in the scheduler's last snapshot has a taint
// PreferNoSchedule.
func (n *Node) Shunned() bool { return n.hot.traits.word.Load()&shunned != 0 }

func (n *Node) demand() demand.Level {
	return demand.Level(n.hot.traits.word.Load()) & demand.MostDemand
}

// Unshown reports whether the node's report lists pods with exclusive CPUs that the watch does not
// show (ledger.View.UnshownCPUs).
func (n *Node) Unshown() bool { return n.hot.changes.Unshown() > 0 }

// Koordlet reports whether koordlet carries out Berth's decisions on the node.
func (n *Node) Koordlet() bool { return n.koordlet.Load() }

// Unmet returns the reason why the node cannot meet the rules of a pod, or "".
func (n *Node) Unmet(r *placement.Request) string {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if n.kind == nil || n.kind.Model == nil {
		return ""
	}
	return wire.Unmet(n.kind.Model, r)
}

// Machine returns the node's hardware, or nil if it is not known.
func (n *Node) Machine() *topology.Machine {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if n.kind == nil {
		return nil
	}
	return n.kind.Spec.Machine
}

// GivesWhole reports whether the node's kubelet gives exclusive CPUs to the pod as a whole, because
// of the pod's spec.resources.
func (n *Node) GivesWhole(r *placement.Request) bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.kind != nil && n.kind.Model != nil && n.kind.Model.GivesWhole(r)
}

// outline returns, for each NUMA node, the CPUs that are free once the pods in flight, which the
// node's report does not list yet, are admitted (ledger.Outline). It stores the result until the
// node changes. It returns nil if the machine is unknown or ledger.View.Outline returns nil.
func (n *Node) outline() *ledger.Outline {
	if o := n.hot.free.Load(); o != nil && o.Count == n.hot.changes.Count() {
		return o
	}
	m := n.Machine()
	if m == nil {
		n.hot.free.Store(nil)
		return nil
	}
	o := n.account.View().Outline(m)
	n.hot.free.Store(o)
	return o
}

// still reports whether s has a StateID, and the node and its Model have not changed since s was
// taken.
func (n *Node) still(s *ledger.Stamp) bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return s.State != 0 && n.kind != nil && n.kind.Model == s.Model && n.hot.changes.Count() == s.Count
}

func (n *Node) noteHeartbeat(now time.Time) { n.hot.heard.Store(int64(since(now))) }

// needNoHeartbeat records that the node has no agent, and so no heartbeats.
func (n *Node) needNoHeartbeat() { n.hot.heard.Store(longAhead) }

// longAhead is a time, counted from the package variable began, that this process never reaches:
// more than 70 years.
const longAhead = math.MaxInt64 / 4

// distrust records why the node's report is not reliable, and returns true if the reason is new.
func (n *Node) distrust(why *nodestate.Unusable) bool {
	why = shortened(why)
	n.mu.Lock()
	defer n.mu.Unlock()
	news := n.trouble == nil || n.trouble.Text != why.Text
	n.trouble = why
	n.hot.troubled.Store(true)
	n.hot.changes.Bump()
	return news
}

// shortened limits the text to 200 bytes, because events of pods contain it.
func shortened(u *nodestate.Unusable) *nodestate.Unusable {
	const limit = 200
	if len(u.Text) <= limit {
		return u
	}
	short := *u
	short.Text = clip.Text(u.Text, limit)
	return &short
}

// lastKind returns the NodeKind in the last readable report, or nil.
func (n *Node) lastKind() *nodestate.NodeKind {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.kind
}

// accept accepts a report and returns the outcomes of the promises that the report settles. If the
// report is not reliable, it returns the reason, and the caller must call Feed.refuse. The caller
// must have checked that the report is not older than the last one. The ledger does not get the
// same report twice in a row.
func (n *Node) accept(r *nodestate.Reading) ([]ledger.PromiseOutcome, *nodestate.Unusable) {
	same := n.noteNewest(r)
	if r.Unusable != nil {
		return nil, r.Unusable
	}
	var outcomes []ledger.PromiseOutcome
	if !same {
		outcomes = n.account.Accept(r.State)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.trouble, n.accepted, n.version = nil, r.Mark, r.Version
	n.hot.troubled.Store(false) // last, so that no cycle decides by the previous report
	return outcomes, nil
}

// noteNewest records the newest report, and reports whether it is the report that was accepted
// last.
func (n *Node) noteNewest(r *nodestate.Reading) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.restored = nil
	if r.Mark != (nodestate.Mark{}) {
		n.newest = r.Mark
	}
	same := n.accepted != (nodestate.Mark{}) && n.newest == n.accepted && n.kind == r.Kind
	n.kind = r.Kind
	if r.Kind != nil {
		n.hot.obeys.Store(r.Authority() == v1alpha1.AuthorityBerth)
		n.koordlet.Store(r.Kind.Spec.Koordlet)
	}
	return same
}

// older puts a report aside and returns an error if the report is older than the newest report, or
// differs from it and has the same sequence number. Otherwise it returns nil. The API server
// refuses to write an older report, but such a report can appear after a restore of the API
// server's data.
func (n *Node) older(r *nodestate.Reading) *nodestate.Unusable {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.restored = nil
	wrong := r.WentBack(n.newest)
	if wrong != nil {
		n.restored = r
	}
	return wrong
}

// confirmed returns the report that Node.older has put aside, if this heartbeat confirms it.
// Otherwise it returns nil. A restored heartbeat does not count, because it is older than the
// newest heartbeat.
func (n *Node) confirmed(b *nodestate.Heartbeat) *nodestate.Reading {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !b.Renewed.After(n.renewed) {
		return nil
	}
	n.renewed = b.Renewed
	if n.restored == nil || n.restored.Mark.Sequence() != b.Sequence {
		return nil
	}
	return n.restored
}

// refused reports whether the newest report has the given sequence number and is not reliable.
func (n *Node) refused(sequence int64) bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.newest.Sequence() == sequence && n.newest != n.accepted
}

// lose records that the node has no report any more.
func (n *Node) lose() {
	n.mu.Lock()
	n.restored, n.accepted = nil, nodestate.Mark{}
	n.mu.Unlock()
	n.distrust(unreported)
	n.account.Withdraw()
}

// amountReports has the reports of a node that have only amounts. They are used while there is no
// report of an agent. Feed.reports protects the fields, except inUse.
type amountReports struct {
	// full means that there is a report of an agent.
	full bool
	// objects has one object of each kind of apiclient.CoarseKinds, in that order; nil for a
	// missing object.
	objects [2]metav1.Object
	// read has the objects that were last read. beside has the facts of FeedOptions.Beside at that
	// time.
	read   [2]metav1.Object
	beside *wire.Beside
	// inUse means that the node uses these reports.
	inUse atomic.Bool
}

func (a *amountReports) none() bool { return a.objects == [2]metav1.Object{} }
