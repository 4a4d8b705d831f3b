package survey

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

// warnings returns the node's problems in addition to n.Trouble. The report may be correct in spite
// of them: for example, the kubelet is not ready, or the machine has changed since the kubelet
// started.
func (n *NodeState) warnings() (out []Trouble) {
	if r := n.Report(); r != nil {
		for _, c := range r.Conditions {
			known := n.Trouble != nil && n.Trouble.Reason == c.Reason
			if c.Type != v1alpha1.ConditionReady && c.Status != metav1.ConditionTrue && !known {
				out = append(out, Trouble{Reason: c.Reason, Message: fmt.Sprintf("%s is %s: ", c.Type, c.Status) + c.Message, Advice: adviceForDoubt(c.Reason, n.Name)})
			}
		}
	}
	if c := n.readiness(); c != nil && c.Status != corev1.ConditionTrue {
		out = append(out, Trouble{Reason: NotReady, Message: strings.TrimSuffix("the Node's condition Ready is "+string(c.Status)+": "+c.Reason+": "+c.Message, ": "),
			Advice: adviceForDoubt(NotReady, n.Name)})
	}
	if vain := n.labelsInVain(); vain != "" {
		out = append(out, Trouble{Reason: labelIgnored, Message: "labels without effect: " + vain, Advice: adviceForDoubt(labelIgnored, n.Name)})
	}
	if n.Trouble == nil && n.Reading != nil && n.Reading.Kind != nil && n.Reading.Kind.Model != nil && n.Reading.Kind.Model.PlacesWholes() {
		out = append(out, Trouble{Reason: restartRepeats, Message: "pods with spec.resources: " + placement.DefectRestartRepeats.Text(), Advice: adviceForDoubt(restartRepeats, n.Name)})
	}
	if n.Trouble == nil && n.Account != nil {
		if w := n.Account.View().Flooded(); w != ledger.WaitsForNothing {
			out = append(out, Trouble{Reason: w.String(), Message: "pods wait for the node's next report, because " + w.Text() + "; the amounts shown are those of its last report", Advice: adviceForFlood})
		}
	}
	return out
}

// labelsInVain describes Koordinator's labels on the node that do not match the configuration of
// its kubelet.
func (n *NodeState) labelsInVain() string {
	if n.Object == nil || n.Reading == nil || n.Reading.Kind == nil {
		return ""
	}
	return wire.KoordinatorLabelsIgnored(n.Object, n.Reading.Kind.Model)
}

// readiness returns the Node's condition Ready, or nil if it is not known.
func (n *NodeState) readiness() *corev1.NodeCondition {
	if n.Object == nil {
		return nil
	}
	i := slices.IndexFunc(n.Object.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == corev1.NodeReady })
	if i < 0 {
		return nil
	}
	return &n.Object.Status.Conditions[i]
}

// conditions returns Node.Conditions: all conditions that show a problem, in short form, and
// "Unschedulable" if the node is cordoned.
func (n *NodeState) conditions() (out []string) {
	short := func(kind, status, reason string) {
		out = append(out, fmt.Sprintf("%s=%s(%s)", kind, status, reason))
	}
	if r := n.Report(); r != nil {
		for _, c := range r.Conditions {
			if c.Status != metav1.ConditionTrue {
				short(c.Type, string(c.Status), c.Reason)
			}
		}
	}
	if n.Object == nil {
		return out
	}
	for _, c := range n.Object.Status.Conditions {
		if wrong := (c.Type == corev1.NodeReady) != (c.Status == corev1.ConditionTrue); wrong {
			short("Node"+string(c.Type), string(c.Status), c.Reason)
		}
	}
	if n.Object.Spec.Unschedulable {
		out = append(out, cordoned)
	}
	return out
}

const cordoned = "Unschedulable"

// Condition is a condition of a node's report, or the Node's own condition Ready.
type Condition struct {
	// Source is the kind of the object with the condition: NodeTopology or Node.
	Source  string
	Type    string
	Status  string
	Reason  string
	Message string
	// Since is the time of the condition's last change, or zero if the time is unknown.
	Since time.Time
}

// Conditions returns the conditions of a node's report, and the condition Ready of its Node. It
// returns none if there is no such node.
func (s *Survey) Conditions(name string) []Condition {
	n := s.States[name]
	if n == nil {
		return nil
	}
	var out []Condition
	if r := n.Report(); r != nil {
		for _, c := range r.Conditions {
			out = append(out, Condition{"NodeTopology", c.Type, string(c.Status), c.Reason, c.Message, c.LastTransitionTime.Time})
		}
	}
	if c := n.readiness(); c != nil {
		out = append(out, Condition{"Node", string(c.Type), string(c.Status), c.Reason, c.Message, c.LastTransitionTime.Time})
	}
	return out
}
