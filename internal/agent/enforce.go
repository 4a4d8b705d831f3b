package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/enforce"
	"github.com/berth-dev/berth/internal/offer"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// EnforceOptions configure how the agent carries out decisions if Berth decides.
type EnforceOptions struct {
	// NRISocket is the NRI socket of the container runtime; "" means NRI's default.
	NRISocket string
	// NRIVersion is the release of NRI that the agent assumes for the runtime, such as "v0.12.0".
	// If it is "", the agent uses the release that the runtime reports.
	NRIVersion string
	// Cgroups is the mount point of cgroup v2; "" means /sys/fs/cgroup.
	Cgroups string
	// OnCollision is the agent's action for a container whose decision cannot be carried out.
	OnCollision enforce.Mode
	// LiftQuota removes the CFS quota of containers with exclusive CPUs.
	LiftQuota bool
}

// DefaultCgroups is the usual mount point of cgroup v2.
const DefaultCgroups = "/sys/fs/cgroup"

// enforces reports whether the agent itself must carry out decisions on a node.
func (o *Options) enforces(node *corev1.Node) (bool, error) {
	a, err := authorityOf(o.Authority, node)
	if err != nil || a != v1alpha1.AuthorityBerth {
		return false, err
	}
	e, err := enforcerOf(o.Enforcer, node)
	return e == v1alpha1.EnforcerAgent, err
}

// enforcer carries out decisions, and reports the running containers. Once it runs, it needs
// neither the API server nor the kubelet. So the node's containers start as decided even while the
// API server is down.
type enforcer struct {
	opts    *Options
	changed func()
	node    func() *corev1.Node

	// leaving means that the agent is about to exit.
	leaving atomic.Bool

	mu     sync.Mutex
	plugin *enforce.Plugin
	// offers are the devices that the agent offers to the kubelet, or nil.
	offers *offer.Offers
	// problem is the reason why the plugin does not run, or nil.
	problem error
	// machine is the machine of the last call of renew, or nil.
	machine *topology.Machine
	// decisions are the newest decisions about resized pods. inAPI reports whether the API has a
	// pod. If inAPI is nil, no decision is forgotten.
	decisions *decisions
	inAPI     func(uid string) bool
	// missing has, by container id, the time since which a running container has had no cgroup.
	missing map[string]time.Time

	// asking protects the following fields. The field noted has the node's labels as last stored.
	// The field complained is the last logged error about storing or reading them.
	asking     sync.Mutex
	noted      remembered
	complained string
}

// obeyed describes the running containers on a node where Berth decides.
type obeyed struct {
	// problem is the reason why decisions are not carried out, or nil.
	problem error
	// pods has the allocations, by the kubelet's UID.
	pods map[string][]placement.ContainerAllocation
	// generations has the generation of the newest decision about each resized pod, by the
	// kubelet's UID.
	generations map[string]uint64
	// astray lists containers that do not run as decided or do not start, with the reasons.
	astray []string
	// offered has, by address, the resource of each device that the agent offers to the kubelet.
	// The field sick has, by address, the reason why pods must not get a device.
	offered, sick map[string]string
	// koordlet means that koordlet carries out decisions. A pod then has the resources of its
	// decision until the kubelet no longer runs the pod.
	koordlet bool
}

var errNotStarted = errors.New("the agent does not carry out decisions yet")

// enforcePoll is the interval at which the agent checks the node's authority, and tries again after
// it could not carry out decisions.
const enforcePoll = time.Second

// run carries out decisions while Berth decides on the node, until ctx ends.
func (e *enforcer) run(ctx context.Context) {
	for ctx.Err() == nil && e.opts.Authority != v1alpha1.AuthorityKubelet {
		if ours, err := e.ours(); err == nil && ours {
			e.serve(ctx)
		}
		pause(ctx, enforcePoll)
	}
}

// serve runs the plugin until it fails, until ctx ends, or until the agent must no longer carry out
// decisions.
func (e *enforcer) serve(ctx context.Context) {
	cgroups := os.DirFS(e.opts.Enforce.Cgroups)
	err := hasCpusets(cgroups)
	if err != nil {
		e.set(nil, nil, fmt.Errorf("--cgroup-root %s: %w", e.opts.Enforce.Cgroups, err))
		return
	}
	books, offers, err := e.books(ctx)
	if err != nil {
		e.set(nil, nil, err)
		return
	}
	log := e.opts.Log
	p := enforce.NewPlugin(books, func(format string, args ...any) { log.Warn(fmt.Sprintf(format, args...)) })
	p.LiftQuota, p.NRIVersion, p.Changed = e.opts.Enforce.LiftQuota, e.opts.Enforce.NRIVersion, e.changed
	p.Lives = func(cgroup string) bool { return populated(cgroups, cgroup) }
	p.Online = e.opts.online()
	if err := e.decisions.follow(p.Decide); err != nil { // containers might run on the wrong CPUs
		e.set(nil, nil, fmt.Errorf("cannot read the decisions for resized pods: %w", err))
		return
	}
	defer e.decisions.unfollow()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	offering := e.offer(ctx, p, offers)
	e.set(p, offers, nil)
	go e.stopWhenDeposed(ctx, stop)
	if err := p.Run(ctx, e.opts.Enforce.NRISocket); ctx.Err() == nil {
		e.set(nil, nil, err)
	} else {
		e.set(nil, nil, errNotStarted)
	}
	stop()
	<-offering
}

// offer starts to offer devices to the kubelet. When ctx ends, the offer ends, and then the
// returned channel is closed. When the function offer returns, the plugin knows the offered
// devices, so it can answer the runtime's first request.
func (e *enforcer) offer(ctx context.Context, p *enforce.Plugin, o *offer.Offers) (ended <-chan struct{}) {
	done := make(chan struct{})
	if o == nil {
		close(done)
		return done
	}
	o.Changed = func() {
		p.Offer(offeredBy(o))
		e.changed()
	}
	p.Offer(offeredBy(o))
	go func() {
		defer close(done)
		o.Run(ctx)
	}()
	return done
}

// offeredBy returns the offered devices with their CDI names, and the reasons why some of them must
// not be assigned.
func offeredBy(o *offer.Offers) enforce.Offered {
	out := enforce.Offered{}
	pools, findings := o.Found()
	for _, p := range pools {
		out[p.Resource] = map[string]enforce.Device{}
		for _, d := range p.Devices {
			s := findings[d.Address]
			out[p.Resource][d.Address] = enforce.Device{CDI: s.CDI, Sick: s.Sick}
		}
	}
	return out
}

// stopWhenDeposed calls stop when the node's labels set the authority kubelet or the enforcer
// koordlet. The agent must then no longer carry out decisions.
func (e *enforcer) stopWhenDeposed(ctx context.Context, stop func()) {
	for ctx.Err() == nil {
		if ours, err := e.ours(); err == nil && !ours {
			stop()
			return
		}
		pause(ctx, enforcePoll)
	}
}

// books creates the Books for the machine and its reserved CPUs, and the offers of its devices. If
// the agent cannot offer devices, containers still get their CPUs, and the report describes the
// problem.
func (e *enforcer) books(ctx context.Context) (*enforce.Books, *offer.Offers, error) {
	p, err := discover(ctx, e.opts.readMachine, e.opts.Config, newestRelease, decider{authority: v1alpha1.AuthorityBerth, devices: e.opts.Devices})
	if err == nil && p.model == nil {
		err = p.problem
	}
	if err != nil {
		return nil, nil, err
	}
	books, err := enforce.NewBooks(p.spec.Machine, p.model.ReservedCPUs(), e.opts.Enforce.OnCollision)
	if err != nil || e.opts.Devices == nil {
		return books, nil, err
	}
	offers := offer.New(p.offered, e.opts.host(), func(format string, args ...any) { e.opts.Log.Info(fmt.Sprintf(format, args...)) })
	offers.Dir = e.opts.DevicePlugins
	return books, offers, nil
}

// newestRelease is used as the kubelet's release if the release does not matter.
const newestRelease = "v1.37.0"

func (e *enforcer) set(p *enforce.Plugin, o *offer.Offers, problem error) {
	e.mu.Lock()
	e.plugin, e.offers, e.problem, e.machine = p, o, problem, nil
	e.mu.Unlock()
	e.changed()
}

// renew updates the Books and the offers to a newer platform: the kubelet may have restarted with
// other reserved CPUs, or the machine may have a new device.
func (e *enforcer) renew(p *platform) {
	e.mu.Lock()
	plugin, offers, known := e.plugin, e.offers, e.machine == p.spec.Machine
	e.machine = p.spec.Machine
	e.mu.Unlock()
	if plugin == nil || known || p.model == nil || p.spec.Authority != v1alpha1.AuthorityBerth || p.spec.Koordlet {
		return
	}
	if err := plugin.Renew(p.spec.Machine, p.model.ReservedCPUs()); err != nil {
		e.opts.Log.Warn("the machine has changed, but decisions are still carried out for the earlier machine", "error", err)
	}
	if offers != nil && p.wrong == nil {
		offers.Renew(p.offered)
	}
}

// hasCpusets returns an error if cgroups is not the root of cgroup v2, or if cpusets are missing.
// The agent needs cpusets to read back the CPUs of containers.
func hasCpusets(cgroups fs.FS) error {
	text, err := fs.ReadFile(cgroups, "cgroup.controllers")
	if err == nil && !slices.Contains(strings.Fields(string(text)), "cpuset") {
		err = fmt.Errorf("cgroup.controllers: %.200q", strings.TrimSpace(string(text)))
	}
	if err != nil {
		return fmt.Errorf("%w: want the root of cgroup v2, with the controller cpuset", err)
	}
	return nil
}

// look returns the running containers with their CPUs according to their cgroups.
func (e *enforcer) look() *obeyed {
	e.mu.Lock()
	plugin, offers, problem := e.plugin, e.offers, e.problem
	e.mu.Unlock()
	if plugin == nil {
		if problem == nil {
			problem = errNotStarted
		}
		return &obeyed{problem: problem}
	}
	if e.missing == nil {
		e.missing = map[string]time.Time{}
	}
	e.pruneDecisions(plugin)
	out := obeyedBy(e.readMoving(plugin), os.DirFS(e.opts.Enforce.Cgroups), absence{e.missing, e.opts.Now()})
	if offers != nil {
		out.offered, out.sick = map[string]string{}, sickOf(offers, e.leaving.Load())
		for _, p := range offers.Pools() {
			for _, d := range p.Devices {
				out.offered[d.Address] = p.Resource
			}
		}
	}
	return out
}

// sickOf returns, by address, the offered devices that the scheduler must not promise to pods, with
// the reasons. These are unhealthy devices, and devices of resources that the kubelet has not
// registered. The kubelet refuses pods that ask for a resource that is not registered. If ends is
// true, the agent is about to exit. The result then has all devices, because the kubelet loses
// their resources when the agent exits.
func sickOf(o *offer.Offers, ends bool) map[string]string {
	out := map[string]string{}
	pools, findings := o.Found()
	for _, p := range pools {
		taken := o.Taken(p.Resource)
		for _, d := range p.Devices {
			switch why := findings[d.Address].Sick; {
			case why != "":
				out[d.Address] = why
			case ends:
				out[d.Address] = leaving
			case !taken:
				out[d.Address] = "the kubelet has not registered " + p.Resource
			}
		}
	}
	return out
}

// absence records which running containers have no cgroup, from one call of look to the next.
type absence struct {
	since map[string]time.Time // by container id
	now   time.Time
}

// absenceLimit is the time for which the agent does not report a running container without a
// cgroup, because the container may just have ended.
const absenceLimit = time.Second

// lasts records that the container has no cgroup. It reports whether the container has had no
// cgroup for absenceLimit or longer.
func (a absence) lasts(id string) bool {
	first, again := a.since[id]
	if !again {
		a.since[id] = a.now
	}
	return again && a.now.Sub(first) >= absenceLimit
}

// obeyedBy returns the state of the running containers, from the plugin and the cgroups.
func obeyedBy(s enforce.Sight, cgroups fs.FS, a absence) *obeyed {
	out := &obeyed{pods: map[string][]placement.ContainerAllocation{}, generations: map[string]uint64{}}
	defer func() { maps.DeleteFunc(a.since, func(id string, _ time.Time) bool { return s.Cgroups[id] == "" }) }()
	if s.Gone != nil {
		out.problem = fmt.Errorf("the container runtime's NRI cannot be reached: %w", s.Gone)
	}
	for i := range s.Containers {
		c := &s.Containers[i]
		runs, why := readBack(c, s.Cgroups[c.ID], cgroups, a)
		if c.Why != "" {
			why = c.Why
		}
		if why != "" {
			out.astray = append(out.astray, c.Name+" "+why)
		}
		if d := c.Decision; d != nil {
			out.pods[c.UID] = withContainer(out.pods[c.UID], placement.ContainerAllocation{Name: c.Short, Kind: d.Kind, CPUs: runs, Exclusive: d.Exclusive,
				Shares: d.Shares, Memory: c.Memory, Devices: c.Devices})
			out.generations[c.UID] = max(out.generations[c.UID], c.Generation)
		}
	}
	for _, w := range s.Waiting {
		out.astray = append(out.astray, w.Container+" does not start: "+w.Why)
	}
	return out
}

// withContainer appends a container to a list, or replaces an earlier instance of the container.
func withContainer(list []placement.ContainerAllocation, c placement.ContainerAllocation) []placement.ContainerAllocation {
	list = slices.DeleteFunc(list, func(o placement.ContainerAllocation) bool { return o.Name == c.Name })
	return append(list, c)
}

// readBack returns the exclusive CPUs of a container, including CPUs that it must leave but may
// still be using. If the container is pinned and runs, readBack reads the CPUs from its cgroup. The
// result why describes how the cgroup differs from the decision, or why it cannot be read; "" means
// no difference.
func readBack(c *enforce.Booked, runtimePath string, cgroups fs.FS, a absence) (cpus topology.CPUSet, why string) {
	if c.Set.Pinned {
		cpus = c.Set.CPUs.Or(&c.Leaving)
	}
	if !c.Running || !c.Settled { // the runtime is about to write the cgroup
		return cpus, ""
	}
	dir, err := enforce.CgroupDir(runtimePath)
	if err != nil {
		return cpus, "cannot be read back: " + err.Error()
	}
	found, err := enforce.ReadBack(cgroups, dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if a.lasts(c.ID) {
			return cpus, "cannot be read back: the runtime reports it as running, but there is no cgroup " + dir
		}
		return cpus, "" // the container has just ended, or is just starting
	case err != nil:
		return cpus, "cannot be read back: " + err.Error()
	}
	delete(a.since, c.ID)
	if c.Set.Pinned {
		cpus = found.CPUs.Or(&c.Leaving)
	}
	if c.Moves {
		return cpus, ""
	}
	return cpus, c.Set.Differs(found)
}

// populated reports whether a container's cgroup has processes. It returns false if the cgroup does
// not exist, and true if it cannot be read.
func populated(cgroups fs.FS, runtimePath string) bool {
	dir, err := enforce.CgroupDir(runtimePath)
	if err != nil {
		return runtimePath != ""
	}
	text, err := fs.ReadFile(cgroups, path.Join(dir, "cgroup.events"))
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	return slices.Contains(strings.Split(string(text), "\n"), "populated 1")
}

// contested returns an error if another program sets the CPUs of containers, or assigns devices, on
// a node where Berth decides. It also returns an error in two cases after a change of the node's
// labels. In the first case, koordlet carries out decisions, but a pod was placed for the agent. In
// the second case, the agent carries out decisions, but a pod was placed while the node's authority
// was kubelet, and runs on other CPUs than predicted.
func (s *sighting) contested() error {
	if s.rival != "" {
		return fmt.Errorf("%s: remove that plugin and the pods with its devices from the node, or remove the resource from the agent's flag --devices", s.rival)
	}
	for _, f := range sortedFacts(s.pods) {
		if s.obeyed.koordlet && f.owner == koordlet {
			continue
		}
		if s.obeyed.koordlet && f.by == v1alpha1.EnforcerAgent && f.ended.IsZero() && s.admitted(f.uid) {
			return fmt.Errorf("koordlet carries out decisions here, but pod %s was placed when the agent carried them out: drain the node, or set the enforcer to agent again", f.key())
		}
		if !s.obeyed.koordlet && s.notAsPredicted(&f) && f.ended.IsZero() && s.admitted(f.uid) {
			return fmt.Errorf("the agent carries out decisions here, but pod %s was placed when the kubelet decided, and does not run on the predicted CPUs %s: drain the node, or set the authority to kubelet again", f.key(), f.predicted)
		}
		if f.owner != "" && f.ended.IsZero() {
			return fmt.Errorf("pod %s runs %s, which sets the CPUs of containers as Berth does: remove that program from the node, or set the node's authority to kubelet",
				f.key(), f.owner)
		}
	}
	return nil
}

// notAsPredicted reports whether a pod has CPUs that differ from the predicted ones. It returns
// false if the pod has no prediction.
func (s *sighting) notAsPredicted(f *podFacts) bool {
	var has topology.CPUSet
	for i := range s.obeyed.pods[f.uid] {
		has = has.Or(&s.obeyed.pods[f.uid][i].CPUs)
	}
	return !f.predicted.IsEmpty() && has != f.predicted
}

// abandoned returns an error if a running pod was placed when Berth decided on the node, although
// the kubelet now decides.
func (s *sighting) abandoned() error {
	for _, f := range sortedFacts(s.pods) {
		if f.by != "" && f.ended.IsZero() && s.admitted(f.uid) {
			return fmt.Errorf("the kubelet decides here, but pod %s was placed when Berth decided: drain the node, or set the authority to berth again", f.key())
		}
	}
	return nil
}

func sortedFacts(pods map[string]podFacts) []podFacts {
	out := make([]podFacts, 0, len(pods))
	for _, f := range pods {
		out = append(out, f)
	}
	slices.SortFunc(out, byCreation)
	return out
}
