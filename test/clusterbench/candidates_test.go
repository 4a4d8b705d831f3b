package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
	kubescheduler "k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/berth-dev/berth/internal/scheduler"
)

// TestChoiceAmongCandidates: in clusters where a third of the nodes is cordoned, tainted or full,
// and under several profiles, the chosen node has the best tier of all nodes that every plugin
// accepts. If the pod or the profile prefers some nodes, the chosen node has the best sum of
// scores, except for nodes that Berth ranks behind eight others with the same preferences. For
// nearly all pods one search is enough.
func TestChoiceAmongCandidates(t *testing.T) {
	for i, p := range []struct {
		chart   bool
		scoring map[string]any
		shun    bool // avoid some nodes
	}{
		{chart: true},
		{chart: false},
		{chart: true, shun: true},
		{chart: false, shun: true, scoring: map[string]any{"strategy": "LeastAllocated"}},
		{chart: true, scoring: map[string]any{"strategy": "LeastAllocated", "first": []string{"policy", "numaNodes"}}},
		{chart: true, scoring: map[string]any{"first": []string{}}},
	} {
		t.Run(fmt.Sprintf("%t %t %v", p.chart, p.shun, p.scoring), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(uint64(i), 27))
			w := newWorld(t, 300, func(n *corev1.Node) {
				if obstruct(rng, n); p.shun && rng.IntN(3) == 0 {
					n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "rather-not", Effect: corev1.TaintEffectPreferNoSchedule})
				}
			})
			c := startCycles(t, cyclesOptions{who: berth, world: w, chart: p.chart, args: map[string]any{"patience": "-1s", "scoring": p.scoring}})
			j := &judge{T: t, always: !p.chart || p.shun}
			j.sit(c.sched)
			before := c.rounds()
			for range 12 {
				var placed []*corev1.Pod
				for range 10 {
					pod := demanding(rng, c.pod("known"))
					w.pods.Add(pod)
					if c.sched.ScheduleOne(t.Context()); c.failed > 0 {
						w.pods.Delete(pod)
						c.failed = 0
						continue
					}
					placed = append(placed, pod)
				}
				c.finish(placed)
			}
			after := c.rounds()
			searched, again := after.pods-before.pods, after.second-before.second
			t.Logf("%d judged, %d with preferences; %v searches, %v of them not at once; others would have added %.1f of %.1f points at the mean",
				j.judged, j.preferring, searched, again, j.lost/float64(j.judged), j.points/float64(j.judged))
			if j.judged < 60 || j.preferring < 10 || j.tiers < 10 && p.scoring["first"] == nil || searched < 30 {
				t.Errorf("%d judged, %d of them with preferences, %d with several tiers, %v searches", j.judged, j.preferring, j.tiers, searched)
			}
			if again > searched/100 {
				t.Errorf("%v of %v searches needed more than one round", again, searched)
			}
		})
	}
}

// obstruct makes a third of the nodes unfit for most pods, for reasons of other plugins.
func obstruct(rng *rand.Rand, n *corev1.Node) {
	n.Labels["pool"] = []string{"a", "b"}[rng.IntN(2)]
	switch rng.IntN(15) {
	case 0:
		n.Spec.Unschedulable = true
	case 1:
		n.Spec.Taints = []corev1.Taint{{Key: "kept", Effect: corev1.TaintEffectNoSchedule}}
	case 2:
		n.Status.Allocatable[corev1.ResourcePods] = amounts(1000*podsPerNode, 0)[corev1.ResourceCPU]
	case 3:
		n.Status.Allocatable[corev1.ResourceMemory] = amounts(0, (podsPerNode-pinnedPerNode)*200<<20+pinnedPerNode*512<<20)[corev1.ResourceMemory]
	case 4:
		n.Labels["pool"] = "c"
	}
}

// demanding gives a pod a requirement or preference for other plugins, or none.
func demanding(rng *rand.Rand, pod *corev1.Pod) *corev1.Pod {
	spec := &pod.Spec
	spec.Affinity = &corev1.Affinity{}
	if rng.IntN(3) == 0 { // more than an EPYC 7451 has on one NUMA node
		large := amounts(16000, 512<<20)
		spec.Containers[0].Resources = corev1.ResourceRequirements{Limits: large, Requests: large}
	}
	zone := fmt.Sprint("zone-", rng.IntN(zones))
	switch rng.IntN(10) {
	case 0:
		spec.NodeSelector = map[string]string{"pool": "c"}
	case 1:
		spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: zone}}}}
	case 2:
		spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	case 3:
		spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80}}
	case 4:
		spec.Affinity.NodeAffinity = &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
			Weight: 10, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{zone}}}},
		}}}
	case 5:
		spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: &metav1.LabelSelector{MatchLabels: pod.Labels},
		}}
	case 6:
		pod.Labels = map[string]string{"app": pod.Labels["app"], "apart": "yes"}
		spec.Affinity.PodAntiAffinity = &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{
			Weight: 10, PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: pod.Labels}},
		}}}
	}
	return pod
}

// judge compares the scheduler's choice with all plugins' scores of all nodes.
type judge struct {
	*testing.T
	// tiers counts pods whose nodes had several tiers.
	judged, preferring, tiers int
	// points is the sum of the scores, without BerthTiers, of the best nodes of the best tier. lost
	// is how much lower the scores of the chosen nodes were.
	points, lost float64
	// always means that the profile or taints prefer some nodes for every pod.
	always bool
}

// sit makes the judge ask all plugins before each search of the scheduler.
func (j *judge) sit(sched *kubescheduler.Scheduler) {
	place := sched.SchedulePod
	sched.SchedulePod = func(ctx context.Context, profile framework.Framework, state fwk.CycleState, info *framework.QueuedPodInfo) (kubescheduler.ScheduleResult, error) {
		all := j.ask(ctx, profile, info.Pod)
		result, err := place(ctx, profile, state, info)
		if none := (*framework.FitError)(nil); err != nil {
			if !errors.As(err, &none) || len(all) > 0 || none.NumAllNodes != 300 || none.Diagnosis.UnschedulablePlugins.Len() == 0 {
				j.Errorf("%s: %d nodes take it: %v", info.Pod.Name, len(all), err)
			}
			return result, err
		}
		j.hear(info.Pod, all, result.SuggestedHost)
		return result, err
	}
}

// ask asks all plugins about all nodes, and returns the scores of nodes that accept the pod.
func (j *judge) ask(ctx context.Context, profile framework.Framework, pod *corev1.Pod) []fwk.NodePluginScores {
	state := framework.NewCycleState()
	if _, s, _ := profile.RunPreFilterPlugins(ctx, state, pod); !s.IsSuccess() {
		j.Fatal(s)
	}
	nodes, err := profile.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		j.Fatal(err)
	}
	var take []fwk.NodeInfo
	for _, n := range nodes {
		if profile.RunFilterPluginsWithNominatedPods(ctx, state, pod, n).IsSuccess() {
			take = append(take, n)
		}
	}
	if len(take) == 0 {
		return nil
	}
	if s := profile.RunPreScorePlugins(ctx, state, pod, take); !s.IsSuccess() {
		j.Fatal(s)
	}
	scores, s := profile.RunScorePlugins(ctx, state, pod, take)
	if !s.IsSuccess() {
		j.Fatal(s)
	}
	return scores
}

// hear judges the choice of a node.
func (j *judge) hear(pod *corev1.Pod, all []fwk.NodePluginScores, chosen string) {
	var best, got *fwk.NodePluginScores
	for i := range all {
		if best == nil || all[i].TotalScore > best.TotalScore {
			best = &all[i]
		}
		if all[i].Name == chosen {
			got = &all[i]
		}
	}
	j.judged++
	for i := range all {
		if tierOf(&all[i]) != tierOf(best) {
			j.tiers++
			break
		}
	}
	switch {
	case got == nil:
		j.Errorf("%s is on %s, which a plugin refuses", pod.Name, chosen)
	case tierOf(got) != tierOf(best):
		j.Errorf("%s is on %s of tier score %d, the best of %d nodes have %d", pod.Name, chosen, tierOf(got), len(all), tierOf(best))
	default:
		j.points += float64(best.TotalScore - tierOf(best))
		j.lost += float64(best.TotalScore - got.TotalScore)
		if (j.always || prefers(pod)) && len(pod.Spec.Containers[0].Ports) == 0 { // the port's owner is not known in advance
			j.preferring++
			j.weigh(pod, all, got)
		}
	}
}

// weigh compares the chosen node with nodes that are among the eight best of their class.
func (j *judge) weigh(pod *corev1.Pod, all []fwk.NodePluginScores, got *fwk.NodePluginScores) {
	classes := map[string][]*fwk.NodePluginScores{}
	for i := range all {
		class := fmt.Sprint(pointsOf(&all[i], "PodTopologySpread"), pointsOf(&all[i], "NodeAffinity"), pointsOf(&all[i], "TaintToleration"), pointsOf(&all[i], "InterPodAffinity"))
		classes[class] = append(classes[class], &all[i])
	}
	for _, class := range classes {
		for _, n := range class {
			before := 0
			for _, o := range class {
				if tierOf(o) > tierOf(n) || tierOf(o) == tierOf(n) && pointsOf(o, scheduler.Name) >= pointsOf(n, scheduler.Name) {
					before++
				}
			}
			if before <= 8 && n.TotalScore > got.TotalScore {
				j.Errorf("%s: %+v comes before %+v, which is chosen", pod.Name, *n, *got)
			}
		}
	}
}

// tierOf returns the node's tier; 0 if all nodes have the same tier.
func tierOf(n *fwk.NodePluginScores) int64 { return pointsOf(n, scheduler.TiersName) }

func pointsOf(n *fwk.NodePluginScores, plugin string) int64 {
	for _, s := range n.Scores {
		if s.Name == plugin {
			return s.Score
		}
	}
	return 0
}

func prefers(pod *corev1.Pod) bool {
	return *pod.Spec.Affinity != corev1.Affinity{} || len(pod.Spec.TopologySpreadConstraints) > 0
}
