package scheduler

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	fwk "k8s.io/kube-scheduler/framework"
)

// withPods is a node with pods.
type withPods struct {
	fwk.NodeInfo
	node       *corev1.Node
	pods       []fwk.PodInfo
	generation int64
}

func (n *withPods) Node() *corev1.Node     { return n.node }
func (n *withPods) GetGeneration() int64   { return n.generation }
func (n *withPods) GetPods() []fwk.PodInfo { return n.pods }

type podOn struct {
	fwk.PodInfo
	pod *corev1.Pod
}

func (p podOn) GetPod() *corev1.Pod { return p.pod }

// TestClasses: nodes are in the same class exactly if the plugins read equal data of them.
func TestClasses(t *testing.T) {
	made := 0
	node := func(zone string, pods int, change func(*corev1.Node)) *withPods {
		made++
		n := &withPods{node: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n", made), Labels: map[string]string{corev1.LabelHostname: fmt.Sprint("n", made), corev1.LabelTopologyZone: zone, "disk": "slow"}}}, generation: int64(made)}
		for range pods {
			n.pods = append(n.pods, podOn{pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Labels: map[string]string{"app": "a"}}}})
		}
		if change != nil {
			change(n.node)
		}
		return n
	}
	first := node("east", 0, nil)
	cases := []struct {
		name  string
		n     *withPods
		apart map[string]bool // according to the pod
	}{
		{"a twin", node("east", 0, nil), nil},
		{"another zone", node("west", 0, nil), map[string]bool{"by default": true, "zone": true, "near": true}},
		{"no zone", node("east", 0, func(n *corev1.Node) { delete(n.Labels, corev1.LabelTopologyZone) }), map[string]bool{"by default": true, "zone": true, "near": true}},
		{"an empty zone", node("", 0, nil), map[string]bool{"by default": true, "zone": true, "near": true}},
		{"a pod that counts", node("east", 1, nil), map[string]bool{"by default": true, "host": true}},
		{"no hostname", node("east", 0, func(n *corev1.Node) { delete(n.Labels, corev1.LabelHostname) }), map[string]bool{"by default": true, "host": true}},
		{"what a term matches", node("east", 0, func(n *corev1.Node) { n.Labels["disk"] = "fast" }), map[string]bool{"disk": true}},
		{"a taint that keeps off", node("east", 0, func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}}
		}), nil},
		{"a taint to avoid", node("east", 0, func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectPreferNoSchedule}}
		}), map[string]bool{"by default": true, "zone": true, "host": true, "disk": true, "near": true}},
	}
	selected := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}}
	pods := map[string]corev1.PodSpec{
		"by default": {},
		"zone":       {},
		"host":       {},
		"disk": {Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 1,
			Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "disk", Operator: corev1.NodeSelectorOpIn, Values: []string{"fast"}}}}}}}}},
		"near": {Affinity: &corev1.Affinity{PodAffinity: &corev1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{Weight: 1,
			PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: corev1.LabelTopologyZone, LabelSelector: selected}}}}}},
	}
	hosts, zones := Spread{Key: corev1.LabelHostname, Selector: labels.SelectorFromSet(selected.MatchLabels)}, Spread{Key: corev1.LabelTopologyZone, Selector: labels.SelectorFromSet(selected.MatchLabels)}
	by := map[string][]Spread{"by default": {hosts, zones}, "zone": {zones}, "host": {hosts}}
	infos := []fwk.NodeInfo{first}
	for i := range cases {
		infos = append(infos, cases[i].n)
	}
	for name, spec := range pods {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Labels: map[string]string{"app": "a"}}, Spec: spec}
		p, ok := preferencesOf(pod, by[name])
		if !ok || p == nil {
			t.Fatalf("%s: %+v, %t", name, p, ok)
		}
		class := func(i int) int { return p.classOf(infos[i]) }
		for i, tc := range cases {
			if apart := class(0) != class(i+1); apart != tc.apart[name] {
				t.Errorf("%s: %s is of a class of its own: %t", name, tc.name, apart)
			}
		}
	}
	near := &corev1.Pod{Spec: corev1.PodSpec{Affinity: &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{Weight: 1,
		PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname, LabelSelector: selected}}}}}}}
	if _, ok := preferencesOf(near, nil); ok {
		t.Error("nodes are divided by pods on single nodes that nobody counts")
	}
	if p, ok := preferencesOf(&corev1.Pod{}, nil); p != nil || !ok {
		t.Errorf("a pod without preferences: %+v, %t", p, ok)
	}
}
