package e2e

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/deploy"
	"github.com/berth-dev/berth/internal/agent"
	"github.com/berth-dev/berth/internal/controlplane"
	"github.com/berth-dev/berth/internal/demo"
	"github.com/berth-dev/berth/internal/hollow"
	"github.com/berth-dev/berth/internal/kubeletstate"
	"github.com/berth-dev/berth/internal/scheduler"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/test/scrape"
	"github.com/berth-dev/berth/test/trial"
	"github.com/berth-dev/berth/topology"
)

// hollowCluster is a cluster with kubelets, agents in this process and a scheduler, each behind its
// own faulty wire. It records the kubelets' decisions about pods.
type hollowCluster struct {
	*testing.T
	*demo.Cluster
	// root is the test that owns the cluster; T may be a subtest.
	root  *testing.T
	kept  controlplane.Options // options of the control plane
	nodes []*hollowNode
	wires map[string]*faultyWire // of kubelets and agents
	wire  *faultyWire            // the scheduler's
	sched *schedulerProcess
	verb  string // that of the next scheduler; "" for schedulerVerb

	mu   sync.Mutex
	pods map[types.UID]*noted
}

// hollowNode is a node of the cluster.
type hollowNode struct {
	c    *hollowCluster
	spec hollow.Spec
	dir  hollow.Dir
	// koordlet means that the next agent lets koordlet carry out Berth's decisions.
	koordlet bool
}

// noted records the history of a pod.
type noted struct {
	name, node string
	ran        bool
	refused    string // the reason of a refusal
	promised   bool
	exact      bool
	foreign    bool // bound by another scheduler
	wrong      string
	// excused means that the scheduler was possibly cut off when it decided, which excuses a fault.
	excused bool
	// sent is when its Binding was last sent; on has the number of that Binding, and of the report
	// on which it was decided.
	sent time.Time
	on   string
	// deafened means that its kubelet's watch had been cut when the pod came.
	deafened bool
	// bound, began, left and gone are the moments at which the API first showed the pod with a
	// node, running, terminating or deleted, and deleted.
	bound, began, left, gone moment
}

// moment is a resource version, and when the test saw it; zero if it did not.
type moment struct {
	version uint64
	at      time.Time
}

// see records the version of the pod, unless there is an earlier one.
func (m *moment) see(pod *corev1.Pod) {
	if version, err := strconv.ParseUint(pod.ResourceVersion, 10, 64); err == nil && m.version == 0 {
		*m = moment{version, time.Now()}
	}
}

// before reports whether the API showed m before other.
func (m *moment) before(other *moment) bool { return m.version != 0 && m.version < other.version }

func (m *moment) String() string {
	if m.version == 0 {
		return "never"
	}
	return fmt.Sprintf("%d at %s", m.version, m.at.Format("15:04:05.000"))
}

func (n *noted) String() string {
	return fmt.Sprintf("%s: %s, sent at %s; bound %v, running %v, deleted %v, gone %v", n.name, n.on, n.sent.Format("15:04:05.000"), &n.bound, &n.began, &n.left, &n.gone)
}

// hearing is how long the scheduler's unbroken watch may take to show a deletion.
const hearing = 3 * time.Second

// freed reports whether the kubelet had released p when it received n's Binding, without the
// scheduler's knowledge. A kubelet releases a deleted pod at once, although its containers run
// (HandlePodRemoves of pkg/kubelet/kubelet.go removes it from the pods of GetActivePods). A pod
// that never ran has no container to stop. After a broken watch a kubelet handles deletions before
// earlier Bindings.
func (p *noted) freed(n *noted) bool {
	over, heard := &p.gone, &n.bound
	if !p.ran {
		over = &p.left
	}
	if n.deafened {
		heard = &n.began
	}
	return p != n && p.node == n.node && over.before(heard) && !p.left.at.Before(n.sent.Add(-hearing))
}

// deafFor is how long a scheduler or kubelet may not know a deletion after its watches were cut. It
// is longer than the stop of a container, so exact placements may break (package ledger).
const deafFor = 15 * time.Second

// hollowStop is how long containers take to stop. It is longer than the delay of any fault.
const hollowStop = 3 * time.Second

func newHollowCluster(t *testing.T, nodes int) *hollowCluster {
	t.Helper()
	return newHollowClusterOn(t, nodes, controlplane.Options{Dir: shortDir(t)})
}

// newHollowClusterOn starts a cluster, and applies the changes to each node.
func newHollowClusterOn(t *testing.T, nodes int, opts controlplane.Options, change ...func(*hollow.Spec)) *hollowCluster {
	t.Helper()
	begun := time.Now()
	c := &hollowCluster{T: t, root: t, kept: opts, wires: map[string]*faultyWire{}, pods: map[types.UID]*noted{}}
	o := demo.ClusterOptions{NodeCommand: nodeCommand, ControlPlane: opts, Manifests: deploy.Manifests(), Way: c.way, Agent: c.changeAgent}
	for i := range nodes {
		spec := hollow.Spec{Name: fmt.Sprint("h", i), Machine: twoSockets, KubeletConfig: singleNUMA, StopTime: hollowStop}
		if len(change) > 0 {
			change[0](&spec)
		}
		o.Nodes = append(o.Nodes, spec)
	}
	var err error
	c.Cluster, err = demo.StartCluster(t.Context(), o)
	c.must(err)
	t.Cleanup(c.end)
	for i, p := range c.Nodes {
		c.nodes = append(c.nodes, &hollowNode{c: c, spec: o.Nodes[i], dir: p.Dir})
		c.nodes[i].startAgent()
		c.nodes[i].awaitHearing(0)
	}
	c.watch()
	config, err := c.ControlPlane.UserConfig(controlplane.Scheduler.Name, nil)
	c.must(err)
	c.wire = newFaultyWire(t, config, soundly)
	c.startScheduler(nil)
	t.Logf("%d hollow nodes ready after %v", nodes, time.Since(begun).Round(10*time.Millisecond))
	return c
}

// end ends the cluster. If the test has failed, it logs the nodes' output.
func (c *hollowCluster) end() {
	for _, n := range c.nodes {
		if c.root.Failed() {
			log, _ := os.ReadFile(n.dir.Log())
			c.root.Logf("log of node %s:\n%s", n.spec.Name, log[max(0, len(log)-3000):])
		}
		n.signal(syscall.SIGCONT)
	}
	if err := c.Stop(); err != nil {
		c.root.Errorf("stop: %v", err)
	}
}

// soundly makes no faults.
func soundly(*http.Request) fault { return noFault }

// way puts a wire before a part. A restarted part keeps its wire.
func (c *hollowCluster) way(part string, access *rest.Config) (*rest.Config, error) {
	if c.wires[part] == nil {
		c.wires[part] = newFaultyWire(c.root, access, soundly)
	}
	return c.wires[part].Access(), nil
}

// changeAgent sets the options that an agent cannot find out in a test, and those that the test
// needs.
func (c *hollowCluster) changeAgent(o *agent.Options) {
	n := c.nodes[slices.IndexFunc(c.nodes, func(n *hollowNode) bool { return n.spec.Name == o.Node })]
	if n.spec.Devices != "" {
		o.Enforce.NRIVersion = "v0.12.3" // a test binary has no versions of its modules
	}
	if n.koordlet {
		o.Authority, o.Enforcer = v1alpha1.AuthorityBerth, v1alpha1.EnforcerKoordlet
	}
}

func (c *hollowCluster) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

// process returns the process of the kubelet.
func (n *hollowNode) process() *hollow.Process {
	p, err := n.c.Node(n.spec.Name)
	n.c.must(err)
	return p
}

// kubelet and agent return the wires of the two.
func (n *hollowNode) kubelet() *faultyWire { return n.c.wires["node "+n.spec.Name] }
func (n *hollowNode) agent() *faultyWire   { return n.c.wires["agent "+n.spec.Name] }

// restart kills the kubelet and starts it again.
func (n *hollowNode) restart() {
	n.c.Helper()
	before := n.kubelet().heard()
	n.c.must(n.c.RestartNode(n.spec.Name))
	n.awaitHearing(before)
}

// awaitHearing waits until the kubelet has listed its pods again. The Node may be Ready before, and
// the kubelet never sees a pod that came and left before the list.
func (n *hollowNode) awaitHearing(before int) {
	n.c.Helper()
	ctx, cancel := context.WithTimeout(n.c.Context(), patience)
	defer cancel()
	if !trial.Until(ctx, 10*time.Millisecond, func() bool { return n.kubelet().heard() > before }) {
		n.c.Fatalf("%s does not ask for its pods", n.spec.Name)
	}
}

// signal sends a signal to the kubelet.
func (n *hollowNode) signal(s syscall.Signal) { n.process().Signal(s) }

func (n *hollowNode) startAgent() {
	n.c.Helper()
	n.c.must(n.c.StartAgent(n.c.Context(), n.spec.Name))
}

func (n *hollowNode) stopAgent() {
	n.c.Helper()
	n.c.must(n.c.StopAgent(n.spec.Name))
}

// watch records the kubelets' decisions about pods.
func (c *hollowCluster) watch() {
	ctx, cancel := context.WithCancel(context.Background())
	c.Cleanup(cancel)
	factory := informers.NewSharedInformerFactoryWithOptions(c.Client, 0, informers.WithNamespace("default"))
	_, err := factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { c.note(obj.(*corev1.Pod)) }, UpdateFunc: func(_, obj any) { c.note(obj.(*corev1.Pod)) },
		DeleteFunc: c.noteGone,
	})
	c.must(err)
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
}

func (c *hollowCluster) note(pod *corev1.Pod) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.pods[pod.UID]
	if n == nil {
		n = &noted{name: pod.Name, foreign: pod.Spec.NodeName != "" && pod.Annotations[wire.PlacementAnnotation] == ""}
		c.pods[pod.UID] = n
	}
	if n.node = pod.Spec.NodeName; n.node != "" {
		n.bound.see(pod)
	}
	if pod.DeletionTimestamp != nil {
		n.left.see(pod)
	}
	switch {
	case pod.Status.Phase == corev1.PodFailed && pod.Status.Reason != "" && pod.DeletionTimestamp == nil:
		n.refused = pod.Status.Reason
	case pod.Status.Phase == corev1.PodRunning && !n.ran:
		n.ran = true
		n.began.see(pod)
		c.judge(n, pod)
	}
}

// noteGone records that a pod was deleted from the API.
func (c *hollowCluster) noteGone(obj any) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return // the watch had broken, and the version of the deletion is unknown
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.pods[pod.UID]; n != nil {
		n.left.see(pod)
		n.gone.see(pod)
	}
}

// freedBefore returns a pod for which freed is true with n; nil for none. The caller holds mu.
func (c *hollowCluster) freedBefore(n *noted) *noted {
	for _, p := range c.pods {
		if p.freed(n) {
			return p
		}
	}
	return nil
}

// history describes, in the order of the API, the history of a node's pods. The caller holds mu.
func (c *hollowCluster) history(node string) string {
	pods := slices.DeleteFunc(slices.Collect(maps.Values(c.pods)), func(n *noted) bool { return n.node != node })
	slices.SortFunc(pods, func(a, b *noted) int { return cmp.Compare(a.bound.version, b.bound.version) })
	text := "pods of " + node + ", by the resource version of their Bindings:"
	for _, n := range pods {
		text += "\n" + n.String()
	}
	return text
}

// judge compares an exact placement with the CPUs that the kubelet's own checkpoint shows.
func (c *hollowCluster) judge(n *noted, pod *corev1.Pod) {
	p, found, err := wire.ReadPlacement(pod)
	if err != nil {
		n.wrong = err.Error()
	}
	if !found {
		return
	}
	n.promised, n.exact = true, p.Certainty == wire.Exact
	n.on = fmt.Sprintf("Binding %d on report %d", p.Sequence, p.Report)
	if c.wire != nil {
		n.sent = c.wire.sentBinding(pod.Name)
	}
	if !n.exact {
		return
	}
	at := slices.IndexFunc(c.nodes, func(h *hollowNode) bool { return h.spec.Name == pod.Spec.NodeName })
	n.deafened = c.nodes[at].kubelet().sinceCut() < deafFor
	held := c.nodes[at].held()[string(pod.UID)]
	for i := range p.Decision.Containers {
		if got, there := held[p.Decision.Containers[i].Name]; there && got != p.Decision.Containers[i].CPUs {
			n.wrong = fmt.Sprintf("holds %s, promised %s", got, p.Decision.Containers[i].CPUs)
			n.excused = c.wire != nil && c.wire.sinceCut() < deafFor
		}
	}
}

// held returns the CPUs of containers in the kubelet's checkpoint, by pod UID. It fails the test if
// two pods have the same CPU.
func (n *hollowNode) held() map[string]map[string]topology.CPUSet {
	state, err := kubeletstate.Read(os.DirFS(n.dir.Root()))
	if err != nil || state.CPU == nil {
		return nil // the kubelet is writing the file
	}
	var all topology.CPUSet
	out := map[string]map[string]topology.CPUSet{}
	for _, e := range state.CPU.Entries {
		var own topology.CPUSet // containers reuse the CPUs of init containers of their pod
		for _, cpus := range out[e.PodUID] {
			own = own.Or(&cpus)
		}
		if others := all.AndNot(&own); others.Intersects(&e.CPUs) {
			n.c.Errorf("node %s: CPUs %s are held twice", n.spec.Name, e.CPUs)
		}
		all = all.Or(&e.CPUs)
		if out[e.PodUID] == nil {
			out[e.PodUID] = map[string]topology.CPUSet{}
		}
		out[e.PodUID][e.Container] = e.CPUs
	}
	return out
}

// tally counts the kubelets' decisions.
type tally struct{ admitted, refused, promised, exact, mispredicted int }

// demandKept fails the test if a kubelet refused a pod that Berth placed, or gave it other CPUs
// than promised.
func (c *hollowCluster) demandKept() (sum tally) {
	c.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.pods {
		switch {
		case n.foreign:
			continue
		case n.refused != "":
			sum.refused++
			c.Errorf("%s on %s: refused: %s", n.name, n.node, n.refused)
		case n.excused:
			c.Logf("%s on %s: %s, while the scheduler was cut off", n.name, n.node, n.wrong)
		case n.wrong != "" && c.freedBefore(n) != nil:
			c.Logf("%s on %s: %s, as its kubelet had let go before of %v", n, n.node, n.wrong, c.freedBefore(n))
		case n.wrong != "":
			sum.mispredicted++
			c.Errorf("%s on %s: %s\n%s", n.name, n.node, n.wrong, c.history(n.node))
		}
		if n.ran {
			sum.admitted++
		}
		if n.promised {
			sum.promised++
		}
		if n.exact {
			sum.exact++
		}
	}
	c.Logf("%+v", sum)
	return sum
}

func (c *hollowCluster) create(p *corev1.Pod) *corev1.Pod {
	c.Helper()
	p.Namespace = "default"
	created, err := c.Client.CoreV1().Pods("default").Create(c.Context(), p, metav1.CreateOptions{})
	c.must(err)
	return created
}

// onNode restricts a pod to a node by a node selector.
func onNode(p *corev1.Pod, node string) *corev1.Pod {
	p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node}
	return p
}

func (c *hollowCluster) delete(name string, grace *int64) {
	c.Helper()
	err := c.Client.CoreV1().Pods("default").Delete(c.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: grace})
	if !apierrors.IsNotFound(err) {
		c.must(err)
	}
}

// await polls until done returns true.
func (c *hollowCluster) await(what string, done func([]corev1.Pod) bool) {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.Context(), patience)
	defer cancel()
	var list *corev1.PodList
	if trial.Until(ctx, 50*time.Millisecond, func() (is bool) {
		var err error
		list, err = c.Client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
		return err == nil && done(list.Items)
	}) {
		return
	}
	c.demandKept()
	describe(c.T, list)
	c.Fatalf("waited %v for %s", patience, what)
}

func (c *hollowCluster) awaitRunning(names ...string) {
	c.Helper()
	c.await(fmt.Sprintf("pods %v to run", names), func(pods []corev1.Pod) bool {
		for _, name := range names {
			if phaseOf(pods, name) != corev1.PodRunning {
				return false
			}
		}
		return true
	})
}

func (c *hollowCluster) awaitBound(name string) {
	c.Helper()
	c.await("a Binding of "+name, func(pods []corev1.Pod) bool {
		return slices.ContainsFunc(pods, func(p corev1.Pod) bool { return p.Name == name && p.Spec.NodeName != "" })
	})
}

// scene runs play as a subtest, and checks that all promises are kept and nothing is left.
func (c *hollowCluster) scene(name string, play func()) bool {
	return c.root.Run(name, func(t *testing.T) {
		c.T = t
		defer func() { c.T = c.root }()
		play()
		c.demandKept()
		c.clean()
	})
}

// clean deletes all pods and checks that nothing is left in the API, the kubelets' checkpoints and
// the scheduler's gauges.
func (c *hollowCluster) clean() {
	c.Helper()
	c.must(c.Client.CoreV1().Pods("default").DeleteCollection(c.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
	c.await("no pods", func(pods []corev1.Pod) bool { return len(pods) == 0 })
	c.awaitGauges()
}

// awaitGauges waits until the scheduler's gauges are 0.
func (c *hollowCluster) awaitGauges() {
	c.Helper()
	left := ""
	defer func() { c.Log("gauges: ", left) }()
	c.await("gauges at 0", func([]corev1.Pod) bool {
		m, err := c.sched.metrics()
		if err != nil {
			left = err.Error()
			return false
		}
		left = scrape.Left(m, scrape.Held...)
		return left == ""
	})
}

// metrics returns Berth's metrics, by name with labels.
func (p *schedulerProcess) metrics() (map[string]float64, error) { return scrape.Scheduler(p.port) }

// restartScheduler kills the scheduler and starts another one.
func (c *hollowCluster) restartScheduler(args *scheduler.Args) {
	c.Helper()
	c.sched.Kill()
	c.startScheduler(args)
}

func (c *hollowCluster) startScheduler(args *scheduler.Args) {
	c.Helper()
	c.sched = startSchedulerWith(c.root, cmp.Or(c.verb, schedulerVerb), c.wire.Access(), args)
}

// describe logs the pods that do not run.
func describe(t *testing.T, list *corev1.PodList) {
	t.Helper()
	if list == nil {
		return
	}
	for _, p := range list.Items {
		if p.Status.Phase != corev1.PodRunning {
			t.Logf("%s on %q: %s %s %v", p.Name, p.Spec.NodeName, p.Status.Phase, p.Status.Reason, p.Status.Conditions)
		}
	}
}

func unschedulable(pods []corev1.Pod, name string) string {
	i := slices.IndexFunc(pods, func(p corev1.Pod) bool { return p.Name == name })
	if i < 0 {
		return ""
	}
	return wire.Unscheduled(&pods[i]).Message
}

func phaseOf(pods []corev1.Pod, name string) corev1.PodPhase {
	for _, p := range pods {
		if p.Name == name {
			return p.Status.Phase
		}
	}
	return ""
}

func (c *hollowCluster) pod(name string) *corev1.Pod {
	c.Helper()
	p, err := c.Client.CoreV1().Pods("default").Get(c.Context(), name, metav1.GetOptions{})
	c.must(err)
	return p
}

// awaitUnschedulable waits until the condition of a waiting pod has these words.
func (c *hollowCluster) awaitUnschedulable(name string, words ...string) {
	c.Helper()
	c.await(fmt.Sprintf("%s to be refused: %q", name, words), func(pods []corev1.Pod) bool {
		text := unschedulable(pods, name)
		return text != "" && !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) })
	})
}
