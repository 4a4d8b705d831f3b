package enforce

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/topology"
)

// pluginIndex orders plugins in the runtime: late, so that others have had their say.
const pluginIndex = "90"

// Plugin answers the container runtime. It implements the interfaces of NRI's stub, and is safe for
// concurrent use.
type Plugin struct {
	// LiftQuota takes the CFS quota off pinned containers. The quota of the pod's slice stays: NRI
	// cannot reach it.
	LiftQuota bool
	// Log is told what is held, confined, or cannot be read; it must not be nil.
	Log func(format string, args ...any)
	// Changed is told that something has begun, stopped, or been held; nil for nobody. It must not
	// wait.
	Changed func()

	mu    sync.Mutex
	books *Books
	paths map[string]string // cgroup path by container
	// gone says why no runtime is connected; nil while one is.
	gone error
	// held are the containers that were not let begin, by name, until they are or their pod is
	// gone.
	held map[string]heldContainer
	// synchronized is closed when the runtime has said what runs.
	synchronized chan struct{}
	once         sync.Once
}

// NewPlugin returns a plugin over the books, which are its own from now on.
func NewPlugin(b *Books, log func(string, ...any)) *Plugin {
	return &Plugin{books: b, Log: log, paths: map[string]string{}, held: map[string]heldContainer{}, gone: errNotYet, synchronized: make(chan struct{})}
}

var (
	_ stub.SynchronizeInterface     = (*Plugin)(nil)
	_ stub.CreateContainerInterface = (*Plugin)(nil)
	_ stub.UpdateContainerInterface = (*Plugin)(nil)
	_ stub.StopContainerInterface   = (*Plugin)(nil)
	_ stub.RemoveContainerInterface = (*Plugin)(nil)
	_ stub.StopPodInterface         = (*Plugin)(nil)
	_ stub.RemovePodInterface       = (*Plugin)(nil)
)

var errNotYet = errors.New("it has not been connected yet")

// heldContainer is a container that was not let begin.
type heldContainer struct{ pod, why string }

// changed tells that something has changed.
func (p *Plugin) changed() {
	if p.Changed != nil {
		p.Changed()
	}
}

// disconnected notes why there is no runtime.
func (p *Plugin) disconnected(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gone = err
}

var errClosed = errors.New("the runtime has closed the connection")

// reconnectAfter is how long the plugin waits for a runtime that is not there.
const reconnectAfter = time.Second

// Run serves the runtime at the socket until the context ends, and connects again when the runtime
// goes away. NRI's own default socket is meant by "".
func (p *Plugin) Run(ctx context.Context, socket string) error {
	options := []stub.Option{stub.WithPluginName(wire.PluginName), stub.WithPluginIdx(pluginIndex), stub.WithLogger(stubLog{p})}
	if socket != "" {
		options = append(options, stub.WithSocketPath(socket))
	}
	for {
		s, err := stub.New(p, append(options[:len(options):len(options)], stub.WithOnClose(func() {}))...)
		if err != nil {
			return fmt.Errorf("NRI plugin: %w", err)
		}
		err = s.Run(ctx)
		if err == nil {
			err = errClosed
		}
		p.disconnected(err)
		p.changed()
		if ctx.Err() == nil {
			p.Log("the runtime's NRI at %q has gone (%v): nothing is pinned until it is back", socket, err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(reconnectAfter):
		}
	}
}

// stubLog passes on what the library warns of. What it only tells is told by the runtime as well.
type stubLog struct{ p *Plugin }

func (stubLog) Debugf(context.Context, string, ...any) {}
func (stubLog) Infof(context.Context, string, ...any)  {}

func (l stubLog) Warnf(_ context.Context, format string, args ...any) {
	l.p.Log("NRI: "+format, args...)
}
func (l stubLog) Errorf(_ context.Context, format string, args ...any) {
	l.p.Log("NRI: "+format, args...)
}

// Synchronized is closed when the runtime has said, for the first time, what runs.
func (p *Plugin) Synchronized() <-chan struct{} { return p.synchronized }

// Synchronize learns what runs, and brings it to where it belongs.
func (p *Plugin) Synchronize(_ context.Context, pods []*api.PodSandbox, containers []*api.Container) ([]*api.ContainerUpdate, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	byID := make(map[string]*api.PodSandbox, len(pods))
	for _, pod := range pods {
		byID[pod.GetId()] = pod
	}
	p.paths = map[string]string{}
	var running []Container
	for _, c := range containers {
		if s := c.GetState(); s == api.ContainerState_CONTAINER_STOPPED {
			continue
		}
		running = append(running, p.read(byID[c.GetPodSandboxId()], c))
	}
	updates := p.books.Synchronize(running)
	for _, c := range p.books.Complaints() {
		p.Log("container %s is confined: %s", c.Container, c.Why)
	}
	p.once.Do(func() { close(p.synchronized) })
	p.gone = nil
	clear(p.held)
	p.changed()
	return writeUpdates(updates), nil
}

// CreateContainer says where a container is to run, or that it must not begin.
func (p *Plugin) CreateContainer(_ context.Context, pod *api.PodSandbox, c *api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	set, updates, err := p.books.Create(p.read(pod, c))
	if held := new(HeldError); errors.As(err, &held) {
		delete(p.paths, c.GetId())
		p.held[held.Container] = heldContainer{c.GetPodSandboxId(), held.Why}
		p.Log("%v", err)
	}
	p.changed()
	if err != nil {
		return nil, nil, err
	}
	delete(p.held, pod.GetNamespace()+"/"+pod.GetName()+"/"+c.GetName())
	a := &api.ContainerAdjustment{}
	a.SetLinuxCPUSetCPUs(set.CPUs.String())
	if set.Mems != 0 {
		a.SetLinuxCPUSetMems(set.Mems.String())
	}
	if set.Pinned && p.LiftQuota {
		a.SetLinuxCPUQuota(-1)
	}
	return a, writeUpdates(updates), nil
}

// UpdateContainer is somebody's change of a container's resources, such as a resize in place: its
// CPUs stay what they are.
func (p *Plugin) UpdateContainer(_ context.Context, _ *api.PodSandbox, c *api.Container, _ *api.LinuxResources) ([]*api.ContainerUpdate, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	set, ok := p.books.Wanted(c.GetId())
	if !ok {
		return nil, nil
	}
	return writeUpdates([]Update{{c.GetId(), set}}), nil
}

// StopContainer gives shared containers what a container has left.
func (p *Plugin) StopContainer(_ context.Context, _ *api.PodSandbox, c *api.Container) ([]*api.ContainerUpdate, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.changed()
	return writeUpdates(p.books.Stop(c.GetId())), nil
}

// RemoveContainer forgets a container.
func (p *Plugin) RemoveContainer(_ context.Context, _ *api.PodSandbox, c *api.Container) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.books.Remove(c.GetId())
	delete(p.paths, c.GetId())
	return nil
}

// StopPodSandbox forgets a pod: its containers have stopped, and none begins in this sandbox again.
// Only now are its CPUs free.
func (p *Plugin) StopPodSandbox(_ context.Context, pod *api.PodSandbox) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.books.RemovePod(pod.GetId())
	maps.DeleteFunc(p.held, func(_ string, h heldContainer) bool { return h.pod == pod.GetId() })
	p.changed()
	return nil
}

// RemovePodSandbox forgets a pod, as one of which nobody has said that it stopped.
func (p *Plugin) RemovePodSandbox(ctx context.Context, pod *api.PodSandbox) error {
	return p.StopPodSandbox(ctx, pod)
}

// Sight is what a plugin knows at one moment.
type Sight struct {
	// Gone says why no runtime is connected, so that nothing is carried out; nil while one is.
	Gone error
	// Containers are those in the books, by id; Cgroups are their cgroups, as the runtime has them.
	Containers []Held
	Cgroups    map[string]string
	// Waiting are the containers that were not let begin, by name.
	Waiting []Complaint
}

// Sight says what the plugin knows.
func (p *Plugin) Sight() Sight {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := Sight{Gone: p.gone, Containers: p.books.All(), Cgroups: maps.Clone(p.paths)}
	for _, name := range slices.Sorted(maps.Keys(p.held)) {
		s.Waiting = append(s.Waiting, Complaint{name, p.held[name].why})
	}
	return s
}

// read makes a Container of what the runtime says, and notes its cgroup.
func (p *Plugin) read(pod *api.PodSandbox, c *api.Container) Container {
	p.paths[c.GetId()] = c.GetLinux().GetCgroupsPath()
	out := Container{ID: c.GetId(), Pod: c.GetPodSandboxId(), UID: pod.GetUid(), Short: c.GetName(), Created: c.GetCreatedAt(),
		Name: pod.GetNamespace() + "/" + pod.GetName() + "/" + c.GetName()}
	cpu := c.GetLinux().GetResources().GetCpu()
	out.Now.CPUs, _ = topology.ParseCPUList(cpu.GetCpus()) // what is not a list is another one than ours
	out.Now.Mems, _ = topology.ParseNUMAList(cpu.GetMems())
	object := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.GetNamespace(), Name: pod.GetName(), UID: types.UID(pod.GetUid()),
		Annotations: pod.GetAnnotations()}}
	placed, found, err := wire.ReadPlacement(object)
	switch {
	case err != nil:
		out.Fault = err.Error()
	case found:
		for i := range placed.Decision.Containers {
			if placed.Decision.Containers[i].Name == c.GetName() {
				out.Decision = &placed.Decision.Containers[i]
			}
		}
	}
	return out
}

func writeUpdates(updates []Update) []*api.ContainerUpdate {
	var out []*api.ContainerUpdate
	for _, u := range updates {
		w := &api.ContainerUpdate{}
		w.SetContainerId(u.ID)
		w.SetLinuxCPUSetCPUs(u.Set.CPUs.String())
		if u.Set.Mems != 0 {
			w.SetLinuxCPUSetMems(u.Set.Mems.String())
		}
		out = append(out, w)
	}
	return out
}
