package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/ledger"
)

// Words of the column STATUS, in the order in which they stand there.
const (
	statusReady    = "Ready"
	statusCordoned = "Cordoned"
	statusGone     = "Gone"
	statusNotReady = "NotReady" // the Node, that is the kubelet, whatever its report says
)

// doubtNotReady is the reason of a warning that no condition of a report names.
const doubtNotReady = "NodeNotReady"

// warnings say what makes a node doubtful though nothing need be wrong with its report: the kubelet does not know its machine as it is
// now, or is not ready, or more is open than can be gone through.
func (n *liveNode) warnings() (out []trouble) {
	if n.report != nil {
		for _, c := range n.report.Conditions {
			known := n.trouble != nil && n.trouble.Reason == c.Reason
			if c.Type != v1alpha1.ConditionReady && c.Status == metav1.ConditionFalse && !known {
				out = append(out, trouble{Reason: c.Reason, Message: c.Type + " is False: " + c.Message, Advice: adviceForDoubt(c.Reason, n.name)})
			}
		}
	}
	if c := n.readiness(); c != nil && c.Status != corev1.ConditionTrue {
		out = append(out, trouble{Reason: doubtNotReady, Message: strings.TrimSuffix("the Node's condition Ready is "+string(c.Status)+": "+c.Reason+": "+c.Message, ": "),
			Advice: adviceForDoubt(doubtNotReady, n.name)})
	}
	if n.trouble == nil && n.account != nil {
		if w := n.account.Flooded(); w != ledger.WaitsForNothing {
			out = append(out, trouble{Reason: w.String(), Message: "pods wait for its next report: " + w.Text() + "; the amounts above are those of the last one", Advice: adviceForFlood})
		}
	}
	return out
}

// readiness is the Node's own condition; nil where it is not known.
func (n *liveNode) readiness() *corev1.NodeCondition {
	if n.object == nil {
		return nil
	}
	i := slices.IndexFunc(n.object.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == corev1.NodeReady })
	if i < 0 {
		return nil
	}
	return &n.object.Status.Conditions[i]
}

// conditions are all that say something is wrong, in short.
func (n *liveNode) conditions() (out []string) {
	short := func(kind, status, reason string) {
		out = append(out, fmt.Sprintf("%s=%s(%s)", kind, status, reason))
	}
	if n.report != nil {
		for _, c := range n.report.Conditions {
			if c.Status != metav1.ConditionTrue {
				short(c.Type, string(c.Status), c.Reason)
			}
		}
	}
	if n.object == nil {
		return out
	}
	for _, c := range n.object.Status.Conditions {
		if wrong := (c.Type == corev1.NodeReady) != (c.Status == corev1.ConditionTrue); wrong {
			short("Node"+string(c.Type), string(c.Status), c.Reason)
		}
	}
	if n.object.Spec.Unschedulable {
		out = append(out, "Unschedulable")
	}
	return out
}

// status is the column STATUS: the reason of the trouble, and of everything that is doubtful; Ready where there is nothing.
func (n *nodeSummary) status() string {
	var words []string
	if n.Gone {
		return statusGone
	}
	if n.Trouble != nil {
		words = append(words, n.Trouble.Reason)
	}
	for i := range n.Warnings {
		if r := n.Warnings[i].Reason; r == doubtNotReady {
			words = append(words, statusNotReady)
		} else if !slices.Contains(words, r) {
			words = append(words, r)
		}
	}
	if len(words) == 0 {
		words = []string{statusReady}
	}
	if slices.Contains(n.Conditions, "Unschedulable") {
		words = append(words, statusCordoned)
	}
	return strings.Join(words, ",")
}

// remarks stand below the table: what is wrong or doubtful, and what to do.
func (n *nodeSummary) remarks(w io.Writer) {
	tell := func(t *trouble) {
		fmt.Fprintf(w, "\nnode %s (%s): %s\n", n.Name, t.Reason, t.Message)
		indented(w, "do: "+t.Advice)
	}
	if n.Trouble != nil {
		tell(n.Trouble)
	}
	for i := range n.Warnings {
		tell(&n.Warnings[i])
	}
}

// writeConditions prints the conditions of the report, and of the Node's that its kubelet is ready.
func (n *liveNode) writeConditions(w io.Writer, now time.Time) error {
	var rows [][]string
	row := func(source, kind, status, reason, message string, since metav1.Time) {
		age := "-"
		if !since.IsZero() {
			age = ageText(seconds(now.Sub(since.Time)))
		}
		rows = append(rows, []string{source, kind, status, dash(reason), age, dash(message)})
	}
	if n.report != nil {
		for _, c := range n.report.Conditions {
			row("NodeTopology", c.Type, string(c.Status), c.Reason, c.Message, c.LastTransitionTime)
		}
	}
	if c := n.readiness(); c != nil {
		row("Node", string(c.Type), string(c.Status), c.Reason, c.Message, c.LastTransitionTime)
	}
	if len(rows) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	return columns(w, "SOURCE | CONDITION | STATUS | REASON | SINCE | MESSAGE", rows)
}

const adviceForFlood = "nothing: the node's next report ends it; if it lasts, look at the agent's log"

// adviceForDoubt says what a person can do about a warning.
func adviceForDoubt(reason, node string) string {
	switch reason {
	case v1alpha1.ReasonMachineChanged:
		return "drain the node and restart its kubelet as docs/operations.md says, when there is time, or undo the change"
	case v1alpha1.ReasonConfigurationChanged:
		return "restart the kubelet, or take the change back"
	case v1alpha1.ReasonConfigurationUnreadable:
		return "mend the kubelet's configuration before the kubelet is restarted"
	case doubtNotReady:
		return "kubectl describe node " + node
	}
	return "kubectl describe nodetopology " + node
}
