package query

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/gangfit"
	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/suppose"
	"github.com/berth-dev/berth/internal/survey"
	"github.com/berth-dev/berth/internal/survey/source"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/test/sim"
)

// owned gives a pod a controller.
func owned(p *corev1.Pod, kind, name string) *corev1.Pod {
	yes := true
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: name, UID: "owner-of-" + p.UID, Controller: &yes}}
	return p
}

// owning is the playground with a controller for every pod, and without PodDisruptionBudgets that
// prevent moves.
func owning(t testing.TB) *survey.Cluster {
	c := playground(t)
	for _, p := range c.From.(*source.Snapshot).Pods {
		owned(p, "ReplicaSet", p.Name)
	}
	c.From.(*source.Snapshot).PodDisruptionBudgets = []*policyv1.PodDisruptionBudget{}
	return c
}

func makeRoomFor(t testing.TB, c *survey.Cluster, p *corev1.Pod, o RoomOptions) *Room {
	t.Helper()
	r, err := MakeRoom(t.Context(), c, []Wanted{{Pod: p, Replicas: 1}}, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// gpus returns a pod that requests more GPUs than are free on any NUMA node.
func gpus(count string) *corev1.Pod {
	p := wants("big", "8", "8Gi", count)
	p.Spec.SchedulerName = corev1.DefaultSchedulerName
	return p
}

// TestMakeRoom carries each plan out on kubelets that start from the nodes' reports. Every place
// must be free when its pod comes.
func TestMakeRoom(t *testing.T) {
	for _, asked := range []string{"1", "2", "3"} {
		c := owning(t)
		r := makeRoomFor(t, c, gpus(asked), RoomOptions{Draw: true})
		if r.Outcome != "found" && asked != "3" {
			t.Errorf("%s GPUs: %s: %+v", asked, r.Outcome, r)
			continue
		}
		t.Logf("%s GPUs: %s on %+v after %+v", asked, r.Outcome, r.Wanted, r.Moves)
		carryOut(t, c, r, gpus(asked))
		if len(r.Moves) > 0 && (len(r.Before) == 0 || len(r.Before) != len(r.After)) {
			t.Errorf("%d pictures before, %d after", len(r.Before), len(r.After))
		}
	}
}

// carryOut carries a plan out.
func carryOut(t *testing.T, c *survey.Cluster, r *Room, wanted *corev1.Pod) {
	t.Helper()
	s := surveyed(t, c)
	kubelets := map[string]*sim.Kubelet{}
	for _, name := range s.Names() {
		snap := s.States[name].Report().Snapshot
		state, err := s.States[name].Reading.Kind.Model.StateOf(&snap)
		if err != nil {
			t.Fatal(err)
		}
		kubelets[name] = &sim.Kubelet{State: state}
	}
	come := func(pod *corev1.Pod, uid, node, numa string) {
		ask, err := wire.ReadPod(pod)
		if err != nil {
			t.Fatal(err)
		}
		ask.Request.UID = uid
		if got := kubelets[node].Admit(&ask.Request); !got.Verdict.OK() || numa != "" && got.Verdict.NUMA.String() != numa {
			t.Errorf("%s on %s: %v on NUMA nodes %v, want %s", pod.Name, node, got.Verdict.Reason, got.Verdict.NUMA, numa)
		}
	}
	for _, m := range r.Moves {
		i := slices.IndexFunc(c.From.(*source.Snapshot).Pods, func(p *corev1.Pod) bool { return string(p.UID) == m.UID })
		if c.From.(*source.Snapshot).Pods[i].Spec.NodeName != m.From || m.From == m.To {
			t.Errorf("%s moves from %s to %s, and is on %s", m.Name, m.From, m.To, c.From.(*source.Snapshot).Pods[i].Spec.NodeName)
		}
		// While the pod's placeholder is there, the pod waits, or gets the NUMA node of the plan.
		// Otherwise the plan has no NUMA node.
		held := &sim.Kubelet{State: kubelets[m.To].State.Clone()}
		var got [2]placement.Verdict
		for n, uid := range []string{"holder", "pod"} {
			ask, err := wire.ReadPod(c.From.(*source.Snapshot).Pods[i])
			if err != nil {
				t.Fatal(err)
			}
			ask.Request.UID = uid
			got[n] = held.Admit(&ask.Request).Verdict
		}
		if other := got[1].OK() && got[1].NUMA != got[0].NUMA; other != (m.ToNUMA == "") {
			t.Errorf("%s moves to %s NUMA node %q: with its holder there %v, then %v", m.Name, m.To, m.ToNUMA, got[0].NUMA, got[1].NUMA)
		}
		come(c.From.(*source.Snapshot).Pods[i], m.UID+"/again", m.To, m.ToNUMA)
		kubelets[m.From].Remove(m.UID)
	}
	for i, w := range r.Wanted {
		if at := slices.IndexFunc(c.From.(*source.Snapshot).Pods, func(p *corev1.Pod) bool { return string(p.UID) == w.UID }); at >= 0 {
			wanted = c.From.(*source.Snapshot).Pods[at]
		}
		if w.Node != "" {
			come(wanted, fmt.Sprint("wanted-", i), w.Node, w.NUMANodes)
		}
	}
}

// TestPlayedAsKubelets: pods that leave and come in any order get the same NUMA nodes as from the
// node's kubelet.
func TestPlayedAsKubelets(t *testing.T) {
	s := surveyed(t, playground(t))
	rng := rand.New(rand.NewPCG(29, 1))
	came, refused := 0, 0
	for range 60 {
		for _, name := range s.Names() {
			n := s.States[name]
			if n.Account == nil {
				continue
			}
			snap := n.Snapshot()
			state, err := n.Reading.Kind.Model.StateOf(&snap)
			if err != nil {
				t.Fatal(err)
			}
			k, p := &sim.Kubelet{State: state}, &played{Node: suppose.On(n.Account, nil), node: n}
			for i := range 8 {
				if there := state.Snapshot().Pods; len(there) > 0 && rng.IntN(3) == 0 {
					uid := there[rng.IntN(len(there))].UID
					k.Remove(uid)
					p.leaves(&suppose.Pod{UID: uid, Candidate: new(ledger.Candidate)})
					continue
				}
				ask, err := wire.ReadPod(wants("p", fmt.Sprint(1+rng.IntN(24)), "1Gi", fmt.Sprint(rng.IntN(3))))
				if err != nil {
					t.Fatal(err)
				}
				ask.Request.UID = fmt.Sprint("new-", i)
				want := ""
				if got := k.Admit(&ask.Request); got.Verdict.OK() {
					want = got.Verdict.NUMA.String()
					came++
				} else {
					refused++
				}
				pod := &suppose.Pod{Candidate: &ledger.Candidate{Request: &ask.Request, Created: s.Now.Unix() + 1}}
				if got := p.comes(pod, "p", WouldCome); got != want {
					t.Fatalf("%s: NUMA nodes %q, want %q", name, got, want)
				}
			}
		}
	}
	if came < 500 || refused < 50 {
		t.Errorf("%d came, %d were refused: the test has seen little", came, refused)
	}
}

// TestUncertainPlacesHaveNoNUMANode: on b the pod gets NUMA node 0 when its placeholder is gone,
// and NUMA node 1 while that is there.
func TestUncertainPlacesHaveNoNUMANode(t *testing.T) {
	w := newWorld(t)
	fills, moves, q, x := pod("fills", 3), owned(pod("moves", 1), "ReplicaSet", "moves"), pod("q", 2), pod("x", 2)
	w.Report(w.AddNode("a", fills, moves))
	w.Report(w.AddNode("b", q, x))
	for p, node := range map[*corev1.Pod]string{fills: "a", moves: "a", q: "b", x: "b"} {
		w.Bind(p, node, "")
	}
	r := makeRoomFor(t, w.cluster(), pod("wanted", 4), RoomOptions{})
	if len(r.Moves) != 1 || r.Moves[0].To != "b" || r.Moves[0].ToNUMA != "" || r.Wanted[0].NUMANodes != "1" {
		t.Errorf("%s: moves %+v, wanted %+v: want one move to b without a NUMA node", r.Outcome, r.Moves, r.Wanted)
	}
}

// TestPicturesCountFreeCPUs: on nodes where Berth decides, the picture of a plan's result has the
// numbers of free CPUs of the result.
func TestPicturesCountFreeCPUs(t *testing.T) {
	w := newWorld(t)
	fills, moves, q, x := pod("fills", 3), owned(pod("moves", 1), "ReplicaSet", "moves"), pod("q", 2), pod("x", 2)
	for name, has := range map[string]struct {
		shared v1alpha1.CPUList
		pods   map[*corev1.Pod]string
	}{"a": {"0,5-7", map[*corev1.Pod]string{fills: "1-3", moves: "4"}}, "b": {"0,3,6-7", map[*corev1.Pod]string{q: "1-2", x: "4-5"}}} {
		nt := w.AddNode(name)
		nt.Spec.Authority, nt.Spec.CPUManager.Policy, nt.Spec.TopologyManager = v1alpha1.AuthorityBerth, "", v1alpha1.TopologyManager{}
		nt.Spec.Defaults = &v1alpha1.Defaults{Policy: "single-numa-node", Scope: "pod"}
		nt.Status.SharedCPUs = has.shared
		for p, cpus := range has.pods {
			line, err := v1alpha1.ParsePodAllocation(fmt.Sprintf("%s pod=default/%s main;cpus=%s", p.UID, p.Name, cpus))
			w.Must(err)
			nt.Status.Pods = append(nt.Status.Pods, line)
			w.Bind(p, name, cpus)
		}
		w.Report(nt)
	}
	r := makeRoomFor(t, w.cluster(), pod("wanted", 4), RoomOptions{Draw: true})
	if len(r.Moves) != 1 || r.Moves[0].To != "b" || len(r.After) != 2 {
		t.Fatalf("%s: moves %+v, %d pictures: want one move to b", r.Outcome, r.Moves, len(r.After))
	}
	sum := func(p *Picture) (free int) {
		for _, n := range p.Berths.Free {
			free += n
		}
		return free
	}
	for i, want := range [][2]int{{3, 0}, {3, 2}} {
		if was, is := sum(&r.Before[i]), sum(&r.After[i]); was != want[0] || is != want[1] {
			t.Errorf("%s: %d CPUs are free before and %d after, want %v", r.After[i].Node, was, is, want)
		}
	}
}

// TestEndingPodsAreNotCalledStaying: pods that are ending free their resources by themselves.
func TestEndingPodsAreNotCalledStaying(t *testing.T) {
	c := owning(t)
	now := metav1.Now()
	for _, p := range c.From.(*source.Snapshot).Pods {
		p.DeletionTimestamp = &now
	}
	r := makeRoomFor(t, c, gpus("3"), RoomOptions{})
	if r.Outcome == "found" || r.Movable != 0 || r.Ending == 0 || len(r.Staying) != 0 {
		t.Errorf("%s, %d movable, %d ending, staying %v: want nothing but pods that end", r.Outcome, r.Movable, r.Ending, r.Staying)
	}
}

// TestStays: the pods that are not moved, and the reasons.
func TestStays(t *testing.T) {
	c := owning(t)
	s := surveyed(t, c)
	n := s.States["gpu-1"]
	if len(s.States["gpu-1"].Bound) == 0 {
		t.Fatal("no pod on gpu-1")
	}
	one := intstr.FromInt32(1)
	budgets := readBudgets([]policyv1.PodDisruptionBudget{
		{ObjectMeta: metav1.ObjectMeta{Name: "tight", Namespace: "x"}, Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: &one, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"tight": "yes"}}}},
		{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "x"}, Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"twice": "yes"}}}},
		{ObjectMeta: metav1.ObjectMeta{Name: "b", Namespace: "x"}, Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"twice": "yes"}}}},
	})
	m := &mover{priority: 100, schedulers: []string{"second", corev1.DefaultSchedulerName}, budgets: budgets, now: s.Now}
	undisrupted := func(value string, ago time.Duration) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Annotations, p.Status.StartTime = map[string]string{annotationDisrupt: value}, &metav1.Time{Time: s.Now.Add(-ago)}
		}
	}
	for _, c := range []struct {
		what   string
		change func(*corev1.Pod)
		want   string
	}{
		{"a replica", func(*corev1.Pod) {}, ""},
		{"alone", func(p *corev1.Pod) { p.OwnerReferences = nil }, "no controller owns it"},
		{"owned, not controlled", func(p *corev1.Pod) { p.OwnerReferences[0].Controller = nil }, "no controller owns it"},
		{"static", func(p *corev1.Pod) { owned(p, "Node", "gpu-1") }, "static pod"},
		{"mirrored", func(p *corev1.Pod) { p.Annotations = map[string]string{annotationMirror: "x"} }, "static pod"},
		{"a DaemonSet's", func(p *corev1.Pod) { owned(p, "DaemonSet", "d") }, "DaemonSet"},
		{"a Job's", func(p *corev1.Pod) { owned(p, "Job", "j") }, "work would be lost"},
		{"a Job's that may go", func(p *corev1.Pod) {
			owned(p, "Job", "j").Annotations = map[string]string{annotationEvict: "true"}
		}, ""},
		{"a StatefulSet's", func(p *corev1.Pod) { owned(p, "StatefulSet", "s") }, ""},
		{"a ReplicationController's", func(p *corev1.Pod) { owned(p, "ReplicationController", "r") }, ""},
		{"a TaskRun's", func(p *corev1.Pod) { owned(p, "TaskRun", "t") }, "its TaskRun might not recreate it"},
		{"a virtual machine's", func(p *corev1.Pod) { owned(p, "VirtualMachineInstance", "v") }, "its VirtualMachineInstance might not recreate it"},
		{"a CloneSet's that may go", func(p *corev1.Pod) {
			owned(p, "CloneSet", "c").Annotations = map[string]string{annotationEvict: "true"}
		}, ""},
		{"slow to end", func(p *corev1.Pod) { grace := int64(601); p.Spec.TerminationGracePeriodSeconds = &grace }, "longer than 10m0s to end"},
		{"not too slow to end", func(p *corev1.Pod) { grace := int64(600); p.Spec.TerminationGracePeriodSeconds = &grace }, ""},
		{"more important", func(p *corev1.Pod) { high := int32(101); p.Spec.Priority = &high }, "its priority is higher"},
		{"as important", func(p *corev1.Pod) { same := int32(100); p.Spec.Priority = &same }, ""},
		{"critical", func(p *corev1.Pod) { high := int32(gangfit.SystemCritical); p.Spec.Priority = &high }, "critical"},
		{"of the other wanted pod's scheduler", func(p *corev1.Pod) { p.Spec.SchedulerName = "second" }, ""},
		{"another scheduler's", func(p *corev1.Pod) { p.Spec.SchedulerName = "other" }, "another scheduler"},
		{"of a gang", func(p *corev1.Pod) { p.Annotations = map[string]string{wire.GangAnnotation: "g"} }, "member of a gang"},
		{"of a Kubernetes PodGroup", func(p *corev1.Pod) { p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: new("g")} }, "member of a gang"},
		{"kept by the autoscaler", func(p *corev1.Pod) { p.Annotations = map[string]string{annotationSafe: "false"} }, annotationSafe},
		{"kept by the descheduler", func(p *corev1.Pod) { p.Annotations = map[string]string{annotationPrefer: "true"} }, annotationPrefer},
		{"kept by the descheduler, without a value", func(p *corev1.Pod) { p.Annotations = map[string]string{annotationPrefer: ""} }, annotationPrefer},
		{"kept by Karpenter", undisrupted("true", time.Hour), annotationDisrupt},
		{"kept by Karpenter for a time", undisrupted("2h", time.Hour), annotationDisrupt},
		{"no longer kept by Karpenter", undisrupted("30m", time.Hour), ""},
		{"not kept by Karpenter", undisrupted("false", time.Hour), ""},
		{"of Kueue", func(p *corev1.Pod) { p.Labels = map[string]string{labelKueue: "true"} }, "Kueue might not admit its replacement"},
		{"of Kueue, that may go", func(p *corev1.Pod) {
			p.Labels, p.Annotations = map[string]string{labelKueue: "true"}, map[string]string{annotationEvict: "true"}
		}, ""},
		{"with local data", func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
		}, "local volumes"},
		{"with data that may go", func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
			p.Annotations = map[string]string{annotationEvict: "true"}
		}, ""},
		{"with a claim", func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{}}}}
		}, "may be tied to its node"},
		{"with a token", func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}}}
		}, ""},
		{"with a tight budget", func(p *corev1.Pod) { p.Namespace, p.Labels = "x", map[string]string{"tight": "yes"} }, "tight allows no disruption"},
		{"with the budget of another namespace", func(p *corev1.Pod) { p.Namespace, p.Labels = "y", map[string]string{"tight": "yes"} }, ""},
		{"with two budgets", func(p *corev1.Pod) { p.Namespace, p.Labels = "x", map[string]string{"twice": "yes"} }, "several PodDisruptionBudgets"},
		{"in flight", func(p *corev1.Pod) { p.UID = "unknown" }, "not reported it yet"},
	} {
		p := s.States["gpu-1"].Bound[0].DeepCopy()
		c.change(p)
		if got := m.stays(p, n); (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
}

// TestMakeRoomRefuses invalid requests, with the reason.
func TestMakeRoomRefuses(t *testing.T) {
	c := owning(t)
	if _, err := MakeRoom(t.Context(), c, []Wanted{{Pod: gpus("1"), Replicas: maxRoomFor + 1}}, RoomOptions{}); err == nil || !strings.Contains(err.Error(), "want at most 32") {
		t.Errorf("33 pods: %v", err)
	}
	c.Namespace = "research"
	if _, err := MakeRoomFor(t.Context(), c, c.Namespace, "train-0", RoomOptions{}); err == nil || !strings.Contains(err.Error(), "want a pod that waits") {
		t.Errorf("a pod that runs: %v", err)
	}
	now := metav1.Now()
	for want, change := range map[string]func(*corev1.Pod){
		"it is being deleted: want a pod that waits": func(p *corev1.Pod) { p.DeletionTimestamp = &now },
		"it has ended (status.phase: Failed)":        func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed },
		"it has the scheduling gate example.com/q": func(p *corev1.Pod) {
			p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/q"}}
		},
	} {
		p := gpus("3")
		p.Namespace = c.Namespace
		change(p)
		pods := &c.From.(*source.Snapshot).Pods
		*pods = append(*pods, p)
		if r, err := MakeRoomFor(t.Context(), c, c.Namespace, p.Name, RoomOptions{}); err == nil || !strings.Contains(err.Error(), "pod research/big: "+want) {
			t.Errorf("%+v, %v: want %q", r, err, want)
		}
		*pods = (*pods)[:len(*pods)-1]
	}
	if _, err := MakeRoomFor(t.Context(), c, c.Namespace, "nobody", RoomOptions{}); err == nil {
		t.Error("a pod that is not there")
	}
	c = playground(t)
	r := makeRoomFor(t, c, gpus("3"), RoomOptions{})
	if len(r.Moves) > 0 || r.Outcome != "no room" || len(r.Notes) == 0 || r.Staying["nothing would replace it: no controller owns it"] != 34 {
		t.Errorf("where no pod has a controller: %+v", r)
	}
}
