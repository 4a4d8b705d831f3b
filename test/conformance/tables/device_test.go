package tables

import (
	"fmt"
	"slices"

	"github.com/berth-dev/berth/placement/device"
	"github.com/berth-dev/berth/placement/hint"
	"github.com/berth-dev/berth/topology"
)

type kubeDevice struct {
	ID      string
	NUMA    []topology.NUMAID
	Healthy bool
}

type deviceIn struct {
	Pool                       []kubeDevice
	Nodes                      []topology.NUMAID
	Available, Reusable, InUse []string
	N                          int
	Hint                       kubeHint
	Preferring                 bool
}

// open makes the pool; tests of a machine without NUMA nodes get one node.
func (in *deviceIn) open() (*hint.Space, *device.Pool, error) {
	if in.Nodes == nil {
		in.Nodes = []topology.NUMAID{0}
	}
	s, err := spaceOf(in.Nodes)
	if err != nil {
		return nil, nil, err
	}
	var devices []device.Device
	for _, d := range in.Pool {
		devices = append(devices, device.Device{ID: d.ID, Mask: s.Compact(topology.NewNUMASet(d.NUMA...)),
			HasTopology: d.NUMA != nil, HasNodes: len(d.NUMA) > 0, Healthy: d.Healthy})
	}
	slices.SortFunc(devices, func(a, b device.Device) int { return compare(a.ID, b.ID) })
	return s, device.NewPool(s, devices, device.Options{}), nil
}

func compare(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func setOf(p *device.Pool, ids []string) (device.Set, error) {
	s := make(device.Set, p.Words())
	for _, id := range ids {
		i, ok := p.Find(id)
		if !ok {
			return nil, errLeftOut // a device that the plugin does not list: the kubelet would crash on it
		}
		s.Add(i)
	}
	return s, nil
}

func deviceHints(in *deviceIn, out *[]kubeHint) error {
	s, p, err := in.open()
	if err != nil {
		return err
	}
	available, err := setOf(p, in.Available)
	if err != nil {
		return err
	}
	reusable, err := setOf(p, in.Reusable)
	if err != nil {
		return err
	}
	l := s.NewList()
	p.Hints(&device.HintInput{N: in.N, Available: available, Reusable: reusable, Want: hint.Offered}, &l)
	return sameHints(s, *out, &l)
}

type takeDevicesOut struct {
	Devices []string
	Error   string
}

func takeDevices(in *deviceIn, out *takeDevicesOut) error {
	if in.Preferring {
		return errLeftOut // the test's plugin has its own preference
	}
	s, p, err := in.open()
	if err != nil {
		return err
	}
	inUse, err := setOf(p, in.InUse)
	if err != nil {
		return err
	}
	reusable, err := setOf(p, in.Reusable)
	if err != nil {
		return err
	}
	got := make(device.Set, p.Words())
	chance, ok := p.Take(&device.Taking{N: in.N, InUse: inUse, Reusable: reusable, Hint: in.Hint.in(s)}, got)
	if ok != (out.Error == "") {
		return fmt.Errorf("want error %q, got devices: %v", out.Error, ok)
	}
	if !ok {
		return nil
	}
	var ids []string
	for i := range p.Len() {
		if got.Has(i) {
			ids = append(ids, p.ID(i))
		}
	}
	if len(ids) != len(out.Devices) || !chance && !slices.Equal(ids, out.Devices) {
		return fmt.Errorf("want devices %v, got %v (chance %v)", out.Devices, ids, chance)
	}
	return nil
}
