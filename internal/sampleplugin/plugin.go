// Package sampleplugin is a device plugin (k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1) whose
// devices are only names with NUMA nodes. It is used on hollow nodes and by tests with real
// kubelets.
package sampleplugin

import (
	"errors"
	"fmt"

	"github.com/berth-dev/berth/topology"
)

// Plugin is a device plugin of one resource. It serves the device plugin API
// (k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1) over its own socket, as plugins on real nodes do.
type Plugin struct {
	// Resource is the name of the extended resource, such as "example.com/gpu".
	Resource string
	Devices  []Device
	// Prefer makes the plugin answer GetPreferredAllocation with ascending ids. Without it the
	// kubelet picks devices in the random order of a Go map.
	Prefer bool
}

// Device is one device of a plugin.
type Device struct {
	ID string
	// NUMA are the NUMA nodes closest to the device; none means unknown.
	NUMA []topology.NUMAID
	// Unhealthy devices count as capacity but are not allocatable.
	Unhealthy bool
}

// Check returns an error if the plugin's description is invalid.
func (p *Plugin) Check() error {
	if p.Resource == "" {
		return errors.New("field Resource is empty: want a name like example.com/gpu")
	}
	seen := map[string]bool{}
	for _, d := range p.Devices {
		if d.ID == "" || seen[d.ID] {
			return fmt.Errorf("%s: device id %q is empty or repeated: want distinct ids that are not empty", p.Resource, d.ID)
		}
		seen[d.ID] = true
	}
	return nil
}
