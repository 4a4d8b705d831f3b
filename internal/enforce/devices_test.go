package enforce

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

// twoKinds has two resources with two devices each, one of which is unhealthy.
var twoKinds = Offered{
	"a.b/gpu": {"0000:3b:00.0": {CDI: "vendor/gpu=0"}, "0000:3c:00.0": {CDI: "vendor/gpu=1"}},
	"a.b/nic": {"0000:5e:00.0": {CDI: "berth.dev/pci=0000:5e:00.0"}, "0000:5f:00.0": {Sick: "it has gone"}},
}

// asking returns a container, alone in its pod, with tokens and the devices of its decision.
func asking(pod string, tokens map[string]int, devices ...placement.DeviceAllocation) Container {
	c := Container{ID: "c-" + pod, Pod: "s-" + pod, UID: "u-" + pod, Short: "app", Name: "ns/" + pod + "/app", Tokens: tokens}
	if devices != nil {
		c.Decision = &placement.ContainerDecision{Name: "app", Devices: devices}
	}
	return c
}

func of(resource string, ids ...string) placement.DeviceAllocation {
	return placement.DeviceAllocation{Resource: resource, IDs: ids}
}

// TestDevicesAreHeld: a container gets exactly the devices of its decision, and does not start if
// one of them is missing.
func TestDevicesAreHeld(t *testing.T) {
	b := newBooks(t, Confine) // devices are never shared, even if CPUs may be
	b.Offer(twoKinds)
	gpu := map[string]int{"a.b/gpu": 1}
	if _, _, err := b.Create(asking("first", gpu, of("a.b/gpu", "0000:3b:00.0"))); err != nil {
		t.Fatal(err)
	}
	forged := asking("forged", gpu)
	forged.Fault = "a placement cannot be copied"
	for _, c := range []struct {
		c    Container
		says string
	}{
		{asking("none", gpu), "no decision names devices for it"},
		{forged, "cannot be trusted: a placement cannot be copied"},
		{asking("other", gpu, of("a.b/nic", "0000:5e:00.0")), "no decision names devices for it"},
		{asking("fewer", map[string]int{"a.b/gpu": 2}, of("a.b/gpu", "0000:3c:00.0")), "names 1 device of a.b/gpu, but the kubelet has allocated 2"},
		{asking("uncounted", nil, of("a.b/gpu", "0000:3c:00.0")), "the kubelet has allocated none"},
		{asking("unreadable", map[string]int{"a.b/gpu": -1}, of("a.b/gpu", "0000:3c:00.0")), "has allocated -1"},
		{asking("twice", map[string]int{"a.b/gpu": 2}, of("a.b/gpu", "0000:3c:00.0", "0000:3c:00.0")), "twice"},
		{asking("unknown", gpu, of("a.b/gpu", "0000:99:00.0")), "0000:99:00.0 of a.b/gpu, which this node does not offer"},
		{asking("gone", map[string]int{"a.b/x": 1}, of("a.b/x", "0000:99:00.0")), "which this node does not offer"},
		{asking("sick", map[string]int{"a.b/nic": 1}, of("a.b/nic", "0000:5f:00.0")), "cannot be given to it: it has gone"},
		{asking("thief", gpu, of("a.b/gpu", "0000:3b:00.0")), "0000:3b:00.0 of a.b/gpu is held by ns/first/app"},
	} {
		_, _, err := b.Create(c.c)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %s", c.c.Name, err, c.says)
		}
	}
	if _, _, err := b.Create(asking("foreign", nil, of("vendor.example/x", "7"))); err != nil {
		t.Errorf("a device of another plugin: %v", err)
	}
	both := asking("both", map[string]int{"a.b/gpu": 1, "a.b/nic": 1}, of("a.b/gpu", "0000:3c:00.0"), of("a.b/nic", "0000:5e:00.0"))
	if _, _, err := b.Create(both); err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(b.Injections(both.ID)), "[{a.b/gpu [0000:3c:00.0] [vendor/gpu=1]} {a.b/nic [0000:5e:00.0] [berth.dev/pci=0000:5e:00.0]}]"; got != want {
		t.Errorf("injects %s, want %s", got, want)
	}
	if err := b.check(); err != nil {
		t.Error(err)
	}
	// The pod keeps its devices while its sandbox exists, because the container may start again.
	b.Stop("c-first")
	b.Remove("c-first")
	if _, _, err := b.Create(asking("thief", gpu, of("a.b/gpu", "0000:3b:00.0"))); err == nil {
		t.Error("a device of a pod that has not stopped was given away")
	}
	again := asking("first", gpu, of("a.b/gpu", "0000:3b:00.0"))
	again.ID = "c-first-again"
	if _, _, err := b.Create(again); err != nil {
		t.Error(err)
	}
	b.RemovePod("s-first")
	if _, _, err := b.Create(asking("thief", gpu, of("a.b/gpu", "0000:3b:00.0"))); err != nil {
		t.Error(err)
	}
}

// TestDevicesSynchronize: running containers keep their devices. If two have the same device, the
// older one keeps it. A container that runs without its devices is reported.
func TestDevicesSynchronize(t *testing.T) {
	b := newBooks(t, Hold)
	b.Offer(twoKinds)
	gpu := map[string]int{"a.b/gpu": 1}
	given := func(c Container, created int64, variable, ids string) Container {
		c.Created, c.Given = created, map[string]string{variable: ids}
		return c
	}
	b.Synchronize([]Container{
		given(asking("late", gpu, of("a.b/gpu", "0000:3b:00.0")), 2, "PCIDEVICE_A_B_GPU", "0000:3b:00.0"),
		given(asking("early", gpu, of("a.b/gpu", "0000:3b:00.0")), 1, "PCIDEVICE_A_B_GPU", "0000:3b:00.0"),
		given(asking("bare", gpu, of("a.b/gpu", "0000:3c:00.0")), 3, "PATH", "/bin"),
		given(asking("sick", map[string]int{"a.b/nic": 1}, of("a.b/nic", "0000:5f:00.0")), 4, "PCIDEVICE_A_B_NIC", "0000:5f:00.0"),
		given(asking("former", map[string]int{"a.b/x": 1}, of("a.b/x", "0000:5e:00.0")), 5, "PCIDEVICE_A_B_X", "0000:5e:00.0"),
	}, "s-late", "s-early", "s-bare", "s-sick", "s-former")
	held := map[string]string{}
	for _, h := range b.All() {
		held[h.Container.Pod] = fmt.Sprint(h.Devices) + " " + h.Why
	}
	want := map[string]string{
		"s-early":  "[{a.b/gpu [0000:3b:00.0]}] ",
		"s-late":   "[] device 0000:3b:00.0 of a.b/gpu is held by ns/early/app",
		"s-bare":   `[{a.b/gpu [0000:3c:00.0]}] has no device of a.b/gpu, but should have 0000:3c:00.0: restart the container`,
		"s-sick":   "[{a.b/nic [0000:5f:00.0]}] ",
		"s-former": "[{a.b/x [0000:5e:00.0]}] ",
	}
	if !maps.Equal(held, want) {
		t.Errorf("got %q\nwant %q", held, want)
	}
	if _, _, err := b.Create(asking("thief", map[string]int{"a.b/nic": 1}, of("a.b/nic", "0000:5e:00.0"))); err == nil || !strings.Contains(err.Error(), "held by ns/former/app") {
		t.Errorf("a device that was offered under another name before: %v", err)
	}
	if err := b.check(); err != nil {
		t.Error(err)
	}
}

// TestDevicesAtRandom starts and stops containers at random, and compares the books with a simple
// list.
func TestDevicesAtRandom(t *testing.T) {
	rng := rand.New(rand.NewPCG(17, 3))
	offered := Offered{"a.b/gpu": {}}
	var ids []string
	for i := range 6 {
		id := fmt.Sprintf("0000:%02x:00.0", i)
		ids = append(ids, id)
		offered["a.b/gpu"][id] = Device{CDI: id}
	}
	for range 200 {
		b := newBooks(t, Hold)
		b.Offer(offered)
		has := map[string][]string{} // by pod
		for i := range 40 {
			pod := fmt.Sprint("p", rng.IntN(8))
			if rng.IntN(3) == 0 {
				b.RemovePod("s-" + pod)
				delete(has, pod)
				continue
			}
			var wants []string
			for _, id := range ids {
				if rng.IntN(4) == 0 {
					wants = append(wants, id)
				}
			}
			if len(wants) == 0 || has[pod] != nil {
				continue
			}
			free := true
			for _, held := range has {
				free = free && !slices.ContainsFunc(wants, func(id string) bool { return slices.Contains(held, id) })
			}
			rng.Shuffle(len(wants), func(x, y int) { wants[x], wants[y] = wants[y], wants[x] })
			c := asking(pod, map[string]int{"a.b/gpu": len(wants)}, of("a.b/gpu", wants...))
			if c.ID = fmt.Sprint("c", i); c.Created == 0 {
				c.Created = int64(i)
			}
			_, _, err := b.Create(c)
			if (err == nil) != free {
				t.Fatalf("%s wants %v, %v are held: %v", pod, wants, has, err)
			}
			if err == nil {
				has[pod] = wants
			}
			if err := b.check(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestNRIDevices: NRI's own adaptation passes the devices of the decision to the runtime. A runtime
// that may not inject them does not start such a container.
func TestNRIDevices(t *testing.T) {
	r := newRuntime(t)
	p := newPlugin(t)
	p.Offer(twoKinds)
	defer r.connect(p)()
	d := appOn("4-5")
	d.Devices = []placement.DeviceAllocation{of("a.b/gpu", "0000:3b:00.0", "0000:3c:00.0"), of("a.b/nic", "0000:5e:00.0")}
	pod := r.pod("a", nil, d)
	r.tokens = map[string]string{wire.TokensAnnotation("a.b/gpu"): "2", wire.TokensAnnotation("a.b/nic"): "1"}
	if err := r.create(pod, "app"); err != nil {
		t.Fatal(err)
	}
	var cdi []string
	for _, c := range r.adjust.GetCDIDevices() {
		cdi = append(cdi, c.GetName())
	}
	if want := []string{"vendor/gpu=0", "vendor/gpu=1", "berth.dev/pci=0000:5e:00.0"}; !slices.Equal(cdi, want) {
		t.Errorf("injects %v, want %v", cdi, want)
	}
	var env []string
	for _, e := range r.adjust.GetEnv() {
		env = append(env, e.ToOCI())
	}
	if want := []string{"PCIDEVICE_A_B_GPU=0000:3b:00.0,0000:3c:00.0", "PCIDEVICE_A_B_NIC=0000:5e:00.0"}; !slices.Equal(env, want) {
		t.Errorf("environment %v, want %v", env, want)
	}
	if err := r.create(r.pod("bare", nil, nil), "app"); err == nil || !strings.Contains(err.Error(), "only berth-scheduler may place such pods on this node") {
		t.Errorf("a container without a decision: %v", err)
	}
	if n := len(p.Sight().Waiting); n != 1 {
		t.Errorf("%d containers wait, want 1", n)
	}
	if got := p.Sight().Containers[0].Devices; len(got) != 2 {
		t.Errorf("holds %v", got)
	}
}

// TestNRITooOldForDevices: a runtime that might ignore devices does not start containers that
// request some.
func TestNRITooOldForDevices(t *testing.T) {
	r := newRuntime(t)
	p := newPlugin(t)
	p.NRIVersion = "v0.8.0"
	p.Offer(twoKinds)
	defer r.connect(p)()
	d := appOn("4-5")
	d.Devices = []placement.DeviceAllocation{of("a.b/gpu", "0000:3b:00.0")}
	r.tokens = map[string]string{wire.TokensAnnotation("a.b/gpu"): "1"}
	if err := r.create(r.pod("a", nil, d), "app"); err == nil || !strings.Contains(err.Error(), "the runtime's NRI is v0.8.0") {
		t.Errorf("%v", err)
	}
	r.tokens = nil
	if err := r.create(r.pod("b", nil, appOn("4-5")), "app"); err != nil {
		t.Errorf("one that asks for none: %v", err)
	}
}
