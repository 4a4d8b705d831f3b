package scheduler

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	corev1informers "k8s.io/client-go/informers/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-dev/berth/internal/rank"
	"github.com/berth-dev/berth/internal/scheduler/gang"
	"github.com/berth-dev/berth/internal/scheduler/nodes"
	"github.com/berth-dev/berth/internal/wire"
)

// fewNodes is the size of a cluster up to which kube-scheduler and Berth check all nodes
// (minFeasibleNodesToFind of pkg/scheduler/schedule_one.go).
const fewNodes = 100

// stretch is the number of nodes that are looked up together. The memory accesses of these lookups
// overlap, and the nodes are still in the CPU's cache when they are asked.
const stretch = 64

// Candidates has the nodes that admit a pod, or may admit it, according to Berth. The best nodes
// come first: by tier, then by score, then in a random rotation. Berth predicts refusals by other
// plugins only if these plugins are in Foresight. If other plugins score nodes by preferences of
// the pod, the nodes are divided into classes (preferences), and each class is ordered separately.
type Candidates struct {
	cycle *cycle
	way   *alone
	infos []fwk.NodeInfo
	// from is a random index of infos. The rotation has the nodes from this index on, and then the
	// nodes before it.
	from int
	pod  podNeeds
	// prefers divides the nodes into classes. It is nil if there is only one class.
	prefers *preferences
	classes []ranked
	taking  []fwk.NodeInfo
	few     int
	// space is the memory of classes and taking. It is nil before and after the search.
	space *space
	// unconfirmed counts the nodes that admitted the pod according to an estimate, but not
	// according to their exact answer.
	unconfirmed int
}

// ranked has the nodes of a class that Next has not returned yet. It is a binary heap with the
// smallest value first. The upper 32 bits of a value are the node's rank; lower is better. The next
// 31 bits are the node's position, counted from Candidates.from. If the lowest bit is set, the node
// has not been asked yet, and the rank is the best that it can have. So nodes are asked in the
// order of their best possible ranks, and most nodes are never asked.
type ranked []uint64

// Foresight is a set of filter plugins whose refusals Berth predicts. Berth proposes no node that
// such a plugin will certainly refuse.
type Foresight uint8

// The plugins of a Foresight.
const (
	SeesUnschedulable Foresight = 1 << iota // NodeUnschedulable
	SeesTaints                              // TaintToleration
	SeesAmounts                             // NodeResourcesFit
	SeesAffinity                            // NodeAffinity
	SeesVolumes                             // VolumeBinding
)

func (f Foresight) has(plugin Foresight) bool { return f&plugin != 0 }

// podNeeds has the requirements of a pod that the plugins in its Foresight check.
type podNeeds struct {
	Foresight
	tolerations []corev1.Toleration
	// cordon means that the pod tolerates cordoned nodes.
	cordon                bool
	milliCPU, memoryBytes int64
	affinity              nodeaffinity.RequiredNodeAffinity
	// volumes selects the nodes that can reach the pod's volumes (reachOf).
	volumes []*nodeaffinity.NodeSelector
}

// CandidatesOf orders the nodes of a snapshot for a pod whose attempt has just passed PreFilter. It
// returns nil if candidates have no advantage: for pods that cannot be pinned, in small clusters,
// and if preferences divide the nodes into too many classes. It also returns nil for pods that must
// not choose among all nodes: members of gangs, owners of Reservations, and pods in a group cycle
// or a trial.
func CandidatesOf(state fwk.CycleState, pod *corev1.Pod, infos []fwk.NodeInfo, ahead Foresight, by []Spread) *Candidates {
	c := cycleOf(state)
	if c == nil || len(infos) <= fewNodes || c.unpinned || c.dry != nil {
		return nil
	}
	way, ok := c.way.(*alone)
	if !ok || state.IsPodGroupSchedulingCycle() || gang.InTrial(state) {
		return nil
	}
	prefers, ok := preferencesOf(pod, by)
	if !ok {
		return nil
	}
	found := &Candidates{cycle: c, way: way, infos: infos, from: rand.IntN(len(infos)), pod: needsOf(pod, ahead, c.plugin.handle), prefers: prefers, few: c.plugin.args.Candidates}
	if shunned := found.foresee(); shunned && prefers == nil { // divide the nodes by their taints
		found.prefers = &preferences{classes: map[string]int{}}
		found.foresee()
	}
	if len(found.classes) > maxClasses {
		found.Done()
		return nil
	}
	for i := range found.classes {
		found.classes[i].order()
	}
	if n := len(found.classes); n > 1 {
		found.few = max(fewOfClass, found.few/n)
	}
	return found
}

// space is memory that successive searches reuse. For 15,000 nodes, a class may need 120 KiB, and
// the list taking needs up to 240 KiB.
type space struct {
	classes []ranked
	taking  []fwk.NodeInfo
}

var spaces = sync.Pool{New: func() any { return new(space) }}

// Done ends the search. After it, Next and the result of Taking must not be used. Done may be
// called on nil, and more than once.
func (s *Candidates) Done() {
	if s == nil || s.space == nil {
		return
	}
	if s.taking != nil {
		clear(s.taking) // so that the memory does not keep removed nodes alive
		s.space.taking = s.taking
	}
	if s.space.classes = s.classes; len(s.classes) <= maxClasses { // the memory of more classes is not kept
		spaces.Put(s.space)
	}
	s.classes, s.taking, s.space = nil, nil, nil
}

// class returns the nodes of a class. It adds missing classes up to this one, and reuses the memory
// of an earlier search.
func (s *Candidates) class(class int) *ranked {
	for n := len(s.classes); n <= class; n++ {
		if n == cap(s.classes) {
			s.classes = append(s.classes, nil)
			continue
		}
		s.classes = s.classes[:n+1]
		s.classes[n] = s.classes[n][:0]
	}
	return &s.classes[class]
}

// Classes returns the number of classes of nodes.
func (s *Candidates) Classes() int { return len(s.classes) }

// Taking returns all nodes that admit the pod and that no plugin of the Foresight will certainly
// refuse. The result is nil if the nodes are not divided into classes. It is valid until Done.
func (s *Candidates) Taking() []fwk.NodeInfo { return s.taking }

// foresee puts the nodes that admit the pod, or may admit it, into their classes. It reports
// whether one of the nodes in the classes has a taint PreferNoSchedule.
func (s *Candidates) foresee() (shunned bool) {
	if s.space == nil {
		s.space = spaces.Get().(*space)
		s.classes = s.space.classes
	}
	if s.classes = s.classes[:0]; s.prefers == nil {
		first := s.class(0)
		*first = slices.Grow(*first, len(s.infos))
	} else {
		s.taking = slices.Grow(s.space.taking[:0], len(s.infos))
	}
	var objects [stretch]*corev1.Node
	var found [stretch]*nodes.Node
	for begin := 0; begin < len(s.infos); begin += stretch {
		count := min(stretch, len(s.infos)-begin)
		for j := range count {
			objects[j] = s.infos[s.place(begin+j)].Node()
		}
		s.cycle.plugin.core.table.OfEach(objects[:count], found[:count])
		for j, n := range found[:count] {
			shunned = s.classify(n, begin+j) && n.Shunned() || shunned
		}
	}
	return shunned
}

// classify puts the i-th node of the rotation into its class. It omits the node and returns false
// if the node does not admit the pod, or if a plugin of the Foresight refuses it. If there is only
// one class, Next checks these plugins instead.
func (s *Candidates) classify(n *nodes.Node, i int) bool {
	order, takes := s.orderOf(n, s.answer(n), i)
	if !takes {
		return false
	}
	class := 0
	if s.prefers != nil {
		place := s.place(i)
		info := s.infos[place]
		if s.pod.refusedBy(info) {
			return false
		}
		class = s.prefers.classOf(info)
		s.taking = append(s.taking, info)
	}
	of := s.class(class)
	*of = append(*of, order)
	return true
}

// answer returns the node's stored answer. If there is none and the nodes are not divided into
// classes, it returns the best rank that the node could have (nodes.AtBest), if that is known.
// Otherwise it asks the node.
func (s *Candidates) answer(n *nodes.Node) nodes.PackedAnswer {
	if s.prefers == nil {
		if a, known := s.cycle.query.Foresee(n); known {
			return a
		}
	}
	return s.cycle.verdict(n)
}

// orderOf returns the value in the heap for a node that admits the pod, or may admit it. The result
// takes is false for any other node. If the node makes the pod wait, orderOf adds it to
// alone.waiting.
func (s *Candidates) orderOf(n *nodes.Node, a nodes.PackedAnswer, i int) (order uint64, takes bool) {
	c := s.cycle
	order = uint64(i) << 1
	switch a.Kind() {
	case nodes.Takes:
	case nodes.AtBest:
		order |= 1
	case nodes.TakesRoughly:
		if s.way.patient {
			s.way.waiting.add(n)
			return 0, false
		}
	case nodes.Waits:
		s.way.waiting.add(n)
		return 0, false
	default:
		return 0, false
	}
	best := c.query.OrderOf(n, a)
	return uint64(best)<<32 | order, a.Kind() != nodes.AtBest || best < rank.LastOrder
}

// verdict returns the node's stored answer, or asks the node in its current state. It returns
// NoAnswer if the node is not usable or cannot meet the pod's rules.
func (c *cycle) verdict(n *nodes.Node) nodes.PackedAnswer {
	if a, ok := c.query.Recall(n); ok {
		return a
	}
	if c.plugin.core.table.Unusable(n) != nil || n.Unmet(c.query.Candidate.Request) != "" {
		return 0
	}
	return c.query.Ask(n)
}

// place returns the index in infos of the i-th node of the rotation (the field from).
func (s *Candidates) place(i int) int {
	if i += s.from; i >= len(s.infos) {
		return i - len(s.infos)
	}
	return i
}

func (r ranked) order() {
	for i := len(r)/2 - 1; i >= 0; i-- {
		r.sink(i)
	}
}

// sink moves the i-th value of the heap down to its position.
func (r ranked) sink(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(r); child++ {
			if r[child] < r[least] {
				least = child
			}
		}
		if least == i {
			return
		}
		r[i], r[least] = r[least], r[i]
		i = least
	}
}

func (r *ranked) drop() {
	h, last := *r, len(*r)-1
	h[0] = h[last]
	*r = h[:last]
	r.sink(0)
}

const (
	// fewConfirmed is the number of nodes with estimates after which Next returns, because exact
	// answers are expensive.
	fewConfirmed = 2
	// maxUnconfirmed is the number of wrong estimates after which Next no longer checks estimates.
	maxUnconfirmed = 128
)

// Next returns a few nodes of a class that it has not returned yet, the best first. It returns none
// if no node is left. If a node's answer is an estimate (nodes.Query.Estimates), Next first asks
// the node for the exact answer, because Reserve might refuse the pod, which would then go to the
// end of the scheduling queue. After maxUnconfirmed wrong estimates, Next uses estimates unchecked.
func (s *Candidates) Next(class int) []fwk.NodeInfo {
	few, heap, confirmed := make([]fwk.NodeInfo, 0, s.few), &s.classes[class], 0
	for len(few) < s.few && confirmed < fewConfirmed && len(*heap) > 0 {
		first := (*heap)[0]
		i := int(uint32(first) >> 1)
		info := s.infos[s.place(i)]
		if s.pod.refusedBy(info) {
			heap.drop()
			continue
		}
		n := s.cycle.plugin.core.table.Of(info.Node())
		if first&1 != 0 {
			s.ask(heap, n, i)
			continue
		}
		heap.drop()
		switch takes, estimated := s.cycle.query.Confirm(n, s.unconfirmed < maxUnconfirmed); {
		case !takes:
			s.way.waiting.add(n)
			s.unconfirmed++
		case estimated:
			few, confirmed = append(few, info), confirmed+1
		default:
			few = append(few, info)
		}
	}
	return few
}

// Waits returns Berth's status for a node that must report before it can admit the pod. It returns
// nil for other nodes, and for nodes that a plugin of the Foresight will certainly refuse.
func (s *Candidates) Waits(ctx context.Context, info fwk.NodeInfo) *fwk.Status {
	if s.pod.refusedBy(info) {
		return nil
	}
	n := s.cycle.plugin.core.table.Of(info.Node())
	if a, known := s.cycle.query.Recall(n); known && a.Kind() == nodes.Waits && s.cycle.ask.Said == (wire.Said{}) && !n.Unshown() {
		s.way.waiting.add(n) // in a burst, nearly all nodes give this answer
		return waitStatuses[a.Wait()]
	}
	if status := s.way.filter(ctx, s.cycle, info); status.Code() == fwk.Pending {
		return status.WithPlugin(Name)
	}
	return nil
}

// ask asks the first node of the heap. It moves the node to the position for its answer, or removes
// it if it does not admit the pod.
func (s *Candidates) ask(heap *ranked, n *nodes.Node, i int) {
	order, takes := s.orderOf(n, s.cycle.verdict(n), i)
	if !takes {
		heap.drop()
		return
	}
	(*heap)[0] = order
	heap.sink(0)
}

func needsOf(pod *corev1.Pod, ahead Foresight, handle fwk.Handle) podNeeds {
	cordoned := corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}
	asks := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	needs := podNeeds{
		Foresight: ahead, tolerations: pod.Spec.Tolerations,
		cordon:   corev1helpers.TolerationsTolerateTaint(klog.Background(), pod.Spec.Tolerations, &cordoned, true),
		milliCPU: asks.Cpu().MilliValue(), memoryBytes: asks.Memory().Value(),
	}
	if len(pod.Spec.NodeSelector) == 0 && pod.Spec.Affinity == nil {
		needs.Foresight &^= SeesAffinity
	}
	if needs.has(SeesAffinity) {
		needs.affinity = nodeaffinity.GetRequiredNodeAffinity(pod)
	}
	if needs.has(SeesVolumes) {
		needs.volumes = reachOf(pod, handle.SharedInformerFactory().Core().V1())
	}
	return needs
}

// reachOf returns, for each PersistentVolume of the pod that not all nodes can reach, a selector of
// the nodes that can. It ignores unbound PersistentVolumeClaims.
func reachOf(pod *corev1.Pod, core corev1informers.Interface) (out []*nodeaffinity.NodeSelector) {
	for i := range pod.Spec.Volumes {
		source := pod.Spec.Volumes[i].PersistentVolumeClaim
		if source == nil {
			continue
		}
		claim, err := core.PersistentVolumeClaims().Lister().PersistentVolumeClaims(pod.Namespace).Get(source.ClaimName)
		if err != nil || claim.Spec.VolumeName == "" {
			continue
		}
		volume, err := core.PersistentVolumes().Lister().Get(claim.Spec.VolumeName)
		if err != nil || volume.Spec.NodeAffinity == nil || volume.Spec.NodeAffinity.Required == nil {
			continue
		}
		if reach, err := nodeaffinity.NewNodeSelector(volume.Spec.NodeAffinity.Required); err == nil {
			out = append(out, reach)
		}
	}
	return out
}

// refusedBy reports whether a plugin of the Foresight will certainly refuse the node. It checks
// only cheap conditions.
func (p *podNeeds) refusedBy(info fwk.NodeInfo) bool {
	node := info.Node()
	if p.has(SeesUnschedulable) && node.Spec.Unschedulable && !p.cordon {
		return true
	}
	if p.has(SeesTaints) && len(node.Spec.Taints) > 0 {
		if _, refused := corev1helpers.FindMatchingUntoleratedTaint(klog.Background(), node.Spec.Taints, p.tolerations, refuses, true); refused {
			return true
		}
	}
	if p.has(SeesAffinity) {
		if match, err := p.affinity.Match(node); err == nil && !match {
			return true
		}
	}
	for _, reach := range p.volumes {
		if !reach.Match(node) {
			return true
		}
	}
	return p.has(SeesAmounts) && p.tooMuch(info)
}

// tooMuch reports whether the node has too little free CPU or memory for the pod, or already has
// its maximum number of pods.
func (p *podNeeds) tooMuch(info fwk.NodeInfo) bool {
	room, used := info.GetAllocatable(), info.GetRequested()
	return len(info.GetPods())+1 > room.GetAllowedPodNumber() ||
		p.milliCPU > 0 && p.milliCPU > room.GetMilliCPU()-used.GetMilliCPU() ||
		p.memoryBytes > 0 && p.memoryBytes > room.GetMemory()-used.GetMemory()
}

// refuses reports whether a taint excludes a pod that does not tolerate it.
func refuses(t *corev1.Taint) bool {
	return t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute
}
