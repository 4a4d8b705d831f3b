package scheduler

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	resourceslicetracker "k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	dra "github.com/berth-dev/berth/internal/claims"
	"github.com/berth-dev/berth/internal/scheduler/steer"
	"github.com/berth-dev/berth/internal/survey"
	"github.com/berth-dev/berth/internal/survey/query"
	"github.com/berth-dev/berth/internal/survey/source"
	"github.com/berth-dev/berth/internal/wire"
)

// claimsHandle is a profile with the plugin for claims.
type claimsHandle struct {
	*gangHandle
	shared informers.SharedInformerFactory
}

func (h *claimsHandle) SharedInformerFactory() informers.SharedInformerFactory { return h.shared }
func (h *claimsHandle) ProfileName() string                                    { return "p" }

// steers gives the fixture's profile the plugin for claims, with the devices and claims of objects.
func (f *fixture) steers(t *testing.T, h *gangHandle, objects []runtime.Object) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	client := fake.NewClientset(objects...)
	shared := informers.NewSharedInformerFactory(client, 0)
	resources := shared.Resource().V1()
	tracker, err := resourceslicetracker.StartTracker(ctx, resourceslicetracker.Options{SliceInformer: resources.ResourceSlices(), KubeClient: client})
	if err != nil {
		t.Fatal(err)
	}
	manager := dynamicresources.NewDRAManager(ctx, assumecache.NewAssumeCache(klog.Background(), resources.ResourceClaims().Informer(), "resource claim", "", nil), tracker, shared)
	if _, err := resources.DeviceClasses().Informer().AddEventHandler(manager.DeviceClassResolver().(cache.ResourceEventHandler)); err != nil {
		t.Fatal(err)
	}
	handle, err := frameworkruntime.NewFramework(ctx, nil, nil, frameworkruntime.WithClientSet(client), frameworkruntime.WithInformerFactory(shared), frameworkruntime.WithSharedDRAManager(manager))
	if err != nil {
		t.Fatal(err)
	}
	l := &lyings{handle: handle, shared: f.core}
	l.once.Do(func() {})
	plugin, err := steer.New(ctx, nil, handle, steer.Options{Berth: l, Clock: f.clock, Features: feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)})
	if err != nil {
		t.Fatal(err)
	}
	shared.Start(ctx.Done())
	shared.WaitForCacheSync(ctx.Done())
	err = wait.PollUntilContextTimeout(ctx, time.Millisecond, 30*time.Second, true, func(context.Context) (bool, error) { // other goroutines fill caches
		c, wrong := manager.ResourceClaims().List()
		s, missing := manager.ResourceSlices().ListWithDeviceTaintRules()
		k, lost := manager.DeviceClasses().List()
		return wrong == nil && missing == nil && lost == nil && len(c)+len(s)+len(k) == len(objects) && manager.DeviceClassResolver().GetDeviceClass(gpuName) != nil, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	own := &claimsHandle{h, shared}
	f.Plugin.handle = own
	key := ofProfile{shared, own.ProfileName()}
	steerers.Store(key, plugin)
	t.Cleanup(func() {
		steerers.Delete(key)
		cancel()
		shared.Shutdown()
		frameworkruntime.WaitForShutdown(handle)
	})
}

// explainGang asks the command line about the gang of the pods.
func (f *fixture) explainGang(t *testing.T, pods []*corev1.Pod, objects []runtime.Object) *query.ExplainedGang {
	t.Helper()
	lists := map[string][]string{}
	for _, name := range []string{"n", "m"} {
		nt := f.reportOf(name)
		nt.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "berth-agent", Time: &metav1.Time{Time: f.clock.Now()}}}
		lists["nodetopologies"] = append(lists["nodetopologies"], f.encode(nt))
		lists["nodes"] = append(lists["nodes"], f.encode(nodeObject(name).object))
	}
	for _, pod := range pods {
		lists["pods"] = append(lists["pods"], f.encode(pod))
	}
	for _, o := range objects {
		kind := map[string]string{"*v1.ResourceSlice": "resourceslices", "*v1.ResourceClaim": "resourceclaims", "*v1.DeviceClass": "deviceclasses"}[fmt.Sprintf("%T", o)]
		lists[kind] = append(lists[kind], f.encode(o))
	}
	kinds := map[string]string{"nodes": "Node", "pods": "Pod", "nodetopologies": "NodeTopology", "leases": "Lease", "resourceslices": "ResourceSlice", "resourceclaims": "ResourceClaim", "deviceclasses": "DeviceClass"}
	s := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		group, kind := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/apis/"), "/api/"), r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
		version, _, _ := strings.Cut(strings.TrimSuffix(group, "/"+kind), "/namespaces/")
		out.Header().Set("Date", f.clock.Now().UTC().Format(http.TimeFormat))
		if kinds[kind] == "" {
			http.NotFound(out, r)
			return
		}
		out.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(out, `{"kind":"%sList","apiVersion":%q,"items":[%s]}`, kinds[kind], version, strings.Join(lists[kind], ","))
	}))
	t.Cleanup(s.Close)
	c, err := survey.Connect(source.Options{Config: &rest.Config{Host: s.URL}, Namespace: "default", Heartbeats: v1alpha1.HeartbeatNamespace, StaleAfter: time.Minute, Terms: wire.Terms{}})
	if err != nil {
		t.Fatal(err)
	}
	named, notes, err := c.GangNamed(t.Context(), "", "a")
	if err != nil {
		t.Fatal(err)
	}
	e, err := query.ExplainGang(t.Context(), c, named, notes)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestGangClaimsAgree: the scheduler's plan of a gang and the command line find devices for the
// same members. Two nodes with two NUMA nodes have room for one member on each NUMA node.
func TestGangClaimsAgree(t *testing.T) {
	const driver, root = "gpu.example.com", dra.StandardPCIeRoot
	classes := []runtime.Object{&resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}, Spec: resourceapi.DeviceClassSpec{ExtendedResourceName: new(gpuName)}}}
	device := func(name string, numa int64) resourceapi.Device {
		d := resourceapi.Device{Name: name, Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{root: {StringValue: &name}}}
		if numa >= 0 {
			d.Attributes[dra.StandardNUMANode] = resourceapi.DeviceAttribute{IntValue: &numa}
		}
		return d
	}
	for name, c := range map[string]struct {
		on       map[string][]int64 // the NUMA nodes of the devices of each node
		members  int
		count    int64 // of devices for each
		extended bool
		fits     [3]bool // of a pod that asks nothing, near, required, where a kubelet decides
	}{
		"one for each":            {map[string][]int64{"n": {0, 1}, "m": {0, 1}}, 4, 1, false, [3]bool{true, true, true}},
		"more members than CPUs":  {map[string][]int64{"n": {0, 1}, "m": {0, 1}}, 5, 1, false, [3]bool{}},
		"all on the same side":    {map[string][]int64{"n": {0, 0}, "m": {0, 0}}, 4, 1, false, [3]bool{true, true, false}},
		"the CPUs must move":      {map[string][]int64{"n": {1}, "m": {1}}, 2, 1, false, [3]bool{true, true, false}},
		"one node has none":       {map[string][]int64{"m": {0, 1}}, 4, 1, false, [3]bool{}},
		"one node is enough":      {map[string][]int64{"m": {0, 1}}, 2, 1, false, [3]bool{true, true, true}},
		"two for each":            {map[string][]int64{"n": {0, 0, 1, 1}}, 2, 2, false, [3]bool{true, true, true}},
		"two for each, crossed":   {map[string][]int64{"n": {0, 1}, "m": {0, 1}}, 2, 2, false, [3]bool{true, true, false}},
		"neutral devices":         {map[string][]int64{"n": {-1, -1}, "m": {-1}}, 3, 1, false, [3]bool{true, true, true}},
		"extended resources":      {map[string][]int64{"n": {0, 1}, "m": {0, 1}}, 4, 1, true, [3]bool{true, true, true}},
		"extended, the same side": {map[string][]int64{"n": {0, 0}, "m": {0, 0}}, 4, 1, true, [3]bool{true, true, false}},
		"too few":                 {map[string][]int64{"n": {0}, "m": {1}}, 3, 1, true, [3]bool{}},
	} {
		for at, mode := range []dra.Mode{dra.Free, dra.Near, dra.Required} {
			for _, obeys := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/berth decides: %t", name, mode, obeys), func(t *testing.T) {
					t.Parallel() // with Kubernetes 1.36, the informers of a fixture take a second to sync
					f := newFixture(t)
					if obeys {
						f.obeys()
					}
					h, _ := f.forGangs()
					objects := classes
					for on, numa := range c.on {
						s := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: on}, Spec: resourceapi.ResourceSliceSpec{
							Driver: driver, NodeName: &on, Pool: resourceapi.ResourcePool{Name: on, Generation: 1, ResourceSliceCount: 1}}}
						for i := range numa {
							s.Spec.Devices = append(s.Spec.Devices, device(fmt.Sprint("d", i), numa[i]))
						}
						objects = append(objects[:len(objects):len(objects)], s)
					}
					var pods []*corev1.Pod
					for i := range c.members {
						pod := f.member(fmt.Sprint("p-", i), c.members, 7, int64(i))
						if mode != dra.Free {
							pod.Annotations[wire.ClaimsAnnotation] = mode.String()
						}
						pod.Annotations[wire.PolicyAnnotation] = "single-numa-node"
						uses := &pod.Spec.Containers[0].Resources
						if c.extended {
							uses.Limits[gpuName] = *resource.NewQuantity(c.count, resource.DecimalSI)
						} else {
							of := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("c-", i), Namespace: "default", UID: pod.UID + "-claim"}}
							of.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "r", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: c.count}}}
							objects = append(objects[:len(objects):len(objects)], of)
							pod.Spec.ResourceClaims, uses.Claims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &of.Name}}, []corev1.ResourceClaim{{Name: "gpu"}}
						}
						uses.Requests = uses.Limits
						f.core.gangs.PodSeen(pod)
						pods = append(pods, pod)
					}
					f.steers(t, h, objects)
					_, status := f.PreFilter(t.Context(), newCycleData(), pods[0], nil)
					e := f.explainGang(t, pods, objects)
					if e.Whole != status.IsSuccess() || !obeys && e.Whole != c.fits[at] {
						t.Errorf("the command line: %t, %s; the scheduler: %v; want %t", e.Whole, e.Verdict, status, c.fits[at])
					}
					said, _, _ := strings.Cut(e.Verdict, ";")
					if !e.Whole && !strings.Contains(status.Message(), said) {
						t.Errorf("the command line says %q, the scheduler %q", said, status.Message())
					}
				})
			}
		}
	}
}
