package query

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/internal/gangs"
	"github.com/berth-dev/berth/internal/survey"
	"github.com/berth-dev/berth/internal/wire"
)

// NothingWritten is WhyWaiting's reason for a pod whose status has no condition of a scheduler.
const NothingWritten = "NothingWritten"

// WhyWaiting explains why a pod does not run. The result `reason` is short, and the result
// `message` has the details. They come from the kubelet if it refused the pod, and from the
// scheduling gates if the pod has any. Otherwise, if the pod waits because of its gang, both are
// about the gang. In all other cases they come from the scheduler. `gang` is the pod's gang, or
// nil.
func WhyWaiting(p *corev1.Pod, gang *survey.Gang) (reason, message string) {
	if wire.Refused(p) {
		return "Refused by its kubelet: " + p.Status.Reason, p.Status.Message
	}
	if len(p.Spec.SchedulingGates) > 0 {
		return corev1.PodReasonSchedulingGated, "gate " + p.Spec.SchedulingGates[0].Name
	}
	if reason, message = whyGangWaits(gang); reason != "" {
		return reason, message
	}
	if c := wire.Unscheduled(p); c.Type != "" {
		return c.Reason, survey.WithoutPreemption(c.Message)
	}
	return NothingWritten, "its scheduler " + nameOfScheduler(p) + " has written no condition into it yet"
}

// ShapeOf returns a key for grouping pods. Pods with the same key get the same answers from nodes
// and schedulers, except for names in the texts.
func ShapeOf(p *corev1.Pod) string {
	ask, err := wire.ReadPod(p)
	wrong := ""
	if err != nil || ask.RulesErr != nil {
		wrong = cmp.Or(err, ask.RulesErr).Error()
	}
	ask.Request.UID = ""
	spec := &p.Spec
	text, err := json.Marshal([]any{p.Namespace, spec.SchedulerName, wrong, ask.Request.Containers, ask.Request.Guaranteed, ask.Request.Level, fmt.Sprintf("%+v", ask.Request.Rules), wire.ReadAmounts(p), spec.NodeSelector, spec.Affinity,
		spec.Tolerations, spec.TopologySpreadConstraints, wire.PortsOf(p), len(claimsOf(p)), heldByMessage(wire.Unscheduled(p).Message)})
	if err != nil {
		return p.Namespace + "/" + p.Name
	}
	return string(text)
}

// WaitsFor describes briefly why an explained pod has no node: the cause that holds it back, or
// otherwise the most frequent reason of the nodes that refuse it. If nothing holds the pod back and
// some nodes admit it, WaitsFor returns their number.
func WaitsFor(e *Explained) string {
	if e.HeldBack != nil {
		return "held back by " + e.HeldBack.By
	}
	said, other, most := "", "", 0
	for i := range e.Groups {
		switch g := &e.Groups[i]; {
		case g.Answer == Admits:
			return wire.Counted(len(g.Nodes), "node") + " would take it"
		case g.Answer == Refuses && len(g.Nodes) > most:
			said, most = g.Message, len(g.Nodes)
		case g.Answer == Excluded && other == "":
			other = g.Message
		}
	}
	return cmp.Or(said, other)
}

// WaitsForRoom reports whether a scheduler found no node for a pod, and its message has no reason
// that the nodes' answers do not cover (heldByMessage).
func WaitsForRoom(p *corev1.Pod) bool {
	c := wire.Unscheduled(p)
	return c.Reason == corev1.PodReasonUnschedulable && heldByMessage(c.Message) == nil
}

// whyGangWaits returns the result of WhyWaiting for all waiting members of a gang. It returns "" if
// g is nil, or if the members do not wait because of the gang.
func whyGangWaits(g *survey.Gang) (reason, message string) {
	if g == nil {
		return "", ""
	}
	switch g.State {
	case gangs.Forming, gangs.Wrong:
	case gangs.Waiting, gangs.Partial:
		if g.Why != "" {
			return gangReason(g.State), g.Why // Why names the gang
		}
	default:
		return "", ""
	}
	return gangReason(g.State), strings.TrimPrefix(called(g)+": ", ": ") + cmp.Or(g.Why, "its pods exist, and no scheduler has reported why they wait")
}

func gangReason(state gangs.Stage) string {
	return "Gang" + strings.ToUpper(string(state[:1])) + string(state[1:])
}

// called returns the name of the gang in messages, or "" if its name cannot be read.
func called(g *survey.Gang) string {
	if g.Key.IsZero() {
		return ""
	}
	return g.Key.String()
}
