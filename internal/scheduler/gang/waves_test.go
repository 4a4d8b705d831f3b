package gang

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/internal/gangs"
	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

// kubelet plays a node's kubelet and agent. It learns of Bindings in batches, admits pods that were
// created in the same second in any order, and reports them.
type kubelet struct {
	state  *placement.State
	coming []*corev1.Pod
	listed map[types.UID]bool
	// mute means that the agent reports nothing.
	mute bool
	due  bool
}

// hearsAfter is how long after a Binding the kubelet sees it.
const hearsAfter = 300 * time.Millisecond

// live starts a kubelet on every node. The seed determines the orders in which they admit pods.
func (w *world) live(seed uint64) {
	w.rng, w.kubelets = rand.New(rand.NewPCG(seed, 22)), map[string]*kubelet{}
	for _, n := range w.nodes {
		model := w.accounts[n.Name].View().Report().Model
		w.kubelets[n.Name] = &kubelet{state: model.NewState(), listed: map[types.UID]bool{}}
	}
}

// turn makes a Binding wait for its wave, as Bind does.
func (w *world) turn(uid types.UID, node string, await func(context.Context, types.UID) error) {
	life := w.life
	w.turning++
	go func() {
		err := await(w.t.Context(), uid)
		w.ask(func() {
			if w.life != life {
				return
			}
			if w.turning--; err != nil {
				w.fail(uid, node)
				return
			}
			w.bind(uid, node)
		})
	}()
}

func (w *world) request(pod *corev1.Pod) *placement.Request {
	ask, err := wire.ReadPod(pod)
	w.must(err)
	return &ask.Request
}

// post asks the ledger again, and shows the Binding to the watch and to the kubelet. It reports
// whether the pod may be bound.
func (w *world) post(pod *corev1.Pod) bool {
	k := w.kubelets[pod.Spec.NodeName]
	if k == nil {
		return true
	}
	account := w.accounts[pod.Spec.NodeName]
	var d placement.Decision
	p, err := account.Post(string(pod.UID), &d)
	w.must(err)
	if !p.Answer.OK() {
		return false
	}
	account.See(ledger.Sighting{UID: string(pod.UID), Request: w.request(pod), Created: pod.CreationTimestamp.Unix(), Turn: p.Turn})
	k.coming = append(k.coming, pod)
	if !k.due {
		k.due = true
		time.AfterFunc(hearsAfter, func() { w.ask(func() { w.hear(pod.Spec.NodeName) }) })
	}
	return true
}

// hear makes a kubelet admit new pods, and its agent report.
func (w *world) hear(node string) {
	k := w.kubelets[node]
	k.due = false
	w.rng.Shuffle(len(k.coming), func(i, j int) { k.coming[i], k.coming[j] = k.coming[j], k.coming[i] })
	slices.SortStableFunc(k.coming, func(a, b *corev1.Pod) int {
		return cmp.Compare(a.CreationTimestamp.Unix(), b.CreationTimestamp.Unix())
	})
	for _, pod := range k.coming {
		var d placement.Decision
		if v := placement.Decide(k.state, w.request(pod), &d); !v.OK() {
			w.t.Errorf("node %s refuses %s: %+v", node, pod.Name, v)
			continue
		}
		k.state.Commit(w.request(pod), &d)
		k.listed[pod.UID] = true
	}
	k.coming = nil
	w.tell(node)
}

// tell makes a node report its kubelet's state, unless its agent is mute.
func (w *world) tell(node string) {
	k, account := w.kubelets[node], w.accounts[node]
	if k.mute {
		clear(k.listed) // no report lists them
		return
	}
	before, snap := account.View().Report(), k.state.Snapshot()
	r, err := ledger.NewReport(before.Sequence+1, before.Model, &snap, nil)
	w.must(err)
	account.Accept(r)
	w.groups.Stir()
}

// release makes a pod's node release its resources.
func (w *world) release(pod *corev1.Pod) {
	k := w.kubelets[pod.Spec.NodeName]
	if k == nil {
		return
	}
	k.coming = slices.DeleteFunc(k.coming, func(p *corev1.Pod) bool { return p.UID == pod.UID })
	k.state.Release(string(pod.UID))
	delete(k.listed, pod.UID)
	account := w.accounts[pod.Spec.NodeName]
	account.Gone(string(pod.UID), time.Now())
	w.tell(pod.Spec.NodeName)
	account.ForgetGone(time.Now().Add(time.Hour), time.Second)
}

// tight creates a gang that fills a node with NUMA nodes of 3 and 4 CPUs, but only if the large
// member is admitted before the last small ones.
func (w *world) tight(gang string) {
	for i, cpus := range []int{1, 2, 3, 1} {
		w.create(podOf(gang, fmt.Sprint(gang, "-", i), 4, cpus))
	}
}

// TestMembersComeInWaves: members of the same second that fill a node only in one order are bound
// one after another. Each is bound after the node has reported those before it.
func TestMembersComeInWaves(t *testing.T) {
	for seed := range uint64(8) {
		inWorld(t, 1, func(w *world) {
			w.live(seed)
			w.tight("a")
			w.run(100 * time.Millisecond)
			if first := w.bound("a"); first == 0 || first == 4 || w.held() != 4 {
				t.Errorf("%d bound before a report, %d places held: want a part, and 4", first, w.held())
			}
			w.create(podOf("b", "b-0", 1, 1)) // is bound after them, or never
			w.run(5 * time.Second)
			w.want("a", 4, 4)
			if w.bound("b") > 0 || len(w.deleted) > 0 {
				t.Errorf("b has %d bound, deleted: %v", w.bound("b"), w.deleted)
			}
			w.wantState(gangs.Whole)
		})
	}
}

// TestNoWavesWhereThereIsRoom: if the members fit in any order, none waits for a report.
func TestNoWavesWhereThereIsRoom(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		w.live(1)
		w.tight("a")
		w.run(100 * time.Millisecond)
		w.want("a", 4, 4)
	})
}

// TestAWaveThatFailsTakesThoseAfterItAlong: the plan for later waves depends on it, so that they
// are planned again with it.
func TestAWaveThatFailsTakesThoseAfterItAlong(t *testing.T) {
	for _, name := range []string{"a-0", "a-1", "a-2", "a-3"} {
		inWorld(t, 1, func(w *world) {
			w.live(1)
			w.breakBind[name] = 1
			w.tight("a")
			w.run(gangTimeout + 10*time.Second)
			w.want("a", 4, 4)
			if w.turning > 0 {
				t.Errorf("%d still wait for their waves", w.turning)
			}
		})
	}
}

// TestNobodyWaitsForAWaveBeyondTheDeadline: the agent reports nothing. The bound members are
// deleted, and the waiting ones are pending again.
func TestNobodyWaitsForAWaveBeyondTheDeadline(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		w.live(1)
		w.kubelets["n0"].mute = true
		w.tight("a")
		w.run(gangTimeout - time.Second)
		first := w.bound("a")
		if first == 0 || first == 4 || w.turning == 0 {
			t.Fatalf("%d bound, %d wait for their waves: the test shows nothing", first, w.turning)
		}
		w.run(3 * time.Second)
		if w.bound("a") > 0 || w.turning > 0 || len(w.deleted) != first {
			t.Errorf("%d bound, %d wait, deleted %v: want none, and those that were bound", w.bound("a"), w.turning, w.deleted)
		}
	})
}

// TestANewSchedulerGoesOnBetweenWaves: the members that were not bound have lost their
// reservations. The new scheduler plans them again, from the reports.
func TestANewSchedulerGoesOnBetweenWaves(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		w.live(1)
		w.tight("a")
		w.run(100 * time.Millisecond)
		if w.turning == 0 {
			t.Fatal("nobody waits for his wave: the test shows nothing")
		}
		for _, uid := range slices.Sorted(maps.Keys(w.pods)) {
			if w.pods[uid].Spec.NodeName == "" {
				w.accounts["n0"].Forget(string(uid)) // of the old scheduler
			}
		}
		w.restart()
		w.run(gangTimeout + 2*time.Second)
		w.want("a", 4, 4)
		if len(w.deleted) > 0 {
			t.Errorf("deleted: %v", w.deleted)
		}
	})
}
