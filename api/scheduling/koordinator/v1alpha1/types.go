package v1alpha1

import (
	"encoding/json"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DeviceType is the type of a device.
type DeviceType string

// The types.
const (
	GPU  DeviceType = "gpu"
	RDMA DeviceType = "rdma"
	FPGA DeviceType = "fpga"
	XPU  DeviceType = "xpu"
)

// Device lists the devices of one node. It has the name of its Node.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,path=devices,singular=device
type Device struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   DeviceSpec   `json:"spec,omitempty"`
	Status DeviceStatus `json:"status,omitzero"`
}

// DeviceList is a list of Device objects.
//
// +kubebuilder:object:root=true
type DeviceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Device `json:"items"`
}

// DeviceSpec lists the node's devices.
type DeviceSpec struct {
	Devices []DeviceInfo `json:"devices,omitempty"`
}

// DeviceInfo is one device.
type DeviceInfo struct {
	Type   DeviceType        `json:"type,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
	// UUID is the vendor's id of the device.
	UUID string `json:"id,omitempty"`
	// Minor is the number of the device among the devices of its type.
	Minor *int32 `json:"minor,omitempty"`
	// ModuleID is the position of the device in its server.
	ModuleID *int32 `json:"moduleID,omitempty"`
	Health   bool   `json:"health"`
	// Resources are the device's amounts by resource. 100 means the whole device.
	Resources  corev1.ResourceList    `json:"resources,omitempty"`
	Topology   *DeviceTopology        `json:"topology,omitempty"`
	VFGroups   []VirtualFunctionGroup `json:"vfGroups,omitempty"`
	Conditions []metav1.Condition     `json:"conditions,omitempty"`
}

// DeviceTopology is the position of a device in the machine.
type DeviceTopology struct {
	// SocketID and NodeID are -1 if they are not known.
	SocketID int32 `json:"socketID"`
	NodeID   int32 `json:"nodeID"`
	// PCIEID is the PCI root complex.
	PCIEID PCIEID `json:"pcieID"`
	// BusID is the PCI address.
	BusID string `json:"busID,omitempty"`
}

// PCIEID names a PCI root complex. Koordinator up to 1.3 writes a number, later releases write
// text. UnmarshalJSON reads both.
type PCIEID string

// UnmarshalJSON reads text or a whole number.
func (p *PCIEID) UnmarshalJSON(b []byte) error {
	var text string
	if err := json.Unmarshal(b, &text); err == nil {
		*p = PCIEID(text)
		return nil
	}
	n, err := strconv.ParseInt(string(b), 10, 32)
	if err != nil {
		return fmt.Errorf("pcieID: %.40s: want a string or a 32-bit integer", b)
	}
	*p = PCIEID(strconv.FormatInt(n, 10))
	return nil
}

// VirtualFunctionGroup has virtual functions of one device.
type VirtualFunctionGroup struct {
	Labels map[string]string `json:"labels,omitempty"`
	VFs    []VirtualFunction `json:"vfs,omitempty"`
}

// VirtualFunction is one virtual function.
type VirtualFunction struct {
	Minor int32  `json:"minor"`
	BusID string `json:"busID,omitempty"`
}

// DeviceStatus lists the allocations of the devices.
type DeviceStatus struct {
	Allocations []DeviceAllocation `json:"allocations,omitempty"`
}

// DeviceAllocation lists the allocations of one device type.
type DeviceAllocation struct {
	Type    DeviceType             `json:"type,omitempty"`
	Entries []DeviceAllocationItem `json:"entries,omitempty"`
}

// DeviceAllocationItem has the devices of one pod.
type DeviceAllocationItem struct {
	Name      string  `json:"name,omitempty"`
	Namespace string  `json:"namespace,omitempty"`
	UUID      string  `json:"uuid,omitempty"`
	Minors    []int32 `json:"minors,omitempty"`
}
