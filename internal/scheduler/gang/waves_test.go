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

// kubelet is that of a node, with its agent: it hears of Bindings in batches, admits those of one
// second in any order, and reports them.
type kubelet struct {
	state  *placement.State
	coming []*corev1.Pod
	listed map[types.UID]bool
	// mute: its agent reports nothing.
	mute bool
	due  bool
}

// hearsAfter is how long after a Binding a kubelet hears of it.
const hearsAfter = 300 * time.Millisecond

// live has every node have a kubelet. The seed is for the orders in which they admit.
func (w *world) live(seed uint64) {
	w.rng, w.kubelets = rand.New(rand.NewPCG(seed, 22)), map[string]*kubelet{}
	for _, n := range w.nodes {
		model := w.accounts[n.Name].View().Report().Model
		w.kubelets[n.Name] = &kubelet{state: model.NewState(), listed: map[types.UID]bool{}}
	}
}

// turn lets a Binding wait for its turn, as Bind does.
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

// post decides again, makes the watch show the Binding, and the kubelet hear of it. It says whether
// the pod may be bound.
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

// hear makes a kubelet admit what is coming, and its agent report.
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

// tell has a node report what its kubelet has, unless its agent is mute.
func (w *world) tell(node string) {
	k, account := w.kubelets[node], w.accounts[node]
	if k.mute {
		clear(k.listed) // by no report
		return
	}
	before, snap := account.View().Report(), k.state.Snapshot()
	r, err := ledger.NewReport(before.Sequence+1, before.Model, &snap, nil)
	w.must(err)
	account.Accept(r)
	w.groups.Stir()
}

// release makes a pod's node let go of it.
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

// tight creates a gang that fills a node of 3 and 4 CPUs, in no order but that of its sizes: where
// the small ones come first, the large one finds no NUMA node.
func (w *world) tight(gang string) {
	for i, cpus := range []int{1, 2, 3, 1} {
		w.create(podOf(gang, fmt.Sprint(gang, "-", i), 4, cpus))
	}
}

// TestMembersComeInWaves: members of one second that fill a node in one order alone are bound one
// after another, when the node has reported those before.
func TestMembersComeInWaves(t *testing.T) {
	for seed := range uint64(8) {
		inWorld(t, 1, func(w *world) {
			w.live(seed)
			w.tight("a")
			w.run(100 * time.Millisecond)
			if first := w.bound("a"); first == 0 || first == 4 || w.held() != 4 {
				t.Errorf("%d bound before a report, %d places held: want a part, and 4", first, w.held())
			}
			w.create(podOf("b", "b-0", 1, 1)) // it comes after them, or not at all
			w.run(5 * time.Second)
			w.want("a", 4, 4)
			if w.bound("b") > 0 || len(w.deleted) > 0 {
				t.Errorf("b has %d bound, deleted: %v", w.bound("b"), w.deleted)
			}
			w.wantState(gangs.Whole)
		})
	}
}

// TestNoWavesWhereThereIsRoom: nobody waits for a report where the members fit in any order.
func TestNoWavesWhereThereIsRoom(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		w.live(1)
		w.tight("a")
		w.run(100 * time.Millisecond)
		w.want("a", 4, 4)
	})
}

// TestAWaveThatFailsTakesThoseAfterItAlong: what was found for them holds after it. They are
// planned again, together.
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

// TestNobodyWaitsForAWaveBeyondTheDeadline: the agent reports nothing. The ones that are bound are
// deleted, and the ones that wait are pending again.
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

// TestANewSchedulerGoesOnBetweenWaves: the places of the ones that were not bound are not held any
// more. They are found again, by what the reports tell.
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
				w.accounts["n0"].Forget(string(uid)) // the dead one's reservations
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
