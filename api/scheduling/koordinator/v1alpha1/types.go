package v1alpha1

import (
	"encoding/json"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DeviceType is a type of devices.
type DeviceType string

// The types.
const (
	GPU  DeviceType = "gpu"
	RDMA DeviceType = "rdma"
	FPGA DeviceType = "fpga"
	XPU  DeviceType = "xpu"
)

// Device is the devices of the node whose name it has.
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

// DeviceSpec is what there is.
type DeviceSpec struct {
	Devices []DeviceInfo `json:"devices,omitempty"`
}

// DeviceInfo is one device.
type DeviceInfo struct {
	Type   DeviceType        `json:"type,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
	// UUID is how the vendor calls the device.
	UUID string `json:"id,omitempty"`
	// Minor counts the devices of a type.
	Minor *int32 `json:"minor,omitempty"`
	// ModuleID is where the device sits in its server.
	ModuleID *int32 `json:"moduleID,omitempty"`
	Health   bool   `json:"health"`
	// Resources are what the device has to give, 100 of each for the whole of it.
	Resources  corev1.ResourceList    `json:"resources,omitempty"`
	Topology   *DeviceTopology        `json:"topology,omitempty"`
	VFGroups   []VirtualFunctionGroup `json:"vfGroups,omitempty"`
	Conditions []metav1.Condition     `json:"conditions,omitempty"`
}

// DeviceTopology is where a device hangs from.
type DeviceTopology struct {
	// SocketID and NodeID are -1 where nobody knows.
	SocketID int32 `json:"socketID"`
	NodeID   int32 `json:"nodeID"`
	// PCIEID is the PCI root complex.
	PCIEID PCIEID `json:"pcieID"`
	// BusID is the PCI address.
	BusID string `json:"busID,omitempty"`
}

// PCIEID names a PCI root complex. Koordinator wrote a number until 1.3 and writes text since; both
// are read.
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
		return fmt.Errorf("pcieID %.40s: want text or a whole number", b)
	}
	*p = PCIEID(strconv.FormatInt(n, 10))
	return nil
}

// VirtualFunctionGroup is virtual functions of one device.
type VirtualFunctionGroup struct {
	Labels map[string]string `json:"labels,omitempty"`
	VFs    []VirtualFunction `json:"vfs,omitempty"`
}

// VirtualFunction is one virtual function.
type VirtualFunction struct {
	Minor int32  `json:"minor"`
	BusID string `json:"busID,omitempty"`
}

// DeviceStatus is what is handed out.
type DeviceStatus struct {
	Allocations []DeviceAllocation `json:"allocations,omitempty"`
}

// DeviceAllocation is what is handed out of one type.
type DeviceAllocation struct {
	Type    DeviceType             `json:"type,omitempty"`
	Entries []DeviceAllocationItem `json:"entries,omitempty"`
}

// DeviceAllocationItem is what a pod has.
type DeviceAllocationItem struct {
	Name      string  `json:"name,omitempty"`
	Namespace string  `json:"namespace,omitempty"`
	UUID      string  `json:"uuid,omitempty"`
	Minors    []int32 `json:"minors,omitempty"`
}
