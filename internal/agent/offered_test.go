package agent

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/enforce"
	"github.com/berth-dev/berth/internal/offer"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology/shapes"
)

const tokensOfGPU = "berth-token-000"

// newOfferingWorld returns a node on which Berth decides and whose agent offers GPUs, and a device
// that would not be reported otherwise. Another plugin offers x.y/d.
func newOfferingWorld(t *testing.T) *world {
	t.Helper()
	w := newObeyingWorld(t)
	w.m.around.machine = givenMachine(testMachine + " dev:3b:00.0|3c:00.0,030200,10de:2330,numa=0,root=3a,switch=3a:01.0 dev:bb:00.0,030200,10de:2330,numa=1,root=ba dev:bc:00.0,00ff00,1234:11e8,numa=1,root=ba")
	offers, err := offer.Read("devices.yaml", []byte(`resources: [{resource: a.b/gpu, class: gpu}, {resource: a.b/odd, vendor: "1234", product: "11e8"}]`))
	if err != nil {
		t.Fatal(err)
	}
	w.m.around.devices = offers
	w.node.Status.Capacity["a.b/gpu"], w.node.Status.Capacity["a.b/odd"] = resource.MustParse("3"), resource.MustParse("1")
	w.allocated(registeredTokens(nil), "null")
	w.obeys(&obeyed{offered: map[string]string{"0000:3b:00.0": "a.b/gpu", "0000:3c:00.0": "a.b/gpu", "0000:bb:00.0": "a.b/gpu", "0000:bc:00.0": "a.b/odd"}})
	return w
}

// newPluginOf returns a plugin for a world, which no runtime calls.
func newPluginOf(t *testing.T, w *world) *enforce.Plugin {
	t.Helper()
	w.settle()
	books, err := enforce.NewBooks(w.m.around.platform.spec.Machine, shapes.CPUs("0"), enforce.Hold)
	if err != nil {
		t.Fatal(err)
	}
	return enforce.NewPlugin(books, t.Logf)
}

// registeredTokens returns the healthy devices of the kubelet's plugins, with those in more.
func registeredTokens(more map[string][]string) map[string][]string {
	all := map[string][]string{"a.b/gpu": {tokensOfGPU + "0", tokensOfGPU + "1", tokensOfGPU + "2"}, "a.b/odd": {tokensOfGPU + "0"}, "x.y/d": {"d0", "d1"}}
	for resource, ids := range more {
		all[resource] = ids
	}
	return all
}

// TestOfferedReport: the report has the devices that the agent offers, with Berth's decisions and
// the pods that use them. It does not have tokens.
func TestOfferedReport(t *testing.T) {
	w := newOfferingWorld(t)
	w.see("a", corev1.PodRunning)
	w.admitted("a")
	const entries = `[{"PodUID":"a","ContainerName":"main","ResourceName":"a.b/gpu","DeviceIDs":{"-1":["berth-token-0000"]},"AllocResp":""},
{"PodUID":"a","ContainerName":"main","ResourceName":"x.y/d","DeviceIDs":{"1":["d0"]},"AllocResp":""}]`
	w.allocated(registeredTokens(nil), entries)
	w.obeys(&obeyed{
		pods:    map[string][]placement.ContainerAllocation{"a": {{Name: "main", CPUs: shapes.CPUs("2"), Devices: []placement.DeviceAllocation{{Resource: "a.b/gpu", IDs: []string{"0000:bb:00.0"}}}}}},
		offered: map[string]string{"0000:3b:00.0": "a.b/gpu", "0000:3c:00.0": "a.b/gpu", "0000:bb:00.0": "a.b/gpu", "0000:bc:00.0": "another"}, // the last one came later
		sick:    map[string]string{"0000:3c:00.0": "it has gone"},
	})
	w.settle()
	nt := w.writes[len(w.writes)-1]
	var pools []string
	for _, p := range nt.Status.Devices {
		line := fmt.Sprint(p.Resource, " ", p.DecidedBy)
		for _, g := range p.Groups {
			line += fmt.Sprint(" ", *g.NUMA, g.IDs, g.Unhealthy)
		}
		pools = append(pools, line)
	}
	want := []string{"a.b/gpu berth 0[0000:3b:00.0] false 0[0000:3c:00.0] true 1[0000:bb:00.0] false", "a.b/odd berth 1[0000:bc:00.0] true", "x.y/d  0[d0] false 1[d1] false"}
	if strings.Join(pools, "\n") != strings.Join(want, "\n") {
		t.Errorf("pools\n%s\nwant\n%s", strings.Join(pools, "\n"), strings.Join(want, "\n"))
	}
	if got, want := nt.Status.Pods[0].String(), "a pod=ns/pod-a main;cpus=2;dev=a.b/gpu=0000:bb:00.0;dev=x.y/d=d0"; got != want {
		t.Errorf("reported %s, want %s", got, want)
	}
	if got := w.ready(); !strings.HasPrefix(got, "True") {
		t.Error(got)
	}
	if !strings.Contains(nt.Spec.Devices, "bc:00.0,00ff00") {
		t.Errorf("spec.devices lacks the device that is no GPU: %s", nt.Spec.Devices)
	}
}

// TestADeviceThatComes is offered without a restart of the kubelet or the agent. A device that is
// gone stays known, because a pod may have it.
func TestADeviceThatComes(t *testing.T) {
	w := newOfferingWorld(t)
	slots := "as at first"
	w.m.around.slots.fingerprint = func() string { return slots }
	e := &enforcer{opts: &Options{Log: slog.New(slog.DiscardHandler)}, changed: func() {}}
	e.set(newPluginOf(t, w), offer.New(nil, offer.Host{SpecDirs: []string{t.TempDir()}}, t.Logf), nil)
	w.m.renew = e.renew
	w.m.running = func() *obeyed {
		out := &obeyed{offered: map[string]string{}}
		for _, p := range e.offers.Pools() {
			for _, d := range p.Devices {
				out.offered[d.Address] = p.Resource
			}
		}
		return out
	}
	w.settle()
	gpus := func() string {
		var out []string
		for _, g := range w.writes[len(w.writes)-1].Status.Devices[0].Groups {
			out = append(out, fmt.Sprint(g.IDs, g.Unhealthy))
		}
		return strings.Join(out, " ")
	}
	if got, want := gpus(), "[0000:3b:00.0 0000:3c:00.0] false [0000:bb:00.0] false"; got != want {
		t.Fatalf("at first %s, want %s", got, want)
	}
	w.m.around.machine = givenMachine(testMachine + " dev:3b:00.0,030200,10de:2330,numa=0,root=3a dev:bb:00.0,030200,10de:2330,numa=1,root=ba dev:bc:00.0,00ff00,1234:11e8,numa=1,root=ba dev:cc:00.0,030200,10de:2330,numa=1,root=cb")
	if w.m.lookAround(t.Context()) {
		t.Error("news before the machine has others")
	}
	slots = "one goes, one comes"
	if w.m.lookAround(t.Context()) {
		t.Error("news though a second look has not seen the same")
	}
	if !w.m.lookAround(t.Context()) || w.m.lookAround(t.Context()) {
		t.Error("want news, once")
	}
	w.settle()
	if got, want := gpus(), "[0000:3b:00.0 0000:3c:00.0] false [0000:bb:00.0 0000:cc:00.0] false"; got != want {
		t.Errorf("then %s, want %s", got, want)
	}
	if got := w.ready(); !strings.HasPrefix(got, "True") {
		t.Error(got)
	}
}

// TestOfferedBeforeItBegins: a pod has tokens, but its container has not started. It has no device
// in the report yet. Its Binding has the promised one.
func TestOfferedBeforeItBegins(t *testing.T) {
	w := newOfferingWorld(t)
	w.see("a", corev1.PodPending)
	w.admitted("a")
	w.allocated(registeredTokens(nil), `[{"PodUID":"a","ContainerName":"main","ResourceName":"a.b/gpu","DeviceIDs":{"-1":["berth-token-0000"]},"AllocResp":""}]`)
	w.settle()
	if pods := w.last().Report.Snapshot.Pods; len(pods) != 1 || len(pods[0].Containers) != 0 {
		t.Errorf("%+v", pods)
	}
}

// TestOfferedWhileTheKubeletStarts: a starting kubelet admits pods before it takes back the tokens
// of pods that are gone. Until then, devices of that resource count as unhealthy.
func TestOfferedWhileTheKubeletStarts(t *testing.T) {
	w := newOfferingWorld(t)
	w.allocated(registeredTokens(nil), `[{"PodUID":"gone","ContainerName":"main","ResourceName":"a.b/gpu","DeviceIDs":{"-1":["berth-token-0000"]},"AllocResp":""}]`)
	w.m.presence.started()
	sick := func() string {
		var out []string
		for _, p := range w.last().Report.Snapshot.Devices {
			if p.Decided && p.Devices[0].Unhealthy {
				out = append(out, p.Resource)
			}
		}
		return strings.Join(out, " ")
	}
	w.steps(20) // some seconds
	if got := sick(); got != "a.b/gpu" {
		t.Errorf("not to be promised: %q, want a.b/gpu", got)
	}
	w.clock = w.clock.Add(evidenceByTime)
	w.steps(600)
	if got := sick(); got != "" {
		t.Errorf("not to be promised: %q, want none", got)
	}
}

// TestOfferedIsRefused: the condition names the reason why devices are not offered.
func TestOfferedIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*world)
		want   string
	}{
		"a plugin of the same name": {func(w *world) { w.devices(registeredTokens(map[string][]string{"a.b/gpu": {"GPU-1"}})) },
			`False Contradiction: another device plugin offers a.b/gpu to the kubelet ("GPU-1" is one of its devices), and Berth offers the same resource: remove that plugin`},
		"a plugin of the same devices": {func(w *world) { w.devices(registeredTokens(map[string][]string{"nvidia.com/gpu": {"GPU-1"}})) },
			`False Contradiction: another device plugin offers device GPU-1 to the kubelet as nvidia.com/gpu`},
		"a pod from before": {func(w *world) {
			w.see("a", corev1.PodRunning)
			w.admitted("a")
			w.allocated(registeredTokens(nil), `[{"PodUID":"a","ContainerName":"main","ResourceName":"a.b/gpu","DeviceIDs":{"0":["GPU-1"]},"AllocResp":""}]`)
		}, "False Contradiction: pod ns/pod-a has device GPU-1 of a.b/gpu from another device plugin, but the agent offers that resource"},
		"a machine without the devices": {func(w *world) { w.m.around.machine = givenMachine(testMachine) },
			`False Unsupported: devices.yaml: resources[0]: "a.b/gpu": want a device of this machine; with optional: true the device may be missing`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newOfferingWorld(t)
			c.change(w)
			w.steps(600)
			if got := w.ready(); !strings.HasPrefix(got, c.want) {
				t.Errorf("%s\nwant %s", got, c.want)
			}
		})
	}
	w := newOfferingWorld(t)
	w.m.around.authority = v1alpha1.AuthorityKubelet
	w.m.around.machine = givenMachine(testMachine)
	w.devices(map[string][]string{"x.y/d": {"d0", "d1"}})
	w.steps(600)
	if got := w.ready(); !strings.HasPrefix(got, "True") {
		t.Errorf("where the kubelet decides nothing is offered: %s", got)
	}
}
