package offer

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/berth-dev/berth/internal/clip"
	"github.com/berth-dev/berth/internal/wire"
)

// Offers registers the devices of pools with a kubelet and monitors them. It is safe for concurrent
// use.
type Offers struct {
	// Dir is the kubelet's folder for device plugins.
	Dir string
	// Log receives messages about devices and the kubelet; it must not be nil.
	Log func(format string, args ...any)
	// Changed is called after the pools or the findings have changed, and after the kubelet has
	// connected to the plugin of a resource, or has disconnected from it. It may be nil, and must
	// not block.
	Changed func()

	host Host
	// looking is locked while the devices are checked.
	looking sync.Mutex

	mu       sync.Mutex
	pools    []Pool
	findings map[string]Finding
	// listeners counts the kubelet's open ListAndWatch calls, by resource. These calls end when the
	// kubelet ends.
	listeners map[string]int
	// The channel `told` is closed and replaced when pools or findings change.
	told chan struct{}
}

// New returns Offers for the pools, and checks the devices once.
func New(pools []Pool, host Host, log func(string, ...any)) *Offers {
	o := &Offers{host: host, Log: log, listeners: map[string]int{}, told: make(chan struct{})}
	o.Renew(pools)
	return o
}

// Pools returns the offered pools. Callers must not change them.
func (o *Offers) Pools() []Pool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.pools
}

// Found returns the offered pools, and the last finding about each device, by address.
func (o *Offers) Found() ([]Pool, map[string]Finding) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.pools, maps.Clone(o.findings)
}

// Taken reports whether the kubelet is connected to Berth's plugin for the resource. A kubelet that
// has just started is not connected yet, and refuses pods that ask for the resource.
func (o *Offers) Taken(resource string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return !slices.ContainsFunc(wire.DeviceNames(resource), func(name string) bool { return o.listeners[name] == 0 })
}

// listen records that a call of ListAndWatch has begun (n is 1) or ended (n is -1).
func (o *Offers) listen(resource string, n int) {
	o.mu.Lock()
	o.listeners[resource] += n
	o.mu.Unlock()
	if o.Changed != nil {
		o.Changed()
	}
}

// Look checks the devices, and writes the CDI specification of the devices that no vendor
// describes.
func (o *Offers) Look() {
	o.looking.Lock()
	defer o.looking.Unlock()
	o.lookAt(o.Pools())
}

// Renew replaces the offered pools. An old resource that is not among the new pools stays
// registered, but with no devices.
func (o *Offers) Renew(pools []Pool) {
	o.looking.Lock()
	defer o.looking.Unlock()
	o.lookAt(pools)
}

func (o *Offers) lookAt(pools []Pool) {
	findings := o.host.look(pools)
	if err := o.host.writeSpec(pools, findings); err != nil {
		for i := range pools {
			for _, d := range pools[i].Devices {
				if s := findings[d.Address]; pools[i].cdi == nil && s.Sick == "" {
					s.Sick = "its CDI specification cannot be written: " + err.Error()
					findings[d.Address] = s
				}
			}
		}
	}
	if o.note(pools, findings) && o.Changed != nil {
		o.Changed()
	}
}

// note stores the pools and findings, and reports whether they differ from the previous ones.
func (o *Offers) note(pools []Pool, findings map[string]Finding) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	same := slices.EqualFunc(o.pools, pools, func(a, b Pool) bool {
		return a.Resource == b.Resource && slices.EqualFunc(a.Devices, b.Devices, func(c, d Device) bool { return c.Address == d.Address })
	})
	o.pools = pools
	if same && o.findings != nil && maps.EqualFunc(o.findings, findings, func(a, b Finding) bool { return a.Sick == b.Sick && a.CDI == b.CDI && slices.Equal(a.Nodes, b.Nodes) }) {
		return false
	}
	for _, address := range slices.Sorted(maps.Keys(findings)) {
		switch was, is := o.findings[address].Sick, findings[address].Sick; {
		case is != "" && is != was:
			o.Log("device %s is no longer offered: %s", address, is)
		case is == "" && was != "":
			o.Log("device %s is offered again", address)
		}
	}
	o.findings = findings
	close(o.told)
	o.told = make(chan struct{})
	return true
}

// tokens returns the number of healthy devices of a resource, and the number of all devices.
// `changed` is closed when these numbers may have changed.
func (o *Offers) tokens(name string) (well, all int, changed <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range o.pools {
		if !slices.Contains(wire.DeviceNames(o.pools[i].Resource), name) {
			continue
		}
		for _, d := range o.pools[i].Devices {
			if all++; o.findings[d.Address].Sick == "" {
				well++
			}
		}
	}
	return well, all, o.told
}

// lookPeriod is the interval between checks. A check reads a dozen small sysfs files per device.
const lookPeriod = time.Second

// Run offers the devices until ctx ends. It registers again when the kubelet restarts.
func (o *Offers) Run(ctx context.Context) {
	var all sync.WaitGroup
	served := map[string]bool{}
	tick := time.NewTicker(lookPeriod)
	defer tick.Stop()
	for ctx.Err() == nil {
		for _, p := range o.Pools() {
			for _, name := range wire.DeviceNames(p.Resource) {
				if !served[name] {
					all.Go(func() { o.serve(ctx, name) })
				}
				served[name] = true
			}
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
			o.Look()
		}
	}
	all.Wait()
}

// gpuDomains has, by PCI vendor, the domain of the resource names with which the vendor's plugins
// offer GPUs.
var gpuDomains = map[string]string{"10de": "nvidia.com/", "1002": "amd.com/", "8086": "gpu.intel.com/"}

// Rival describes another device plugin that offers resource names or devices of these pools, or
// returns "". `registered` has the healthy devices of the kubelet's plugins, by resource.
func Rival(pools []Pool, registered map[string][]string) string {
	own := map[string]bool{}
	for i := range pools {
		for _, name := range wire.DeviceNames(pools[i].Resource) {
			own[name] = true
		}
	}
	for _, resource := range slices.Sorted(maps.Keys(registered)) {
		for _, id := range registered[resource] {
			switch {
			case own[resource] && !IsToken(id):
				return fmt.Sprintf("another device plugin offers %s to the kubelet (%.100q is one of its devices), and Berth offers the same resource", resource, id)
			case own[resource]:
			case offers(pools, resource, id):
				same := "GPUs of the same vendor"
				if hasAddress(pools, id) {
					same = "the same device"
				}
				return fmt.Sprintf("another device plugin offers device %s to the kubelet as %s, and Berth offers %s", clip.Text(id, 100), resource, same)
			}
		}
	}
	return ""
}

func hasAddress(pools []Pool, address string) bool {
	return slices.ContainsFunc(pools, func(p Pool) bool {
		return slices.ContainsFunc(p.Devices, func(d Device) bool { return d.Address == address })
	})
}

// offers reports whether a device of another plugin is probably a device of the pools: its id is
// the address of one of their devices, or its resource name is in the domain of a vendor
// (gpuDomains) whose GPUs are in the pools.
func offers(pools []Pool, resource, id string) bool {
	for i := range pools {
		for _, d := range pools[i].Devices {
			domain := gpuDomains[d.Vendor]
			if d.Address == id || d.Kind().String() == "GPU" && domain != "" && strings.HasPrefix(resource, domain) {
				return true
			}
		}
	}
	return false
}
