package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Kind is the kind of an operation.
type Kind string

// Operations. Op.Target names the process of a fault.
//
// The connections from a client to the API server, and from the API server to etcd, can have
// faults. On the way to the API server, requests and answers are lost or late. On the way to etcd,
// bytes are late, but none is lost.
const (
	Create      Kind = "create"       // a pod
	CreateGang  Kind = "create-gang"  // pods that start together
	Delete      Kind = "delete"       // a pod, with its grace period
	ForceDelete Kind = "force-delete" // a pod, without a grace period: the API forgets the pod at once
	Kill        Kind = "kill"         // SIGKILL; started again after For
	Pause       Kind = "pause"        // SIGSTOP for For
	Slow        Kind = "slow"         // stopped most of the time, for For
	Jump        Kind = "jump"         // the clock of a process jumps by By
	Cut         Kind = "cut"          // ends all connections and watches of a client to the API server, or of the API server to etcd
	Lose        Kind = "lose"         // for For, every few requests of a client get no answer, but may be carried out
	Late        Kind = "late"         // for For, every few requests of a client, or their answers, are late
	Orphan      Kind = "orphan"       // every few writes of a client are carried out after the client has received an error
)

// Op is one operation.
type Op struct {
	At   time.Duration
	Kind Kind
	// Target is a pod's number, or the name of a process: etcd, apiserver, scheduler-N, shadow,
	// agent-NODE or node-NODE. leader is the scheduler that leads when the operation begins.
	Target string
	Pod    *PodPlan   // for Create
	Gang   []*PodPlan // for CreateGang
	For    time.Duration
	By     time.Duration // for Jump
}

// leader as a target is the scheduler that holds the lease.
const leader = "leader"

// String describes the operation in a line.
func (o Op) String() string {
	text := fmt.Sprintf("%7.2fs %s %s", o.At.Seconds(), o.Kind, o.Target)
	if o.For > 0 {
		text += fmt.Sprintf(" for %v", o.For)
	}
	if o.By != 0 {
		text += fmt.Sprintf(" by %v", o.By)
	}
	if o.Pod != nil {
		text += fmt.Sprintf(" %+v", *o.Pod)
	}
	for _, member := range o.Gang {
		text += fmt.Sprintf(" %+v", *member)
	}
	return text
}

// planner makes a plan.
type planner struct {
	r     *rand.Rand
	nodes int
	ops   []Op
	at    time.Duration
	pods  int
	gangs int
	alive []string // pods that were created and not yet deleted
	busy  map[string]time.Duration
}

// schedulers is the number of replicas.
const schedulers = 2

// tick is the time from one operation on pods to the next.
const tick = 250 * time.Millisecond

// NewPlan makes the plan of a run: the same for equal arguments.
func NewPlan(seed uint64, nodes int, length time.Duration) []Op {
	p := &planner{r: rand.New(rand.NewPCG(seed, 0x6368616f73)), nodes: nodes, busy: map[string]time.Duration{}}
	for p.at = 0; p.at < length; p.at += tick {
		p.load()
		if p.r.IntN(5) == 0 && p.at > 5*time.Second {
			p.fault()
		}
	}
	return p.ops
}

// load creates or deletes a pod, or a burst of pods, so that the pods nearly fill the nodes.
func (p *planner) load() {
	n := 1
	if p.r.IntN(25) == 0 {
		n = 6 // a burst
	}
	full := 7 * p.nodes
	if p.r.IntN(15) == 0 && len(p.alive) < full {
		p.gang()
	}
	for range n {
		if p.r.IntN(2*full) >= len(p.alive) {
			p.create()
		} else {
			p.remove()
		}
	}
}

func (p *planner) add(o Op) {
	o.At = p.at
	p.ops = append(p.ops, o)
}

func (p *planner) create() {
	pod := &PodPlan{Name: fmt.Sprintf("p%05d", p.pods), MemoryMi: 64 << p.r.IntN(5)}
	p.pods++
	switch n := p.r.IntN(100); {
	case n < 55:
		pod.CPUs = []int64{p.size()}
	case n < 65:
		pod.CPUs = []int64{p.size(), 1 + p.r.Int64N(2)}
	case n < 80:
		pod.CPUs, pod.GPUs = []int64{1 + p.r.Int64N(3)}, 1+p.r.Int64N(2)
	default:
		pod.CPUs, pod.Shared = []int64{1}, true
	}
	switch p.r.IntN(24) {
	case 0:
		pod.Node = nodeName(p.r.IntN(p.nodes))
	case 1:
		pod.Rival = true
	}
	if p.r.IntN(4) == 0 {
		pod.Ends = time.Duration(500+p.r.IntN(8000)) * time.Millisecond
	}
	p.alive = append(p.alive, pod.Name)
	p.add(Op{Kind: Create, Target: pod.Name, Pod: pod})
}

// gang creates pods that start together, of up to three sizes, and sometimes more than the minimum.
func (p *planner) gang() {
	name := fmt.Sprintf("gang%04d", p.gangs)
	p.gangs++
	count, group := 2+p.r.IntN(4), p.r.IntN(2) == 0
	least := count - p.r.IntN(count)/2
	var members []*PodPlan
	for range count {
		pod := &PodPlan{Name: fmt.Sprintf("p%05d", p.pods), MemoryMi: 64, CPUs: []int64{1 + p.r.Int64N(3)}, Gang: name, Minimum: least, Group: group}
		p.pods++
		p.alive = append(p.alive, pod.Name)
		members = append(members, pod)
	}
	p.add(Op{Kind: CreateGang, Target: name, Gang: members})
}

func (p *planner) size() int64 { return []int64{1, 1, 2, 2, 2, 3, 4, 4, 5, 6}[p.r.IntN(10)] }

func (p *planner) remove() {
	i := p.r.IntN(len(p.alive))
	k := Delete
	if p.r.IntN(8) == 0 {
		k = ForceDelete
	}
	p.add(Op{Kind: k, Target: p.alive[i]})
	p.alive = slices.Delete(p.alive, i, i+1)
}

// choice is a fault with its weight among the others.
type choice struct {
	weight int
	op     Op
}

// fault begins one fault, unless its target has one already.
func (p *planner) fault() {
	choices, total := p.choices(), 0
	for _, c := range choices {
		total += c.weight
	}
	n := p.r.IntN(total)
	for _, c := range choices {
		if n -= c.weight; n >= 0 {
			continue
		}
		if p.busy[c.op.Target] <= p.at { // one fault at a time for each
			p.busy[c.op.Target] = p.at + c.op.For + time.Second
			p.add(c.op)
		}
		return
	}
}

// choices are the faults that may begin now, on a random node, scheduler and client.
func (p *planner) choices() []choice {
	node, s := nodeName(p.r.IntN(p.nodes)), fmt.Sprintf("scheduler-%d", p.r.IntN(schedulers))
	client := []string{s, "agent-" + node, "node-" + node, shadowName}[p.r.IntN(4)]
	ms := func(from, to int) time.Duration { return time.Duration(from+p.r.IntN(to-from)) * time.Millisecond }
	return []choice{
		{3, Op{Kind: Kill, Target: s, For: ms(100, 3000)}},
		{3, Op{Kind: Kill, Target: "agent-" + node, For: ms(100, 5000)}},
		{2, Op{Kind: Kill, Target: "node-" + node, For: ms(100, 3000)}},
		{3, Op{Kind: Pause, Target: s, For: ms(200, 10000)}}, // sometimes longer than the leader's lease
		{2, Op{Kind: Pause, Target: "agent-" + node, For: ms(200, 8000)}},
		{1, Op{Kind: Pause, Target: "node-" + node, For: ms(200, 4000)}},
		{2, Op{Kind: Kill, Target: shadowName, For: ms(100, 3000)}},
		{1, Op{Kind: Pause, Target: shadowName, For: ms(200, 8000)}},
		{1, Op{Kind: Kill, Target: leader, For: ms(100, 3000)}},
		{1, Op{Kind: Kill, Target: apiServerName, For: ms(100, 2000)}},
		{1, Op{Kind: Pause, Target: apiServerName, For: ms(200, 3000)}},
		{1, Op{Kind: Slow, Target: apiServerName, For: ms(1000, 4000)}},
		{1, Op{Kind: Kill, Target: storageName, For: ms(100, 1500)}},
		{1, Op{Kind: Pause, Target: storageName, For: ms(200, 2000)}},
		{1, Op{Kind: Slow, Target: storageName, For: ms(1000, 5000)}},
		{2, Op{Kind: Late, Target: storageName, For: ms(1000, 5000)}},
		{2, Op{Kind: Cut, Target: storageName}},
		{2, Op{Kind: Jump, Target: s, By: p.jump()}},
		{2, Op{Kind: Jump, Target: "agent-" + node, By: p.jump()}},
		{4, Op{Kind: Cut, Target: client}},
		{3, Op{Kind: Lose, Target: client, For: ms(500, 3000)}},
		{3, Op{Kind: Late, Target: client, For: ms(500, 3000)}},
		{2, Op{Kind: Orphan, Target: client, For: ms(500, 3000)}},
	}
}

// jump returns the size of a clock's jump: far ahead, or a little back.
func (p *planner) jump() time.Duration {
	if p.r.IntN(3) == 0 {
		return -time.Duration(1+p.r.IntN(10)) * time.Second
	}
	return time.Duration(1+p.r.IntN(600)) * time.Second
}

// Names of the processes of the control plane.
const (
	storageName   = "etcd"
	apiServerName = "apiserver"
)
