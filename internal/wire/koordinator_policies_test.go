package wire

import (
	"fmt"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/test/made"
)

// theirPolicy returns the policy for a pod on a node according to Koordinator's proposal 20240131,
// as in mergeTopologyPolicy of its plugin NodeNUMAResource; "kept away" if the pod may not go
// there.
func theirPolicy(pod, node string) string {
	switch {
	case pod != "" && node != "" && pod != node:
		return "kept away"
	case pod != "":
		return pod
	}
	return node
}

// TestKoordinatorPolicyTable checks each cell of the table of policies in
// docs/reference/koordinator.md: the policy for a pod on a node, in Koordinator and in Berth.
func TestKoordinatorPolicyTable(t *testing.T) {
	doc, err := os.ReadFile("../../docs/reference/koordinator.md")
	if err != nil {
		t.Fatal(err)
	}
	policies := []string{"", "BestEffort", "Restricted", "SingleNUMANode"}
	differ := 0
	for _, pod := range policies {
		for _, node := range policies {
			theirs, ours := theirPolicy(pod, node), policyOnNode(t, pod, labelled(t, node))
			kubelet := policyOnNode(t, pod, placement.Config{TopologyManagerPolicy: koordinatorPolicies[node].Policy.String(), TopologyManagerScope: "pod"})
			differ += b2i(theirs != ours)
			row := "|"
			for _, cell := range []string{pod, node, theirs, ours, kubelet} {
				if cell == "" {
					cell = "–"
				}
				row += " " + cell + " |"
			}
			if !strings.Contains(string(doc), "\n"+row+"\n") {
				t.Errorf("the table in docs/reference/koordinator.md lacks\n%s", row)
			}
		}
	}
	if differ != 6 {
		t.Errorf("%d of 16 cells differ, want 6", differ)
	}
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// labelled returns the configuration of a node on which Berth decides, with a label for the policy.
func labelled(t *testing.T, policy string) placement.Config {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{koordinatorPolicy: policy}}}
	if policy == "" {
		node.Labels = nil
	}
	n, err := ReadKoordinatorNode(node)
	if err != nil {
		t.Fatal(err)
	}
	return placement.Config{Authority: placement.AuthorityBerth, Default: n.Rules, ReservedMilliCPU: 1000}
}

// policyOnNode returns the policy by which a node decides about a pod, with Koordinator's names; ""
// for none, "kept away" if the node does not match the pod's policy.
func policyOnNode(t *testing.T, pod string, c placement.Config) string {
	t.Helper()
	m := made.Model(t, "package:2 numa:1 l3:1 core:2 pu:1 mem:8Gi dist:10,21", c)
	spec := ""
	if pod != "" {
		spec = fmt.Sprintf(`{"numaTopologyPolicy":%q}`, pod)
	}
	rules, err := ReadRules(koordinatorPod("", spec, ""))
	if err != nil {
		t.Fatal(err)
	}
	if Unmet(m, &placement.Request{Rules: rules}) != "" {
		return "kept away"
	}
	held := placement.Explain(m.NewState(), &placement.Request{UID: "x", Rules: rules})
	for name, r := range koordinatorPolicies {
		if r.Policy.String() == held.Policy && !strings.HasSuffix(name, "Level") && name != "None" {
			return name
		}
	}
	return ""
}
