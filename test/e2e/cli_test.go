package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/deploy"
	"github.com/berth-dev/berth/internal/cli"
	"github.com/berth-dev/berth/internal/controlplane"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/test/sim"
	"github.com/berth-dev/berth/topology"
)

// cliCluster is an API server without kubelets. The test acts as agent and scheduler.
type cliCluster struct {
	*testing.T
	cp  *controlplane.ControlPlane
	api kubernetes.Interface
	// scheduler is the only client that may bind.
	scheduler kubernetes.Interface
	reports   dynamic.ResourceInterface
	file      string // a kubeconfig
}

func newCLICluster(t *testing.T, user string, manifests ...[]byte) *cliCluster {
	t.Helper()
	cp := startControlPlane(t, controlplane.Options{})
	if err := cp.Apply(t.Context(), manifests...); err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := cp.Kubeconfig(user, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := &cliCluster{T: t, cp: cp, file: filepath.Join(t.TempDir(), "config")}
	if err := os.WriteFile(c.file, kubeconfig, 0o600); err != nil {
		t.Fatal(err)
	}
	c.api = kubernetes.NewForConfigOrDie(cp.RESTConfig())
	c.scheduler = client(t, cp, "system:kube-scheduler")
	c.reports = dynamic.NewForConfigOrDie(cp.RESTConfig()).Resource(v1alpha1.NodeTopologies)
	eventually(t, "the reader's rights", func() error {
		if _, text := c.run("pods"); strings.Contains(text, "forbidden") {
			return errors.New(text)
		}
		return nil
	})
	return c
}

// run executes a command line and returns the exit code, and what it printed.
func (c *cliCluster) run(args ...string) (int, string) {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.Context(), patience)
	defer cancel()
	var out, errs bytes.Buffer
	code := cli.Run(ctx, slices.Concat([]string{"kubectl-berth"}, args, []string{"--kubeconfig", c.file}), strings.NewReader(""), &out, &errs)
	return code, out.String() + errs.String()
}

// want runs a command line and checks what it prints.
func (c *cliCluster) want(code int, args string, want ...string) {
	c.Helper()
	got, text := c.run(strings.Fields(args)...)
	if got != code {
		c.Errorf("berth %s: exit code %d, want %d, and printed\n%s", args, got, code, text)
	}
	for _, w := range want {
		if !strings.Contains(text, w) {
			c.Errorf("berth %s: printed\n%s\nwant %q in it", args, text, w)
		}
	}
}

// report publishes a node's allocations, as its agent does.
func (c *cliCluster) report(n *wire.Node) {
	c.Helper()
	nt, err := wire.WriteNodeTopology(n)
	if err != nil {
		c.Fatal(err)
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(nt)
	if err != nil {
		c.Fatal(err)
	}
	// Server-side apply accepts only the writer's own fields.
	unstructured.RemoveNestedField(object, "metadata", "creationTimestamp")
	opts := metav1.ApplyOptions{FieldManager: "berth-agent", Force: true}
	if _, err := c.reports.Apply(c.Context(), n.Name, &unstructured.Unstructured{Object: object}, opts); err != nil {
		c.Fatal(err)
	}
}

// beat renews the Lease of a node's agent, whose clock is an hour behind.
func (c *cliCluster) beat(node string) {
	c.Helper()
	now := metav1.NewMicroTime(time.Now().Add(-time.Hour))
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.HeartbeatName(node)}, Spec: coordinationv1.LeaseSpec{RenewTime: &now}}
	if _, err := c.api.CoordinationV1().Leases(v1alpha1.HeartbeatNamespace).Create(c.Context(), lease, metav1.CreateOptions{}); err != nil {
		c.Fatal(err)
	}
}

func (c *cliCluster) node(name string) {
	c.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := c.api.CoreV1().Nodes().Create(c.Context(), node, metav1.CreateOptions{}); err != nil {
		c.Fatal(err)
	}
}

func (c *cliCluster) pod(name, cpus string) *corev1.Pod {
	c.Helper()
	pod, err := c.api.CoreV1().Pods("default").Create(c.Context(), pinnedPod(name, "", cpus), metav1.CreateOptions{})
	if err != nil {
		c.Fatal(err)
	}
	return pod
}

// bind binds a pod with a placement, as the scheduler does.
func (c *cliCluster) bind(pod *corev1.Pod, node string, p *wire.Placement) {
	c.Helper()
	text, err := wire.WritePlacement(p)
	if err != nil {
		c.Fatal(err)
	}
	binding := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace, Annotations: map[string]string{wire.PlacementAnnotation: text}},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	}
	if err := c.scheduler.CoreV1().Pods(pod.Namespace).Bind(c.Context(), binding, metav1.CreateOptions{}); err != nil {
		c.Fatal(err)
	}
}

// cliNode is a node of 2 NUMA nodes with 8 CPUs each, 2 of them reserved.
type cliNode struct {
	wire.Node
	kubelet *sim.Kubelet
}

func newCLINode(t *testing.T, name string) *cliNode {
	t.Helper()
	m, err := topology.Parse("package:2 numa:1 core:4 pu:2 mem:16Gi")
	if err != nil {
		t.Fatal(err)
	}
	n := &cliNode{Node: wire.Node{Name: name, Spec: wire.NodeSpec{Machine: m, Authority: v1alpha1.AuthorityKubelet, KubeletVersion: "v1.36.3",
		Config: placement.Config{Version: placement.V136, CPUManagerPolicy: "static", ReservedSystemCPUs: "0,8", TopologyManagerPolicy: "single-numa-node"}}}}
	if n.Spec.View, err = placement.ViewOf(m); err != nil {
		t.Fatal(err)
	}
	model, err := placement.NewModel(n.Spec.View, n.Spec.Config)
	if err != nil {
		t.Fatal(err)
	}
	n.kubelet = sim.NewKubelet(model)
	n.Report.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonConsistent, LastTransitionTime: metav1.Now()}}
	n.next()
	return n
}

// next makes the next report of the node's allocations.
func (n *cliNode) next() {
	n.Report.Sequence++
	n.Report.Observed = time.Now()
	n.Report.Snapshot = n.kubelet.State.Snapshot()
	n.Report.Pods = make([]wire.ReportedPod, len(n.Report.Snapshot.Pods))
}

// admit decides about a pod, allocates its resources, and returns the promise for its Binding.
func (n *cliNode) admit(t *testing.T, pod *corev1.Pod, seq uint64) *wire.Placement {
	t.Helper()
	ask, err := wire.ReadPod(pod)
	if err != nil {
		t.Fatal(err)
	}
	a := n.kubelet.Admit(&ask.Request)
	if !a.Verdict.OK() {
		t.Fatalf("pod %s: %s", pod.Name, a.Verdict.Detail)
	}
	return &wire.Placement{Sequence: seq, Report: n.Report.Sequence, Certainty: wire.Exact, Guarantee: wire.GuaranteeFull, Decision: a.Decision}
}

// TestCLI runs verbs on a real API server, first without Berth. Then it asks about pods that are
// promised, reported, in flight and refused, and about unreliable nodes.
func TestCLI(t *testing.T) {
	t.Parallel()
	c := newCLICluster(t, "reader", append(rbacManifests(t), []byte(asReader))...)
	c.withoutBerth()
	c.readsTheRest()
	if err := c.cp.Apply(t.Context(), deploy.Manifests()...); err != nil {
		t.Fatal(err)
	}
	n1 := newCLINode(t, "n1")
	for _, name := range []string{"n1", "odd", "bare"} {
		c.node(name)
	}
	c.report(&n1.Node)
	c.beat("n1")
	// The schema accepts any policy; the engine knows the policies of every release.
	odd := newCLINode(t, "odd")
	odd.Spec.Config.TopologyManagerPolicy = "restrictd"
	c.report(&odd.Node)

	first, second := c.pod("first", "4"), c.pod("second", "4")
	// A kubelet may admit pods that were created in the same second in any order. The scheduler
	// would then wait for a report, so the third pod is created in a later second.
	eventually(t, "a later second", func() error {
		if now := time.Now().Unix(); now <= second.CreationTimestamp.Unix() {
			return fmt.Errorf("it is still %d", now)
		}
		return nil
	})
	c.pod("third", "5")
	c.bind(first, "n1", n1.admit(t, first, 1))
	c.want(cli.ExitOK, "explain first", "pod default/first: pending on node n1", "promised: NUMA node 0, certainty exact, guarantee full, Binding 1 to this node, based on report 1",
		"promise: not yet reported", "main        promise   0      1-2,9-10")
	n1.next()
	c.report(&n1.Node)
	c.want(cli.ExitOK, "explain pod/first", "reported: admitted, report 2", "NUMA node 0", "promise: kept", "main        report    0      1-2,9-10")

	// The second pod is bound and not yet reported. Its resources count as taken.
	c.bind(second, "n1", n1.admit(t, second, 2))
	c.want(cli.ExitFailure, "explain third", "pod default/third: pending, on no node",
		"1 node refuses: NUMA 0 has 2 free CPUs (5 needed), NUMA 1 has 4 (TopologyAffinityError)",
		"no NodeTopology: is berth-agent running there?", "(bare)", `topologyManagerPolicy: "restrictd": want none`, "(odd)", "node n1 (report 2, and 1 pod bound since):", "no node takes the pod")
	c.want(cli.ExitFailure, "explain third --node bare -o json", `"answer": "unreliable"`)
	eventually(t, "an agent that stays silent is noticed", func() error {
		if _, text := c.run("explain", "third", "--stale-after", "1s", "--node", "n1", "-o", "yaml"); !strings.Contains(text, "no sign of life for too long") {
			return errors.New(text)
		}
		return nil
	})
	c.want(cli.ExitOK, "nodes n1", "single-numa-node/container   1+1", "2/6", "4/8")
	c.want(cli.ExitOK, "nodes", "node bare (NoReport)", `node odd (Unsupported): topologyManagerPolicy: "restrictd"`, "single-numa-node/container   1+1")
	c.want(cli.ExitOK, "pods -A", "default     first    n1     admitted    0", "default     second   n1     in flight   1", "default     third    -      pending")
}

// asReader binds deploy/rbac's roles for readers to a user.
const asReader = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: berth-reader}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: reader}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reader, namespace: berth-system}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: berth-reader}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: reader}]
`

// withoutBerth runs verbs while Berth is not installed.
func (c *cliCluster) withoutBerth() {
	c.Helper()
	c.pod("lonely", "2")
	for _, verb := range []string{"explain lonely", "nodes", "pods"} {
		c.want(cli.ExitFailure, verb, "does not serve nodetopologies.berth.dev")
	}
	if err := c.api.CoreV1().Pods("default").Delete(c.Context(), "lonely", metav1.DeleteOptions{}); err != nil {
		c.Fatal(err)
	}
}

// readsTheRest reads, with the role of readers, the objects that verbs read in addition to nodes,
// pods and reports. Verbs omit objects that they may not read, some without a note.
func (c *cliCluster) readsTheRest() {
	c.Helper()
	reader, ctx := client(c.T, c.cp, "reader"), c.Context()
	_, budgets := reader.PolicyV1().PodDisruptionBudgets("").List(ctx, metav1.ListOptions{})
	_, classes := reader.SchedulingV1().PriorityClasses().List(ctx, metav1.ListOptions{})
	_, events := reader.CoreV1().Events("").List(ctx, metav1.ListOptions{})
	_, namespaces := reader.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	if err := errors.Join(budgets, classes, events, namespaces); err != nil {
		c.Errorf("with berth-reader: %v", err)
	}
	if _, err := reader.CoordinationV1().Leases("kube-system").Get(ctx, "kube-scheduler", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		c.Errorf("the default scheduler's Lease, with berth-reader: %v, want not found", err)
	}
	if _, err := reader.CoordinationV1().Leases("kube-system").Get(ctx, "other", metav1.GetOptions{}); !apierrors.IsForbidden(err) {
		c.Errorf("another Lease there, with berth-reader: %v, want forbidden", err)
	}
}

// rbacManifests returns only the roles.
func rbacManifests(t *testing.T) (out [][]byte) {
	t.Helper()
	for _, name := range []string{"namespace.yaml", "viewer.yaml"} {
		data, err := fs.ReadFile(deploy.Folder("rbac"), name)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, data)
	}
	return out
}
