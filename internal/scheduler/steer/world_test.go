package steer

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	resourceslicetracker "k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/berth-dev/berth/internal/claims"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
	"github.com/berth-dev/berth/topology/shapes"
)

// fakeBerth gives the answers that a test sets.
type fakeBerth struct {
	mode    claims.Mode
	modeErr error
	known   Known
	why     string
	ways    []Way
	decided Lying
	doubt   bool
	free    uint64
	refused int
	bound   []string
	waits   func()
	machine *topology.Machine
	// decides is set if Berth decides on the node. It then returns the ways.
	decides *decider

	mu    sync.Mutex
	kept  *placement.Claimed
	asked int
}

func (b *fakeBerth) Mode(*corev1.Pod) (claims.Mode, error) { return b.mode, b.modeErr }
func (b *fakeBerth) Sources() *claims.Sources              { return new(claims.DefaultSources()) }
func (b *fakeBerth) Machine(string) *topology.Machine      { return b.machine }
func (b *fakeBerth) Free(string) uint64                    { return b.free }
func (b *fakeBerth) Refused(fwk.CycleState)                { b.refused++ }
func (b *fakeBerth) Bound(m claims.Mode, a claims.Alignment) {
	b.bound = append(b.bound, m.String()+" "+a.String())
}
func (b *fakeBerth) Waits(*corev1.Pod, string)    { b.waits() }
func (b *fakeBerth) Doubtful(fwk.CycleState) bool { return b.doubt }

func (b *fakeBerth) Ways(_ fwk.CycleState, _ *corev1.Pod, _ fwk.NodeInfo, _ claims.Mode, stock func() *placement.Claimed) Ways {
	if b.decides != nil {
		return Ways{Known: Foreseen, All: b.decides.ways(stock)}
	}
	return Ways{Known: b.known, Why: b.why, All: func(yield func(Way) bool) {
		for _, w := range b.ways {
			b.asked++
			if !yield(w) {
				return
			}
		}
	}}
}

func (b *fakeBerth) Keep(_ fwk.CycleState, _ string, near *placement.Claimed) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.kept = near
}

func (b *fakeBerth) Decided(*corev1.Pod, string) (Lying, bool) {
	if b.decides != nil {
		return b.decides.lie(b.kept)
	}
	return b.decided, b.decided != nil
}

// world is a cluster of one node with the plugin.
type world struct {
	*testing.T
	*Plugin
	ctx    context.Context
	berth  *fakeBerth
	client *fake.Clientset
	clock  *testingclock.FakePassiveClock
	node   fwk.NodeInfo
}

const (
	node   = "n1"
	driver = "gpu.example.com"
	class  = "gpu"
)

func set(ids ...topology.NUMAID) topology.NUMASet { return topology.NewNUMASet(ids...) }

// at returns the only way of a pod whose container main is on these NUMA nodes.
func at(ids ...topology.NUMAID) []Way { return []Way{{Lying: Lying{"main": set(ids...)}}} }

// gpu returns a device on a NUMA node; on none if numa is negative.
func gpu(name string, numa int64) resourceapi.Device {
	d := resourceapi.Device{Name: name}
	if numa >= 0 {
		d.Attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{claims.StandardNUMANode: {IntValue: &numa}}
	}
	return d
}

func sliceOf(devices ...resourceapi.Device) *resourceapi.ResourceSlice {
	return &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "slice", UID: "slice", ResourceVersion: "1"},
		Spec: resourceapi.ResourceSliceSpec{
			Driver: driver, NodeName: new(node), Pool: resourceapi.ResourcePool{Name: node, ResourceSliceCount: 1}, Devices: devices,
		},
	}
}

// claim returns a claim with requests for one device of the class each.
func claim(name string, requests ...string) *resourceapi.ResourceClaim {
	c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}}
	for _, r := range requests {
		c.Spec.Devices.Requests = append(c.Spec.Devices.Requests, resourceapi.DeviceRequest{
			Name: r, Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: class, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1},
		})
	}
	return c
}

// allocatedTo allocates a device to a claim, and reserves the claim for pods.
func allocatedTo(c *resourceapi.ResourceClaim, device string, pods ...string) *resourceapi.ResourceClaim {
	c.Finalizers = []string{resourceapi.Finalizer}
	c.Status.Allocation = &resourceapi.AllocationResult{
		Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{{Request: "r", Driver: driver, Pool: node, Device: device}}},
		NodeSelector: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{
			{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node}},
		}}}},
	}
	for _, pod := range pods {
		c.Status.ReservedFor = append(c.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: pod, UID: types.UID(pod)})
	}
	return c
}

// podWith returns a pod whose container main uses claims.
func podWith(names ...string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "p"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main"}}}}
	for _, name := range names {
		pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, corev1.PodResourceClaim{Name: name, ResourceClaimName: &name})
		uses := &pod.Spec.Containers[0].Resources
		uses.Claims = append(uses.Claims, corev1.ResourceClaim{Name: name})
	}
	return pod
}

// newWorld returns a cluster with the objects.
func newWorld(t *testing.T, mode claims.Mode, ways []Way, objects ...runtime.Object) *world {
	t.Helper()
	metrics.Register()
	ctx, cancel := context.WithCancel(t.Context())
	m := shapes.Machine("package:2 numa:1 core:4 pu:2")
	w := &world{
		T: t, ctx: ctx, berth: &fakeBerth{mode: mode, known: Foreseen, ways: ways, machine: m}, clock: testingclock.NewFakePassiveClock(time.Unix(1000, 0)),
		client: fake.NewClientset(append(objects, &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: class}, Spec: resourceapi.DeviceClassSpec{ExtendedResourceName: new("example.com/gpu")}})...),
	}
	shared := informers.NewSharedInformerFactory(w.client, 0)
	resources := shared.Resource().V1()
	tracker, err := resourceslicetracker.StartTracker(ctx, resourceslicetracker.Options{SliceInformer: resources.ResourceSlices(), KubeClient: w.client})
	if err != nil {
		t.Fatal(err)
	}
	cached := assumecache.NewAssumeCache(klog.FromContext(ctx), resources.ResourceClaims().Informer(), "resource claim", "", nil)
	manager := dynamicresources.NewDRAManager(ctx, cached, tracker, shared)
	if byName, ok := manager.DeviceClassResolver().(cache.ResourceEventHandler); ok {
		if _, err := resources.DeviceClasses().Informer().AddEventHandler(byName); err != nil {
			t.Fatal(err)
		}
	}
	handle, err := frameworkruntime.NewFramework(ctx, nil, nil, frameworkruntime.WithClientSet(w.client), frameworkruntime.WithInformerFactory(shared),
		frameworkruntime.WithEventRecorder(events.NewFakeRecorder(100)), frameworkruntime.WithSharedDRAManager(manager))
	if err != nil {
		t.Fatal(err)
	}
	w.Plugin, err = New(ctx, nil, handle, Options{Berth: w.berth, Clock: w.clock, Features: feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)})
	if err != nil {
		t.Fatal(err)
	}
	shared.Start(ctx.Done())
	shared.WaitForCacheSync(ctx.Done())
	w.sync(manager, objects)
	w.until("changes are watched", func() bool { // a fake API server loses changes before that
		watched := map[string]bool{}
		for _, a := range w.client.Actions() {
			if a.GetVerb() == "watch" {
				watched[a.GetResource().Resource] = true
			}
		}
		return watched["resourceclaims"] && watched["resourceslices"]
	})
	info := framework.NewNodeInfo()
	info.SetNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}, Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8")}}})
	w.node = info
	t.Cleanup(func() {
		cancel()
		shared.Shutdown()
		frameworkruntime.WaitForShutdown(handle)
	})
	return w
}

// sync waits until the informers' caches have the objects.
func (w *world) sync(m fwk.SharedDRAManager, objects []runtime.Object) {
	w.Helper()
	want, taken := [2]int{}, map[structured.DeviceID]bool{}
	for _, o := range objects {
		switch o := o.(type) {
		case *resourceapi.ResourceClaim:
			want[0]++
			for i := 0; o.Status.Allocation != nil && i < len(o.Status.Allocation.Devices.Results); i++ {
				r := &o.Status.Allocation.Devices.Results[i]
				if r.ShareID == nil { // parts of devices are not listed
					taken[structured.MakeDeviceID(r.Driver, r.Pool, r.Device)] = true
				}
			}
		case *resourceapi.ResourceSlice:
			want[1]++
		}
	}
	w.until("the caches are filled", func() bool {
		c, err := m.ResourceClaims().List()
		s, wrong := m.ResourceSlices().ListWithDeviceTaintRules()
		k, missing := m.DeviceClasses().List()
		has, unread := m.ResourceClaims().ListAllAllocatedDevices()
		return unread == nil && len(has) == len(taken) && err == nil && wrong == nil && missing == nil && len(c) == want[0] && len(s) == want[1] && len(k) == 1 && m.DeviceClassResolver().GetDeviceClass("example.com/gpu") != nil
	})
}

// until waits for a cache that another goroutine fills.
func (w *world) until(what string, done func() bool) {
	w.Helper()
	err := wait.PollUntilContextTimeout(w.ctx, time.Millisecond, 30*time.Second, true, func(context.Context) (bool, error) { return done(), nil })
	if err != nil {
		w.Fatalf("%s: %v", what, err)
	}
}

// attempt calls PreFilter and Filter.
func (w *world) attempt(pod *corev1.Pod) (fwk.CycleState, *fwk.Status) {
	w.Helper()
	state := framework.NewCycleState()
	if _, status := w.PreFilter(w.ctx, state, pod, nil); !status.IsSuccess() {
		return state, status
	}
	return state, w.Filter(w.ctx, state, pod, w.node)
}

// place calls attempt and Reserve. Unless decided is set, the pod is placed according to the first
// way.
func (w *world) place(pod *corev1.Pod) (fwk.CycleState, *fwk.Status) {
	w.Helper()
	state, status := w.attempt(pod)
	if !status.IsSuccess() {
		return state, status
	}
	if w.berth.decided == nil && len(w.berth.ways) > 0 {
		w.berth.decided = w.berth.ways[0].Lying
		defer func() { w.berth.decided = nil }()
	}
	if status := w.Reserve(w.ctx, state, pod, node); !status.IsSuccess() {
		w.Unreserve(w.ctx, state, pod, node)
		return state, status
	}
	return state, nil
}

// has returns the devices that are allocated to a claim, in flight or written.
func (w *world) has(name string) string {
	w.Helper()
	tracker := w.handle.SharedDRAManager().ResourceClaims()
	c, err := tracker.Get("ns", name)
	if err != nil {
		w.Fatal(err)
	}
	a := c.Status.Allocation
	if pending := tracker.GetPendingAllocation(c.UID); pending != nil {
		a = pending
	}
	if a == nil {
		return ""
	}
	var out []string
	for _, r := range a.Devices.Results {
		out = append(out, r.Device)
	}
	return strings.Join(out, " ")
}

// stored returns a claim as the API server has it: its devices, and the number of pods for which it
// is reserved.
func (w *world) stored(name string) string {
	w.Helper()
	c, err := w.client.ResourceV1().ResourceClaims("ns").Get(w.ctx, name, metav1.GetOptions{})
	if err != nil {
		w.Fatal(err)
	}
	if c.Status.Allocation == nil {
		return fmt.Sprintf("none, %d", len(c.Status.ReservedFor))
	}
	return fmt.Sprintf("%s, %d", c.Status.Allocation.Devices.Results[0].Device, len(c.Status.ReservedFor))
}

func (w *world) want(what string, status *fwk.Status, text string) {
	w.Helper()
	switch {
	case text == "" && !status.IsSuccess():
		w.Errorf("%s: %v %s", what, status.Code(), status.Message())
	case text != "" && (status.IsSuccess() || !strings.Contains(status.Message(), text)):
		w.Errorf("%s: %v %q, want %q", what, status.Code(), status.Message(), text)
	}
}
