package gang

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	volcano "github.com/berth-dev/berth/api/scheduling/volcano/v1beta1"
	"github.com/berth-dev/berth/internal/gangfit"
	"github.com/berth-dev/berth/internal/gangs"
	"github.com/berth-dev/berth/internal/plan"
	"github.com/berth-dev/berth/internal/wire"
)

// The tests of this file are named after defects of other schedulers that place gangs. Tests in
// other files are about scheduler-plugins#114 and #117, koordinator#872, volcano#5805, and
// volcano#6010 before the gang is whole.

// TestJobsThatComeOneAfterAnotherAllRun (scheduler-plugins#114): there were more jobs than room.
// When the running jobs had ended, none of the waiting jobs began.
func TestJobsThatComeOneAfterAnotherAllRun(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		var waiting []string
		for i := range 8 {
			name := fmt.Sprint("j", i)
			w.add(name, 2+i%3, 2+i%3, 3)
			waiting = append(waiting, name)
		}
		for len(waiting) > 0 {
			w.run(time.Minute)
			ran := slices.DeleteFunc(slices.Clone(waiting), func(name string) bool { return w.bound(name) == 0 })
			if len(ran) == 0 {
				t.Fatalf("none of %v runs, though nothing else does", waiting)
			}
			for _, name := range ran {
				w.end(name)
			}
			waiting = slices.DeleteFunc(waiting, func(name string) bool { return slices.Contains(ran, name) })
		}
	})
}

// TestALargeGangBlocksNobody (scheduler-plugins#682, kube-batch#514): a gang that could not fit was
// tried repeatedly, and other gangs waited behind it.
func TestALargeGangBlocksNobody(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		w.add("large", 40, 40, 3)
		for i := range 4 {
			name := fmt.Sprint("s", i)
			w.add(name, 4, 4, 3)
			w.run(2 * time.Second)
			w.want(name, 4, 4)
			w.end(name)
		}
		w.tried = 0
		w.run(10 * time.Minute) // in which nothing changes
		if w.tried > 2*10*60/30 {
			t.Errorf("the gang was tried %d times in 10 minutes without any change", w.tried)
		}
	})
}

// TestTheBarrierOpensForAllOrNobody (scheduler-plugins#930): one member was bound as if the other
// member had a node, which it then did not get.
func TestTheBarrierOpensForAllOrNobody(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		w.refuse["a-1"] = 3
		w.add("a", 2, 2, 3)
		for range 100 {
			w.run(100 * time.Millisecond)
			if n := w.bound("a"); n == 1 {
				t.Fatal("one of two members is bound")
			}
		}
		w.run(time.Minute)
		w.want("a", 2, 2)
	})
}

// TestAGangThatWasFormingForLongIsPlaced (koordinator#1919): members wait a limited time for each
// other. A gang whose last pod came later than that was never placed.
func TestAGangThatWasFormingForLongIsPlaced(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		w.add("a", 2, 3, 3)
		w.run(50 * gangTimeout)
		w.create(podOf("a", "a-9", 3, 3))
		w.run(time.Second)
		w.want("a", 3, 3)
	})
}

// TestPodsOfAFormingGangAreTold (koordinator#2480): pods that waited for the rest of their gang
// showed no event.
func TestPodsOfAFormingGangAreTold(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		w.add("a", 2, 3, 3)
		w.run(time.Minute)
		if said := w.said(); !strings.Contains(said, "is not complete: 2 of 3 pods") {
			t.Errorf("the events say %q", said)
		}
	})
}

// TestEqualGangsTakeTurns (koordinator#1991): of gangs of equal priority that are created
// repeatedly, one waited forever.
func TestEqualGangsTakeTurns(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		turns := map[string]int{}
		names := []string{"a", "b", "c"}
		for _, name := range names {
			w.add(name, 4, 4, 3) // each needs all CPUs
		}
		for range 30 {
			w.run(3 * time.Second)
			for _, name := range names {
				if w.bound(name) == 4 {
					turns[name]++
					w.end(name)
					w.add(name, 4, 4, 3)
				}
			}
		}
		for _, name := range names {
			if turns[name] < 3 {
				t.Errorf("the gangs had %v turns", turns)
				return
			}
		}
	})
}

// TestMinimumsComeFirst: the members that a gang does not need for its minimum get what the
// minimums of other gangs of the same priority leave.
func TestMinimumsComeFirst(t *testing.T) {
	for name, c := range map[string]struct {
		priority int32 // of the second gang
		a, b     int
	}{
		"equal":  {0, 2, 5},
		"higher": {1, 2, 5},
		"lower":  {-1, 6, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 1, func(w *world) {
				w.add("a", 6, 2, 1)
				for i := range 6 {
					pod := podOf("b", fmt.Sprint("b-", i), 3, 1)
					pod.Spec.Priority = &c.priority
					w.create(pod)
				}
				w.run(time.Minute)
				if a, b := w.bound("a"), w.bound("b"); a != c.a || b != c.b {
					t.Errorf("%d and %d members are bound: want %d and %d", a, b, c.a, c.b)
				}
			})
		})
	}
	t.Run("alone", func(t *testing.T) {
		inWorld(t, 1, func(w *world) {
			w.add("a", 6, 2, 1)
			w.run(time.Second)
			w.want("a", 6, 6)
			if w.tried != 6 {
				t.Errorf("%d cycles: want that all members are planned together", w.tried)
			}
		})
	})
}

// TestLeastPlaces: a modest plan has the members that the gang and each task need, and all members
// on which these may depend.
func TestLeastPlaces(t *testing.T) {
	for name, c := range map[string]struct {
		places  string // for each place, the first letter of its task and the number of its node
		minimum int
		tasks   map[string]int
		coupled int
		want    string
	}{
		"the first":             {"w0 w0 w1 w1", 2, nil, 0, "w0 w0"},
		"all are needed":        {"w0 w1", 2, nil, 0, "w0 w1"},
		"of each task":          {"w0 w1 w2 p3", 2, map[string]int{"w": 1, "p": 1}, 0, "w0 p3"},
		"more than each task's": {"w0 w1 w2 p3", 3, map[string]int{"w": 1, "p": 1}, 0, "w0 w1 p3"},
		"earlier on the node":   {"w0 w1 p1 w2", 2, map[string]int{"w": 1, "p": 1}, 0, "w1 p1"},
		"two earlier ones":      {"w0 w1 w1 p1 w2", 2, map[string]int{"p": 1}, 0, "w1 w1 p1"},
		"coupled":               {"w0 w1 w2 p3 w4", 2, map[string]int{"w": 1, "p": 1}, 1, "w0 w1 w2 p3"},
	} {
		j := &job{}
		j.gang.Minimum, j.gang.Tasks = c.minimum, c.tasks
		v := &gangfit.Verdict{}
		for i, place := range strings.Fields(c.places) {
			j.Tasks = append(j.Tasks, place[:1])
			v.Places = append(v.Places, plan.Place{Member: i, Node: int(place[1] - '0')})
		}
		var got []string
		for _, at := range j.least(&result{Verdict: v, trial: &trial{coupled: c.coupled}}) {
			got = append(got, fmt.Sprint(j.Tasks[at.Member], at.Node))
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%s: %q, want %q", name, text, c.want)
		}
	}
}

// TestScaleUpWithARaisedMinimumIsWholeOrNothing (volcano#6010): the minimum was raised when new
// members were created. Some of them were bound, because the old minimum was used.
func TestScaleUpWithARaisedMinimumIsWholeOrNothing(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		w.objects = map[wire.GangKey]wire.Gang{sigsKey("a"): {Key: sigsKey("a"), Version: "5", Minimum: 1}}
		w.groups.book.Objects = w
		w.create(memberOf("a", "a-0", 3))
		w.run(time.Second)
		w.want("a", 1, 1)
		w.objects[sigsKey("a")] = wire.Gang{Key: sigsKey("a"), Version: "6", Minimum: 3, Phase: "Running", Ran: true} // the watch is late
		w.create(memberOf("a", "a-1", 3))
		w.create(memberOf("a", "a-2", 3)) // there is room for one
		w.run(time.Minute)
		w.want("a", 1, 1)
		if len(w.deleted) > 0 {
			t.Errorf("%v were deleted of a gang that was whole", w.deleted)
		}
		w.addNodes(1)
		w.groups.Stir()
		w.run(time.Minute)
		w.want("a", 3, 3)
	})
}

// TestRoomThatIsBeingLeftDoesNotMakeAGangReady (volcano#5044): some members were to use the room of
// pods that were ending. They counted as placed, and the other members were bound.
func TestRoomThatIsBeingLeftDoesNotMakeAGangReady(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		w.add("old", 1, 1, 3)
		w.run(time.Second)
		w.add("a", 2, 2, 3)
		w.run(time.Second)
		w.leave("old-0") // it is being deleted, and still has its CPUs on the node
		w.run(time.Minute)
		w.want("a", 0, 1)
		w.remove("old-0")
		w.run(time.Minute)
		w.want("a", 2, 2)
	})
}

// TestAMemberThatEndsMakesNoGangUnschedulable (volcano#457): one of three members had ended, and
// the group's condition reported too little capacity.
func TestAMemberThatEndsMakesNoGangUnschedulable(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		w.objects = map[wire.GangKey]wire.Gang{sigsKey("a"): {Key: sigsKey("a"), Version: "5", Minimum: 3}}
		w.groups.book.Objects = w
		for i := range 3 {
			w.create(memberOf("a", fmt.Sprint("a-", i), 3))
		}
		w.run(time.Second)
		w.want("a", 3, 3)
		w.remove("a-1")
		w.run(time.Minute)
		if s := w.stands("a"); s.lacking != "" || s.phase != volcano.PodGroupUnknown {
			t.Errorf("the group's status is %s, and lacks %q", s.phase, s.lacking)
		}
	})
}

// TestOnlyMissingCapacityIsUnschedulable (volcano#4710): autoscalers act on the condition, so that
// it must not be set for other reasons.
func TestOnlyMissingCapacityIsUnschedulable(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(*world)
		want bool
	}{
		"capacity is missing": {func(w *world) { w.create(memberOf("a", "a-2", 8)) }, true},
		"a pod is missing":    {func(*world) {}, false},
		"a pod was missing capacity, and left": {func(w *world) {
			w.create(memberOf("a", "a-2", 8))
			w.run(time.Second)
			w.remove("a-2")
		}, false},
		"a member fails": {func(w *world) {
			w.refuse["a-2"] = 1000
			w.create(memberOf("a", "a-2", 2))
		}, false},
		"its object is gone": {func(w *world) {
			w.create(memberOf("a", "a-2", 8))
			w.run(time.Second)
			delete(w.objects, sigsKey("a"))
			w.groups.ObjectGone(sigsKey("a"))
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 2, func(w *world) {
				w.objects = map[wire.GangKey]wire.Gang{sigsKey("a"): {Key: sigsKey("a"), Version: "5", Minimum: 3}}
				w.groups.book.Objects = w
				w.create(memberOf("a", "a-0", 2))
				w.create(memberOf("a", "a-1", 2))
				c.do(w)
				w.run(2 * time.Second)
				if s := w.stands("a"); (s.lacking != "") != c.want {
					t.Errorf("it is said to lack %q", s.lacking)
				}
			})
		})
	}
}

// TestATaskThatIsNotAskedForAnyMoreHoldsNobody (volcano#4802): a task had been scaled down to zero.
// Its old minimum still counted, and the other tasks waited.
func TestATaskThatIsNotAskedForAnyMoreHoldsNobody(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		key := wire.GangKey{Source: wire.GangOfVolcano, Namespace: "default", Name: "a"}
		w.objects = map[wire.GangKey]wire.Gang{key: {Key: key, Version: "5", Minimum: 2, Tasks: map[string]int{"x": 1, "y": 1}}}
		w.groups.book.Objects = w
		w.create(taskOf("a", "a-x", "x"))
		w.create(taskOf("a", "a-y", "y"))
		w.run(time.Second)
		w.want("a", 2, 2)
		w.remove("a-x")
		w.objects[key] = wire.Gang{Key: key, Version: "6", Minimum: 2, Tasks: map[string]int{"y": 1, "z": 1}, Phase: "Running", Ran: true}
		w.groups.ObjectSeen(w.objects[key], nil)
		w.create(taskOf("a", "a-z", "z"))
		w.run(time.Second)
		w.want("a", 2, 2)
	})
}

// TestTheGangGoesToNUMANodesThatTakeIt (kueue places on hosts, not on NUMA nodes): by amounts, the
// nodes have room for one member more than their kubelets admit.
func TestTheGangGoesToNUMANodesThatTakeIt(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		w.add("a", 3, 3, 4) // each node has 7 CPUs free: 3 on one NUMA node, 4 on the other
		w.run(time.Minute)
		w.want("a", 0, 0)
		w.add("b", 2, 2, 4)
		w.run(time.Second)
		w.want("b", 2, 2)
	})
}

// TestOneFreePlaceLetsNoMemberPass (scheduler-plugins#930): one pod of a gang of two was admitted,
// and there was no room for the other. The gang is bound when another pod has ended that used this
// room.
func TestOneFreePlaceLetsNoMemberPass(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		w.seat("x-0", "n0", 4, 0)
		for range 20 { // the defect was a race
			w.add("a", 2, 2, 4)
			w.run(2 * time.Second)
			w.wantBound("a", 0)
			w.end("a")
		}
		w.add("a", 2, 2, 4)
		w.run(2 * time.Second)
		w.remove("x-0")
		w.run(2 * time.Second)
		w.wantBound("a", 2)
	})
}

// TestManyGangsThatDoNotFitStarveNobody (kubernetes#139421 measures this): at each change,
// thousands of pods that did not fit were tried one after the other, before the pods that fit. A
// gang is tried as a whole, and once per change.
func TestManyGangsThatDoNotFitStarveNobody(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		const gangs, changes = 30, 10
		for i := range gangs {
			w.addWith(fmt.Sprint("large", i, "x"), 20, 20, 3, 9)
		}
		w.run(time.Second)
		w.tried = 0
		for i := range changes {
			w.groups.Stir()
			w.add(fmt.Sprint("s", i, "x"), 4, 4, 3)
			w.run(2 * time.Second)
			w.wantBound(fmt.Sprint("s", i, "x"), 4)
			w.end(fmt.Sprint("s", i, "x"))
		}
		// The gangs that fit end one by one: this makes four more changes, and four attempts of
		// their own.
		if most := gangs*changes*5 + 4*changes; w.tried > most {
			t.Errorf("%d attempts, want at most %d", w.tried, most)
		}
	})
}

// TestTheReasonIsSaidNodeByNode (kubernetes#142315, #141025): the reason was reported for the whole
// group, not for each node.
func TestTheReasonIsSaidNodeByNode(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.seat("x-0", "n0", 4, 0)
		w.seat("x-1", "n1", 4, 0)
		w.seat("x-2", "n1", 3, 0)
		w.add("a", 3, 3, 4)
		w.run(time.Second)
		said := w.said()
		for _, want := range []string{"1 of 3 pods fit now", "pod a-1 lacks a node", "2 nodes: Insufficient cpu", "NUMA 0 has 3 free CPUs (4 needed), NUMA 1 has 0"} {
			if !strings.Contains(said, want) {
				t.Errorf("said %q, want %q in it", said, want)
			}
		}
	})
}

// TestANodeThatTakesTheMemberNowhereSaysWhy: a node that refuses a member also without the others
// is not short of room because it has one of them.
func TestANodeThatTakesTheMemberNowhereSaysWhy(t *testing.T) {
	for _, cpus := range []int{1, 3} { // 1 shares a NUMA node with a-0, and 3 fills it
		inWorld(t, 1, func(w *world) {
			w.create(podOf("a", "a-0", 2, cpus))
			elsewhere := podOf("a", "a-1", 2, cpus)
			elsewhere.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "n9"}
			w.create(elsewhere)
			w.run(time.Second)
			if said, want := w.said(), "pod a-1 lacks a node: 1 node: does not match the pod's node selector"; !strings.Contains(said, want) {
				t.Errorf("said %q, want %q in it", said, want)
			}
		})
	}
}

// TestAPlanHasOptionalMembersAndSharedNodesAndThoseThatRun: koordinator#3130 plans only gangs that
// need all members and none of whose members is bound, puts one pod on each node, and evicts no
// pods.
func TestAPlanHasOptionalMembersAndSharedNodesAndThoseThatRun(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		w.seat("low", "n1", 4, -1)
		w.breakBind["a-2"] = 1
		w.add("a", 5, 4, 3) // four members of three CPUs have room, one of them where a pod is evicted
		w.run(30 * time.Second)
		w.wantDeleted("low")
		w.wantBound("a", 4)
		w.wantState(gangs.Whole)
	})
}

// TestSixPodsStartAtOneTime (scheduler-plugins#358): one pod of a group of six ran, and the others
// started minutes later, one by one.
func TestSixPodsStartAtOneTime(t *testing.T) {
	inWorld(t, 4, func(w *world) {
		w.objects = map[wire.GangKey]wire.Gang{sigsKey("a"): {Key: sigsKey("a"), Version: "5", Minimum: 6}}
		w.groups.book.Objects = w
		w.add("other", 2, 2, 3) // another gang competes with it
		w.refuse["a-3"] = 2
		for i := range 6 {
			w.create(memberOf("a", fmt.Sprint("a-", i), 3))
			w.run(20 * time.Second)
			if i < 5 {
				w.wantBound("a", 0)
			}
		}
		for range 200 {
			w.run(50 * time.Millisecond)
			if n := w.bound("a"); n != 0 && n != 6 {
				t.Fatalf("%d of six pods have nodes", n)
			}
		}
		w.wantBound("a", 6)
		w.wantBound("other", 2)
	})
}

// TestWhatVictimsLeaveIsKept (volcano#5045): the scheduler evicted pods for a gang, and forgot this
// in its next session. Other pods took the room while the last victims were still ending.
func TestWhatVictimsLeaveIsKept(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		w.slow = true
		for i, node := range []string{"n0", "n0", "n1", "n1"} {
			w.seat(fmt.Sprint("low-", i), node, 4-i%2, 1)
		}
		w.addWith("a", 4, 4, 3, 9)
		w.run(time.Second)
		w.wantDeleted("low-0", "low-1", "low-2", "low-3")
		w.remove("low-0")
		w.remove("low-1")
		w.addWith("b", 2, 2, 3, 9) // of the same priority; it would fit
		w.addWith("c", 2, 2, 3, 1)
		w.run(20 * time.Second)
		w.wantBound("a", 0)
		w.wantBound("b", 0)
		w.wantBound("c", 0)
		w.remove("low-2")
		w.remove("low-3")
		w.run(20 * time.Second)
		w.wantBound("a", 4)
		w.wantBound("b", 0)
		w.wantBound("c", 0)
	})
}

// TestNodesAreScoredOncePerKind (kubernetes#140611 measures this): every candidate placement of a
// group was scored, which cost four fifths of the throughput. A plan scores the nodes once for all
// members of the same kind.
func TestNodesAreScoredOncePerKind(t *testing.T) {
	inWorld(t, 8, func(w *world) {
		w.shape = 1
		w.add("a", 14, 14, 3)
		w.run(time.Second)
		w.wantBound("a", 14)
		if w.tried != 14 || w.scored != 8 {
			t.Errorf("%d attempts for 14 members, and %d scores of 8 nodes: want 14, of which one plans, and 8", w.tried, w.scored)
		}
		if most := 8 + 2*14; w.filtered > most {
			t.Errorf("nodes were asked %d times, want at most %d", w.filtered, most)
		}
	})
}
