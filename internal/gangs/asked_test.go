package gangs

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestPriorityIsPartOfALikeness: a pod that is nominated to a node only counts for members whose
// priority is not higher.
func TestPriorityIsPartOfALikeness(t *testing.T) {
	low, high := new(corev1.Pod), new(corev1.Pod)
	low.Name, high.Name = "a-0", "a-1"
	like := func(p *corev1.Pod) string { return string(likeness(p, nil, nil)) }
	if like(low) != like(high) {
		t.Error("two pods that are equal are told apart")
	}
	high.Spec.Priority = new(int32(5))
	if like(low) == like(high) {
		t.Error("pods of two priorities are not told apart")
	}
}
