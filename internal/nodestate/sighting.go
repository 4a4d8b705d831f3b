package nodestate

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/wire"
)

// ErrNotPinnable means that no kubelet pins anything for the pod and Berth has made no decision
// about it, so the ledger does not count the pod.
var ErrNotPinnable = errors.New("no kubelet pins anything for the pod")

// Sighting is a pod that is bound to a node, translated for the ledger.
type Sighting struct {
	ledger.Sighting
	// Ignored explains why the placement in the pod's Binding is invalid; nil if it is valid or
	// missing.
	Ignored error
}

// SightingOf translates a pod that is bound to a node. The error is ErrNotPinnable, or a
// *wire.FieldError if the pod is invalid. The ledger learns the resources of an invalid pod from
// the node's report.
func SightingOf(pod *corev1.Pod) (Sighting, error) {
	ask, err := wire.ReadBound(pod)
	if err != nil {
		return Sighting{}, err
	}
	if !ask.Request.Pinnable() && !wire.HasPlacement(pod) {
		return Sighting{}, ErrNotPinnable
	}
	s := Sighting{Sighting: ledger.Sighting{
		UID: ask.Request.UID, Request: &ask.Request, Created: pod.CreationTimestamp.Unix(),
		Phase: phaseOf(pod), Mortal: wire.Mortal(pod),
	}}
	p, found, err := wire.ReadPlacement(pod)
	switch {
	case err != nil:
		s.Ignored = err
	case found:
		s.Turn, s.Report, s.Generation = int64(p.Sequence), p.Report, p.Generation
		s.Promise = &ledger.Promise{Decision: p.Decision, Exact: p.Certainty == wire.Exact}
	}
	if s.Promise == nil { // kubelets do not know this rule: without a promise, it was not applied
		s.Request.Rules.Devices.PerNode = 0
	}
	return s, nil
}

func phaseOf(pod *corev1.Pod) ledger.Phase {
	switch {
	case wire.Ended(pod):
		return ledger.Ended
	case wire.Ending(pod):
		return ledger.Ending
	}
	return ledger.Bound
}

// Heartbeat is a renewal of the Lease of a node's agent.
type Heartbeat struct {
	Node string
	// Renewed is the time of the heartbeat, by the agent's clock.
	Renewed time.Time
	// Sequence is the number of the report that the heartbeat confirms, or 0 if it names none.
	Sequence int64
}

// ErrNoHeartbeat means that a Lease is not the heartbeat of a node's agent.
var ErrNoHeartbeat = errors.New("not the heartbeat of a node")

// HeartbeatOf reads the Lease that an agent renews. The error is ErrNoHeartbeat, or a
// *wire.FieldError if the heartbeat is invalid.
func HeartbeatOf(lease *coordinationv1.Lease) (Heartbeat, error) {
	node, ok := strings.CutPrefix(lease.Name, v1alpha1.HeartbeatName(""))
	if !ok {
		return Heartbeat{}, ErrNoHeartbeat
	}
	wrong := func(field, value, want string) error {
		return &wire.FieldError{Object: "Lease " + lease.Namespace + "/" + lease.Name, Field: field, Value: value, Want: want}
	}
	if lease.Spec.RenewTime == nil {
		return Heartbeat{}, wrong("spec.renewTime", "", "the time of the heartbeat")
	}
	b := Heartbeat{Node: node, Renewed: lease.Spec.RenewTime.Time}
	text := lease.Annotations[v1alpha1.SequenceAnnotation]
	if text == "" {
		return b, nil
	}
	var err error
	if b.Sequence, err = strconv.ParseInt(text, 10, 64); err != nil || b.Sequence < 0 {
		field := fmt.Sprintf("metadata.annotations[%s]", v1alpha1.SequenceAnnotation)
		return Heartbeat{}, wrong(field, text, "the number of a report")
	}
	return b, nil
}

// VouchesFor reports whether the heartbeat confirms the report with this number. A heartbeat
// without a number confirms every report. A heartbeat with another number confirms an older report,
// or a report that has not arrived yet.
func (b *Heartbeat) VouchesFor(sequence int64) bool { return b.Sequence == 0 || b.Sequence == sequence }
