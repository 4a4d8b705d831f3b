package simulate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berth-dev/berth/internal/simulate/trace"
	"github.com/berth-dev/berth/placement"
)

// Shape is what a pod asks for: pods of one shape are interchangeable.
type Shape struct {
	MilliCPU int64
	MiB      int64
	GPUs     int
	MilliGPU int64 // of each
	// GPUModels are those that it may have; none means any.
	GPUModels []string
	// Request is what it asks of a kubelet; nil where the cluster has amounts alone.
	Request *placement.Request
}

// AskedGPU is how many thousandths of GPUs the pod asks for in all.
func (s *Shape) AskedGPU() int64 { return int64(s.GPUs) * s.MilliGPU }

// takes says whether the pod may have GPUs of the model.
func (s *Shape) takes(model string) bool {
	return len(s.GPUModels) == 0 || slices.Contains(s.GPUModels, model)
}

// shapes numbers the shapes of a list, and says which each pod has.
func shapes(pods []trace.Pod) (all []Shape, of []int32) {
	known := map[string]int32{}
	for i := range pods {
		p := &pods[i]
		key := fmt.Sprint(p.MilliCPU, p.MiB, p.GPUs, p.MilliGPU, strings.Join(p.GPUModels, "|"))
		id, ok := known[key]
		if !ok {
			id = int32(len(all))
			known[key] = id
			all = append(all, Shape{MilliCPU: p.MilliCPU, MiB: p.MiB, GPUs: p.GPUs, MilliGPU: p.MilliGPU, GPUModels: p.GPUModels})
		}
		of = append(of, id)
	}
	return all, of
}
