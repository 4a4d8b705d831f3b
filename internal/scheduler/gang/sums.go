package gang

import (
	"container/heap"

	corev1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	"github.com/berth-dev/berth/internal/amounts"
	"github.com/berth-dev/berth/internal/gangs"
	"github.com/berth-dev/berth/internal/wire"
)

// sums has totals over the members of a group. Each change of a member updates them, because
// counting a large group again would take too long.
type sums struct {
	// waiting counts the pending members. done counts the members that got a node, have not failed
	// and are not being deleted (gangs.Done).
	waiting, done gangs.Count
	// shown is the sum of the amounts (member.takes) of the members in done whose Bindings the
	// watch has shown. posted is the same sum for the members in done whose Bindings were written
	// but not shown yet. behindGates is the sum for the active members that have scheduling gates.
	shown, posted, behindGates amounts.List
	// ended counts members that have succeeded or failed. parted counts members that the
	// scheduler's watch no longer shows, because they have ended or are gone.
	ended, parted int
	// runs has the runs to which the members belong (gangs.Run). pruned is the value of runs.Live
	// when endings.prune last looked for members of former runs.
	runs   gangs.Runs
	pruned int
	// wrongs counts active members whose declaration cannot be parsed. asking counts active members
	// with wishes about the NUMA nodes of other members.
	wrongs, asking int
	// schedulers, priorities and declared count the active members by value. declared omits members
	// whose pods declare nothing.
	schedulers map[string]int
	priorities map[int32]int
	declared   map[wire.Declaration]int
	// line has the members that need a node, the oldest first. line may also have members that no
	// longer need a node.
	line line
}

// line is a heap of members, ordered by gangs.Compare.
type line []*member

// Len implements heap.Interface.
func (l line) Len() int { return len(l) }

// Less implements heap.Interface.
func (l line) Less(i, j int) bool { return gangs.Compare(l[i].pod, l[j].pod) < 0 }

// Swap implements heap.Interface.
func (l line) Swap(i, j int) {
	l[i], l[j] = l[j], l[i]
	l[i].at, l[j].at = i+1, j+1
}

// Push implements heap.Interface.
func (l *line) Push(m any) {
	*l = append(*l, m.(*member))
	m.(*member).at = len(*l)
}

// Pop implements heap.Interface.
func (l *line) Pop() any {
	last := len(*l) - 1
	m := (*l)[last]
	(*l)[last] = nil
	*l = (*l)[:last]
	m.at = 0
	return m
}

// leader returns the oldest member that needs a node, or nil. The leader's cycle plans all members.
func (g *group) leader() *member {
	for len(g.line) > 0 {
		if first := g.line[0]; first.summed.waits {
			return first
		}
		heap.Pop(&g.line)
	}
	return nil
}

func addTo[K comparable](m *map[K]int, key K, n int) {
	if *m == nil {
		*m = map[K]int{}
	}
	if (*m)[key] += n; (*m)[key] == 0 {
		delete(*m, key)
	}
}

// part has the facts about a member that the sums count. The zero value adds nothing.
type part struct {
	waits, done, parted, gated bool
	shown                      bool // the watch has shown the pod with its node
	life                       life
	task                       string
	run                        gangs.RunPart
	said                       said // what an active member declares
}

// life is the stage of a member's pod. The zero value means that there is no member.
type life uint8

const (
	lifeActive life = iota + 1
	lifeLeaving
	lifeEnded
)

func lifeOf(pod *corev1.Pod) life {
	switch {
	case wire.Ended(pod):
		return lifeEnded
	case gangs.Active(pod):
		return lifeActive
	default:
		return lifeLeaving
	}
}

// said has the declarations in a member's pod that the sums count.
type said struct {
	wrong, asks bool
	scheduler   string
	priority    int32
	declares    wire.Declaration
}

func (m *member) part() part {
	return part{waits: m.pending(), done: gangs.Done(m.pod, m.placed()), parted: m.parted, gated: m.active() && len(m.pod.Spec.SchedulingGates) > 0, shown: m.pod.Spec.NodeName != "", life: lifeOf(m.pod), task: m.says.Task, run: gangs.RunPartOf(m.pod), said: said{
		wrong: m.wrong != nil, asks: wire.AsksMates(m.pod), scheduler: m.pod.Spec.SchedulerName,
		priority: corev1helpers.PodPriority(m.pod), declares: m.says.Declaration,
	}}
}

func (g *group) sum(m *member) {
	now := m.part()
	if now == m.summed {
		return
	}
	g.add(&m.summed, -1)
	g.add(&now, 1)
	g.weigh(m, &now)
	m.summed = now
	if now.waits && m.at == 0 {
		heap.Push(&g.line, m)
	}
}

func (g *group) drop(m *member) {
	g.add(&m.summed, -1)
	g.weigh(m, &part{})
	m.summed = part{}
	if m.at > 0 {
		heap.Remove(&g.line, m.at-1)
	}
}

// amounts returns the sum that counts the member's amounts, or nil.
func (s *sums) amounts(p *part) *amounts.List {
	switch {
	case p.gated:
		return &s.behindGates
	case !p.done:
		return nil
	case p.shown:
		return &s.shown
	}
	return &s.posted
}

// weigh updates the sums of amounts for a member that changes from m.summed to now.
func (g *group) weigh(m *member, now *part) {
	was := &m.summed
	if g.amounts(was) == g.amounts(now) {
		return
	}
	for _, p := range []*part{was, now} {
		sum := g.amounts(p)
		if sum == nil {
			continue
		}
		if *sum == nil {
			*sum = amounts.List{}
		}
		for name, amount := range m.takes() {
			if p == was {
				amount = -amount
			}
			(*sum)[name] += amount
		}
	}
}

func (g *group) add(p *part, n int) {
	if p.waits {
		g.waiting.Add(p.task, n)
	}
	if p.done {
		g.done.Add(p.task, n)
	}
	if p.life != 0 {
		g.runs.Add(p.run, n)
	}
	if p.life == lifeEnded {
		g.ended += n
	}
	if p.parted {
		g.parted += n
	}
	if p.life == lifeActive {
		g.hear(&p.said, n)
	}
}

func (s *sums) hear(m *said, n int) {
	if m.wrong {
		s.wrongs += n
	}
	if m.asks {
		s.asking += n
	}
	addTo(&s.schedulers, m.scheduler, n)
	addTo(&s.priorities, m.priority, n)
	if m.wrong || m.declares != (wire.Declaration{}) { // otherwise the pod's Binding or an object declares the gang
		addTo(&s.declared, m.declares, n)
	}
}

// agree reports whether the declarations of all active members can be parsed, and all these pods
// name the same scheduler.
func (g *group) agree() bool {
	return g.wrongs == 0 && len(g.schedulers) <= 1
}

// read sets the specification of a group without an object, from its members' declarations.
func (g *group) read() {
	if g.key.Source.HasObject() {
		return
	}
	g.fresh = g.changes
	if len(g.declared) == 0 {
		return // the last known specification stays valid
	}
	if spec, ok := wire.GangOfDeclarations(g.key, g.declared); ok && g.wrongs == 0 {
		g.spec, g.wrong = spec, nil
		return
	}
	g.spec, g.wrong = wire.GangOfMembers(g.key, g.activePods())
}
