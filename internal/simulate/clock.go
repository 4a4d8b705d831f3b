package simulate

import (
	"cmp"
	"container/heap"
	"context"
	"math"
	"slices"

	"github.com/berth-dev/berth/internal/simulate/trace"
)

// After a kubelet has refused a pod, a controller creates the pod again. The delay in seconds
// begins with firstBackOff and doubles up to lastBackOff, as in the Job controller.
const (
	firstBackOff = 10
	lastBackOff  = 360
)

// clock is the state of one run in which pods arrive and end. Time is in whole seconds. In each
// second, the events of that second happen before pods arrive.
type clock struct {
	*player
	load *trace.TimedDraw
	pods []trace.Pod
	of   []int32
	all  Capacity

	now, seq int64
	next     int // index of the next arrival
	events   events
	queue    queue
	jobs     []job
	members  []member // by pod
	place    []int32  // by node: its position in the order of the draw (trace.TimedDraw.Order)
	freed    freed
	meter    meter
	defrag   *defragmenter // nil if no pod is moved
}

// freed has the nodes on which waiting pods must be tried again. Most of these nodes have released
// resources.
type freed struct {
	nodes []int32
	is    []bool // by node: nodes contains it
}

// job is a pod, or the members of a gang, which arrive together. A pod that runs at the start is
// also a job.
type job struct {
	shape, members int32
	first          int32 // its first pod
	at             int64 // the second of its arrival; -1 if it runs at the start
	left           int64 // the seconds that it has to run from the second `began` on
	began          int64 // the second from which all members run; negative if some do not run
	placed         int32 // the number of members that have a node
	life           int32 // the number of its moves
	started        bool  // all members have run at the same time
	stays          bool  // it must not be moved
}

type member struct {
	node    int32 // -1 if it has none
	tries   int32 // how often a kubelet has refused it
	outcome Outcome
}

func newClock(p *player, d *trace.TimedDraw, e *Experiment, of []int32) *clock {
	c := &clock{player: p, load: d, pods: e.Pods, of: of, all: capacityOf(e.Nodes, e.Pods),
		place: make([]int32, len(e.Nodes)), freed: freed{is: make([]bool, len(e.Nodes))},
		defrag: newDefragmenter(p.strategy.Defrag, e.Nodes)}
	for i, node := range d.Order {
		c.place[node] = int32(i)
	}
	c.meter = meter{all: c.all, timed: Timed{From: d.From, To: d.To}}
	if c.defrag != nil {
		c.meter.timed.Plans = &Plans{}
		c.plan(event{at: c.defrag.every, kind: defragBegins})
	}
	return c
}

// stand adds the pods of the Start, which already run. It must be called before run.
func (c *clock) stand(s *Start, of []int32) {
	for i, shape := range of {
		p := &s.pods[i]
		j := job{shape: shape, members: 1, first: int32(i), at: -1, left: math.MaxInt32, placed: 1, started: true, stays: p.Stays}
		if p.Left > 0 {
			j.left = p.Left
		}
		c.jobs, c.members = append(c.jobs, j), append(c.members, member{node: p.node, outcome: p.outcome})
		c.meter.stands(&c.scores.shapes[shape], p.outcome)
		c.plan(event{at: j.left, kind: jobEnds, entry: entry{job: int32(i)}})
	}
}

// run advances the clock to the end of the run. The callback `part` receives the completed fraction
// of the run. If ctx ends, the run ends early.
func (c *clock) run(ctx context.Context, part func(float64)) {
	for ctx.Err() == nil {
		at, arrives := c.upcoming()
		if len(c.freed.nodes) > 0 && (at > c.now || arrives || c.events[0].kind >= defragBegins) {
			c.wake()
			continue // a pod that wake has just placed may end before anything else happens
		}
		if at >= c.load.To {
			break
		}
		if c.now = at; c.meter.pass(at) {
			part(float64(at) / float64(c.load.To))
		}
		if arrives {
			c.arrive()
		} else {
			c.happens(heap.Pop(&c.events).(event))
		}
	}
	c.now = c.load.To
	c.meter.pass(c.now)
	for i := range c.jobs {
		c.meter.left(c, &c.jobs[i])
	}
}

// upcoming returns the second of the next event or arrival, and whether it is an arrival.
func (c *clock) upcoming() (at int64, arrives bool) {
	at = math.MaxInt64
	if c.next < len(c.load.Arrivals) {
		at = c.load.Arrivals[c.next].At
	}
	if len(c.events) > 0 && c.events[0].at <= at {
		return c.events[0].at, false
	}
	return at, at < math.MaxInt64
}

func (c *clock) happens(e event) {
	switch e.kind {
	case jobEnds:
		if j := &c.jobs[e.job]; j.life == e.life {
			c.stop(j)
		}
	case moveEnds:
		c.moved()
	case defragBegins:
		c.defragment()
	case podCreated:
		c.created(e.entry)
	}
}

func (c *clock) plan(e event) {
	c.seq++
	e.seq = c.seq
	heap.Push(&c.events, e)
}

// create schedules an event after the given number of seconds: a controller creates the pods of an
// entry again.
func (c *clock) create(e entry, after int64) {
	c.plan(event{at: c.now + after, kind: podCreated, entry: e})
}

func (c *clock) arrive() {
	a := &c.load.Arrivals[c.next]
	c.next++
	p := &c.pods[a.Pod]
	j := job{shape: c.of[a.Pod], members: int32(p.Count()), first: int32(len(c.members)), at: c.now, left: a.Life, began: -1}
	for range j.members {
		c.members = append(c.members, member{node: -1})
		c.learn(j.shape)
	}
	c.jobs = append(c.jobs, j)
	c.meter.arrived(&j, &c.scores.shapes[j.shape])
	c.created(c.whole(int32(len(c.jobs) - 1)))
}

// whole returns the entry with all pods of a job.
func (c *clock) whole(id int32) entry {
	if j := &c.jobs[id]; j.members > 1 {
		return entry{job: id, pod: -1, life: j.life}
	}
	return entry{job: id, pod: c.jobs[id].first, life: c.jobs[id].life}
}

// created tries to place pods that were just created. The pods wait if pods of the same class
// already wait, or if no node admits them.
func (c *clock) created(e entry) {
	c.seq++
	e.seq = c.seq
	class := c.class(e)
	if c.queue.has(class) || !c.try(e, c.draw.Order) {
		c.queue.add(class, e)
	}
}

func (c *clock) class(e entry) waitClass {
	j := &c.jobs[e.job]
	if e.pod >= 0 {
		return waitClass{j.shape, 1}
	}
	return waitClass{j.shape, j.members}
}

// try chooses nodes for the pods of an entry: one of the given nodes for a single pod, any nodes
// for a gang. It returns false if no node admits them. It returns true even if the kubelet of the
// chosen node refuses the pod, because a controller then creates the pod again.
func (c *clock) try(e entry, nodes []int32) bool {
	j := &c.jobs[e.job]
	if e.pod >= 0 {
		node := c.choose(nodes, j.shape)
		if node >= 0 {
			c.put(e.job, e.pod, node)
			c.retry(node)
		}
		return node >= 0
	}
	if c.strategy.Blind {
		return c.tryBlind(e.job)
	}
	return c.tryGang(e.job)
}

// If the strategy keeps CPUs for pods with GPUs (Strategy.Keep), retry records that waiting pods
// must be tried again on the node, which has just received a pod. With this rule, a node may admit
// a pod only after another pod has come: the other pod fills a NUMA node, and the next pod gets
// another NUMA node where no CPUs are kept. See Model.Monotone.
func (c *clock) retry(node int) {
	if c.strategy.Keep != nil {
		c.frees(int32(node))
	}
}

// tryBlind chooses nodes for all members of a gang by amounts only, before any kubelet receives a
// member.
func (c *clock) tryBlind(id int32) bool {
	j := &c.jobs[id]
	s, nodes := &c.scores.shapes[j.shape], make([]int, 0, j.members)
	for len(nodes) < int(j.members) {
		node := c.choose(c.draw.Order, j.shape)
		if node < 0 {
			break
		}
		c.cluster.Assume(node, j.first+int32(len(nodes)), s, c.gpu(node, s))
		c.changed(node)
		nodes = append(nodes, node)
	}
	for i, node := range nodes {
		c.cluster.Forget(node, j.first+int32(i), s)
		c.changed(node)
	}
	if len(nodes) < int(j.members) {
		return false
	}
	for i, node := range nodes {
		c.put(id, j.first+int32(i), node)
	}
	return true
}

// put binds a pod to a node. If the node's kubelet refuses the pod, put schedules the event in
// which a controller creates it again.
func (c *clock) put(id, pod int32, node int) {
	j, m := &c.jobs[id], &c.members[pod]
	s := &c.scores.shapes[j.shape]
	m.outcome = c.cluster.Put(node, pod, s, c.gpu(node, s))
	if m.outcome.Refused {
		c.meter.refused(j)
		back := min(lastBackOff, firstBackOff<<min(m.tries, 10))
		m.tries++
		c.create(entry{job: id, pod: pod, life: j.life}, int64(back))
		return
	}
	c.changed(node)
	m.node = int32(node)
	c.meter.hold(s, m.outcome, 1)
	if j.placed++; j.placed < j.members {
		return
	}
	j.began = c.now
	c.meter.began(c, j)
	c.goOn(id)
}

// take removes a pod from its node. It does nothing if the pod has no node.
func (c *clock) take(j *job, pod int32) {
	m, s := &c.members[pod], &c.scores.shapes[j.shape]
	if m.node < 0 {
		return
	}
	c.cluster.Take(int(m.node), pod, s)
	c.changed(int(m.node))
	c.meter.hold(s, m.outcome, -1)
	m.node = -1
	j.placed--
}

func (c *clock) stop(j *job) {
	c.meter.ended(c, j)
	j.left, j.began = 0, -1
	for pod := j.first; pod < j.first+j.members; pod++ {
		node := c.members[pod].node
		c.take(j, pod)
		c.frees(node)
	}
	c.meter.waiting -= int64(j.members) // take has counted them as waiting
}

// frees records that waiting pods must be tried again on a node, mostly because the node has
// released resources.
func (c *clock) frees(node int32) {
	if !c.freed.is[node] {
		c.freed.is[node] = true
		c.freed.nodes = append(c.freed.nodes, node)
	}
}

// wake tries to place waiting entries on the freed nodes, the oldest entry first.
func (c *clock) wake() {
	freed := c.freed.nodes
	c.freed.nodes = nil
	for _, node := range freed {
		c.freed.is[node] = false
	}
	slices.SortFunc(freed, func(a, b int32) int { return int(c.place[a] - c.place[b]) })
	var turn []waitClass
	for _, class := range c.queue.classes {
		if slices.ContainsFunc(freed, func(node int32) bool { return c.scores.score(int(node), class.shape) > refusing }) {
			turn = append(turn, class)
		}
	}
	oldest := func(class waitClass) entry { return c.queue.byClass[class][0] }
	for len(turn) > 0 {
		class := slices.MinFunc(turn, func(a, b waitClass) int { return cmp.Compare(oldest(a).seq, oldest(b).seq) })
		taken := c.try(oldest(class), freed)
		if taken {
			c.queue.pop(class)
		}
		if !taken || !c.queue.has(class) {
			turn = slices.DeleteFunc(turn, func(other waitClass) bool { return other == class })
		}
	}
}
