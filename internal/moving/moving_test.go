package moving

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"
)

const ns = "default"

// stand is a cluster in which a controller makes evicted pods anew. Its scheduler binds holders at
// once, and a pod that waits when its holder is deleted.
type stand struct {
	*testing.T
	client *fake.Clientset
	// log is what was written, in order.
	log []string
	// What goes otherwise than planned.
	holderGoes, newGoes string
	keeps               bool // a budget forbids every eviction
	refuses             bool // the kubelet refuses holders
	barren              bool // the controller makes nothing anew
	hurries             bool // the scheduler binds a new pod just before it is nominated
	// narrow is a node with room for one pod: a new pod goes there at once while there is none, and
	// a holder only then.
	narrow string
	// ends is called at the first eviction; nil does nothing.
	ends func() error
}

func replica(name, node string) *corev1.Pod {
	yes := true
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: ns, UID: types.UID("uid-" + name),
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
		pod.Name, pod.UID = fmt.Sprint("holder-", made), types.UID(fmt.Sprint("holder-", made))
		terms := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
		pod.Spec.NodeName = terms[0].MatchFields[0].Values[0]
		if s.holderGoes != "" {
			pod.Spec.NodeName = s.holderGoes
		}
		if pod.Spec.NodeName == s.narrow && s.taken(tracker, gvr) {
			pod.Spec.NodeName = ""
		}
		if s.refuses {
			pod.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "TopologyAffinityError"}
		}
		s.log = append(s.log, "hold "+pod.Spec.NodeName)
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

// evicted deletes a pod, and makes another.
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
	if err := tracker.Delete(pods, ns, e.Name); err != nil || s.barren {
		return true, nil, err
	}
	goes := s.newGoes
	if s.narrow != "" && !s.taken(tracker, pods) {
		goes = s.narrow
	}
	return true, nil, tracker.Create(pods, replica(e.Name+"-new", goes), ns)
}

// taken says whether a pod is on the narrow node.
func (s *stand) taken(tracker ktesting.ObjectTracker, pods schema.GroupVersionResource) bool {
	list, err := tracker.List(pods, corev1.SchemeGroupVersion.WithKind("Pod"), ns)
	if err != nil {
		s.Error(err)
		return false
	}
	return slices.ContainsFunc(list.(*corev1.PodList).Items, func(p corev1.Pod) bool { return p.Spec.NodeName == s.narrow })
}

// schedule binds what is nominated.
func (s *stand) schedule(tracker ktesting.ObjectTracker, pods schema.GroupVersionResource) error {
	list, err := tracker.List(pods, corev1.SchemeGroupVersion.WithKind("Pod"), ns)
	if err != nil {
		return err
	}
	for i := range list.(*corev1.PodList).Items {
		pod := &list.(*corev1.PodList).Items[i]
		if pod.Spec.NodeName == "" && pod.Status.NominatedNodeName != "" {
			pod.Spec.NodeName = pod.Status.NominatedNodeName
			if err := tracker.Update(pods, pod, ns); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *stand) run(plan *Plan) (Done, error) {
	return Run(s.Context(), plan, Options{Pods: s.client.CoreV1(), Tell: s.Logf, Limit: 500 * time.Millisecond})
}

func plan() *Plan {
	return &Plan{
		Wanted: Pod{ns, "wanted", "uid-wanted"}, Node: "a",
		Moves: []Move{{Pod{ns, "one", "uid-one"}, "a", "b"}, {Pod{ns, "two", "uid-two"}, "a", "c"}},
	}
}

func wanted() *corev1.Pod {
	p := replica("wanted", "")
	p.OwnerReferences = nil
	return p
}

// TestRun carries a plan out: every place is held before any pod is evicted, and no holder is left.
func TestRun(t *testing.T) {
	s := newStand(t, wanted(), replica("one", "a"), replica("two", "a"), replica("other", "b"))
	done, err := s.run(plan())
	if err != nil || done != (Done{Moved: 2, Node: "a"}) {
		t.Fatalf("%+v, %v", done, err)
	}
	want := []string{"nominate wanted", "hold b", "hold c", "evict one", "nominate one-new", "drop holder-1", "evict two", "nominate two-new", "drop holder-2"}
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

// TestRunStops where the cluster is not as planned: nobody else is evicted, and no holder stays.
func TestRunStops(t *testing.T) {
	for _, c := range []struct {
		what    string
		change  func(*stand, *Plan)
		moved   int
		evicted int
		want    string
	}{
		{"gone", func(_ *stand, p *Plan) { p.Moves[0].Pod.Name = "nobody" }, 0, 0, "step 1, default/nobody: the cluster is not as the plan has it: pod default/nobody is gone"},
		{"another of the name", func(_ *stand, p *Plan) { p.Moves[1].Pod.UID = "else" }, 0, 0, "step 2, default/two: the cluster is not as the plan has it: pod default/two is gone"},
		{"elsewhere", func(_ *stand, p *Plan) { p.Moves[0].From = "c" }, 0, 0, `it is on node "a", not on c`},
		{"wanted gone", func(_ *stand, p *Plan) { p.Wanted.UID = "else" }, 0, 0, "pod default/wanted is gone"},
		{"the place is taken", func(s *stand, _ *Plan) { s.refuses = true }, 0, 0, "the kubelet of b refused the holder: TopologyAffinityError"},
		{"the holder goes elsewhere", func(s *stand, _ *Plan) { s.holderGoes = "c" }, 0, 0, "the holder went to c, not to b"},
		{"a budget", func(s *stand, _ *Plan) { s.keeps = true }, 0, 0, "the eviction, which a PodDisruptionBudget forbids, did not happen within"},
		{"it comes back", func(s *stand, _ *Plan) { s.newGoes = "a" }, 0, 1, "the new pod one-new came back to a"},
		{"nothing comes", func(s *stand, _ *Plan) { s.barren = true }, 0, 1, "a new place for it did not happen within"},
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

// TestRunKeepsPlaces: the new pod of the first step does not get the place of the second.
func TestRunKeepsPlaces(t *testing.T) {
	s := newStand(t, wanted(), replica("one", "a"), replica("two", "a"))
	s.narrow = "c"
	done, err := s.run(plan())
	if err != nil || done != (Done{Moved: 2, Node: "a"}) {
		t.Errorf("%+v, %v; %q", done, err, s.log)
	}
}

// TestRunChain: a place that another pod of the plan has is held when that has left, not before.
func TestRunChain(t *testing.T) {
	s := newStand(t, wanted(), replica("one", "b"), replica("two", "a"))
	p := plan()
	p.Moves = []Move{{Pod{ns, "one", "uid-one"}, "b", "c"}, {Pod{ns, "two", "uid-two"}, "a", "b"}}
	done, err := s.run(p)
	want := []string{"nominate wanted", "hold c", "evict one", "nominate one-new", "drop holder-1", "hold b", "evict two", "nominate two-new", "drop holder-2"}
	if err != nil || done != (Done{Moved: 2, Node: "a"}) || !slices.Equal(s.log, want) {
		t.Errorf("%+v, %v\ngot  %q\nwant %q", done, err, s.log, want)
	}
}

// TestRunHoldsAgain where a holder ended before its step.
func TestRunHoldsAgain(t *testing.T) {
	s := newStand(t, wanted(), replica("one", "a"), replica("two", "a"))
	tracker, pods := s.client.Tracker(), corev1.SchemeGroupVersion.WithResource("pods")
	s.ends = func() error { return tracker.Delete(pods, ns, "holder-2") }
	done, err := s.run(plan())
	want := []string{"nominate wanted", "hold b", "hold c", "evict one", "nominate one-new", "drop holder-1", "hold c", "evict two", "nominate two-new", "drop holder-3"}
	if err != nil || done != (Done{Moved: 2, Node: "a"}) || !slices.Equal(s.log, want) {
		t.Errorf("%+v, %v\ngot  %q\nwant %q", done, err, s.log, want)
	}
}

// TestElsewhere: a new pod that finds another place than the one held for it is well.
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

// TestHurry: a new pod that gets a node just before it would be nominated is well; the API server
// says that it may not be nominated any more.
func TestHurry(t *testing.T) {
	s := newStand(t, wanted(), replica("one", "a"), replica("two", "a"))
	s.hurries = true
	done, err := s.run(plan())
	if err != nil || done != (Done{Moved: 2, Node: "a"}) {
		t.Errorf("%+v, %v; %q", done, err, s.log)
	}
}

// TestHolder asks for the same, and has nothing else of the pod.
func TestHolder(t *testing.T) {
	pod := replica("one", "a")
	pod.Annotations = map[string]string{"berth.dev/policy": "restricted", "secret": "x"}
	pod.Spec.Volumes = []corev1.Volume{{Name: "data"}}
	h := holderOf(pod, "b", DefaultImage)
	c := &h.Spec.Containers[0]
	if len(c.Command)+len(c.Env)+len(h.Spec.Volumes)+len(h.OwnerReferences) > 0 || c.Image != DefaultImage || h.Annotations["berth.dev/policy"] != "restricted" || len(h.Annotations) != 1 || *h.Spec.ActiveDeadlineSeconds != 900 {
		t.Errorf("%+v", h)
	}
}
