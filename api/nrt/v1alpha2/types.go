package v1alpha2

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NodeResourceTopology has the amounts of resources on each NUMA node of one node. It is
// cluster-scoped and has the name of its Node.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,path=noderesourcetopologies,singular=noderesourcetopology,shortName=node-res-topo
// +kubebuilder:metadata:annotations="api-approved.kubernetes.io=https://github.com/kubernetes/enhancements/pull/1870"
type NodeResourceTopology struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// TopologyPolicies is deprecated; readers take the first entry.
	// +optional
	TopologyPolicies []string `json:"topologyPolicies,omitempty"`
	// Zones are the NUMA nodes.
	Zones ZoneList `json:"zones"`
	// Attributes contain the kubelet's policies.
	// +optional
	Attributes AttributeList `json:"attributes,omitempty"`

	// Malformed is the error if the object does not fit the types. If Malformed is not "", only the
	// metadata is set.
	Malformed string `json:"-"`
}

// NodeResourceTopologyList is a list of NodeResourceTopology objects.
//
// +kubebuilder:object:root=true
type NodeResourceTopologyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NodeResourceTopology `json:"items"`
}

// Zone is a NUMA node, named "node-N" by convention.
type Zone struct {
	Name string `json:"name"`
	// Type is "Node" for a NUMA node.
	Type string `json:"type"`
	// +optional
	Parent string `json:"parent,omitempty"`
	// +optional
	Costs CostList `json:"costs,omitempty"`
	// +optional
	Attributes AttributeList `json:"attributes,omitempty"`
	// +optional
	Resources ResourceInfoList `json:"resources,omitempty"`
}

// ZoneList is a list of zones.
type ZoneList []Zone

// ResourceInfo is one resource of a zone.
type ResourceInfo struct {
	Name string `json:"name"`
	// Capacity is the total of the zone.
	Capacity resource.Quantity `json:"capacity"`
	// Allocatable is Capacity minus the reservation for the system.
	Allocatable resource.Quantity `json:"allocatable"`
	// Available is Allocatable minus the exclusive resources of containers.
	Available resource.Quantity `json:"available"`
}

// ResourceInfoList is a list of resources.
type ResourceInfoList []ResourceInfo

// CostInfo is the distance to another zone.
type CostInfo struct {
	Name  string `json:"name"`
	Value int64  `json:"value"`
}

// CostList is a list of distances.
type CostList []CostInfo

// AttributeInfo is a named value.
type AttributeInfo struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// AttributeList is a list of attributes.
type AttributeList []AttributeInfo
