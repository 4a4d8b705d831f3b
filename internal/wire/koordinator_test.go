package wire

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/placement/joint"
	"github.com/berth-dev/berth/test/made"
	"github.com/berth-dev/berth/topology"
	"github.com/berth-dev/berth/topology/shapes"
)

func koordinatorPod(class, numa, cpus string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", Labels: map[string]string{}, Annotations: map[string]string{}}}
	for _, set := range []struct {
		in       map[string]string
		key, val string
	}{{pod.Labels, koordinatorQoS, class}, {pod.Annotations, koordinatorNUMA, numa}, {pod.Annotations, koordinatorCPUs, cpus}} {
		if set.val != "" {
			set.in[set.key] = set.val
		}
	}
	return pod
}

// owning returns the pod with a container that gets exclusive CPUs from a static CPU manager.
func owning(pod *corev1.Pod) *corev1.Pod {
	pod.Spec.Containers = []corev1.Container{{Name: "c", Resources: whole("cpu=2 memory=1Gi")}}
	return pod
}

func TestReadKoordinatorRules(t *testing.T) {
	likeFull := joint.Rules{Bind: joint.FullCores, BindHow: joint.Preferred}
	for _, c := range []struct {
		name, class, numa, cpus string
		want                    placement.Rules
		wrong                   string // the field of the error
	}{
		{name: "nothing"},
		{name: "LSR", class: "LSR", want: placement.Rules{CPUs: likeFull}},
		{name: "LSE, spread", class: "LSE", cpus: `{"requiredCPUBindPolicy":"SpreadByPCPUs"}`,
			want: placement.Rules{CPUs: joint.Rules{Bind: joint.Spread, BindHow: joint.Required}}},
		{name: "required comes before preferred", class: "LSR", cpus: `{"requiredCPUBindPolicy":"FullPCPUs","preferredCPUBindPolicy":"SpreadByPCPUs"}`,
			want: placement.Rules{CPUs: joint.Rules{Bind: joint.FullCores, BindHow: joint.Required}}},
		{name: "Default", class: "LSR", cpus: `{"preferredCPUBindPolicy":"Default"}`, want: placement.Rules{CPUs: likeFull}},
		{name: "required Default", class: "LSR", cpus: `{"requiredCPUBindPolicy":"Default","preferredCPUBindPolicy":"SpreadByPCPUs"}`,
			want: placement.Rules{CPUs: joint.Rules{Bind: joint.FullCores, BindHow: joint.Required}}},
		{name: "no binding", class: "LSR", cpus: `{"preferredCPUBindPolicy":"None","preferredCPUExclusivePolicy":"PCPULevel"}`},
		{name: "required comes before None", class: "LSE", cpus: `{"requiredCPUBindPolicy":"FullPCPUs","preferredCPUBindPolicy":"None"}`,
			want: placement.Rules{CPUs: joint.Rules{Bind: joint.FullCores, BindHow: joint.Required}}},
		{name: "required None comes before preferred", class: "LSE", cpus: `{"requiredCPUBindPolicy":"None","preferredCPUBindPolicy":"FullPCPUs"}`},
		{name: "cores alone", class: "LSR", cpus: `{"preferredCPUExclusivePolicy":"PCPULevel"}`, want: placement.Rules{CPUs: joint.Rules{Bind: joint.FullCores, BindHow: joint.Preferred,
			Exclusive: joint.ExclusiveCore, ExclusiveHow: joint.Preferred}}},
		{name: "nothing alone", class: "LSR", cpus: `{"preferredCPUExclusivePolicy":"Default"}`, want: placement.Rules{CPUs: likeFull}},
		{name: "nodes alone", class: "LSR", cpus: `{"preferredCPUExclusivePolicy":"NUMANodeLevel"}`, want: placement.Rules{CPUs: joint.Rules{Bind: joint.FullCores,
			BindHow: joint.Preferred, Exclusive: joint.ExclusiveNUMA, ExclusiveHow: joint.Preferred}}},
		{name: "LS has shares", class: "LS", cpus: `{"requiredCPUBindPolicy":"FullPCPUs"}`, want: placement.Rules{Shares: joint.Preferred}},
		{name: "BE has shares", class: "BE", want: placement.Rules{Shares: joint.Preferred}},
		{name: "single", numa: `{"numaTopologyPolicy":"SingleNUMANode"}`, want: placement.Rules{Policy: placement.PolicySingleNUMANode, Scope: placement.PodScope}},
		{name: "single by container", numa: `{"numaTopologyPolicy":"SingleNUMANodeContainerLevel"}`, want: placement.Rules{Policy: placement.PolicySingleNUMANode, Scope: placement.ContainerScope}},
		{name: "restricted", numa: `{"numaTopologyPolicy":"Restricted","singleNUMANodeExclusive":"Preferred"}`, want: placement.Rules{Policy: placement.PolicyRestricted, Scope: placement.PodScope}},
		{name: "None", numa: `{"numaTopologyPolicy":"None"}`, want: placement.Rules{Policy: placement.PolicyNone}},

		{name: "policy with a blank", numa: `{"numaTopologyPolicy":"None "}`, wrong: ".numaTopologyPolicy"},
		{name: "misspelt policy", numa: `{"numaTopologyPolicy":"restrictd"}`, wrong: ".numaTopologyPolicy"},
		{name: "exclusive", numa: `{"numaTopologyPolicy":"Restricted","singleNUMANodeExclusive":"Required"}`, wrong: ".singleNUMANodeExclusive"},
		{name: "misspelt exclusive", numa: `{"singleNUMANodeExclusive":"yes"}`, wrong: ".singleNUMANodeExclusive"},
		{name: "unknown field", numa: `{"policy":"Restricted"}`, wrong: "[" + koordinatorNUMA + "]"},
		{name: "no JSON", numa: `Restricted`, wrong: "[" + koordinatorNUMA + "]"},
		{name: "256 KiB", numa: strings.Repeat("x", 256<<10), wrong: "[" + koordinatorNUMA + "]"},
		{name: "without meaning", class: "LSR", cpus: `{"requiredCPUBindPolicy":"ConstrainedBurst"}`, wrong: ".requiredCPUBindPolicy"},
		{name: "checked for all classes", class: "LS", cpus: `{"preferredCPUBindPolicy":"fullpcpus"}`, wrong: ".preferredCPUBindPolicy"},
		{name: "misspelt level", class: "LSR", cpus: `{"preferredCPUExclusivePolicy":"CoreLevel"}`, wrong: ".preferredCPUExclusivePolicy"},
		{name: "class", class: "lsr", wrong: "metadata.labels[" + koordinatorQoS + "]"},
	} {
		r, err := ReadKoordinatorRules(koordinatorPod(c.class, c.numa, c.cpus))
		if r != c.want || (err == nil) != (c.wrong == "") {
			t.Errorf("%s: %+v, %v; want %+v", c.name, r, err, c.want)
		}
		wrong := new(FieldError)
		if c.wrong != "" && (!errors.As(err, &wrong) || !strings.HasSuffix(wrong.Field, c.wrong) || len(err.Error()) > 1000) {
			t.Errorf("%s: %v, want an error about %s", c.name, err, c.wrong)
		}
	}
}

// TestClassesWithCPUsOfTheirOwn: with one of these classes, a request for a part of a CPU is
// refused, and the error names the container's field. With other classes, and without a class, the
// pod gets a share.
func TestClassesWithCPUsOfTheirOwn(t *testing.T) {
	for class, wrong := range map[string]bool{"LSR": true, "LSE": true, "LS": false, "BE": false, "": false} {
		for _, c := range []struct {
			cpu   string
			limit bool
			whole bool
		}{{"1500m", false, false}, {"1500m", true, false}, {"2", false, true}, {"2000m", true, true}, {"500m", false, false}} {
			pod := koordinatorPod(class, "", "")
			list := corev1.ResourceList{"cpu": resource.MustParse(c.cpu)}
			res := corev1.ResourceRequirements{Requests: list}
			field := "spec.containers[1].resources.requests[cpu]"
			if c.limit {
				res, field = corev1.ResourceRequirements{Limits: list}, "spec.containers[1].resources.limits[cpu]"
			}
			pod.Spec.Containers = []corev1.Container{{Name: "idle"}, {Name: "a", Resources: res}}
			_, err := ReadKoordinatorRules(pod)
			if (err != nil) != (wrong && !c.whole) || err != nil && !strings.Contains(err.Error(), field) {
				t.Errorf("%s with %+v: %v", class, c, err)
			}
		}
	}
}

// TestKoordinatorBesideOthers: Koordinator's annotations are used next to those of Berth and
// Volcano, which have priority. Contradictions are refused.
func TestKoordinatorBesideOthers(t *testing.T) {
	with := func(class, numa string, annotations ...string) *corev1.Pod {
		pod := koordinatorPod(class, numa, "")
		for _, a := range annotations {
			key, value, _ := strings.Cut(a, "=")
			pod.Annotations[key] = value
		}
		return pod
	}
	full := joint.Rules{Bind: joint.FullCores, BindHow: joint.Preferred}
	for name, c := range map[string]struct {
		pod   *corev1.Pod
		want  placement.Rules
		wrong string
	}{
		"alone":        {with("LSR", `{"numaTopologyPolicy":"Restricted"}`), placement.Rules{Policy: placement.PolicyRestricted, Scope: placement.PodScope, CPUs: full}, ""},
		"a class":      {with("LSR", "", PolicyAnnotation+"=restricted"), placement.Rules{Policy: placement.PolicyRestricted, CPUs: full}, ""},
		"the same":     {with("", `{"numaTopologyPolicy":"Restricted"}`, PolicyAnnotation+"=restricted,scope=container"), placement.Rules{Policy: placement.PolicyRestricted, Scope: placement.ContainerScope}, ""},
		"a wish":       {with("LSR", "", CPUsAnnotation+"=spread"), placement.Rules{CPUs: joint.Rules{Bind: joint.Spread, BindHow: joint.Required}}, ""},
		"another":      {with("", `{"numaTopologyPolicy":"Restricted"}`, PolicyAnnotation+"=none"), placement.Rules{}, "[" + koordinatorNUMA + "]"},
		"Volcano's":    {owning(with("", `{"numaTopologyPolicy":"Restricted"}`, VolcanoPolicyAnnotation+"=best-effort")), placement.Rules{}, "[" + koordinatorNUMA + "]"},
		"no such":      {with("", `{"numaTopologyPolicy":"restrictd"}`), placement.Rules{}, ".numaTopologyPolicy"},
		"LS that pins": {with("LS", "", CPUsAnnotation+"=full-cores"), placement.Rules{}, "[" + koordinatorQoS + "]"},
	} {
		r, err := ReadRules(c.pod)
		if r != c.want || (err == nil) != (c.wrong == "") {
			t.Errorf("%s: %+v, %v; want %+v", name, r, err, c.want)
		}
		wrong := new(FieldError)
		if c.wrong != "" && (!errors.As(err, &wrong) || !strings.HasSuffix(wrong.Field, c.wrong)) {
			t.Errorf("%s: %v, want an error about %s", name, err, c.wrong)
		}
	}
}

func TestReadKoordinatorNode(t *testing.T) {
	single := placement.Rules{Policy: placement.PolicySingleNUMANode, Scope: placement.PodScope}
	for _, c := range []struct {
		name   string
		labels map[string]string
		want   KoordinatorNode
		wrong  string
	}{
		{name: "nothing"},
		{name: "label", labels: map[string]string{koordinatorPolicy: "SingleNUMANode"}, want: KoordinatorNode{Rules: single}},
		{name: "the rest", labels: map[string]string{koordinatorFill: "LeastAllocated", koordinatorBind: "FullPCPUsOnly", koordinatorMemory: ""},
			want: KoordinatorNode{Strategy: joint.LeastAllocated, CPUs: joint.Rules{Bind: joint.FullCores, BindHow: joint.Required}}},
		{name: "spread", labels: map[string]string{koordinatorBind: "SpreadByPCPUs"}, want: KoordinatorNode{CPUs: joint.Rules{Bind: joint.Spread, BindHow: joint.Required}}},
		{name: "misspelt policy", labels: map[string]string{koordinatorPolicy: "None "}, wrong: koordinatorPolicy},
		{name: "most", labels: map[string]string{koordinatorFill: "MostAllocated"}, want: KoordinatorNode{Strategy: joint.FillNodes}},
		{name: "evenly", labels: map[string]string{koordinatorFill: "DistributeEvenly"}, want: KoordinatorNode{Strategy: joint.LeastAllocated}},
		{name: "misspelt strategy", labels: map[string]string{koordinatorFill: "distributeevenly"}, wrong: koordinatorFill},
		{name: "misspelt binding", labels: map[string]string{koordinatorBind: "FullPCPUs"}, wrong: koordinatorBind},
	} {
		n, err := ReadKoordinatorNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: c.labels}})
		if c.wrong == "" && (err != nil || n != c.want) {
			t.Errorf("%s: %+v, %v; want %+v", c.name, n, err, c.want)
		}
		if c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)) {
			t.Errorf("%s: %v, want an error about %s", c.name, err, c.wrong)
		}
	}
}

// TestLabelsThatAKubeletDoesNotKeep: if the kubelet decides, a label that requires more than the
// kubelet does is named. No label is named if Berth decides, or if the kubelet has the policy.
func TestLabelsThatAKubeletDoesNotKeep(t *testing.T) {
	view := made.View(t, shapes.Machine("package:2 numa:1 l3:1 core:2 pu:1 mem:8Gi dist:10,21"))
	static := func(option string) placement.Config {
		return placement.Config{CPUManagerPolicy: "static", ReservedSystemCPUs: "0", CPUManagerPolicyOptions: map[string]string{option: "true"},
			FeatureGates: map[string]bool{"CPUManagerPolicyAlphaOptions": true}}
	}
	for _, c := range []struct {
		labels string
		config placement.Config
		want   string
	}{
		{"", placement.Config{}, ""},
		{"numa-topology-policy=SingleNUMANode", placement.Config{}, koordinatorPolicy + "=SingleNUMANode (the kubelet decides on this node, with policy none"},
		{"numa-topology-policy=Restricted", placement.Config{TopologyManagerPolicy: "single-numa-node", TopologyManagerScope: "pod"}, ""},
		{"numa-topology-policy=None", placement.Config{}, ""},
		{"numa-topology-policy=restrictd", placement.Config{}, "=restrictd (the kubelet decides"},
		{"numa-topology-policy=", placement.Config{}, ""},
		{"cpu-bind-policy=FullPCPUsOnly", placement.Config{}, koordinatorBind + "=FullPCPUsOnly (the kubelet decides"},
		{"cpu-bind-policy=FullPCPUsOnly", static("full-pcpus-only"), ""},
		{"cpu-bind-policy=SpreadByPCPUs", static("full-pcpus-only"), koordinatorBind + "=SpreadByPCPUs (the kubelet decides"},
		{"cpu-bind-policy=SpreadByPCPUs", static("distribute-cpus-across-cores"), ""},
		{"cpu-bind-policy=None", placement.Config{}, ""},
		{"cpu-bind-policy=", placement.Config{}, ""},
		{"cpu-bind-policy=full", static("full-pcpus-only"), koordinatorBind + "=full (the kubelet decides"},
		{"numa-allocate-strategy=MostAllocated", placement.Config{}, koordinatorFill + "=MostAllocated (the kubelet decides"},
		{"numa-allocate-strategy=", placement.Config{}, ""},
		{"numa-memory-policy=", placement.Config{}, ""},
		{"numa-topology-policy=SingleNUMANode", placement.Config{Authority: placement.AuthorityBerth, ReservedMilliCPU: 1000}, ""},
	} {
		m := made.ModelOf(t, view, c.config)
		node := &corev1.Node{}
		if key, value, said := strings.Cut(c.labels, "="); said {
			node.Labels = map[string]string{koordinatorLabels + key: value}
		}
		if got := KoordinatorLabelsIgnored(node, m); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.labels, got, c.want)
		}
	}
}

func TestWriteKoordinatorStatus(t *testing.T) {
	m := shapes.Machine("package:2 numa:1 core:4 pu:1 mem:8Gi dist:10,21")
	d := placement.Decision{UID: "u", Containers: []placement.ContainerDecision{
		{Name: "i", Kind: placement.Init, CPUs: topology.NewCPUSet(0, 1, 2, 3)},
		{Name: "a", CPUs: topology.NewCPUSet(2, 3, 4), Memory: []placement.MemoryBlock{{Resource: "memory", NUMA: 1, Bytes: 8 << 30}, {Resource: "memory", NUMA: 2, Bytes: 1 << 30}}},
		{Name: "b", Shares: []placement.CPUShare{{NUMA: 1, MilliCPU: 1500}}},
	}}
	const want = `{"cpuset":"2-4","numaNodeResources":[{"node":0,"resources":{"cpu":"2","memory":"8Gi"}},{"node":1,"resources":{"cpu":"2500m","memory":"1Gi"}}]}`
	if got, err := WriteKoordinatorStatus(&d, m); err != nil || got != want {
		t.Errorf("%s, %v; want %s", got, err, want)
	}
}

func FuzzReadKoordinator(f *testing.F) {
	f.Add("LSR", `{"numaTopologyPolicy":"Restricted","singleNUMANodeExclusive":"Preferred"}`, `{"requiredCPUBindPolicy":"FullPCPUs"}`)
	f.Fuzz(func(t *testing.T, class, numa, cpus string) {
		r, err := ReadKoordinatorRules(koordinatorPod(class, numa, cpus))
		if err != nil && r != (placement.Rules{}) || !r.CPUs.Sane() {
			t.Fatalf("%+v, %v", r, err)
		}
	})
}
