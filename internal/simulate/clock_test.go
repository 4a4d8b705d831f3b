package simulate

import (
	"cmp"
	"context"
	"fmt"
	"math/rand"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/berth-dev/berth/internal/simulate/trace"
)

// audited is a cluster that itself adds up what pods use, and when.
type audited struct {
	Cluster
	t     *testing.T
	nodes []trace.Node
	now   func() int64
	on    map[int32]auditedPod
	held  []trace.Node // by node
	// log lists the pods that were put on nodes, with the times.
	log []string
	// gpu and cpu are the resources that pods used, in thousandths times seconds.
	gpu, cpu       int64
	gpuNow, cpuNow int64
	since          int64
	leaves         func(pod int32) // called before a pod is taken
	from           int64
}

type auditedPod struct {
	node  int
	shape *Shape
}

func audit(t *testing.T, c Cluster, nodes []trace.Node) *audited {
	return &audited{Cluster: c, t: t, nodes: nodes, on: map[int32]auditedPod{}, held: make([]trace.Node, len(nodes))}
}

// pass adds the resources that were used up to now.
func (a *audited) pass() {
	now := a.now()
	seconds := max(0, now-max(a.since, a.from))
	a.gpu, a.cpu, a.since = a.gpu+seconds*a.gpuNow, a.cpu+seconds*a.cpuNow, now
}

func (a *audited) Put(node int, pod int32, s *Shape, gpu int) Outcome {
	a.pass()
	o := a.Cluster.Put(node, pod, s, gpu)
	if o.Refused {
		a.log = append(a.log, fmt.Sprint(a.now(), " refused ", pod, " ", node))
		return o
	}
	a.log = append(a.log, fmt.Sprint(a.now(), " put ", pod, " ", node))
	if _, twice := a.on[pod]; twice {
		a.t.Fatalf("pod %d was put twice", pod)
	}
	a.on[pod] = auditedPod{node, s}
	a.hold(node, s, 1)
	return o
}

func (a *audited) Take(node int, pod int32, s *Shape) {
	a.pass()
	if a.leaves != nil {
		a.leaves(pod)
	}
	if was := a.on[pod]; was != (auditedPod{node, s}) {
		a.t.Fatalf("pod %d is taken from node %d: it is on %+v", pod, node, was)
	}
	// If a gang was not placed as a whole, its members do not count as put.
	if at := slices.Index(a.log, fmt.Sprint(a.now(), " put ", pod, " ", node)); at >= 0 {
		a.log = slices.Delete(a.log, at, at+1)
	}
	delete(a.on, pod)
	a.hold(node, s, -1)
	a.Cluster.Take(node, pod, s)
}

func (a *audited) hold(node int, s *Shape, n int64) {
	h, all := &a.held[node], &a.nodes[node]
	h.MilliCPU, h.MiB, h.GPUs = h.MilliCPU+n*s.MilliCPU, h.MiB+n*s.MiB, h.GPUs+int(n*s.AskedGPU())
	a.gpuNow, a.cpuNow = a.gpuNow+n*s.AskedGPU(), a.cpuNow+n*s.MilliCPU
	if h.MilliCPU > all.MilliCPU || h.MiB > all.MiB || h.GPUs > 1000*all.GPUs {
		a.t.Fatalf("node %d of %+v: %+v is held", node, all, h)
	}
}

// timedCase is a small run.
type timedCase struct {
	nodes    []trace.Node
	pods     []trace.Pod
	shapes   []Shape
	of       []int32
	load     []Typical
	strategy Strategy
	ground   func(blind bool) Cluster
	seed     int64
}

// comeAndGo returns times at which random pods of the list arrive and leave. If all are placed,
// they use the share load of the nodes on average. The first quarter of the span does not count.
func comeAndGo(nodes []trace.Node, pods []trace.Pod, load float64, span time.Duration) *trace.Times {
	return &trace.Times{For: span, Draw: func(d *trace.TimedDraw) error {
		d.From = d.To / 4
		all, asked := capacityOf(nodes, pods), 0.0
		for i := range pods {
			p := &pods[i]
			one := all.one(&Shape{MilliCPU: p.MilliCPU, GPUs: p.GPUs, MilliGPU: p.MilliGPU})
			asked += float64(min(p.Life(), d.From)) * float64(p.Count()) * float64(one) / float64(len(pods))
		}
		between := asked / load / float64(all.GPU+all.CPU)
		for at := 0.0; ; {
			if at += d.Rand.ExpFloat64() * between; int64(at) >= d.To {
				return nil
			}
			i := d.Rand.Intn(len(pods))
			d.Arrivals = append(d.Arrivals, trace.Arrival{Pod: int32(i), At: int64(at), Life: min(pods[i].Life(), d.From)})
		}
	}}
}

func (k *timedCase) draw(t *testing.T) *trace.TimedDraw {
	d, err := trace.NewTimedDraw(k.nodes, k.pods, *comeAndGo(k.nodes, k.pods, 1.1, 40*time.Minute), k.seed)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// prepare returns a clock on an audited cluster.
func (k *timedCase) prepare(t *testing.T) (*clock, *audited) {
	d, a := k.draw(t), audit(t, k.ground(k.strategy.Blind), k.nodes)
	e := &Experiment{Nodes: k.nodes, Pods: k.pods}
	p := newPlayer(a, k.shapes, &k.strategy, k.load, &trace.Draw{Order: d.Order, Rand: d.Rand})
	c := newClock(p, d, e, k.of)
	a.now, a.from = func() int64 { return c.now }, d.From
	return c, a
}

// play runs the clock on an audited cluster.
func (k *timedCase) play(t *testing.T) (*clock, *audited) {
	c, a := k.prepare(t)
	c.run(t.Context(), func(float64) {})
	a.pass()
	return c, a
}

// timedCases calls try with small runs of all strategies, without and with NUMA nodes.
func timedCases(t *testing.T, gangs func(*Strategy) bool, try func(name string, k *timedCase)) {
	rng := rand.New(rand.NewSource(6))
	for round, overlay := range append([]string{"", ""}, overlayNames()...) {
		nodes, pods := randomLists(rng)
		ground := func(bool) Cluster { return NewAmounts(nodes) }
		if overlay != "" {
			var numa func([]trace.Node, bool) Cluster
			nodes, pods, numa = someNUMA(t, rng, overlay)
			ground = func(blind bool) Cluster { return numa(nodes, blind) }
		}
		for i := range pods {
			pods[i].Timed, pods[i].Deleted = true, 30+int64(rng.Intn(600))
		}
		for _, s := range strategies() {
			if s.NUMA && overlay == "" {
				continue
			}
			k := &timedCase{nodes: nodes, pods: slices.Clone(pods), strategy: s, ground: ground, seed: int64(round)}
			for i := range pods {
				if gangs(&s) && i%5 == 0 {
					k.pods[i].Members = 2 + i%3
				}
			}
			k.shapes, k.of = shapes(pods)
			k.load = typical(k.shapes, make([]int, len(k.shapes)))
			for i := range k.load {
				k.load[i].Part = 1 / float64(len(k.load))
			}
			try(overlay+" "+s.Name, k)
		}
	}
}

// TestHours: no two pods have the same resources, the resources of a pod are free when it is gone,
// and the served hours are the sum for all pods.
func TestHours(t *testing.T) {
	gangs, refused, waited := int64(0), int64(0), int64(0)
	timedCases(t, func(*Strategy) bool { return true }, func(name string, k *timedCase) {
		c, a := k.play(t)
		m := &c.meter
		gangs, refused, waited = gangs+m.timed.Whole, refused+m.figures.Refusals, waited+m.timed.Left
		if m.inUse != c.meter.all.one(&Shape{MilliCPU: a.cpuNow, MilliGPU: a.gpuNow, GPUs: 1}) {
			t.Errorf("%s: %d in use, %d and %d are held", name, m.inUse, a.gpuNow, a.cpuNow)
		}
		if g, cpu := m.gpus, m.cpus; k.strategy.Blind && (g.Served > a.gpu || cpu.Served > a.cpu) || !k.strategy.Blind && (g.Served != a.gpu || cpu.Served != a.cpu) {
			t.Errorf("%s: %+v GPU seconds and %+v CPU seconds served, pods held %d and %d", name, g, cpu, a.gpu, a.cpu)
		}
		for _, s := range []Served{m.timed.GPUs, m.timed.CPUs, m.figures.Pods} {
			if s.Served > s.Asked || s.Aligned > s.Served {
				t.Errorf("%s: %+v", name, s)
			}
		}
		if int64(len(m.waits)) != m.figures.Pods.Asked || len(m.timed.Course) != moments+1 {
			t.Errorf("%s: %d pods waited, %d asked; %d moments", name, len(m.waits), m.figures.Pods.Asked, len(m.timed.Course))
		}
		for pod, on := range a.on {
			a.Take(on.node, pod, on.shape)
		}
		empty := k.ground(k.strategy.Blind)
		for node := range k.nodes {
			if got, want := a.AppendKey(nil, node), empty.AppendKey(nil, node); string(got) != string(want) {
				t.Errorf("%s: node %d is not empty when all pods have gone", name, node)
			}
		}
	})
	if gangs == 0 || refused == 0 || waited == 0 {
		t.Errorf("%d gangs, %d refusals, %d left waiting: the test has not seen all", gangs, refused, waited)
	}
}

// slowJob is a job of slowClock.
type slowJob struct {
	ends    int64
	first   int32
	members int
	shape   int32
	life    int64
	nodes   map[int32]int // by pod
}

// slowPod is a pod that waits for a node; pod -1 means a whole gang.
type slowPod struct {
	job *slowJob
	pod int32
	at  int64
}

// slowClock is the slow twin of clock: it advances second by second. Whenever resources become
// free, it tries all waiting pods on all nodes.
func slowClock(k *timedCase, c *audited, d *trace.TimedDraw) {
	by, now := k.strategy.New(k.load), int64(0)
	c.now = func() int64 { return now }
	var running []*slowJob
	var waiting, created []slowPod
	pods, tries := int32(0), map[int32]int{}
	best := func(s *Shape) int {
		var l Look
		best, score, equal := -1, int64(0), 0
		for _, node := range d.Order {
			if !c.Look(int(node), s, &l) {
				continue
			}
			switch v := by.Score(&l); {
			case best < 0 || v > score:
				best, score, equal = int(node), v, 1
			case v == score && k.strategy.Ties == ByChance:
				if equal++; d.Rand.Intn(equal) == 0 {
					best = int(node)
				}
			}
		}
		return best
	}
	ranked := func(s *Shape) (nodes []int) {
		scores := map[int]int64{}
		for _, node := range d.Order {
			var l Look
			if c.Look(int(node), s, &l) {
				nodes, scores[int(node)] = append(nodes, int(node)), by.Score(&l)
			}
		}
		slices.SortStableFunc(nodes, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
		return nodes
	}
	share := func(node int, s *Shape) int {
		var l Look
		if s.GPUs == 1 && s.MilliGPU < 1000 && c.Look(node, s, &l) {
			return by.GPU(&l, d.Rand)
		}
		return -1
	}
	put := func(j *slowJob, pod int32, node int) {
		s := &k.shapes[j.shape]
		if o := c.Put(node, pod, s, share(node, s)); o.Refused {
			back := min(firstBackOff*(1<<min(tries[pod], 20)), lastBackOff)
			tries[pod]++
			created = append(created, slowPod{job: j, pod: pod, at: now + int64(back)})
			return
		}
		if j.nodes[pod] = node; len(j.nodes) == j.members {
			j.ends = now + j.life
			running = append(running, j)
		}
	}
	try := func(p slowPod) bool {
		j, s := p.job, &k.shapes[p.job.shape]
		if p.pod >= 0 {
			node := best(s)
			if node >= 0 {
				put(j, p.pod, node)
			}
			return node >= 0
		}
		var nodes []int
		if k.strategy.Plans { // as many as fit on the best node, then on the next one
			for _, node := range ranked(s) {
				for len(nodes) < j.members && c.Look(node, s, new(Look)) {
					put(j, j.first+int32(len(nodes)), node)
					nodes = append(nodes, node)
				}
			}
		}
		for i := 0; !k.strategy.Plans && i < j.members; i++ {
			node := best(s)
			if node < 0 {
				break
			}
			if k.strategy.Blind {
				c.Assume(node, j.first+int32(i), s, share(node, s))
			} else {
				put(j, j.first+int32(i), node)
			}
			nodes = append(nodes, node)
		}
		for i, node := range nodes {
			switch pod := j.first + int32(i); {
			case k.strategy.Blind:
				c.Forget(node, pod, s)
			case len(nodes) < j.members:
				c.Take(node, pod, s)
				delete(j.nodes, pod)
			}
		}
		for i, node := range nodes {
			if k.strategy.Blind && len(nodes) == j.members {
				put(j, j.first+int32(i), node)
			}
		}
		return len(nodes) == j.members
	}
	for next := 0; now < d.To; now++ {
		freed := false
		running = slices.DeleteFunc(running, func(j *slowJob) bool {
			if j.ends == now {
				for pod, node := range j.nodes {
					c.Take(node, pod, &k.shapes[j.shape])
				}
				freed = true
			}
			return j.ends == now
		})
		if freed {
			waiting = slices.DeleteFunc(waiting, try)
		}
		due := slices.Clone(created)
		created = slices.DeleteFunc(created, func(p slowPod) bool { return p.at == now })
		for _, p := range due {
			if p.at == now && !try(p) {
				waiting = append(waiting, p)
			}
		}
		for ; next < len(d.Arrivals) && d.Arrivals[next].At == now; next++ {
			a := d.Arrivals[next]
			j := &slowJob{first: pods, members: k.pods[a.Pod].Count(), shape: k.of[a.Pod], life: a.Life, nodes: map[int32]int{}}
			pods += int32(j.members)
			c.Learn()
			if l, ok := by.(Learner); ok {
				for range j.members {
					l.Learn(&k.shapes[j.shape])
				}
			}
			p := slowPod{job: j, pod: -1}
			if j.members == 1 {
				p.pod = j.first
			}
			if !try(p) {
				waiting = append(waiting, p)
			}
		}
	}
}

// TestWaking: the pods that are tried again, and their nodes, are the same as when all pods are
// tried on all nodes. Gangs that do not fit use random numbers unless they are planned, so that
// they are compared only in strategies that use no others.
func TestWaking(t *testing.T) {
	seen := 0
	timedCases(t, func(s *Strategy) bool { return s.Plans || s.Ties == FirstOfOrder }, func(name string, k *timedCase) {
		if comparesAgain(&k.strategy) || k.strategy.Keep != nil { // see TestKeepForgetsNobody
			return
		}
		_, got := k.play(t)
		want := audit(t, k.ground(k.strategy.Blind), k.nodes)
		slowClock(k, want, k.draw(t))
		if a, b := got.log, want.log; !slices.Equal(a, b) {
			i := 0
			for i < min(len(a), len(b)) && a[i] == b[i] {
				i++
			}
			t.Errorf("%s: %d and %d entries; from the %dth on %v, trying all %v", name, len(a), len(b), i, a[i:min(i+5, len(a))], b[i:min(i+5, len(b))])
		}
		seen += len(got.log)
	})
	if seen < 10000 {
		t.Errorf("pods were put, or refused, %d times: the test has seen little", seen)
	}
}

// TestTimedSame: a run in which pods come and go has the same result each time, and reports its
// progress.
func TestTimedSame(t *testing.T) {
	nodes, pods := randomLists(rand.New(rand.NewSource(8)))
	untimed := slices.Clone(pods)
	for i := range pods {
		pods[i].Timed, pods[i].Deleted = true, 3600
	}
	e := Experiment{Nodes: nodes, Pods: pods, Strategies: onAmounts(), Seeds: []int64{1, 2}, Times: comeAndGo(nodes, pods, 0.9, 4*time.Hour)}
	parts := 0
	e.Progress = func(done float64, all int) {
		if parts++; done <= 0 || done > float64(all) {
			t.Errorf("%v of %d runs", done, all)
		}
	}
	first, err := e.Run(t.Context())
	if err != nil || parts < 10*len(first) {
		t.Fatalf("%v, progress told %d times", err, parts)
	}
	again, err := e.Run(t.Context())
	if err != nil || !reflect.DeepEqual(first, again) {
		t.Errorf("%v: a second run has another result", err)
	}
	if a, b := first[0].Timed, first[2].Timed; a.GPUs.Asked != b.GPUs.Asked || a.GPUs.Asked == 0 {
		t.Errorf("two strategies: %+v, %+v", a, b)
	}
	ctx, cancel := context.WithCancel(t.Context())
	e.Progress = func(float64, int) { cancel() }
	if _, err := e.Run(ctx); err == nil {
		t.Error("a run goes on when it should end")
	}
	e.Progress, e.Times, e.Pods = nil, &trace.Times{}, untimed
	if _, err := e.Run(t.Context()); err == nil {
		t.Error("pods without times come and go")
	}
}
