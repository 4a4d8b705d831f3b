package scheduler

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	fwk "k8s.io/kube-scheduler/framework"
)

// TestPinnedPodsAreLookedForFurther: the search for a pinned pod looks at all nodes, up to the
// argument's limit, and never at fewer than without Berth.
func TestPinnedPodsAreLookedForFurther(t *testing.T) {
	c := &core{}
	c.profiles.byName.Store("berth", &settings{maxNodes: 1000})
	off := Args{Candidates: -1, MaxNodes: 1000}
	c.profiles.byName.Store("off", &settings{maxNodes: off.looksAt()})
	pod := func(scheduler string) *corev1.Pod {
		p := pinned("x", 4)
		p.Spec.SchedulerName = scheduler
		return p
	}
	ordinary := pod("berth")
	ordinary.Status.QOSClass, ordinary.Spec.Containers[0].Resources = corev1.PodQOSBestEffort, corev1.ResourceRequirements{}
	for _, tc := range []struct {
		name      string
		pod       *corev1.Pod
		all       int
		set, want int32
	}{
		{"few nodes", pod("berth"), 150, 0, 100},
		{"as many as the argument", pod("berth"), 1000, 0, 100},
		{"more than the argument", pod("berth"), 3000, 0, 33},
		{"kube-scheduler's own choice is more", pod("berth"), 100000, 0, 0},
		{"the profile asks for more", pod("berth"), 3000, 40, 40},
		{"the profile asks for less", pod("berth"), 3000, 20, 33},
		{"no node", pod("berth"), 0, 0, 0},
		{"nothing to pin", ordinary, 150, 0, 0},
		{"a profile without a search of Berth's own", pod("off"), 150, 7, 7},
		{"a profile without Berth", pod("other"), 150, 7, 7},
	} {
		if got := c.look(tc.pod, tc.all, tc.set); got != tc.want {
			t.Errorf("%s: %d percent of %d nodes, want %d", tc.name, got, tc.all, tc.want)
		}
	}
	if _, has := PartsOf(informers.NewSharedInformerFactory(nil, 0)); has {
		t.Error("a scheduler without Berth looks further")
	}
}

// BenchmarkLook is the plugin's part of a cycle that looks at all of count nodes, a quarter of
// which have pods: Filter, both scores, and the choice.
func BenchmarkLook(b *testing.B) {
	for _, count := range []int{500, 1000, 5000, 15000} {
		b.Run(fmt.Sprint(count), func(b *testing.B) {
			f, infos := fleet(b, count)
			for i := range infos {
				if i%4 == 0 {
					there := pinned(fmt.Sprint("there", i), int64(1+i/4%6))
					there.CreationTimestamp = metav1.Unix(400, 0)
					f.place(b, there, infos[i:i+1])
				}
			}
			pod, tiers := pinned("x", 4), make(fwk.NodeScoreList, count)
			for b.Loop() {
				state := newCycleData()
				state.Write(cycleKey, f.attempt(pod, requestOf(b, pod)))
				for i := range infos {
					if !f.Filter(b.Context(), state, pod, &infos[i]).IsSuccess() {
						b.Fatal("a node with room refuses")
					}
				}
				for i := range infos {
					tiers[i].Score, _ = Tiers{}.Score(b.Context(), state, pod, &infos[i])
					f.Score(b.Context(), state, pod, &infos[i])
				}
				Tiers{}.NormalizeScore(b.Context(), state, pod, tiers)
			}
		})
	}
}
