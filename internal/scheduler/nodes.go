package scheduler

import (
	"fmt"
	"maps"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// The reasons why a node's word cannot be taken. They are few and constant, so that equal ones add up in an event.
const (
	noReport    = wire.NoReport
	noHeartbeat = wire.NoSignOfLife
	// wentBack is for a node whose report is older than the one before, as after a restore of the API server's data.
	wentBack = "its report is older than the one before, and its agent has not confirmed it yet"
	// waitCertainty is for a node that takes the pod for certain, but not with certain CPUs.
	waitCertainty = "waiting a moment to be certain of the CPUs"
)

// node is what the plugin keeps of one node.
type node struct {
	front
	name string
	*ledger.Node
	gate turnstile
	// object is the node's Node object as the scheduler's snapshot held it last.
	object atomic.Pointer[corev1.Node]

	mu sync.RWMutex
	// trouble says why the node cannot be predicted; "" when it can.
	trouble string
	// newest is the last report that was taken in, accepted the last of these that could be relied on. spec, wired and model belong
	// to the last that was understood.
	newest, accepted mark
	spec             *v1alpha1.NodeTopologySpec
	wired            *wire.NodeSpec
	model            *placement.Model
	// restored is a report that is older than the newest; nil where there is none. renewed is the newest heartbeat's time, by the
	// agent's clock.
	restored *v1alpha1.NodeTopology
	renewed  time.Time
}

// mark tells the reports of a node apart. The zero mark is of none.
type mark struct {
	uid types.UID
	// created is the second of the object's creation, by the API server's clock; observed the microsecond of the report, by the
	// agent's.
	created, observed int64
	sequence          int64
}

func markOf(nt *v1alpha1.NodeTopology) mark {
	return mark{nt.UID, nt.CreationTimestamp.Unix(), nt.Status.ObservedTime.UnixMicro(), nt.Status.Sequence}
}

// follows says whether a report can come after that one: it is of an object made later, has a higher number, or is the same again.
// An agent that goes on from an older report than its last gives numbers twice.
func (m mark) follows(last mark) bool {
	switch {
	case last == mark{}:
		return true
	case m.uid != last.uid:
		return m.created >= last.created
	case m.sequence != last.sequence:
		return m.sequence > last.sequence
	default:
		return m.observed == last.observed
	}
}

// nodes is every node that has been heard of. The zero value is empty and ready.
//
// Filter and Score look nodes up thousands of times per pod, from many goroutines, and new nodes are rare. A plain map that
// is never changed is found through with half the visits to memory that sync.Map makes.
type nodes struct {
	ledger ledger.Ledger
	kinds  kinds

	seats   seats
	settled atomic.Pointer[map[string]*node] // never changed
	// count is how many numbers have been given to nodes.
	count atomic.Int64

	mu     sync.Mutex
	fresh  map[string]*node // not settled yet
	misses int              // lookups of fresh nodes since they were last settled
	vacant []place          // of nodes that are no more
}

// get returns the named node, making one if there is none.
func (n *nodes) get(name string) *node {
	if m := n.settled.Load(); m != nil {
		if found, ok := (*m)[name]; ok {
			return found
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if m := n.settled.Load(); m != nil {
		if found, ok := (*m)[name]; ok {
			return found
		}
	}
	found, ok := n.fresh[name]
	if !ok {
		found = n.open(name)
		if n.fresh == nil {
			n.fresh = map[string]*node{}
		}
		n.fresh[name] = found
	}
	if n.misses++; n.misses > len(n.fresh) {
		n.settle()
	}
	return found
}

// open makes a node. The caller holds the lock.
func (n *nodes) open(name string) *node {
	made := &node{name: name, Node: n.ledger.Node(name), trouble: noReport}
	if last := len(n.vacant) - 1; last >= 0 {
		made.number = n.vacant[last].number
		made.StartAt(n.vacant[last].beat + 1)
		n.vacant = n.vacant[:last]
	} else {
		made.number = int(n.count.Add(1)) - 1
	}
	made.troubled.Store(true)
	made.Keep(&made.ChangeCounter)
	return made
}

// settle moves the fresh nodes over. The caller holds the lock.
func (n *nodes) settle() {
	next := make(map[string]*node, len(n.fresh))
	if m := n.settled.Load(); m != nil {
		maps.Copy(next, *m)
	}
	maps.Copy(next, n.fresh)
	n.settled.Store(&next)
	n.fresh, n.misses = nil, 0
}

// all yields every node.
func (n *nodes) all(yield func(*node) bool) {
	n.mu.Lock()
	if len(n.fresh) > 0 {
		n.settle()
	}
	m := n.settled.Load()
	n.mu.Unlock()
	if m == nil {
		return
	}
	for _, each := range *m {
		if !yield(each) {
			return
		}
	}
}

// refusal says why the node cannot be predicted now; "" when it can.
func (n *node) refusal(now time.Time, staleAfter time.Duration) string {
	if n.trusted(since(now), staleAfter) {
		return ""
	}
	n.mu.RLock()
	defer n.mu.RUnlock()
	if n.trouble != "" {
		return n.trouble
	}
	return noHeartbeat
}

// machine returns the node's hardware; nil when it is not known.
func (n *node) machine() *topology.Machine {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if n.wired == nil {
		return nil
	}
	return n.wired.Machine
}

// still says whether the node stands as it stood, and what has been read of it since belongs to that.
func (n *node) still(s *ledger.Stamp) bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return s.State != 0 && n.model == s.Model && n.Count() == s.Count
}

// hear notes a sign of life.
func (n *node) hear(now time.Time) { n.heard.Store(int64(since(now))) }

// silence is how long the agent has given no sign of life.
func (n *node) silence(now time.Time) time.Duration {
	return since(now) - time.Duration(n.heard.Load())
}

// distrust notes why the node cannot be predicted, and says whether that is news.
func (n *node) distrust(why string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	news := n.trouble != why
	n.trouble = why
	n.troubled.Store(true)
	n.Bump()
	return news
}

// accept takes a NodeTopology in and says how the promises turned out that it settles. The error says what is wrong
// with it; the node is then not to be trusted. Whether it is newer than the one before has been judged: the ledger is to look at
// numbers only where it is the same one again.
func (n *node) accept(nt *v1alpha1.NodeTopology, kinds *kinds) ([]ledger.PromiseOutcome, error) {
	n.mu.Lock()
	n.restored = nil
	if nt.Malformed == "" { // else its number could not be read
		n.newest = markOf(nt)
	}
	again := n.newest == n.accepted
	n.mu.Unlock()
	fresh, err := n.understand(nt, kinds)
	if err != nil {
		return nil, err
	}
	report, err := n.report(nt)
	if err != nil {
		return nil, err
	}
	take := n.Replace
	if again && !fresh {
		take = n.Accept
	}
	landings := take(report)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.trouble, n.accepted = "", n.newest
	n.troubled.Store(false) // not before: nobody is to decide by the report before
	return landings, nil
}

// older says what is wrong with a report that is older than the newest, or another of its number, and puts it aside; nil where it is
// not. The API server does not let a report go back, but the whole of its data can. What the agent wrote in between is lost then, and
// what the report says may long be over.
func (n *node) older(nt *v1alpha1.NodeTopology) *wire.FieldError {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.restored = nil
	last, now := n.newest, markOf(nt)
	if nt.Malformed != "" || now.follows(last) {
		return nil
	}
	n.restored = nt
	const confirmed = ", or a new heartbeat that confirms it"
	wrong := &wire.FieldError{Object: "NodeTopology " + nt.Name, Field: "status.sequence", Value: fmt.Sprint(now.sequence), Want: fmt.Sprint(last.sequence, " or more", confirmed)}
	switch {
	case now.uid != last.uid:
		wrong.Field, wrong.Value = "metadata.creationTimestamp", nt.CreationTimestamp.UTC().Format(time.RFC3339)
		wrong.Want = time.Unix(last.created, 0).UTC().Format(time.RFC3339) + " or later" + confirmed
	case now.sequence == last.sequence:
		wrong.Want = "more than that of another report" + confirmed
	}
	return wrong
}

// confirmed returns the report that was put aside if this heartbeat vouches for it; else nil. A heartbeat that was restored as well
// does not: it is older than one that was seen.
func (n *node) confirmed(lease *coordinationv1.Lease) *v1alpha1.NodeTopology {
	n.mu.Lock()
	defer n.mu.Unlock()
	if lease.Spec.RenewTime == nil || !lease.Spec.RenewTime.After(n.renewed) {
		return nil
	}
	n.renewed = lease.Spec.RenewTime.Time
	if n.restored == nil || n.restored.Status.Sequence != sequenceOf(lease) {
		return nil
	}
	return n.restored
}

// refused says whether the newest report has that number and could not be relied on.
func (n *node) refused(sequence int64) bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.newest.sequence == sequence && n.newest != n.accepted
}

// lose notes that the node has no report any more.
func (n *node) lose() {
	n.mu.Lock()
	n.restored, n.accepted = nil, mark{}
	n.mu.Unlock()
	n.distrust(noReport)
	n.Withdraw()
}

// understand brings spec and model up to date, and says whether they, or the object itself, are new. Only the feed
// calls it, one report at a time.
func (n *node) understand(nt *v1alpha1.NodeTopology, kinds *kinds) (bool, error) {
	if n.spec != nil && n.accepted.uid == nt.UID && reflect.DeepEqual(*n.spec, nt.Spec) {
		return false, nil
	}
	n.spec = nil
	kind, err := kinds.of(nt)
	if err != nil {
		return false, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.spec, n.wired, n.model = kind.spec, &kind.wired, kind.model
	return true, nil
}

// report translates the status.
func (n *node) report(nt *v1alpha1.NodeTopology) (*ledger.Report, error) {
	if count := len(nt.Status.Pods); count > maxReported {
		return nil, &wire.FieldError{Object: "NodeTopology " + nt.Name, Field: "status.pods", Value: fmt.Sprint(count), Want: fmt.Sprint("at most ", maxReported)}
	}
	r, err := wire.ReadReport(nt)
	if err != nil {
		return nil, err
	}
	if err := r.CheckReady(); err != nil {
		return nil, err
	}
	if err := wire.CheckReport(n.wired, &r, nt.Name); err != nil {
		return nil, err
	}
	return ledger.NewReport(r.Sequence, n.model, &r.Snapshot, fates(&r))
}

func fates(r *wire.Report) map[string]ledger.Fate {
	out := map[string]ledger.Fate{}
	for i := range r.Pods {
		switch r.Pods[i].State {
		case v1alpha1.PodEnded:
			out[r.Snapshot.Pods[i].UID] = ledger.Over
		case v1alpha1.PodRejected:
			out[r.Snapshot.Pods[i].UID] = ledger.Rejected
		case v1alpha1.PodUnknown:
			out[r.Snapshot.Pods[i].UID] = ledger.Untold
		}
	}
	return out
}

// maxReported bounds the pods of a report, as the schema of NodeTopology does: reading one takes longer the more there are.
const maxReported = 1024
