package hollow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
	validator "github.com/containerd/nri/plugins/default-validator"
	oci "github.com/opencontainers/runtime-spec/specs-go"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	critest "k8s.io/cri-api/pkg/apis/testing"
	"tags.cncf.io/container-device-interface/pkg/cdi"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/topology"
)

// nriRuntime is the fake runtime with the NRI code of real container runtimes. The field `nri`
// calls the plugins. NRI's default validator requires Berth's plugin for every container (see
// docs/enforcement.md). Cgroups are files in a folder with the layout of cgroup v2.
//
// The order of calls is the same as in containerd. The runtime asks the plugins before it creates a
// container, and tells them when a container has been stopped or has exited. The runtime reports
// the stop of a sandbox after it has reported the stop of all containers of the sandbox.
type nriRuntime struct {
	*fakeRuntime
	nri     *adaptation.Adaptation
	cgroups string
	// devices has the CDI specifications in Dir.CDI.
	devices *cdi.Cache
	// The fields `all` and `mems` have the CPUs and NUMA nodes of a container for which no plugin
	// sets others.
	all  topology.CPUSet
	mems topology.NUMASet

	mu   sync.Mutex
	pods map[string]*api.PodSandbox
	ctrs map[string]*api.Container
}

// newNRIRuntime returns a runtime that NRI plugins can connect to, through the socket dir.NRI.
func newNRIRuntime(dir Dir, machine *topology.Machine, fake *fakeRuntime) (*nriRuntime, error) {
	r := &nriRuntime{fakeRuntime: fake, cgroups: dir.Cgroups(), all: machine.Online, pods: map[string]*api.PodSandbox{}, ctrs: map[string]*api.Container{}}
	for i := range machine.NUMANodes {
		r.mems = r.mems.With(machine.NUMANodes[i].ID)
	}
	fake.exited = r.containerEnded
	err := errors.Join(os.RemoveAll(r.cgroups), os.MkdirAll(r.cgroups, 0o700), os.RemoveAll(dir.NRI()), os.MkdirAll(dir.CDI(), 0o700))
	if err == nil {
		err = replaceFile(filepath.Join(r.cgroups, "cgroup.controllers"), "cpuset cpu memory")
	}
	if err != nil {
		return nil, err
	}
	if r.devices, err = cdi.NewCache(cdi.WithSpecDirs(dir.CDI())); err != nil {
		return nil, err
	}
	none := filepath.Join(dir.Root(), "nri")
	r.nri, err = adaptation.New("hollow", "1", r.synchronize, r.update, adaptation.WithSocketPath(dir.NRI()),
		adaptation.WithPluginPath(filepath.Join(none, "plugins")), adaptation.WithPluginConfigPath(filepath.Join(none, "conf.d")),
		adaptation.WithDefaultValidator(&validator.DefaultValidatorConfig{Enable: true, RequiredPlugins: []string{wire.PluginName}}))
	if err != nil {
		return nil, err
	}
	return r, r.nri.Start()
}

// synchronize sends the existing pods and containers to a plugin that connects.
func (r *nriRuntime) synchronize(ctx context.Context, tell adaptation.SyncCB) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	updates, err := tell(ctx, slices.Collect(maps.Values(r.pods)), slices.Collect(maps.Values(r.ctrs)))
	if err != nil {
		return err
	}
	return r.apply(updates)
}

// update applies changes that a plugin sends on its own initiative. If the plugin disconnects while
// an update waits for the lock, that update is dropped, because the next plugin does not know about
// it.
func (r *nriRuntime) update(ctx context.Context, updates []*api.ContainerUpdate) ([]*api.ContainerUpdate, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return updates, err
	}
	return nil, r.apply(updates)
}

// apply changes the resources and cgroups of containers. As in a real runtime, an update for a
// container that has ended is not an error.
func (r *nriRuntime) apply(updates []*api.ContainerUpdate) error {
	var all error
	for _, u := range updates {
		if c := r.ctrs[u.GetContainerId()]; c != nil {
			r.adjust(c, u.GetLinux().GetResources().GetCpu())
			resize(c, u.GetLinux().GetResources())
			all = errors.Join(all, r.writeCgroup(c))
		}
	}
	return all
}

func (r *nriRuntime) adjust(c *api.Container, by *api.LinuxCPU) {
	cpu := c.Linux.Resources.Cpu
	if by.GetCpus() != "" {
		cpu.Cpus = by.GetCpus()
	}
	if by.GetMems() != "" {
		cpu.Mems = by.GetMems()
	}
}

// resize changes the CPU shares and the memory limit of a container.
func resize(c *api.Container, by *api.LinuxResources) {
	if shares := by.GetCpu().GetShares(); shares != nil {
		c.Linux.Resources.Cpu.Shares = shares
	}
	if limit := by.GetMemory().GetLimit(); limit != nil {
		c.Linux.Resources.Memory = &api.LinuxMemory{Limit: limit}
	}
}

// amountsOf returns the CPU shares and the memory limit of a container whose OOM score adjustment
// is that of Guaranteed pods, and nil for other containers. Cgroup paths of this runtime do not
// contain the QoS class, so a plugin recognizes Guaranteed pods only by these amounts.
func amountsOf(r *runtimeapi.LinuxContainerResources) *api.LinuxResources {
	const guaranteed = -997 // pkg/kubelet/qos/policy.go
	if r.GetOomScoreAdj() != guaranteed {
		return nil
	}
	out := &api.LinuxResources{Cpu: &api.LinuxCPU{}}
	if r.GetCpuShares() > 0 {
		out.Cpu.Shares = api.UInt64(uint64(r.GetCpuShares()))
	}
	if r.GetMemoryLimitInBytes() > 0 {
		out.Memory = &api.LinuxMemory{Limit: api.Int64(r.GetMemoryLimitInBytes())}
	}
	return out
}

// UpdateContainerResources asks the plugins if and how to change the container.
func (r *nriRuntime) UpdateContainerResources(ctx context.Context, id string, to *runtimeapi.ContainerResources) error {
	defer r.lock()()
	c := r.ctrs[id]
	if c == nil {
		return fmt.Errorf("container %s does not exist", id)
	}
	wants := amountsOf(to.GetLinux())
	if wants == nil {
		wants = &api.LinuxResources{Cpu: &api.LinuxCPU{}}
	}
	answer, err := r.nri.UpdateContainer(ctx, &api.UpdateContainerRequest{Pod: r.pods[c.PodSandboxId], Container: c, LinuxResources: wants})
	if err != nil {
		return fmt.Errorf("NRI container update failed: %w", err)
	}
	resize(c, wants)
	if err := errors.Join(r.apply(answer.GetUpdate()), r.writeCgroup(c), r.fakeRuntime.UpdateContainerResources(ctx, id, to)); err != nil {
		return err
	}
	return r.nri.PostUpdateContainer(ctx, &api.PostUpdateContainerRequest{Pod: r.pods[c.PodSandboxId], Container: c})
}

// writeCgroup writes the files of the container's cgroup: CPUs, NUMA nodes, the memory limit, and
// 4096 bytes as the memory in use.
func (r *nriRuntime) writeCgroup(c *api.Container) error {
	dir := filepath.Join(r.cgroups, c.Linux.CgroupsPath)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	cpus, mems := cmp.Or(c.Linux.Resources.Cpu.Cpus, r.all.String()), cmp.Or(c.Linux.Resources.Cpu.Mems, r.mems.String())
	limit := "max"
	if n := c.Linux.Resources.GetMemory().GetLimit().GetValue(); n > 0 {
		limit = strconv.FormatInt(n, 10)
	}
	return errors.Join(replaceFile(filepath.Join(dir, "memory.max"), limit), replaceFile(filepath.Join(dir, "memory.current"), "4096"),
		replaceFile(filepath.Join(dir, "cpuset.cpus.effective"), cpus), replaceFile(filepath.Join(dir, "cpuset.mems.effective"), mems))
}

// writeEnvironment writes the container's environment variables into the folder of its cgroup, in
// the format of /proc/PID/environ.
func (r *nriRuntime) writeEnvironment(c *api.Container) error {
	return replaceFile(filepath.Join(r.cgroups, c.Linux.CgroupsPath, environFile), strings.Join(c.Env, "\x00"))
}

// environFile is the name of the file with a container's environment, in the folder of its cgroup.
const environFile = "environ"

// inject adds environment variables of plugins to a container, and the environment variables of the
// CDI devices that plugins ask for. As in real runtimes, a device without a CDI specification is an
// error.
func (r *nriRuntime) inject(c *api.Container, a *api.ContainerAdjustment) error {
	spec := &oci.Spec{Process: &oci.Process{Env: c.Env}, Linux: &oci.Linux{}}
	for _, e := range a.GetEnv() {
		spec.Process.Env = slices.DeleteFunc(spec.Process.Env, func(old string) bool { return strings.HasPrefix(old, e.GetKey()+"=") })
		spec.Process.Env = append(spec.Process.Env, e.ToOCI())
	}
	var names []string
	for _, d := range a.GetCDIDevices() {
		names = append(names, d.GetName())
	}
	if _, err := r.devices.InjectDevices(spec, names...); err != nil {
		return fmt.Errorf("CDI device injection failed: %w", err)
	}
	c.Env = spec.Process.Env
	return nil
}

func replaceFile(name, text string) error {
	if err := os.WriteFile(name+".new", []byte(text+"\n"), 0o600); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}

// lock prevents other calls, and connections of plugins, until the caller calls unlock.
func (r *nriRuntime) lock() (unlock func()) {
	block := r.nri.BlockPluginSync()
	r.mu.Lock()
	return func() {
		r.mu.Unlock()
		block.Unblock()
	}
}

// RunPodSandbox creates a sandbox, and tells the plugins.
func (r *nriRuntime) RunPodSandbox(ctx context.Context, config *runtimeapi.PodSandboxConfig, handler string) (string, error) {
	id, err := r.fakeRuntime.RunPodSandbox(ctx, config, handler)
	if err != nil {
		return "", err
	}
	m := config.GetMetadata()
	pod := &api.PodSandbox{Id: id, Name: m.GetName(), Namespace: m.GetNamespace(), Uid: m.GetUid(), Labels: config.GetLabels(), Annotations: config.GetAnnotations(), Linux: &api.LinuxPodSandbox{}}
	defer r.lock()()
	r.pods[id] = pod
	return id, r.nri.RunPodSandbox(ctx, &api.RunPodSandboxRequest{Pod: pod})
}

// CreateContainer asks the plugins if and how to create the container.
func (r *nriRuntime) CreateContainer(ctx context.Context, sandbox string, config *runtimeapi.ContainerConfig, pod *runtimeapi.PodSandboxConfig) (string, error) {
	defer r.lock()()
	p := r.pods[sandbox]
	if p == nil {
		return "", fmt.Errorf("sandbox %s does not exist", sandbox)
	}
	m := config.GetMetadata()
	c := &api.Container{
		Id: critest.BuildContainerName(m, sandbox), PodSandboxId: sandbox, Name: m.GetName(), State: api.ContainerState_CONTAINER_CREATED, CreatedAt: time.Now().UnixNano(),
		Labels: config.GetLabels(), Annotations: config.GetAnnotations(), Env: environment(config),
		Linux: &api.LinuxContainer{CgroupsPath: fmt.Sprintf("/kubepods/%s/%s-%d", p.Uid, m.GetName(), m.GetAttempt()), Resources: &api.LinuxResources{Cpu: &api.LinuxCPU{}}},
	}
	resize(c, amountsOf(config.GetLinux().GetResources()))
	answer, err := r.nri.CreateContainer(ctx, &api.CreateContainerRequest{Pod: p, Container: c})
	if err != nil {
		return "", err
	}
	r.adjust(c, answer.GetAdjust().GetLinux().GetResources().GetCpu())
	resize(c, answer.GetAdjust().GetLinux().GetResources())
	if err := r.inject(c, answer.GetAdjust()); err != nil {
		_ = r.apply(answer.GetUpdate()) // the plugin assumes that its updates are applied
		return "", err
	}
	if err := errors.Join(r.apply(answer.GetUpdate()), r.writeCgroup(c), r.writeEnvironment(c)); err != nil {
		return "", err
	}
	r.ctrs[c.Id] = c
	return r.fakeRuntime.CreateContainer(ctx, sandbox, config, pod)
}

func environment(config *runtimeapi.ContainerConfig) (env []string) {
	for _, e := range config.GetEnvs() {
		env = append(env, e.GetKey()+"="+string(e.GetValue()))
	}
	return env
}

// StartContainer starts a container and tells the plugins.
func (r *nriRuntime) StartContainer(ctx context.Context, id string) error {
	if err := r.fakeRuntime.StartContainer(ctx, id); err != nil {
		return err
	}
	defer r.lock()()
	c := r.ctrs[id]
	if c == nil { // the container has already ended
		return nil
	}
	c.State = api.ContainerState_CONTAINER_RUNNING
	return r.nri.PostStartContainer(ctx, &api.PostStartContainerRequest{Pod: r.pods[c.PodSandboxId], Container: c})
}

// StopContainer stops a container, and tells the plugins that it has ended.
func (r *nriRuntime) StopContainer(ctx context.Context, id string, grace int64) error {
	err := r.fakeRuntime.StopContainer(ctx, id, grace)
	if err == nil {
		r.containerEnded(id)
	}
	return err
}

// containerEnded tells the plugins that a container has ended.
func (r *nriRuntime) containerEnded(id string) {
	defer r.lock()()
	c := r.ctrs[id]
	if c == nil || c.State == api.ContainerState_CONTAINER_STOPPED {
		return
	}
	c.State = api.ContainerState_CONTAINER_STOPPED
	_ = os.RemoveAll(filepath.Join(r.cgroups, c.Linux.CgroupsPath))
	delete(r.ctrs, id)
	if answer, err := r.nri.StopContainer(context.Background(), &api.StopContainerRequest{Pod: r.pods[c.PodSandboxId], Container: c}); err == nil {
		_ = r.apply(answer.GetUpdate()) // the plugin detects failed writes when it reads the cgroups back
	}
}

// StopPodSandbox ends a sandbox, and tells the plugins about its containers and the sandbox.
func (r *nriRuntime) StopPodSandbox(ctx context.Context, id string) error {
	if err := r.fakeRuntime.StopPodSandbox(ctx, id); err != nil {
		return err
	}
	for _, c := range r.containersIn(id) {
		r.containerEnded(c)
	}
	return r.podEvent(id, func(p *api.PodSandbox) error {
		return r.nri.StopPodSandbox(ctx, &api.StopPodSandboxRequest{Pod: p})
	})
}

// RemovePodSandbox removes a sandbox, and tells the plugins.
func (r *nriRuntime) RemovePodSandbox(ctx context.Context, id string) error {
	if err := r.fakeRuntime.RemovePodSandbox(ctx, id); err != nil {
		return err
	}
	return r.podEvent(id, func(p *api.PodSandbox) error {
		delete(r.pods, id)
		return r.nri.RemovePodSandbox(ctx, &api.RemovePodSandboxRequest{Pod: p})
	})
}

func (r *nriRuntime) containersIn(sandbox string) (ids []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, c := range r.ctrs {
		if c.PodSandboxId == sandbox {
			ids = append(ids, id)
		}
	}
	return ids
}

// podEvent tells the plugins about an event of an existing sandbox.
func (r *nriRuntime) podEvent(id string, tell func(*api.PodSandbox) error) error {
	defer r.lock()()
	if p := r.pods[id]; p != nil {
		return tell(p)
	}
	return nil
}
