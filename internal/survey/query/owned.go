package query

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	koordinator "github.com/berth-dev/berth/api/scheduling/koordinator/v1alpha1"
	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/survey"
	"github.com/berth-dev/berth/internal/survey/source"
	"github.com/berth-dev/berth/internal/wire"
)

// Owned is a Reservation that a pod may use, or already uses.
type Owned struct {
	Name  string `json:"name"`
	Phase string `json:"phase,omitempty"` // "" if the Reservation is gone
	Node  string `json:"node,omitempty"`
	// Has means that the pod already uses the Reservation's place.
	Has bool `json:"has,omitempty"`
	// Takes means that a pod without a node would get the Reservation's place now. If it would not,
	// Message explains why.
	Takes   bool   `json:"takes,omitempty"`
	Message string `json:"message,omitempty"`

	uid string
}

// reservationsOf returns the unfinished Reservations that a pod may use, the oldest first. If the
// pod uses one already, it returns only that Reservation.
func reservationsOf(s *survey.Survey, pod *corev1.Pod) (out []Owned) {
	affinity, err := wire.ReadReservationAffinity(pod)
	if err != nil {
		return nil
	}
	all := slices.Clone(s.Facts.Reservations)
	slices.SortStableFunc(all, func(a, b *koordinator.Reservation) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	for _, o := range all {
		r, err := wire.ReadReservation(o)
		if err != nil || !r.Owns(pod) || !affinity.Allows(r) || r.Scheduler != nameOfScheduler(pod) {
			continue
		}
		one := Owned{Name: o.Name, Phase: cmp.Or(string(o.Status.Phase), string(koordinator.ReservationPending)), Node: o.Status.NodeName, Has: survey.Uses(pod, o), uid: string(o.UID)}
		switch {
		case pod.Spec.NodeName != "" && one.Has:
			return []Owned{one}
		case pod.Spec.NodeName != "" || r.Over():
			continue
		}
		one.Takes, one.Message = takes(s, r, o, pod, affinity)
		out = append(out, one)
	}
	if bound, _ := wire.ReadBoundFor(pod); bound.Reservation != "" {
		name := string(bound.Reservation)
		if wire.ReadAllocated(pod) == bound.Reservation {
			name = cmp.Or(wire.ReadAllocatedName(pod), name)
		}
		out = []Owned{{Name: name, Has: true}}
	}
	return out
}

// takes reports whether the pod would get the Reservation's place now. If not, it also returns the
// reason.
func takes(s *survey.Survey, r *wire.Reservation, o *koordinator.Reservation, pod *corev1.Pod, affinity *wire.ReservationAffinity) (ok bool, why string) {
	n := s.States[source.PlaceOf(o)]
	switch {
	case source.PlaceOf(o) == "":
		return false, cmp.Or(unscheduled(o), "it has no place yet")
	case r.Closed:
		return false, "it takes no new owners (unschedulable)"
	case !affinity.Tolerates(r, pod):
		return false, "the pod does not tolerate its taints"
	case n == nil || n.Account == nil || n.Trouble != nil:
		return false, "its node cannot be relied on"
	case !r.Fits(pod, survey.OwnersOn(o, r, n.Bound)):
		return false, "the Reservation has less left than the pod asks for"
	}
	ask, err := wire.ReadPod(pod)
	if err != nil {
		return false, err.Error()
	}
	if !ask.Request.Pinnable() {
		return true, ""
	}
	a := n.Account.View().DecideOwner(&ledger.Candidate{Request: &ask.Request, Created: pod.CreationTimestamp.Unix()}, string(r.UID), nil)
	switch a.Outcome {
	case ledger.Admitted:
		return true, ""
	case ledger.Refused:
		return false, "the pod does not fit in the held resources: " + ask.Said.In(a.Verdict.Detail.Text())
	}
	return false, wire.WaitsForReport + openText(n, a.Wait)
}

// unscheduled returns the reason why a Reservation has no place, from its condition Scheduled.
func unscheduled(o *koordinator.Reservation) string {
	for _, c := range o.Status.Conditions {
		if c.Type == koordinator.ReservationScheduled && c.Status != "True" && c.Message != "" {
			return "it has no place: " + c.Message
		}
	}
	return ""
}

// from returns the Reservation whose place on the node the pod would get, or nil.
func (q *question) from(node string) *Owned {
	at := slices.IndexFunc(q.owned, func(o Owned) bool { return o.Takes && o.Node == node })
	if at < 0 {
		return nil
	}
	return &q.owned[at]
}
