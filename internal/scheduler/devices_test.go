package scheduler

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/component-base/metrics/testutil"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/test/made"
	"github.com/berth-dev/berth/topology"
	"github.com/berth-dev/berth/topology/shapes"
)

// quads has two GPUs on each NUMA node, below their own switch.
const quads = "package:2 numa:1 core:4 pu:2 mem:16Gi dist:10,21 " +
	"dev:18:00.0|19:00.0,030200,10de:2330,numa=0,root=15,switch=16:00.0 dev:98:00.0|99:00.0,030200,10de:2330,numa=1,root=95,switch=96:00.0"

// devices gives node n its GPUs: by a device plugin that reports NUMA nodes, or by Berth's plugin.
func (f *fixture) devices(berth bool) {
	f.Helper()
	f.devicesOf(quads, berth)
	f.feed.ReportSeen(f.topology())
	if why := f.table.Unusable(f.table.Named("n")); why != nil {
		f.Fatal(why)
	}
}

// devicesOf gives the fixture's node the machine and its GPUs.
func (f *fixture) devicesOf(machine string, berth bool) {
	f.Helper()
	m := shapes.Machine(machine)
	f.spec.Machine, f.spec.View = m, made.View(f.TB, m)
	pool := gpus(m)
	if berth {
		pool = placement.DevicePool{Resource: gpuName, Decided: true}
		for i := range m.Devices {
			d := &m.Devices[i]
			pool.Devices = append(pool.Devices, placement.Device{ID: d.Address, HasTopology: true, NUMA: topology.NewNUMASet(d.NUMA)})
		}
		f.spec.Authority = v1alpha1.AuthorityBerth
		f.spec.Config = placement.Config{Authority: placement.AuthorityBerth, ReservedSystemCPUs: "0", Devices: placement.DevicesOf(m, []placement.DevicePool{pool})}
	}
	f.model = made.ModelOf(f.TB, f.spec.View, f.spec.Config)
	f.state = f.model.NewState()
	f.state.SetPool(pool)
}

// asking adds GPUs to a pod, and requests all its resources on one NUMA node.
func asking(pod *corev1.Pod, gpus string) *corev1.Pod {
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[wire.PolicyAnnotation] = "single-numa-node"
	pod.Spec.Containers[0].Resources.Limits[gpuName] = resource.MustParse(gpus)
	return pod
}

// eachAuthority runs a test with a kubelet that decides, and with Berth.
func eachAuthority(t *testing.T, test func(t *testing.T, berth bool)) {
	for _, berth := range []bool{false, true} {
		t.Run(fmt.Sprint("berth decides: ", berth), func(t *testing.T) { test(t, berth) })
	}
}

// TestGangsArePlannedWithTheirDevices: four members with two GPUs each fill two nodes. If single
// GPUs are taken, the number of free GPUs may suffice, but the gang does not fit, because some
// members would have GPUs on two NUMA nodes.
func TestGangsArePlannedWithTheirDevices(t *testing.T) {
	eachAuthority(t, func(t *testing.T, berth bool) {
		for name, c := range map[string]struct {
			members int
			taken   bool // one GPU of each NUMA node of m
			want    string
		}{
			"all GPUs":                     {4, false, "map[m:2 n:2]"},
			"more than all":                {5, false, "map[]"},
			"six of eight, two are apart":  {3, true, "map[]"},
			"four of eight, two are apart": {2, true, "map[n:2]"},
		} {
			t.Run(name, func(t *testing.T) {
				f := newFixture(t)
				f.devices(berth)
				f.forGangs()
				if c.taken {
					f.admit(asking(pinned("one", 6), "1"))
					f.admit(pinned("rest", 1))
					f.admit(asking(pinned("two", 6), "1")) // has no CPUs next to a device
					f.feed.ReportSeen(f.reportOf("m"))
				}
				var pods []*corev1.Pod
				for i := range c.members {
					pod := asking(f.member(fmt.Sprint("p-", i), c.members, 1, int64(i)), "2")
					f.core.gangs.PodSeen(pod)
					pods = append(pods, pod)
				}
				on := map[string]int{}
				if _, s := f.PreFilter(t.Context(), newCycleData(), pods[0], nil); s.IsSuccess() {
					for _, pod := range pods {
						_, node := f.plannedFor(pod)
						on[node]++
					}
				}
				if got := fmt.Sprint(on); got != c.want {
					t.Errorf("planned: %s, want %s", got, c.want)
				}
			})
		}
	})
}

// TestPreemptionCountsDevices: a pod wants two GPUs and seven CPUs on one NUMA node. Eviction of a
// pod that has only the CPUs, of a pod that has only the GPU, or of one of each on two NUMA nodes
// does not help.
func TestPreemptionCountsDevices(t *testing.T) {
	eachAuthority(t, func(t *testing.T, berth bool) {
		f, _ := attached(t)
		f.devices(berth)
		pods := map[string]*corev1.Pod{}
		for _, pod := range []*corev1.Pod{pinned("cpus-0", 5), asking(pinned("gpu-0", 2), "1"), pinned("cpus-1", 6), asking(pinned("gpu-1", 2), "1")} {
			pod.Annotations = map[string]string{wire.PolicyAnnotation: "single-numa-node"}
			f.admit(pod)
			pods[pod.Name] = on(pod, "n")
		}
		f.feed.ReportSeen(f.topology())
		for _, pod := range pods {
			f.feed.PodSeen(pod, false)
		}
		high := asking(pinned("high", 7), "2")
		for _, c := range []struct {
			without string
			fits    bool
		}{{"", false}, {"cpus-0", false}, {"gpu-0", false}, {"cpus-0 gpu-1", false}, {"cpus-0 gpu-0", true}, {"gpu-1 cpus-1", true}, {"gpu-0 gpu-1", false}} {
			state := newCycleData()
			if _, s := f.PreFilter(t.Context(), state, high, nil); !s.IsSuccess() {
				t.Fatal(s)
			}
			for name := range strings.FieldsSeq(c.without) {
				if s := f.RemovePod(t.Context(), state, high, podInfo{pod: pods[name]}, nodeObject("n")); !s.IsSuccess() {
					t.Fatal(s)
				}
			}
			if s := f.Filter(t.Context(), state, high, nodeObject("n")); s.IsSuccess() != c.fits {
				t.Errorf("without %q: %v, want that it fits: %v", c.without, s, c.fits)
			}
		}
	})
}

// TestBoundDevicesAreCounted: the metric counts bound devices by their distance.
func TestBoundDevicesAreCounted(t *testing.T) {
	eachAuthority(t, func(t *testing.T, berth bool) {
		near := "numa-node" // more is not known of a plugin's devices
		if berth {
			near = "switch"
		}
		for _, c := range []struct{ gpus, near string }{{"2", near}, {"", ""}} {
			pod := pinned("x", 2)
			if c.gpus != "" {
				pod = asking(pod, c.gpus)
			}
			f, h := attached(t, pod)
			f.devices(berth)
			before := devicePodsNow(t)
			h.onBind(func(*corev1.Binding) error { return nil })
			state := newCycleData()
			if _, s := f.PreFilter(t.Context(), state, pod, nil); !s.IsSuccess() {
				t.Fatal(s)
			}
			for _, s := range []*fwk.Status{f.Filter(t.Context(), state, pod, nodeObject("n")), f.Reserve(t.Context(), state, pod, "n"), f.Bind(t.Context(), state, pod, "n")} {
				if !s.IsSuccess() {
					t.Fatal(s)
				}
			}
			for n, count := range devicePodsNow(t) {
				if want := n == c.near; (count-before[n] == 1) != want || !want && count != before[n] {
					t.Errorf("%q GPUs: %v more pods by %s, want them by %q", c.gpus, count-before[n], n, c.near)
				}
			}
		}
	})
}

// TestWholeGroupsStayFree: a single GPU is taken from a switch, or from linked GPUs, of which some
// are already taken, even if another node has fewer free GPUs. So two pairs stay free for pods with
// two GPUs.
func TestWholeGroupsStayFree(t *testing.T) {
	const cpus = "package:1 numa:1 core:16 pu:2 mem:64Gi "
	for name, machine := range map[string]string{
		"switches": cpus + "dev:18:00.0|19:00.0,030200,10de:2330,numa=0,root=15,switch=16:00.0 dev:38:00.0|39:00.0,030200,10de:2330,numa=0,root=35,switch=36:00.0",
		"links": cpus + "dev:18:00.0,030200,10de:2330,numa=0,root=15 dev:19:00.0,030200,10de:2330,numa=0,root=17 dev:38:00.0,030200,10de:2330,numa=0,root=35 " +
			"dev:39:00.0,030200,10de:2330,numa=0,root=37 link:nvlink=4,18:00.0+19:00.0|38:00.0+39:00.0",
	} {
		t.Run(name, func(t *testing.T) {
			c := &cluster{fixture: newFixture(t), rng: rand.New(rand.NewPCG(1, 5)), sample: 2, others: leastAllocated}
			for i := range 2 {
				f := &fixture{TB: t, core: c.core, Plugin: c.Plugin}
				f.spec = c.spec
				f.devicesOf(machine, true)
				n := &clusterNode{infoOf: nodeObject(fmt.Sprint("n", i)), spec: f.spec, model: f.model, state: f.state}
				c.nodes = append(c.nodes, n)
				c.report(n)
			}
			one, two := c.nodes[0], c.nodes[1]
			c.admitOn(one, requestOf(t, c.pod(1, 2)))
			c.admitOn(two, requestOf(t, c.pod(1, 1)))
			if n := c.place(c.pod(1, 1)); n != two {
				t.Fatalf("one GPU was taken on %s, where that takes a pair apart", n.object.Name)
			}
			for range 2 {
				pair := c.pod(1, 2)
				pair.Annotations = map[string]string{wire.DevicesAnnotation: "one-switch,preferred"}
				if n := c.place(pair); n == nil || c.broken(n, pair) {
					t.Errorf("a pair is on %v", n)
				}
			}
		})
	}
}

// broken reports whether the two GPUs of a pod are no pair: 18 and 19, or 38 and 39.
func (c *cluster) broken(n *clusterNode, pod *corev1.Pod) bool {
	for _, p := range n.state.Snapshot().Pods {
		if p.UID == string(pod.UID) {
			ids := p.Containers[0].Devices[0].IDs
			return len(ids) != 2 || ids[0][:6] != ids[1][:6]
		}
	}
	return true
}

func devicePodsNow(t *testing.T) map[string]float64 {
	t.Helper()
	out := map[string]float64{}
	for _, near := range placement.Nearnesses {
		v, err := testutil.GetCounterMetricValue(devicePods.WithLabelValues(string(near)))
		if err != nil {
			t.Fatal(err)
		}
		out[string(near)] = v
	}
	return out
}
