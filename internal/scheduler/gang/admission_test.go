package gang

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/internal/amounts"
	"github.com/berth-dev/berth/internal/gangfit"
	"github.com/berth-dev/berth/internal/gangs"
	"github.com/berth-dev/berth/internal/wire"
)

// object makes the watch show a PodGroup of Volcano with minResources of these CPUs.
func (w *world) object(name string, minimum int, cpus string, say ...func(*wire.Gang)) wire.GangKey {
	spec := wire.Gang{Key: volcanoKey(name), Version: "5", Minimum: minimum, Phase: "Pending"}
	if cpus != "" {
		spec.Resources = corev1.ResourceList{"cpu": resource.MustParse(cpus)}
	}
	for _, more := range say {
		more(&spec)
	}
	w.mu.Lock()
	if w.objects == nil {
		w.objects = map[wire.GangKey]wire.Gang{}
	}
	w.objects[spec.Key] = spec
	w.mu.Unlock()
	w.groups.book.Objects, w.groups.book.Room = w, w.there
	w.groups.ObjectSeen(spec, nil)
	return spec.Key
}

func volcanoKey(name string) wire.GangKey {
	return wire.GangKey{Source: wire.GangOfVolcano, Namespace: "default", Name: name}
}

// staged returns a pod of a group of Volcano.
func staged(group, name string, cpus int, priority int32) *corev1.Pod {
	p := taskOf(group, group+"-"+name, "")
	p.Spec = podOf(group, name, 1, cpus).Spec
	p.Spec.Priority = &priority
	return p
}

func (w *world) phase(key wire.GangKey) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.objects[key].Phase
}

// shown makes the watch show what was written.
func (w *world) shown(keys ...wire.GangKey) {
	for _, key := range keys {
		w.mu.Lock()
		spec := w.objects[key]
		w.mu.Unlock()
		w.groups.ObjectSeen(spec, nil)
	}
}

// TestMinResourcesDoNotKeepAGangFromEvicting: this is true on a full cluster.
func TestMinResourcesDoNotKeepAGangFromEvicting(t *testing.T) {
	for name, c := range map[string]struct {
		terms Terms
		want  int
	}{"it evicts": {want: 2}, "nobody is evicted": {terms: Terms{EvictsNobody: true}}} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 1, func(w *world) {
				w.terms = c.terms
				w.object("low", 2, "6")
				w.create(staged("low", "0", 3, 1))
				w.create(staged("low", "1", 3, 1))
				w.run(time.Second)
				w.want("low", 2, 2)
				w.object("high", 2, "6")
				w.create(staged("high", "0", 3, 9))
				w.create(staged("high", "1", 3, 9))
				w.run(time.Minute)
				w.want("high", c.want, 2)
				if c.want == 0 && !strings.Contains(w.said(), "minResources asks for 6 CPUs, and 1 is free") {
					t.Error("nobody says why")
				}
			})
		})
	}
}

// TestProtectedPodsMakeNoRoom: protected pods are not evicted for a group that names resources.
func TestProtectedPodsMakeNoRoom(t *testing.T) {
	keep := map[string]string{wire.PreemptableKey: "false"}
	for name, c := range map[string]struct {
		group, pod map[string]string
		priority   int32
		want       string
	}{
		"nothing is protected":        {nil, nil, 9, "Inqueue"},
		"a pod is":                    {nil, keep, 9, "Pending"},
		"the gang is":                 {keep, nil, 9, "Pending"},
		"not from what is critical":   {nil, keep, gangfit.SystemCritical, "Inqueue"},
		"nor the gang from such pods": {keep, nil, gangfit.SystemCritical, "Inqueue"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 1, func(w *world) {
				w.object("low", 2, "6", func(g *wire.Gang) { g.Kept = c.group != nil })
				for _, n := range []string{"0", "1"} {
					pod := staged("low", n, 3, 1)
					maps.Copy(pod.Annotations, c.pod)
					w.create(pod)
				}
				w.run(time.Second)
				w.want("low", 2, 2)
				key := w.object("high", 2, "6")
				w.create(staged("high", "0", 3, c.priority)) // the other pods come when it is Inqueue
				w.run(10 * time.Second)
				if got := w.phase(key); got != c.want {
					t.Errorf("phase %q, want %q: %s", got, c.want, w.said())
				}
				if c.want == "Pending" && !strings.Contains(w.said(), "minResources asks for 6 CPUs, and 1 is free") {
					t.Error("nobody says why")
				}
			})
		})
	}
}

// TestAHighGroupWithoutPodsIsLetIn: on a full cluster, such a group is admitted, because its pods
// will evict others. A group without priority is not.
func TestAHighGroupWithoutPodsIsLetIn(t *testing.T) {
	for name, c := range map[string]struct {
		class, job string
		evictsNone bool
		want       string
	}{
		"by its class":                    {class: "high", want: "Inqueue"},
		"by its Job's class":              {job: "volcano/high", want: "Inqueue"},
		"by the standard class":           {want: "Pending"},
		"of a class that is low":          {class: "low", want: "Pending"},
		"of a class that is gone":         {class: "gone", want: "Pending"},
		"high, and evicting nobody":       {class: "high", evictsNone: true, want: "Pending"},
		"of a class that preempts no pod": {class: "never", want: "Pending"},
		"of a Job with such a class":      {job: "volcano/never", want: "Pending"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 1, func(w *world) {
				w.terms.EvictsNobody = c.evictsNone
				w.classes = map[string]int32{"high": 9, "never": 9, "low": 1, "standard": 2}
				w.object("there", 2, "6")
				w.create(staged("there", "0", 3, 2))
				w.create(staged("there", "1", 3, 2))
				w.run(time.Second)
				w.want("there", 2, 2)
				key := w.object("new", 1, "6", func(g *wire.Gang) { g.PriorityClass, g.Job = c.class, c.job })
				w.run(time.Minute)
				if got := w.phase(key); got != c.want {
					t.Errorf("the phase is %q, want %q", got, c.want)
				}
				told := strings.Contains(w.said(), "minResources asks for 6 CPUs, and 1 is free")
				last := w.stood[len(w.stood)-1]
				if wait := c.want == "Pending"; told != wait || wait != strings.HasPrefix(last.lacking, "minResources asks for 6 CPUs") {
					t.Errorf("an event says why: %t; its status: %+v", told, last)
				}
			})
		})
	}
}

// afterAnother creates a group that takes the room, and then a group without pods, which waits for
// the room unless its priority is above 2. It returns the second group's key.
func afterAnother(w *world) wire.GangKey {
	w.object("there", 2, "6")
	w.create(staged("there", "0", 3, 2))
	w.create(staged("there", "1", 3, 2))
	w.run(time.Second)
	key := w.object("new", 1, "6")
	w.run(time.Minute)
	return key
}

// TestAClassThatComesLater: the priority of a waiting group without pods follows the classes.
func TestAClassThatComesLater(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		key := afterAnother(w)
		if got := w.phase(key); got != "Pending" {
			t.Errorf("the phase is %q without a class", got)
		}
		w.classes = map[string]int32{"standard": 9}
		w.run(time.Minute)
		if got := w.phase(key); got != "Inqueue" {
			t.Errorf("the phase is %q when there is a standard class", got)
		}
	})
	inWorld(t, 1, func(w *world) {
		w.classes = map[string]int32{"standard": 2, "urgent": 9}
		key := afterAnother(w)
		if got := w.phase(key); got != "Pending" {
			t.Errorf("the phase is %q while the standard class is low", got)
		}
		w.standard = "urgent"
		w.run(time.Minute)
		if got := w.phase(key); got != "Inqueue" {
			t.Errorf("the phase is %q when another class is the standard", got)
		}
	})
}

// TestStagedGroupsDoNotDeadlock: if the first pod of a group has a node, the group's unused
// resources are kept from the first pods of other groups, and given to its own pods. This ends when
// the group has all its resources, or after a long time.
func TestStagedGroupsDoNotDeadlock(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		for _, app := range []string{"a", "b", "c"} {
			w.object(app, 1, "4")
			w.create(staged(app, "driver", 1, 0))
		}
		w.run(5 * time.Second)
		first, runs := "", 0
		for _, app := range []string{"a", "b", "c"} {
			if w.bound(app) > 0 {
				first, runs = app, runs+1
			}
		}
		if runs != 1 {
			t.Fatalf("%d drivers run: want one", runs)
		}
		for _, name := range []string{"x", "y", "z"} { // created in different seconds, so that the ledger admits each at once
			w.create(staged(first, name, 1, 0))
			w.run(10 * time.Second)
		}
		w.want(first, 4, 4)
		w.end(first)
		w.run(time.Minute)
		if n := w.bound("a") + w.bound("b") + w.bound("c"); n != 1 {
			t.Errorf("%d of the other drivers run when the first application has ended: want one", n)
		}
	})
}

// TestNodesThatAreNotReadyHaveNoRoom: two applications need 4 CPUs each, in stages. 7 CPUs are on a
// node that is ready, and 7 on a node that is not. So only one of them starts.
func TestNodesThatAreNotReadyHaveNoRoom(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		w.nodes[1].Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}}
		for _, app := range []string{"a", "b"} {
			w.object(app, 1, "4")
			w.create(staged(app, "driver", 1, 0))
		}
		w.run(5 * time.Second)
		if n := w.bound("a") + w.bound("b"); n != 1 {
			t.Errorf("%d drivers run: want one", n)
		}
	})
}

// TestWhatIsKeptEnds: kept resources are released at the group's deadline, and at once if the
// group's object is deleted.
func TestWhatIsKeptEnds(t *testing.T) {
	for name, end := range map[string]func(*world, wire.GangKey){
		"at the deadline":     func(w *world, _ wire.GangKey) { w.run(4 * time.Minute) },
		"its object is gone":  func(w *world, key wire.GangKey) { w.groups.ObjectGone(key); w.run(time.Second) },
		"nothing is kept":     nil,
		"there is no gate":    nil,
		"more is given away":  nil,
		"the other is higher": nil,
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 1, func(w *world) {
				priority, want := int32(0), 1
				switch name {
				case "nothing is kept":
					w.terms.Admission.KeepFor = duration(-1)
				case "there is no gate":
					w.terms.Admission.Gate = gangs.GateNone
				case "more is given away":
					w.terms.Admission.OvercommitFactor = 1.5
				case "the other is higher":
					priority = 1
				default:
					want = 0
				}
				a := w.object("a", 1, "5")
				w.create(staged("a", "driver", 1, 0))
				w.run(time.Second)
				w.object("b", 1, "4")
				w.create(staged("b", "driver", 1, priority))
				w.run(2 * time.Minute)
				if n := w.bound("b"); n != want {
					t.Fatalf("%d drivers of the other group run: want %d", n, want)
				}
				if end != nil {
					end(w, a)
					w.want("b", 1, 2)
				}
			})
		})
	}
}

// TestGatedPodsKeepNothing: the group was admitted before its pods existed, and all or most of its
// pods have scheduling gates. It keeps its resources only if it does not need the gated pods.
func TestGatedPodsKeepNothing(t *testing.T) {
	for name, c := range map[string]struct{ open, want int }{"all pods": {0, 2}, "a pod that it needs": {2, 1}, "a pod beyond the minimum": {3, 0}} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 1, func(w *world) {
				w.pending = map[string]bool{"n0": true} // the group waits for a report
				a := w.object("a", 3, "6")
				w.run(time.Second)
				w.shown(a)
				for i := range 4 {
					pod := staged("a", fmt.Sprint(i), 2, 0)
					if i >= c.open {
						pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/quota"}}
					}
					w.create(pod)
				}
				w.run(time.Second)
				for _, other := range []string{"b", "c"} {
					w.object(other, 1, "3")
					w.run(5 * time.Second)
				}
				if got := w.phase(volcanoKey("b")) + " " + w.phase(volcanoKey("c")); strings.Count(got, "Inqueue") != c.want {
					t.Errorf("the phases of the other groups are %s: want %d admitted", got, c.want)
				}
			})
		})
	}
}

// TestAGroupKeepsWhatWasFree: a tenant who raises the minResources of an admitted group, writes its
// phase, or has no quota for them keeps no more resources from groups of other namespaces.
func TestAGroupKeepsWhatWasFree(t *testing.T) {
	huge := func(g *wire.Gang) {
		g.Version, g.Phase, g.Resources = "900", "Inqueue", corev1.ResourceList{"cpu": resource.MustParse("340874")}
	}
	high := func(g *wire.Gang) { g.PriorityClass = "high" }
	driver := func(w *world) {
		w.object("a", 2, "4")
		w.run(3 * time.Second)
		pod := staged("a", "driver", 1, 0)
		pod.Spec.PriorityClassName = "high"
		w.create(pod)
	}
	for name, c := range map[string]struct {
		begin func(*world)
		quota amounts.List // what pods may still request
		class string       // the class of the pods that the quota covers; "" means all pods
		want  string       // the phase of another group that requests 5 of 7 CPUs
	}{
		"before its pods": {func(w *world) {
			w.object("a", 2, "4")
			w.run(3 * time.Second)
			w.object("a", 2, "", huge)
		}, nil, "", "Pending"},
		"before its pods get nodes": {func(w *world) {
			w.object("a", 1, "2")
			w.run(3 * time.Second)
			w.object("a", 1, "", huge)
			w.create(staged("a", "driver", 1, 0))
		}, nil, "", "Inqueue"},
		"when its pods have nodes": {func(w *world) {
			w.object("a", 1, "2")
			w.create(staged("a", "driver", 1, 0))
			w.run(3 * time.Second)
			w.object("a", 1, "", huge)
		}, nil, "", "Inqueue"},
		"which had none": {func(w *world) {
			w.object("a", 1, "")
			w.create(staged("a", "driver", 1, 0))
			w.run(3 * time.Second)
			w.object("a", 1, "", huge)
		}, nil, "", "Inqueue"},
		"only its phase shows it": {func(w *world) { w.object("a", 2, "", huge) }, nil, "", "Inqueue"},
		"when it is not admitted": {func(w *world) { w.object("a", 2, "", huge, func(g *wire.Gang) { g.Phase = "Pending" }) }, nil, "", "Inqueue"},
		"with a quota for it":     {func(w *world) { w.object("a", 2, "4") }, amounts.List{amounts.CPU: 4000}, "", "Pending"},
		"with a quota for less":   {func(w *world) { w.object("a", 2, "4") }, amounts.List{amounts.CPU: 2000}, "", "Inqueue"},
		"with a quota for memory": {func(w *world) { w.object("a", 2, "4") }, amounts.List{amounts.Memory: 0}, "", "Pending"},
		"with a quota for one": {func(w *world) {
			w.object("a", 2, "2")
			w.object("c", 2, "2")
			w.object("d", 2, "2")
		}, amounts.List{amounts.CPU: 2000}, "", "Inqueue"},
		"its pods use the quota": {func(w *world) {
			w.object("a", 2, "4")
			w.run(3 * time.Second)
			w.create(staged("a", "driver", 4, 0))
		}, amounts.List{amounts.CPU: 0}, "", "Pending"},
		"whatever its driver is": {func(w *world) {
			w.object("a", 1, "7")
			w.create(staged("a", "driver", 1, 0))
		}, amounts.List{amounts.CPU: 1000}, "", "Inqueue"},
		"with a quota for its class":      {func(w *world) { w.object("a", 2, "4", high) }, amounts.List{amounts.CPU: 2000}, "high", "Inqueue"},
		"with a quota for another class":  {func(w *world) { w.object("a", 2, "4", high) }, amounts.List{amounts.CPU: 2000}, "low", "Pending"},
		"with one for the standard class": {func(w *world) { w.object("a", 2, "4") }, amounts.List{amounts.CPU: 2000}, "standard", "Inqueue"},
		"whose pods the quota covers":     {driver, amounts.List{amounts.CPU: 0}, "high", "Inqueue"},
		"whose pods it does not cover":    {driver, amounts.List{amounts.CPU: 0}, "low", "Pending"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 1, func(w *world) {
				if c.quota != nil {
					w.groups.book.Quotas = func(namespace string) []Quota {
						if namespace != "default" {
							return nil
						}
						return []Quota{{c.quota, func(pod *corev1.Pod) bool { return c.class == "" || c.class == pod.Spec.PriorityClassName }}}
					}
				}
				w.classes = map[string]int32{"high": 9, "low": 0, "standard": 0}
				c.begin(w)
				w.run(3 * time.Second)
				b := w.object("b", 1, "5", func(g *wire.Gang) { g.Key.Namespace = "other" })
				w.run(3 * time.Second)
				if got := w.phase(b); got != c.want {
					t.Errorf("the phase of the other group is %q: want %q; %v", got, c.want, w.stood)
				}
			})
		})
	}
}

// TestOneIsLetInBeforeItsPods: of two groups without pods that together request too much, one is
// admitted. The other follows when the first group has kept its resources long enough without pods.
// The namespace of the first group then keeps nothing from other groups for a while.
func TestOneIsLetInBeforeItsPods(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		a, b := w.object("a", 1, "4"), w.object("b", 1, "4", func(g *wire.Gang) { g.Key.Namespace = "other" })
		w.run(time.Minute)
		if x, y := w.phase(a), w.phase(b); x != "Inqueue" || y != "Pending" {
			t.Fatalf("the phases are %q and %q", x, y)
		}
		if why := w.stood[len(w.stood)-1].lacking; why != "minResources asks for 4 CPUs, and 7 are free, 4 are kept for groups that were admitted before" {
			t.Errorf("the second is told %q", why)
		}
		w.run(5 * time.Minute)
		if y := w.phase(b); y != "Inqueue" {
			t.Fatalf("the phase of the second is %q when the first has kept something for long enough", y)
		}
		w.shown(a, b)
		w.run(6 * time.Minute) // until no resources are kept for either
		c := w.object("c", 1, "7")
		w.run(3 * time.Second)
		d := w.object("d", 1, "7", func(g *wire.Gang) { g.Key.Namespace = "third" })
		e := w.object("e", 1, "7")
		w.run(3 * time.Second)
		if x, y, z := w.phase(c), w.phase(d), w.phase(e); x != "Inqueue" || y != "Inqueue" || z != "Pending" {
			t.Errorf("the phases are %q, %q and %q: want the namespace to keep nothing from another, and something from itself", x, y, z)
		}
	})
}

// TestAClassThatOnlyAPodGroupNames: such a group keeps nothing from higher groups of other
// namespaces. A pod of that class must exist, which the quota of its namespace has admitted.
func TestAClassThatOnlyAPodGroupNames(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		w.classes = map[string]int32{"high": 9, "middle": 5, "standard": 2}
		asks := func(name, namespace, class, want string) {
			t.Helper()
			key := w.object(name, 1, "4", func(g *wire.Gang) { g.Key.Namespace, g.PriorityClass = namespace, class })
			w.run(3 * time.Second)
			if got := w.phase(key); got != want {
				t.Errorf("%s in %s, of class %q: the phase is %q, want %q", name, namespace, class, got, want)
			}
			w.groups.ObjectGone(key)
		}
		key := w.object("a", 1, "4", func(g *wire.Gang) { g.PriorityClass = "high" })
		w.run(3 * time.Second)
		if got := w.phase(key); got != "Inqueue" {
			t.Fatalf("the phase is %q", got)
		}
		asks("b", "default", "middle", "Pending")
		asks("c", "other", "middle", "Inqueue")
		asks("d", "third", "", "Pending")
		w.shown(key)
		w.create(staged("a", "driver", 1, 9))
		w.run(3 * time.Second)
		asks("e", "fourth", "middle", "Pending")
	})
}

// TestAnAdmissionGoesWithItsObject: admissions end with their objects, and restrictions of
// namespaces end with time.
func TestAnAdmissionGoesWithItsObject(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		for _, name := range []string{"a", "b"} {
			key := w.object(name, 1, "4", func(g *wire.Gang) { g.Key.Namespace = "of-" + name })
			w.run(time.Second)
			if w.phase(key) != "Inqueue" || len(w.groups.admitter.admitted) != 1 {
				t.Fatalf("%s is %s, and %d are remembered", name, w.phase(key), len(w.groups.admitter.admitted))
			}
			w.groups.ObjectGone(key)
			w.groups.sweep(noUID, noneGone)
			if len(w.groups.admitter.admitted) > 0 || len(w.groups.admitter.spoiled) != 1 {
				t.Errorf("%d groups are remembered and %d namespaces, want none and one", len(w.groups.admitter.admitted), len(w.groups.admitter.spoiled))
			}
			gone := noneGone
			if name == "a" {
				w.run(time.Hour)
			} else {
				gone = func(namespace string) bool { return namespace == "of-b" }
			}
			if w.groups.sweep(noUID, gone); len(w.groups.admitter.spoiled) > 0 {
				t.Errorf("%s: the penalty is remembered", name)
			}
		}
	})
}

// TestAFormingGroupIsLetIn: the controller creates the rest of its pods when the group's phase
// allows it.
func TestAFormingGroupIsLetIn(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		key := w.object("a", 2, "8")
		w.create(staged("a", "0", 3, 0))
		w.run(time.Minute)
		if got := w.phase(key); got != "Pending" || !strings.Contains(w.said(), "minResources asks for 8 CPUs, and 7 are free") {
			t.Errorf("the phase is %q", got)
		}
		w.addNodes(1)
		w.run(time.Minute)
		if got := w.phase(key); got != "Inqueue" {
			t.Errorf("the phase is %q when there is room", got)
		}
		w.create(staged("a", "1", 3, 0))
		w.run(time.Minute)
		w.want("a", 2, 2)
	})
}

// TestAWrongGroupWithoutPodsIsTold: the group's status reports what is wrong.
func TestAWrongGroupWithoutPodsIsTold(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		spec := wire.Gang{Key: volcanoKey("a"), Version: "5", Phase: "Pending"}
		w.objects = map[wire.GangKey]wire.Gang{spec.Key: spec}
		w.groups.book.Objects, w.groups.book.Room = w, w.there
		w.groups.ObjectSeen(spec, errWrong)
		w.run(time.Minute)
		if got := w.phase(spec.Key); got != "Pending" || len(w.stood) != 1 || w.stood[0].lacking != errWrong.Error() || !strings.Contains(w.said(), errWrong.Error()) {
			t.Errorf("the phase is %q, said was %+v", got, w.stood)
		}
	})
}

var errWrong = errors.New("spec.minMember: -1: want 0 to 4096")

func duration(d time.Duration) (out metav1.Duration) {
	out.Duration = d
	return out
}
