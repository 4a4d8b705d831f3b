package protocol

import (
	"fmt"
	"slices"

	"github.com/berth-dev/berth/test/protocol/explore"
)

// The size of the model.
const (
	Pods  = 3
	Nodes = 2
)

// The basic types of a model. A node has four CPUs: 0 and 1 on NUMA node 0, 2 and 3 on NUMA node 1.
type (
	PodID  = explore.Pod
	PodSet = explore.Pods
	CPUs   = explore.CPUs
)

// NodeID is a node's index.
type NodeID uint8

var numaNodes = [...]CPUs{0b0011, 0b1100}

// phase is the state of a pod in the API, or in a client's view of the API.
type phase uint8

const (
	pending phase = iota
	bound
	terminal // bound, Succeeded or Failed
	gone     // deleted
)

// promise is the content of a Binding: node, CPUs, number among the node's Bindings, and whether
// the CPUs are exact.
type promise struct {
	node  NodeID
	cpus  CPUs
	order uint8
	exact bool
}

// life is the state of a pod in its kubelet.
type life uint8

const (
	unseen  life = iota
	running      // admitted, holds its CPUs
	ended        // no longer runs, still holds its CPUs
	freed        // has released its CPUs
)

// stage is the scheduler's progress with a pod.
type stage uint8

const (
	done     stage = iota // finished: only the API's state counts
	queued                // in the active queue
	waiting               // no node fits, and some node waits for a report
	refused               // no node fits
	filtered              // Filter chose a node
	reserved              // Reserve decided
	binding               // a Binding is under way
	unknown               // its result is not known
	assumed               // bound, but the watch has not shown it yet
)

// report is an agent's report about its node: the pods with CPUs (State.alloc has the CPUs), the
// pods whose Binding the kubelet's watch has delivered, and the number of delivered barriers.
type report struct {
	held, passed PodSet
	barrier      uint8
}

// event is one entry of a kubelet's watch.
type event uint8

const (
	noEvent   event = 0
	addEvent  event = 1 // + pod
	goneEvent event = 4 // + pod
	barrier   event = 7
)

// queueLen is enough for the addition and removal of every pod, and for two barriers.
const queueLen = 2*Pods + 2

// queue has the pending events of a kubelet's watch, oldest first.
type queue [queueLen]event

func (q *queue) push(e event) {
	for i := range q {
		if q[i] == noEvent {
			q[i] = e
			return
		}
	}
	panic("protocol: a watch with more events than Validate admits")
}

func (q *queue) pop() event {
	e := q[0]
	copy(q[:], q[1:])
	q[queueLen-1] = noEvent
	return e
}

func (q *queue) holds(e event) bool { return slices.Contains(q[:], e) }

// Budget counts the events that may still happen in the cluster.
type Budget struct {
	Departures uint8 // pods that end on their own, are deleted by force, or are collected
	Relists    uint8 // broken kubelet watches and kubelet restarts
	Restarts   uint8 // scheduler crashes, each followed by a new leader
	Unknowns   uint8 // Bindings whose reply is late or lost
	Failures   uint8 // Bindings that the API server refuses
}

// State is the memory of all actors and the messages between them. It is comparable: equal states
// are one state.
type State struct {
	// API server.
	api    [Pods]phase
	rec    [Pods]promise // valid after the Binding
	placed PodSet        // pods that were bound, including deleted ones
	marked PodSet        // pods whose placement is stored
	stray  PodSet        // Bindings under way for which no client waits
	astray [Pods]promise

	// Kubelets and agents.
	life    [Pods]life
	alloc   [Pods]CPUs
	watch   [Nodes]queue
	barrier [Nodes]uint8 // barriers that the kubelet's watch has delivered
	posted  [Nodes]report

	scheduler
	misled [Nodes]bool // the report that arrived last was not the newest, and no report follows
	epoch  uint8       // number of leaders after the first

	left   Budget
	broken Breach
}

// scheduler is the memory of a leader, until the next leader replaces it.
type scheduler struct {
	view     [Pods]phase // the pods as its watch has shown them
	known    PodSet      // pods that it has seen bound, whose nodes it still knows after their deletion
	seen     [Nodes]report
	stage    [Pods]stage
	plan     [Pods]promise
	takeover bool // it is a new leader and still waits
}

// Breach is a broken promise.
type Breach uint8

// The breaches that Check looks for.
const (
	Kept               Breach = iota
	Refusal                   // the kubelet refuses a pod that the scheduler has bound
	DoublePromise             // two pods are promised, or have, the same CPU
	Misprediction             // a pod gets other CPUs than its exact decision
	NeedlessPreemption        // a victim is evicted for a pod that fits without the eviction
	LeftWaiting               // a pod that fits waits forever
)

var breachNames = [...]string{"kept", "refusal", "double promise", "misprediction", "needless preemption", "left waiting"}

func (b Breach) String() string { return breachNames[b] }

// Pod is the request of a pod.
type Pod struct {
	CPUs   int
	Device bool // the node's one device, on NUMA node 0; at most one pod may ask for it
	Second int  // its creation time, whole seconds
}

// Authority is the program that chooses the CPUs on a node.
type Authority uint8

// The authorities.
const (
	Kubelet Authority = iota // the kubelet chooses: lowest NUMA node that fits, lowest CPUs
	Berth                    // the scheduler chooses, the agent enforces
)

// Config is one model.
type Config struct {
	Pods       [Pods]Pod
	Nodes      [Nodes]Authority
	Rules      Rule
	Budget     Budget
	Cautious   bool     // decide by the worst case (cautious.go) instead of by enumeration
	Look       []Breach // what to look for, nil for everything
	Preemption bool     // a pod without a feasible node evicts a victim (only matters without WaitIsPending)
}

// Validate returns an error that names the first field outside the limits of the model.
func (c *Config) Validate() error {
	devices := 0
	for p, pod := range c.Pods {
		devices += count(pod.Device)
		if pod.CPUs < 1 || pod.CPUs > 2 {
			return fmt.Errorf("protocol: Pods[%d].CPUs is %d, want 1 or 2: a NUMA node has two", p, pod.CPUs)
		}
	}
	if devices > 1 {
		return fmt.Errorf("protocol: Pods: %d ask for the device, want at most 1, because a node has only one", devices)
	}
	b := c.Budget
	for name, n := range map[string]uint8{"Departures": b.Departures, "Relists": b.Relists, "Unknowns": b.Unknowns, "Failures": b.Failures} {
		if n > 3 {
			return fmt.Errorf("protocol: Budget.%s is %d, want at most 3", name, n)
		}
	}
	if b.Restarts > 2 {
		return fmt.Errorf("protocol: Budget.Restarts is %d, want at most 2: a watch holds %d events", b.Restarts, queueLen)
	}
	return nil
}

// fit returns the CPUs that a kubelet with policy single-numa-node gives the pod if the CPUs used
// are taken; 0 if it refuses.
func fit(p Pod, used CPUs) CPUs {
	for n, all := range numaNodes {
		free := all &^ used
		if p.Device && n != 0 || free.Len() < p.CPUs {
			continue
		}
		return free.Lowest(p.CPUs)
	}
	return 0
}

// initial is the state in which every pod has just been created.
func initial(c *Config) State {
	s := State{left: c.Budget}
	for p := range s.stage {
		s.stage[p] = queued
	}
	return s
}

// heldOn returns the CPUs that the node's kubelet has assigned and not released, except those of p.
func (s *State) heldOn(n NodeID, except PodID) CPUs {
	var used CPUs
	for p := PodID(0); p < Pods; p++ {
		if p != except && s.holds(p) && s.rec[p].node == n {
			used |= s.alloc[p]
		}
	}
	return used
}

func (s *State) holds(p PodID) bool { return s.life[p] == running || s.life[p] == ended }

// capture returns the report that the node's agent would write now.
func (s *State) capture(n NodeID) report {
	r := report{barrier: s.barrier[n]}
	for p := PodID(0); p < Pods; p++ {
		if !s.placed.Has(p) || s.rec[p].node != n {
			continue
		}
		if s.holds(p) {
			r.held.Add(p)
		}
		if !s.watch[n].holds(addEvent + event(p)) {
			r.passed.Add(p)
		}
	}
	return r
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// inCycle reports whether a scheduling cycle is in progress. There is only one at a time.
func (s *scheduler) inCycle() bool { return slices.Contains(s.stage[:], filtered) }

func (s *scheduler) bindingTo(n NodeID) bool {
	for p, st := range s.stage {
		if (st == binding || st == unknown) && s.plan[p].node == n {
			return true
		}
	}
	return false
}

// wake moves the waiting pods back to the queue.
func (s *scheduler) wake() {
	for p := range s.stage {
		if s.stage[p] == waiting || s.stage[p] == refused {
			s.stage[p] = queued
		}
	}
}

func (s *scheduler) requeue(p PodID) {
	s.plan[p] = promise{}
	s.stage[p] = queued
	s.wake()
}

func (s *scheduler) giveUp(p PodID) {
	s.plan[p] = promise{}
	s.stage[p] = done
	s.wake()
}

// settle drops the scheduler's own record of a pod. From now on it uses the pod's annotation.
func (s *scheduler) settle(p PodID) {
	s.plan[p] = promise{}
	s.stage[p] = done
}
