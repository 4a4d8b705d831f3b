package moving

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"

	"github.com/berth-dev/berth/internal/wire"
)

const ns = "default"

// stand is a cluster in which a controller replaces evicted pods. Its scheduler binds placeholders
// at once, and binds waiting nominated pods when another pod is deleted. It places no pod that a
// guard keeps away.
type stand struct {
	*testing.T
	client *fake.Clientset
	// log has the writes in order.
	log []string
	// Differences from the plan.
	holderGoes, newGoes string
	keeps               bool // a budget forbids every eviction
	refuses             bool // the kubelet refuses placeholders
	gates               bool // a webhook gives placeholders a scheduling gate
	barren              bool // the controller creates no new pods
	hurries             bool // the scheduler binds a new pod just before it is nominated
	// narrow is a node with room for one pod. A new pod goes there as soon as it is empty, and a
	// placeholder only fits then.
	narrow  string
	lingers bool // evicted pods do not end
	stuck   bool // the scheduler finds no node for the wanted pod
	// slow is how long a pod takes to end. Its controller replaces it after that, like a
	// StatefulSet.
	slow time.Duration
	// greedy is a node to which new pods go at once if no guard keeps them away.
	greedy string
	// ends is called at the first eviction; nil means that nothing happens.
	ends func() error
}

func replica(name, node string) *corev1.Pod {
	yes := true
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: ns, UID: types.UID("uid-" + name), Labels: map[string]string{"app": "set", "set": strings.TrimSuffix(name, "-new")},
			OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "set", UID: "set", Controller: &yes}}},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "main", Image: "app", Command: []string{"run"}, Env: []corev1.EnvVar{{Name: "SECRET", Value: "x"}}}}},
	}
}

func newStand(t *testing.T, pods ...runtime.Object) *stand {
	s := &stand{T: t, client: fake.NewClientset(pods...)}
	tracker := s.client.Tracker()
	gvr := corev1.SchemeGroupVersion.WithResource("pods")
	made := 0
	s.client.PrependReactor("create", "pods", func(a ktesting.Action) (bool, runtime.Object, error) {
		create := a.(ktesting.CreateAction)
		if a.GetSubresource() == "eviction" {
			return s.evicted(create.GetObject().(*policyv1.Eviction), tracker, gvr)
		}
		made++
		pod := create.GetObject().(*corev1.Pod).DeepCopy()
		pod.Status.StartTime, pod.Status.ContainerStatuses = &metav1.Time{Time: time.Unix(1, 0)}, make([]corev1.ContainerStatus, 1)
		if pod.Spec.NodeName != "" {
			pod.Name, pod.UID = fmt.Sprint("guard-", made), types.UID(fmt.Sprint("guard-", made))
			s.log = append(s.log, "keep "+pod.Spec.NodeName)
		} else {
			pod.Name, pod.UID = fmt.Sprint("holder-", made), types.UID(fmt.Sprint("holder-", made))
			terms := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
			pod.Spec.NodeName = cmp.Or(s.holderGoes, terms[0].MatchFields[0].Values[0])
			if pod.Spec.NodeName == s.narrow && s.taken(tracker, gvr) || s.guarded(tracker, gvr, pod, pod.Spec.NodeName) {
				pod.Spec.NodeName = ""
			}
			s.log = append(s.log, "hold "+pod.Spec.NodeName)
			if s.gates {
				pod.Spec.NodeName = ""
				gated(pod)
			}
		}
		if s.refuses {
			pod.Status.Phase, pod.Status.Reason = corev1.PodFailed, "TopologyAffinityError"
		}
		return true, pod, tracker.Create(gvr, pod, ns)
	})
	s.client.PrependReactor("delete", "pods", func(a ktesting.Action) (bool, runtime.Object, error) {
		name := a.(ktesting.DeleteAction).GetName()
		if err := tracker.Delete(gvr, ns, name); err != nil {
			return true, nil, err
		}
		s.log = append(s.log, "drop "+name)
		return true, nil, s.schedule(tracker, gvr)
	})
	s.client.PrependReactor("patch", "pods", func(a ktesting.Action) (bool, runtime.Object, error) {
		name := a.(ktesting.PatchAction).GetName()
		s.log = append(s.log, "nominate "+name)
		if s.hurries && strings.HasSuffix(name, "-new") {
			err := tracker.Update(gvr, replica(name, "d"), ns)
			return true, nil, errors.Join(err, apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Pod").GroupKind(), name, nil))
		}
		return false, nil, nil
	})
	return s
}

// evicted deletes a pod, and creates its successor.
func (s *stand) evicted(e *policyv1.Eviction, tracker ktesting.ObjectTracker, pods schema.GroupVersionResource) (bool, runtime.Object, error) {
	if s.keeps {
		return true, nil, apierrors.NewTooManyRequests("the budget", 1)
	}
	s.log = append(s.log, "evict "+e.Name)
	if ends := s.ends; ends != nil {
		s.ends = nil
		if err := ends(); err != nil {
			return true, nil, err
		}
	}
	if s.slow > 0 {
		time.AfterFunc(s.slow, func() {
			s.slow = 0
			if _, _, err := s.evicted(e, tracker, pods); err != nil {
				s.Error(err)
			}
		})
		return true, nil, nil
	}
	if !s.lingers {
		if err := tracker.Delete(pods, ns, e.Name); err != nil || s.barren {
			return true, nil, err
		}
	}
	goes := s.newGoes
	if s.greedy != "" && !s.guarded(tracker, pods, replica(e.Name+"-new", ""), s.greedy) {
		goes = s.greedy
	}
	if s.narrow != "" && !s.taken(tracker, pods) {
		goes = s.narrow
	}
	return true, nil, tracker.Create(pods, replica(e.Name+"-new", goes), ns)
}

// all returns the pods of the cluster.
func (s *stand) all(tracker ktesting.ObjectTracker, pods schema.GroupVersionResource) []corev1.Pod {
	list, err := tracker.List(pods, corev1.SchemeGroupVersion.WithKind("Pod"), ns)
	if err != nil {
		s.Error(err)
		return nil
	}
	return list.(*corev1.PodList).Items
}

// taken reports whether a pod other than a guard is on the narrow node.
func (s *stand) taken(tracker ktesting.ObjectTracker, pods schema.GroupVersionResource) bool {
	return slices.ContainsFunc(s.all(tracker, pods), func(p corev1.Pod) bool {
		return p.Spec.NodeName == s.narrow && !strings.HasPrefix(p.Name, "guard")
	})
}

// guarded reports whether a pod on the node has an anti-affinity to the pod, as InterPodAffinity
// does.
func (s *stand) guarded(tracker ktesting.ObjectTracker, pods schema.GroupVersionResource, pod *corev1.Pod, node string) bool {
	return slices.ContainsFunc(s.all(tracker, pods), func(p corev1.Pod) bool {
		return p.Spec.NodeName == node && p.Spec.Affinity != nil && p.Spec.Affinity.PodAntiAffinity != nil &&
			slices.ContainsFunc(p.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, func(t corev1.PodAffinityTerm) bool {
				selector, err := metav1.LabelSelectorAsSelector(t.LabelSelector)
				if err != nil {
					s.Error(err)
				}
				return err == nil && selector.Matches(labels.Set(pod.Labels))
			})
	})
}

// schedule binds nominated pods.
func (s *stand) schedule(tracker ktesting.ObjectTracker, pods schema.GroupVersionResource) error {
	all := s.all(tracker, pods)
	for i := range all {
		pod := &all[i]
		if s.stuck && pod.Name == "wanted" {
			continue
		}
		if node := pod.Status.NominatedNodeName; pod.Spec.NodeName == "" && node != "" && !s.guarded(tracker, pods, pod, node) {
			pod.Spec.NodeName = node
			if err := tracker.Update(pods, pod, ns); err != nil {
				return err
			}
		}
	}
	return nil
}

// run carries the plan out. The clock advances only when all goroutines wait, so that a slow
// machine does not cause timeouts.
func (s *stand) run(plan *Plan) (done Done, err error) {
	synctest.Test(s.T, func(t *testing.T) {
		done, err = Run(t.Context(), plan, Options{Pods: s.client.CoreV1(), Tell: t.Logf})
	})
	return done, err
}

func plan() *Plan {
	return &Plan{
		Wanted: []Wanted{{Pod{ns, "wanted", "uid-wanted"}, "a"}},
		Moves:  []Move{{Pod{ns, "one", "uid-one"}, "a", "b"}, {Pod{ns, "two", "uid-two"}, "a", "c"}},
	}
}

func wanted() *corev1.Pod {
	p := replica("wanted", "")
	p.OwnerReferences = nil
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "no room"}}
	return p
}

// TestRun carries a plan out. Every place has a placeholder before any pod is evicted, and no
// placeholder is left.
func TestRun(t *testing.T) {
	s := newStand(t, wanted(), replica("one", "a"), replica("two", "a"), replica("other", "b"))
	done, err := s.run(plan())
	if err != nil || done.Moved != 2 || !slices.Equal(done.Nodes, []string{"a"}) {
		t.Fatalf("%+v, %v", done, err)
	}
	want := []string{"hold b", "hold c", "keep a", "evict one", "nominate one-new", "drop holder-1", "evict two", "nominate two-new", "drop holder-2",
		"nominate wanted", "drop guard-3"}
	if !slices.Equal(s.log, want) {
		t.Errorf("got  %q\nwant %q", s.log, want)
	}
	for name, node := range map[string]string{"one-new": "b", "two-new": "c", "wanted": "a"} {
		pod, err := s.client.CoreV1().Pods(ns).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil || pod.Spec.NodeName != node {
			t.Errorf("%s: on %q, %v, want %s", name, pod.Spec.NodeName, err, node)
		}
	}
}

// TestRunStops if the cluster differs from the plan. No other pod is evicted, and no placeholder is
// left.
func TestRunStops(t *testing.T) {
	for _, c := range []struct {
		what    string
		change  func(*stand, *Plan)
		moved   int
		evicted int
		want    string
	}{
		{"gone", func(_ *stand, p *Plan) { p.Moves[0].Pod.Name = "nobody" }, 0, 0, "step 1, default/nobody: the cluster differs from the plan: pod default/nobody is gone"},
		{"another of the name", func(_ *stand, p *Plan) { p.Moves[1].Pod.UID = "else" }, 0, 0, "step 2, default/two: the cluster differs from the plan: pod default/two is gone"},
		{"elsewhere", func(_ *stand, p *Plan) { p.Moves[0].From = "c" }, 0, 0, `it is on node "a", not on c`},
		{"wanted gone", func(_ *stand, p *Plan) { p.Wanted[0].UID = "else" }, 0, 0, "pod default/wanted is gone"},
		{"wanted is being deleted", func(s *stand, _ *Plan) { s.turns(0, deleted) }, 0, 0, "pod default/wanted: it is being deleted"},
		{"wanted ends while places are held", func(s *stand, _ *Plan) { s.turns(2, ended) }, 0, 0, "pod default/wanted: it has ended (status.phase: Failed)"},
		{"wanted is gated", func(s *stand, _ *Plan) { s.turns(0, gated) }, 0, 0, "pod default/wanted: it has the scheduling gate example.com/quota"},
		{"the place is taken", func(s *stand, _ *Plan) { s.refuses = true }, 0, 0, "the kubelet of b refused pod holder-1: TopologyAffinityError"},
		{"the holder goes elsewhere", func(s *stand, _ *Plan) { s.holderGoes = "c" }, 0, 0, "pod holder-1 went to c, not to b"},
		{"the holder is gated", func(s *stand, _ *Plan) { s.gates = true }, 0, 0, "for the admission of pod holder-1, without success: it has the scheduling gate example.com/quota"},
		{"a budget", func(s *stand, _ *Plan) { s.keeps = true }, 0, 0, "for the eviction, which a PodDisruptionBudget forbids, without success"},
		{"it comes back", func(s *stand, _ *Plan) { s.newGoes = "a" }, 0, 1, "the new pod one-new came back to a"},
		{"no room after all", func(s *stand, _ *Plan) { s.stuck = true }, 2, 2, "waited 2m0s for a node for default/wanted, without success; the scheduler's message about default/wanted: no room"},
		{"nothing comes", func(s *stand, _ *Plan) { s.barren = true }, 0, 1, "for a new place for it, without success"},
	} {
		t.Run(c.what, func(t *testing.T) {
			s := newStand(t, wanted(), replica("one", "a"), replica("two", "a"))
			p := plan()
			c.change(s, p)
			done, err := s.run(p)
			if !errors.Is(err, ErrChanged) || !strings.Contains(err.Error(), c.want) || done.Moved != c.moved {
				t.Errorf("%d moved, error %v, want %d and %q", done.Moved, err, c.moved, c.want)
			}
			evicted := 0
			for _, line := range s.log {
				if strings.HasPrefix(line, "evict ") {
					evicted++
				}
			}
			left, err := s.client.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{LabelSelector: HolderLabel})
			if err != nil || len(left.Items) > 0 || evicted != c.evicted {
				t.Errorf("%d evicted, want %d; %d holders left, %v", evicted, c.evicted, len(left.Items), err)
			}
		})
	}
}

func deleted(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }
func ended(p *corev1.Pod)   { p.Status.Phase = corev1.PodFailed }
func gated(p *corev1.Pod) {
	p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/quota"}}
}

// turns changes the wanted pod when this number of placeholders has been created.
func (s *stand) turns(holders int, change func(*corev1.Pod)) {
	now := func() {
		pod := wanted()
		change(pod)
		if err := s.client.Tracker().Update(corev1.SchemeGroupVersion.WithResource("pods"), pod, ns); err != nil {
			s.Error(err)
		}
	}
	if holders == 0 {
		now()
		return
	}
	made := 0
	s.client.PrependReactor("create", "pods", func(a ktesting.Action) (bool, runtime.Object, error) {
		if made++; a.GetSubresource() == "" && made == holders {
			now()
		}
		return false, nil, nil
	})
}

// TestRunKeepsPlaces: the new pod of the first step does not get the place of the second.
func TestRunKeepsPlaces(t *testing.T) {
	s := newStand(t, wanted(), replica("one", "a"), replica("two", "a"))
	s.narrow = "c"
	done, err := s.run(plan())
	if err != nil || done.Moved != 2 || !slices.Equal(done.Nodes, []string{"a"}) {
		t.Errorf("%+v, %v; %q", done, err, s.log)
	}
}

// TestRunChain: the place of another pod in the plan gets its placeholder when that pod is gone,
// not before.
func TestRunChain(t *testing.T) {
	s := newStand(t, wanted(), replica("one", "b"), replica("two", "a"))
	p := plan()
	p.Moves = []Move{{Pod{ns, "one", "uid-one"}, "b", "c"}, {Pod{ns, "two", "uid-two"}, "a", "b"}}
	done, err := s.run(p)
	want := []string{"hold c", "keep a", "keep b", "evict one", "nominate one-new", "drop holder-1",
		"hold b", "drop guard-3", "evict two", "nominate two-new", "drop holder-4", "nominate wanted", "drop guard-2"}
	if err != nil || done.Moved != 2 || !slices.Equal(done.Nodes, []string{"a"}) || !slices.Equal(s.log, want) {
		t.Errorf("%+v, %v\ngot  %q\nwant %q", done, err, s.log, want)
	}
}

// TestRunHoldsAgain: if a placeholder ends before its step, a new one is created.
func TestRunHoldsAgain(t *testing.T) {
	s := newStand(t, wanted(), replica("one", "a"), replica("two", "a"))
	tracker, pods := s.client.Tracker(), corev1.SchemeGroupVersion.WithResource("pods")
	s.ends = func() error { return tracker.Delete(pods, ns, "holder-2") }
	done, err := s.run(plan())
	want := []string{"hold b", "hold c", "keep a", "evict one", "nominate one-new", "drop holder-1",
		"hold c", "evict two", "nominate two-new", "drop holder-4", "nominate wanted", "drop guard-3"}
	if err != nil || done.Moved != 2 || !slices.Equal(done.Nodes, []string{"a"}) || !slices.Equal(s.log, want) {
		t.Errorf("%+v, %v\ngot  %q\nwant %q", done, err, s.log, want)
	}
}

// TestRunKeepsRoom: a new pod does not get the room that the wanted pod needs, even if the
// scheduler would place it there. It does not come back to its old node either.
func TestRunKeepsRoom(t *testing.T) {
	for _, from := range []string{"a", "b"} {
		s := newStand(t, wanted(), replica("one", from))
		s.greedy = "a"
		p := plan()
		p.Moves = []Move{{Pod{ns, "one", "uid-one"}, from, "c"}}
		done, err := s.run(p)
		if err != nil || done.Moved != 1 || s.nodeOf("one-new") != "c" || s.nodeOf("wanted") != "a" {
			t.Errorf("from %s: %+v, %v: on %q; %q", from, done, err, s.nodeOf("one-new"), s.log)
		}
	}
}

// TestRunWaitsForTheEnd: the next place gets its placeholder, and the wanted pod its node, only
// when the evicted pod is gone.
func TestRunWaitsForTheEnd(t *testing.T) {
	s := newStand(t, wanted(), replica("one", "a"))
	s.lingers = true
	p := plan()
	p.Moves = p.Moves[:1]
	done, err := s.run(p)
	if err == nil || !strings.Contains(err.Error(), "for its end, without success") || done.Nodes[0] != "" || s.nodeOf("one-new") != "b" {
		t.Errorf("%+v, %v; %q", done, err, s.log)
	}
}

// slowly sets the pod's grace period.
func slowly(p *corev1.Pod, grace time.Duration) *corev1.Pod {
	seconds := int64(grace / time.Second)
	p.Spec.TerminationGracePeriodSeconds = &seconds
	return p
}

// TestRunWaitsForAStatefulSet: the new pod is created when the old one has used up its grace
// period. Until then, placeholders keep the places of later steps, and are replaced if necessary.
func TestRunWaitsForAStatefulSet(t *testing.T) {
	s := newStand(t, wanted(), slowly(replica("one", "a"), MostGrace), slowly(replica("two", "a"), MostGrace))
	s.slow = MostGrace
	done, err := s.run(plan())
	want := []string{"hold b", "hold c", "keep a", "evict one", "evict one", "nominate one-new", "drop holder-1",
		"drop holder-2", "hold c", "drop guard-3", "keep a", "evict two", "nominate two-new", "drop holder-4", "nominate wanted", "drop guard-5"}
	if err != nil || done.Moved != 2 || !slices.Equal(s.log, want) {
		t.Errorf("%+v, %v\ngot  %q\nwant %q", done, err, s.log, want)
	}
}

// TestRunRefusesTheSlow: no pod is evicted if a placeholder would end before a pod of the plan has
// ended.
func TestRunRefusesTheSlow(t *testing.T) {
	s := newStand(t, wanted(), replica("one", "a"), slowly(replica("two", "a"), MostGrace+time.Second))
	done, err := s.run(plan())
	if want := "step 2, default/two: spec.terminationGracePeriodSeconds: 601: want at most 600"; err == nil || !strings.Contains(err.Error(), want) || done.Moved > 0 || slices.Contains(s.log, "evict one") {
		t.Errorf("%+v, %v, want %q; %q", done, err, want, s.log)
	}
}

// TestRunForSeveral: all wanted pods get nodes when all moves are done.
func TestRunForSeveral(t *testing.T) {
	second := wanted()
	second.Name, second.UID = "second", "uid-second"
	s := newStand(t, wanted(), second, replica("one", "a"), replica("two", "b"))
	p := plan()
	p.Wanted = append(p.Wanted, Wanted{Pod{ns, "second", "uid-second"}, "b"})
	p.Moves = []Move{{Pod{ns, "one", "uid-one"}, "a", "c"}, {Pod{ns, "two", "uid-two"}, "b", "c"}}
	done, err := s.run(p)
	if err != nil || done.Moved != 2 || !slices.Equal(done.Nodes, []string{"a", "b"}) {
		t.Errorf("%+v, %v: %q", done, err, s.log)
	}
	if i := slices.Index(s.log, "nominate wanted"); i < slices.Index(s.log, "evict two") {
		t.Errorf("a wanted pod came before all had moved: %q", s.log)
	}
}

// TestRunEndsEarly: no more pods move when the wanted pod has found a node.
func TestRunEndsEarly(t *testing.T) {
	s := newStand(t, wanted(), replica("one", "a"), replica("two", "a"))
	s.ends = func() error {
		pod := wanted()
		pod.Spec.NodeName = "d"
		return s.client.Tracker().Update(corev1.SchemeGroupVersion.WithResource("pods"), pod, ns)
	}
	done, err := s.run(plan())
	left, errList := s.client.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{LabelSelector: HolderLabel})
	if err != nil || errList != nil || done.Moved != 1 || done.Nodes[0] != "d" || len(left.Items) > 0 {
		t.Errorf("%+v, %v; %d left; %q", done, err, len(left.Items), s.log)
	}
}

// nodeOf returns the node of a pod.
func (s *stand) nodeOf(name string) string {
	pod, err := s.client.CoreV1().Pods(ns).Get(s.Context(), name, metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	return pod.Spec.NodeName
}

// TestGuard: a guard requests no resources, and keeps all pods away except placeholders of its plan
// and DaemonSet pods.
func TestGuard(t *testing.T) {
	w := wanted()
	w.Spec.PriorityClassName = "high"
	r := &runner{plan: plan(), wanted: []*corev1.Pod{w}}
	g := r.guardOf("a")
	if g.Spec.NodeName != "a" || g.Spec.PriorityClassName != "high" || *g.Spec.ActiveDeadlineSeconds != 900 {
		t.Errorf("%+v", g.Spec)
	}
	if ask, err := wire.ReadPod(g); err != nil || ask.Request.Pinnable() {
		t.Errorf("a guard asks: %+v, %v", ask, err)
	}
	selector, err := metav1.LabelSelectorAsSelector(g.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].LabelSelector)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		labels labels.Set
		off    bool
	}{
		{nil, true}, {labels.Set{"app": "x"}, true}, {labels.Set{HolderLabel: "another-plan"}, true},
		{labels.Set{HolderLabel: "uid-two"}, false}, {labels.Set{"pod-template-generation": "1"}, false},
	} {
		if selector.Matches(c.labels) != c.off {
			t.Errorf("%v: kept off %v, want %v", c.labels, !c.off, c.off)
		}
	}
}

// TestElsewhere: a new pod may be placed on another node than its placeholder.
func TestElsewhere(t *testing.T) {
	s := newStand(t, wanted(), replica("one", "a"))
	s.newGoes = "d"
	p := plan()
	p.Moves = p.Moves[:1]
	done, err := s.run(p)
	if err != nil && !strings.Contains(err.Error(), "a node for default/wanted") || done.Moved != 1 {
		t.Errorf("%+v, %v", done, err)
	}
}

// TestRunListsLittle: while waiting for a new pod, only pods of its controller are listed, if a
// selector finds it reliably.
func TestRunListsLittle(t *testing.T) {
	for _, c := range []struct {
		kind, hash string
		want       metav1.ListOptions
	}{
		{"ReplicaSet", "abc", metav1.ListOptions{LabelSelector: "pod-template-hash=abc"}},
		{"ReplicaSet", "", metav1.ListOptions{}},
		{"StatefulSet", "abc", metav1.ListOptions{FieldSelector: "metadata.name=one"}},
		{"CloneSet", "abc", metav1.ListOptions{}},
	} {
		old := replica("one", "a")
		old.OwnerReferences[0].Kind = c.kind
		if c.hash != "" {
			old.Labels[appsv1.DefaultDeploymentUniqueLabelKey] = c.hash
		}
		s := newStand(t, old)
		s.client.PrependReactor("list", "pods", func(ktesting.Action) (bool, runtime.Object, error) {
			return true, &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "7"}, Items: []corev1.Pod{*old}}, nil
		})
		r := &runner{Options: Options{Pods: s.client.CoreV1()}}
		before, err := r.siblings(t.Context(), old, "")
		if err != nil || before.byUID["uid-one"] == nil {
			t.Errorf("%s: %+v, %v", c.kind, before, err)
		}
		if _, err := r.siblings(t.Context(), old, before.version); err != nil {
			t.Error(err)
		}
		var got []metav1.ListOptions
		for _, a := range s.client.Actions() {
			got = append(got, a.(ktesting.ListActionImpl).ListOptions)
		}
		later := c.want
		later.ResourceVersion, later.ResourceVersionMatch = "7", metav1.ResourceVersionMatchNotOlderThan
		if !slices.Equal(got, []metav1.ListOptions{c.want, later}) {
			t.Errorf("%s: lists %+v, want %+v, then with the version", c.kind, got, c.want)
		}
	}
}

// TestHurry: a new pod may be bound just before it would be nominated. The API server then refuses
// the nomination, which is no error.
func TestHurry(t *testing.T) {
	s := newStand(t, wanted(), replica("one", "a"), replica("two", "a"))
	s.hurries = true
	done, err := s.run(plan())
	if err != nil || done.Moved != 2 || !slices.Equal(done.Nodes, []string{"a"}) {
		t.Errorf("%+v, %v; %q", done, err, s.log)
	}
}

// TestHolder: a placeholder has the pod's requests, and nothing else of it.
func TestHolder(t *testing.T) {
	pod := replica("one", "a")
	pod.Annotations = map[string]string{"berth.dev/policy": "restricted", "berth.dev/devices": "same-switch", "secret": "x"}
	metav1.SetMetaDataLabel(&pod.ObjectMeta, "koordinator.sh/qosClass", "LSR")
	pod.Spec.Volumes = []corev1.Volume{{Name: "data"}}
	h := holderOf(pod, "b", DefaultImage)
	c := &h.Spec.Containers[0]
	if len(c.Command)+len(c.Env)+len(h.Spec.Volumes)+len(h.OwnerReferences) > 0 || c.Image != DefaultImage ||
		h.Annotations["berth.dev/policy"] != "restricted" || h.Annotations["berth.dev/devices"] != "same-switch" || len(h.Annotations) != 2 || h.Labels["koordinator.sh/qosClass"] != "LSR" || *h.Spec.ActiveDeadlineSeconds != 900 {
		t.Errorf("%+v", h)
	}
}
