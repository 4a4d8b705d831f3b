package survey

import (
	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/nodestate"
)

// Trouble explains why a node's report is not reliable for pods that could be pinned. Node.Warnings
// uses the same type for warnings.
type Trouble struct {
	// Reason is one word. If the report's condition Ready is not True, it is the reason of this
	// condition.
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// Advice tells users what to do.
	Advice string `json:"advice,omitempty"`
}

// NotReady is the reason of the warning that the kubelet is not ready. The warning comes from a
// condition of the Node, not of a report.
const NotReady = "NodeNotReady"

// labelIgnored is the reason of a warning about a label that asks for a setting that the node's
// kubelet does not have.
const labelIgnored = "LabelIgnored"

// restartRepeats is the reason of the warning that the node's kubelet, if it restarts, would again
// assign resources to running pods with spec.resources (placement.DefectRestartRepeats).
const restartRepeats = "RestartRepeats"

func troubleOf(u *nodestate.Unusable, node string) *Trouble {
	return &Trouble{Reason: u.Reason, Message: u.Text, Advice: adviceFor(u.Reason, node)}
}

func adviceFor(reason, node string) string {
	agent := "kubectl get pods -A -o wide --field-selector spec.nodeName=" + node + " | grep berth-agent"
	switch reason {
	case nodestate.NoReport:
		return "start berth-agent there, or look at why it does not report: " + agent
	case nodestate.NoSuchNode:
		return "if the node is gone for good: kubectl delete nodetopology " + node
	case nodestate.Silent:
		return "look at the agent: " + agent
	case nodestate.Malformed:
		return "use one release of Berth throughout; kubectl delete nodetopology " + node + " makes its agent write it again"
	case nodestate.OtherRelease:
		return "kubectl delete nodetopology " + node + "; after an upgrade of Berth, kubectl delete nodetopologies --all (docs/operations.md)"
	case nodestate.Unsupported:
		return "change the kubelet's configuration as the message says, or keep pinned pods off the node (docs/scope.md)"
	case v1alpha1.ReasonUnreadable:
		return "look at the file that the message names, in the kubelet's root directory (docs/operations.md)"
	case v1alpha1.ReasonContradiction:
		return "do as the message says; if the kubelet's configuration was changed without a restart, undo the change (docs/operations.md)"
	case v1alpha1.ReasonMachineChanged:
		return "do as the message says (docs/operations.md)"
	case v1alpha1.ReasonNotEnforced:
		return "switch on NRI in the container runtime's configuration, or let the kubelet decide there (docs/enforcement.md)"
	case v1alpha1.ReasonTooLarge:
		return "look for a pod with hundreds of containers on the node, and delete it (docs/operations.md)"
	case v1alpha1.ReasonAdmissionUnfinished:
		return "look at the kubelet's log: the kubelet has been admitting a pod for too long"
	case v1alpha1.ReasonDevicesUnknown:
		return "let the agent reach the kubelet's PodResources socket (docs/operations.md)"
	}
	return "kubectl describe nodetopology " + node
}

const adviceForFlood = "nothing: the node's next report ends this state; if the state lasts, look at the agent's log"

func adviceForDoubt(reason, node string) string {
	switch reason {
	case v1alpha1.ReasonMachineChanged:
		return "when there is time, do as the message says, or undo the change (docs/operations.md)"
	case v1alpha1.ReasonConfigurationChanged:
		return "restart the kubelet as the message says, or undo the change"
	case v1alpha1.ReasonConfigurationUnreadable:
		return "correct the kubelet's configuration before the kubelet is restarted"
	case v1alpha1.ReasonConfigurationNewer:
		return "restart the kubelet, or have the agent ask it (configSource: configz); until then no decision there is exact"
	case v1alpha1.ReasonAstray:
		return "find out which other program writes cgroups there; a restart of the agent restores the cgroups (docs/operations.md)"
	case v1alpha1.ReasonRivalSuspected:
		return "look at that pod: if it sets the CPUs of containers, take it off the node (docs/enforcement.md)"
	case NotReady:
		return "kubectl describe node " + node
	case restartRepeats:
		return "set topologyManagerScope container, or switch off PodLevelResourceManagers; before its kubelet restarts, drain the node and remove both state files"
	case labelIgnored:
		return "set the kubelet's topologyManagerPolicy and topologyManagerScope, or let Berth decide on the node (docs/enforcement.md), or take the label away"
	}
	return "kubectl describe nodetopology " + node
}
