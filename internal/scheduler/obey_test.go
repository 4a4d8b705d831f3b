package scheduler

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/scheduler/nodes"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

// obeys makes node n carry out Berth's decisions. It has two NUMA nodes of 8 CPUs, and CPU 0 is
// reserved.
func (f *fixture) obeys() {
	f.Helper()
	f.spec.Authority = v1alpha1.AuthorityBerth
	f.spec.Config = placement.Config{Authority: placement.AuthorityBerth, ReservedSystemCPUs: "0"}
	var err error
	if f.model, err = placement.NewModel(f.spec.View, f.spec.Config); err != nil {
		f.Fatal(err)
	}
	f.state = f.model.NewState()
	f.feed.ReportSeen(f.topology())
	if why := f.table.Unusable(f.table.Named("n")); why != nil {
		f.Fatal(why)
	}
}

// burstable returns a pod that requests CPU time, but no exclusive CPUs.
func burstable(name, cpu string) *corev1.Pod {
	pod := pinned(name, 1)
	pod.Status.QOSClass = corev1.PodQOSBurstable
	pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("1Gi")}}
	return pod
}

func with(pod *corev1.Pod, annotations map[string]string) *corev1.Pod {
	pod.Annotations = annotations
	return pod
}

// TestObeyingNode: a decision for a pod is exact, comes with the Binding, and requires the agent's
// plugin. Berth decides for pods with CPU time alone as well.
func TestObeyingNode(t *testing.T) {
	single := map[string]string{wire.PolicyAnnotation: "single-numa-node"}
	for name, c := range map[string]struct {
		pod          *corev1.Pod
		cpus, shares string
	}{
		"CPUs":           {with(pinned("x", 4), single), "1-2,9-10", ""},
		"spread":         {with(pinned("x", 2), map[string]string{wire.CPUsAnnotation: "spread"}), "1-2", ""},
		"Koordinator's":  {with(pinned("x", 2), map[string]string{"scheduling.koordinator.sh/numa-topology-spec": `{"numaTopologyPolicy":"SingleNUMANode"}`}), "1,9", ""},
		"shares":         {with(burstable("x", "1500m"), single), "", "0:1500"},
		"of no policy":   {burstable("x", "500m"), "", "0:500"},
		"of no requests": {&corev1.Pod{ObjectMeta: burstable("x", "1").ObjectMeta, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}}, Status: corev1.PodStatus{QOSClass: corev1.PodQOSBestEffort}}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			f, h := attached(t, c.pod)
			f.obeys()
			var bound *corev1.Binding
			h.onBind(func(b *corev1.Binding) error { bound = b; return nil })
			state := newCycleData()
			if _, s := f.PreFilter(t.Context(), state, c.pod, nil); !s.IsSuccess() {
				t.Fatal(s)
			}
			if s := f.Filter(t.Context(), state, c.pod, nodeObject("n")); !s.IsSuccess() {
				t.Fatal(s)
			}
			if s := f.Reserve(t.Context(), state, c.pod, "n"); !s.IsSuccess() {
				t.Fatal(s)
			}
			if s := f.Bind(t.Context(), state, c.pod, "n"); !s.IsSuccess() {
				t.Fatal(s)
			}
			if bound.Annotations[wire.RequiredPlugins+"/container.c"] != `[ "berth" ]` {
				t.Errorf("bound with %q: the container would begin without the agent", bound.Annotations)
			}
			status, speaks := bound.Annotations[wire.KoordinatorStatusAnnotation]
			if speaks != wire.SpeaksKoordinator(c.pod) || speaks && !strings.Contains(status, `"cpuset":"`+c.cpus+`"`) {
				t.Errorf("resource-status %q of CPUs %s", status, c.cpus)
			}
			c.pod.Annotations = bound.Annotations
			p, found, err := wire.ReadPlacement(c.pod)
			if err != nil || !found || p.Certainty != wire.Exact || p.Guarantee != wire.GuaranteeFull {
				t.Fatalf("%+v, %t, %v", p, found, err)
			}
			got := p.Decision.Containers[0]
			shares := ""
			for _, s := range got.Shares {
				shares += fmt.Sprintf("%d:%d", s.NUMA, s.MilliCPU)
			}
			if got.CPUs.String() != c.cpus || shares != c.shares {
				t.Errorf("CPUs %q and shares %v, want %q and %q", got.CPUs, got.Shares, c.cpus, c.shares)
			}
			f.feed.PodSeen(on(c.pod, "n"), false)
			if s, _ := f.table.Named("n").Account().View().Snapshot(); len(s.Pods) != 1 {
				t.Errorf("%d pods are held", len(s.Pods))
			}
		})
	}
}

// TestWithholdersPay: a pod that keeps CPUs from others must request them, so that they count in
// every quota.
func TestWithholdersPay(t *testing.T) {
	const refused = "berth.dev/exclusive would keep CPUs idle that the pod does not ask for"
	for name, c := range map[string]struct {
		exclusive  string
		cpus       int
		namespaces []string
		want       string // "" if the pod is placed
	}{
		"a NUMA node for 1 CPU":         {"numa", 1, nil, refused},
		"a core for 1 CPU":              {"core", 1, nil, refused},
		"a NUMA node that is asked for": {"numa", 8, nil, ""},
		"a core that is asked for":      {"core", 2, nil, ""},
		"preferred":                     {"numa,preferred", 1, nil, ""},
		"another namespace is allowed":  {"numa", 1, []string{"other"}, refused},
		"its namespace is allowed":      {"numa", 1, []string{pinned("x", 1).Namespace}, ""},
		"all are":                       {"core", 1, []string{"*"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			pod := with(pinned("x", int64(c.cpus)), map[string]string{wire.ExclusiveAnnotation: c.exclusive})
			f, _ := attached(t, pod)
			f.terms.ExclusiveNamespaces = c.namespaces
			f.obeys()
			state := newCycleData()
			if _, s := f.PreFilter(t.Context(), state, pod, nil); !s.IsSuccess() {
				t.Fatal(s)
			}
			s := f.Filter(t.Context(), state, pod, nodeObject("n"))
			if s.IsSuccess() != (c.want == "") || !strings.Contains(s.Message(), c.want) {
				t.Errorf("%v, want %q", s, c.want)
			}
			if s := f.Reserve(t.Context(), state, pod, "n"); s.IsSuccess() != (c.want == "") {
				t.Errorf("Reserve: %v", s)
			}
		})
	}
}

// TestKoordletNode: if koordlet carries decisions out, the decision is in resource-status,
// whichever annotations the pod has. The agent's plugin is not required, and the guarantee is
// amounts. The Binding still has the CPUs, so that they stay reserved after a failover.
func TestKoordletNode(t *testing.T) {
	pod := with(pinned("x", 4), map[string]string{wire.PolicyAnnotation: "single-numa-node"})
	f, h := attached(t, pod)
	f.spec.Koordlet = true
	f.obeys()
	var bound *corev1.Binding
	h.onBind(func(b *corev1.Binding) error { bound = b; return nil })
	state := newCycleData()
	if _, s := f.PreFilter(t.Context(), state, pod, nil); !s.IsSuccess() {
		t.Fatal(s)
	}
	if s := f.Reserve(t.Context(), state, pod, "n"); !s.IsSuccess() {
		t.Fatal(s)
	}
	if s := f.Bind(t.Context(), state, pod, "n"); !s.IsSuccess() {
		t.Fatal(s)
	}
	if want := `{"cpuset":"1-2,9-10","numaNodeResources":[{"node":0,"resources":{"cpu":"4","memory":"1Mi"}}]}`; bound.Annotations[wire.KoordinatorStatusAnnotation] != want {
		t.Errorf("resource-status %s, want %s", bound.Annotations[wire.KoordinatorStatusAnnotation], want)
	}
	pod.Annotations = bound.Annotations
	if strings.Contains(fmt.Sprint(pod.Annotations), wire.RequiredPlugins) {
		t.Error("the pod demands a plugin that does not run there")
	}
	p, _, err := wire.ReadPlacement(pod)
	if p.Authority != placement.AuthorityBerth || !p.Koordlet {
		t.Errorf("placed under authority %v, koordlet %t", p.Authority, p.Koordlet)
	}
	if err != nil || p.Certainty != wire.VerdictOnly || p.Guarantee != wire.GuaranteeAmounts || p.Decision.Containers[0].CPUs.String() != "1-2,9-10" {
		t.Errorf("%+v, %v", p, err)
	}
	pinned := with(pinned("y", 1), map[string]string{wire.MemoryAnnotation: "pinned"})
	state = newCycleData()
	if _, s := f.PreFilter(t.Context(), state, pinned, nil); !s.IsSuccess() {
		t.Fatal(s)
	}
	if s := f.Filter(t.Context(), state, pinned, nodeObject("n")); s.IsSuccess() || !strings.Contains(s.Message(), "memory") {
		t.Errorf("%v, want a refusal: koordlet pins no memory", s)
	}
}

// TestObeyingNodesCountShares: CPU time on a NUMA node is not given twice. In a dry run of
// preemption, the pod that has it may be removed.
func TestObeyingNodesCountShares(t *testing.T) {
	f, _ := attached(t)
	f.obeys()
	single := map[string]string{wire.PolicyAnnotation: "single-numa-node"}
	node := func(pod *corev1.Pod) (*cycleData, *fwk.Status) {
		state := newCycleData()
		if _, s := f.PreFilter(t.Context(), state, pod, nil); !s.IsSuccess() {
			t.Fatal(s)
		}
		return state, f.Filter(t.Context(), state, pod, nodeObject("n"))
	}
	for _, name := range []string{"a", "b"} {
		pod := with(burstable(name, "6500m"), single)
		state, s := node(pod)
		if !s.IsSuccess() {
			t.Fatal(s)
		}
		if s := f.Reserve(t.Context(), state, pod, "n"); !s.IsSuccess() {
			t.Fatal(s)
		}
	}
	high := with(pinned("high", 6), single)
	state, s := node(high)
	if s.Code() != fwk.Unschedulable || !strings.Contains(s.Message(), "Berth has no place for the pod") {
		t.Fatalf("%v, want no berth", s)
	}
	victim := podInfo{pod: on(with(burstable("a", "6500m"), single), "n")}
	if s := f.RemovePod(t.Context(), state, high, victim, nodeObject("n")); !s.IsSuccess() {
		t.Fatal(s)
	}
	if s := f.Filter(t.Context(), state, high, nodeObject("n")); !s.IsSuccess() {
		t.Errorf("without a: %v", s)
	}
	if s := f.AddPod(t.Context(), state, high, victim, nodeObject("n")); !s.IsSuccess() {
		t.Fatal(s)
	}
	if s := f.Filter(t.Context(), state, high, nodeObject("n")); s.IsSuccess() {
		t.Error("with a again there is room")
	}
}

// TestUnpinnedPodsPass: a pod with CPU time alone passes as without Berth if a kubelet decides, or
// if the node is not reliable. Every such pod passes in a cluster without obeying nodes. Arguments
// of the scheduler about all pods do not change this.
func TestUnpinnedPodsPass(t *testing.T) {
	t.Run("by default", func(t *testing.T) { unpinnedPodsPass(t, wire.Terms{}) })
	t.Run("with arguments", func(t *testing.T) {
		unpinnedPodsPass(t, wire.Terms{ExclusiveNamespaces: []string{"*"}, Keep: wire.CPUsNearDevices, CPUsPerDevice: map[string]int{gpuName: 1}})
	})
}

func unpinnedPodsPass(t *testing.T, terms wire.Terms) {
	f, _ := attached(t)
	if err := terms.Check(); err != nil {
		t.Fatal(err)
	}
	f.terms = terms
	pod := burstable("x", "500m")
	if _, s := f.PreFilter(t.Context(), newCycleData(), pod, nil); !s.IsSkip() {
		t.Fatalf("%v, want Skip", s)
	}
	other := f.reportOf("other")
	f.feed.ReportSeen(other)
	f.obeys()
	state := newCycleData()
	pass := func(node string) {
		t.Helper()
		if _, s := f.PreFilter(t.Context(), state, pod, nil); !s.IsSuccess() {
			t.Fatal(s)
		}
		if s := f.Filter(t.Context(), state, pod, nodeObject(node)); !s.IsSuccess() {
			t.Fatalf("%s: %v", node, s)
		}
		if s := f.Reserve(t.Context(), state, pod, node); !s.IsSuccess() {
			t.Fatalf("%s: %v", node, s)
		}
		if s := f.Bind(t.Context(), state, pod, node); !s.IsSkip() {
			t.Errorf("%s: Bind says %v, want Skip", node, s)
		}
		f.Unreserve(t.Context(), state, pod, node)
	}
	pass("other")
	pass("unheard-of")
	f.clock.Step(2 * time.Minute) // n obeys, but is silent
	pass("n")
	f.feed.ReportGone("n")
	pass("n")
	choosy := with(burstable("y", "500m"), map[string]string{wire.PolicyAnnotation: "restricted"})
	if _, s := f.PreFilter(t.Context(), state, choosy, nil); !s.IsSuccess() {
		t.Fatal(s)
	}
	if s := f.Filter(t.Context(), state, choosy, nodeObject("n")); s.IsSuccess() {
		t.Error("a pod with a policy may go to a node that obeys and is silent")
	}
}

// TestNUMANodesAreCounted: only Berth can guarantee a number of NUMA nodes, or whole ones. A node
// whose kubelet cannot be predicted, or does not pin the pod's CPUs, is refused with that reason,
// even if the cluster has no obeying node.
func TestNUMANodesAreCounted(t *testing.T) {
	number := func(n string) map[string]string { return map[string]string{wire.NUMANodesAnnotation: n} }
	alone := map[string]string{wire.ExclusiveAnnotation: "numa"}
	for name, c := range map[string]struct {
		pod            *corev1.Pod
		obeys, kubelet string // the CPUs, or the reason
	}{
		"two":               {with(pinned("x", 4), number("2")), "cpus 1,4,9,12", "whose kubelet uses 1 NUMA node for this pod, and the pod's berth.dev/numa-nodes requires 2"},
		"one":               {with(pinned("x", 4), number("1")), "cpus 1-2,9-10", "cpus 1-2,9-10"},
		"too many":          {with(pinned("x", 4), number("3")), "there is no room on exactly as many NUMA nodes as berth.dev/numa-nodes", "requires 3"},
		"time on two":       {with(burstable("x", "500m"), number("2")), "shares 0=250 1=250", "whose kubelet pins no CPUs for the pod"},
		"whole ones":        {with(pinned("x", 8), alone), "cpus 4-7,12-15", "whose kubelet lacks a way to keep a NUMA node for one pod"},
		"whole, Burstable":  {with(burstable("x", "8"), alone), "cpus 4-7,12-15", "whose kubelet lacks a way to keep a NUMA node for one pod"},
		"not a whole, both": {with(pinned("x", 9), map[string]string{wire.ExclusiveAnnotation: "numa", wire.NUMANodesAnnotation: "2"}), "berth.dev/exclusive would keep CPUs idle", "lacks a way"},
		"two whole ones":    {with(pinned("x", 15), map[string]string{wire.ExclusiveAnnotation: "numa", wire.NUMANodesAnnotation: "2"}), "cpus 1-15", "lacks a way"},
	} {
		t.Run(name, func(t *testing.T) {
			f, _ := attached(t, c.pod)
			for _, want := range []string{c.kubelet, c.obeys} {
				if want == c.obeys {
					f.obeys()
				}
				state := newCycleData()
				if _, s := f.PreFilter(t.Context(), state, c.pod, nil); !s.IsSuccess() {
					t.Fatalf("%v: it is not looked at", s)
				}
				got := ""
				s := f.Filter(t.Context(), state, c.pod, nodeObject("n"))
				if s.IsSuccess() {
					s = f.Reserve(t.Context(), state, c.pod, "n")
				}
				if got = s.Message(); s.IsSuccess() {
					held, _ := f.table.Named("n").Account().View().Snapshot()
					h := held.Pods[0].Containers[0]
					if got = "cpus " + h.CPUs.String(); h.CPUs.IsEmpty() {
						got = "shares"
						for _, share := range h.Shares {
							got += fmt.Sprintf(" %d=%d", share.NUMA, share.MilliCPU)
						}
					}
				}
				if !strings.Contains(got, want) {
					t.Errorf("%q, want %q", got, want)
				}
			}
		})
	}
}

// TestDevicesAreCounted: a pod may request a number of devices on each NUMA node. It gets them if
// Berth decides, or if the kubelet's configuration makes it certain and the device plugin reports
// NUMA nodes. If the plugin does not, the pod is refused with that reason, and woken when it does.
func TestDevicesAreCounted(t *testing.T) {
	f := newFixture(t)
	f.devices(false)
	ask := func(n string) *corev1.Pod {
		pod := asking(pinned("x", 2), n)
		pod.Annotations = map[string]string{wire.DevicesAnnotation: "perNUMANode=2"}
		return pod
	}
	filter := func(pod *corev1.Pod) string {
		state := newCycleData()
		if _, s := f.PreFilter(t.Context(), state, pod, nil); !s.IsSuccess() {
			t.Fatal(s)
		}
		return f.Filter(t.Context(), state, pod, nodeObject("n")).Message()
	}
	if got := filter(ask("2")); got != "" {
		t.Errorf("two of two on each: %s", got)
	}
	if got, want := filter(ask("4")), "whose kubelet takes all "+gpuName+" of a container from one NUMA node"; !strings.Contains(got, want) {
		t.Errorf("four: %q, want %q", got, want)
	}
	pools := f.state.Snapshot().Devices
	told := slices.Clone(pools[0].Devices)
	for i := range pools[0].Devices {
		pools[0].Devices[i].HasTopology, pools[0].Devices[i].NUMA = false, 0
	}
	f.state.SetPool(pools[0])
	f.feed.ReportSeen(f.topology())
	pod := ask("2")
	if got, want := filter(pod), placement.DevicesNowhere.Text()+", even when empty"; got != "node(s) where Berth has no place for the pod: "+want {
		t.Errorf("nowhere: %q, want %q", got, want)
	}
	n := f.table.Named("n")
	f.blame(pod, nil, []*nodes.Node{n})
	woken := f.wakes()
	pools[0].Devices = told
	f.state.SetPool(pools[0])
	f.feed.ReportSeen(f.topology())
	if len(woken) != 1 {
		t.Errorf("woken %d times by a plugin that tells NUMA nodes", len(woken))
	}
}

// TestOwnDemandsAreRefused: a pod that itself names required plugins is not placed on an obeying
// node, because the narrowest annotation would count there.
func TestOwnDemandsAreRefused(t *testing.T) {
	key := wire.RequiredPlugins + "/container.c"
	pod := with(pinned("x", 2), map[string]string{key: "[]"})
	f, h := attached(t, pod)
	f.obeys()
	h.onBind(func(*corev1.Binding) error { return errors.New("bound") })
	state := newCycleData()
	if _, s := f.PreFilter(t.Context(), state, pod, nil); !s.IsSuccess() {
		t.Fatal(s)
	}
	s := f.Reserve(t.Context(), state, pod, "n")
	if s.Code() != fwk.UnschedulableAndUnresolvable || !slices.Contains(strings.Fields(s.Message()), "metadata.annotations["+key+"]:") {
		t.Errorf("%v, want it refused by name", s)
	}
}
