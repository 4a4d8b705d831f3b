package wire

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// ReservationAffinityAnnotation is set on a pod that must use a Reservation.
const ReservationAffinityAnnotation = "scheduling.koordinator.sh/reservation-affinity"

const maxReservationTerms = 64

// ReservationAffinity selects the Reservations that a pod may use: those that meet all its
// conditions. The pod waits until it is an owner of such a Reservation, and is then placed there.
type ReservationAffinity struct {
	name   string // "" for any
	labels labels.Selector
	terms  *nodeaffinity.NodeSelector // nil for any
	// Tolerations apply to the taints of Reservations, in addition to the pod's own tolerations.
	Tolerations []corev1.Toleration
}

// reservationAffinityJSON is the annotation's value in Koordinator's format.
type reservationAffinityJSON struct {
	Name     string `json:"name"`
	Required *struct {
		Terms []corev1.NodeSelectorTerm `json:"reservationSelectorTerms"`
	} `json:"requiredDuringSchedulingIgnoredDuringExecution"`
	Selector    map[string]string   `json:"reservationSelector"`
	Tolerations []corev1.Toleration `json:"tolerations"`
}

// ReadReservationAffinity reads the pod's ReservationAffinity. It returns nil if the pod has none.
// The error is a *FieldError.
func ReadReservationAffinity(pod *corev1.Pod) (*ReservationAffinity, error) {
	if _, said := pod.Annotations[ReservationAffinityAnnotation]; !said {
		return nil, nil //nolint:nilnil // most pods have none
	}
	r, at := koordinatorReader{fieldErrors(podName(pod)), pod}, annotation(ReservationAffinityAnnotation)
	var a reservationAffinityJSON
	if _, err := r.parse(ReservationAffinityAnnotation, &a); err != nil {
		return nil, err
	}
	if InGang(pod) || pod.Spec.SchedulingGroup != nil {
		return nil, r.at(at, pod.Annotations[ReservationAffinityAnnotation], "no gang: Berth does not place members of gangs in Reservations")
	}
	out := &ReservationAffinity{name: a.Name, Tolerations: a.Tolerations}
	var err error
	if out.labels, err = labels.ValidatedSelectorFromSet(a.Selector); err != nil {
		return nil, r.at(at.Child("reservationSelector"), err, "labels and their values")
	}
	for i := range a.Tolerations {
		t, one := &a.Tolerations[i], at.Child("tolerations").Index(i)
		switch t.Operator {
		case "", corev1.TolerationOpExists, corev1.TolerationOpEqual:
		default:
			return nil, r.at(one.Child("operator"), t.Operator, "Exists, Equal or nothing")
		}
		switch t.Effect {
		case "", corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute:
		default:
			return nil, r.at(one.Child("effect"), t.Effect, "NoSchedule, PreferNoSchedule, NoExecute or nothing")
		}
	}
	if a.Required == nil {
		return out, nil
	}
	list := at.Child("requiredDuringSchedulingIgnoredDuringExecution", "reservationSelectorTerms")
	if n := len(a.Required.Terms); n == 0 || n > maxReservationTerms {
		return nil, r.at(list, fmt.Sprint(n, " terms"), fmt.Sprint("1 to ", maxReservationTerms))
	}
	for i := range a.Required.Terms {
		for k := range a.Required.Terms[i].MatchFields {
			if key := a.Required.Terms[i].MatchFields[k].Key; key != metav1.ObjectNameField {
				return nil, r.at(list.Index(i).Child("matchFields").Index(k).Child("key"), key, metav1.ObjectNameField)
			}
		}
	}
	if out.terms, err = nodeaffinity.NewNodeSelector(&corev1.NodeSelector{NodeSelectorTerms: a.Required.Terms}); err != nil {
		return nil, r.at(list, pod.Annotations[ReservationAffinityAnnotation], "terms as a node affinity has them, about labels and names of Reservations: "+err.Error())
	}
	return out, nil
}

// Allows reports whether the affinity allows a Reservation. A nil affinity allows all.
func (a *ReservationAffinity) Allows(r *Reservation) bool {
	if a == nil {
		return true
	}
	if a.name != "" && a.name != r.Name || !a.labels.Matches(labels.Set(r.Labels)) {
		return false
	}
	// Koordinator's terms have the form of node terms, and apply to Reservations.
	return a.terms == nil || a.terms.Match(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: r.Name, Labels: r.Labels}})
}

// Tolerates reports whether a pod with this affinity tolerates the taints of a Reservation. a is
// nil for a pod without an affinity.
func (a *ReservationAffinity) Tolerates(r *Reservation, pod *corev1.Pod) bool {
	tolerations := pod.Spec.Tolerations
	if a != nil {
		tolerations = slices.Concat(tolerations, a.Tolerations)
	}
	return r.tolerated(tolerations)
}
