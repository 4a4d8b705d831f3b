package scheduler

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/component-base/metrics/testutil"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"

	dra "github.com/berth-dev/berth/internal/claims"
	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/scheduler/steer"
	"github.com/berth-dev/berth/internal/scheduler/wake"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// fakeClaims is the plugin for claims, and records the calls.
type fakeClaims struct {
	claims
	asked []string
}

func (c *fakeClaims) PreFilter(context.Context, fwk.CycleState, *corev1.Pod, []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	c.asked = append(c.asked, "PreFilter")
	return nil, nil
}

func (c *fakeClaims) PostFilter(context.Context, fwk.CycleState, *corev1.Pod, fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	c.asked = append(c.asked, "PostFilter")
	return nil, fwk.NewStatus(fwk.Unschedulable)
}

// TestClaimsAreGivenBack: if Berth ends the attempt, claims are released, and no later plugin is
// asked.
func TestClaimsAreGivenBack(t *testing.T) {
	gang := map[string]string{wire.GangAnnotation: "a", wire.GangMinimumAnnotation: "2"}
	claim := func(pod *corev1.Pod) *corev1.Pod {
		pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "c"}}
		return pod
	}
	device := pinned("x", 2)
	device.Annotations = gang
	device.Spec.Containers[0].Resources.Limits["a.b/gpu"] = resource.MustParse("1")
	for name, c := range map[string]struct {
		pod              *corev1.Pod
		unknown, waiting bool
		want             string
	}{
		"a member with a claim":                     {claim(with(pinned("x", 2), gang)), false, false, "PostFilter"},
		"a member whose attempt ended before":       {claim(with(pinned("x", 2), gang)), true, false, "PreFilter PostFilter"},
		"a member that asks for devices":            {device, false, false, "PostFilter"},
		"a member without either":                   {with(pinned("x", 2), gang), false, false, ""},
		"a node waits for a report":                 {claim(with(pinned("x", 2), gang)), false, true, ""},
		"a pod of no gang: kube-scheduler comes on": {claim(pinned("x", 2)), false, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			h, _ := f.forGangs()
			f.Plugin.handle = h
			asked := &fakeClaims{}
			f.Plugin.ownClaims = func() claims { return asked }
			said := statuses{}
			if c.waiting {
				said["n"] = fwk.NewStatus(fwk.Pending)
			}
			f.core.gangs.PodSeen(c.pod)
			state := newCycleData()
			if !c.unknown {
				state.Write(dynamicresources.Name, &cycle{})
			}
			_, status := f.PostFilter(t.Context(), state, c.pod, said)
			if got := strings.Join(asked.asked, " "); got != c.want {
				t.Errorf("asked %q, want %q; the attempt ends with %v", got, c.want, status)
			}
			if ends := status.Code() == fwk.UnschedulableAndUnresolvable; !ends && slices.Contains(asked.asked, "PostFilter") {
				t.Errorf("asked though others come: %v", status)
			}
		})
	}
}

// waysOf returns the possible placements of a pod on node n, which has these devices for its
// claims.
func (f *fixture) waysOf(pod *corev1.Pod, mode dra.Mode, stock *placement.Claimed) (*cycleData, steer.Ways) {
	f.Helper()
	state := newCycleData()
	if _, s := f.PreFilter(f.Context(), state, pod, nil); !s.IsSuccess() && s.Code() != fwk.Skip {
		f.Fatal(s)
	}
	l := &lyings{shared: f.core}
	l.once.Do(func() {})
	return state, l.Ways(state, pod, nodeObject("n"), mode, func() *placement.Claimed { return stock })
}

// told describes the possible placements, of which none is accepted.
func told(w steer.Ways) (out []string) {
	if w.Known == steer.Foreseen {
		for way := range w.All {
			text := fmt.Sprintf("c:%s", way.Lying["c"])
			if way.Near != nil {
				way.Near.Refute(way.Lying)
				text += " near"
			}
			out = append(out, text)
		}
	}
	return out
}

func insisting(pod *corev1.Pod, how string) *corev1.Pod {
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}}
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[wire.ClaimsAnnotation] = how
	return pod
}

// TestWaysOfAKubelet: if the kubelet decides, there is one possible placement, on its free CPUs.
func TestWaysOfAKubelet(t *testing.T) {
	for name, c := range map[string]struct {
		before int64
		pod    *corev1.Pod
		want   string
	}{
		"the first NUMA node":       {0, insisting(pinned("x", 4), "required"), "[c:0]"},
		"it is full":                {7, insisting(pinned("x", 4), "required"), "[c:1]"},
		"no CPUs of its own":        {0, insisting(burstable("x", "2"), "required"), "[c:]"},
		"near, with CPUs of a node": {0, insisting(pinned("x", 8), "near"), "[c:1]"},
	} {
		f, _ := steered(t)
		if c.before > 0 {
			one := on(pinned("one", c.before), "n")
			f.admit(one)
			f.feed.ReportSeen(f.topology())
			f.feed.PodSeen(one, false)
		}
		mode, _ := wire.ReadClaims(c.pod)
		if _, w := f.waysOf(c.pod, mode, nil); fmt.Sprint(told(w)) != c.want {
			t.Errorf("%s: %v %q, want %s", name, told(w), w.Why, c.want)
		}
	}
}

// devicesOn returns the free devices on NUMA nodes 0 and 1, for a claim of n devices.
func devicesOn(n int, free ...int) *placement.Claimed {
	c := &placement.Claimed{Requests: []placement.ClaimRequest{{Users: []string{"c"}, N: n}}}
	for numa, n := range free {
		c.Devices = append(c.Devices, placement.ClaimDevices{NUMA: topology.NewNUMASet(topology.NUMAID(numa)), For: 1, Free: n, All: n})
	}
	return c
}

// TestWaysWhereBerthDecides: one search finds CPUs near the devices, and other CPUs if the
// allocator has no devices there.
func TestWaysWhereBerthDecides(t *testing.T) {
	single := pinned("x", 4)
	single.Annotations = map[string]string{wire.PolicyAnnotation: "single-numa-node"}
	for name, c := range map[string]struct {
		pod   *corev1.Pod
		stock *placement.Claimed
		want  string
	}{
		"nothing to follow":                  {pinned("x", 4), nil, "[c:0]"},
		"devices on both, and none will do":  {pinned("x", 4), devicesOn(1, 1, 1), "[c:0 near c:1 near c:0-1 near]"},
		"devices on one":                     {pinned("x", 4), devicesOn(1, 0, 1), "[c:1 near c:0-1 near c:0]"},
		"a device on each":                   {pinned("x", 4), devicesOn(2, 1, 1), "[c:0-1 near c:0]"},
		"too few":                            {pinned("x", 4), devicesOn(2, 1, 0), "[c:0]"},
		"a pod on both, devices on one":      {pinned("x", 9), devicesOn(1, 0, 1), "[c:0-1 near]"},
		"a pod on one, wherever devices are": {single, devicesOn(2, 1, 1), "[c:0]"},
	} {
		f, _ := steered(t)
		f.obeys()
		_, w := f.waysOf(insisting(c.pod, "required"), dra.Required, c.stock)
		if got := fmt.Sprint(told(w)); got != c.want {
			t.Errorf("%s: %s %q, want %s", name, got, w.Why, c.want)
		}
	}
}

// TestNearIsNotWider: a pod does not get more NUMA nodes for devices that it only prefers.
func TestNearIsNotWider(t *testing.T) {
	f, _ := steered(t)
	f.obeys()
	for name, c := range map[string]struct {
		stock *placement.Claimed
		want  string
	}{"on one": {devicesOn(1, 0, 1), "[c:1 near c:0]"}, "on each": {devicesOn(2, 1, 1), "[c:0]"}} {
		_, w := f.waysOf(insisting(pinned("x", 4), "near"), dra.Near, c.stock)
		if got := fmt.Sprint(told(w)); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// TestReserveKeepsNearDevices: Reserve decides as Filter did when the devices were chosen.
func TestReserveKeepsNearDevices(t *testing.T) {
	for name, on := range map[string]topology.NUMASet{"one NUMA node": topology.NewNUMASet(1), "both": topology.NewNUMASet(0, 1)} {
		f, _ := steered(t)
		f.obeys()
		pod := insisting(pinned("x", 4), "required")
		state, _ := f.waysOf(pod, dra.Required, nil)
		l := &lyings{shared: f.core}
		l.once.Do(func() {})
		l.Keep(state, "n", devicesOn(1, 1, 1).Settled(steer.Lying{"c": on}))
		if s := f.Reserve(t.Context(), state, pod, "n"); !s.IsSuccess() {
			t.Fatal(name, s)
		}
		if lying, ok := l.Decided(pod, "n"); !ok || lying["c"] != on {
			t.Errorf("%s: it lies on %v", name, lying)
		}
	}
}

// extendedPod returns a pod that requests a device as an extended resource, which a driver may
// offer.
func extendedPod(cpus int64, how string) *corev1.Pod {
	pod := with(pinned("x", cpus), map[string]string{wire.ClaimsAnnotation: how})
	pod.Spec.Containers[0].Resources.Limits["example.com/gpu"] = resource.MustParse("1")
	return pod
}

// TestRequiredWaitsForCertainty: the pod's devices depend on its CPUs, so the pod waits until its
// CPUs are certain.
func TestRequiredWaitsForCertainty(t *testing.T) {
	for name, pod := range map[string]*corev1.Pod{"a claim": insisting(pinned("x", 2), "required"), "an extended resource": extendedPod(2, "required")} {
		f, _ := steered(t)
		state, _ := f.waysOf(pod, dra.Required, nil)
		c := cycleOf(state)
		if c.query.Candidate.Loose || !c.way.(*alone).patient {
			t.Errorf("%s: loose %t, patient %t", name, c.query.Candidate.Loose, c.way.(*alone).patient)
		}
		f.clock.SetTime(f.clock.Now().Add(time.Hour))
		f.feed.ReportSeen(f.topology())
		state, _ = f.waysOf(pod, dra.Required, nil)
		if !cycleOf(state).way.(*alone).patient {
			t.Errorf("%s: it runs out of patience", name)
		}
	}
}

// TestClaimsNeedThePlugin: if a profile has DynamicResources itself, it refuses the pod, because it
// cannot align the devices.
func TestClaimsNeedThePlugin(t *testing.T) {
	f, _ := attached(t)
	for _, pod := range []*corev1.Pod{insisting(pinned("x", 2), "near"), extendedPod(2, "required")} {
		_, s := f.PreFilter(t.Context(), newCycleData(), pod, nil)
		if s.Code() != fwk.UnschedulableAndUnresolvable || s.Message() != noSteerer {
			t.Errorf("%v", s)
		}
	}
}

// TestClaimsOfAProfile: the plugin for claims gets the arguments of its own profile.
func TestClaimsOfAProfile(t *testing.T) {
	f, h := attached(t)
	l := &lyings{handle: h, shared: f.core}
	l.once.Do(func() {})
	check := func(what string, mode dra.Mode, first string) {
		t.Helper()
		if got, err := l.Mode(pinned("x", 2)); got != mode || err != nil {
			t.Errorf("%s: %v, %v; want %v", what, got, err, mode)
		}
		if got, err := l.Mode(insisting(pinned("x", 2), "required")); got != dra.Required || err != nil {
			t.Errorf("%s: the annotation counts as %v, %v", what, got, err)
		}
		if got := l.Sources().NUMA[0]; got != first {
			t.Errorf("%s: the first attribute is %s, want %s", what, got, first)
		}
	}
	plain, own := dra.DefaultSources(), wire.Terms{NUMAAttributes: []string{"a.b/numa"}}
	f.core.profiles.byName.Store("another", &settings{claims: dra.Required, sources: own.Sources()})
	check("another profile", dra.Free, plain.NUMA[0])
	f.core.profiles.byName.Store(h.ProfileName(), &settings{claims: dra.Near, sources: own.Sources()})
	check("its profile", dra.Near, "a.b/numa")
}

// TestWhoseBindingIsInDoubt: a Binding by another plugin is always in doubt.
func TestWhoseBindingIsInDoubt(t *testing.T) {
	f, _ := steered(t)
	l := &lyings{shared: f.core}
	l.once.Do(func() {})
	pod := insisting(pinned("x", 2), "required")
	state, _ := f.waysOf(pod, dra.Required, nil)
	if !l.Doubtful(newCycleData()) || !l.Doubtful(state) {
		t.Error("another plugin's is not in doubt")
	}
	before := l.Free("n")
	if s := f.Reserve(t.Context(), state, pod, "n"); !s.IsSuccess() {
		t.Fatal(s)
	}
	if l.Doubtful(state) {
		t.Error("a Binding that was not sent is in doubt")
	}
	if l.Free("n") == before {
		t.Error("what is free has not changed")
	}
	cycleOf(state).doubtful = true
	if !l.Doubtful(state) {
		t.Error("a Binding of unknown result is not in doubt")
	}
}

// steered returns a fixture whose profile has the plugin for claims.
func steered(t *testing.T) (*fixture, apiHandle) {
	f, h := attached(t)
	key := ofProfile{h.SharedInformerFactory(), h.ProfileName()}
	steerers.Store(key, &steer.Plugin{})
	t.Cleanup(func() { steerers.Delete(key) })
	return f, h
}

// TestWhoWaitsForCPUsBesideDevices: such a pod is woken by reports of the node although another
// plugin refused it, because that plugin uses Berth's decision.
func TestWhoWaitsForCPUsBesideDevices(t *testing.T) {
	f, _ := steered(t)
	pod := insisting(pinned("x", 4), "required")
	waits := fwk.NewStatus(fwk.Pending, "not certain yet").WithPlugin(ClaimsName)
	_, s := f.postFilter(t.Context(), f.try(pod), pod, statuses{"n": waits})
	if s.Code() != fwk.UnschedulableAndUnresolvable || !strings.Contains(s.Message(), "1 node waits for a report") {
		t.Errorf("%v %s", s.Code(), s.Message())
	}
}

// TestWaysOfAMember: a member of a gang is placed as planned, and its devices are chosen near its
// CPUs.
func TestWaysOfAMember(t *testing.T) {
	f := newFixture(t)
	f.forGangs()
	l := &lyings{shared: f.core}
	l.once.Do(func() {})
	lie := map[string]bool{}
	for _, pod := range []*corev1.Pod{f.member("one", 2, 7, 0), f.member("two", 2, 7, 1)} {
		state, node := f.plannedFor(pod)
		got := told(l.Ways(state, pod, nodeObject(node), dra.Required, nil))
		if len(got) != 1 || got[0] == "c:" {
			t.Errorf("%s: %q, want one way", pod.Name, got)
		}
		lie[fmt.Sprint(node, got)] = true
	}
	if len(lie) != 2 {
		t.Errorf("both lie on %v", lie)
	}
}

// TestWaysInAGroupCycle: a member of Kubernetes' own group is placed in addition to the members
// that are tried in the same cycle.
func TestWaysInAGroupCycle(t *testing.T) {
	f := newFixture(t)
	f.feed.ReportSeen(f.topology())
	_, pods := f.inGroup(2)
	shared := framework.NewCycleState()
	l := &lyings{shared: f.core}
	l.once.Do(func() {})
	for i, want := range []string{"[c:0]", "[c:1]"} {
		state := groupState(shared, false)
		if _, s := f.PreFilter(t.Context(), state, pods[i], nil); !s.IsSuccess() {
			t.Fatal(s)
		}
		if got := fmt.Sprint(told(l.Ways(state, pods[i], nodeObject("n"), dra.Required, func() *placement.Claimed { return nil }))); got != want {
			t.Errorf("member %d: %s, want %s", i, got, want)
		}
		if s := f.Reserve(t.Context(), state, pods[i], "n"); !s.IsSuccess() {
			t.Fatal(s)
		}
	}
	evicting := groupState(framework.NewCycleState(), true)
	if _, s := f.PreFilter(t.Context(), evicting, pods[0], nil); !s.IsSuccess() {
		t.Fatal(s)
	}
	if w := l.Ways(evicting, pods[0], nodeObject("n"), dra.Required, func() *placement.Claimed { return nil }); w.Known != steer.Unasked {
		t.Errorf("while pods are taken away: %v", w.Known)
	}
}

// TestWaysOfAnOwner: an owner of a Reservation gets CPUs near its devices within the Reservation.
func TestWaysOfAnOwner(t *testing.T) {
	for name, c := range map[string]struct {
		place int64
		stock *placement.Claimed
		want  string
	}{
		"a place on both, devices on one":      {14, devicesOn(1, 0, 1), "[c:1 near c:0-1 near c:0]"},
		"a place on one, devices on the other": {4, devicesOn(1, 0, 1), "[c:0]"},
		"nothing to follow":                    {14, nil, "[c:0]"},
	} {
		f, _ := steered(t)
		f.obeys()
		account, place := f.table.Named("n").Account(), pinned("place", c.place)
		var d placement.Decision
		if a := account.View().Decide(&f.attempt(place, requestOf(t, place)).query.Candidate, &d); !a.OK() {
			t.Fatal(a)
		}
		account.Hold(ledger.Holding{UID: "r", Held: d.Held(), Once: true})
		pod := insisting(pinned("x", 4), "required")
		state, _ := f.waysOf(pod, dra.Required, nil)
		cycleOf(state).way = &owner{from: "r", heldOn: "n"}
		l := &lyings{shared: f.core}
		l.once.Do(func() {})
		if got := fmt.Sprint(told(l.Ways(state, pod, nodeObject("n"), dra.Required, func() *placement.Claimed { return c.stock }))); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		if c.stock == nil {
			l.Keep(state, "n", devicesOn(1, 1, 1).Settled(steer.Lying{"c": topology.NewNUMASet(1)}))
			if s := cycleOf(state).decide(pod, f.table.Named("n"), "r"); !s.IsSuccess() {
				t.Fatal(s)
			}
			if lying, ok := l.Decided(pod, "n"); !ok || lying["c"] != topology.NewNUMASet(1) {
				t.Errorf("%s: it lies on %v", name, lying)
			}
		}
	}
}

// TestAnOwnerThatReserveRefuses: if the Reservation has no room near the owner's devices, the owner
// is tried at once without the Reservation. If the plugin for claims refuses later, the owner
// waits. The Reservation keeps its resources.
func TestAnOwnerThatReserveRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		near   topology.NUMAID // the NUMA node of its devices; its place is on 0
		atOnce bool
	}{"its place is elsewhere": {1, true}, "the plugin for claims refuses": {0, false}} {
		f, h := steered(t)
		f.obeys()
		woken := f.wakes()
		account, place := f.table.Named("n").Account(), pinned("place", 4)
		var d placement.Decision
		if a := account.View().Decide(&f.attempt(place, requestOf(t, place)).query.Candidate, &d); !a.OK() {
			t.Fatal(a)
		}
		account.Hold(ledger.Holding{UID: "r", Held: d.Held(), Once: true})
		pod := insisting(pinned("x", 4), "required")
		h.tell(t, pod)
		state, _ := f.waysOf(pod, dra.Required, nil)
		cycleOf(state).way = &owner{from: "r", heldOn: "n"}
		l := &lyings{shared: f.core}
		l.once.Do(func() {})
		l.Keep(state, "n", devicesOn(1, 1, 1).Settled(steer.Lying{"c": topology.NewNUMASet(c.near)}))
		if s := f.Reserve(t.Context(), state, pod, "n"); s.IsSuccess() == c.atOnce {
			t.Fatal(name, s)
		}
		if !c.atOnce {
			l.Refused(state)
		}
		f.Unreserve(t.Context(), state, pod, "n")
		if len(woken) > 0 != c.atOnce {
			t.Errorf("%s: woken at once: %t", name, len(woken) > 0)
		}
		f.clock.Step(wake.RoundPause)
		select {
		case names := <-woken:
			if fmt.Sprint(names) != "[x]" {
				t.Errorf("%s: %v woken", name, names)
			}
		case <-time.After(30 * time.Second):
			t.Errorf("%s: it is not woken", name)
		}
		if a := account.View().DecideOwner(&f.attempt(pod, requestOf(t, pod)).query.Candidate, "r", nil); !a.OK() {
			t.Errorf("%s: the place does not take its owner again: %v", name, a)
		}
	}
}

// TestAPodThatWaitsForItsDeviceHoldsNobodyUp: a promise keeps other pods off the node, because its
// kubelet may admit the promised pod first. This ends while the pod waits for a device to become
// ready.
func TestAPodThatWaitsForItsDeviceHoldsNobodyUp(t *testing.T) {
	f, _ := steered(t)
	slow, other := insisting(pinned("slow", 4), "required"), pinned("other", 4)
	state, _ := f.waysOf(slow, dra.Required, nil)
	if s := f.Reserve(t.Context(), state, slow, "n"); !s.IsSuccess() {
		t.Fatal(s)
	}
	asks := func() ledger.Answer {
		return f.table.Named("n").Account().View().Decide(&f.attempt(other, requestOf(t, other)).query.Candidate, new(placement.Decision))
	}
	if a := asks(); a.Wait != ledger.PromiseAtRisk {
		t.Fatalf("before: %+v, want one that puts the promise at risk", a)
	}
	l := &lyings{shared: f.core}
	l.once.Do(func() {})
	l.Waits(slow, "n")
	if a := asks(); !a.OK() {
		t.Errorf("while the device becomes ready: %+v", a)
	}
}

// TestBoundPodsAreCounted: the metric counts bound pods by mode and alignment.
func TestBoundPodsAreCounted(t *testing.T) {
	register()
	count := func(mode, alignment string) float64 {
		v, err := testutil.GetCounterMetricValue(claimPods.WithLabelValues(mode, alignment))
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	l := &lyings{}
	for _, mode := range []dra.Mode{dra.Near, dra.Required} {
		for a, word := range dra.Alignments() {
			before := count(mode.String(), word)
			l.Bound(mode, dra.Alignment(a))
			if got := count(mode.String(), word) - before; got != 1 {
				t.Errorf("%s %s: counted %v times", mode, word, got)
			}
		}
	}
}
