package agent

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc"
	grpcbackoff "google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/berth-dev/berth/internal/kubeletstate"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// Kubelet is the agent's interface to the kubelet's PodResources API; *PodResources implements it.
type Kubelet interface {
	// ActivePods returns the number of active pods in the kubelet for each namespace/name. A pod
	// that is no longer active never becomes active again.
	ActivePods(ctx context.Context) (map[string]int, error)
	// Held returns the devices of containers, by namespace/name of their pods, ascending by id. The
	// entries have no pod UIDs. The result lacks regular init containers, and pods that share their
	// namespace and name with another pod.
	Held(ctx context.Context) (map[string][]kubeletstate.DeviceEntry, error)
	// Devices lists the healthy devices by resource, with their topology.
	Devices(ctx context.Context) (map[string][]placement.Device, error)
}

var _ Kubelet = (*PodResources)(nil)

// PodResources asks a kubelet through its PodResources API.
type PodResources struct {
	conn   *grpc.ClientConn
	client podresources.PodResourcesListerClient
}

const podResourcesTimeout = 5 * time.Second

const maxPodResourcesBytes = 16 << 20

// DialPodResources returns a client of the unix socket at path. It does not wait for the kubelet,
// because the socket exists only while the kubelet runs.
func DialPodResources(path string) (*PodResources, error) {
	conn, err := grpc.NewClient("unix://"+path, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithIdleTimeout(0),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: redial, MinConnectTimeout: podResourcesTimeout}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxPodResourcesBytes)))
	if err != nil {
		return nil, fmt.Errorf("PodResources socket %s: %w", path, err)
	}
	return &PodResources{conn, podresources.NewPodResourcesListerClient(conn)}, nil
}

// redial has the intervals between attempts to connect to a kubelet that does not run.
var redial = grpcbackoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second}

// Follow keeps the connection open until ctx ends, and calls tell when the kubelet has ended or has
// started. When a kubelet ends, the kernel closes the connection at once.
func (p *PodResources) Follow(ctx context.Context, tell func(there bool)) {
	there := false
	for {
		state := p.conn.GetState()
		if state == connectivity.Idle {
			p.conn.Connect()
		}
		if now := state == connectivity.Ready; now != there {
			there = now
			tell(there)
		}
		if !p.conn.WaitForStateChange(ctx, state) {
			return
		}
	}
}

// Close ends the connection.
func (p *PodResources) Close() error { return p.conn.Close() }

func (p *PodResources) list(ctx context.Context) ([]*podresources.PodResources, error) {
	ctx, cancel := context.WithTimeout(ctx, podResourcesTimeout)
	defer cancel()
	resp, err := p.client.List(ctx, &podresources.ListPodResourcesRequest{})
	if err != nil {
		return nil, fmt.Errorf("PodResources List: %w", err)
	}
	return resp.PodResources, nil
}

// ActivePods implements Kubelet.
func (p *PodResources) ActivePods(ctx context.Context) (map[string]int, error) {
	pods, err := p.list(ctx)
	if err != nil {
		return nil, err
	}
	counts := map[string]int{}
	for _, pod := range pods {
		counts[pod.Namespace+"/"+pod.Name]++
	}
	return counts, nil
}

// Held implements Kubelet.
func (p *PodResources) Held(ctx context.Context) (map[string][]kubeletstate.DeviceEntry, error) {
	pods, err := p.list(ctx)
	if err != nil {
		return nil, err
	}
	return heldOf(pods), nil
}

// Devices implements Kubelet.
func (p *PodResources) Devices(ctx context.Context) (map[string][]placement.Device, error) {
	ctx, cancel := context.WithTimeout(ctx, podResourcesTimeout)
	defer cancel()
	resp, err := p.client.GetAllocatableResources(ctx, &podresources.AllocatableResourcesRequest{})
	if err != nil {
		return nil, fmt.Errorf("PodResources GetAllocatableResources: %w", err)
	}
	return devicesOf(resp.Devices), nil
}

// noSuchNode replaces NUMA ids that do not fit a NUMASet, such as the -1 that some plugins copy
// from sysfs. It is the highest id that fits. The kubelet treats such a device as being on a NUMA
// node that the machine does not have, and still aligns the resource.
const noSuchNode = topology.MaxNUMANodes - 1

// devicesOf merges the entries by device, because the kubelet's answer may have one entry for each
// device and NUMA node.
func devicesOf(entries []*podresources.ContainerDevices) map[string][]placement.Device {
	out := map[string][]placement.Device{}
	index := map[[2]string]int{} // by resource and id
	for _, e := range entries {
		for _, id := range e.DeviceIds {
			pool := out[e.ResourceName]
			i, known := index[[2]string{e.ResourceName, id}]
			if !known {
				i = len(pool)
				index[[2]string{e.ResourceName, id}] = i
				pool = append(pool, placement.Device{ID: id})
				out[e.ResourceName] = pool
			}
			if e.Topology == nil {
				continue
			}
			pool[i].HasTopology = true
			for _, n := range e.Topology.Nodes {
				switch {
				case n == nil:
				case n.ID >= 0 && n.ID < topology.MaxNUMANodes:
					pool[i].NUMA = pool[i].NUMA.With(topology.NUMAID(n.ID))
				default:
					pool[i].NUMA = pool[i].NUMA.With(noSuchNode)
				}
			}
		}
	}
	return out
}

// heldOf reads the kubelet's answer. If several pods have the same namespace and name, the result
// has no devices for them, because the answer does not distinguish them.
func heldOf(pods []*podresources.PodResources) map[string][]kubeletstate.DeviceEntry {
	out := map[string][]kubeletstate.DeviceEntry{}
	for _, pod := range pods {
		key := pod.Namespace + "/" + pod.Name
		if _, twice := out[key]; twice {
			out[key] = nil
			continue
		}
		out[key] = []kubeletstate.DeviceEntry{}
		for _, c := range pod.Containers {
			for resource, devices := range devicesOf(c.Devices) {
				e := kubeletstate.DeviceEntry{Container: c.Name, Resource: resource}
				for _, d := range devices {
					e.Devices = append(e.Devices, kubeletstate.HeldDevice{ID: d.ID, NUMA: d.NUMA})
				}
				slices.SortFunc(e.Devices, func(a, b kubeletstate.HeldDevice) int { return cmp.Compare(a.ID, b.ID) })
				out[key] = append(out[key], e)
			}
		}
	}
	return out
}
