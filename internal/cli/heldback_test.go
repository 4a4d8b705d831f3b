package cli

import (
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// freeWorld has two nodes that would admit the pod.
func freeWorld(t *testing.T) (*world, *corev1.Pod) {
	w := &world{t: t}
	w.pods = make([]corev1.Pod, 0, 8)
	for _, name := range []string{"n1", "n3"} {
		n := w.addNode(name, 0)
		n.Labels["pool"] = "gpu-a"
		n.Status.Allocatable = corev1.ResourceList{"cpu": resource.MustParse("14"), "memory": resource.MustParse("16Gi"), "example.com/gpu": resource.MustParse("2"), "pods": resource.MustParse("110")}
		w.addTopology(reportOf(t, name), nil)
	}
	return w, w.addPod("pod", "", 2, 0)
}

// TestHeldBack: the plugin that holds a pod back is named first, with advice, and the exit code is
// 1.
func TestHeldBack(t *testing.T) {
	spread := func(key string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: corev1.DoNotSchedule}}
		}
	}
	says := func(message string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.Conditions[0].Reason, p.Status.Conditions[0].Message = "Unschedulable", message
		}
	}
	const fails = "0/2 nodes are available: "
	for name, c := range map[string]struct {
		spoil func(*corev1.Pod)
		want  []string
	}{
		"gate": {func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/wait"}} },
			[]string{"held back by SchedulingGates: no scheduler looks at the pod before its scheduling gates are removed: example.com/wait", "do: look at the controller that sets and removes the gate"}},
		"Kueue's gate": {func(p *corev1.Pod) {
			p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "kueue.x-k8s.io/admission"}}
		},
			[]string{"removed: kueue.x-k8s.io/admission", "do: Kueue removes its gate when it admits the pod: kubectl describe workloads.kueue.x-k8s.io -n "}},
		"a spread constraint by a label nobody has": {spread("topology.kubernetes.io/zone"),
			[]string{"held back by PodTopologySpread: no node has the label topology.kubernetes.io/zone", "do: give nodes the label (kubectl label node NODE topology.kubernetes.io/zone=VALUE)"}},
		"spread": {says(fails + "2 node(s) didn't match pod topology spread constraints. preemption: 0/2 nodes are available: 2 No preemption victims found."),
			[]string{"held back by PodTopologySpread: didn't match pod topology spread constraints", "raise maxSkew"}},
		"affinity": {says(fails + "1 Insufficient cpu, 1 node(s) didn't match pod anti-affinity rules."), []string{"held back by InterPodAffinity: didn't match pod anti-affinity rules", "do:"}},
		"a claim":  {says(fails + "pod has unbound immediate PersistentVolumeClaims. not found"), []string{"held back by VolumeBinding: pod has unbound immediate", "kubectl describe pvc"}},
		"no claim": {says(fails + `persistentvolumeclaim "data" not found. preemption: not eligible`), []string{`held back by VolumeBinding: persistentvolumeclaim "data" not found`}},
		"no claim, by the API server": {func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
		}, []string{"held back by VolumeBinding: there is no PersistentVolumeClaim data", "do: create it, or correct the name in spec.volumes"}},
		"no volumes":                 {says(fails + "2 node(s) didn't find available persistent volumes to bind."), []string{"held back by VolumeBinding: didn't find available persistent volumes to bind"}},
		"a plugin that nobody knows": {says(fails + "2 moon is in the wrong house."), []string{"held back by another plugin: moon is in the wrong house", "do: Berth does not refuse the pod: look at the pod's events"}},
	} {
		w, pod := freeWorld(t)
		c.spoil(pod)
		a := asked{args: []string{"explain", "pod"}, code: 1, want: append(c.want, "2 nodes, asked as if nothing else held the pod back")}
		t.Run(name, func(t *testing.T) { a.check(t, w) })
	}
	for name, spoil := range map[string]func(*corev1.Pod){
		"nothing": func(*corev1.Pod) {}, "a label that nodes have": spread("pool"),
		"an old message":      says(fails + "2 Insufficient cpu. preemption: 0/2 nodes are available: 2 No preemption victims found."),
		"Berth's own message": says(fails + "2 node(s) whose kubelet would refuse the pod: TopologyAffinityError: no set of NUMA nodes is preferred by all resources."),
	} {
		w, pod := freeWorld(t)
		spoil(pod)
		a := asked{args: []string{"explain", "pod"}, code: 0, want: []string{"2 nodes admit"}, never: []string{"held back", "holds the pod back"}}
		t.Run(name, func(t *testing.T) { a.check(t, w) })
	}
}

// TestWhatNoNodeHas: a label or resource that no node has is named, with a similar one if there is
// one.
func TestWhatNoNodeHas(t *testing.T) {
	ask := func(name corev1.ResourceName, amount string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Limits[name] = resource.MustParse(amount)
			p.Spec.Containers[0].Resources.Requests[name] = resource.MustParse(amount)
		}
	}
	affinity := func(terms ...corev1.NodeSelectorTerm) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms}}}
		}
	}
	in := func(key string, values ...string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}}}
	}
	for name, c := range map[string]struct {
		spoil func(*corev1.Pod)
		want  []string
	}{
		"a key": {func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"poool": "gpu-a"} },
			[]string{"does not match: nodeSelector poool=gpu-a", `do: no node has a label poool (did you mean "pool"?): correct the pod's nodeSelector, or label nodes: kubectl label node NODE poool=gpu-a`}},
		"a value": {func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"pool": "gpu-b"} },
			[]string{"does not match: nodeSelector pool=gpu-b", `do: no node matches pool=gpu-b (did you mean "gpu-a"?), nodes have pool=gpu-a: correct`}},
		"a name": {affinity(corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"n33"}}}}),
			[]string{"does not match: node affinity metadata.name In n33", `do: no node matches metadata.name In n33 (did you mean "n3"?): correct the pod's node affinity`}},
		"affinity":         {affinity(in("zone", "a", "b")), []string{"does not match: node affinity zone In a,b", "do: no node has a label zone"}},
		"one of two terms": {affinity(in("zone", "a"), in("zone", "b")), []string{"does not match: any of the 2 terms of its node affinity", "do: if the pod may go there"}},
		"a resource":       {ask("example.com/gpus", "1"), []string{"the node has 0 example.com/gpus in total, but the pod asks for 1", `do: no node offers example.com/gpus (did you mean "example.com/gpu"?)`}},
		"too many devices": {ask("example.com/gpu", "16"), []string{"the node has 2 example.com/gpu in total, but the pod asks for 16", "do: no node has more than 2 example.com/gpu for pods: ask for at most that", "would fit now: container main with "}},
		"too much memory":  {ask("memory", "64Gi"), []string{"do: no node has more than 16Gi memory for pods", "would fit now: container main with ", " memory instead of 64Gi"}},
		"needs authority":  {func(p *corev1.Pod) { p.Annotations = map[string]string{"berth.dev/l3": "required"} }, []string{"a node with authority berth", "do: leave the annotation out; or let Berth decide"}},
	} {
		w, pod := freeWorld(t)
		c.spoil(pod)
		a := asked{args: []string{"explain", "pod"}, code: 1, want: c.want}
		t.Run(name, func(t *testing.T) { a.check(t, w) })
	}
	w, pod := freeWorld(t)
	pod.Spec.NodeSelector = map[string]string{"kubernetes.io/hostname": "n1"}
	one := asked{args: []string{"explain", "pod", "--node", "n3"}, code: 1, want: []string{"does not match: nodeSelector kubernetes.io/hostname=n1"}, never: []string{"no node matches"}}
	one.check(t, w)
}

// TestWouldFitInJSON: fields of earlier releases are still present.
func TestWouldFitInJSON(t *testing.T) {
	w, _ := freeWorld(t)
	w.pods[0].Spec.Containers[0].Resources.Limits["cpu"] = resource.MustParse("12")
	w.pods[0].Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse("12")
	w.pods[0].Spec.Containers[0].Resources.Limits["example.com/gpu"] = resource.MustParse("1")
	w.pods[0].Spec.Containers[0].Resources.Requests["example.com/gpu"] = resource.MustParse("1")
	_, stdout, _ := run(t, "explain", "pod", "-o", "json", "--kubeconfig", w.kubeconfig())
	var e struct {
		Fits *struct {
			CPUs int `json:"cpus"`
		} `json:"fits"`
		Alternatives []struct{ Resource string } `json:"alternatives"`
	}
	if err := json.Unmarshal([]byte(stdout), &e); err != nil || e.Fits == nil || e.Fits.CPUs == 0 || len(e.Alternatives) == 0 || e.Alternatives[0].Resource != "cpu" {
		t.Errorf("%v: %+v in\n%s", err, e, stdout)
	}
}
