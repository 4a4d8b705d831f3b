package wire

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/placement"
)

// Amounts are CPU time and memory of one container.
type Amounts struct {
	MilliCPU int64
	Bytes    uint64
}

// DecidedAmounts are those that a decision of Berth's own gives a container.
func DecidedAmounts(c *placement.ContainerDecision) (a Amounts) {
	a.MilliCPU = 1000 * int64(c.CPUs.Len())
	for _, s := range c.Shares {
		a.MilliCPU += s.MilliCPU
	}
	for i := range c.Memory {
		if c.Memory[i].Resource == string(corev1.ResourceMemory) {
			a.Bytes += c.Memory[i].Bytes
		}
	}
	return a
}

// asksOf is the text of a decision that the admission policy placement-by-binding compares with
// the pod: "NAME MILLICPUm BYTES" of each app container, joined by commas.
func asksOf(d *placement.Decision) string {
	var parts []string
	for i := range d.Containers {
		c := &d.Containers[i]
		if c.Kind != placement.App {
			continue
		}
		a := DecidedAmounts(c)
		parts = append(parts, fmt.Sprintf("%s %dm %d", c.Name, a.MilliCPU, a.Bytes))
	}
	return strings.Join(parts, ",")
}

// GenerationOf returns the generation of the pod's decision without reading the rest of it; 0 if it
// has none. It is only right for a decision that ReadPlacement accepts.
func GenerationOf(pod *corev1.Pod) uint64 {
	text, found := pod.Annotations[PlacementAnnotation]
	if !found {
		return 0
	}
	_, rest, later := strings.Cut(text, `"gen":`)
	if !later {
		return 1
	}
	digits, _, _ := strings.Cut(rest, ",")
	n, err := strconv.ParseUint(digits, 10, 64)
	if err != nil {
		return 1
	}
	return n
}
