package wire

import (
	"fmt"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/test/made"
)

// theirPod returns a pod of one container with Koordinator's annotations.
func theirPod(name, class, policy string, resources corev1.ResourceRequirements) *corev1.Pod {
	spec := ""
	if policy != "" {
		spec = fmt.Sprintf(`{"numaTopologyPolicy":%q}`, policy)
	}
	pod := koordinatorPod(class, spec, "")
	pod.Name, pod.UID = name, types.UID(name)
	pod.Spec.Containers = []corev1.Container{{Name: "c", Resources: resources}}
	return pod
}

// list parses amounts such as "cpu=1 memory=1Gi".
func list(text string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for _, word := range strings.Fields(text) {
		name, amount, _ := strings.Cut(word, "=")
		out[corev1.ResourceName(name)] = resource.MustParse(amount)
	}
	return out
}

func whole(text string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: list(text), Limits: list(text)}
}

// TestKoordinatorCases checks the single cases of docs/reference/koordinator.md: where a pod is
// placed next to other pods. Berth decides on the node, which has two NUMA nodes of 8 CPUs, 1 of
// them reserved.
func TestKoordinatorCases(t *testing.T) {
	doc, err := os.ReadFile("../../docs/reference/koordinator.md")
	if err != nil {
		t.Fatal(err)
	}
	m := made.Model(t, "package:2 numa:1 l3:1 core:8 pu:1 mem:16Gi dist:10,21", placement.Config{Authority: placement.AuthorityBerth, ReservedSystemCPUs: "0"})
	for _, c := range []struct {
		name, theirs, ours string
		pods               []*corev1.Pod // the last one is to be placed
	}{
		{"a pod of both NUMA nodes beside one of `SingleNUMANode`", "kept away", "CPUs of its own on NUMA nodes 0-1", []*corev1.Pod{
			theirPod("a", "LSR", "SingleNUMANode", whole("cpu=2 memory=1Gi")), theirPod("b", "LSR", "Restricted", whole("cpu=10 memory=1Gi"))}},
		{"`Restricted`, 4 CPUs, where the NUMA nodes have 2 and 3 free", "on both", "kept away: there is room only on more NUMA nodes than the policy allows", []*corev1.Pod{
			theirPod("a", "LSR", "SingleNUMANode", whole("cpu=5 memory=1Gi")), theirPod("b", "LSR", "SingleNUMANode", whole("cpu=5 memory=1Gi")),
			theirPod("c", "LSR", "Restricted", whole("cpu=4 memory=1Gi"))}},
		{"no class, `SingleNUMANode`, cpu 1 of limit 1, no memory", "an exclusive CPU", "CPUs of its own on NUMA nodes 0", []*corev1.Pod{
			theirPod("a", "", "SingleNUMANode", whole("cpu=1"))}},
		{"no class, `SingleNUMANode`, cpu 1 of limit 2", "in the shared pool", "CPU time on NUMA nodes 0", []*corev1.Pod{
			theirPod("a", "", "SingleNUMANode", corev1.ResourceRequirements{Requests: list("cpu=1"), Limits: list("cpu=2")})}},
		{"no class, no policy, cpu 1 of limit 1", "nothing is aligned", "CPU time on NUMA nodes 0", []*corev1.Pod{
			theirPod("a", "", "", whole("cpu=1"))}},
	} {
		s, got := m.NewState(), ""
		for _, pod := range c.pods {
			ask, err := ReadPod(pod)
			if err != nil || ask.RulesErr != nil {
				t.Fatal(err, ask.RulesErr)
			}
			var d placement.Decision
			switch v := placement.Decide(s, &ask.Request, &d); {
			case !v.OK():
				got = "kept away: " + v.Detail.Text()
			case d.Containers[0].CPUs.IsEmpty():
				got = "CPU time on NUMA nodes " + v.NUMA.String()
			default:
				got = "CPUs of its own on NUMA nodes " + v.NUMA.String()
			}
			s.Commit(&ask.Request, &d)
		}
		if got != c.ours {
			t.Errorf("%s: %s, want %s", c.name, got, c.ours)
		}
		if row := "\n| " + c.name + " | " + c.theirs + " | " + c.ours + " |"; !strings.Contains(string(doc), row) {
			t.Errorf("the table in docs/reference/koordinator.md lacks%s", row)
		}
	}
}
