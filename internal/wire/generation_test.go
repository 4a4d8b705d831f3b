package wire

import (
	"math"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

func resizedPlacement() Placement {
	p := samplePlacement()
	p.Generation, p.Authority = 2, placement.AuthorityBerth
	p.Decision.Containers = append(p.Decision.Containers, placement.ContainerDecision{
		Name: "logs", Hint: placement.Hint{NUMA: 1}, Shares: []placement.CPUShare{{NUMA: 0, MilliCPU: 300}, {NUMA: 1, MilliCPU: 200}},
		Memory: []placement.MemoryBlock{{Resource: "hugepages-2Mi", NUMA: 1, Bytes: 2 << 20}, {Resource: "memory", NUMA: 1, Bytes: 5}, {Resource: "memory", NUMA: 2, Bytes: 7}},
	})
	return p
}

// TestGeneration: a decision after a resize has a generation, and the containers' amounts as a text
// that an admission policy can read.
func TestGeneration(t *testing.T) {
	p := resizedPlacement()
	text, err := WritePlacement(&p)
	if err != nil {
		t.Fatal(err)
	}
	if want := `"uid":"u-1","gen":2,"asks":"side 0m 0,app 4000m 1073741824,logs 500m 12","certainty"`; !strings.Contains(text, want) {
		t.Errorf("wrote %s, want %s in it", text, want)
	}
	for _, text := range []string{text, strings.Replace(text, "side 0m 0,", "", 1)} { // as release 0.2.0 writes it
		back, err := parsePlacement("Pod ns/a", text)
		if err != nil || !reflect.DeepEqual(back, p) {
			t.Errorf("read %+v, %v; want %+v", back, err, p)
		}
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u-1", Annotations: map[string]string{PlacementAnnotation: text}}}
	if got := GenerationOf(pod); got != 2 {
		t.Errorf("GenerationOf: %d, want 2", got)
	}
	p.Generation = math.MaxUint64
	pod.Annotations[PlacementAnnotation], _ = WritePlacement(&p)
	if got := GenerationOf(pod); got != math.MaxUint64 {
		t.Errorf("GenerationOf: %d", got)
	}
	pod.Annotations[PlacementAnnotation] = sampleText
	if got := GenerationOf(pod); got != 1 {
		t.Errorf("GenerationOf the Binding's decision: %d, want 1", got)
	}
	pod.Annotations = nil
	if got := GenerationOf(pod); got != 0 {
		t.Errorf("GenerationOf a pod without a decision: %d, want 0", got)
	}
}

// TestForgedGeneration: a decision is refused if this text differs from what it gives the
// containers.
func TestForgedGeneration(t *testing.T) {
	p := resizedPlacement()
	text, err := WritePlacement(&p)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ old, new, field string }{
		"generation 1":           {`"gen":2`, `"gen":1`, ".gen"},
		"negative":               {`"gen":2`, `"gen":-2`, "gen"},
		"without a generation":   {`"gen":2,`, ``, ".asks"},
		"less than it gives":     {"app 4000m", "app 3000m", ".asks"},
		"another container":      {"app 4000m", "apq 4000m", ".asks"},
		"nothing":                {`"asks":"side 0m 0,app 4000m 1073741824,logs 500m 12",`, ``, ".asks"},
		"more CPUs than it asks": {`"cpus":"2-3,64-65"`, `"cpus":"2-3,64-66"`, ".asks"},
		"a kubelet's":            {`"authority":"berth",`, ``, ".gen"},
	} {
		forged := strings.Replace(text, c.old, c.new, 1)
		if forged == text {
			t.Fatalf("%s: %q is not in %s", name, c.old, text)
		}
		if _, err := parsePlacement("Pod ns/a", forged); err == nil || !strings.Contains(err.Error(), c.field) {
			t.Errorf("%s: %v, want an error about %s", name, err, c.field)
		}
	}
}

func TestDecidedAmounts(t *testing.T) {
	c := placement.ContainerDecision{CPUs: topology.NewCPUSet(1, 2), Memory: []placement.MemoryBlock{{Resource: "memory", NUMA: 1, Bytes: 7}}}
	if got := DecidedAmounts(&c); got != (Amounts{2000, 7}) {
		t.Errorf("got %+v", got)
	}
}
