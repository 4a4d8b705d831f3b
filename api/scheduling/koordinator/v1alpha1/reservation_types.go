package v1alpha1

import (
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	sigsjson "sigs.k8s.io/json"
)

// Reservation holds the resources of a pod template for later pods.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,path=reservations,singular=reservation
type Reservation struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ReservationSpec   `json:"spec,omitempty"`
	Status ReservationStatus `json:"status,omitzero"`

	// Malformed is the error if the object does not fit the types. If Malformed is not "", only the
	// metadata and the template's schedulerName are set. The template is nil if its schedulerName
	// cannot be read.
	Malformed string `json:"-"`
}

// ReservationList is a list of Reservation objects.
//
// +kubebuilder:object:root=true
type ReservationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Reservation `json:"items"`
}

// ReservationSpec describes the resources that are held, and the pods for which they are held.
type ReservationSpec struct {
	// Template is the template of a pod whose resources are held. If it has a nodeName, the
	// resources are held only on that node.
	Template *corev1.PodTemplateSpec `json:"template"`
	// Owners select the pods that may use the reservation. A pod must match one of the owners.
	Owners []ReservationOwner `json:"owners"`
	// TTL is the lifetime of the reservation from the creation of the object. 0 means unlimited,
	// and nil means 24 hours.
	TTL *metav1.Duration `json:"ttl,omitempty"`
	// Expires is the time when the reservation ends. It has precedence over TTL.
	Expires *metav1.Time `json:"expires,omitempty"`
	// PreAllocation lets the Reservation hold resources that other pods still use.
	PreAllocation bool `json:"preAllocation,omitempty"`
	// AllocateOnce ends the reservation when the first owner uses it. nil means true.
	AllocateOnce *bool `json:"allocateOnce,omitempty"`
	// AllocatePolicy determines whether an owner may get more resources than the reservation holds.
	AllocatePolicy ReservationAllocatePolicy `json:"allocatePolicy,omitempty"`
	// Unschedulable prevents further owners from using the reservation.
	Unschedulable bool `json:"unschedulable,omitempty"`
	// Taints prevent owners without a matching toleration from using the reservation.
	Taints []corev1.Taint `json:"taints,omitempty"`

	// Unknown has the names of the fields of the spec that this type does not have, sorted.
	Unknown []string `json:"-"`
}

var specKeys = []string{"allocateOnce", "allocatePolicy", "expires", "owners", "preAllocation", "taints", "template", "ttl", "unschedulable"}

// UnmarshalJSON implements json.Unmarshaler. UnmarshalJSON records unknown fields in Unknown.
func (s *ReservationSpec) UnmarshalJSON(data []byte) error {
	type plain ReservationSpec
	var all map[string]json.RawMessage
	var read plain
	for _, into := range []any{&all, &read} {
		if err := sigsjson.UnmarshalCaseSensitivePreserveInts(data, into); err != nil {
			return err
		}
	}
	*s = ReservationSpec(read)
	for key := range all {
		if !slices.Contains(specKeys, key) {
			s.Unknown = append(s.Unknown, key)
		}
	}
	slices.Sort(s.Unknown)
	return nil
}

// ReservationAllocatePolicy determines whether an owner may get more resources than the reservation
// holds.
type ReservationAllocatePolicy string

// The policies. Aligned is the default.
const (
	// AllocateAligned: an owner gets the held resources, and the rest from its node's free
	// resources.
	AllocateAligned ReservationAllocatePolicy = "Aligned"
	// AllocateRestricted: an owner gets no more of a held resource than the reservation holds.
	AllocateRestricted ReservationAllocatePolicy = "Restricted"
)

// ReservationOwner selects pods that may use a reservation. All fields that are set must match.
type ReservationOwner struct {
	// Object selects a pod by its name, namespace or UID.
	Object *corev1.ObjectReference `json:"object,omitempty"`
	// Controller selects the pods of a controller.
	Controller *ReservationController `json:"controller,omitempty"`
	// LabelSelector selects pods by their labels.
	LabelSelector *metav1.LabelSelector `json:"labelSelector,omitempty"`
}

// ReservationController is a controller in a namespace.
type ReservationController struct {
	metav1.OwnerReference `json:",inline"`
	Namespace             string `json:"namespace,omitempty"`
}

// ReservationPhase is the phase of a Reservation.
type ReservationPhase string

// The phases.
const (
	// ReservationPending: no resources are held yet.
	ReservationPending ReservationPhase = "Pending"
	// ReservationAvailable: the resources are held, and owners may use them.
	ReservationAvailable ReservationPhase = "Available"
	// ReservationSucceeded: the reservation has ended, because an owner has used it.
	ReservationSucceeded ReservationPhase = "Succeeded"
	// ReservationWaiting: the Reservation has PreAllocation, and its resources are not free yet.
	ReservationWaiting ReservationPhase = "Waiting"
	// ReservationFailed: the reservation has ended, and no resources are held any longer.
	ReservationFailed ReservationPhase = "Failed"
)

// ReservationStatus is the observed state of a Reservation.
type ReservationStatus struct {
	Phase      ReservationPhase       `json:"phase,omitempty"`
	Conditions []ReservationCondition `json:"conditions,omitempty"`
	// CurrentOwners are the pods that use the reservation.
	CurrentOwners []corev1.ObjectReference `json:"currentOwners,omitempty"`
	NodeName      string                   `json:"nodeName,omitempty"`
	// Allocatable is the total of the held resources. Allocated is the part that owners use.
	Allocatable corev1.ResourceList `json:"allocatable,omitempty"`
	Allocated   corev1.ResourceList `json:"allocated,omitempty"`
}

// The types of conditions, and their reasons.
const (
	ReservationScheduled = "Scheduled"
	ReservationReady     = "Ready"

	ReasonReservationScheduled     = "Scheduled"
	ReasonReservationUnschedulable = "Unschedulable"
	ReasonReservationAvailable     = "Available"
	ReasonReservationSucceeded     = "Succeeded"
	ReasonReservationExpired       = "Expired"
)

// ReservationCondition is a condition as Koordinator writes it.
type ReservationCondition struct {
	Type               string                 `json:"type,omitempty"`
	Status             metav1.ConditionStatus `json:"status,omitempty"`
	Reason             string                 `json:"reason,omitempty"`
	Message            string                 `json:"message,omitempty"`
	LastProbeTime      metav1.Time            `json:"lastProbeTime,omitempty"`
	LastTransitionTime metav1.Time            `json:"lastTransitionTime,omitempty"`
}
