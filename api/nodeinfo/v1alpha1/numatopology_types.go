package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Numatopology lists the CPUs of one node by NUMA node, and the free CPUs. It is cluster-scoped and
// has the name of its Node.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,path=numatopologies,singular=numatopology,shortName=numatopo
// +kubebuilder:printcolumn:name="POLICY",type=string,priority=1,JSONPath=`.spec.policies.TopologyManagerPolicy`
// +kubebuilder:printcolumn:name="CPUS",type=string,priority=1,JSONPath=`.spec.numares.cpu.capacity`
// +kubebuilder:printcolumn:name="FREE",type=string,priority=1,JSONPath=`.spec.numares.cpu.allocatable`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
type Numatopology struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec NumatopologySpec `json:"spec,omitempty"`

	// Malformed is the error if the object does not fit the types. If Malformed is not "", only the
	// metadata is set.
	Malformed string `json:"-"`
}

// NumatopologyList is a list of Numatopology objects.
//
// +kubebuilder:object:root=true
type NumatopologyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Numatopology `json:"items"`
}

// The keys of spec.policies, and the annotation with the time of the last write.
const (
	CPUManagerPolicy      = "CPUManagerPolicy"
	MemoryManagerPolicy   = "MemoryManagerPolicy"
	TopologyManagerPolicy = "TopologyManagerPolicy"

	// TimestampAnnotation is the exporter's time of writing, in seconds since 1970.
	TimestampAnnotation = "timestamp"
)

// NumatopologySpec is the exporter's report.
type NumatopologySpec struct {
	// Policies are the kubelet's policies, by the keys CPUManagerPolicy, MemoryManagerPolicy and
	// TopologyManagerPolicy. A policy is "" or absent if the kubelet's configuration does not set
	// it.
	// +optional
	Policies map[string]string `json:"policies,omitempty"`
	// ResReserved has the quantities that the kubelet reserves, by resource.
	// +optional
	ResReserved map[string]string `json:"resReserved,omitempty"`
	// Resources are amounts by resource; the exporter writes "cpu".
	// +optional
	Resources map[string]ResourceInfo `json:"numares,omitempty"`
	// CPUDetail is the position of each CPU, by its id.
	// +optional
	CPUDetail map[string]CPUInfo `json:"cpuDetail,omitempty"`
	// PodAllocations has the exclusive CPUs of pods. Exporters before v1.16 do not write it.
	// +optional
	PodAllocations []PodAllocation `json:"podAllocations,omitempty"`
}

// ResourceInfo is a resource of the node. Fields with the value 0 are omitted.
type ResourceInfo struct {
	// Allocatable is the list of CPUs that no container has exclusively, including the CPUs that
	// the kubelet reserves.
	// +optional
	Allocatable string `json:"allocatable,omitempty"`
	// Capacity is the number of CPUs.
	// +optional
	Capacity int `json:"capacity,omitempty"`
}

// CPUInfo is the position of a CPU. Fields with the value 0 are omitted.
type CPUInfo struct {
	// +optional
	// +kubebuilder:validation:Minimum=0
	NUMANodeID int `json:"numa,omitempty"`
	// +optional
	// +kubebuilder:validation:Minimum=0
	SocketID int `json:"socket,omitempty"`
	// CoreID is the operating system's id of the core. Two sockets may have cores with the same id.
	// +optional
	// +kubebuilder:validation:Minimum=0
	CoreID int `json:"core,omitempty"`
}

// PodAllocation has the exclusive resources of a pod. An exporter writes the UID or the name,
// depending on which it knows.
type PodAllocation struct {
	// +optional
	UID string `json:"uid,omitempty"`
	// +optional
	Name string `json:"name,omitempty"`
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// +optional
	ContainerAllocations []ContainerAllocation `json:"containerAllocations,omitempty"`
}

// ContainerAllocation has the exclusive resources of a container.
type ContainerAllocation struct {
	// +optional
	Name string `json:"name,omitempty"`
	// Allocations are lists of ids by resource; the exporter writes "cpu".
	// +optional
	Allocations map[string]string `json:"allocations,omitempty"`
}
