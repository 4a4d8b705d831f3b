package cli

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// gangWorld has two nodes with 4 CPUs on each NUMA node, and gangs of Volcano.
func gangWorld(t *testing.T) *world {
	w := &world{t: t}
	w.pods = make([]corev1.Pod, 0, 16)
	for _, name := range []string{"n1", "n2"} {
		w.addNode(name, time.Second)
		w.addTopology(reportOf(t, name), nil)
	}
	group := func(name string, spec map[string]any, pods ...*corev1.Pod) {
		w.groups = append(w.groups, map[string]any{"metadata": map[string]any{"name": name, "namespace": "default"}, "spec": spec, "status": map[string]any{"phase": "Pending"}})
		for _, pod := range pods {
			pod.Annotations = map[string]string{"scheduling.k8s.io/group-name": name, "volcano.sh/task-spec": "worker"}
		}
	}
	group("fits", map[string]any{"minMember": 3, "minTaskMember": map[string]any{"worker": 2}}, w.addPod("fits-0", "", 4, 0), w.addPod("fits-1", "", 4, 0), w.addPod("fits-2", "", 2, 0))
	told := w.addPod("large-0", "", 14, 0)
	told.Status.Conditions[0].Message = "0/2 nodes are available: Berth: PodGroup.scheduling.volcano.sh default/large does not fit: \x1b[2J" + strings.Repeat("no room on any of the nodes; ", 8)
	group("large", map[string]any{"minMember": 3}, told, w.addPod("large-1", "", 14, 0), w.addPod("large-2", "", 14, 0))
	group("net", map[string]any{"minMember": 2, "networkTopology": map[string]any{"mode": "hard"}}, w.addPod("net-0", "", 1, 0))
	group("early", map[string]any{"minMember": 2})
	return w
}

// TestGangsGolden compares the output about gangs for users and programs with
// testdata/gangs-NAME.txt.
func TestGangsGolden(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		code int
	}{
		"table":         {[]string{"gangs", "-A"}, ExitOK},
		"wide":          {[]string{"gangs", "-o", "wide", "--no-headers"}, ExitOK},
		"json":          {[]string{"gangs", "-o", "json"}, ExitOK},
		"name":          {[]string{"gangs", "-o", "name"}, ExitOK},
		"explain-fits":  {[]string{"explain", "gang", "fits"}, ExitOK},
		"explain-large": {[]string{"explain", "podgroup/large", "--nodes", "1"}, ExitFailure},
		"explain-net":   {[]string{"explain", "podgroup.scheduling.volcano.sh", "net"}, ExitFailure},
		"explain-early": {[]string{"explain", "gang", "early"}, ExitFailure},
		"explain-json":  {[]string{"explain", "gang", "early", "-o", "json"}, ExitFailure},
		"explain-pod":   {[]string{"explain", "fits-2"}, ExitOK},
	} {
		t.Run(name, func(t *testing.T) {
			runGolden(t, "gangs-"+name, c.code, append(c.args, "--kubeconfig", gangWorld(t).kubeconfig())...)
		})
	}
}

// TestGangsMisuse: wrong arguments, unknown names, and missing permissions.
func TestGangsMisuse(t *testing.T) {
	w := gangWorld(t)
	for _, c := range []asked{
		{args: []string{"explain", "gang", "nothing"}, code: ExitFailure, want: []string{"no gang nothing in namespace default"}},
		{args: []string{"explain", "job", "fits"}, code: ExitUsage, want: []string{`"job" is not a kind that this verb knows: want pod, gang or podgroup`}},
		{args: []string{"explain", "gang", "fits", "--node", "n1"}, code: ExitUsage, want: []string{"leave out --node"}},
		{args: []string{"explain", "podgroup.scheduling.x-k8s.io", "fits"}, code: ExitFailure, want: []string{"no podgroup.scheduling.x-k8s.io fits"}},
		{args: []string{"explain", "gang", "fits", "large"}, code: ExitUsage, want: []string{"want the name of a pod, gang NAME"}},
		{args: []string{"gangs", "fits"}, code: ExitUsage, want: []string{"gangs fits: want no arguments (see berth gangs --help)"}},
	} {
		c.check(t, w)
	}
	w.forbidden = map[string]bool{"/apis/resource.k8s.io/v1/deviceclasses": true}
	w.pods[0].Spec.Containers[0].Resources.Limits["example.com/dra"] = resource.MustParse("1")
	(&asked{args: []string{"explain", "gang", "fits"}, want: []string{"no permission to read device classes"}}).check(t, w)
	w.forbidden = map[string]bool{"/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups": true}
	(&asked{args: []string{"gangs"}, want: []string{"no permission to read podgroups.scheduling.volcano.sh", "no permission to read"}, never: []string{"does not exist"}}).check(t, w)
	code, stdout, _ := run(t, "__complete", "explain", "--kubeconfig", gangWorld(t).kubeconfig(), "podgroup", "")
	if code != ExitOK || !strings.Contains(stdout, "large\n") || strings.Contains(stdout, "large-0") {
		t.Errorf("completion of gangs: exit code %d, %q", code, stdout)
	}
}
