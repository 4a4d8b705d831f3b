package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	ctrl "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/test/sim"
	"github.com/berth-dev/berth/topology"
)

// fleet has nodes with the engine as their kubelets. They admit the pods of the API server's watch
// in order, one after the other, and report late. They are cheaper than hollow nodes, and a test
// can make them slow or silent.
type fleet struct {
	t      *testing.T
	client kubernetes.Interface
	crs    ctrl.Client
	// reportDelay is the time from a change to its report; stopTime is how long containers take to
	// stop.
	reportDelay, stopTime time.Duration

	mu       sync.Mutex
	nodes    map[string]*simNode
	outcomes map[types.UID]outcome
	wg       sync.WaitGroup
}

// outcome has a kubelet's decision about a pod, and the promise.
type outcome struct {
	name     string
	verdict  placement.Verdict
	promised bool
	exact    bool
	same     bool
	detail   string
}

// simNode is one node; its goroutine owns everything but inbox and dirty.
type simNode struct {
	f       *fleet
	name    string
	spec    wire.NodeSpec
	kubelet *sim.Kubelet
	inbox   chan podEvent
	seq     int64

	fails map[string]bool // refused pods, by UID
	mute  chan bool       // stops the agent; after the send no report is being published
}

type podEvent struct {
	pod *corev1.Pod
	// stopped means that the containers of the pod have been stopped.
	stopped bool
}

// newFleet makes nodes of the machine and configuration.
func newFleet(t *testing.T, cfg *controlplaneClients, specs map[string]nodeSpec) *fleet {
	t.Helper()
	f := &fleet{t: t, client: cfg.client, crs: cfg.crs, reportDelay: 50 * time.Millisecond, stopTime: 200 * time.Millisecond,
		nodes: map[string]*simNode{}, outcomes: map[types.UID]outcome{}}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() { cancel(); f.wg.Wait() })
	for name, s := range specs {
		f.addNode(ctx, name, s)
	}
	f.watch(ctx)
	return f
}

type nodeSpec struct {
	machine string
	config  placement.Config
}

func (f *fleet) addNode(ctx context.Context, name string, s nodeSpec) {
	f.t.Helper()
	m, err := topology.Parse(s.machine)
	f.must(err)
	view, err := placement.ViewOf(m)
	f.must(err)
	model, err := placement.NewModel(view, s.config)
	f.must(err)
	n := &simNode{f: f, name: name, kubelet: sim.NewKubelet(model), inbox: make(chan podEvent, 4096),
		spec:  wire.NodeSpec{Machine: m, View: view, Config: s.config, Authority: v1alpha1.AuthorityKubelet, KubeletVersion: "v1.36.3"},
		fails: map[string]bool{}, mute: make(chan bool)}
	f.createNode(name, m)
	f.nodes[name] = n
	f.must(n.publish(ctx))
	f.must(n.beat(ctx))
	f.wg.Add(1)
	go func() { defer f.wg.Done(); n.run(ctx) }()
}

func (f *fleet) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *fleet) createNode(name string, m *topology.Machine) {
	f.t.Helper()
	memory := uint64(0)
	for _, n := range m.NUMANodes {
		memory += n.MemoryBytes
	}
	amounts := corev1.ResourceList{
		corev1.ResourceCPU: *resource.NewQuantity(int64(m.Online.Len()), resource.DecimalSI), corev1.ResourceMemory: *resource.NewQuantity(int64(memory), resource.BinarySI),
		corev1.ResourcePods: resource.MustParse("500"),
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/hostname": name}}}
	created, err := f.client.CoreV1().Nodes().Create(f.t.Context(), node, metav1.CreateOptions{})
	f.must(err)
	created.Status = corev1.NodeStatus{Capacity: amounts, Allocatable: amounts, Conditions: []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "Test", LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now()}}}
	_, err = f.client.CoreV1().Nodes().UpdateStatus(f.t.Context(), created, metav1.UpdateOptions{})
	f.must(err)
}

// watch passes every pod to its node in the order of the API server's writes.
func (f *fleet) watch(ctx context.Context) {
	list, err := f.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	f.must(err)
	w, err := f.client.CoreV1().Pods(metav1.NamespaceAll).Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	f.must(err)
	f.wg.Add(1)
	go func() {
		defer f.wg.Done()
		defer w.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case ev, ok := <-w.ResultChan():
				if !ok {
					return
				}
				if pod, ok := ev.Object.(*corev1.Pod); ok && f.nodes[pod.Spec.NodeName] != nil {
					f.nodes[pod.Spec.NodeName].inbox <- podEvent{pod: pod, stopped: ev.Type == "DELETED" && pod.DeletionTimestamp == nil}
				}
			}
		}
	}()
}

// run is the kubelet's sync loop and the agent in one.
func (n *simNode) run(ctx context.Context) {
	var report <-chan time.Time
	beat := time.NewTicker(500 * time.Millisecond)
	defer beat.Stop()
	muted := false
	for {
		select {
		case <-ctx.Done():
			return
		case muted = <-n.mute:
			if !muted {
				n.complain(ctx, n.publish(ctx))
			}
		case <-beat.C:
			if !muted {
				n.complain(ctx, n.beat(ctx))
			}
		case e := <-n.inbox:
			if n.take(ctx, e) && report == nil {
				report = time.After(n.f.reportDelay)
			}
		case <-report:
			report = nil
			if !muted {
				n.complain(ctx, n.publish(ctx))
			}
		}
	}
}

func (n *simNode) complain(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		n.f.t.Errorf("node %s: %v", n.name, err)
	}
}

// take handles one event and reports whether the allocations changed.
func (n *simNode) take(ctx context.Context, e podEvent) bool {
	uid := string(e.pod.UID)
	switch {
	case e.stopped:
		if n.kubelet.Active(uid) != nil && !n.kubelet.Ended(uid) {
			n.kubelet.End(uid)
			n.remove(ctx, e.pod)
			return true
		}
	case e.pod.DeletionTimestamp != nil:
		if n.kubelet.Active(uid) == nil {
			n.remove(ctx, e.pod)
		} else if !n.kubelet.Ended(uid) {
			pod := e.pod
			time.AfterFunc(n.f.stopTime, func() { n.inbox <- podEvent{pod: pod, stopped: true} })
		}
	case n.kubelet.Active(uid) == nil && !n.fails[uid] && e.pod.Status.Phase == corev1.PodPending:
		n.admit(ctx, e.pod)
		return true
	}
	return false
}

func (n *simNode) admit(ctx context.Context, pod *corev1.Pod) {
	ask, err := wire.ReadPod(pod)
	n.complain(ctx, err)
	a := n.kubelet.Admit(&ask.Request)
	n.record(pod, a.Verdict, &a.Decision)
	phase, reason := corev1.PodRunning, ""
	if !a.Verdict.OK() {
		n.fails[ask.Request.UID] = true
		phase, reason = corev1.PodFailed, a.Verdict.Reason.String()
	}
	n.setPhase(ctx, pod, phase, reason)
}

// record compares the kubelet's decision with the promise.
func (n *simNode) record(pod *corev1.Pod, v placement.Verdict, d *placement.Decision) {
	o := outcome{name: pod.Name, verdict: v}
	p, found, err := wire.ReadPlacement(pod)
	if err != nil {
		n.f.t.Errorf("pod %s: %v", pod.Name, err)
	}
	if found {
		o.promised, o.exact = true, p.Certainty == wire.Exact
		o.same = v.OK() && ledger.Same(&p.Decision, d)
		o.detail = fmt.Sprintf("node %s turn %d report %d: promised %+v, found %+v", n.name, p.Sequence, p.Report, p.Decision.Containers, d.Containers)
	}
	n.f.mu.Lock()
	defer n.f.mu.Unlock()
	n.f.outcomes[pod.UID] = o
}

func (n *simNode) setPhase(ctx context.Context, pod *corev1.Pod, phase corev1.PodPhase, reason string) {
	patch, _ := json.Marshal(map[string]any{"status": map[string]any{"phase": phase, "reason": reason}})
	_, err := n.f.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	if !apierrors.IsNotFound(err) {
		n.complain(ctx, err)
	}
}

func (n *simNode) remove(ctx context.Context, pod *corev1.Pod) {
	err := n.f.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: new(int64), Preconditions: &metav1.Preconditions{UID: &pod.UID}})
	if !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		n.complain(ctx, err)
	}
}

func (n *simNode) publish(ctx context.Context) error {
	n.seq++
	report := wire.Report{Sequence: n.seq, Observed: time.Now(), Snapshot: n.kubelet.State.Snapshot(), Conditions: []metav1.Condition{{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: "Reported", LastTransitionTime: metav1.Now()}}}
	report.Pods = make([]wire.ReportedPod, len(report.Snapshot.Pods))
	for i, p := range report.Snapshot.Pods {
		if n.kubelet.Ended(p.UID) {
			report.Pods[i].State = v1alpha1.PodEnded
		}
	}
	nt, err := wire.WriteNodeTopology(&wire.Node{Name: n.name, Spec: n.spec, Report: report})
	if err != nil {
		return err
	}
	return n.f.replace(ctx, nt)
}

func (f *fleet) replace(ctx context.Context, nt *v1alpha1.NodeTopology) error {
	var old v1alpha1.NodeTopology
	err := f.crs.Get(ctx, ctrl.ObjectKey{Name: nt.Name}, &old)
	if apierrors.IsNotFound(err) {
		return f.crs.Create(ctx, nt)
	}
	if err != nil {
		return err
	}
	nt.ResourceVersion = old.ResourceVersion
	return f.crs.Update(ctx, nt)
}

// leaseNamespace is the namespace of the agents' heartbeats.
const leaseNamespace = v1alpha1.HeartbeatNamespace

func (n *simNode) beat(ctx context.Context) error {
	now := metav1.NowMicro()
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"renewTime": now}})
	if err != nil {
		return err
	}
	leases := n.f.client.CoordinationV1().Leases(leaseNamespace)
	_, err = leases.Patch(ctx, v1alpha1.HeartbeatName(n.name), types.MergePatchType, patch, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.HeartbeatName(n.name)}, Spec: coordinationv1.LeaseSpec{RenewTime: &now}}
		_, err = leases.Create(ctx, lease, metav1.CreateOptions{})
	}
	return err
}

// tally counts the kubelets' decisions.
type tally struct{ admitted, refused, promised, exact, mispredicted int }

func (f *fleet) tally() (sum tally, wrong []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, o := range f.outcomes {
		if o.promised {
			sum.promised++
		}
		switch {
		case !o.verdict.OK():
			sum.refused++
			wrong = append(wrong, fmt.Sprintf("%s refused: %+v: %s", o.name, o.verdict, o.detail))
		case o.exact && !o.same:
			sum.admitted++
			sum.mispredicted++
			wrong = append(wrong, fmt.Sprintf("%s mispredicted: %s", o.name, o.detail))
		default:
			sum.admitted++
		}
		if o.exact {
			sum.exact++
		}
	}
	return sum, wrong
}

// demandNoSurprise fails the test if a pod was refused or a prediction was wrong.
func (f *fleet) demandNoSurprise() tally {
	f.t.Helper()
	sum, wrong := f.tally()
	for _, w := range wrong {
		f.t.Error(w)
	}
	f.t.Logf("%+v", sum)
	return sum
}
