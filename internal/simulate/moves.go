package simulate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	count "github.com/berth-dev/berth/internal/amounts"
	"github.com/berth-dev/berth/internal/defrag"
	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/simulate/trace"
	"github.com/berth-dev/berth/internal/suppose"
)

// The limits of a strategy with Defrag, and the duration of its moves. Such a strategy does what
// `berth defrag POD --execute` would do for each waiting pod, one after another.
const (
	// mostRooms is the maximum number of pods for which the strategy makes room in each interval
	// (Strategy.Defrag).
	mostRooms = 32
	// planEffort limits the number of questions to ledgers for one plan. It is a tenth of the limit
	// of `berth defrag`, because a run makes many plans.
	planEffort = defrag.DefaultEffort / 10
	// MoveTakes is the time of one move: the grace period of the evicted pod. During a move, the
	// pod's old place and its new place are in use.
	MoveTakes = 30 * time.Second
)

// movingPlan is a plan in progress: it makes room for the pods of one entry. It closes nodes to
// other pods, and moves one pod at a time.
type movingPlan struct {
	entry entry
	class waitClass
	nodes []int // the nodes on which the plan makes room, one for each pod of the entry
	moves []plannedMove
	kept  []int32 // nodes that are closed to other pods
	// holder is the pod that holds the new place of the first move, once this move has begun.
	holder int32
}

// plannedMove is the move of one pod. If the pod's job has ended or begun another life (entry.life)
// before the move, the plan ends.
type plannedMove struct {
	job, life int32
	from, to  int32
}

// defragmenter makes room for waiting pods. It is nil if the strategy does not move pods.
type defragmenter struct {
	every int64 // seconds
	nodes []trace.Node
	plan  *movingPlan // nil if no plan is in progress
	// left is the number of pods that may still get room in this interval. `tried` are the classes
	// for which no plan was found in this interval.
	left  int
	tried map[waitClass]bool
	// known caches, by node, the results of Cluster.Suppose until the node changes.
	known []*suppose.Node
}

func newDefragmenter(every time.Duration, nodes []trace.Node) *defragmenter {
	if every == 0 {
		return nil
	}
	return &defragmenter{every: int64(every / time.Second), nodes: nodes, known: make([]*suppose.Node, len(nodes))}
}

// changed records that the free resources of a node have changed.
func (c *clock) changed(node int) {
	c.scores.changed(node)
	if c.defrag != nil {
		c.defrag.known[node] = nil
	}
}

// defragment begins to make room, unless a plan is still in progress. It also schedules its next
// call.
func (c *clock) defragment() {
	d := c.defrag
	c.plan(event{at: c.now + d.every, kind: defragBegins})
	if d.plan != nil {
		return
	}
	d.left, d.tried = mostRooms, map[waitClass]bool{}
	c.makeRoom()
}

// makeRoom begins the next plan. It looks for a plan for the entry that has waited longest, then
// for the next entry of another class.
func (c *clock) makeRoom() {
	for d := c.defrag; d.plan == nil; {
		oldest := entry{job: -1}
		for _, class := range c.queue.classes {
			if e := c.queue.byClass[class][0]; !d.tried[class] && int(class.members) <= d.left && (oldest.job < 0 || e.seq < oldest.seq) {
				oldest = e
			}
		}
		if oldest.job < 0 {
			return
		}
		class := c.class(oldest)
		if d.plan = c.planFor(oldest, class); d.plan == nil {
			d.tried[class] = true
			continue
		}
		d.left -= int(class.members)
		c.queue.pop(class)
		for _, node := range d.plan.kept {
			c.scores.keep(int(node), true)
		}
		c.move()
	}
}

// planFor returns the plan with the fewest moves that makes room for the pods of an entry. It
// returns nil if it finds no plan.
func (c *clock) planFor(e entry, class waitClass) *movingPlan {
	p := defrag.Problem{Effort: planEffort}
	for node := range c.place {
		p.Nodes = append(p.Nodes, *c.supposed(node))
	}
	var moves []plannedMove
	for id := range c.jobs {
		j := &c.jobs[id]
		if j.members != 1 || j.began < 0 || j.stays || j.left <= c.now-j.began {
			continue
		}
		node := c.members[j.first].node
		p.Pods = append(p.Pods, defrag.Pod{Pod: c.asked(j.shape, c.cluster.Name(j.first), len(p.Pods)), Node: int(node)})
		moves = append(moves, plannedMove{job: int32(id), life: j.life, from: node})
	}
	for i := range class.members {
		p.Wanted = append(p.Wanted, defrag.Pod{Pod: c.asked(class.shape, "", int(i))})
	}
	shapes := map[*defrag.Pod]*Shape{}
	for i := range p.Pods {
		shapes[&p.Pods[i]] = &c.scores.shapes[c.jobs[moves[i].job].shape]
	}
	for i := range p.Wanted {
		shapes[&p.Wanted[i]] = &c.scores.shapes[class.shape]
	}
	p.May = func(pod *defrag.Pod, node int) bool {
		return c.scores.open(node) && shapes[pod].Takes(c.defrag.nodes[node].GPUModel)
	}
	found := defrag.Find(context.Background(), &p)
	c.meter.timed.Plans.Asked += int64(found.Asked)
	if found.Outcome != defrag.Found {
		c.meter.timed.Plans.None++
		return nil
	}
	out := &movingPlan{entry: e, class: class, nodes: found.Nodes}
	for _, m := range found.Moves {
		one := moves[m.Pod]
		one.to = int32(m.To)
		out.moves, out.kept = append(out.moves, one), append(out.kept, one.to)
	}
	for _, node := range found.Nodes {
		out.kept = append(out.kept, int32(node))
	}
	slices.Sort(out.kept)
	out.kept = slices.Compact(out.kept)
	return out
}

// supposed returns the node as Cluster.Suppose does, from the cache if the node has not changed.
func (c *clock) supposed(node int) *suppose.Node {
	known := &c.defrag.known[node]
	if *known == nil {
		n := c.cluster.Suppose(node)
		*known = &n
	}
	return *known
}

// asked returns a new pod of a shape. It replaces the pod with the UID uid. If uid is "", it is an
// additional pod. i makes the UID of its request unique.
func (c *clock) asked(shape int32, uid string, i int) suppose.Pod {
	s := &c.scores.shapes[shape]
	ask := *s.ask
	ask.UID = fmt.Sprintf("%s/again/%d", cmp.Or(uid, "wanted"), i)
	created := int64(1)
	if uid == "" {
		created = 2
	}
	return suppose.Pod{UID: uid, Candidate: &ledger.Candidate{Request: &ask, Created: created},
		Asks: count.List{count.CPU: s.MilliCPU, count.Memory: s.MiB << 20, gpuResource: int64(s.GPUs)}}
}

// move begins the next move, or, after the last move, gives the waiting pods their room. A holder
// gets the pod's new place before the pod leaves its old one. If the new place is no longer free,
// the plan ends.
func (c *clock) move() {
	d := c.defrag
	if len(d.plan.moves) == 0 {
		c.arriveInRoom()
		return
	}
	m := &d.plan.moves[0]
	j := &c.jobs[m.job]
	if j.life != m.life || j.began < 0 {
		c.endPlan(false)
		return
	}
	holder, s := int32(len(c.members)), &c.scores.shapes[j.shape]
	o := c.cluster.Put(int(m.to), holder, s, -1)
	if o.Refused {
		c.endPlan(false)
		return
	}
	c.changed(int(m.to))
	c.members = append(c.members, member{node: -1, outcome: o})
	d.plan.holder = holder
	c.meter.ended(c, j)
	j.left, j.began = j.left-(c.now-j.began), -1
	j.life++
	m.life = j.life
	c.plan(event{at: c.now + int64(MoveTakes/time.Second), kind: moveEnds})
}

// moved ends a move: the pod has left its old place and continues in the new one.
func (c *clock) moved() {
	d := c.defrag
	m := d.plan.moves[0]
	j, holder := &c.jobs[m.job], d.plan.holder
	c.take(j, j.first)
	c.frees(m.from)
	j.first, j.placed, c.members[holder].node = holder, 1, m.to
	c.meter.hold(&c.scores.shapes[j.shape], c.members[holder].outcome, 1)
	c.meter.timed.Plans.Moves++
	c.goOn(m.job)
	d.plan.moves = d.plan.moves[1:]
	c.move()
}

// goOn lets a job run from now on, and schedules its end after the rest of its running time.
func (c *clock) goOn(id int32) {
	j := &c.jobs[id]
	j.began = c.now
	c.plan(event{at: c.now + j.left, kind: jobEnds, entry: entry{job: id, life: j.life}})
}

// arriveInRoom puts the waiting pods on the nodes where the plan made room: all of them or none.
func (c *clock) arriveInRoom() {
	p := c.defrag.plan
	j := &c.jobs[p.entry.job]
	first := p.entry.pod
	if first < 0 {
		first = j.first
	}
	for i, node := range p.nodes {
		if !c.cluster.Look(node, &c.scores.shapes[j.shape], &c.scores.look) {
			for pod := first; pod < first+int32(i); pod++ {
				c.take(j, pod)
			}
			c.endPlan(false)
			return
		}
		c.put(p.entry.job, first+int32(i), node)
	}
	c.endPlan(true)
}

// endPlan opens the nodes that the plan has closed to other pods. The argument `made` means that
// the waiting pods got their room. If they did not, moved pods stay where they are, and the waiting
// pods wait again.
func (c *clock) endPlan(made bool) {
	d := c.defrag
	p := d.plan
	d.plan = nil
	for _, node := range p.kept {
		c.scores.keep(int(node), false)
		c.frees(node)
	}
	if made {
		c.meter.timed.Plans.Pods += int64(p.class.members)
		c.makeRoom()
		return
	}
	c.meter.timed.Plans.Ended++
	c.created(p.entry)
}

// Plans counts what a strategy with Defrag did in one run.
type Plans struct {
	// Moves is the number of moved pods, and Pods the number of pods that got room.
	Moves int64 `json:"moves"`
	Pods  int64 `json:"madeRoomFor"`
	// None is the number of times that no plan was found. Ended is the number of plans that could
	// not finish.
	None  int64 `json:"noPlan"`
	Ended int64 `json:"endedEarly"`
	// Asked is the number of questions to ledgers in the search for plans.
	Asked int64 `json:"questions"`
}
