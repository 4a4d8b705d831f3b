package enforce

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/topology"
)

// pluginIndex is the plugin's position in the runtime's order: late, after other plugins.
const pluginIndex = "90"

// ownName is the plugin's name in the runtime.
const ownName = pluginIndex + "-" + wire.PluginName

// Plugin answers the container runtime. It implements the interfaces of NRI's stub, and is safe for
// concurrent use.
type Plugin struct {
	// LiftQuota removes the CFS quota of pinned containers. The quota of the pod's cgroup stays,
	// because NRI cannot change it.
	LiftQuota bool
	// NRIVersion is the release of NRI that the runtime is assumed to have. If it is "", the plugin
	// uses the release that the runtime reports.
	NRIVersion string
	// Log is called with messages about the runtime, and about containers that are held or confined
	// or do not run as decided. It must not be nil.
	Log func(format string, args ...any)
	// Changed is called when the state of a container or of the connection has changed, for example
	// when a container has started, stopped, or been held. It may be nil and must not block.
	Changed func()
	// Lives reports whether the cgroup with this name, as the runtime spells it, has processes. It
	// is needed because a restarted runtime may not report a running container. It may be nil.
	Lives func(cgroup string) bool
	// Online reads the machine's present online CPUs. A container does not start if CPUs that it
	// needs are offline (Books.asleep), or if the online CPUs cannot be read. It is nil if all CPUs
	// are always online. It must be set before Run.
	Online func() (topology.CPUSet, error)

	now   func() time.Time
	mu    sync.Mutex
	books *Books
	// unasked sends unsolicited moves to the runtime. It is nil if unsolicited moves could deadlock
	// the runtime's NRI.
	unasked func([]*api.ContainerUpdate) ([]*api.ContainerUpdate, error)
	paths   map[string]string // cgroup path by container
	// blind is the reason why the runtime cannot inject devices for the plugin, or "".
	blind string
	// gone is the reason why no runtime is connected, or nil.
	gone error
	// held are the containers that were not allowed to start, by name. An entry is removed when the
	// container starts, when its pod is gone, or after heldFor.
	held map[string]heldContainer
}

// NewPlugin returns a plugin that owns the books.
func NewPlugin(b *Books, log func(string, ...any)) *Plugin {
	return &Plugin{books: b, Log: log, now: time.Now, paths: map[string]string{}, held: map[string]heldContainer{}, gone: errNotYet}
}

var (
	_ stub.SynchronizeInterface                 = (*Plugin)(nil)
	_ stub.CreateContainerInterface             = (*Plugin)(nil)
	_ stub.ValidateContainerAdjustmentInterface = (*Plugin)(nil)
	_ stub.PostStartContainerInterface          = (*Plugin)(nil)
	_ stub.UpdateContainerInterface             = (*Plugin)(nil)
	_ stub.PostUpdateContainerInterface         = (*Plugin)(nil)
	_ stub.StopContainerInterface               = (*Plugin)(nil)
	_ stub.RemoveContainerInterface             = (*Plugin)(nil)
	_ stub.StopPodInterface                     = (*Plugin)(nil)
	_ stub.RemovePodInterface                   = (*Plugin)(nil)
)

var errNotYet = errors.New("the agent has not connected to it yet")

// heldContainer is a container that was not allowed to start.
type heldContainer struct {
	pod, why string
	at       time.Time // when the kubelet last tried to start it
}

// heldFor is the time for which a container counts as held if the kubelet does not try to start it
// again. The kubelet tries at least every 15 seconds, and does not report when it stops trying.
const heldFor = 2 * time.Minute

func (p *Plugin) changed() {
	if p.Changed != nil {
		p.Changed()
	}
}

// disconnected records why no runtime is connected, and reports whether the reason is new.
func (p *Plugin) disconnected(err error) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	news := p.gone == nil || p.gone.Error() != err.Error()
	p.gone, p.unasked = err, nil
	return news
}

var errClosed = errors.New("the runtime has closed the connection")

// reconnectAfter is the time after which the plugin tries to connect again.
const reconnectAfter = time.Second

// Run serves the runtime at the socket until the context ends. If the runtime goes away, Run
// connects again. A socket "" means NRI's default socket.
func (p *Plugin) Run(ctx context.Context, socket string) error {
	options := []stub.Option{stub.WithPluginName(wire.PluginName), stub.WithPluginIdx(pluginIndex), stub.WithLogger(stubLog{p})}
	if socket != "" {
		options = append(options, stub.WithSocketPath(socket))
	}
	for {
		c := &link{Plugin: p}
		s, err := stub.New(c, append(options[:len(options):len(options)], stub.WithOnClose(func() {}))...)
		if err != nil {
			return fmt.Errorf("NRI plugin: %w", err)
		}
		c.stub = s
		err = s.Run(ctx)
		if err == nil {
			err = errClosed
		}
		news := p.disconnected(err)
		p.changed()
		if news && ctx.Err() == nil {
			p.Log("there is no connection to the runtime's NRI at %q (%v): no other container is pinned until the plugin is connected", socket, err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(reconnectAfter):
		}
	}
}

// link is the plugin on one connection to a runtime.
type link struct {
	*Plugin
	stub stub.Stub
}

// safeUnasked is the first release of NRI whose runtimes accept unsolicited moves without a
// deadlock. validating is the first release that lets plugins validate the combined replies of all
// plugins.
var (
	safeUnasked = version.MustParseSemantic("v0.12.1")
	validating  = version.MustParseSemantic("v0.10.0")
)

// Configure reads the runtime's release of NRI, and returns the events that the plugin needs. An
// older runtime refuses a plugin that asks for an event that the runtime does not know.
func (l *link) Configure(_ context.Context, _, runtime, release string) (stub.EventMask, error) {
	text := cmp.Or(l.NRIVersion, l.stub.RuntimeNRIVersion())
	v, err := version.ParseSemantic(text)
	var events stub.EventMask
	events.Set(api.Event_STOP_POD_SANDBOX, api.Event_REMOVE_POD_SANDBOX, api.Event_CREATE_CONTAINER, api.Event_POST_START_CONTAINER,
		api.Event_UPDATE_CONTAINER, api.Event_POST_UPDATE_CONTAINER, api.Event_STOP_CONTAINER, api.Event_REMOVE_CONTAINER)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil && v.AtLeast(safeUnasked) {
		l.unasked = l.stub.UpdateContainers
	} else {
		l.Log("runtime %s %s has NRI %s, older than %s or unknown: shared containers get CPUs back only when another container starts or ends",
			runtime, release, cmp.Or(text, "unknown"), safeUnasked)
	}
	if err == nil && v.AtLeast(validating) {
		events.Set(api.Event_VALIDATE_CONTAINER_ADJUSTMENT)
		l.blind = ""
	} else {
		l.blind = fmt.Sprintf("the release of the runtime's NRI is %s: want %s or newer, with which Berth can inject devices", cmp.Or(text, "unknown"), validating)
		l.Log("runtime %s %s has NRI %s, older than %s or unknown: a container starts without its CPUs if the agent does not answer in time",
			runtime, release, cmp.Or(text, "unknown"), validating)
	}
	return events, nil
}

// stubLog forwards the library's warnings. The runtime itself reports the library's other messages.
type stubLog struct{ p *Plugin }

func (stubLog) Debugf(context.Context, string, ...any) {}
func (stubLog) Infof(context.Context, string, ...any)  {}

func (l stubLog) Warnf(_ context.Context, format string, args ...any) {
	l.p.Log("NRI: "+format, args...)
}
func (l stubLog) Errorf(_ context.Context, format string, args ...any) {
	l.p.Log("NRI: "+format, args...)
}

// Offer replaces the devices that containers may get.
func (p *Plugin) Offer(o Offered) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.books.Offer(o)
}

// Synchronize reads the running containers, and moves them to their CPUs.
func (p *Plugin) Synchronize(_ context.Context, pods []*api.PodSandbox, containers []*api.Container) ([]*api.ContainerUpdate, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	byID := make(map[string]*api.PodSandbox, len(pods))
	var sandboxes []string
	for _, pod := range pods {
		byID[pod.GetId()] = pod
		sandboxes = append(sandboxes, pod.GetId())
	}
	p.books.online = p.Online
	before := p.paths
	p.paths = map[string]string{}
	p.books.lives = func(id string) bool { return p.Lives != nil && p.Lives(cmp.Or(p.paths[id], before[id])) }
	var running []Container
	for _, c := range containers {
		if s := c.GetState(); s == api.ContainerState_CONTAINER_STOPPED {
			continue
		}
		pod, known := byID[c.GetPodSandboxId()]
		if !known {
			pod = labelled(c)
		}
		r := p.read(pod, c)
		r.Orphan = !known
		running = append(running, r)
	}
	updates := p.books.Synchronize(running, sandboxes...)
	for _, h := range p.books.All() {
		if p.paths[h.ID] = cmp.Or(p.paths[h.ID], before[h.ID]); h.Why != "" {
			p.Log("container %s: %s", h.Name, h.Why)
		}
	}
	p.gone = nil
	clear(p.held)
	p.changed()
	return writeUpdates(updates), nil
}

// CreateContainer returns the CPUs of a container, or an error if it must not start.
func (p *Plugin) CreateContainer(_ context.Context, pod *api.PodSandbox, c *api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	asks := p.read(pod, c)
	set, updates, err := Set{}, []Update(nil), error(nil)
	if p.blind != "" && len(asks.Tokens) > 0 {
		err = &HeldError{asks.Name, "it asks for devices: " + p.blind}
	} else {
		set, updates, err = p.books.Create(asks)
	}
	p.sweep()
	if held := new(HeldError); errors.As(err, &held) {
		p.held[held.Container] = heldContainer{c.GetPodSandboxId(), held.Why, p.now()}
		p.Log("%v", err)
		err = &HeldError{held.Container, p.discreet(pod.GetNamespace(), held.Why)}
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
	if t := p.books.trimmed(c.GetId()); t != (amounts{}) {
		p.Log("container %s starts with its earlier amounts: the scheduler has not decided about its resize yet", asks.Name)
		if t.shares > 0 {
			a.SetLinuxCPUShares(t.shares)
		}
		if t.limit > 0 {
			a.SetLinuxMemoryLimit(int64(t.limit))
		}
	}
	for _, in := range p.books.Injections(c.GetId()) {
		a.AddEnv(wire.DevicesVariable(in.Resource), strings.Join(in.IDs, ","))
		for _, name := range in.CDI {
			a.AddCDIDevice(&api.CDIDevice{Name: name})
		}
	}
	return a, writeUpdates(updates), nil
}

// discreet removes the names of containers of other namespaces from a message that the pod's owner
// sees. Administrators see these names in the NodeTopology.
func (p *Plugin) discreet(namespace, why string) string {
	var names []string
	for _, h := range p.books.All() {
		if !strings.HasPrefix(h.Name, namespace+"/") {
			names = append(names, h.Name)
		}
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(len(b), len(a)) }) // longest first, because one name may be a prefix of another
	for _, name := range names {
		why = strings.ReplaceAll(why, name, "a container of another namespace")
	}
	return why
}

// ValidateContainerAdjustment refuses a container that this plugin has not adjusted. If a plugin
// does not answer a CreateContainer call in time, the runtime skips the plugin, and the runtime's
// own validator does not detect this. If the plugin does not answer the validation call either, the
// runtime refuses the container.
func (p *Plugin) ValidateContainerAdjustment(_ context.Context, r *api.ValidateContainerAdjustmentRequest) error {
	c := r.GetContainer()
	if owner, ok := r.GetOwners().CPUSetCPUsOwner(c.GetId()); !ok || owner != ownName || r.GetAdjust().GetLinux().GetResources().GetCpu().GetCpus() == "" {
		why := "Berth's NRI plugin has not set its CPUs"
		if ok && owner != ownName {
			why = fmt.Sprintf("its CPUs were set by NRI plugin %q instead of Berth's", owner)
		}
		return fmt.Errorf("container %s/%s/%s: %s: the kubelet tries again", r.GetPod().GetNamespace(), r.GetPod().GetName(), c.GetName(), why)
	}
	return nil
}

// PostStartContainer records that a container has started. From then on the runtime carries out
// moves of the container.
func (p *Plugin) PostStartContainer(_ context.Context, _ *api.PodSandbox, c *api.Container) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.move(p.books.Begun(c.GetId()))
	p.changed()
	return nil
}

// move sends the move without a request of the runtime, if the move is due and the runtime's NRI
// accepts this safely. Otherwise a later reply to the runtime contains the move.
func (p *Plugin) move(u Update, due bool) {
	if !due || p.unasked == nil {
		return
	}
	p.books.Moving(u)
	send := p.unasked
	go func() { // not here: the runtime accepts a move only after the plugin's present answer
		failed, err := send(writeUpdates([]Update{u}))
		p.mu.Lock()
		defer p.mu.Unlock()
		if err != nil || len(failed) > 0 {
			p.books.Failed(u.ID)
			p.Log("container %s: the runtime did not move it to CPUs %s, the plugin tries again: %v", u.ID, u.Set.CPUs, err)
			return
		}
		p.move(p.books.Moved(u))
		p.resend() // a container may have waited for this move
		p.changed()
	}()
}

// resend sends the moves of Books.Overdue, if the runtime's NRI allows this safely.
func (p *Plugin) resend() {
	if p.unasked == nil {
		return
	}
	for _, u := range p.books.Overdue() {
		p.move(u, true)
	}
}

// Renew switches to a new machine and new reserved CPUs. If it returns an error, nothing has
// changed.
func (p *Plugin) Renew(m *topology.Machine, reserved topology.CPUSet) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.books.Renew(m, reserved); err != nil {
		return err
	}
	p.resend()
	return nil
}

// sweep drops the cgroup paths of containers that are no longer in the Books.
func (p *Plugin) sweep() {
	maps.DeleteFunc(p.paths, func(id string, _ string) bool { return !p.books.Has(id) })
}

// UpdateContainer handles a change of a container's resources, such as an in-place resize by the
// kubelet. If the scheduler has not decided on these amounts yet, or if its newest decision cannot
// be carried out yet, UpdateContainer refuses the change, and the kubelet tries again. Otherwise
// the container gets the CPUs of the newest decision. With LiftQuota, a pinned container still has
// no quota.
func (p *Plugin) UpdateContainer(_ context.Context, pod *api.PodSandbox, c *api.Container, r *api.LinuxResources) ([]*api.ContainerUpdate, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.books.allows(c.GetId(), amountsOf(r), amountsOf(c.GetLinux().GetResources())); err != nil {
		return nil, err
	}
	set, moves, known, err := p.books.Update(c.GetId())
	if !known {
		return nil, nil
	}
	if held := new(HeldError); errors.As(err, &held) {
		return nil, &HeldError{held.Container, p.discreet(pod.GetNamespace(), held.Why)}
	}
	updates := writeUpdates(append(moves, Update{ID: c.GetId(), Set: set}))
	if set.Pinned && p.LiftQuota {
		updates[len(moves)].SetLinuxCPUQuota(-1)
	}
	return updates, nil
}

// PostUpdateContainer records that the runtime has changed a container's resources.
func (p *Plugin) PostUpdateContainer(_ context.Context, _ *api.PodSandbox, c *api.Container) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.books.Updated(c.GetId(), amountsOf(c.GetLinux().GetResources()))
	p.resend()
	p.changed()
	return nil
}

// Decide records a newer decision about a pod, and carries it out as soon as possible.
func (p *Plugin) Decide(uid string, d Decided) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.books.Decide(uid, d) {
		p.resend()
		p.changed()
	}
}

// Found records the content of the cgroup of a moved or resized container.
func (p *Plugin) Found(id string, f Found) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.books.Found(id, f)
	p.resend()
}

// Prune forgets the decisions about resized pods that are neither in the API nor on the node. It
// returns the pods whose decisions remain.
func (p *Plugin) Prune(has func(uid string) bool) (left map[string]bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.books.Prune(has)
}

// StopContainer gives the CPUs of a stopped container to shared containers.
func (p *Plugin) StopContainer(_ context.Context, _ *api.PodSandbox, c *api.Container) ([]*api.ContainerUpdate, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.changed()
	return writeUpdates(p.books.Stop(c.GetId())), nil
}

// RemoveContainer records that the runtime has removed a container.
func (p *Plugin) RemoveContainer(_ context.Context, _ *api.PodSandbox, c *api.Container) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.books.Remove(c.GetId())
	delete(p.paths, c.GetId())
	return nil
}

// StopPodSandbox removes a pod whose containers have stopped. The pod's CPUs are free only now,
// because no container starts in this sandbox again.
func (p *Plugin) StopPodSandbox(_ context.Context, pod *api.PodSandbox) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.books.RemovePod(pod.GetId())
	p.sweep()
	maps.DeleteFunc(p.held, func(_ string, h heldContainer) bool { return h.pod == pod.GetId() })
	p.changed()
	return nil
}

// RemovePodSandbox removes a pod, in case the runtime has not reported its stop.
func (p *Plugin) RemovePodSandbox(ctx context.Context, pod *api.PodSandbox) error {
	return p.StopPodSandbox(ctx, pod)
}

// Sight is the state of a plugin at one moment.
type Sight struct {
	// Gone is the reason why no runtime is connected, or nil. Without a runtime, no decision is
	// carried out.
	Gone error
	// Containers are the containers in the books, by id. Cgroups are the runtime's names of their
	// cgroups.
	Containers []Booked
	Cgroups    map[string]string
	// Waiting are the containers that were not allowed to start, by name.
	Waiting []Complaint
}

// Sight returns the state of the plugin.
func (p *Plugin) Sight() Sight {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.books.bury()
	p.resend()
	s := Sight{Gone: p.gone, Containers: p.books.All(), Cgroups: maps.Clone(p.paths)}
	maps.DeleteFunc(p.held, func(_ string, h heldContainer) bool { return p.now().Sub(h.at) > heldFor })
	for _, name := range slices.Sorted(maps.Keys(p.held)) {
		s.Waiting = append(s.Waiting, Complaint{name, p.held[name].why})
	}
	return s
}

// labelled returns the pod of a container, from the labels that the kubelet gives containers. If a
// restarted runtime could not query a sandbox in time, it reports only the sandbox's containers.
func labelled(c *api.Container) *api.PodSandbox {
	l := c.GetLabels()
	return &api.PodSandbox{Namespace: l["io.kubernetes.pod.namespace"], Name: l["io.kubernetes.pod.name"], Uid: l["io.kubernetes.pod.uid"]}
}

// read creates a Container from the runtime's data, and records the container's cgroup path.
func (p *Plugin) read(pod *api.PodSandbox, c *api.Container) Container {
	p.paths[c.GetId()] = c.GetLinux().GetCgroupsPath()
	out := Container{ID: c.GetId(), Pod: c.GetPodSandboxId(), UID: pod.GetUid(), Short: c.GetName(), Created: c.GetCreatedAt(),
		Name: pod.GetNamespace() + "/" + pod.GetName() + "/" + c.GetName(), Begins: c.GetState() == api.ContainerState_CONTAINER_CREATED}
	cpu := c.GetLinux().GetResources().GetCpu()
	out.Now.CPUs, _ = topology.ParseCPUList(cpu.GetCpus()) // an invalid list differs from every CPU set
	out.Now.Mems, _ = topology.ParseNUMAList(cpu.GetMems())
	out.asks, out.decides = amountsOf(c.GetLinux().GetResources()), guaranteed(c.GetLinux().GetCgroupsPath())
	out.Tokens = wire.ReadTokens(c.GetAnnotations())
	if out.Tokens != nil {
		out.Given = variables(c.GetEnv())
	}
	placed, err := placementOf(pod)
	switch {
	case err != nil:
		out.Fault = err.Error()
	case placed != nil:
		d := Decided{placed.Generation, placed.Decision.Containers}
		p.books.Decide(out.UID, d) // a sandbox that was created after a resize has the newer decision in its annotation
		out.Decision = d.of(out.Short)
	}
	return out
}

// placementOf reads the decision about a pod from its annotations. It returns nil if there is none.
func placementOf(pod *api.PodSandbox) (*wire.Placement, error) {
	object := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.GetNamespace(), Name: pod.GetName(), UID: types.UID(pod.GetUid()),
		Annotations: pod.GetAnnotations()}}
	placed, found, err := wire.ReadPlacement(object)
	if err != nil || !found {
		return nil, err
	}
	return &placed, nil
}

func variables(env []string) map[string]string {
	out := map[string]string{}
	for _, e := range env {
		if name, value, ok := strings.Cut(e, "="); ok {
			out[name] = value
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
		if u.gets.shares > 0 {
			w.SetLinuxCPUShares(u.gets.shares)
		}
		if u.gets.limit > 0 {
			w.SetLinuxMemoryLimit(int64(u.gets.limit))
		}
		out = append(out, w)
	}
	return out
}
