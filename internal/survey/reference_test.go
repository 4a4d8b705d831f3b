package survey

import (
	"fmt"
	"strings"
	"testing"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/nodestate"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/test/golden"
	"github.com/berth-dev/berth/test/reference"
)

// TestReference compares docs/reference/reasons.md with the code: every reason for which a pod is
// refused or waits, or a node is unreliable, with the advice. `make reference` writes it.
func TestReference(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Reasons\n\nWhy a pod is refused or waits, and why a node is not relied on, with what to do. Events, `berth explain`, the map and\n" +
		"metrics use these words. Written by `make reference`.\n")
	b.WriteString("\n## A node refuses a pod\n\nThe reason is what the kubelet would write into the pod's `status.reason`; `KubeletDefect`, `InvalidRequest` and `NoBerth`\n" +
		"are Berth's own.\n\n| reason | rule | why | what to do |\n|---|---|---|---|\n")
	for d := placement.Detail(1); d.String() != "Detail(?)"; d++ {
		fmt.Fprintf(&b, "| `%s` | `%s` | %s | %s |\n", d.Reason(), d, reference.Cell(d.Text()), reference.Cell(d.Advice()))
	}
	b.WriteString("\n## A pod waits for a node's next report\n\nNothing has to be done: the next report ends it. If it lasts, look at the agent's log.\n\n| reason | why |\n|---|---|\n")
	for w := range ledger.Waits {
		fmt.Fprintf(&b, "| `%s` | %s |\n", w, reference.Cell(w.Text()))
	}
	b.WriteString("\n## A node is not relied on\n\nPods that could be pinned keep away from it.\n\n| reason | what to do |\n|---|---|\n")
	for _, r := range []string{nodestate.NoReport, nodestate.NoSuchNode, nodestate.Silent, nodestate.Malformed, nodestate.Unsupported, nodestate.OtherRelease, nodestate.WentBack,
		v1alpha1.ReasonUnreadable, v1alpha1.ReasonContradiction, v1alpha1.ReasonAdmissionUnfinished, v1alpha1.ReasonDevicesUnknown, v1alpha1.ReasonMachineChanged, v1alpha1.ReasonNotEnforced, v1alpha1.ReasonTooLarge} {
		fmt.Fprintf(&b, "| `%s` | %s |\n", r, reference.Cell(adviceFor(r, "NODE")))
	}
	b.WriteString("\n## A node is doubtful\n\nIt is relied on, and something will go wrong later.\n\n| reason | what to do |\n|---|---|\n")
	for _, r := range []string{NotReady, labelIgnored, restartRepeats, v1alpha1.ReasonMachineChanged, v1alpha1.ReasonConfigurationChanged, v1alpha1.ReasonConfigurationUnreadable, v1alpha1.ReasonConfigurationNewer, v1alpha1.ReasonAstray, v1alpha1.ReasonRivalSuspected} {
		fmt.Fprintf(&b, "| `%s` | %s |\n", r, reference.Cell(adviceForDoubt(r, "NODE")))
	}
	golden.File(t, "../../docs/reference/reasons.md", b.String())
}
