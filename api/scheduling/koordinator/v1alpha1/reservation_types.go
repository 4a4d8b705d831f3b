package v1alpha1

import (
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Reservation holds the place of a pod for pods to come.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,path=reservations,singular=reservation
type Reservation struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ReservationSpec   `json:"spec,omitempty"`
	Status ReservationStatus `json:"status,omitzero"`
}

// ReservationList is a list of Reservation objects.
//
// +kubebuilder:object:root=true
type ReservationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Reservation `json:"items"`
}

// ReservationSpec says what is held, and for whom.
type ReservationSpec struct {
	// Template is the pod whose place is held. With a nodeName it is held there or nowhere.
	Template *corev1.PodTemplateSpec `json:"template"`
	// Owners say who may have it: any pod that matches one of them.
	Owners []ReservationOwner `json:"owners"`
	// TTL counts from the creation of the object; 0 is without end, nil 24 hours.
	TTL *metav1.Duration `json:"ttl,omitempty"`
	// Expires comes before TTL.
	Expires *metav1.Time `json:"expires,omitempty"`
	// PreAllocation holds the place of pods that still run there.
	PreAllocation bool `json:"preAllocation,omitempty"`
	// AllocateOnce has the first owner use the place up; nil is true.
	AllocateOnce *bool `json:"allocateOnce,omitempty"`
	// AllocatePolicy says whether an owner may have more than is held.
	AllocatePolicy ReservationAllocatePolicy `json:"allocatePolicy,omitempty"`
	// Unschedulable keeps owners to come off.
	Unschedulable bool `json:"unschedulable,omitempty"`
	// Taints keep owners off that do not tolerate them.
	Taints []corev1.Taint `json:"taints,omitempty"`

	// Unknown are the fields that stand here and that this type does not have, sorted.
	Unknown []string `json:"-"`
	// Wrong says why this could not be read; the other fields are empty then. The template has no
	// schema, so anything may be in it, and one object must not keep a list from being read.
	Wrong string `json:"-"`
}

// specKeys are the fields that ReservationSpec has.
var specKeys = []string{"allocateOnce", "allocatePolicy", "expires", "owners", "preAllocation", "taints", "template", "ttl", "unschedulable"}

// UnmarshalJSON notes what it cannot read, so that nothing is dropped in silence. It does not fail.
func (s *ReservationSpec) UnmarshalJSON(b []byte) error {
	type plain ReservationSpec
	var all map[string]json.RawMessage
	err := json.Unmarshal(b, &all)
	var read plain
	if err == nil {
		err = json.Unmarshal(b, &read)
	}
	if err != nil {
		*s = ReservationSpec{Wrong: err.Error()}
		return nil
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

// ReservationAllocatePolicy says whether an owner may have more than is held.
type ReservationAllocatePolicy string

// The policies. Without one it is Aligned.
const (
	// AllocateAligned: an owner has what is held, and of its node what that lacks.
	AllocateAligned ReservationAllocatePolicy = "Aligned"
	// AllocateRestricted: of resources that are held an owner has what is held, and no more.
	AllocateRestricted ReservationAllocatePolicy = "Restricted"
)

// ReservationOwner is who may have a place. All that is said must match.
type ReservationOwner struct {
	// Object is the pod itself.
	Object *corev1.ObjectReference `json:"object,omitempty"`
	// Controller is the pod's controller.
	Controller *ReservationController `json:"controller,omitempty"`
	// LabelSelector selects pods by their labels.
	LabelSelector *metav1.LabelSelector `json:"labelSelector,omitempty"`
}

// ReservationController is a controller in a namespace.
type ReservationController struct {
	metav1.OwnerReference `json:",inline"`
	Namespace             string `json:"namespace,omitempty"`
}

// ReservationPhase says how far a Reservation has come.
type ReservationPhase string

// The phases.
const (
	// ReservationPending: nothing is held yet.
	ReservationPending ReservationPhase = "Pending"
	// ReservationAvailable: the place is held, and owners may have it.
	ReservationAvailable ReservationPhase = "Available"
	// ReservationSucceeded: an owner has used it up.
	ReservationSucceeded ReservationPhase = "Succeeded"
	// ReservationWaiting: with PreAllocation, the place is not free yet.
	ReservationWaiting ReservationPhase = "Waiting"
	// ReservationFailed: nothing is held any more.
	ReservationFailed ReservationPhase = "Failed"
)

// ReservationStatus is what came of it.
type ReservationStatus struct {
	Phase      ReservationPhase       `json:"phase,omitempty"`
	Conditions []ReservationCondition `json:"conditions,omitempty"`
	// CurrentOwners are the pods that have something of it.
	CurrentOwners []corev1.ObjectReference `json:"currentOwners,omitempty"`
	NodeName      string                   `json:"nodeName,omitempty"`
	// Allocatable is what is held in all, Allocated how much of it owners have.
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
