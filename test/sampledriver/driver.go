// Package sampledriver is a DRA driver (k8s.io/dynamic-resource-allocation/kubeletplugin) whose
// devices are only names, for hollow nodes and for real kubelets in tests. It remembers the claims
// that the kubelet prepared.
package sampledriver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
)

// Options describe the driver of one node.
type Options struct {
	// Name is the driver's name, "gpu.example.com".
	Name string
	// Node is the Node object's name. It is also the name of the pool.
	Node string
	// Registry and Own are the kubelet's directory of registration sockets and the driver's own
	// directory. The driver creates both.
	Registry, Own string
	// Client has the rights of the node.
	Client kubernetes.Interface
	// Devices are published in this order, which is the order in which schedulers try them.
	Devices []resourceapi.Device
}

// Driver serves the kubelet of one node. It is safe for concurrent use. Its memory survives Stop,
// so that a restarted driver knows the prepared claims.
type Driver struct {
	Options
	helper *kubeletplugin.Helper

	mu       sync.Mutex
	prepared map[types.UID][]string // devices, by claim
	twice    []string
	failed   []error
}

var _ kubeletplugin.DRAPlugin = &Driver{}

// New returns a driver that does not run yet.
func New(o Options) *Driver { return &Driver{Options: o, prepared: map[types.UID][]string{}} }

// Start publishes the devices and registers with the kubelet, at once or when the kubelet comes. It
// runs until Stop, even if ctx ends.
func (d *Driver) Start(ctx context.Context) error {
	if err := errors.Join(os.MkdirAll(d.Registry, 0o750), os.MkdirAll(d.Own, 0o750)); err != nil {
		return fmt.Errorf("driver %s: %w", d.Name, err)
	}
	helper, err := kubeletplugin.Start(context.WithoutCancel(ctx), d, kubeletplugin.DriverName(d.Name), kubeletplugin.NodeName(d.Node),
		kubeletplugin.KubeClient(d.Client), kubeletplugin.RegistrarDirectoryPath(d.Registry), kubeletplugin.PluginDataDirectoryPath(d.Own),
		kubeletplugin.HealthService(false))
	if err != nil {
		return fmt.Errorf("driver %s of node %s: %w", d.Name, d.Node, err)
	}
	d.helper = helper
	if err := d.Publish(ctx, d.Devices); err != nil {
		d.Stop()
		return err
	}
	return nil
}

// Publish replaces the devices that the driver offers.
func (d *Driver) Publish(ctx context.Context, devices []resourceapi.Device) error {
	var pool resourceslice.Pool
	for part := range slices.Chunk(devices, resourceapi.ResourceSliceMaxDevices) {
		pool.Slices = append(pool.Slices, resourceslice.Slice{Devices: part})
	}
	err := d.helper.PublishResources(ctx, resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{d.Node: pool}})
	if err != nil {
		return fmt.Errorf("driver %s of node %s: publish: %w", d.Name, d.Node, err)
	}
	return nil
}

// Stop ends the driver. Its slices stay until the kubelet notices that the driver is gone.
func (d *Driver) Stop() {
	if d.helper != nil {
		d.helper.Stop()
		d.helper = nil
	}
}

// Prepared returns the devices of each claim that is prepared.
func (d *Driver) Prepared() map[types.UID][]string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.prepared)
}

// Wrong returns the devices that two claims had at the same time, and the driver's errors.
func (d *Driver) Wrong() (twice []string, failed error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.twice), errors.Join(d.failed...)
}

// PrepareResourceClaims implements kubeletplugin.DRAPlugin.
func (d *Driver) PrepareResourceClaims(_ context.Context, all []*resourceapi.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := map[types.UID]kubeletplugin.PrepareResult{}
	for _, claim := range all {
		out[claim.UID] = d.prepare(claim)
	}
	return out, nil
}

func (d *Driver) prepare(claim *resourceapi.ResourceClaim) (out kubeletplugin.PrepareResult) {
	var names []string
	for _, r := range claim.Status.Allocation.Devices.Results {
		if r.Driver != d.Name || r.Pool != d.Node {
			continue
		}
		if other := d.holder(r.Device); other != "" && other != claim.UID && exclusive(&r) {
			err := fmt.Errorf("device %s of node %s: prepared for claim %s, and now for %s/%s (%s)", r.Device, d.Node, other, claim.Namespace, claim.Name, claim.UID)
			d.twice = append(d.twice, err.Error())
			return kubeletplugin.PrepareResult{Err: err}
		}
		if exclusive(&r) {
			names = append(names, r.Device)
		}
		out.Devices = append(out.Devices, kubeletplugin.Device{
			Requests: []string{r.Request}, PoolName: r.Pool, DeviceName: r.Device, ShareID: r.ShareID, CDIDeviceIDs: []string{d.Name + "/device=" + r.Device},
		})
	}
	d.prepared[claim.UID] = names
	return out
}

// exclusive reports if only one claim may use the device.
func exclusive(r *resourceapi.DeviceRequestAllocationResult) bool {
	return r.ShareID == nil && (r.AdminAccess == nil || !*r.AdminAccess)
}

func (d *Driver) holder(device string) types.UID {
	for claim, devices := range d.prepared {
		if slices.Contains(devices, device) {
			return claim
		}
	}
	return ""
}

// UnprepareResourceClaims implements kubeletplugin.DRAPlugin.
func (d *Driver) UnprepareResourceClaims(_ context.Context, claims []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := map[types.UID]error{}
	for _, claim := range claims {
		delete(d.prepared, claim.UID)
		out[claim.UID] = nil
	}
	return out, nil
}

// HandleError implements kubeletplugin.DRAPlugin.
func (d *Driver) HandleError(_ context.Context, err error, what string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.failed) < maxFailed {
		d.failed = append(d.failed, fmt.Errorf("driver %s of node %s: %s: %w", d.Name, d.Node, what, err))
	}
}

// maxFailed is the maximum number of remembered errors.
const maxFailed = 8

// WatchHealthStatus implements kubeletplugin.DRAPlugin.
func (d *Driver) WatchHealthStatus(context.Context, chan<- kubeletplugin.DeviceHealthReport) error {
	return kubeletplugin.ErrHealthNotSupported
}
