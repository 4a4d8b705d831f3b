package agent

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/kubeletstate"
	"github.com/berth-dev/berth/internal/offer"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// A kubelet reads its machine and its configuration once, when it starts (pkg/kubelet/kubelet.go,
// cachedMachineInfo). Later it still assigns CPUs that have been taken offline, and ignores huge
// pages that were added. So the agent checks the machine and the configuration for changes.

// lookPeriod is the interval at which the agent checks whether the machine or the files of the
// configuration have changed. The API should show a change within a second, and reading the machine
// and writing the report need time, too. A check reads a dozen small files of sysfs.
const lookPeriod = 300 * time.Millisecond

// configSettle is the time without changes after which the files of a configuration are read,
// because a writer may not be finished.
const configSettle = 50 * time.Millisecond

// configDoubt is the time after which the agent reads an unreadable configuration again. It reports
// the problem only if this fails too, because another program may just have been writing the file.
const configDoubt = time.Second

// MachineFingerprint returns a function that reads the data that may change while a kubelet runs:
// the online CPUs and NUMA nodes, and the huge pages of each NUMA node. If two results are equal,
// these data have not changed. It omits unreadable data.
func MachineFingerprint(fsys fs.FS) func() string {
	return func() string {
		const system = "sys/devices/system"
		names := []string{system + "/cpu/online", system + "/node/online"}
		pools, err := fs.Glob(fsys, system+"/node/node*/hugepages/hugepages-*/nr_hugepages")
		if err != nil {
			pools = nil // the pattern is well-formed
		}
		var b strings.Builder
		for _, name := range append(names, pools...) {
			if data, err := fs.ReadFile(fsys, name); err == nil {
				fmt.Fprintf(&b, "%s %s", path.Dir(name), data)
			}
		}
		return b.String()
	}
}

// DeviceFingerprint returns a function that reads the machine's PCI functions and RDMA devices,
// which may change at any time. The link physfn marks a virtual function; the kernel creates it
// after the function, so it is part of the fingerprint.
func DeviceFingerprint(fsys fs.FS) func() string {
	return func() string {
		var b strings.Builder
		for _, dir := range []string{"sys/bus/pci/devices", "sys/class/infiniband"} {
			entries, err := fs.ReadDir(fsys, dir)
			if err != nil {
				continue // a machine may have neither
			}
			for _, e := range entries {
				_, err := fs.ReadLink(fsys, path.Join(dir, e.Name(), "physfn"))
				fmt.Fprintln(&b, e.Name(), err == nil)
			}
		}
		return b.String()
	}
}

// slots tracks the machine's devices, which may appear and disappear while a kubelet runs.
type slots struct {
	fingerprint func() string // nil if devices never change
	last        string        // the fingerprint of the platform's devices
	seen        string        // the fingerprint at the last check; a change counts if two checks agree
	offered     []offer.Pool  // the last platform's offers, with devices that the machine has lost
}

// surroundings has the machine and the configuration that the kubelet read when it started, and
// those that it would read now.
type surroundings struct {
	now         clock
	machine     machineSource
	config      ConfigSource
	authority   v1alpha1.Authority // as in Options
	enforcer    v1alpha1.Enforcer  // as in Options
	devices     *offer.Config      // as in Options
	version     string             // of the kubelet; "" means the version in the Node
	fingerprint func() string      // MachineFingerprint; nil if the machine never changes
	started     func() time.Time   // the kubelet's start, or zero; nil if it cannot be known
	slots       slots
	every       time.Duration // the interval of checks for a changed configuration
	say         *complaints

	decider decider // the decider when the platform was found
	release string  // the kubelet's release at that time
	// mislabelled means that labels are invalid, so that the authority is not known.
	mislabelled bool
	platform    *platform // the kubelet's platform; nil until it is known
	// newer are the files of the configuration that changed after the kubelet had started and
	// before the agent read them. The agent does not know which content the kubelet has read.
	newer    []string
	present  present
	looked   configLook
	attempts backoff // between attempts to read machine and configuration
}

// configLook records when the configuration was read, and when it must be read again.
type configLook struct {
	last time.Time // the last reading
	// files is the fingerprint of the files at the last look. The field due is the time of the next
	// reading after a change of a file, or zero.
	files string
	due   time.Time
	// doubted means that the last reading failed and the failure is not reported yet.
	doubted bool
}

// present has the machine and configuration that a kubelet would find if it started now. Until they
// change, they are those of the platform.
type present struct {
	fingerprint string // of the machine
	view        *placement.KubeletView
	config      *kubeletv1beta1.KubeletConfiguration
	// unread is the error of reading the configuration on disk, or "". The field unseen is the
	// error of reading the changed machine, or "".
	unread, unseen string
}

// find reads the platform if it is not known, or if the node's labels or the kubelet's release have
// changed. If this fails, it also returns the time until the next attempt.
func (a *surroundings) find(ctx context.Context, node *corev1.Node) (next, error) {
	by, wrong := deciderOf(a.authority, a.enforcer, a.devices, node)
	if node == nil {
		if a.platform != nil {
			return settled, nil
		}
		return again(endPoll), errNoNode
	}
	// After an upgrade, the Node shows the new release only some time after the kubelet's start.
	version := cmp.Or(a.version, node.Status.NodeInfo.KubeletVersion)
	if a.platform != nil && a.decider == by && a.release == version && a.mislabelled == (wrong != nil) {
		return settled, nil
	}
	is := present{}
	if a.fingerprint != nil {
		is.fingerprint = a.fingerprint()
	}
	if a.slots.fingerprint != nil {
		a.slots.last = a.slots.fingerprint()
	}
	looked := configLook{}
	if a.config.fingerprint != nil {
		looked.files = a.config.fingerprint()
	}
	p, err := discover(ctx, func() (*topology.Machine, error) { return a.keeping(&by) }, a.config, version, by)
	if err != nil {
		return again(a.attempts.Step()), err
	}
	a.offering(&p)
	a.newer = a.newerFiles()
	a.decider, a.release = by, version
	if a.mislabelled = wrong != nil; a.mislabelled {
		p.wrong, p.problem = wrong, wrong
	}
	is.view, is.config = p.spec.View, p.config
	a.platform, a.present = &p, is
	looked.last = a.now()
	a.looked, a.attempts = looked, newLook()
	return settled, nil
}

// newerFiles returns the files of the configuration that changed after the running kubelet read
// them.
func (a *surroundings) newerFiles() []string {
	if a.started == nil || a.config.newer == nil {
		return nil
	}
	if at := a.started(); !at.IsZero() {
		return a.config.newer(at)
	}
	return nil
}

// keeping returns the machine, including devices that were offered before and are gone.
func (a *surroundings) keeping(by *decider) (*topology.Machine, error) {
	m, err := a.machine()
	if offers := by.offers(); err == nil && offers != nil {
		m = offers.Keep(m, a.slots.offered)
	}
	return m, err
}

// offering records the devices that are offered now.
func (a *surroundings) offering(p *platform) {
	if p.wrong == nil {
		a.slots.offered = p.offered
	}
}

// forget makes find read everything again. Call it when a kubelet has started.
func (a *surroundings) forget() { a.platform, a.attempts = nil, newLook() }

// recall sets the platform's memory to the memory that the kubelet found when it started, from the
// checkpoint of the kubelet's memory manager.
func (a *surroundings) recall(s *kubeletstate.MemoryState) error {
	p, err := a.platform.withMemoryOf(s)
	a.platform = &p
	return err
}

// look reads data that may have changed while the kubelet runs. It reports whether there is a
// change.
func (a *surroundings) look(ctx context.Context) bool {
	if a.platform == nil {
		return false
	}
	before, devices := a.present, a.lookAtDevices()
	a.lookAtMachine()
	now := a.now()
	a.lookAtFiles(now)
	if now.Sub(a.looked.last) >= a.every || !a.looked.due.IsZero() && !now.Before(a.looked.due) {
		a.looked.last, a.looked.due = now, time.Time{}
		a.lookAtConfig(ctx)
	}
	is := &a.present
	return devices || is.view != before.view || is.unseen != before.unseen || is.unread != before.unread ||
		len(changedSettings(before.config, is.config)) > 0
}

// lookAtDevices updates the platform if the machine's devices have changed, and reports whether
// they have.
func (a *surroundings) lookAtDevices() bool {
	offers := a.decider.offers()
	if offers == nil || a.slots.fingerprint == nil || a.mislabelled {
		return false
	}
	fingerprint := a.slots.fingerprint()
	if seen := a.slots.seen; fingerprint == a.slots.last || fingerprint != seen {
		a.slots.seen = fingerprint
		return false
	}
	m, err := a.keeping(&a.decider)
	a.say.about(topicDevices, err)
	if err != nil {
		return false
	}
	p := a.platform.withDevicesOf(m, offers)
	a.offering(&p)
	a.platform, a.slots.last = &p, fingerprint
	return true
}

func (a *surroundings) lookAtMachine() {
	if a.fingerprint == nil {
		return
	}
	fingerprint := a.fingerprint()
	if fingerprint == a.present.fingerprint {
		a.present.unseen = ""
		a.say.about(topicMachine, nil)
		return
	}
	var view *placement.KubeletView
	machine, err := a.machine()
	if err == nil {
		view, err = placement.ViewOf(machine)
	}
	a.say.about(topicMachine, err)
	if err != nil { // changes that are already known stay recorded
		a.present.unseen = err.Error()
		return
	}
	a.present.view, a.present.unseen, a.present.fingerprint = view, "", fingerprint
}

func (a *surroundings) lookAtConfig(ctx context.Context) {
	config, err := a.presentConfig(ctx)
	switch {
	case err == nil:
		a.present.config, a.present.unread, a.looked.doubted = config, "", false
	case a.config.fingerprint == nil: // the configuration comes from the kubelet, which does not run
	case a.looked.doubted || a.present.unread != "":
		a.present.unread = err.Error()
	default:
		a.looked.doubted, a.looked.due = true, a.now().Add(configDoubt)
	}
}

// lookAtFiles sets the next reading of the configuration if its files have changed since the last
// look.
func (a *surroundings) lookAtFiles(now time.Time) {
	if a.config.fingerprint == nil {
		return
	}
	if files := a.config.fingerprint(); files != a.looked.files {
		a.looked.files, a.looked.due = files, now.Add(configSettle)
	}
}

// presentConfig returns the configuration that a kubelet would read if it started now.
func (a *surroundings) presentConfig(ctx context.Context) (*kubeletv1beta1.KubeletConfiguration, error) {
	raw, err := a.config.read(ctx)
	if err != nil {
		return nil, err
	}
	_, err = a.readConfig(raw)
	if err != nil {
		return nil, err
	}
	return raw, nil
}

func (a *surroundings) drift() drift {
	then := machineAndConfig{a.platform.spec.View, a.platform.config}
	d := driftOf(then, machineAndConfig{a.present.view, a.present.config})
	d.unread, d.newer = a.present.unread, a.newer
	if a.present.unseen != "" {
		d.lost = append(d.lost, string(topicMachine)+": "+a.present.unseen)
		d.cpus, d.memory = true, true
	}
	return d
}

// stale returns the checkpoints with which a kubelet would not start now, because the machine or
// the configuration has changed.
func (a *surroundings) stale(books *checkpoints, d *drift) (files []string) {
	if len(d.lost)+len(d.gained)+len(d.settings) == 0 || a.present.view == nil {
		return nil
	}
	c, err := a.readConfig(a.present.config)
	if err != nil {
		return nil
	}
	c.FeatureGates = gatesOf(c.FeatureGates)
	model, err := placement.NewModel(a.present.view, c)
	if err != nil {
		return nil // the kubelet does not start for other reasons, or the reason is not known
	}
	startup := model.Startup()
	if kubeletstate.StartCPU(&startup, "", books.raw.CPU) != nil {
		files = append(files, kubeletstate.CPUFile)
	}
	if kubeletstate.StartMemory(&startup, "", books.raw.Memory) != nil {
		files = append(files, kubeletstate.MemoryFile)
	}
	return files
}

// readConfig reads a configuration for the kubelet's release and machine.
func (a *surroundings) readConfig(raw *kubeletv1beta1.KubeletConfiguration) (placement.Config, error) {
	release, err := wire.ReadKubeletVersion(a.platform.spec.KubeletVersion)
	if err != nil {
		return placement.Config{}, err
	}
	return wire.ReadConfig(raw, wire.KubeletFacts{Version: release, MemoryBytes: a.platform.memoryBytes, Partitioned: a.decider.partitioned})
}

// offline returns the CPUs that were offline when the agent read the platform and still are.
func (a *surroundings) offline() topology.CPUSet {
	online := cpusOf(a.present.view)
	return a.platform.spec.Machine.Offline.AndNot(&online)
}
