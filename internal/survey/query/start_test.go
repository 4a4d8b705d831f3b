package query

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-dev/berth/internal/survey"
)

// TestClosed: a simulation starts without the nodes that take no new pods.
func TestClosed(t *testing.T) {
	for key, want := range map[string]string{
		"ToBeDeletedByClusterAutoscaler":        "it has the taint ToBeDeletedByClusterAutoscaler",
		"karpenter.sh/disrupted":                "it has the taint karpenter.sh/disrupted",
		"node-role.kubernetes.io/control-plane": "it has the taint node-role.kubernetes.io/control-plane",
		"berth.dev/pool":                        "",
	} {
		node := &corev1.Node{Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{"cpu": resource.MustParse("8")}}}
		node.Spec.Taints = []corev1.Taint{{Key: key, Effect: corev1.TaintEffectNoSchedule}}
		if got := closed(&survey.NodeState{Object: node}); got != want {
			t.Errorf("%s: %q, want %q", key, got, want)
		}
	}
}
