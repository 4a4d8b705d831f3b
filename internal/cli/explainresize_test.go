package cli

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// TestExplainResize: the result of a resize, by the node's kubelet or the API server, is shown
// before it is requested.
func TestExplainResize(t *testing.T) {
	noMemory := func(n *wire.Node) { n.Spec.Config.MemoryManagerPolicy, n.Spec.Config.ReservedMemory = "", nil }
	noManagers := func(n *wire.Node) {
		noMemory(n)
		n.Spec.Config.CPUManagerPolicy, n.Spec.Config.ReservedSystemCPUs, n.Report.Pods = "", "", nil
		n.Report.Snapshot = stateOf(t, &n.Spec).Snapshot()
	}
	berth := func(n *wire.Node) { *n = *obeying(t, "n1") }
	placed := func(_ *world, p *corev1.Pod) {
		text, err := wire.WritePlacement(&wire.Placement{Sequence: 1, Certainty: wire.Exact, Guarantee: wire.GuaranteeFull, Authority: placement.AuthorityBerth,
			Decision: placement.Decision{UID: string(p.UID), Containers: []placement.ContainerDecision{{Name: "main", Hint: placement.Hint{Any: true}, CPUs: topology.NewCPUSet(1, 9),
				Memory: []placement.MemoryBlock{{Resource: "memory", NUMA: 1, Bytes: 1 << 30}}}}}})
		if err != nil {
			t.Fatal(err)
		}
		p.Annotations = map[string]string{wire.PlacementAnnotation: text}
	}
	small := func(w *world, _ *corev1.Pod) {
		w.nodes[0].Status.Allocatable = corev1.ResourceList{"cpu": resource.MustParse("14"), "memory": resource.MustParse("30Gi"), "pods": resource.MustParse("110")}
	}
	burstable := func(_ *world, p *corev1.Pod) {
		p.Status.QOSClass = corev1.PodQOSBurstable
		p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("2"), "memory": resource.MustParse("1Gi")}, Limits: corev1.ResourceList{"cpu": resource.MustParse("4")}}
	}
	two := func(_ *world, p *corev1.Pod) {
		p.Spec.Containers = append(p.Spec.Containers, *p.Spec.Containers[0].DeepCopy())
		p.Spec.Containers[1].Name = "side"
	}
	for name, c := range map[string]struct {
		node  func(*wire.Node)
		spoil func(*world, *corev1.Pod)
		asked
	}{
		"CPUs of a pinned pod": {nil, small, asked{args: []string{"cpu=8"}, code: ExitFailure, want: []string{
			"pod default/pod: on node n1, kubelet v1.36.3\n", "resize: main: cpu 2 -> 8\n", "answer: infeasible: the pod keeps what it had\n",
			`why: Resize is infeasible for Guaranteed Pods alongside CPU Manager policy "static"`, errNotResized.Error()}}},
		"memory under the Static policy": {nil, small, asked{args: []string{"main:memory=2Gi"}, code: ExitFailure, want: []string{"memory 1Gi -> 2Gi", `alongside Memory Manager policy "Static"`}}},
		"memory without":                 {noMemory, small, asked{args: []string{"memory=2Gi"}, want: []string{"answer: proceeds: the kubelet allocates the new amounts"}}},
		"without managers":               {noManagers, small, asked{args: []string{"cpu=3,memory=2Gi"}, want: []string{"cpu 2 -> 3", "memory 1Gi -> 2Gi", "answer: proceeds"}}},
		"others have the rest": {noManagers, func(w *world, p *corev1.Pod) {
			small(w, p)
			w.addPod("other", "n1", 10, 0)
		}, asked{args: []string{"cpu=8"}, code: ExitFailure, want: []string{"answer: deferred: the pod keeps what it had, and the kubelet tries again", "cpu, requested: 8000, used: 10000, capacity: 14000"}}},
		"others were refused what they want": {noManagers, func(w *world, p *corev1.Pod) {
			small(w, p)
			w.addPod("other", "n1", 10, 0).Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", AllocatedResources: corev1.ResourceList{"cpu": resource.MustParse("2"), "memory": resource.MustParse("1Gi")}}}
		}, asked{args: []string{"cpu=8"}, want: []string{"answer: proceeds"}}},
		"more than the node has": {nil, small, asked{args: []string{"cpu=40"}, code: ExitFailure, want: []string{"answer: rejected: the API server does not accept the change", "node didn't have enough allocatable resources: cpu, requested: 40000, allocatable: 14000"}}},
		"as it is":               {nil, small, asked{args: []string{"cpu=2000m"}, want: []string{"resize: nothing changes", "answer: proceeds"}}},
		"back to what was allocated": {nil, func(w *world, p *corev1.Pod) {
			small(w, p)
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", AllocatedResources: corev1.ResourceList{"cpu": resource.MustParse("1"), "memory": resource.MustParse("1Gi")}}}
		}, asked{args: []string{"cpu=1"}, want: []string{"resize: nothing changes", "answer: proceeds"}}},
		"a pod that shares":    {nil, burstable, asked{args: []string{"cpu=3"}, want: []string{"cpu 2 -> 3", "answer: proceeds"}, never: []string{"swap"}}},
		"above its limit":      {nil, burstable, asked{args: []string{"cpu=5"}, code: ExitFailure, want: []string{"pod default/pod: --resize main:cpu=5: want no more than the container's limit, 4"}}},
		"memory that may swap": {nil, burstable, asked{args: []string{"memory=2Gi"}, want: []string{"answer: proceeds", "LimitedSwap"}}},
		"another class":        {nil, small, asked{args: []string{"cpu=0"}, code: ExitFailure, want: []string{"Pod QOS Class may not change as a result of resizing"}}},
		"more than spec.resources": {nil, func(w *world, p *corev1.Pod) {
			burstable(w, p)
			p.Spec.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("2"), "memory": resource.MustParse("1Gi")}}
		}, asked{args: []string{"cpu=3"}, code: ExitFailure, want: []string{"answer: rejected", "spec.resources.requests[cpu]: 2: must be greater than or equal to aggregate container requests of 3"}}},
		"several containers": {nil, two, asked{args: []string{"cpu=8"}, code: ExitFailure, want: []string{`container "": want one of main, side`}}},
		"one of several":     {nil, two, asked{args: []string{"side:cpu=8"}, code: ExitFailure, want: []string{"resize: side: cpu 2 -> 8\n", "answer: infeasible"}}},
		"no such container":  {nil, nil, asked{args: []string{"x:cpu=8"}, code: ExitFailure, want: []string{`container "x": want one of main`}}},
		"a static pod": {nil, func(_ *world, p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} },
			asked{args: []string{"cpu=8"}, code: ExitFailure, want: []string{"answer: rejected", "static pods cannot be resized"}}},
		"where Berth decides, and has not": {berth, small, asked{args: []string{"cpu=8"}, want: []string{"answer: proceeds"}}},
		"where Berth decides":              {berth, placed, asked{args: []string{"cpu=3"}, want: []string{"cpu 2 -> 3", "answer: proceeds"}}},
		"where Berth decides, beyond its NUMA node": {berth, placed,
			asked{args: []string{"cpu=12"}, code: ExitFailure, want: []string{"answer: deferred", "container main: its new size is not possible on its NUMA nodes: too few CPUs are left"}}},
		"where Berth decides, a fraction": {berth, placed, asked{args: []string{"cpu=2500m"}, code: ExitFailure, want: []string{"answer: rejected", "from whole numbers to whole numbers"}}},
		"where Berth decides, a member of a gang": {berth, func(w *world, p *corev1.Pod) {
			placed(w, p)
			p.Annotations[wire.BoundForAnnotation] = wire.WriteBoundFor(p, wire.BoundFor{Gang: wire.GangKey{Source: wire.GangOfPods, Namespace: p.Namespace, Name: "g"}})
		}, asked{args: []string{"cpu=3"}, want: []string{"answer: proceeds"}}},
		"where Berth decides, an owner of a Reservation": {berth, func(w *world, p *corev1.Pod) {
			placed(w, p)
			p.Annotations[wire.BoundForAnnotation] = wire.WriteBoundFor(p, wire.BoundFor{Reservation: "r"})
		}, asked{args: []string{"cpu=3"}, code: ExitFailure, want: []string{"answer: rejected", "makes no new decision for the pod: it uses a Reservation"}}},
		"JSON":           {nil, small, asked{args: []string{"cpu=8", "-o", "json"}, code: ExitFailure, want: []string{`"outcome": "infeasible"`, `"message": "Resize is infeasible`, `"changes": [`}}},
		"no resource":    {nil, nil, asked{args: []string{"gpu=8"}, code: ExitUsage, want: []string{`--resize "gpu=8": want [CONTAINER:]cpu=AMOUNT or [CONTAINER:]memory=AMOUNT`}}},
		"no amount":      {nil, nil, asked{args: []string{"cpu"}, code: ExitUsage, want: []string{`--resize "cpu": want [CONTAINER:]cpu=AMOUNT`}}},
		"no number":      {nil, nil, asked{args: []string{"cpu=many"}, code: ExitUsage, want: []string{`"many": want an amount`}}},
		"below zero":     {nil, nil, asked{args: []string{"cpu=-1"}, code: ExitUsage, want: []string{`"-1": want an amount`}}},
		"twice":          {nil, nil, asked{args: []string{"cpu=1,cpu=2"}, code: ExitUsage, want: []string{"want each amount once"}}},
		"another's node": {nil, nil, asked{args: []string{"cpu=8", "--node", "n2"}, code: ExitUsage, want: []string{"a pod is resized on its own node"}}},
	} {
		t.Run(name, func(t *testing.T) {
			w, pod := onePod(t, "n1")
			if c.spoil != nil {
				c.spoil(w, pod)
			}
			report := reportOf(t, "n1", requestOf(t, pod))
			if c.node != nil {
				c.node(report)
				if report.Spec.Config.MemoryManagerPolicy == "" {
					report.Report.Snapshot.Memory = nil
					for i := range report.Report.Snapshot.Pods {
						for j := range report.Report.Snapshot.Pods[i].Containers {
							report.Report.Snapshot.Pods[i].Containers[j].Memory = nil
						}
					}
				}
			}
			w.addTopology(report, nil)
			c.asked.args = append([]string{"explain", "pod", "--resize"}, c.asked.args...)
			c.asked.check(t, w)
		})
	}
	w, _ := onePod(t, "")
	(&asked{args: []string{"explain", "pod", "--resize", "cpu=8"}, code: ExitFailure, want: []string{"it has no node yet"}}).check(t, w)
	(&asked{args: []string{"explain", "--resize", "cpu=8"}, code: ExitUsage, want: []string{"want the name of a pod that has a node"}}).check(t, w)
	(&asked{args: []string{"explain", "gang", "g", "--resize", "cpu=8"}, code: ExitUsage, want: []string{"want the name of a pod"}}).check(t, w)
}

// FuzzChangesOf: a value of --resize is an amount of a resource, or refused.
func FuzzChangesOf(f *testing.F) {
	f.Add("main:cpu=16", "memory=1Gi")
	f.Fuzz(func(t *testing.T, first, second string) {
		changes, err := changesOf([]string{first, second})
		if (err == nil) != (len(changes) == 2) {
			t.Fatalf("%+v, %v", changes, err)
		}
		for _, c := range changes {
			if c.Amount.Sign() < 0 || c.Resource != "cpu" && c.Resource != "memory" {
				t.Errorf("%+v", c)
			}
		}
	})
}
