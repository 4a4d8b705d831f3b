package cli

import (
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

// TestClusterGolden compares the output for users and programs with testdata/cluster-NAME.txt.
func TestClusterGolden(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		code int
	}{
		"nodes":            {[]string{"nodes"}, ExitOK},
		"nodes-drifted":    {[]string{"node", "drifted"}, ExitOK},
		"nodes-down":       {[]string{"nodes", "down", "-o", "wide"}, ExitOK},
		"nodes-flooded":    {[]string{"nodes", "flooded", "-o", "json"}, ExitOK},
		"explain-flooded":  {[]string{"explain", "small", "--node", "flooded"}, ExitFailure},
		"nodes-yaml":       {[]string{"nodes", "n1", "-o", "yaml"}, ExitOK},
		"pods":             {[]string{"pods", "-A"}, ExitOK},
		"nodes-wide":       {[]string{"nodes", "-o", "wide"}, ExitOK},
		"nodes-name":       {[]string{"nodes", "-o", "name"}, ExitOK},
		"nodes-jsonpath":   {[]string{"nodes", "-o", `jsonpath={range .nodes[*]}{.name} {.guarantee}{"\n"}{end}`}, ExitOK},
		"pods-wide":        {[]string{"pods", "-A", "-o", "wide"}, ExitOK},
		"pods-name":        {[]string{"pods", "-o", "name"}, ExitOK},
		"pods-template":    {[]string{"pods", "train", "-o", `go-template={{range .pods}}{{.name}} {{.cpus}}{{"\n"}}{{end}}`}, ExitOK},
		"explain-jsonpath": {[]string{"explain", "train", "-o", "jsonpath={.outcome}"}, ExitOK},
		"pods-json":        {[]string{"pods", "late", "-o", "json"}, ExitOK},
		"explain-bound":    {[]string{"explain", "train"}, ExitOK},
		"explain-late":     {[]string{"explain", "pod/late"}, ExitOK},
		"explain-forged":   {[]string{"explain", "forged"}, ExitOK},
		"explain-failed":   {[]string{"explain", "failed"}, ExitFailure},
		"explain-refused":  {[]string{"explain", "big"}, ExitFailure},
		"explain-one":      {[]string{"explain", "big", "--node", "n2"}, ExitFailure},
		"explain-gpus":     {[]string{"explain", "gpus", "--nodes", "1"}, ExitOK},
		"explain-fits":     {[]string{"explain", "small"}, ExitOK},
		"explain-plain":    {[]string{"explain", "plain"}, ExitOK},
		"explain-json":     {[]string{"explain", "big", "--node", "n1", "-o", "json"}, ExitFailure},
		"explain-bound-js": {[]string{"explain", "train", "-o", "json"}, ExitOK},
	} {
		t.Run(name, func(t *testing.T) {
			w := busyWorld(t)
			runGolden(t, "cluster-"+name, c.code, append(c.args, "--kubeconfig", w.kubeconfig())...)
			for _, r := range w.requests {
				if !strings.HasPrefix(r, http.MethodGet+" ") {
					t.Errorf("a verb that reads wrote: %s", r)
				}
			}
		})
	}
}

// TestClusterRights: if an object may not be read, the output says so, and works without it where
// possible.
func TestClusterRights(t *testing.T) {
	for name, c := range map[string]struct {
		path, want string
		code       int
	}{
		"all pods":   {"/api/v1/pods", "not yet reported are not counted", ExitOK},
		"nodes":      {"/api/v1/nodes", "is cordoned or tainted", ExitOK},
		"leases":     {"/apis/coordination.k8s.io/v1/namespaces/berth-system/leases", "it is not checked whether agents are alive", ExitOK},
		"topologies": {"/apis/berth.dev/v1alpha1/nodetopologies", "(the ClusterRole berth-reader has every permission that is needed)", ExitFailure},
		"own pods":   {"/api/v1/namespaces/default/pods/small", "reading pod default/small", ExitFailure},
	} {
		t.Run(name, func(t *testing.T) {
			w := busyWorld(t)
			w.forbidden = map[string]bool{c.path: true}
			code, stdout, stderr := run(t, "explain", "small", "--kubeconfig", w.kubeconfig())
			if code != c.code || !strings.Contains(stderr, c.want) || (code == ExitOK) != strings.Contains(stdout, "admits") && (code == ExitOK) != strings.Contains(stdout, "admit:") {
				t.Errorf("exit code %d, stderr %q, stdout\n%s\nwant code %d and %q", code, stderr, stdout, c.code, c.want)
			}
		})
	}
}

// TestWithoutNodes: a user who may not read Nodes is not told that there are none.
func TestWithoutNodes(t *testing.T) {
	for _, args := range [][]string{{"explain", "lost"}, {"explain", "small", "--node", "bare"}, {"nodes", "bare"}} {
		for _, forbidden := range []bool{false, true} {
			w := busyWorld(t)
			w.addPod("lost", "bare", 2, 0)
			want, never := "there is no Node bare", "NodeTopology bare"
			if forbidden {
				w.addNode("bare", time.Second)
				w.forbidden = map[string]bool{"/api/v1/nodes": true}
				want, never = never, want
			}
			_, stdout, stderr := run(t, append(args, "--kubeconfig", w.kubeconfig())...)
			if said := stdout + stderr; !strings.Contains(said, want) || strings.Contains(said, never) {
				t.Errorf("%v, Nodes forbidden %t: want %q, not %q:\n%s", args, forbidden, want, never, said)
			}
		}
	}
}

// TestClusterPages: a list in pages gives the same answer, even if a page has expired.
func TestClusterPages(t *testing.T) {
	whole := busyWorld(t)
	_, want, _ := run(t, "nodes", "--kubeconfig", whole.kubeconfig())
	for _, expires := range []bool{false, true} {
		w := busyWorld(t)
		w.pageOf, w.expires = 2, expires
		code, stdout, stderr := run(t, "nodes", "--kubeconfig", w.kubeconfig())
		if code != ExitOK || stdout != want {
			t.Errorf("expires %v: exit code %d, stderr %q, stdout\n%s\nwant\n%s", expires, code, stderr, stdout, want)
		}
		if lists := count(w.requests, "GET /apis/berth.dev/v1alpha1/nodetopologies"); lists < 3 {
			t.Errorf("expires %v: %d requests for reports: this test means to see pages", expires, lists)
		}
	}
}

func count(list []string, s string) int {
	return len(slices.DeleteFunc(slices.Clone(list), func(v string) bool { return v != s }))
}

// TestClusterErrors: each error has its exit code, and its message says what is wrong.
func TestClusterErrors(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "nowhere"))
	good := busyWorld(t).kubeconfig()
	uninstalled := busyWorld(t)
	uninstalled.uninstalled = true
	const address = "http://127.0.0.1:1" // where no server listens
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"no cluster":        {[]string{"nodes"}, ExitFailure, "nowhere"},
		"no kubeconfig":     {[]string{"nodes", "--kubeconfig", "/nonexistent"}, ExitFailure, "/nonexistent"},
		"no context":        {[]string{"nodes", "--kubeconfig", good, "--context", "other"}, ExitFailure, `"other"`},
		"unreachable":       {[]string{"pods", "--kubeconfig", kubeconfigFor(t, address)}, ExitFailure, address},
		"not installed":     {[]string{"explain", "big", "--kubeconfig", uninstalled.kubeconfig()}, ExitFailure, "does not serve nodetopologies"},
		"no such pod":       {[]string{"explain", "nobody", "--kubeconfig", good}, ExitFailure, "no pod nobody in namespace default"},
		"no such pod, pods": {[]string{"pods", "nobody", "--kubeconfig", good}, ExitFailure, "no pod nobody"},
		"no such node":      {[]string{"nodes", "n99", "--kubeconfig", good}, ExitFailure, "there is no Node n99"},
		"explain on no":     {[]string{"explain", "big", "--node", "n99", "--kubeconfig", good}, ExitFailure, "there is no Node n99"},
		"nothing to ask":    {[]string{"explain"}, ExitUsage, "the name of a pod, gang NAME, podgroup NAME, or pods with -f"},
		"pod and file":      {[]string{"explain", "p", "-f", "testdata/pods.yaml"}, ExitUsage, "not both"},
		"two pods":          {[]string{"explain", "p", "q"}, ExitUsage, "is not a kind that this verb knows"},
		"fewer than none":   {[]string{"explain", "big", "--nodes", "-1", "--kubeconfig", good}, ExitUsage, "--nodes -1"},
		"format":            {[]string{"nodes", "-o", "xml"}, ExitUsage, `"xml"`},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := run(t, c.args...)
			if code != c.code || !strings.Contains(stderr, c.want) || stdout != "" {
				t.Errorf("exit code %d, stdout %q, stderr %q; want code %d, nothing, and %q", code, stdout, stderr, c.code, c.want)
			}
		})
	}
}

func TestCompletePods(t *testing.T) {
	code, stdout, stderr := run(t, "__complete", "explain", "--kubeconfig", busyWorld(t).kubeconfig(), "")
	if code != ExitOK || !strings.Contains(stdout, "train\n") || !strings.Contains(stdout, "big\n") {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

// TestExplainWaits: a pod that another scheduler has bound may be admitted already or not, and the
// answer depends on this.
func TestExplainWaits(t *testing.T) {
	w := &world{t: t}
	w.pods = make([]corev1.Pod, 0, 8)
	w.addNode("n1", 0)
	w.addTopology(reportOf(t, "n1"), nil)
	w.addPod("stranger", "n1", 8, 0)
	w.addPod("next", "", 8, 0)
	code, stdout, stderr := run(t, "explain", "next", "--kubeconfig", w.kubeconfig())
	want := "1 node waits: waiting for its next report: 1 pod bound since the last one"
	if code != ExitFailure || !strings.Contains(stdout, want) || !strings.Contains(stderr, errNoNode.Error()) {
		t.Errorf("exit code %d, stderr %q, stdout\n%s\nwant %q", code, stderr, stdout, want)
	}
}

// TestPromises compares promises with reports.
func TestPromises(t *testing.T) {
	for name, c := range map[string]struct {
		certainty wire.Certainty
		// other means that the promised CPUs were taken before the pod came. state is the pod's
		// state in the report.
		other bool
		state v1alpha1.PodState
		want  []string
	}{
		"kept":      {wire.Exact, false, "", []string{"promise: kept", "reported: admitted"}},
		"differs":   {wire.Exact, true, "", []string{"promise: differs"}},
		"uncertain": {wire.VerdictOnly, true, "", []string{"promise: admitted as promised"}},
		"refused":   {wire.Exact, false, v1alpha1.PodRejected, []string{"reported: refused by the kubelet", "promise: refused"}},
		"ended":     {wire.Exact, false, v1alpha1.PodEnded, []string{"reported: ended, but the kubelet still holds its resources", "promise: kept"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{t: t}
			w.pods = make([]corev1.Pod, 0, 8)
			pod := w.addPod("pod", "n1", 2, 0)
			annotate(t, pod, reportOf(t, "n1", requestOf(t, pod)), 1, c.certainty)
			admitted := []*placement.Request{requestOf(t, pod)}
			if c.other {
				admitted = []*placement.Request{requestOf(t, w.addPod("other", "n1", 2, 0)), admitted[0]}
			}
			w.addNode("n1", 0)
			n := reportOf(t, "n1", admitted...)
			n.Report.Pods[len(n.Report.Pods)-1].State = c.state
			w.addTopology(n, nil)
			code, stdout, stderr := run(t, "explain", "pod", "--kubeconfig", w.kubeconfig())
			if code != ExitOK {
				t.Errorf("exit code %d, stderr %q", code, stderr)
			}
			for _, want := range c.want {
				if !strings.Contains(stdout, want) {
					t.Errorf("got\n%s\nwant %q in it", stdout, want)
				}
			}
		})
	}
}

func amountsText(pairs ...string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		list[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return list
}

// TestAmountsTaken: requests of other pods count, whether pinned or not, but not those of ended
// pods.
func TestAmountsTaken(t *testing.T) {
	for phase, want := range map[corev1.PodPhase]string{
		corev1.PodRunning:   "1 node refuses: the node has 1 CPU left for more pods, but the pod asks for 2",
		corev1.PodSucceeded: "1 node admits",
	} {
		w := &world{t: t}
		w.pods = make([]corev1.Pod, 0, 8)
		w.addPod("pod", "", 2, 0)
		other := w.addPod("other", "n1", 7, 0)
		other.Spec.Containers[0].Resources.Limits = nil // Burstable, so that it is not pinned
		other.Status.Phase = phase
		w.addNode("n1", 0).Status.Allocatable = amountsText("cpu", "8", "memory", "64Gi")
		w.addTopology(reportOf(t, "n1"), nil)
		_, stdout, stderr := run(t, "explain", "pod", "--kubeconfig", w.kubeconfig())
		if !strings.Contains(stdout, want) {
			t.Errorf("%s: got\n%s%s\nwant %q in it", phase, stdout, stderr, want)
		}
	}
}

// TestNodeFullOfPods: a node admits at most the pods of its allocatable, however little they
// request.
func TestNodeFullOfPods(t *testing.T) {
	for phase, want := range map[corev1.PodPhase]string{
		corev1.PodRunning: "1 node refuses: the node has 1 pod, and admits at most 1", corev1.PodFailed: "1 node admits",
	} {
		w := &world{t: t}
		w.pods = make([]corev1.Pod, 0, 8)
		w.addPod("pod", "", 2, 0)
		w.addPod("other", "n1", 1, 0).Status = corev1.PodStatus{Phase: phase, QOSClass: corev1.PodQOSBurstable}
		w.addNode("n1", 0).Status.Allocatable = amountsText("cpu", "8", "memory", "64Gi", "pods", "1")
		w.addTopology(reportOf(t, "n1"), nil)
		_, stdout, stderr := run(t, "explain", "pod", "--kubeconfig", w.kubeconfig())
		if !strings.Contains(stdout, want) {
			t.Errorf("%s: got\n%s%s\nwant %q in it", phase, stdout, stderr, want)
		}
	}
}

// TestDeviceClasses: if Dynamic Resource Allocation provides a resource, the node need not have it
// in its allocatable.
func TestDeviceClasses(t *testing.T) {
	const gpu, class = "example.com/dra", "deviceclass.resource.kubernetes.io/fast"
	lacks := func(name string) string {
		return "1 node is excluded: the node has 0 " + name + " in total, but the pod asks for 1"
	}
	for name, c := range map[string]struct {
		asked     corev1.ResourceName
		classes   []resourcev1.DeviceClass
		forbidden bool
		want      string
	}{
		"the name that a class gives": {gpu, []resourcev1.DeviceClass{classOf("fast", gpu)}, false, "1 node admits"},
		"the name that a class has":   {class, []resourcev1.DeviceClass{classOf("fast", "")}, false, "1 node admits"},
		"another class":               {gpu, []resourcev1.DeviceClass{classOf("slow", "example.com/other")}, false, lacks(gpu)},
		"no such class":               {class, []resourcev1.DeviceClass{classOf("slow", gpu)}, false, lacks(class)},
		"no classes":                  {gpu, nil, false, lacks(gpu)},
		"may not be read":             {gpu, []resourcev1.DeviceClass{classOf("fast", gpu)}, true, "no permission to read device classes"},
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{t: t, classes: c.classes, forbidden: map[string]bool{"/apis/resource.k8s.io/v1/deviceclasses": c.forbidden}}
			w.addPod("pod", "", 2, 0).Spec.Containers[0].Resources.Limits[c.asked] = resource.MustParse("1")
			w.addNode("n1", 0).Status.Allocatable = amountsText("cpu", "8", "memory", "64Gi")
			w.addTopology(reportOf(t, "n1"), nil)
			_, stdout, stderr := run(t, "explain", "pod", "--kubeconfig", w.kubeconfig())
			if !strings.Contains(stdout+stderr, c.want) {
				t.Errorf("got\n%s%s\nwant %q in it", stdout, stderr, c.want)
			}
		})
	}
}

// classOf returns a device class that provides the extended resource, unless that is "".
func classOf(name, extended string) resourcev1.DeviceClass {
	out := resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if extended != "" {
		out.Spec.ExtendedResourceName = &extended
	}
	return out
}

// TestExcluded: the reasons that exclude a node for a pod.
func TestExcluded(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*corev1.Node, *corev1.Pod)
		want  string
	}{
		"nothing":  {func(*corev1.Node, *corev1.Pod) {}, "1 node admits"},
		"selector": {func(_ *corev1.Node, p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "fast"} }, "node selector or affinity does not match: nodeSelector disk=fast\n    (n1)\n    do: no node has a label disk: correct the pod's nodeSelector"},
		"matching": {func(_ *corev1.Node, p *corev1.Pod) {
			p.Spec.NodeSelector = map[string]string{"kubernetes.io/hostname": "n1"}
		}, "1 node admits"},
		"taint": {func(n *corev1.Node, _ *corev1.Pod) {
			n.Spec.Taints = []corev1.Taint{{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}}
		}, "does not tolerate taint gpu:NoSchedule\n    (n1)\n    do: if the pod may go there, give it a toleration"},
		"not ready": {func(n *corev1.Node, _ *corev1.Pod) {
			n.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}}
		}, "not-ready:NoSchedule\n    (n1)\n    do: repair the node, which removes the taint: kubectl describe node n1"},
		"being removed": {func(n *corev1.Node, _ *corev1.Pod) {
			n.Spec.Taints = []corev1.Taint{{Key: "karpenter.sh/disrupted", Effect: corev1.TaintEffectNoSchedule}}
		}, "karpenter.sh/disrupted:NoSchedule\n    (n1)\n    do: leave the node to its autoscaler"},
		"preferred": {func(n *corev1.Node, _ *corev1.Pod) {
			n.Spec.Taints = []corev1.Taint{{Key: "gpu", Effect: corev1.TaintEffectPreferNoSchedule}}
		}, "1 node admits"},
		"tolerated": {func(n *corev1.Node, p *corev1.Pod) {
			n.Spec.Unschedulable = true
			p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		}, "1 node admits"},
		"cordoned": {func(n *corev1.Node, _ *corev1.Pod) { n.Spec.Unschedulable = true }, "the node is cordoned\n    (n1)\n    do: if it may take pods again: kubectl uncordon n1"},
		"enough":   {func(n *corev1.Node, _ *corev1.Pod) { n.Status.Allocatable = amountsText("cpu", "2", "memory", "1Gi") }, "1 node admits"},
		"too small": {func(n *corev1.Node, _ *corev1.Pod) {
			n.Status.Allocatable = amountsText("cpu", "1500m", "memory", "1Gi")
		}, "1 node is excluded: the node has 1.5 CPUs in total, but the pod asks for 2"},
		"its policy": {func(_ *corev1.Node, p *corev1.Pod) {
			p.Annotations = map[string]string{wire.PolicyAnnotation: "single-numa-node,scope=pod"}
		}, "excluded: the kubelet's policy is restricted with scope container, and the pod's berth.dev/policy asks for single-numa-node,scope=pod"},
		"its policy, in Koordinator's words": {func(_ *corev1.Node, p *corev1.Pod) {
			p.Annotations = map[string]string{"scheduling.koordinator.sh/numa-topology-spec": `{"numaTopologyPolicy":"SingleNUMANode"}`}
		}, "the pod's scheduling.koordinator.sh/numa-topology-spec asks for single-numa-node,scope=pod"},
		"a weaker policy": {func(_ *corev1.Node, p *corev1.Pod) {
			p.Annotations = map[string]string{wire.PolicyAnnotation: "best-effort"}
		}, "1 node admits"},
		"an unknown policy": {func(_ *corev1.Node, p *corev1.Pod) {
			p.Annotations = map[string]string{wire.PolicyAnnotation: "restrictd"}
		}, "1 node is excluded: the scheduler cannot read the pod: "},
		"none of it": {func(n *corev1.Node, p *corev1.Pod) {
			n.Status.Allocatable = amountsText("cpu", "8", "memory", "1Gi")
			p.Spec.Containers[0].Resources.Requests["example.com/gpu"] = resource.MustParse("1")
		}, "1 node is excluded: the node has 0 example.com/gpu in total, but the pod asks for 1"},
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{t: t}
			pod := w.addPod("pod", "", 2, 0)
			c.spoil(w.addNode("n1", 0), pod)
			w.addTopology(reportOf(t, "n1"), nil)
			_, stdout, stderr := run(t, "explain", "pod", "--kubeconfig", w.kubeconfig())
			if !strings.Contains(stdout, c.want) {
				t.Errorf("got\n%s%s\nwant %q in it", stdout, stderr, c.want)
			}
		})
	}
}
