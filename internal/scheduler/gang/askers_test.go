package gang

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	volcano "github.com/berth-dev/berth/api/scheduling/volcano/v1beta1"
	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/nodestate"
	"github.com/berth-dev/berth/internal/plan"
	"github.com/berth-dev/berth/internal/rank"
	"github.com/berth-dev/berth/internal/simulate"
	"github.com/berth-dev/berth/internal/simulate/trace"
	"github.com/berth-dev/berth/internal/survey/query"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// askedGang is a random gang in a random cluster. All askers get both.
type askedGang struct {
	*world
	r    *rand.Rand
	name string
	// uniform means that all pods of the gang start together and have equal requests without
	// wishes.
	uniform bool
	members []*corev1.Pod
	object  *volcano.PodGroup
	spec    placement.Config
	states  []*placement.State
	model   *placement.Model
	view    *placement.KubeletView
	machine *topology.Machine
	// snapshot is the output of `berth snapshot`. start is the initial state of a simulation.
	snapshot map[string]any
	start    []simulate.StartNode
}

// TestAllAskersAgree: the scheduler, the command line with the map, and the simulator find the same
// verdict about the same 1,000 random gangs.
func TestAllAskersAgree(t *testing.T) {
	seen := map[string]int{}
	for round := range uint64(20) {
		inWorld(t, 0, func(w *world) {
			for i := range uint64(50) {
				g := &askedGang{world: w, r: rand.New(rand.NewPCG(round, i)), name: fmt.Sprint("g", i)}
				g.make()
				g.compare(seen)
				if w.t.Failed() {
					w.t.Fatalf("round %d, gang %d: %s", round, i, g)
				}
				for _, pod := range w.pods {
					w.groups.PodGone(pod)
				}
			}
		})
	}
	for _, what := range []string{"fits", "does not", "short", "simulated fits", "simulated does not", "mates", "wrong", "done"} {
		if seen[what] < 20 {
			t.Errorf("%s: %d times, the test has not seen all: %v", what, seen[what], seen)
		}
	}
}

// String describes the gang and the cluster for the analysis of a difference.
func (g *askedGang) String() string {
	var out strings.Builder
	fmt.Fprintf(&out, "%d nodes with %s", len(g.nodes), g.spec.TopologyManagerPolicy)
	if g.object != nil {
		fmt.Fprintf(&out, ", %+v", g.object.Spec)
	}
	for _, uid := range slices.Sorted(maps.Keys(g.pods)) {
		pod := g.pods[uid]
		fmt.Fprintf(&out, "\n%s: %d thousandths, priority %d, created at %d, on node %q, %v", pod.Name, sum(pod), *pod.Spec.Priority, pod.CreationTimestamp.Unix(), pod.Spec.NodeName, pod.Annotations)
	}
	return out.String()
}

// make makes a cluster of up to four nodes with some pods, and a waiting gang.
func (g *askedGang) make() {
	var err error
	g.machine, err = topology.Parse("package:2 numa:1 core:4 pu:1 mem:16Gi dist:10,21")
	g.must(err)
	g.view, err = placement.ViewOf(g.machine)
	g.must(err)
	policy := []string{"single-numa-node", "restricted", "best-effort"}[g.r.IntN(3)]
	g.spec = placement.Config{Version: placement.V136, CPUManagerPolicy: "static", ReservedSystemCPUs: "0", TopologyManagerPolicy: policy}
	g.model, err = placement.NewModel(g.view, g.spec)
	g.must(err)
	g.nodes, g.accounts, g.pods, g.nominated = nil, map[string]*ledger.Node{}, map[types.UID]*corev1.Pod{}, map[string]string{}
	g.snapshot, g.states, g.start = map[string]any{"kind": "BerthSnapshot", "version": 1, "taken": time.Unix(1_700_000_200, 0), "staleAfter": "1m"}, nil, nil
	for range 1 + g.r.IntN(4) {
		g.addNode()
	}
	g.gather()
	g.report()
}

func (g *askedGang) addNode() {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n", len(g.nodes))}}
	node.Status.Allocatable = corev1.ResourceList{"cpu": resource.MustParse("7"), "memory": resource.MustParse("30Gi"), "pods": resource.MustParse("100")}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	g.nodes, g.states = append(g.nodes, node), append(g.states, g.model.NewState())
	for i := range g.r.IntN(4) {
		pod := podOf("", fmt.Sprintf("%s-other-%d", node.Name, i), 0, 1+g.r.IntN(3))
		pod.Annotations = nil
		g.settle(pod, len(g.nodes)-1)
	}
}

// settle puts a pod on a node if the node's kubelet admits the pod.
func (g *askedGang) settle(pod *corev1.Pod, node int) bool {
	pod.CreationTimestamp = metav1.Unix(1_700_000_000, 0)
	pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
	pod.Spec.Priority = new(int32(g.r.IntN(3)))
	ask, err := wire.ReadPod(pod)
	g.must(err)
	var d placement.Decision
	if v := placement.Decide(g.states[node], &ask.Request, &d); !v.OK() {
		return false
	}
	g.states[node].Commit(&ask.Request, &d)
	pod.Spec.NodeName, pod.Status.Phase = g.nodes[node].Name, corev1.PodRunning
	g.pods[pod.UID] = pod
	return true
}

// gather makes the gang. Some of its pods may have nodes.
func (g *askedGang) gather() {
	count, cpus, priority := 1+g.r.IntN(7), 1+g.r.IntN(4), int32(g.r.IntN(3))
	minimum := 1 + g.r.IntN(count)
	g.uniform, g.object, g.members = g.r.IntN(2) == 0, nil, nil
	if g.uniform {
		minimum = count
	}
	key := wire.GangKey{Source: wire.GangOfPods, Namespace: "default", Name: g.name}
	if g.r.IntN(2) == 0 {
		g.object = &volcano.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: g.name, UID: types.UID("u" + g.name), ResourceVersion: "5"}}
		g.object.TypeMeta = metav1.TypeMeta{APIVersion: volcano.GroupVersion.String(), Kind: "PodGroup"}
		g.object.Spec.MinMember = int32(minimum)
		if !g.uniform && g.r.IntN(3) == 0 {
			g.object.Spec.MinTaskMember = map[string]int32{"a": int32(g.r.IntN(minimum + 1))}
		}
		if !g.uniform && g.r.IntN(2) == 0 {
			g.object.Spec.MinResources = &corev1.ResourceList{"cpu": *resource.NewQuantity(1+g.r.Int64N(24), resource.DecimalSI)}
		}
		key.Source = wire.GangOfVolcano
	}
	for i := range count {
		if !g.uniform && g.r.IntN(2) == 0 {
			cpus = 1 + g.r.IntN(4)
		}
		pod := podOf(g.name, fmt.Sprintf("%s-%d", g.name, i), minimum, cpus)
		if g.object != nil {
			pod.Annotations = map[string]string{volcano.GroupNameAnnotation: g.name, volcano.TaskSpecAnnotation: string("ab"[g.r.IntN(2)])}
		}
		if !g.uniform && g.r.IntN(5) == 0 && g.settle(pod, g.r.IntN(len(g.nodes))) {
			pod.Annotations[wire.BoundForAnnotation] = wire.WriteBoundFor(pod, wire.BoundFor{Gang: key})
		}
		pod.CreationTimestamp = metav1.Unix(1_700_000_100+g.r.Int64N(2), 0)
		pod.Spec.RestartPolicy = corev1.RestartPolicyAlways // so that it does not end by itself
		pod.Spec.Priority = &priority
		if !g.uniform && g.r.IntN(8) == 0 {
			g.wish(pod, count)
		}
		g.members, g.pods[pod.UID] = append(g.members, pod), pod
	}
}

// wish gives a pod a wish about the NUMA nodes of other members.
func (g *askedGang) wish(pod *corev1.Pod, count int) {
	text := fmt.Sprintf("%s-%d", g.name, g.r.IntN(count+1)) // the pod may not exist, or be the pod itself
	if g.r.IntN(2) == 0 {
		text = "preferred:" + text
	}
	pod.Annotations[[]string{wire.SameNUMAAnnotation, wire.OtherNUMAAnnotation}[g.r.IntN(2)]] = text
}

// report shows the nodes and their pods to all askers.
func (g *askedGang) report() {
	var all ledger.Ledger
	var reports, leases []any
	var pods []*corev1.Pod
	for i, node := range g.nodes {
		snap := g.states[i].Snapshot()
		r, err := ledger.NewReport(1, g.model, &snap, nil)
		g.must(err)
		g.accounts[node.Name] = all.Open(nil)
		g.accounts[node.Name].Accept(r)
		for _, uid := range slices.Sorted(maps.Keys(g.pods)) {
			if pod := g.pods[uid]; pod.Spec.NodeName == node.Name {
				seen, err := nodestate.SightingOf(pod)
				g.must(err)
				g.accounts[node.Name].See(seen.Sighting)
			}
		}
		spec := wire.NodeSpec{Machine: g.machine, View: g.view, Config: g.spec, Authority: v1alpha1.AuthorityKubelet, KubeletVersion: "v1.36.3"}
		report := wire.Report{Sequence: 1, Observed: time.Unix(1_700_000_050, 0), Snapshot: snap, Pods: make([]wire.ReportedPod, len(snap.Pods)), Conditions: []metav1.Condition{{
			Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonConsistent}}}
		nt, err := wire.WriteNodeTopology(&wire.Node{Name: node.Name, Spec: spec, Report: report})
		g.must(err)
		renewed := metav1.NewMicroTime(time.Unix(1_700_000_190, 0))
		reports, leases = append(reports, nt), append(leases, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.HeartbeatName(node.Name)},
			Spec: coordinationv1.LeaseSpec{RenewTime: &renewed}})
		g.start = append(g.start, g.startOf(i))
	}
	for _, pod := range g.pods {
		pods = append(pods, pod)
	}
	g.snapshot["nodes"], g.snapshot["nodeTopologies"], g.snapshot["leases"], g.snapshot["pods"] = g.nodes, reports, leases, pods
	if g.object != nil {
		g.snapshot["podGroups"] = []any{g.object}
	}
}

// startOf returns a node for the simulator.
func (g *askedGang) startOf(i int) simulate.StartNode {
	out := simulate.StartNode{Machine: g.machine, Model: g.model, State: g.states[i], Node: trace.Node{Name: g.nodes[i].Name, MilliCPU: 7000, MiB: 30 << 10}}
	for _, pod := range g.pods {
		if pod.Spec.NodeName != g.nodes[i].Name {
			continue
		}
		ask, err := wire.ReadPod(pod)
		g.must(err)
		out.Pods = append(out.Pods, simulate.StartPod{UID: string(pod.UID), Request: ask.Request, MilliCPU: sum(pod), MiB: 64})
	}
	return out
}

// compare asks all askers about the gang.
func (g *askedGang) compare(seen map[string]int) {
	says := g.explained()
	r := g.tried()
	if r == nil {
		return
	}
	if r.wrong != nil {
		seen["wrong"]++
		if says.Whole || says.Verdict != r.wrong.Message() {
			g.t.Errorf("the scheduler says %q; the command line %q", r.wrong.Message(), says.Verdict)
		}
		return
	}
	verdict, _, _ := strings.Cut(says.Verdict, "; even empty nodes would not be enough")
	if r.Whole != says.Whole || r.Fit != says.Fit || r.String() != verdict {
		g.t.Errorf("the scheduler says %q, %d fit, whole %t: %+v; the command line %q, %d fit, whole %t: %+v", r, r.Fit, r.Whole, r.Places, says.Verdict, says.Fit, says.Whole, says.Pods)
	}
	for _, p := range says.Pods {
		at := slices.IndexFunc(r.Places, func(at plan.Place) bool { return r.trial.job.Pods[at.Member].Name == p.Name })
		if fits := p.State == query.StateWouldFit; fits != (at >= 0) || fits && p.Node != r.trial.name(r.Places[at].Node) {
			g.t.Errorf("%s: %+v, and the scheduler's places are %+v", p.Name, p, r.Places)
		}
	}
	g.count(seen, r)
	if g.uniform && r.Short == nil {
		got := g.simulated()
		if got != r.Whole {
			g.t.Errorf("the scheduler says %q, and the simulator places the gang: %t", r, got)
		}
		seen["simulated "+map[bool]string{true: "fits", false: "does not"}[got]]++
	}
}

// count counts the kinds of gangs.
func (g *askedGang) count(seen map[string]int, r *result) {
	switch {
	case r.Short != nil:
		seen["short"]++
	case r.Whole:
		seen["fits"]++
	default:
		seen["does not"]++
	}
	if r.trial.job.gang.Wishes() {
		seen["mates"]++
	}
	if r.trial.job.gang.Done > 0 {
		seen["done"]++
	}
}

// explained asks the command line.
func (g *askedGang) explained() *query.ExplainedGang {
	c := opened(g.t, g.snapshot)
	c.Namespace = "default"
	named, notes, err := c.GangNamed(g.t.Context(), "", g.name)
	if err != nil {
		g.t.Fatal(err)
	}
	e, err := query.ExplainGang(g.t.Context(), c, named, notes)
	g.must(err)
	return e
}

// tried asks the scheduler. It returns nil if the scheduler does not plan the whole gang, because
// the gang is complete or invalid.
func (g *askedGang) tried() *result {
	if g.object != nil {
		defer g.groups.ObjectGone(wire.GangKey{Source: wire.GangOfVolcano, Namespace: "default", Name: g.name})
	}
	for _, pod := range g.members {
		g.groups.PodSeen(pod)
	}
	if g.object != nil {
		spec, wrong := wire.ReadVolcanoGroup(g.object)
		g.groups.ObjectSeen(spec, wrong)
	}
	g.groups.book.mu.Lock()
	of := g.groups.book.of[g.members[0].UID]
	first := of.leader()
	if first == nil || of.settled() || of.blocked() != "" {
		g.groups.book.mu.Unlock()
		return nil
	}
	j := g.groups.book.job(of, first.pod.UID)
	j.gang.Claim, _ = g.groups.admitter.claim(of)
	g.groups.book.mu.Unlock()
	j.others = g.groups.evictor
	profile := g.profile()
	profile.Handle = inOrder{&fakeHandle{w: g.world}, g.machine}
	return j.try(g.t.Context(), profile)
}

// inOrder is a framework that ranks nodes only as Berth does.
type inOrder struct {
	*fakeHandle
	machine *topology.Machine
}

func (h inOrder) RunScorePlugins(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, infos []fwk.NodeInfo) (out []fwk.NodePluginScores, _ *fwk.Status) {
	c, err := h.w.profile().Candidate(pod)
	h.w.must(err)
	var scoring rank.Scoring
	scoring.FillIn()
	for _, info := range infos {
		account := h.w.accounts[info.Node().Name]
		score := fwk.NodePluginScores{Name: info.Node().Name}
		if a := account.View().Ask(ledger.Question{Candidate: c}); a.OK() {
			offer := rank.OfferOf(account, c.Request, &a, h.machine)
			score.TotalScore = int64(rank.LastOrder) - int64(scoring.Order(scoring.Setting(false).Rank(scoring.Rank(&offer), 0)))
		}
		out = append(out, score)
	}
	return out, nil
}

// simulated asks the simulator, in which the gang arrives at the cluster.
func (g *askedGang) simulated() bool {
	start, err := simulate.NewStart(g.start)
	g.must(err)
	strategies, err := simulate.StrategiesOf(simulate.Strategies(), "Berth")
	g.must(err)
	pod := trace.Pod{Name: g.name, MilliCPU: sum(g.members[0]), MiB: 64, Members: len(g.members), Timed: true, Deleted: 3600}
	e := simulate.Experiment{Nodes: start.Nodes(), Pods: []trace.Pod{pod}, Strategies: strategies, Seeds: []int64{1}, Ground: start.Ground, Start: start, Times: &trace.Times{For: time.Hour}}
	runs, err := e.Run(g.t.Context())
	g.must(err)
	return runs[0].Timed.Left == 0
}
