package e2e

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
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
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/deploy"
	"github.com/berth-dev/berth/internal/agent"
	"github.com/berth-dev/berth/internal/controlplane"
	"github.com/berth-dev/berth/internal/hollow"
	"github.com/berth-dev/berth/internal/kubeletstate"
	"github.com/berth-dev/berth/internal/offer"
	"github.com/berth-dev/berth/internal/scheduler"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/topology"
)

// hollowCluster is a real API server, hollow nodes with the kubelet's own managers, an agent for
// each, and a scheduler, each behind a wire of its own that can be made faulty. What kubelets do
// with pods is noted.
type hollowCluster struct {
	*testing.T
	// root is the test that the cluster belongs to; T may be a subtest.
	root   *testing.T
	kept   controlplane.Options // of cp
	cp     *controlplane.ControlPlane
	client kubernetes.Interface
	nodes  []*hollowNode
	wire   *faultyWire // the scheduler's
	sched  *schedulerProcess
	verb   string // that of the next scheduler; "" for schedulerVerb

	mu   sync.Mutex
	pods map[types.UID]*noted
}

// hollowNode is a node, its kubelet in a process of its own and its agent in ours.
type hollowNode struct {
	c       *hollowCluster
	spec    hollow.Spec
	dir     hollow.Dir
	proc    *hollow.Process
	kubelet *faultyWire
	agent   *faultyWire
	stop    func() // the agent
	// koordlet: the agent that starts next leaves it to koordlet to carry out what Berth decides.
	koordlet bool
}

// noted is what became of a pod.
type noted struct {
	name, node string
	ran        bool
	refused    string // the reason
	promised   bool
	exact      bool
	foreign    bool // bound by somebody else
	wrong      string
	// excused: what is wrong may come of the scheduler having been cut off when it decided.
	excused bool
}

// deafFor is how long a scheduler whose watches were cut may not have heard of a deletion: longer
// than a container takes to stop, which is what exact placements rest on (package ledger).
const deafFor = 15 * time.Second

// hollowStop is how long containers take to stop: longer than a fault delays anything.
const hollowStop = 3 * time.Second

func newHollowCluster(t *testing.T, nodes int) *hollowCluster {
	t.Helper()
	return newHollowClusterOn(t, nodes, controlplane.Options{Dir: shortDir(t)})
}

// newHollowClusterOn starts a cluster; change, if there is one, is made to each node.
func newHollowClusterOn(t *testing.T, nodes int, opts controlplane.Options, change ...func(*hollow.Spec)) *hollowCluster {
	t.Helper()
	begun := time.Now()
	dir := shortDir(t)
	c := &hollowCluster{T: t, root: t, kept: opts, pods: map[types.UID]*noted{}}
	c.startControlPlane()
	t.Cleanup(func() {
		if err := c.cp.Stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	c.must(c.cp.Apply(t.Context(), deploy.Manifests()...))
	var err error
	c.client, err = kubernetes.NewForConfig(c.cp.RESTConfig())
	c.must(err)
	for i := range nodes {
		spec := hollow.Spec{Name: fmt.Sprint("h", i), Machine: twoSockets, KubeletConfig: singleNUMA, StopTime: hollowStop}
		if len(change) > 0 {
			change[0](&spec)
		}
		c.nodes = append(c.nodes, c.addNode(dir, spec))
	}
	for _, n := range c.nodes {
		c.must(n.proc.WaitReady(t.Context(), c.client))
		n.startAgent()
	}
	c.watch()
	c.wire = c.newWire("system:kube-scheduler")
	c.startScheduler(nil)
	t.Logf("%d hollow nodes ready after %v", nodes, time.Since(begun).Round(10*time.Millisecond))
	return c
}

func (c *hollowCluster) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

// newWire makes a sound wire with the user's credentials.
func (c *hollowCluster) newWire(user string, groups ...string) *faultyWire {
	c.Helper()
	config, err := c.cp.UserConfig(user, groups)
	c.must(err)
	return newFaultyWireFor(c.T, config, func(*http.Request) fault { return noFault })
}

func (c *hollowCluster) addNode(dir string, spec hollow.Spec) *hollowNode {
	c.Helper()
	name := spec.Name
	n := &hollowNode{c: c, spec: spec, dir: hollow.Dir(filepath.Join(dir, name)), kubelet: c.newWire("system:node:"+name, "system:nodes")}
	n.start()
	c.Cleanup(func() {
		if c.Failed() {
			log, _ := os.ReadFile(n.dir.Log())
			c.Logf("log of node %s:\n%s", name, log[max(0, len(log)-3000):])
		}
		n.signal(syscall.SIGCONT)
		n.proc.Kill()
	})
	return n
}

// start starts the kubelet, for the first time or again.
func (n *hollowNode) start() {
	n.c.Helper()
	var err error
	n.proc, err = hollow.Launch(n.dir, &n.spec, n.kubelet.kubeconfig(n.c.T), nodeCommand)
	n.c.must(err)
}

// signal signals the kubelet.
func (n *hollowNode) signal(s syscall.Signal) { _ = syscall.Kill(n.proc.PID(), s) } // it may have ended

// startAgent starts the agent and waits for its first report.
func (n *hollowNode) startAgent() {
	n.c.Helper()
	client, err := n.c.cp.TokenConfig(n.c.Context(), leaseNamespace, "berth-agent", n.spec.Name)
	n.c.must(err)
	n.agent = newFaultyWireFor(n.c.root, client, func(*http.Request) fault { return noFault })
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		opts := agent.Options{Node: n.spec.Name, Client: &rest.Config{Host: n.agent.server.URL, QPS: -1}, Root: n.dir.Root(),
			Machine: n.spec.Machine, Log: slog.New(slog.DiscardHandler)}
		if n.spec.NRI {
			opts.Authority = v1alpha1.AuthorityBerth
			opts.Enforce = agent.EnforceOptions{NRISocket: n.dir.NRI(), Cgroups: n.dir.Cgroups()}
			opts.SpecDirs = []string{n.dir.CDI()}
		}
		if n.spec.Devices != "" {
			offers, err := offer.Read(n.spec.Name, []byte(n.spec.Devices))
			if err != nil {
				n.c.Errorf("devices of %s: %v", n.spec.Name, err)
			}
			opts.Devices = offers
			opts.Enforce.NRIVersion = "v0.12.3" // a test's binary does not know the versions of its modules
		}
		if n.koordlet {
			opts.Authority, opts.Enforcer = v1alpha1.AuthorityBerth, v1alpha1.EnforcerKoordlet
		}
		err := agent.Run(ctx, opts)
		if err != nil && ctx.Err() == nil {
			n.c.Errorf("agent of %s: %v", n.spec.Name, err)
		}
	}()
	n.stop = func() { cancel(); <-done }
	n.c.root.Cleanup(func() { n.stop() })
}

// watch notes what kubelets do with pods.
func (c *hollowCluster) watch() {
	ctx, cancel := context.WithCancel(context.Background())
	c.Cleanup(cancel)
	factory := informers.NewSharedInformerFactoryWithOptions(c.client, 0, informers.WithNamespace("default"))
	_, err := factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { c.note(obj.(*corev1.Pod)) }, UpdateFunc: func(_, obj any) { c.note(obj.(*corev1.Pod)) },
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
	n.node = pod.Spec.NodeName
	switch {
	case pod.Status.Phase == corev1.PodFailed && pod.Status.Reason != "" && pod.DeletionTimestamp == nil:
		n.refused = pod.Status.Reason
	case pod.Status.Phase == corev1.PodRunning && !n.ran:
		n.ran = true
		c.judge(n, pod)
	}
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
	if !n.exact {
		return
	}
	at := slices.IndexFunc(c.nodes, func(h *hollowNode) bool { return h.spec.Name == pod.Spec.NodeName })
	held := c.nodes[at].held()[string(pod.UID)]
	for i := range p.Decision.Containers {
		if got, there := held[p.Decision.Containers[i].Name]; there && got != p.Decision.Containers[i].CPUs {
			n.wrong = fmt.Sprintf("holds %s, promised %s", got, p.Decision.Containers[i].CPUs)
			n.excused = c.wire != nil && c.wire.sinceCut() < deafFor
		}
	}
}

// held returns what the kubelet's checkpoint says that containers hold, by pod UID; it fails the
// test when two hold the same CPU.
func (n *hollowNode) held() map[string]map[string]topology.CPUSet {
	state, err := kubeletstate.Read(os.DirFS(n.dir.Root()))
	if err != nil || state.CPU == nil {
		return nil // it is being written
	}
	var all topology.CPUSet
	out := map[string]map[string]topology.CPUSet{}
	for _, e := range state.CPU.Entries {
		if all.Intersects(&e.CPUs) {
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

// demandKept fails the test when a kubelet refused a pod that Berth placed, or gave it other CPUs
// than were promised.
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
		case n.wrong != "":
			sum.mispredicted++
			c.Errorf("%s on %s: %s", n.name, n.node, n.wrong)
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
	created, err := c.client.CoreV1().Pods("default").Create(c.Context(), p, metav1.CreateOptions{})
	c.must(err)
	return created
}

// on asks for the node by name, by way of the scheduler.
func onNode(p *corev1.Pod, node string) *corev1.Pod {
	p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node}
	return p
}

func (c *hollowCluster) delete(name string, grace *int64) {
	c.Helper()
	err := c.client.CoreV1().Pods("default").Delete(c.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: grace})
	if !apierrors.IsNotFound(err) {
		c.must(err)
	}
}

// await polls until done says so.
func (c *hollowCluster) await(what string, done func([]corev1.Pod) bool) {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.Context(), patience)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		list, err := c.client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
		if err == nil && done(list.Items) {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			c.demandKept()
			if list != nil {
				for _, p := range list.Items {
					c.Logf("%s on %q: %s %s %v", p.Name, p.Spec.NodeName, p.Status.Phase, p.Status.Reason, p.Status.Conditions)
				}
			}
			c.Fatalf("waited %v for %s", patience, what)
		}
	}
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

// clean deletes everything and demands that nothing is left: of pods, in the kubelets' books, in
// the scheduler's gauges.
func (c *hollowCluster) clean() {
	c.Helper()
	c.must(c.client.CoreV1().Pods("default").DeleteCollection(c.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
	c.await("no pods", func(pods []corev1.Pod) bool { return len(pods) == 0 })
	c.awaitGauges()
}

// awaitGauges waits until the scheduler counts nothing any more.
func (c *hollowCluster) awaitGauges() {
	c.Helper()
	left := ""
	defer func() { c.Log("gauges: ", left) }()
	c.await("gauges at 0", func([]corev1.Pod) bool {
		m, err := c.sched.metrics()
		if err != nil || len(m) == 0 {
			left = fmt.Sprint("no metrics: ", err)
			return false
		}
		left = ""
		for name, v := range m {
			for _, gauge := range []string{"berth_scheduler_in_flight_pods", "berth_scheduler_ending_pods", "berth_scheduler_waiting_pods"} {
				if strings.HasPrefix(name, gauge) && v != 0 {
					left += fmt.Sprint(name, " is ", v, "; ")
				}
			}
		}
		return left == ""
	})
	if left != "" {
		c.Error(left)
	}
}

// metrics returns Berth's metrics, by name with labels.
func (p *schedulerProcess) metrics() (map[string]float64, error) {
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	resp, err := client.Get(fmt.Sprintf("https://127.0.0.1:%d/metrics", p.port))
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	out := map[string]float64{}
	for line := range bytes.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(string(line)), " ")
		if v, err := strconv.ParseFloat(value, 64); err == nil && strings.HasPrefix(name, "berth_scheduler_") {
			out[name] = v
		}
	}
	return out, nil
}

// restartScheduler kills the scheduler and lets another one take over.
func (c *hollowCluster) restartScheduler(args *scheduler.Args) {
	c.Helper()
	c.sched.Kill()
	c.startScheduler(args)
}

func (c *hollowCluster) startScheduler(args *scheduler.Args) {
	c.Helper()
	c.sched = startSchedulerWith(c.root, cmp.Or(c.verb, schedulerVerb), c.wire.kubeconfig(c.T), args)
}
