package wire

import (
	"fmt"
	"math"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

func encoded(t *testing.T, d *placement.Decision) string {
	t.Helper()
	text, err := WritePlacement(&Placement{Sequence: math.MaxUint64, Generation: math.MaxUint64, Report: math.MaxInt64, Guarantee: GuaranteeAmounts,
		Authority: placement.AuthorityBerth, Koordlet: true, Decision: *d})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestRoughBytes: no text is longer than the estimate.
func TestRoughBytes(t *testing.T) {
	every := placement.ContainerDecision{Name: "c", Kind: placement.Sidecar, Hint: placement.Hint{NUMA: math.MaxUint64}}
	for cpu := topology.CPUID(0); cpu < topology.MaxCPUs; cpu += 2 {
		every.CPUs.Add(cpu)
	}
	every.Memory = []placement.MemoryBlock{{Resource: "m\x00", NUMA: math.MaxUint64 / 3, Bytes: math.MaxUint64}}
	every.Devices = []placement.DeviceAllocation{{Resource: "d\x00", IDs: []string{"\x00", "\x01", "\u2028"}}}
	sample := samplePlacement()
	for what, d := range map[string]*placement.Decision{
		"sample": &sample.Decision, "nothing": {UID: "u"}, "everything": {UID: "\x00", Containers: []placement.ContainerDecision{every}},
	} {
		if text, rough := encoded(t, d), roughBytes(d); rough < len(text) {
			t.Errorf("%s: %d bytes estimated for %d: %s", what, rough, len(text), text)
		}
	}
}

func TestCheckPlacement(t *testing.T) {
	d := samplePlacement().Decision
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", Annotations: map[string]string{PlacementAnnotation: "an old one"}}}
	left := 256<<10 - len(PlacementAnnotation) - len(encoded(t, &d)) - len("notes")
	pod.Annotations["notes"] = strings.Repeat("x", left)
	if err := CheckPlacement(pod, &d); err != nil {
		t.Errorf("it fits to the byte: %v", err)
	}
	pod.Annotations["notes"] += "x"
	if err := CheckPlacement(pod, &d); err == nil || !strings.Contains(err.Error(), "Pod ns/a: metadata.annotations") {
		t.Errorf("one byte too many: %v", err)
	}
	pod.Annotations = nil
	d.Containers = nil
	for i := range placement.MaxContainers + 1 {
		d.Containers = append(d.Containers, placement.ContainerDecision{Name: fmt.Sprint("c", i)})
	}
	if err := CheckPlacement(pod, &d); err == nil || !strings.Contains(err.Error(), "Pod ns/a") {
		t.Errorf("%d containers: %v", len(d.Containers), err)
	}
	d.Containers = d.Containers[1:]
	for i := range d.Containers {
		d.Containers[i].Hint.Any = true
	}
	if err := CheckPlacement(pod, &d); err != nil {
		t.Errorf("%d containers: %v", len(d.Containers), err)
	}
}
