package enforce

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
	validator "github.com/containerd/nri/plugins/default-validator/builtin"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
	"github.com/berth-dev/berth/topology/shapes"
)

// runtime is a container runtime as NRI sees it: the genuine adaptation, with containers that only
// have a CPU set.
type runtime struct {
	t    *testing.T
	nri  *adaptation.Adaptation
	mu   sync.Mutex
	pods map[string]*api.PodSandbox
	ctrs map[string]*api.Container
	sock string
	// synchronized gets a value when a plugin has the running containers.
	synchronized chan struct{}
	// unasked counts updates that the runtime did not ask for. The next refuse of them fail.
	unasked, refuse int
	// slow means that containers are created but not started.
	slow bool
	// tokens are annotations of new containers. adjust is the plugins' last answer.
	tokens map[string]string
	adjust *api.ContainerAdjustment
}

// newRuntime starts the adaptation with the validator that refuses containers whose required
// plugins are missing.
func newRuntime(t *testing.T, required ...string) *runtime {
	t.Helper()
	dir := t.TempDir()
	r := &runtime{t: t, pods: map[string]*api.PodSandbox{}, ctrs: map[string]*api.Container{}, sock: filepath.Join(dir, "nri.sock"), synchronized: make(chan struct{}, 1)}
	var err error
	r.nri, err = adaptation.New("test", "0", r.synchronize, r.update, adaptation.WithSocketPath(r.sock), adaptation.WithPluginPath(filepath.Join(dir, "plugins")),
		adaptation.WithPluginConfigPath(filepath.Join(dir, "conf.d")),
		adaptation.WithDefaultValidator(&validator.DefaultValidatorConfig{Enable: true, RequiredPlugins: required, TolerateMissingAnnotation: "tolerate.example.com"}))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.nri.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.nri.Stop)
	return r
}

func (r *runtime) synchronize(ctx context.Context, cb adaptation.SyncCB) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var pods []*api.PodSandbox
	var ctrs []*api.Container
	for _, p := range r.pods {
		pods = append(pods, p)
	}
	for _, c := range r.ctrs {
		ctrs = append(ctrs, c)
	}
	updates, err := cb(ctx, pods, ctrs)
	r.apply(updates)
	if err == nil {
		select {
		case r.synchronized <- struct{}{}:
		default:
		}
	}
	return err
}

// update carries out an update of a plugin that the runtime did not ask for.
func (r *runtime) update(_ context.Context, updates []*api.ContainerUpdate) ([]*api.ContainerUpdate, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unasked += len(updates)
	if r.refuse > 0 {
		r.refuse--
		return updates, nil
	}
	r.apply(updates)
	return nil, nil
}

// apply writes the cgroups.
func (r *runtime) apply(updates []*api.ContainerUpdate) {
	for _, u := range updates {
		c := r.ctrs[u.GetContainerId()]
		if c == nil {
			r.t.Errorf("an update for container %s, which is not there", u.GetContainerId())
			continue
		}
		if cpus := u.GetLinux().GetResources().GetCpu().GetCpus(); cpus != "" {
			c.Linux.Resources.Cpu.Cpus = cpus
		}
		if mems := u.GetLinux().GetResources().GetCpu().GetMems(); mems != "" {
			c.Linux.Resources.Cpu.Mems = mems
		}
	}
}

// connect starts a plugin and waits until it knows the running containers. stop ends it and waits
// until the runtime has noticed.
func (r *runtime) connect(p *Plugin) (stop func()) {
	r.t.Helper()
	ctx, cancel := context.WithCancel(r.t.Context())
	select {
	case <-r.synchronized: // of an earlier plugin
	default:
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = p.Run(ctx, r.sock)
	}()
	select {
	case <-r.synchronized:
	case <-time.After(time.Minute):
		r.t.Fatal("the plugin does not come up")
	}
	r.nri.BlockPluginSync().Unblock() // waits until it is registered
	return func() {
		cancel()
		<-ended
	}
}

// pod creates a sandbox, with a decision if d is not nil.
func (r *runtime) pod(name string, annotations map[string]string, d *placement.ContainerDecision) *api.PodSandbox {
	r.t.Helper()
	p := &api.PodSandbox{Id: "sandbox-" + name, Name: name, Namespace: "ns", Uid: "uid-" + name, Annotations: map[string]string{}}
	for k, v := range annotations {
		p.Annotations[k] = v
	}
	if d != nil {
		text, err := wire.WritePlacement(&wire.Placement{Sequence: 1, Certainty: wire.Exact, Guarantee: wire.GuaranteeFull,
			Decision: placement.Decision{UID: p.Uid, Containers: []placement.ContainerDecision{*d}}})
		if err != nil {
			r.t.Fatal(err)
		}
		p.Annotations[wire.PlacementAnnotation] = text
	}
	r.pods[p.Id] = p
	return p
}

// create asks the plugins as a runtime does, and starts the container.
func (r *runtime) create(p *api.PodSandbox, name string) error {
	b := r.nri.BlockPluginSync()
	defer b.Unblock()
	r.mu.Lock()
	defer r.mu.Unlock()
	c := &api.Container{Id: "ctr-" + p.Name, PodSandboxId: p.Id, Name: name, State: api.ContainerState_CONTAINER_RUNNING, CreatedAt: int64(len(r.ctrs)), Annotations: r.tokens,
		Linux: &api.LinuxContainer{CgroupsPath: "/kubepods/" + p.Uid, Resources: &api.LinuxResources{Cpu: &api.LinuxCPU{}}}}
	answer, err := r.nri.CreateContainer(r.t.Context(), &api.CreateContainerRequest{Pod: p, Container: c})
	if err != nil {
		return err
	}
	r.apply(answer.GetUpdate())
	r.adjust = answer.GetAdjust()
	cpu := answer.GetAdjust().GetLinux().GetResources().GetCpu()
	c.Linux.Resources.Cpu.Cpus, c.Linux.Resources.Cpu.Mems, c.Linux.Resources.Cpu.Quota = cpu.GetCpus(), cpu.GetMems(), cpu.GetQuota()
	r.ctrs[c.Id] = c
	if r.slow {
		return nil
	}
	return r.nri.PostStartContainer(r.t.Context(), &api.PostStartContainerRequest{Pod: p, Container: c})
}

func (r *runtime) stopPod(p *api.PodSandbox) {
	r.t.Helper()
	c := r.ctrs["ctr-"+p.Name]
	delete(r.ctrs, c.Id)
	answer, err := r.nri.StopContainer(r.t.Context(), &api.StopContainerRequest{Pod: p, Container: c})
	if err != nil {
		r.t.Fatal(err)
	}
	r.apply(answer.GetUpdate())
	if err := r.nri.RemoveContainer(r.t.Context(), &api.RemoveContainerRequest{Pod: p, Container: c}); err != nil {
		r.t.Fatal(err)
	}
	if err := r.nri.RemovePodSandbox(r.t.Context(), &api.RemovePodSandboxRequest{Pod: p}); err != nil {
		r.t.Fatal(err)
	}
	delete(r.pods, p.Id)
}

// want compares the cgroups with a list of "name=cpus".
func (r *runtime) want(lines ...string) {
	r.t.Helper()
	if len(lines) != len(r.ctrs) {
		r.t.Errorf("%d containers, want %d", len(r.ctrs), len(lines))
	}
	for _, line := range lines {
		name, cpus, _ := strings.Cut(line, "=")
		if got := r.ctrs["ctr-"+name].GetLinux().GetResources().GetCpu().GetCpus(); got != cpus {
			r.t.Errorf("%s runs on %q, want %q", name, got, cpus)
		}
	}
}

func newPlugin(t *testing.T) *Plugin {
	p := NewPlugin(newBooks(t, Hold), t.Logf)
	p.NRIVersion = "v0.12.3" // the adaptation in the test does not know its own version
	return p
}

func appOn(list string) *placement.ContainerDecision {
	return &placement.ContainerDecision{Name: "app", Hint: placement.Hint{Any: true}, CPUs: shapes.CPUs(list)}
}

// TestNRI runs pods through NRI's own runtime adaptation.
func TestNRI(t *testing.T) {
	r := newRuntime(t)
	p := newPlugin(t)
	p.LiftQuota = true
	defer r.connect(p)()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(r.create(r.pod("web", nil, nil), "app"))
	a := r.pod("a", nil, appOn("4-5"))
	must(r.create(a, "app"))
	r.want("web=0-3,6-15", "a=4-5")
	if quota := r.ctrs["ctr-a"].GetLinux().GetResources().GetCpu().GetQuota().GetValue(); quota != -1 {
		t.Errorf("quota %d, want -1", quota)
	}
	mems := appOn("8-9")
	mems.Bounds, mems.Memory = placement.BoundMemory, []placement.MemoryBlock{{Resource: "memory", NUMA: 2, Bytes: 1}}
	must(r.create(r.pod("b", nil, mems), "app"))
	if got := r.ctrs["ctr-b"].GetLinux().GetResources().GetCpu().GetMems(); got != "1" {
		t.Errorf("memory nodes %q, want 1", got)
	}
	if err := r.create(r.pod("thief", nil, appOn("5-6")), "app"); err == nil || !strings.Contains(err.Error(), "CPUs 5 are held by ns/a/app") {
		t.Errorf("a decision for somebody else's CPUs: %v", err)
	}
	copied := r.pod("copy", map[string]string{wire.PlacementAnnotation: a.Annotations[wire.PlacementAnnotation]}, nil)
	if err := r.create(copied, "app"); err == nil || !strings.Contains(err.Error(), "a placement cannot be copied") {
		t.Errorf("a copied decision: %v", err)
	}
	r.want("web=0-3,6-7,10-15", "a=4-5", "b=8-9")
	r.stopPod(a)
	r.want("web=0-7,10-15", "b=8-9")
}

// resize makes the runtime carry out an in-place resize of the kubelet, which has another quota but
// no CPUs.
func (r *runtime) resize(name string, quota int64) {
	r.t.Helper()
	c := r.ctrs["ctr-"+name]
	answer, err := r.nri.UpdateContainer(r.t.Context(), &api.UpdateContainerRequest{Pod: r.pods[c.PodSandboxId], Container: c,
		LinuxResources: &api.LinuxResources{Cpu: &api.LinuxCPU{Quota: api.Int64(quota)}}})
	if err != nil {
		r.t.Fatal(err)
	}
	for _, u := range answer.GetUpdate() {
		if cpu := u.GetLinux().GetResources().GetCpu(); u.GetContainerId() == c.Id {
			c.Linux.Resources.Cpu = cpu
		}
	}
}

// TestAResizeMovesNothing: after an in-place resize, a container keeps its CPUs and memory nodes,
// and stays without a quota if it had none.
func TestAResizeMovesNothing(t *testing.T) {
	r := newRuntime(t)
	p := newPlugin(t)
	p.LiftQuota = true
	defer r.connect(p)()
	mems := appOn("8-9")
	mems.Bounds, mems.Memory = placement.BoundMemory, []placement.MemoryBlock{{Resource: "memory", NUMA: 2, Bytes: 1}}
	for name, d := range map[string]*placement.ContainerDecision{"web": nil, "a": appOn("4-5"), "b": mems} {
		if err := r.create(r.pod(name, nil, d), "app"); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"web=0-3,6-7,10-15", "a=4-5", "b=8-9"}
	r.want(want...)
	for name, quota := range map[string]int64{"web": 70_000, "a": -1, "b": -1} {
		r.resize(name, 70_000)
		if got := r.ctrs["ctr-"+name].GetLinux().GetResources().GetCpu().GetQuota().GetValue(); got != quota {
			t.Errorf("%s has a quota of %d, want %d", name, got, quota)
		}
	}
	if got := r.ctrs["ctr-b"].GetLinux().GetResources().GetCpu().GetMems(); got != "1" {
		t.Errorf("memory nodes %q, want 1", got)
	}
	r.want(want...)
}

// TestNoContainerBeginsOffline: the CPUs of a decision may have gone offline since. The kernel
// gives a cpuset without an online CPU the CPUs of its parent.
func TestNoContainerBeginsOffline(t *testing.T) {
	r := newRuntime(t)
	p := newPlugin(t)
	online, unread := shapes.CPUs("0-15"), error(nil)
	p.Online = func() (topology.CPUSet, error) { return online, unread }
	defer r.connect(p)()
	a := r.pod("a", nil, appOn("4-5"))
	refused := func(pod *api.PodSandbox, want string) {
		t.Helper()
		if err := r.create(pod, "app"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", pod.Name, err, want)
		}
	}
	online = shapes.CPUs("0-4,6-15")
	refused(a, "its decision names CPUs 5, which are offline")
	unread = errors.New("sys/devices/system/cpu/online: input/output error")
	refused(a, "it is not known which CPUs are online: sys/devices/system/cpu/online: input/output error")
	online, unread = shapes.CPUs("0-7"), nil
	bound := appOn("")
	bound.Bounds, bound.Shares = placement.BoundCPUs, []placement.CPUShare{{NUMA: 1, MilliCPU: 500}}
	refused(r.pod("bound", nil, bound), "the shared CPUs that it may use, 8-15, are offline")
	if err := r.create(r.pod("web", nil, nil), "app"); err != nil {
		t.Error(err)
	}
	if err := r.create(a, "app"); err != nil {
		t.Error(err)
	}
	r.want("web=0-3,6-15", "a=4-5")
	if waiting := p.Sight().Waiting; len(waiting) != 1 || waiting[0].Container != "ns/bound/app" {
		t.Errorf("waiting: %v, want ns/bound/app alone", waiting)
	}
}

// runsOn returns the CPUs of a container.
func (r *runtime) runsOn(name string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ctrs["ctr-"+name].GetLinux().GetResources().GetCpu().GetCpus()
}

// TestFailedMovesComeAgain: a changed machine causes moves of shared containers. A move that the
// runtime refuses is sent again.
func TestFailedMovesComeAgain(t *testing.T) {
	r := newRuntime(t)
	p := newPlugin(t)
	var passed atomic.Int64
	p.books.now = func() time.Time { return time.Unix(1000+passed.Load(), 0) }
	defer r.connect(p)()
	if err := r.create(r.pod("web", nil, nil), "app"); err != nil {
		t.Fatal(err)
	}
	passed.Add(10)
	r.refuse = 1
	if err := p.Renew(shapes.Machine(twoNodes+" offline:15"), shapes.CPUs("0")); err != nil {
		t.Fatal(err)
	}
	refused := func() bool { r.mu.Lock(); defer r.mu.Unlock(); return r.refuse == 0 }
	wait(t, "no move is sent", refused)
	if got := r.runsOn("web"); got != "0-15" {
		t.Fatalf("it was moved to %s all the same", got)
	}
	wait(t, "the move does not come again", func() bool {
		passed.Add(10)
		p.Sight()
		return r.runsOn("web") == "0-14"
	})
	r.mu.Lock()
	sent := r.unasked
	r.mu.Unlock()
	passed.Add(10)
	wait(t, "it never settles", func() bool { s := p.Sight(); return s.Containers[0].Settled })
	p.Sight()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.unasked > sent+1 {
		t.Errorf("%d moves were sent, want %d: one that has arrived is done", r.unasked, sent)
	}
}

// TestNothingIsLeftOfFailedCreations: if a runtime fails after the plugin's answer, it creates the
// container with a new id each time.
func TestNothingIsLeftOfFailedCreations(t *testing.T) {
	r := newRuntime(t)
	p := newPlugin(t)
	pod := r.pod("a", nil, appOn("4-5"))
	for i := range 100 {
		c := &api.Container{Id: fmt.Sprint("try-", i), PodSandboxId: pod.Id, Name: "app"}
		if _, _, err := p.CreateContainer(t.Context(), pod, c); err != nil {
			t.Fatal(err)
		}
		if len(p.paths) > 1 || len(p.books.all) > 1 {
			t.Fatalf("%d paths and %d containers after %d tries", len(p.paths), len(p.books.all), i+1)
		}
	}
	if err := p.StopPodSandbox(t.Context(), pod); err != nil || len(p.paths)+len(p.books.all) > 0 {
		t.Errorf("%d paths and %d containers are left, %v", len(p.paths), len(p.books.all), err)
	}
}

// TestEventsNameNoOtherTenant: the event for a pod's owner does not name pods of other namespaces.
// The administrator's log does.
func TestEventsNameNoOtherTenant(t *testing.T) {
	r := newRuntime(t)
	p := newPlugin(t)
	theirs, mine, near := r.pod("theirs", nil, appOn("4-5")), r.pod("mine", nil, appOn("5")), r.pod("near", nil, appOn("5"))
	theirs.Namespace = "secret"
	near.Namespace = "secret"
	create := func(pod *api.PodSandbox) error {
		_, _, err := p.CreateContainer(t.Context(), pod, &api.Container{Id: "ctr-" + pod.Name, PodSandboxId: pod.Id, Name: "app"})
		return err
	}
	if err := create(theirs); err != nil {
		t.Fatal(err)
	}
	if err := create(mine); err == nil || !strings.Contains(err.Error(), "CPUs 5 are held by a container of another namespace") || strings.Contains(err.Error(), "secret") {
		t.Errorf("told another namespace: %v", err)
	}
	if err := create(near); err == nil || !strings.Contains(err.Error(), "CPUs 5 are held by secret/theirs/app") {
		t.Errorf("told its own namespace: %v", err)
	}
	if waiting := p.Sight().Waiting; len(waiting) != 2 || !strings.Contains(waiting[0].Why, "secret/theirs/app") {
		t.Errorf("the report says %v", waiting)
	}
}

// TestAnotherPluginsCPUsDoNotPass: a container starts with the CPUs of this plugin, and not with
// those of another plugin.
func TestAnotherPluginsCPUsDoNotPass(t *testing.T) {
	p := newPlugin(t)
	adjust := &api.ContainerAdjustment{}
	adjust.SetLinuxCPUSetCPUs("3")
	for owner, passes := range map[string]bool{"90-berth": true, "95-balloons": false} {
		owners := api.NewOwningPlugins()
		if err := owners.ClaimCPUSetCPUs("c", owner); err != nil {
			t.Fatal(err)
		}
		err := p.ValidateContainerAdjustment(t.Context(), &api.ValidateContainerAdjustmentRequest{Container: &api.Container{Id: "c"}, Adjust: adjust, Owners: owners})
		if (err == nil) != passes {
			t.Errorf("%s: %v", owner, err)
		}
	}
}

// TestNRIRestart: while the agent is away, no container that requires it starts. When it is back,
// it knows the running containers and corrects changes.
func TestNRIRestart(t *testing.T) {
	r := newRuntime(t)
	stop := r.connect(newPlugin(t))
	if err := r.create(r.pod("web", nil, nil), "app"); err != nil {
		t.Fatal(err)
	}
	if err := r.create(r.pod("a", nil, appOn("4-5")), "app"); err != nil {
		t.Fatal(err)
	}
	stop()
	demands := map[string]string{}
	wire.DemandPlugin(demands, &placement.Decision{Containers: []placement.ContainerDecision{{Name: "app"}}})
	needy := r.pod("needy", demands, appOn("6-7"))
	wait(t, "a container begins without the plugin that it demands", func() bool {
		err := r.create(needy, "app")
		delete(r.ctrs, "ctr-needy")
		return err != nil && strings.Contains(err.Error(), wire.PluginName)
	})
	if err := r.create(r.pod("loose", nil, nil), "app"); err != nil { // it does not require the agent
		t.Fatal(err)
	}
	r.ctrs["ctr-a"].Linux.Resources.Cpu.Cpus = "0-15"
	defer r.connect(newPlugin(t))()
	r.want("web=0-3,6-15", "a=4-5", "loose=0-3,6-15")
	if err := r.create(needy, "app"); err != nil {
		t.Fatal(err)
	}
	r.want("web=0-3,8-15", "a=4-5", "loose=0-3,8-15", "needy=6-7")
}

// TestNRIRequiredOfAll: if the runtime requires the plugin for every container, only containers
// that the administrator has exempted start without it.
func TestNRIRequiredOfAll(t *testing.T) {
	r := newRuntime(t, wire.PluginName)
	if err := r.create(r.pod("web", nil, nil), "app"); err == nil {
		t.Error("a container began without the plugin that all need")
	}
	if err := r.create(r.pod("agent", map[string]string{"tolerate.example.com": "true"}, nil), "app"); err != nil {
		t.Errorf("a container that may begin without it: %v", err)
	}
	defer r.connect(newPlugin(t))()
	r.want("agent=0-15")
	if err := r.create(r.pod("web", nil, nil), "app"); err != nil {
		t.Error(err)
	}
}

// wait repeats ok until it is true, because the runtime notices the end of a connection later.
func wait(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for begun := time.Now(); !ok(); time.Sleep(time.Millisecond) {
		if time.Since(begun) > time.Minute {
			t.Fatal(what)
		}
	}
}

// TestHeldContainersAreForgotten: a container that is not tried again is not reported forever.
func TestHeldContainersAreForgotten(t *testing.T) {
	r := newRuntime(t)
	p := newPlugin(t)
	at := time.Unix(1000, 0)
	p.now = func() time.Time { return at }
	defer r.connect(p)()
	if err := r.create(r.pod("a", nil, appOn("4-5")), "app"); err != nil {
		t.Fatal(err)
	}
	if err := r.create(r.pod("thief", nil, appOn("5")), "app"); err == nil {
		t.Fatal("two have CPU 5")
	}
	if n := len(p.Sight().Waiting); n != 1 {
		t.Errorf("%d held, want 1", n)
	}
	at = at.Add(heldFor + 1)
	if n := len(p.Sight().Waiting); n != 0 {
		t.Errorf("%d held that nobody has tried for %v", n, heldFor)
	}
}

// TestGoneIsToldOnce: that the runtime is gone is reported once, and again only after it was back.
func TestGoneIsToldOnce(t *testing.T) {
	p := newPlugin(t)
	refused, closed := errors.New("connection refused"), errors.New("closed")
	if !p.disconnected(refused) || p.disconnected(refused) || !p.disconnected(closed) {
		t.Error("a reason is told once, and another one too")
	}
	if _, err := p.Synchronize(t.Context(), nil, nil); err != nil {
		t.Fatal(err)
	}
	if !p.disconnected(closed) || p.disconnected(closed) {
		t.Error("a runtime that was there is told of again")
	}
}

// TestNRITimesOut: a runtime ignores a plugin that does not answer in time, and its validator
// counts the plugin as present. The container does not start then, and starts when the plugin is
// back.
func TestNRITimesOut(t *testing.T) {
	r := newRuntime(t, wire.PluginName)
	p := newPlugin(t)
	defer r.connect(p)()
	p.mu.Lock()                                               // as if it were busy
	adaptation.SetPluginRequestTimeout(50 * time.Millisecond) // only for this request
	err := r.create(r.pod("a", nil, appOn("4-5")), "app")
	adaptation.SetPluginRequestTimeout(adaptation.DefaultPluginRequestTimeout)
	p.mu.Unlock()
	if err == nil || !strings.Contains(err.Error(), "90-berth failed") {
		t.Errorf("a container that the plugin has not adjusted: %v", err)
	}
	wait(t, "the plugin does not come back", func() bool { return r.create(r.pods["sandbox-a"], "app") == nil })
	r.want("a=4-5")
}

// TestNRIUnasked: CPUs that a container gets in addition are sent when it has started, and only to
// runtimes that accept this.
func TestNRIUnasked(t *testing.T) {
	for release, unasked := range map[string]int{"v0.12.1": 1, "v0.12.0": 0, "v0.8.0": 0, "unknown": 0} {
		t.Run(release, func(t *testing.T) {
			r := newRuntime(t)
			p := newPlugin(t)
			p.NRIVersion = release
			defer r.connect(p)()
			a := r.pod("a", nil, appOn("4-5"))
			if err := r.create(a, "app"); err != nil {
				t.Fatal(err)
			}
			r.slow = true
			web := r.pod("web", nil, nil)
			if err := r.create(web, "app"); err != nil {
				t.Fatal(err)
			}
			r.stopPod(a)
			r.want("web=0-3,6-15")
			if err := r.nri.PostStartContainer(t.Context(), &api.PostStartContainerRequest{Pod: web, Container: r.ctrs["ctr-web"]}); err != nil {
				t.Fatal(err)
			}
			settled := func() bool {
				s := p.Sight().Containers
				return len(s) == 1 && s[0].Settled
			}
			wait(t, "the move does not arrive", settled)
			r.mu.Lock()
			defer r.mu.Unlock()
			if r.unasked != unasked {
				t.Errorf("%d updates that nobody asked for, want %d", r.unasked, unasked)
			}
			if got, want := r.ctrs["ctr-web"].Linux.Resources.Cpu.Cpus, map[int]string{0: "0-3,6-15", 1: "0-15"}[unasked]; got != want {
				t.Errorf("web runs on %s, want %s", got, want)
			}
		})
	}
}

// TestNRIWithoutSandboxes: on a busy machine, a restarted containerd may know containers but not
// the state of their sandboxes, and does not report these. Pinned containers stay pinned.
func TestNRIWithoutSandboxes(t *testing.T) {
	r := newRuntime(t)
	p := newPlugin(t)
	stop := r.connect(p)
	a := r.pod("a", nil, appOn("4-5"))
	for _, pod := range []*api.PodSandbox{r.pod("web", nil, nil), a} {
		if err := r.create(pod, "app"); err != nil {
			t.Fatal(err)
		}
	}
	r.ctrs["ctr-a"].Labels = map[string]string{"io.kubernetes.pod.namespace": "ns", "io.kubernetes.pod.name": "a", "io.kubernetes.pod.uid": a.Uid}
	for name, next := range map[string]*Plugin{"the plugin has seen them": p, "it has started again as well": newPlugin(t)} {
		stop()
		clear(r.pods)
		stop = r.connect(next)
		wait(t, name+": not connected", func() bool { return next.Sight().Gone == nil })
		r.want("web=0-3,6-15", "a=4-5")
		if err := r.create(r.pod("thief", nil, appOn("5")), "app"); err == nil || !strings.Contains(err.Error(), "CPUs 5 are held by ns/a/app") {
			t.Errorf("%s: CPUs of a container whose sandbox is not told of: %v", name, err)
		}
	}
	stop()
}

// TestNRIWithoutContainers: on a busy machine, a restarted containerd may leave out a running
// container. Other containers do not get its CPUs while it has processes, and it is not moved.
func TestNRIWithoutContainers(t *testing.T) {
	r := newRuntime(t)
	p := newPlugin(t)
	var ended atomic.Bool
	p.Lives = func(cgroup string) bool { return cgroup == "/kubepods/uid-a" && !ended.Load() }
	stop := r.connect(p)
	for _, pod := range []*api.PodSandbox{r.pod("web", nil, nil), r.pod("a", nil, appOn("4-5"))} {
		if err := r.create(pod, "app"); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	delete(r.ctrs, "ctr-a")
	defer r.connect(p)()
	wait(t, "not connected", func() bool { return p.Sight().Gone == nil })
	r.want("web=0-3,6-15")
	thief := r.pod("thief", nil, appOn("5"))
	if err := r.create(thief, "app"); err == nil || !strings.Contains(err.Error(), "CPUs 5 are held by ns/a/app") {
		t.Errorf("CPUs of a container that the runtime does not tell of: %v", err)
	}
	ended.Store(true)
	if err := r.create(thief, "app"); err != nil {
		t.Error(err)
	}
	r.want("web=0-4,6-15", "thief=5")
}
