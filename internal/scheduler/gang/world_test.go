package gang

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/clock"

	sigs "github.com/berth-dev/berth/api/scheduling/sigs/v1alpha1"
	volcano "github.com/berth-dev/berth/api/scheduling/volcano/v1beta1"
	"github.com/berth-dev/berth/internal/gangfit"
	"github.com/berth-dev/berth/internal/gangs"
	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// world plays a scheduling queue, nodes and a framework for Groups. It runs in a synctest bubble,
// so that time passes whenever all goroutines wait. Requests of Groups, from any goroutine, are
// carried out between two steps of run.
type world struct {
	t      *testing.T
	groups *Groups
	// mu guards asks, waiting, objects, asked, listed and lists.
	mu   sync.Mutex
	asks []func()
	next func(klog.Logger) (*corev1.Pod, error)

	nodes    []*corev1.Node
	drivers  []string
	accounts map[string]*ledger.Node
	pods     map[types.UID]*corev1.Pod
	active   []types.UID
	idle     map[types.UID]bool // gated, or unschedulable
	waiting  map[types.UID]*waitingPod
	// refuse and breakBind are how often a member fails in Reserve and in Bind.
	refuse, breakBind map[string]int
	deleted           []string
	notes             *events.FakeRecorder
	// life counts the schedulers.
	life int
	// skew is how far the API server's clock is ahead. If noList is set, listing pods fails. lists
	// counts the attempts.
	skew   time.Duration
	noList bool
	lists  int
	// nameless means that Bindings have no annotation about gangs.
	nameless bool
	// listed are the pods as the API server lists them.
	listed  map[types.UID]*corev1.Pod
	objects map[wire.GangKey]wire.Gang
	// nominated has the nodes that are kept for members. budgets limit evictions. If slow is set,
	// deleted pods stay until they are removed.
	nominated map[string]string
	// hidden are the pods whose nominated node was removed from their status.
	hidden  []string
	budgets []*policyv1.PodDisruptionBudget
	slow    bool
	// pending are nodes that always wait for a report. told are pods whose status was written.
	pending map[string]bool
	told    []string
	// stood has each status that was written for an object. marked has a pod's name for each time
	// it got the wire.GangWholeCondition.
	stood  []standing
	marked []string
	// asked counts reads of objects, tried the attempts to plan. filtered and scored count the
	// nodes that the framework filtered and scored.
	asked, tried, filtered, scored int
	// queues are states of Volcano's queues by name.
	queues map[string]string
	// terms apply to all profiles. classes are PriorityClasses; standard is the name of the default
	// class, "" for standard.
	terms    Terms
	classes  map[string]int32
	standard string
	// why has the reasons why a pod was not tried, one for each attempt.
	why map[string][]string
	// shape is the ledger's shape of all pods, if they request the same; otherwise 0.
	shape ledger.Shape
	// kubelets admit bound pods, and report them a little later; nil in tests without kubelets.
	// turning counts members whose Bindings wait for their waves.
	kubelets map[string]*kubelet
	rng      *rand.Rand
	turning  int
}

type waitingPod struct {
	fwk.WaitingPod
	w    *world
	uid  types.UID
	node string
}

func (p *waitingPod) Allow(string) { p.leave(p.w.bind) }

func (p *waitingPod) Reject(string, string) bool {
	p.leave(p.w.fail)
	return true
}

// leave ends the pod's wait.
func (p *waitingPod) leave(by func(types.UID, string)) {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	if p.w.waiting[p.uid] == p {
		delete(p.w.waiting, p.uid)
		p.w.asks = append(p.w.asks, func() { by(p.uid, p.node) })
	}
}

// ask adds a function that run calls soon.
func (w *world) ask(do func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asks = append(w.asks, do)
}

// obey calls all functions that were added, and reports whether there were any.
func (w *world) obey() bool {
	for obeyed := false; ; obeyed = true {
		w.mu.Lock()
		asks := w.asks
		w.asks = nil
		w.mu.Unlock()
		if len(asks) == 0 {
			return obeyed
		}
		for _, do := range asks {
			do()
		}
	}
}

// waitsOn reports whether the pod waits in Permit for that node.
func (w *world) waitsOn(uid types.UID, node string) bool {
	p := w.waits(uid)
	return p != nil && p.node == node
}

// waits returns the pod if it waits in Permit.
func (w *world) waits(uid types.UID) *waitingPod {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.waiting[uid]
}

// fakeHandle is the framework as trials use it: nodes have CPUs.
type fakeHandle struct {
	fwk.Handle
	w *world
}

type lister struct {
	fwk.NodeInfoLister
	infos []fwk.NodeInfo
}

func (l lister) List() ([]fwk.NodeInfo, error) { return l.infos, nil }

type inTurns struct{}

func (inTurns) Until(_ context.Context, n int, do workqueue.DoWorkPieceFunc, _ string) {
	for i := range n {
		do(i)
	}
}

func (h *fakeHandle) SnapshotSharedLister() fwk.SharedLister {
	l := lister{}
	for _, n := range h.w.nodes {
		info := framework.NewNodeInfo()
		info.SetNode(n)
		for _, uid := range slices.Sorted(maps.Keys(h.w.pods)) {
			pod := h.w.pods[uid]
			if pod.Spec.NodeName == n.Name || h.w.waitsOn(pod.UID, n.Name) {
				body, err := framework.NewPodInfo(pod)
				if err != nil {
					h.w.t.Fatal(err)
				}
				info.AddPodInfo(body)
			}
		}
		l.infos = append(l.infos, info)
	}
	return sharedLister{nodes: l}
}

type sharedLister struct {
	fwk.SharedLister
	nodes lister
}

func (s sharedLister) NodeInfos() fwk.NodeInfoLister { return s.nodes }

// drivers lists the extended resources that DRA drivers provide.
type drivers struct {
	fwk.SharedDRAManager
	names []string
}

func (d drivers) DeviceClassResolver() fwk.DeviceClassResolver { return classes(d.names) }

type classes []string

func (c classes) GetDeviceClass(name corev1.ResourceName) *resourceapi.DeviceClass {
	if slices.Contains(c, string(name)) {
		return new(resourceapi.DeviceClass)
	}
	return nil
}

func (h *fakeHandle) SharedDRAManager() fwk.SharedDRAManager   { return drivers{names: h.w.drivers} }
func (h *fakeHandle) Parallelizer() fwk.Parallelizer           { return inTurns{} }
func (h *fakeHandle) DeleteNominatedPodIfExists(p *corev1.Pod) { delete(h.w.nominated, p.Name) }
func (h *fakeHandle) RunPreFilterExtensionAddPod(context.Context, fwk.CycleState, *corev1.Pod, fwk.PodInfo, fwk.NodeInfo) *fwk.Status {
	return nil
}

func (h *fakeHandle) RunPreFilterExtensionRemovePod(context.Context, fwk.CycleState, *corev1.Pod, fwk.PodInfo, fwk.NodeInfo) *fwk.Status {
	return nil
}

// unlocked fails the test if the groups' lock is not free. The scheduling queue calls PreEnqueue,
// which takes this lock, while it has its own lock.
func (w *world) unlocked(what string) {
	for range 50_000_000 { // others may have it for a while on a busy machine
		if w.groups.book.mu.TryLock() {
			w.groups.book.mu.Unlock()
			return
		}
		runtime.Gosched()
	}
	w.t.Errorf("%s is called with the lock held", what)
}

func (h *fakeHandle) AddNominatedPod(_ klog.Logger, p fwk.PodInfo, info *fwk.NominatingInfo) {
	h.w.unlocked("AddNominatedPod")
	h.w.nominated[p.GetPod().Name] = info.NominatedNodeName
}

func (h *fakeHandle) NominatedPodsForNode(node string) (out []fwk.PodInfo) {
	for _, name := range slices.Sorted(maps.Keys(h.w.nominated)) {
		if pod := h.w.pods[types.UID(name)]; pod != nil && pod.Spec.NodeName == "" && h.w.nominated[name] == node {
			body, err := framework.NewPodInfo(pod)
			h.w.must(err)
			out = append(out, body)
		}
	}
	return out
}
func (h *fakeHandle) RunPreFilterPlugins(context.Context, fwk.CycleState, *corev1.Pod) (*fwk.PreFilterResult, *fwk.Status, sets.Set[string]) {
	return nil, nil, nil
}

func (h *fakeHandle) RunFilterPlugins(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, info fwk.NodeInfo) *fwk.Status {
	h.w.filtered++
	if h.w.pending[info.Node().Name] {
		return fwk.NewStatus(fwk.Pending, "waiting for its next report")
	}
	if name := pod.Spec.NodeSelector[corev1.LabelHostname]; name != "" && name != info.Node().Name {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "is not "+name)
	}
	if info.GetRequested().GetMilliCPU()+sum(pod) > info.GetAllocatable().GetMilliCPU() {
		return fwk.NewStatus(fwk.Unschedulable, "Insufficient cpu")
	}
	return nil
}

func sum(pod *corev1.Pod) (milli int64) {
	for i := range pod.Spec.Containers {
		milli += pod.Spec.Containers[i].Resources.Requests.Cpu().MilliValue()
	}
	return milli
}

func (h *fakeHandle) RunPreScorePlugins(context.Context, fwk.CycleState, *corev1.Pod, []fwk.NodeInfo) *fwk.Status {
	return nil
}

func (h *fakeHandle) RunScorePlugins(_ context.Context, _ fwk.CycleState, _ *corev1.Pod, infos []fwk.NodeInfo) ([]fwk.NodePluginScores, *fwk.Status) {
	var out []fwk.NodePluginScores
	h.w.scored += len(infos)
	for _, n := range infos {
		out = append(out, fwk.NodePluginScores{Name: n.Node().Name})
	}
	return out, nil
}

const gangTimeout = 20 * time.Second

// inWorld runs a test with nodes that have 8 CPUs for pods, 4 on each NUMA node.
func inWorld(t *testing.T, nodes int, test func(*world)) {
	synctest.Test(t, func(t *testing.T) {
		test(newWorld(t, nodes))
		synctest.Wait()
	})
}

func newWorld(t *testing.T, nodes int) *world {
	w := &world{t: t, accounts: map[string]*ledger.Node{}, pods: map[types.UID]*corev1.Pod{}, idle: map[types.UID]bool{},
		waiting: map[types.UID]*waitingPod{}, refuse: map[string]int{}, breakBind: map[string]int{}, notes: events.NewFakeRecorder(1000), nominated: map[string]string{}, why: map[string][]string{}}
	w.addNodes(nodes)
	w.begin()
	return w
}

// begin starts a scheduler. Requests of an earlier one are ignored from now on.
func (w *world) begin() {
	w.life++
	life := w.life
	alive := func(do func()) func() {
		return func() {
			if w.life == life {
				do()
			}
		}
	}
	client := fake.NewClientset()
	client.PrependReactor("delete", "pods", func(a clienttesting.Action) (bool, kruntime.Object, error) {
		name := a.(clienttesting.DeleteAction).GetName()
		w.ask(alive(func() {
			w.deleted = append(w.deleted, name)
			if w.slow {
				w.leave(name)
			} else {
				w.remove(name)
			}
		}))
		return true, nil, nil
	})
	client.PrependReactor("list", "priorityclasses", func(clienttesting.Action) (bool, kruntime.Object, error) {
		list := &schedulingv1.PriorityClassList{}
		for name, value := range w.classes {
			policy := corev1.PreemptLowerPriority
			if name == "never" {
				policy = corev1.PreemptNever
			}
			list.Items = append(list.Items, schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value, GlobalDefault: name == cmp.Or(w.standard, "standard"), PreemptionPolicy: &policy})
		}
		return true, list, nil
	})
	client.PrependReactor("list", "pods", func(clienttesting.Action) (bool, kruntime.Object, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.lists++; w.noList {
			return true, nil, apierrors.NewTooManyRequestsError("not now")
		}
		list := &corev1.PodList{}
		for _, uid := range slices.Sorted(maps.Keys(w.listed)) {
			list.Items = append(list.Items, *w.listed[uid])
		}
		return true, list, nil
	})
	client.PrependReactor("patch", "pods", func(a clienttesting.Action) (bool, kruntime.Object, error) {
		patch := a.(clienttesting.PatchAction)
		w.ask(alive(func() { w.toldOf(patch.GetName(), patch.GetPatch()) }))
		return true, &corev1.Pod{}, nil
	})
	w.groups = New(Options{
		Clock: clock.RealClock{}, Logger: klog.Background(), Timeout: gangTimeout, Client: client, Events: w.notes,
		Budgets: func() ([]*policyv1.PodDisruptionBudget, error) { return w.budgets, nil },
		Activate: func(pods map[string]*corev1.Pod) {
			w.unlocked("Activate")
			w.ask(alive(w.activate(pods)))
		},
		Forgo: func(pod *corev1.Pod, node string) {
			w.unlocked("Forgo")
			if w.nominated[pod.Name] == node {
				delete(w.nominated, pod.Name)
			}
		},
		Ours: func(name string) bool { return name != "other" }, Terms: w.termsOf,
		Waiting: func(uid types.UID) fwk.WaitingPod {
			w.unlocked("GetWaitingPod")
			if p := w.waits(uid); p != nil {
				return p
			}
			return nil
		},
	})
	if w.objects != nil {
		w.groups.book.Objects = w
	}
	w.next = Follow(w.groups, w.pop, w.take)
	for _, pod := range w.pods {
		w.groups.PodSeen(pod)
	}
	w.groups.Synced()
}

// keep makes the API server list the pods as they are now.
func (w *world) keep() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.listed = maps.Clone(w.pods)
}

// toldOf makes the watch show a pod whose PodScheduled condition was written.
func (w *world) toldOf(name string, patch []byte) {
	pod := w.pods[types.UID(name)]
	var read struct{ Status corev1.PodStatus }
	w.must(json.Unmarshal(patch, &read))
	if bytes.Contains(patch, []byte(`"nominatedNodeName":null`)) {
		w.hidden = append(w.hidden, name)
	}
	if len(read.Status.Conditions) == 1 && read.Status.Conditions[0].Type == wire.GangWholeCondition {
		w.marked = append(w.marked, name) // the watch does not show it
	}
	if pod == nil || len(read.Status.Conditions) != 1 || read.Status.Conditions[0].Type != corev1.PodScheduled {
		return
	}
	w.told = append(w.told, name+": "+read.Status.Conditions[0].Message)
	pod = pod.DeepCopy()
	pod.Status.Conditions = read.Status.Conditions
	w.pods[pod.UID] = pod
	w.groups.PodSeen(pod)
}

// Want implements Objects.
func (w *world) Want(wire.GangSource) {}

// Read implements Objects.
func (w *world) Read(_ context.Context, key wire.GangKey) (wire.Gang, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked++
	spec, ok := w.objects[key]
	if !ok {
		return wire.Gang{}, apierrors.NewNotFound(sigs.PodGroups.GroupResource(), key.Name)
	}
	return spec, nil
}

// QueueState implements Objects.
func (w *world) QueueState(_ context.Context, queue string) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.queues[queue], nil
}

// JobOf implements Objects. The name of a Job is its scheduler's, then "/" and the class of its
// pods.
func (w *world) JobOf(_ context.Context, _, job string) (Job, error) {
	scheduler, class, _ := strings.Cut(job, "/")
	return Job{Scheduler: scheduler, Classes: []string{class}}, nil
}

// Write implements Objects.
func (w *world) Write(_ context.Context, key wire.GangKey, s standing) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	spec := w.objects[key]
	spec.Phase = string(s.phase)
	w.objects[key] = spec
	w.stood = append(w.stood, s)
	return spec.Version, nil
}

// restart stops the scheduler, and starts another one. Requests of the stopped one are ignored.
func (w *world) restart() {
	w.mu.Lock()
	w.turning = 0
	w.active, w.waiting, w.asks = nil, map[types.UID]*waitingPod{}, nil
	w.mu.Unlock()
	for uid, pod := range w.pods {
		if pod.Spec.NodeName == "" {
			w.idle[uid] = true
		}
	}
	w.begin()
	for uid := range w.pods {
		w.tryActivate(uid)
	}
}

func (w *world) addNodes(n int) {
	m, err := topology.Parse("package:2 numa:1 core:2 pu:2 mem:16Gi")
	w.must(err)
	view, err := placement.ViewOf(m)
	w.must(err)
	model, err := placement.NewModel(view, placement.Config{CPUManagerPolicy: "static", ReservedSystemCPUs: "0", TopologyManagerPolicy: "single-numa-node"})
	w.must(err)
	var all ledger.Ledger
	for range n {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n", len(w.nodes))}}
		node.Labels = map[string]string{corev1.LabelHostname: node.Name}
		node.Status.Allocatable = corev1.ResourceList{"cpu": resource.MustParse("7"), "memory": resource.MustParse("30Gi"), "pods": resource.MustParse("100")}
		w.nodes = append(w.nodes, node)
		snap := model.NewState().Snapshot()
		r, err := ledger.NewReport(1, model, &snap, nil)
		w.must(err)
		w.accounts[node.Name] = all.Open(nil)
		w.accounts[node.Name].Accept(r)
	}
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// podOf makes a pod of a gang of annotated pods.
func podOf(gang, name string, minimum, cpus int) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name), CreationTimestamp: metav1.Now(),
		Annotations: map[string]string{wire.GangAnnotation: gang, wire.GangMinimumAnnotation: fmt.Sprint(minimum)}}}
	list := corev1.ResourceList{"cpu": resource.MustParse(fmt.Sprint(cpus)), "memory": resource.MustParse("64Mi")}
	p.Spec.Containers = []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Limits: list, Requests: list}}}
	return p
}

// add creates a gang of equal members.
func (w *world) add(gang string, count, minimum, cpus int) {
	for i := range count {
		w.create(podOf(gang, fmt.Sprintf("%s-%d", gang, i), minimum, cpus))
	}
}

// create makes the watch show a pod, to the groups and to the queue.
func (w *world) create(pod *corev1.Pod) {
	w.pods[pod.UID] = pod
	w.idle[pod.UID] = true
	w.groups.PodSeen(pod)
	w.tryActivate(pod.UID)
}

func (w *world) remove(name string) {
	pod := w.pods[types.UID(name)]
	if pod == nil {
		return
	}
	delete(w.pods, pod.UID)
	delete(w.idle, pod.UID)
	w.active = slices.DeleteFunc(w.active, func(u types.UID) bool { return u == pod.UID })
	if pod.Spec.NodeName != "" {
		w.accounts[pod.Spec.NodeName].Forget(string(pod.UID))
		w.release(pod)
	}
	w.groups.PodGone(pod)
	w.groups.Stir()
}

// activate returns the function that makes the queue try the pods again.
func (w *world) activate(pods map[string]*corev1.Pod) func() {
	uids := make([]types.UID, 0, len(pods))
	for _, pod := range pods {
		uids = append(uids, pod.UID)
	}
	return func() {
		for _, uid := range uids {
			w.tryActivate(uid)
		}
	}
}

func (w *world) tryActivate(uid types.UID) {
	if w.idle[uid] && w.groups.PreEnqueue(w.pods[uid]) == nil {
		delete(w.idle, uid)
		w.active = append(w.active, uid)
	}
}

func (w *world) pop(klog.Logger) (*corev1.Pod, error) {
	if len(w.active) == 0 {
		return nil, nil
	}
	uid := w.active[0]
	w.active = w.active[1:]
	return w.pods[uid], nil
}

func (w *world) take(_ klog.Logger, pod *corev1.Pod) *corev1.Pod {
	w.tryActivate(pod.UID)
	i := slices.Index(w.active, pod.UID)
	if i < 0 {
		return nil
	}
	w.active = slices.Delete(w.active, i, i+1)
	return w.pods[pod.UID]
}

// run lets the scheduler work, until nothing changes for d.
func (w *world) run(d time.Duration) {
	until := time.Now().Add(d)
	for {
		w.obey()
		pod, _ := w.next(klog.Background())
		if pod != nil {
			w.cycle(pod)
			continue
		}
		w.keep()
		synctest.Wait()
		if w.obey() || len(w.active) > 0 || len(w.groups.following) > 0 {
			continue
		}
		if !time.Now().Before(until) {
			return
		}
		time.Sleep(50 * time.Millisecond)
		synctest.Wait()
	}
}

func (w *world) profile() Profile {
	return Profile{Handle: &fakeHandle{w: w}, BestFirst: func(fwk.CycleState, []fwk.NodeInfo) []int { return nil },
		Candidate: func(pod *corev1.Pod) (*ledger.Candidate, error) {
			ask, err := wire.ReadPod(pod)
			return &ledger.Candidate{Request: &ask.Request, Created: pod.CreationTimestamp.Unix(), Shape: w.shape}, err
		},
		Account: func(node string) *ledger.Node { return w.accounts[node] },
		Check:   wire.CheckPlacement,
	}
}

func (w *world) termsOf(string) Terms {
	t := w.terms
	t.Admission.FillIn()
	return t
}

// there returns the nodes' capacity and the requests of their pods, as the watches show them.
func (w *world) there() (*gangfit.Room, error) {
	return gangs.RoomOn(w.nodes, slices.Collect(maps.Values(w.pods)), w.groups.Occupant), nil
}

// cycle plays one scheduling cycle.
func (w *world) cycle(pod *corev1.Pod) {
	w.tried++
	turn := w.groups.PreFilter(w.t.Context(), w.profile(), pod)
	switch {
	case turn.Held != nil:
		w.why[pod.Name] = append(w.why[pod.Name], turn.Held.Message())
		w.idle[pod.UID] = true
		if node := w.groups.Nominated(pod.UID); node != "" { // by PostFilter
			w.nominated[pod.Name] = node
		}
	case turn.Node == "":
		w.alone(pod)
	case w.refuse[pod.Name] > 0:
		w.refuse[pod.Name]--
		w.fail(pod.UID, turn.Node)
	default:
		if s := w.groups.Reserve(pod, turn.Node, w.accounts[turn.Node]); s != nil {
			w.fail(pod.UID, turn.Node)
			return
		}
		w.permit(pod, turn.Node)
	}
}

func (w *world) permit(pod *corev1.Pod, node string) {
	switch s, _ := w.groups.Permit(pod); {
	case s.IsWait():
		w.mu.Lock()
		w.waiting[pod.UID] = &waitingPod{w: w, uid: pod.UID, node: node}
		w.mu.Unlock()
	case s != nil:
		w.fail(pod.UID, node)
	default:
		w.bind(pod.UID, node)
	}
}

// alone places a pod that does not wait for others.
func (w *world) alone(pod *corev1.Pod) {
	c, err := w.profile().Candidate(pod)
	w.must(err)
	if w.refuse[pod.Name] > 0 {
		w.idle[pod.UID] = true
		return
	}
	for _, n := range w.nodes {
		var d placement.Decision
		if a := w.accounts[n.Name].Reserve(c, &d); a.OK() {
			w.bind(pod.UID, n.Name)
			return
		}
	}
	w.idle[pod.UID] = true
}

func (w *world) fail(uid types.UID, node string) {
	w.accounts[node].Forget(string(uid))
	w.idle[uid] = true
	w.groups.Failed(uid, "it failed")
	w.tryActivate(uid)
}

func (w *world) bind(uid types.UID, node string) {
	pod := w.pods[uid]
	if pod == nil {
		return
	}
	if !w.accounts[node].View().Due(string(uid)) {
		w.turn(uid, node, w.groups.AwaitTurn)
		return
	}
	if p, at := w.groups.book.find(uid); at != nil && p.last == at && len(p.places) > 1 {
		w.turn(uid, node, w.groups.AwaitTurn)
		return
	}
	if w.breakBind[pod.Name] > 0 {
		w.breakBind[pod.Name]--
		w.fail(uid, node)
		return
	}
	if !w.accounts[node].View().Holds(string(uid)) {
		w.t.Errorf("pod %s is bound to %s, and nothing is reserved there", pod.Name, node)
	}
	bound := pod.DeepCopy()
	bound.Spec.NodeName = node
	if text := wire.WriteBoundFor(pod, w.groups.BoundFor(uid)); text != "" && !w.nameless {
		metav1.SetMetaDataAnnotation(&bound.ObjectMeta, wire.BoundForAnnotation, text)
	}
	if !w.post(bound) {
		w.fail(uid, node)
		return
	}
	bound.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(time.Now().Add(w.skew))}}
	w.pods[uid] = bound
	w.groups.Bound(uid, node)
	w.groups.PodSeen(bound)
}

// bound counts the bound pods of a gang.
func (w *world) bound(gang string) (n int) {
	for _, pod := range w.pods {
		if strings.HasPrefix(pod.Name, gang+"-") && pod.Spec.NodeName != "" {
			n++
		}
	}
	return n
}

// held counts the places that are used in all ledgers.
func (w *world) held() (n int) {
	for _, a := range w.accounts {
		c := a.View().Census()
		n += c.Reserved + c.Posted
	}
	for _, k := range w.kubelets {
		n += len(k.listed)
	}
	return n
}

func (w *world) want(gang string, bound, held int) {
	w.t.Helper()
	if b, h := w.bound(gang), w.held(); b != bound || h != held {
		w.t.Errorf("%s: %d members bound, %d places held: want %d and %d", gang, b, h, bound, held)
	}
}

// end removes all pods of a gang.
func (w *world) end(gang string) {
	for _, uid := range slices.Sorted(maps.Keys(w.pods)) {
		if strings.HasPrefix(string(uid), gang+"-") {
			w.remove(string(uid))
		}
	}
}

// leave makes the watch show that a pod is being deleted. Its node keeps the pod's resources.
func (w *world) leave(name string) {
	pod := w.pods[types.UID(name)].DeepCopy()
	pod.DeletionTimestamp = new(metav1.Time)
	*pod.DeletionTimestamp = metav1.Now()
	w.pods[pod.UID] = pod
	w.groups.PodSeen(pod)
	w.groups.Stir()
}

// said returns all events so far.
func (w *world) said() string {
	var out []string
	for {
		select {
		case text := <-w.notes.Events:
			out = append(out, text)
		default:
			return strings.Join(out, "\n")
		}
	}
}

// stands returns the standing of a PodGroup of scheduler-plugins.
func (w *world) stands(name string) standing {
	w.groups.book.mu.Lock()
	defer w.groups.book.mu.Unlock()
	w.groups.teller.mu.Lock()
	defer w.groups.teller.mu.Unlock()
	return w.groups.book.groups[sigsKey(name)].standing()
}

// taskOf returns a pod of a PodGroup of Volcano.
func taskOf(group, name, task string) *corev1.Pod {
	p := podOf(group, name, 1, 2)
	p.Annotations = map[string]string{volcano.GroupNameAnnotation: group, volcano.TaskSpecAnnotation: task}
	return p
}

// wantState checks the state of the only gang.
func (w *world) wantState(want gangs.Stage) {
	w.t.Helper()
	if got := w.groups.Count(); got[want] != 1 {
		w.t.Errorf("gangs by state: %v, want one %s", got, want)
	}
}

// report makes every node report its new pods.
func (w *world) report() {
	for _, n := range w.nodes {
		account := w.accounts[n.Name]
		before := account.View().Report()
		snap, ok := account.View().Snapshot()
		if !ok {
			w.t.Fatalf("node %s cannot be told apart", n.Name)
		}
		r, err := ledger.NewReport(before.Sequence+1, before.Model, &snap, nil)
		w.must(err)
		account.Accept(r)
	}
	w.groups.Stir()
}
