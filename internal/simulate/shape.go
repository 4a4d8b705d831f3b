package simulate

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/berth-dev/berth/internal/simulate/trace"
	"github.com/berth-dev/berth/placement"
)

// Shape is the request of a pod. Pods of one shape are interchangeable.
type Shape struct {
	MilliCPU int64
	MiB      int64
	GPUs     int
	MilliGPU int64 // of each GPU
	// GPUModels are the models that the pod may use; empty means any.
	GPUModels []string
	// Others are amounts of huge pages, in bytes, and of other devices.
	Others map[string]int64
	// ask is the request that a kubelet receives. A kubelet pins only whole CPUs and GPUs (see
	// Whole).
	ask *placement.Request
	// key identifies the request: shapes with identical requests have the same key.
	key string
}

// Request returns the request that a kubelet receives. The caller must not change it.
func (s *Shape) Request() *placement.Request { return s.ask }

// AskedGPU returns the pod's total request for GPUs, in thousandths of a GPU.
func (s *Shape) AskedGPU() int64 { return int64(s.GPUs) * s.MilliGPU }

// Takes reports whether the pod may use GPUs of the model.
func (s *Shape) Takes(model string) bool {
	return len(s.GPUModels) == 0 || slices.Contains(s.GPUModels, model)
}

// shapes returns the distinct shapes of the pods. The shape of pods[i] is all[of[i]].
func shapes(pods []trace.Pod) (all []Shape, of []int32) {
	known := map[string]int32{}
	for i := range pods {
		p := &pods[i]
		key := fmt.Sprint(p.MilliCPU, p.MiB, p.GPUs, p.MilliGPU, strings.Join(p.GPUModels, "|"), p.Others)
		id, ok := known[key]
		if !ok {
			id = int32(len(all))
			known[key] = id
			s := Shape{MilliCPU: p.MilliCPU, MiB: p.MiB, GPUs: p.GPUs, MilliGPU: p.MilliGPU, GPUModels: p.GPUModels, Others: p.Others, key: key}
			s.ask = s.request()
			all = append(all, s)
		}
		of = append(of, id)
	}
	return all, of
}

// keeping returns the shapes with the rule k in their requests, as a scheduler with this rule
// (Strategy.Keep) sends them to the engine. If k is nil, it returns the shapes unchanged.
func keeping(all []Shape, k *placement.Keep) []Shape {
	if k == nil {
		return all
	}
	all = slices.Clone(all)
	for i := range all {
		ask := *all[i].ask
		ask.Rules.Keep = k
		all[i].ask = &ask
	}
	return all
}

func isHugePages(resource string) bool { return strings.HasPrefix(resource, "hugepages-") }

// gpuResource is the extended resource that pods use to ask for whole GPUs.
const gpuResource = "nvidia.com/gpu"

// request returns the request that a kubelet receives for a pod of the shape.
func (s *Shape) request() *placement.Request {
	c := placement.ContainerRequest{Name: "main", MilliCPU: s.MilliCPU, Memory: []placement.MemoryRequest{{Resource: "memory", Bytes: uint64(s.MiB) << 20}}}
	if s.GPUs > 0 {
		c.Devices = []placement.DeviceRequest{{Resource: gpuResource, Count: int64(s.GPUs)}}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Others)) {
		if isHugePages(name) {
			c.Memory = append(c.Memory, placement.MemoryRequest{Resource: name, Bytes: uint64(s.Others[name])})
		} else {
			c.Devices = append(c.Devices, placement.DeviceRequest{Resource: name, Count: s.Others[name]})
		}
	}
	return &placement.Request{Guaranteed: true, Containers: []placement.ContainerRequest{c}}
}

// Whole returns the pods with their CPUs and GPUs rounded up to whole numbers, because a kubelet
// pins only these. Each pod gets at least 1 CPU.
func Whole(pods []trace.Pod) []trace.Pod {
	out := slices.Clone(pods)
	for i := range out {
		p := &out[i]
		p.MilliCPU = max(1, (p.MilliCPU+trace.Thousandths-1)/trace.Thousandths) * trace.Thousandths
		if p.GPUs > 0 {
			p.MilliGPU = trace.Thousandths
		}
	}
	return out
}
