package oracle

import (
	"context"
	"slices"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/berth-dev/berth/test/conformance/nvidia"
	"github.com/berth-dev/berth/test/replay/cases"
)

// ready reports that all sources of pods have been seen, so that the managers release the resources
// of inactive pods.
type ready struct{}

func (ready) AddSource(string) {}
func (ready) AllReady() bool   { return true }

// noStatus knows no pod, so that the CPU manager's reconciliation does not change containers.
type noStatus struct{}

func (noStatus) GetPodStatus(types.UID) (corev1.PodStatus, bool) { return corev1.PodStatus{}, false }

type noRuntime struct{}

func (noRuntime) UpdateContainerResources(context.Context, string, *runtimeapi.ContainerResources) error {
	return nil
}

// plugin is a device plugin in this process. The kubelet calls it through the client that gRPC
// would have generated.
type plugin struct {
	pluginapi.DevicePluginClient
	resource string
	// socket is the plugin's own: since 1.37 the kubelet refuses a plugin on a known socket.
	socket string
	sorted bool
	// nvidia chooses in NVIDIA's order; nil for every other plugin.
	nvidia *nvidia.Plugin
}

func newPlugin(p *cases.Pool, socket string) *plugin {
	out := &plugin{resource: p.Resource, socket: socket, sorted: p.Preferred == cases.PreferSorted}
	if p.Preferred == cases.PreferNVIDIA {
		index := map[string]int{}
		out.nvidia = &nvidia.Plugin{Points: func(a, b string) int {
			if p.Points == nil {
				return 0
			}
			return int(p.Points[index[a]*len(p.Devices)+index[b]])
		}}
		for i, d := range p.Devices {
			index[d.ID] = i
			out.nvidia.IDs = append(out.nvidia.IDs, d.ID)
		}
	}
	return out
}

func (p *plugin) API() pluginapi.DevicePluginClient { return p }
func (p *plugin) Resource() string                  { return p.resource }
func (p *plugin) SocketPath() string                { return p.socket }

func (p *plugin) GetDevicePluginOptions(context.Context, *pluginapi.Empty, ...grpc.CallOption) (*pluginapi.DevicePluginOptions, error) {
	return &pluginapi.DevicePluginOptions{GetPreferredAllocationAvailable: p.sorted || p.nvidia != nil}, nil
}

func (p *plugin) Allocate(_ context.Context, r *pluginapi.AllocateRequest, _ ...grpc.CallOption) (*pluginapi.AllocateResponse, error) {
	// Without a response the kubelet would forget the devices: podDevices.devices skips devices
	// without one.
	return &pluginapi.AllocateResponse{ContainerResponses: []*pluginapi.ContainerAllocateResponse{{}}}, nil
}

// GetPreferredAllocation returns the required devices and then the first available ones by name, or
// the choice of NVIDIA's plugin.
func (p *plugin) GetPreferredAllocation(_ context.Context, r *pluginapi.PreferredAllocationRequest, _ ...grpc.CallOption) (*pluginapi.PreferredAllocationResponse, error) {
	out := &pluginapi.PreferredAllocationResponse{}
	for _, c := range r.ContainerRequests {
		if p.nvidia != nil {
			ids, err := p.nvidia.Preferred(c.AvailableDeviceIDs, c.MustIncludeDeviceIDs, int(c.AllocationSize))
			if err != nil {
				return nil, err
			}
			out.ContainerResponses = append(out.ContainerResponses, &pluginapi.ContainerPreferredAllocationResponse{DeviceIDs: ids})
			continue
		}
		ids := slices.Sorted(slices.Values(c.MustIncludeDeviceIDs))
		for _, id := range slices.Sorted(slices.Values(c.AvailableDeviceIDs)) {
			if len(ids) < int(c.AllocationSize) && !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
		out.ContainerResponses = append(out.ContainerResponses, &pluginapi.ContainerPreferredAllocationResponse{DeviceIDs: ids})
	}
	return out, nil
}

// pluginDevices returns a pool in the form of a plugin's ListAndWatch.
func pluginDevices(pool *cases.Pool) []*pluginapi.Device {
	var out []*pluginapi.Device
	for _, d := range pool.Devices {
		dev := &pluginapi.Device{ID: d.ID, Health: pluginapi.Healthy}
		if d.Unhealthy {
			dev.Health = pluginapi.Unhealthy
		}
		if d.NUMA != nil {
			dev.Topology = &pluginapi.TopologyInfo{}
			for _, n := range d.NUMA {
				dev.Topology.Nodes = append(dev.Topology.Nodes, &pluginapi.NUMANode{ID: int64(n)})
			}
		}
		out = append(out, dev)
	}
	return out
}
