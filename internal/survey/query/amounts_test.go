package query

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-dev/berth/internal/amounts"
	"github.com/berth-dev/berth/internal/nodestate"
	"github.com/berth-dev/berth/internal/wire"
)

func nodeWith(list map[corev1.ResourceName]string) *corev1.Node {
	n := &corev1.Node{Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{}}}
	for r, text := range list {
		n.Status.Allocatable[r] = resource.MustParse(text)
	}
	return n
}

// TestRoom: the amounts that a node does not have at all, and those that other pods use.
func TestRoom(t *testing.T) {
	asking := pod("p", 4)
	asking.Spec.Containers[0].Resources.Limits["example.com/gpu"] = resource.MustParse("1")
	ended := pod("ended", 8)
	ended.Status.Phase = corev1.PodSucceeded
	for what, c := range map[string]struct {
		node           *corev1.Node
		bound          []*corev1.Pod
		lacking, short string
	}{
		"nobody says": {node: nodeWith(nil)},
		"no node":     {},
		"room": {node: nodeWith(map[corev1.ResourceName]string{"cpu": "8", "memory": "4Gi", "pods": "9", "example.com/gpu": "2"}),
			bound: []*corev1.Pod{pod("q", 4), ended}},
		"too small": {node: nodeWith(map[corev1.ResourceName]string{"cpu": "3500m", "memory": "4Gi", "example.com/gpu": "2"}),
			lacking: "the node has 3.5 CPUs in total, but the pod asks for 4", short: "the node has 3.5 CPUs left for more pods, but the pod asks for 4"},
		"no such device": {node: nodeWith(map[corev1.ResourceName]string{"cpu": "8", "memory": "4Gi"}),
			lacking: "the node has 0 example.com/gpu in total, but the pod asks for 1"},
		"taken": {node: nodeWith(map[corev1.ResourceName]string{"cpu": "16", "memory": "1536Mi", "example.com/gpu": "1"}),
			bound: []*corev1.Pod{pod("q", 4)}, short: "the node has 512Mi memory left for more pods, but the pod asks for 1Gi"},
		"overcommitted": {node: nodeWith(map[corev1.ResourceName]string{"cpu": "6", "memory": "4Gi", "example.com/gpu": "1"}),
			bound: []*corev1.Pod{pod("q", 8)}, short: "the node has 0 CPUs left for more pods, but the pod asks for 4"},
		"crowded": {node: nodeWith(map[corev1.ResourceName]string{"cpu": "16", "memory": "4Gi", "pods": "1", "example.com/gpu": "1"}),
			bound: []*corev1.Pod{pod("q", 1)}, short: "the node has 1 pod, and admits at most 1"},
	} {
		asked := wire.ReadAmounts(asking)
		if got := lacking(asked, nil, c.node); got != c.lacking {
			t.Errorf("%s: lacking %q, want %q", what, got, c.lacking)
		}
		if got := short(asked, nil, nodestate.RoomOf(c.node, c.bound, nil)); got != c.short {
			t.Errorf("%s: short %q, want %q", what, got, c.short)
		}
	}
}

// TestAmountTexts: texts are short, and those of different amounts differ.
func TestAmountTexts(t *testing.T) {
	for _, c := range []struct {
		resource   string
		has, wants int64
		want       string
	}{
		{"memory", 171427444 << 10, 1 << 40, "163.4Gi 1Ti"},
		{"memory", 1<<34 + 1, 1<<34 + 1<<10, "17179869185 16777217Ki"},
		{"memory", 1 << 30, 1 << 30, "1Gi 1Gi"},
		{"cpu", 3999, 4000, "3.999 4"},
		{"example.com/gpu", 1, 2, "1 2"},
	} {
		if a, b := amounts.Texts(c.resource, c.has, c.wants); a+" "+b != c.want {
			t.Errorf("%s, %d and %d: %s %s, want %s", c.resource, c.has, c.wants, a, b, c.want)
		}
	}
}

// TestBeside: a resource that a device class provides is not required of a node without a device
// plugin for it.
func TestBeside(t *testing.T) {
	asking := pod("p", 1)
	asking.Spec.Containers[0].Resources.Limits["example.com/gpu"] = resource.MustParse("1")
	asked := wire.ReadAmounts(asking)
	if !foreign(asked) || foreign(wire.ReadAmounts(pod("q", 1))) {
		t.Error("a device is foreign, CPUs are not")
	}
	classes := map[corev1.ResourceName]bool{"example.com/gpu": true}
	bare, plugged := nodeWith(map[corev1.ResourceName]string{"cpu": "4", "memory": "64Gi"}), nodeWith(map[corev1.ResourceName]string{"cpu": "4", "memory": "64Gi", "example.com/gpu": "1"})
	for _, c := range []struct {
		name    string
		node    *corev1.Node
		classes map[corev1.ResourceName]bool
		copies  int // copies for which the node has room
	}{
		{"a bare node", bare, classes, 4}, {"a node with a plugin", plugged, classes, 1}, {"without classes", bare, nil, 0},
	} {
		room, copies := nodestate.RoomOf(c.node, nil, c.classes), 0
		for ; copies < 9 && room.Short(asked) == nil; copies++ {
			room.Add(asked)
		}
		never := lacking(asked, c.classes, c.node)
		if never != "" {
			copies = 0 // no kubelet handles an extended resource that the node does not offer
		}
		if copies != c.copies || (never != "") != (c.copies == 0) {
			t.Errorf("%s: room for %d, and it lacks %q", c.name, copies, never)
		}
	}
}
