package wire

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/placement/joint"
	"github.com/berth-dev/berth/test/made"
	"github.com/berth-dev/berth/topology/shapes"
)

func podAsking(annotations map[string]string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", Annotations: annotations}}
}

// wishes lists every valid value of every annotation, and some invalid ones. placement-wishes.yaml
// admits the same values.
var wishes = []struct {
	key, text string
	want      placement.Rules
	ok        bool
}{
	{CPUsAnnotation, "full-cores", placement.Rules{CPUs: joint.Rules{Bind: joint.FullCores, BindHow: joint.Required}}, true},
	{CPUsAnnotation, "full-cores,required", placement.Rules{CPUs: joint.Rules{Bind: joint.FullCores, BindHow: joint.Required}}, true},
	{CPUsAnnotation, "spread,preferred", placement.Rules{CPUs: joint.Rules{Bind: joint.Spread, BindHow: joint.Preferred}}, true},
	{CPUsAnnotation, "shares", placement.Rules{Shares: joint.Required}, true},
	{CPUsAnnotation, "shares,preferred", placement.Rules{}, false},
	{CPUsAnnotation, "full-cores ", placement.Rules{}, false},
	{CPUsAnnotation, "full-cores,", placement.Rules{}, false},
	{CPUsAnnotation, "full-cores,required,required", placement.Rules{}, false},
	{CPUsAnnotation, "FullPCPUs", placement.Rules{}, false},
	{CPUsAnnotation, "", placement.Rules{}, false},
	{CPUsAnnotation, strings.Repeat("x", 256<<10), placement.Rules{}, false},
	{ExclusiveAnnotation, "core", placement.Rules{CPUs: joint.Rules{Exclusive: joint.ExclusiveCore, ExclusiveHow: joint.Required}}, true},
	{ExclusiveAnnotation, "numa,preferred", placement.Rules{CPUs: joint.Rules{Exclusive: joint.ExclusiveNUMA, ExclusiveHow: joint.Preferred}}, true},
	{ExclusiveAnnotation, "node", placement.Rules{}, false},
	{ExclusiveAnnotation, "core,maybe", placement.Rules{}, false},
	{L3Annotation, "required", placement.Rules{CPUs: joint.Rules{L3: joint.Required}}, true},
	{L3Annotation, "preferred", placement.Rules{CPUs: joint.Rules{L3: joint.Preferred}}, true},
	{L3Annotation, "true", placement.Rules{}, false},
	{MemoryAnnotation, "pinned", placement.Rules{PinMemory: true}, true},
	{MemoryAnnotation, "pinned,preferred", placement.Rules{}, false},
	{MemoryAnnotation, "Pinned", placement.Rules{}, false},
	{DevicesAnnotation, "same-switch", placement.Rules{Devices: placement.DeviceRules{Same: joint.SameSwitch, SameHow: joint.Required}}, true},
	{DevicesAnnotation, "same-root,required", placement.Rules{Devices: placement.DeviceRules{Same: joint.SameRoot, SameHow: joint.Required}}, true},
	{DevicesAnnotation, "one-switch,preferred", placement.Rules{Devices: placement.DeviceRules{Same: joint.OneSwitch, SameHow: joint.Preferred}}, true},
	{DevicesAnnotation, "one-root", placement.Rules{Devices: placement.DeviceRules{Same: joint.OneRoot, SameHow: joint.Required}}, true},
	{DevicesAnnotation, "perNUMANode=2", placement.Rules{Devices: placement.DeviceRules{PerNode: 2}}, true},
	{DevicesAnnotation, "perNUMANode=64", placement.Rules{Devices: placement.DeviceRules{PerNode: 64}}, true},
	{DevicesAnnotation, "perNUMANode=65", placement.Rules{}, false},
	{DevicesAnnotation, "perNUMANode=02", placement.Rules{}, false},
	{DevicesAnnotation, "perNUMANode=2,preferred", placement.Rules{}, false},
	{DevicesAnnotation, "perNUMANode", placement.Rules{}, false},
	{DevicesAnnotation, "perNUMANode=", placement.Rules{}, false},
	{DevicesAnnotation, "pernumanode=2", placement.Rules{}, false},
	{DevicesAnnotation, "switch", placement.Rules{}, false},
	{NUMANodesAnnotation, "1", placement.Rules{NUMANodes: 1}, true},
	{NUMANodesAnnotation, "2", placement.Rules{NUMANodes: 2}, true},
	{NUMANodesAnnotation, "64", placement.Rules{NUMANodes: 64}, true},
	{NUMANodesAnnotation, "0", placement.Rules{}, false},
	{NUMANodesAnnotation, "65", placement.Rules{}, false},
	{NUMANodesAnnotation, "257", placement.Rules{}, false},
	{NUMANodesAnnotation, "-1", placement.Rules{}, false},
	{NUMANodesAnnotation, "+2", placement.Rules{}, false},
	{NUMANodesAnnotation, "02", placement.Rules{}, false},
	{NUMANodesAnnotation, " 2", placement.Rules{}, false},
	{NUMANodesAnnotation, "2,required", placement.Rules{}, false},
	{NUMANodesAnnotation, "two", placement.Rules{}, false},
	{NUMANodesAnnotation, "", placement.Rules{}, false},
	{DevicesAnnotation, "same-switch,", placement.Rules{}, false},
	{FunctionsAnnotation, "one-per-card", placement.Rules{Devices: placement.DeviceRules{OnePerFunction: placement.EveryType}}, true},
	{FunctionsAnnotation, "", placement.Rules{}, false},
	{ClaimsAnnotation, "near", placement.Rules{}, true},
	{ClaimsAnnotation, "required", placement.Rules{}, true},
	{ClaimsAnnotation, "", placement.Rules{}, false},
	{ClaimsAnnotation, "near,required", placement.Rules{}, false},
	{ClaimsAnnotation, "Near", placement.Rules{}, false},
}

func TestReadWishes(t *testing.T) {
	for _, c := range wishes {
		r, err := ReadRules(podAsking(map[string]string{c.key: c.text}))
		if (err == nil) != c.ok || r != c.want {
			t.Errorf("%s: %.40q: %+v, %v", c.key, c.text, r, err)
		}
		wrong := new(FieldError)
		if err != nil && (!errors.As(err, &wrong) || wrong.Field != "metadata.annotations["+c.key+"]" || len(err.Error()) > 1000) {
			t.Errorf("%s: %.40q: error %v", c.key, c.text, err)
		}
	}
	all := map[string]string{PolicyAnnotation: "restricted,scope=pod", CPUsAnnotation: "spread", ExclusiveAnnotation: "core", L3Annotation: "preferred", MemoryAnnotation: "pinned"}
	want := placement.Rules{Policy: placement.PolicyRestricted, Scope: placement.PodScope, PinMemory: true, CPUs: joint.Rules{Bind: joint.Spread, BindHow: joint.Required,
		Exclusive: joint.ExclusiveCore, ExclusiveHow: joint.Required, L3: joint.Preferred}}
	if r, err := ReadRules(podAsking(all)); err != nil || r != want {
		t.Errorf("%+v, %v", r, err)
	}
	for _, beside := range []map[string]string{{ExclusiveAnnotation: "core"}, {L3Annotation: "preferred"}, {VolcanoPolicyAnnotation: "restricted"}} {
		beside[CPUsAnnotation] = "shares"
		if _, err := ReadRules(owning(podAsking(beside))); err == nil {
			t.Errorf("%v: shares beside CPUs of its own", beside)
		}
	}
}

// TestNumberBesidePolicy: a policy that means one NUMA node and a different number contradict each
// other. The message says so.
func TestNumberBesidePolicy(t *testing.T) {
	for policy, want := range map[string]string{
		"single-numa-node": `Pod ns/a: metadata.annotations[berth.dev/numa-nodes]: "2": want 1 with the policy single-numa-node, or another policy`,
		"restricted":       "",
	} {
		_, err := ReadRules(podAsking(map[string]string{PolicyAnnotation: policy, NUMANodesAnnotation: "2"}))
		if got := fmt.Sprint(err); want != "" && got != want || want == "" && err != nil {
			t.Errorf("%s: %s, want %s", policy, got, want)
		}
	}
	if _, err := ReadRules(podAsking(map[string]string{PolicyAnnotation: "single-numa-node,scope=pod", NUMANodesAnnotation: "1"})); err != nil {
		t.Error(err)
	}
}

// TestUnforetold: the kubelets that certainly use two NUMA nodes of four CPUs for six CPUs, and
// what the others lack.
func TestUnforetold(t *testing.T) {
	view := made.View(t, shapes.Machine("package:2 numa:2 core:4 pu:1 mem:16Gi dist:10,12,32"))
	const insists = ", and the pod's berth.dev/numa-nodes requires "
	for _, c := range []struct {
		number, policy, scope string
		change                func(*placement.Config)
		want                  string
	}{
		{number: "2", policy: "restricted"},
		{number: "2", policy: "restricted", scope: "pod"},
		{number: "1", policy: "restricted", want: "the kubelet uses 2 NUMA nodes for this pod" + insists + "1: the pod needs another node, such as one with authority berth"},
		{number: "2", policy: "single-numa-node", want: "the kubelet uses 1 NUMA node for this pod" + insists + "2: the pod needs another node, such as one with authority berth"},
		{number: "2", policy: "best-effort", want: "the kubelet's policy best-effort allows any number of NUMA nodes" + insists +
			"2: the pod needs a node with policy restricted or with authority berth"},
		{number: "2", policy: "restricted", change: func(c *placement.Config) { c.TopologyManagerPolicyOptions = nil },
			want: "the kubelet runs without the option prefer-closest-numa-nodes" + insists + "2 NUMA nodes that are nearest to each other"},
		{number: "2", policy: "restricted", change: func(c *placement.Config) { c.CPUManagerPolicy = "none" },
			want: "the kubelet pins no CPUs for the pod, or for one of its containers with pinned memory or devices, so nothing fixes the number of NUMA nodes" + insists +
				"2: the pod needs a node with authority berth"},
		{number: "3", policy: "none", change: func(c *placement.Config) {
			*c = placement.Config{Authority: placement.AuthorityBerth, ReservedMilliCPU: 1000}
		}},
	} {
		cfg := placement.Config{CPUManagerPolicy: "static", ReservedMilliCPU: 1000, TopologyManagerPolicy: c.policy, TopologyManagerScope: c.scope,
			TopologyManagerPolicyOptions: map[string]string{"prefer-closest-numa-nodes": "true"}}
		if c.change != nil {
			c.change(&cfg)
		}
		m := made.ModelOf(t, view, cfg)
		pod := podAsking(map[string]string{NUMANodesAnnotation: c.number})
		six := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("6"), corev1.ResourceMemory: resource.MustParse("1Gi")}
		pod.Spec.Containers = []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Limits: six}}}
		ask, err := ReadPod(pod)
		if err != nil || ask.RulesErr != nil {
			t.Fatal(err, ask.RulesErr)
		}
		if got := Unmet(m, &ask.Request); got != c.want {
			t.Errorf("%s with %s %s: %q, want %q", c.number, c.policy, c.scope, got, c.want)
		}
	}
}

// TestDevicesUnforetold: the kubelets that certainly give two devices of each resource on each NUMA
// node, and what the others lack.
func TestDevicesUnforetold(t *testing.T) {
	view := made.View(t, shapes.Machine("package:2 numa:2 core:4 pu:1 mem:16Gi dist:10,12,32"))
	const insists = ", and the pod's berth.dev/devices requires 2 devices of each resource on each of its NUMA nodes"
	for _, c := range []struct {
		policy, scope string
		number        string // the pod's number of NUMA nodes, if it has one
		counts        []int64
		claimed       bool
		sockets       bool // align-by-socket
		want          string
	}{
		{policy: "single-numa-node", counts: []int64{2}},
		{policy: "single-numa-node", number: "1", counts: []int64{2}},
		{policy: "single-numa-node", scope: "pod", counts: []int64{1, 1}},
		{policy: "single-numa-node", number: "2", counts: []int64{2}, want: "the kubelet uses 1 NUMA node for this pod, and the pod's berth.dev/numa-nodes requires 2: the pod needs another node, such as one with authority berth"},
		{policy: "single-numa-node", counts: []int64{4}, want: "the kubelet takes all nvidia.com/gpu of a container from one NUMA node" + insists + ": ask for exactly 2, or for a multiple of 2 on a node with authority berth"},
		{policy: "single-numa-node", counts: []int64{1, 1}, want: "the kubelet takes all nvidia.com/gpu of a container from one NUMA node" + insists + ": ask for exactly 2, or for a multiple of 2 on a node with authority berth"},
		{policy: "single-numa-node", counts: []int64{2, 2}, want: "the kubelet chooses NUMA nodes for each container separately" + insists + ", counted over all containers: the pod needs a node with scope pod or with authority berth"},
		{policy: "single-numa-node", counts: []int64{2}, claimed: true, want: "a ResourceClaim provides nvidia.com/gpu on this node, with devices from any NUMA nodes" + insists + ": the pod needs a node with authority berth where Berth's own device plugin offers these devices"},
		{policy: "restricted", counts: []int64{2}},
		{policy: "restricted", counts: []int64{4}},
		{policy: "restricted", number: "2", counts: []int64{4}, want: "the kubelet uses 1 NUMA node for this pod, and the pod's berth.dev/numa-nodes requires 2: the pod needs another node, such as one with authority berth"},
		{policy: "restricted", counts: []int64{3}, want: "the kubelet takes nvidia.com/gpu from as few NUMA nodes as it can" + insists + ": each container must request a multiple of 2 devices, the same number of each resource"},
		{policy: "restricted", sockets: true, counts: []int64{2}, want: "the kubelet's option align-by-socket allows CPUs and devices on different NUMA nodes of a socket" + insists +
			": the pod needs a node without this option, or with authority berth"},
		{policy: "best-effort", counts: []int64{8}},
		{policy: "best-effort", counts: []int64{4, 4}},
		{policy: "best-effort", counts: []int64{2}, want: "the kubelet's policy best-effort allows devices from any NUMA nodes" + insists +
			": the pod needs a node with policy restricted, with single-numa-node if it asks for exactly 2, or with authority berth"},
	} {
		cfg := placement.Config{CPUManagerPolicy: "static", ReservedMilliCPU: 1000, TopologyManagerPolicy: c.policy, TopologyManagerScope: c.scope}
		if c.sockets {
			cfg.CPUManagerPolicyOptions = map[string]string{"align-by-socket": "true"}
			cfg.FeatureGates = map[string]bool{"CPUManagerPolicyAlphaOptions": true}
		}
		m := made.ModelOf(t, view, cfg)
		pod := podAsking(map[string]string{DevicesAnnotation: "perNUMANode=2"})
		if c.number != "" {
			pod.Annotations[NUMANodesAnnotation] = c.number
		}
		pod.Spec.Containers = nil
		for i, n := range c.counts {
			limits := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Gi"), "nvidia.com/gpu": *resource.NewQuantity(n, resource.DecimalSI)}
			pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: fmt.Sprint("c", i), Resources: corev1.ResourceRequirements{Limits: limits}})
		}
		ask, err := ReadPod(pod)
		if err != nil || ask.RulesErr != nil {
			t.Fatal(err, ask.RulesErr)
		}
		ask.Request.Containers[0].Devices[0].Claimed = c.claimed
		if got := Unmet(m, &ask.Request); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

// TestUnmetByNodesThatBind: the message names the pod's request that the node does not meet.
func TestUnmetByNodesThatBind(t *testing.T) {
	m := made.Model(t, shapes.Xeon6130, placement.Config{Authority: placement.AuthorityBerth, ReservedMilliCPU: 1000, Default: placement.Rules{CPUs: binds["full-cores"]}})
	for text, want := range map[string]string{"full-cores": "", "spread,preferred": "", "shares": "", "spread": "the node's CPU binding is full-cores, but the pod's berth.dev/cpus requires spread"} {
		r, err := ReadRules(podAsking(map[string]string{CPUsAnnotation: text}))
		if err != nil {
			t.Fatal(err)
		}
		if got := Unmet(m, &placement.Request{Rules: r}); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

func TestUnmetWishes(t *testing.T) {
	m := made.Model(t, shapes.Xeon6130, placement.Config{CPUManagerPolicy: "static", ReservedMilliCPU: 1000})
	for text, want := range map[string]string{
		CPUsAnnotation + "=full-cores":       "the kubelet lacks the option full-pcpus-only of a static CPU manager, which the pod's berth.dev/cpus requires",
		CPUsAnnotation + "=spread":           "the kubelet lacks the option distribute-cpus-across-cores of a static CPU manager, which the pod's berth.dev/cpus requires",
		CPUsAnnotation + "=shares":           "the kubelet lacks the CPU manager policy none, which the pod's berth.dev/cpus requires",
		ExclusiveAnnotation + "=core":        "the kubelet lacks the option full-pcpus-only of a static CPU manager, which the pod's berth.dev/exclusive requires",
		ExclusiveAnnotation + "=numa":        "the kubelet lacks a way to keep a NUMA node for one pod, which the pod's berth.dev/exclusive requires: the pod needs a node with authority berth",
		L3Annotation + "=required":           "the kubelet lacks a way to guarantee level-3 caches, which the pod's berth.dev/l3 requires: the pod needs a node with authority berth",
		DevicesAnnotation + "=perNUMANode=2": "the kubelet's policy none allows devices from any NUMA nodes, and the pod's berth.dev/devices requires 2 devices of each resource on each of its NUMA nodes: the pod needs a node with policy restricted, with single-numa-node if it asks for exactly 2, or with authority berth",
		DevicesAnnotation + "=same-switch":   "the kubelet lacks a way to choose devices by switch, root complex or function, which the pod's berth.dev/devices requires: the pod needs a node with authority berth",
		MemoryAnnotation + "=pinned":         "the kubelet lacks the memory manager Static, which the pod's berth.dev/memory requires",
		CPUsAnnotation + "=spread,preferred": "",
		L3Annotation + "=preferred":          "",
	} {
		key, value, _ := strings.Cut(text, "=")
		r, err := ReadRules(podAsking(map[string]string{key: value}))
		if err != nil {
			t.Fatal(err)
		}
		asked := placement.Request{Rules: r, Guaranteed: true, Containers: []placement.ContainerRequest{{MilliCPU: 2000}}}
		if got := Unmet(m, &asked); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
		// A kubelet pins no CPUs or memory for a pod of another class, so only the rules for
		// devices and for whole NUMA nodes remain.
		if asked.Guaranteed = false; key != DevicesAnnotation && value != "numa" {
			want = ""
		}
		if got := Unmet(m, &asked); got != want {
			t.Errorf("%s of a pod that is not Guaranteed: %q, want %q", text, got, want)
		}
	}
}

// TestUnmetByPodsWithFractions: a Guaranteed pod without whole CPUs shares its CPUs on kubelet
// nodes, and its memory can be pinned.
func TestUnmetByPodsWithFractions(t *testing.T) {
	m := made.Model(t, shapes.Xeon6130, placement.Config{CPUManagerPolicy: "static", ReservedMilliCPU: 1000})
	for key, unmet := range map[string]bool{CPUsAnnotation + "=full-cores": false, L3Annotation + "=required": false, MemoryAnnotation + "=pinned": true} {
		name, value, _ := strings.Cut(key, "=")
		r, err := ReadRules(podAsking(map[string]string{name: value}))
		if err != nil {
			t.Fatal(err)
		}
		asked := placement.Request{Rules: r, Guaranteed: true, Containers: []placement.ContainerRequest{{MilliCPU: 1500}}}
		if got := Unmet(m, &asked); (got != "") != unmet {
			t.Errorf("%s: %q", key, got)
		}
	}
}

func FuzzReadWishes(f *testing.F) {
	for _, c := range wishes {
		f.Add(c.text, c.text)
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		r, err := ReadRules(podAsking(map[string]string{CPUsAnnotation: a, ExclusiveAnnotation: b, L3Annotation: a, MemoryAnnotation: b}))
		if err != nil && r != (placement.Rules{}) || !r.CPUs.Sane() {
			t.Fatalf("%+v, %v", r, err)
		}
		r, err = ReadRules(podAsking(map[string]string{NUMANodesAnnotation: a, DevicesAnnotation: b}))
		_, each := strings.CutPrefix(b, "perNUMANode=")
		if err != nil && r != (placement.Rules{}) || err == nil && (fmt.Sprint(r.NUMANodes) != a || each && fmt.Sprint("perNUMANode=", r.Devices.PerNode) != b) {
			t.Fatalf("%q, %q: %+v, %v", a, b, r, err)
		}
	})
}
