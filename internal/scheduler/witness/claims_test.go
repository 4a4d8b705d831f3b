package witness

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/berth-dev/berth/internal/ledger"
)

// claiming returns a pod with a claim.
func (f *fixture) claiming(name string) *corev1.Pod {
	pod := f.pod(name, 2)
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &name}}
	pod.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "gpu"}}
	return pod
}

// having returns a claim with a device of the node.
func having(name, device string) *resourceapi.ResourceClaim {
	c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: name}}
	if device != "" {
		c.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{{Request: "r", Driver: "gpu.example.com", Pool: "n", Device: device}}}}
	}
	return c
}

// TestMisalignedClaims: another scheduler has chosen a device that is not near the CPUs that the
// kubelet then gave the pod.
func TestMisalignedClaims(t *testing.T) {
	slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: resourceapi.ResourceSliceSpec{Driver: "gpu.example.com", NodeName: new("n"), Pool: resourceapi.ResourcePool{Name: "n", ResourceSliceCount: 1}}}
	for i := range int64(2) {
		slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{Name: fmt.Sprint("d", i), Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"resource.kubernetes.io/numaNode": {IntValue: &i}}})
	}
	client := fake.NewClientset(slice, having("near", "d0"), having("far", "d1"), having("lost", ""))
	f := newFixture(t)
	f.node("n")
	for _, c := range []struct{ pod, alignment, why string }{
		{"near", "aligned", "is on NUMA node 0"},
		{"far", "misaligned", "device gpu.example.com/d1 of claim d/far (request r) is on NUMA node 1 (resource.kubernetes.io/numaNode), but the CPUs and memory of container c are on NUMA node 0"},
		{"lost", "", "no longer has devices"},
		{"missing", "", "not found"},
	} {
		pod := f.bind(f.claiming(c.pod), "n")
		f.answer(pod)
		f.report("n")
		var waits claimed
		select {
		case waits = <-f.claimed:
		default:
			t.Fatalf("%s: its claims are not to be looked at", c.pod)
		}
		j, err := f.judgeClaims(t.Context(), client, &waits)
		if c.alignment == "" {
			if err == nil || !strings.Contains(err.Error(), c.why) {
				t.Errorf("%s: %v", c.pod, err)
			}
			continue
		}
		if err != nil || j.Alignment != c.alignment || !strings.Contains(j.Why, c.why) {
			t.Errorf("%s: %+v, %v", c.pod, j, err)
		}
	}
}

// TestClaimsHaveABound: pods that are not checked for lack of time are counted.
func TestClaimsHaveABound(t *testing.T) {
	f := newFixture(t)
	f.node("n")
	pod := f.bind(f.claiming("p"), "n")
	for range maxClaimed + 2 {
		f.hasClaims("n", &ledger.PromiseOutcome{UID: string(pod.UID)})
	}
	f.hasClaims("n", &ledger.PromiseOutcome{UID: string(pod.UID), Refused: true})
	f.hasClaims("n", &ledger.PromiseOutcome{UID: "nobody"})
	if v := f.View(); v.Claims == nil || v.Claims.NotLooked != 2 || len(f.claimed) != maxClaimed {
		t.Errorf("%+v, %d wait", v.Claims, len(f.claimed))
	}
}
