package scheduler

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/scheduler/nodes"
	"github.com/berth-dev/berth/placement"
)

// knownPod is a lister that has the pod of the current attempt.
type knownPod struct {
	corelisters.PodLister
	corelisters.PodNamespaceLister
	pod *corev1.Pod
}

func (k *knownPod) Pods(string) corelisters.PodNamespaceLister { return k }

func (k *knownPod) Get(string) (*corev1.Pod, error) { return k.pod, nil }

func (k *knownPod) List(labels.Selector) ([]*corev1.Pod, error) { return []*corev1.Pod{k.pod}, nil }

// tryKnown begins an attempt to place a pod that the lister has, as it has nearly all pods.
func (f *fixture) tryKnown(pod *corev1.Pod, r *placement.Request) *cycle {
	f.pods.PodLister.(*knownPod).pod = pod
	return f.attempt(pod, r)
}

// fleet makes count nodes with reports.
func fleet(b *testing.B, count int) (*fixture, []infoOf) {
	b.Helper()
	f := newFixture(b)
	return f, f.reportAll(count)
}

// reportAll makes count nodes of the fixture's machine, with reports.
func (f *fixture) reportAll(count int) []infoOf {
	f.pods.PodLister = &knownPod{}
	base := f.topology()
	var list []infoOf
	for i := range count {
		nt := base.DeepCopy()
		nt.Name, nt.UID = fmt.Sprint("n", i), types.UID(fmt.Sprint("nt", i))
		f.feed.ReportSeen(nt)
		list = append(list, nodeObject(nt.Name))
	}
	return list
}

// BenchmarkFilter5000New asks 5,000 nodes, one after the other, about a pod of a new shape.
func BenchmarkFilter5000New(b *testing.B) {
	f, infos := fleet(b, 5000)
	i := int64(0)
	for b.Loop() {
		i++
		r := placement.Request{Guaranteed: true, Containers: []placement.ContainerRequest{{Name: "c", MilliCPU: 4000,
			Memory: []placement.MemoryRequest{{Resource: "memory", Bytes: uint64(i) << 10}}}}}
		f.filter(b, infos, &r)
	}
}

// BenchmarkFilter5000Mixed is Filter5000New on nodes with up to five pods each.
func BenchmarkFilter5000Mixed(b *testing.B) {
	f, infos := fleet(b, 5000)
	rng, sizes := rand.New(rand.NewPCG(1, 1)), []int64{2, 1, 4, 2, 3, 1}
	for i := range infos {
		n := f.table.Of(infos[i].Node())
		for j := range rng.IntN(6) {
			pod := pinned(fmt.Sprint("p", i, "-", j), sizes[rng.IntN(len(sizes))])
			c := f.table.Candidate(pod, requestOf(b, pod))
			c.Created = int64(j)
			n.Account().Reserve(&c, new(placement.Decision))
		}
	}
	states := map[ledger.StateID]bool{}
	for i := range infos {
		states[f.table.Of(infos[i].Node()).Account().View().Stamp().State] = true
	}
	i := int64(0)
	for b.Loop() {
		i++
		f.filter(b, infos, &placement.Request{Guaranteed: true, Containers: []placement.ContainerRequest{{Name: "c", MilliCPU: 1000,
			Memory: []placement.MemoryRequest{{Resource: "memory", Bytes: uint64(i) << 10}}}}})
	}
	b.ReportMetric(float64(len(states)), "states")
}

// BenchmarkFilter5000Same asks again about a shape for which all nodes have answered.
func BenchmarkFilter5000Same(b *testing.B) {
	f, infos := fleet(b, 5000)
	r := placement.Request{Guaranteed: true, Containers: []placement.ContainerRequest{{Name: "c", MilliCPU: 4000}}}
	for b.Loop() {
		f.filter(b, infos, &r)
	}
}

func (f *fixture) filter(b *testing.B, infos []infoOf, r *placement.Request) {
	pod := pinned("p", 4)
	state := newCycleData()
	state.Write(cycleKey, f.tryKnown(pod, r))
	for i := range infos {
		if status := f.Filter(b.Context(), state, pod, &infos[i]); status.Code() == fwk.Error {
			b.Fatal(status)
		}
	}
}

// BenchmarkNodeMemory measures the memory of a node with a report, in bytes.
func BenchmarkNodeMemory(b *testing.B) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	f, list := fleet(b, 5000)
	runtime.GC()
	runtime.ReadMemStats(&after)
	for b.Loop() {
	}
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(len(list)), "B/node")
	runtime.KeepAlive(f)
	runtime.KeepAlive(list)
}

// BenchmarkBurst places pods that are created in the same second, each on the best of 500 nodes. A
// node reports when the scheduler has placed 100 other pods since. The result is the plugin's cost
// per pod, without the Binding.
func BenchmarkBurst(b *testing.B) {
	f, infos := fleet(b, 500)
	base, sizes := f.topology(), []int64{2, 1, 4, 2, 3, 1}
	const lag = 100
	var under []landed
	placed := 0
	for b.Loop() {
		pod := pinned(fmt.Sprint("p", placed), sizes[placed%len(sizes)])
		pod.CreationTimestamp = metav1.Unix(500+int64(placed/300), 0)
		at := f.place(b, pod, infos)
		placed++
		if at != nil {
			under = append(under, landed{at, pod.UID})
		}
		if len(under) < lag && at != nil {
			continue
		}
		for _, l := range under[:(len(under)+1)/2] {
			f.reportEmpty(base, l.node)
			f.end(l)
		}
		under = under[(len(under)+1)/2:]
	}
}

// reportEmpty sends a node's report after its pods have ended.
func (f *fixture) reportEmpty(base *v1alpha1.NodeTopology, n *nodes.Node) {
	nt := base.DeepCopy()
	nt.Name, nt.UID = n.Name(), types.UID("nt"+n.Name()[1:])
	f.seq++
	nt.Status.Sequence = f.seq
	f.feed.ReportSeen(nt)
}

// end deletes a pod so long ago that it is forgotten.
func (f *fixture) end(l landed) {
	l.node.Account().Gone(string(l.uid), f.clock.Now())
	l.node.Account().ForgetGone(f.clock.Now().Add(f.args.SettleAfter.Duration), f.args.SettleAfter.Duration)
}

// BenchmarkCrowd places pods of a large burst: 8 shapes, 300 pods per second, each on the best of
// 100 nodes. The Binding of a pod is posted 20 pods later, and nodes report when 80 or more
// Bindings have been posted since. The result is the plugin's cost per pod, without the Binding.
func BenchmarkCrowd(b *testing.B) {
	f := newFixture(b)
	f.useMachine("package:2 numa:1 core:20 pu:2 mem:64Gi dist:10,21")
	infos, base := f.reportAll(100), f.topology()
	const writing, lag = 20, 160
	var waiting, under []landed
	for placed := 0; b.Loop(); placed++ {
		pod := pinned(fmt.Sprint("p", placed), 1+int64(placed*5)%8)
		pod.CreationTimestamp = metav1.Unix(500+int64(placed/300), 0)
		at := f.placeInCrowd(b, pod, infos)
		if at == nil {
			b.Fatal("no node takes the pod")
		}
		if waiting = append(waiting, landed{at, pod.UID}); len(waiting) <= writing {
			continue
		}
		l := waiting[0]
		if p, err := l.node.Account().Post(string(l.uid), new(placement.Decision)); err != nil || !p.Answer.OK() {
			b.Fatal(p, err)
		}
		if under, waiting = append(under, l), waiting[1:]; len(under) < lag {
			continue
		}
		reporting := map[*nodes.Node]bool{}
		for _, l := range under[:lag/2] {
			f.end(l)
			reporting[l.node] = true
		}
		for n := range reporting {
			f.reportEmpty(base, n)
		}
		under = under[lag/2:]
	}
}

// placeInCrowd does the same as place for a pod without promised CPUs, with all calls of the
// plugins.
func (f *fixture) placeInCrowd(b *testing.B, pod *corev1.Pod, infos []infoOf) *nodes.Node {
	state := newCycleData()
	c := f.tryKnown(pod, requestOf(b, pod))
	c.way.(*alone).patient = false
	c.query.Candidate.Loose = true
	c.query.Share(f.profile)
	state.Write(cycleKey, c)
	var pass []fwk.NodeInfo
	for i := range infos {
		if f.Filter(b.Context(), state, pod, &infos[i]).IsSuccess() {
			pass = append(pass, &infos[i])
		}
	}
	skipped := Tiers{}.PreScore(b.Context(), state, pod, pass).Code() == fwk.Skip
	var best *nodes.Node
	most := int64(math.MinInt64)
	for _, info := range pass {
		score, _ := f.Score(b.Context(), state, pod, info)
		if !skipped {
			tier, _ := Tiers{}.Score(b.Context(), state, pod, info)
			score -= tier << 8
		}
		if score > most {
			best, most = f.table.Of(info.Node()), score
		}
	}
	if best == nil || f.Reserve(b.Context(), state, pod, best.Name()) != nil {
		return nil
	}
	return best
}

type landed struct {
	node *nodes.Node
	uid  types.UID
}

// place filters and scores all nodes and reserves the best one; nil if there is none.
func (f *fixture) place(b *testing.B, pod *corev1.Pod, infos []infoOf) *nodes.Node {
	state := newCycleData()
	c := f.tryKnown(pod, requestOf(b, pod))
	c.way.(*alone).patient = false
	state.Write(cycleKey, c)
	best, most := -1, int64(-1)
	for i := range infos {
		if !f.Filter(b.Context(), state, pod, &infos[i]).IsSuccess() {
			continue
		}
		if s, _ := f.Score(b.Context(), state, pod, &infos[i]); s > most {
			best, most = i, s
		}
	}
	if best < 0 {
		return nil
	}
	n := f.table.Of(infos[best].Node())
	var d placement.Decision
	if a := n.Account().Reserve(&c.query.Candidate, &d); !a.OK() {
		return nil
	}
	f.waiters.Done(uidOf(pod))
	if _, err := n.Account().Post(string(pod.UID), &d); err != nil {
		b.Fatal(err)
	}
	return n
}
