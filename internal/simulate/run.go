package simulate

import (
	"math"

	"github.com/berth-dev/berth/internal/simulate/trace"
)

// Figures count the pods of one run or of a part of it.
type Figures struct {
	Pods Served `json:"pods"`
	GPUs Served `json:"gpus"` // thousandths
	CPUs Served `json:"cpus"` // thousandths
	// Refusals is the number of times that kubelets refused a pod.
	Refusals int64 `json:"refusals"`
	// Pinned is the number of served pods that are pinned to NUMA nodes. NUMANodes adds up the
	// number of NUMA nodes of each of these pods.
	Pinned    int64 `json:"pinned"`
	NUMANodes int64 `json:"numaNodes"`
	// OnNUMANodes counts the Pinned pods by their number of NUMA nodes: 1, 2, 3, and more than 3.
	OnNUMANodes [4]int64 `json:"podsOnNUMANodes"`
}

// Served has the requested amounts of one resource: Asked of all pods, Served of the pods that got
// a node, and Aligned of the aligned pods among them (Outcome.Aligned).
type Served struct {
	Asked   int64 `json:"asked"`
	Served  int64 `json:"served"`
	Aligned int64 `json:"aligned"`
}

func (s *Served) add(n int64, served, aligned bool) {
	s.Asked += n
	if served {
		s.Served += n
	}
	if served && aligned {
		s.Aligned += n
	}
}

// arrived counts a pod. The argument `served` means that the pod got a node, with the outcome o.
func (f *Figures) arrived(s *Shape, served bool, o Outcome) {
	f.Pods.add(1, served, o.Aligned)
	f.GPUs.add(s.AskedGPU(), served, o.Aligned)
	f.CPUs.add(s.MilliCPU, served, o.Aligned)
	if served && o.NUMANodes > 0 {
		f.Pinned++
		f.NUMANodes += int64(o.NUMANodes)
		f.OnNUMANodes[min(o.NUMANodes, len(f.OnNUMANodes))-1]++
	}
}

// Curve shows how much of the nodes' GPUs is served as pods arrive. Curve[p] is the percentage of
// the GPUs that pods have when the pods that arrived so far ask for p percent of the GPUs. It is
// the mean over all arrivals at which p is the nearest whole number. If no pod asks for GPUs, the
// percentages are of CPUs.
type Curve []float64

// maxPercent is the last index that a Curve may have. Arrivals beyond it are counted there.
const maxPercent = 1000

type curve struct {
	sum   []float64
	count []int
}

func (c *curve) add(arrived, served float64) {
	at := min(int(math.RoundToEven(arrived)), maxPercent)
	for at >= len(c.sum) {
		c.sum, c.count = append(c.sum, 0), append(c.count, 0)
	}
	c.sum[at] += math.Round(served*100) / 100
	c.count[at]++
}

// curve returns the Curve. A point without an arrival gets the value of the point before it.
func (c *curve) curve() Curve {
	out := make(Curve, len(c.sum))
	for i := range out {
		switch {
		case c.count[i] > 0:
			out[i] = c.sum[i] / float64(c.count[i])
		case i > 0:
			out[i] = out[i-1]
		}
	}
	return out
}

// Run is the result of one strategy with one seed.
type Run struct {
	Strategy string `json:"strategy"`
	Seed     int64  `json:"seed"`
	Figures
	// Aligned is the percentage of all GPUs (of all CPUs, if no pod asks for GPUs) that aligned
	// pods have at the end; see Outcome.Aligned. If pods arrive and end, it is the mean over time.
	Aligned float64 `json:"aligned"`
	Curve   Curve   `json:"curve"`
	// AlignedCurve is the same curve for aligned pods only.
	AlignedCurve Curve `json:"alignedCurve"`
	// Unused describes the free resources at the end, if the Experiment asks for it.
	Unused *Unused `json:"unused,omitempty"`
	// Timed is nil if the Experiment has no Times.
	Timed *Timed `json:"timed,omitempty"`
}

// maxAgain limits how often a controller creates a pod again after a kubelet has refused it, in
// runs in which no pod ends.
const maxAgain = 10

// player places pods on a cluster with a strategy.
type player struct {
	cluster  Cluster
	strategy *Strategy
	by       Scorer
	scores   *scores
	draw     *trace.Draw
	refusals int64
	// stood has the figures of the pods that already run at the beginning. `first` is the number of
	// the first pod that arrives.
	stood Figures
	first int32
	// watch is called after each arrival with the requests of all pods so far, in percent of the
	// capacity. It may be nil.
	watch func(percent float64)
}

func newPlayer(c Cluster, all []Shape, s *Strategy, load []Typical, d *trace.Draw) *player {
	by := s.New(load)
	return &player{cluster: c, strategy: s, by: by, scores: newScores(c, keeping(all, s.Keep), by), draw: d}
}

// choose returns the best of the nodes, or -1 if none admits a pod of the shape.
func (p *player) choose(nodes []int32, shape int32) int {
	if _, compares := p.by.(comparer); compares {
		if equal := p.equals(nodes, shape); len(equal) > 0 {
			return int(equal[p.draw.Rand.Intn(len(equal))])
		}
		return -1
	}
	best, score, equal := -1, int32(refusing), 0
	for _, node := range nodes {
		switch s := p.scores.score(int(node), shape); {
		case s > score:
			best, score, equal = int(node), s, 1
		case s == score && best >= 0 && p.strategy.Ties == ByChance:
			if equal++; p.draw.Rand.Intn(equal) == 0 {
				best = int(node)
			}
		}
	}
	return best
}

// equals returns the best of the nodes, from which the caller chooses one at random. It returns
// none if no node admits a pod of the shape. The result is valid until the next call.
func (p *player) equals(nodes []int32, shape int32) (equal []int32) {
	if c, compares := p.by.(comparer); compares {
		return c.equals(p, nodes, shape)
	}
	best := int32(refusing)
	for _, node := range nodes {
		s := p.scores.score(int(node), shape)
		if s > best {
			best, equal = s, equal[:0]
		}
		if s == best && s != refusing {
			equal = append(equal, node)
		}
	}
	return equal
}

// place puts the pod on the best node. If the node's kubelet refuses the pod, a controller creates
// the pod again, and place chooses again.
func (p *player) place(pod, shape int32) (node int, o Outcome) {
	for range 1 + maxAgain {
		if node = p.choose(p.draw.Order, shape); node < 0 {
			return node, Outcome{}
		}
		s := &p.scores.shapes[shape]
		if o = p.cluster.Put(node, pod, s, p.gpu(node, s)); !o.Refused {
			p.scores.changed(node)
			return node, o
		}
		p.refusals++
	}
	return -1, Outcome{}
}

// gpu returns the index of the node's GPU of which the pod gets a share. It returns -1 for a pod
// without GPUs or with whole GPUs.
func (p *player) gpu(node int, s *Shape) int {
	if s.GPUs == 1 && s.MilliGPU < trace.Thousandths && p.cluster.Look(node, s, &p.scores.look) {
		return p.by.GPU(&p.scores.look, p.draw.Rand)
	}
	return -1
}

// learn updates the cluster's demand before a pod is placed, and passes the pod on to the scorer if
// it is a Learner. If scores may have changed, learn removes the cached scores.
func (p *player) learn(shape int32) {
	l, learns := p.by.(Learner)
	if news := p.cluster.Learn(); learns && l.Learn(&p.scores.shapes[shape]) || news {
		p.scores.forget()
	}
}

// arrivals lets all pods of the draw arrive, one after another. No pod ends, and a pod without a
// node is lost. The curves are about GPUs, or about CPUs if no pod asks for GPUs. The argument
// `all` is the capacity of the nodes.
func (p *player) arrivals(of []int32, all Capacity) (f Figures, c curves) {
	for i, pod := range p.draw.Arrivals {
		shape := of[pod]
		p.learn(shape)
		node, o := p.place(p.first+int32(i), shape)
		f.arrived(&p.scores.shapes[shape], node >= 0, o)
		got, have := all.of(&f)
		stood, _ := all.of(&p.stood)
		asked := percent(got.Asked+stood.Asked, have)
		c.served.add(asked, percent(got.Served+stood.Served, have))
		c.aligned.add(asked, percent(got.Aligned+stood.Aligned, have))
		if p.watch != nil {
			p.watch(asked)
		}
	}
	f.Refusals = p.refusals
	return f, c
}

// curves are the curve of all served pods and the curve of the aligned pods among them.
type curves struct{ served, aligned curve }

// Capacity is the capacity of the nodes in thousandths: GPUs, or CPUs if no pod asks for GPUs.
type Capacity struct{ GPU, CPU int64 }

func capacityOf(nodes []trace.Node, pods []trace.Pod) (c Capacity) {
	if trace.AskGPUs(pods) {
		return Capacity{GPU: trace.CapacityOf(nodes, true)}
	}
	return Capacity{CPU: trace.CapacityOf(nodes, false)}
}

// of returns the figures about GPUs or CPUs, depending on which of them c counts, and the capacity.
func (c Capacity) of(f *Figures) (got *Served, have int64) {
	if c.GPU > 0 {
		return &f.GPUs, c.GPU
	}
	return &f.CPUs, c.CPU
}

// aligned returns the percentage of the nodes' capacity that aligned pods have.
func (c Capacity) aligned(f *Figures) float64 {
	got, have := c.of(f)
	return percent(got.Aligned, have)
}

func percent(part, all int64) float64 { return 100 * float64(part) / float64(all) }
