package source

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	volcano "github.com/berth-dev/berth/api/scheduling/volcano/v1beta1"
	"github.com/berth-dev/berth/internal/wire"
)

// TestSlimPodsKeepWhatBerthReads: the reduced pods of the map have the same meaning in every
// dialect, and no annotations of others.
func TestSlimPodsKeepWhatBerthReads(t *testing.T) {
	annotations, labels := wire.KeysRead()
	annotations = append(annotations, "descheduler.alpha.kubernetes.io/evict", "cluster-autoscaler.kubernetes.io/safe-to-evict", "karpenter.sh/do-not-disrupt")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"example.com/secret": "x"}, Labels: map[string]string{}}}
	for _, key := range annotations {
		pod.Annotations[key] = key
	}
	for _, key := range labels {
		pod.Labels[key] = key
	}
	slim := slimPod(pod)
	for _, key := range annotations {
		if slim.Annotations[key] != key {
			t.Errorf("annotation %s is dropped", key)
		}
	}
	for _, key := range labels {
		if slim.Labels[key] != key {
			t.Errorf("label %s is dropped", key)
		}
	}
	if len(slim.Annotations) != len(annotations) {
		t.Errorf("%d annotations are kept, Berth reads %d", len(slim.Annotations), len(annotations))
	}
}

// TestSlimGroupsKeepProtection: a group keeps the annotation that protects it from eviction, and no
// annotations of others.
func TestSlimGroupsKeepProtection(t *testing.T) {
	raw := slimGroup([]byte(`{"metadata":{"name":"kept","namespace":"other","annotations":{"volcano.sh/preemptable":"false","secret":"x"}},"spec":{"minMember":1}}`), volcano.GroupVersion)
	if text := string(raw); !strings.Contains(text, "volcano.sh/preemptable") || !strings.Contains(text, volcano.GroupVersion.String()) || strings.Contains(text, "secret") {
		t.Errorf("kept is %s", text)
	}
}
