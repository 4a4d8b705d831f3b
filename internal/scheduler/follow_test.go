package scheduler

import (
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	resourceslicetracker "k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"
	"k8s.io/utils/clock"

	dra "github.com/berth-dev/berth/internal/claims"
	"github.com/berth-dev/berth/internal/scheduler/steer"
	"github.com/berth-dev/berth/topology"
)

// TestCPUsFollowClaimedDevices runs both plugins and kube-scheduler's allocator, from Filter to
// Reserve, on a node on which Berth decides.
func TestCPUsFollowClaimedDevices(t *testing.T) {
	metrics.Register()
	for name, c := range map[string]struct {
		devices []int64 // their NUMA nodes
		count   int64
		how     string
		before  int64 // CPUs of a pod that is on NUMA node 1
		want    topology.NUMASet
	}{
		"the only device":                  {[]int64{1}, 1, "required", 0, topology.NewNUMASet(1)},
		"a device on each":                 {[]int64{0, 1}, 2, "required", 0, topology.NewNUMASet(0, 1)},
		"a device on each, near":           {[]int64{0, 1}, 2, "near", 0, topology.NewNUMASet(0)},
		"no CPUs are left near it":         {[]int64{1}, 1, "required", 8, 0},
		"no CPUs are left near it, near":   {[]int64{1}, 1, "near", 8, topology.NewNUMASet(0)},
		"there is no device":               {nil, 1, "required", 0, 0},
		"the first of two that are enough": {[]int64{1, 0, 0}, 1, "required", 0, topology.NewNUMASet(0)},
	} {
		t.Run(name, func(t *testing.T) {
			f, h := steered(t)
			f.obeys()
			if c.before > 0 {
				other := pinned("other", c.before)
				if state := f.try(other); !f.Reserve(t.Context(), state, other, "n").IsSuccess() {
					t.Fatal("no room for another pod")
				}
			}
			claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "gpu", Namespace: "default", UID: "gpu", ResourceVersion: "1"}, Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{
				Requests: []resourceapi.DeviceRequest{{Name: "r", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: c.count}}}}}}
			slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "slice", ResourceVersion: "1"}, Spec: resourceapi.ResourceSliceSpec{
				Driver: "gpu.example.com", NodeName: new("n"), Pool: resourceapi.ResourcePool{Name: "n", ResourceSliceCount: 1}}}
			for i, numa := range c.devices {
				slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{Name: string(rune('a' + i)), Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{dra.StandardNUMANode: {IntValue: &numa}}})
			}
			pod := insisting(pinned("x", 4), c.how)
			pod.Namespace = "default"
			pod.Spec.ResourceClaims[0].ResourceClaimName = &pod.Spec.ResourceClaims[0].Name
			pod.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "gpu"}}
			l := &lyings{handle: h, shared: f.core}
			l.once.Do(func() {})
			devices := steererWith(t, l, claim, slice)
			state := newCycleData()
			if _, s := f.PreFilter(t.Context(), state, pod, nil); !s.IsSuccess() {
				t.Fatal(s)
			}
			if _, s := devices.PreFilter(t.Context(), state, pod, nil); !s.IsSuccess() {
				t.Fatal(s)
			}
			if s := devices.Filter(t.Context(), state, pod, nodeObject("n")); s.IsSuccess() != (c.want != 0) {
				t.Fatalf("%v %s", s.Code(), s.Message())
			}
			if c.want == 0 {
				return
			}
			if s := f.Reserve(t.Context(), state, pod, "n"); !s.IsSuccess() {
				t.Fatal(s)
			}
			if s := devices.Reserve(t.Context(), state, pod, "n"); !s.IsSuccess() {
				t.Fatal(s)
			}
			if lying, ok := l.Decided(pod, "n"); !ok || lying["c"] != c.want {
				t.Errorf("it lies on %v, want %s", lying, c.want)
			}
		})
	}
}

// steererWith returns the plugin for claims in a cluster with the objects and a class of devices.
func steererWith(t *testing.T, l *lyings, objects ...runtime.Object) *steer.Plugin {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	client := fake.NewClientset(append(slices.Clone(objects), &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}})...)
	shared := informers.NewSharedInformerFactory(client, 0)
	resources := shared.Resource().V1()
	tracker, err := resourceslicetracker.StartTracker(ctx, resourceslicetracker.Options{SliceInformer: resources.ResourceSlices(), KubeClient: client})
	if err != nil {
		t.Fatal(err)
	}
	manager := dynamicresources.NewDRAManager(ctx, assumecache.NewAssumeCache(klog.FromContext(ctx), resources.ResourceClaims().Informer(), "resource claim", "", nil), tracker, shared)
	handle, err := frameworkruntime.NewFramework(ctx, nil, nil, frameworkruntime.WithClientSet(client), frameworkruntime.WithInformerFactory(shared),
		frameworkruntime.WithEventRecorder(events.NewFakeRecorder(100)), frameworkruntime.WithSharedDRAManager(manager))
	if err != nil {
		t.Fatal(err)
	}
	p, err := steer.New(ctx, nil, handle, steer.Options{Berth: l, Clock: clock.RealClock{}, Features: feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)})
	if err != nil {
		t.Fatal(err)
	}
	shared.Start(ctx.Done())
	shared.WaitForCacheSync(ctx.Done())
	filled := func(context.Context) (bool, error) {
		claims, err := manager.ResourceClaims().List()
		list, wrong := manager.ResourceSlices().ListWithDeviceTaintRules()
		classes, missing := manager.DeviceClasses().List()
		return err == nil && wrong == nil && missing == nil && len(claims) == 1 && len(list) == 1 && len(classes) == 1, nil
	}
	if err := wait.PollUntilContextTimeout(ctx, time.Millisecond, 30*time.Second, true, filled); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		shared.Shutdown()
		frameworkruntime.WaitForShutdown(handle)
	})
	return p
}
