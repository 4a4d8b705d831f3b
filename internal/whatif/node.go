// Package whatif computes, without a cluster, which pods one node would admit and which resources
// they would get. The node consists of a machine, a kubelet's configuration, and the resources that
// are already assigned to pods. The package repeats the checks of the kubelet's admission.
package whatif

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/berth-dev/berth/internal/amounts"
	"github.com/berth-dev/berth/internal/featuregates"
	"github.com/berth-dev/berth/internal/kubeletconfig"
	"github.com/berth-dev/berth/internal/kubeletstate"
	"github.com/berth-dev/berth/internal/machineview"
	"github.com/berth-dev/berth/internal/survey/query"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// Spec describes a node.
type Spec struct {
	// Machine is a machine string or the path of a capture; see ReadMachine.
	Machine string
	// Config are the files of the KubeletConfiguration and the kubelet's flags. Without them every
	// manager's policy is none.
	Config kubeletconfig.Files
	// Version is the kubelet's release.
	Version placement.Version
	// State is a folder with the kubelet's checkpoints. "" means that no resources are assigned.
	State string
	// Pools are the devices of device plugins.
	Pools []placement.DevicePool
	// Setting changes Machine, Config and Pools. Setting.Empty has no effect here.
	Setting query.Setting
	// NoGuard makes the node answer as its kubelet would, even if Berth's scheduler would not place
	// the pod there because of a known kubelet defect or the pod's own policy.
	NoGuard bool
	// IgnoreMissingDevices admits pods that request devices that the node does not offer. The
	// kubelet does the same.
	IgnoreMissingDevices bool
}

// Node is a node that admits or refuses pods.
type Node struct {
	machine *topology.Machine
	config  placement.Config
	model   *placement.Model
	state   *placement.State
	totals  *amounts.Node
	// allocatable has the amounts of an empty node. `untold` lists the resources whose amounts are
	// unknown.
	allocatable amounts.List
	untold      []string
	spec        Spec
	// tenants are the pods that Admit has admitted.
	tenants []machineview.Tenant
	// Notes lists the assumptions on which the answers depend, each once.
	Notes []string
}

// Load reads the files of the spec, and returns the node that they describe.
func (s Spec) Load() (*Node, error) {
	n := &Node{spec: s}
	var err error
	if n.machine, err = ReadMachine(s.Machine); err != nil {
		return nil, err
	}
	if err := n.divide(); err != nil {
		return nil, err
	}
	view, err := placement.ViewOf(n.machine)
	if err != nil {
		return nil, err
	}
	if err := n.configure(view); err != nil {
		return nil, err
	}
	if n.config.MemoryManagerPolicy == "Static" && memoryOf(n.machine) == 0 {
		return nil, fmt.Errorf("%s: no memory size: want mem:SIZE in a machine string, and huge: if the machine has huge pages, because memoryManagerPolicy is Static", s.Machine)
	}
	n.assumptions()
	n.state = n.model.NewState()
	if s.State != "" {
		if err := n.ReadState(s.State); err != nil {
			return nil, err
		}
	}
	return n, n.setPools(n.spec.Pools)
}

// divide gives each package the number of NUMA nodes that the setting requests.
func (n *Node) divide() error {
	per := n.spec.Setting.NUMAPerPackage
	if per == 0 {
		return nil
	}
	d, err := n.machine.Divide(per)
	if err != nil {
		return err
	}
	for _, pool := range n.spec.Pools {
		if err := onMachine(&pool, n.machine); err != nil {
			return err
		}
	}
	n.machine, n.spec.Pools = d.Machine, query.Rehang(d, n.spec.Pools)
	return nil
}

func set(c *kubeletv1beta1.KubeletConfiguration, o *query.Setting) {
	c.TopologyManagerPolicy = cmp.Or(o.Policy, c.TopologyManagerPolicy)
	c.TopologyManagerScope = cmp.Or(o.Scope, c.TopologyManagerScope)
	c.CPUManagerPolicy = cmp.Or(o.CPUManager, c.CPUManagerPolicy)
	c.ReservedSystemCPUs = cmp.Or(o.Reserved, c.ReservedSystemCPUs)
}

// configure reads the kubelet's configuration, and creates the model and the node's amounts from
// it.
func (n *Node) configure(view *placement.KubeletView) error {
	c := &kubeletv1beta1.KubeletConfiguration{}
	if files := n.spec.Config; files.File != "" || files.Dir != "" || files.Flags != "" {
		n.spec.Config.Strict, n.spec.Config.Version = true, n.spec.Version
		var err error
		if c, err = n.spec.Config.Read(); err != nil {
			return err
		}
	}
	set(c, &n.spec.Setting)
	err := n.compile(view, c)
	if where := cmp.Or(n.spec.Config.File, n.spec.Config.Dir); err != nil && where != "" {
		return fmt.Errorf("%s: %w", where, err)
	}
	return err
}

func (n *Node) compile(view *placement.KubeletView, c *kubeletv1beta1.KubeletConfiguration) (err error) {
	kubelet := wire.KubeletFacts{Version: n.spec.Version, MemoryBytes: memoryOf(n.machine)}
	if n.config, err = wire.ReadConfig(c, kubelet); err != nil {
		return err
	}
	if gate, why := featuregates.Wrong(c.FeatureGates, uint8(n.spec.Version)); gate != "" {
		return &wire.FieldError{Object: "KubeletConfiguration", Field: "featureGates[" + gate + "]",
			Value: fmt.Sprint(c.FeatureGates[gate]), Want: "a value that this kubelet release allows: the kubelet would not start: " + why}
	}
	n.config.GuardDefects = !n.spec.NoGuard
	if err = wire.CheckReserved(c.ReservedSystemCPUs, view); err != nil {
		return err
	}
	if n.model, err = placement.NewModel(view, n.config); err != nil {
		return err
	}
	allocatable, err := wire.ReadAllocatable(c, kubelet, amounts.Capacity(view))
	if err != nil {
		return err
	}
	untold := []string{amounts.EphemeralStorage}
	if kubelet.MemoryBytes == 0 {
		untold = append(untold, amounts.Memory)
	}
	n.allocatable, n.untold = allocatable, untold
	n.totals = amounts.NewNode(allocatable, untold...)
	return nil
}

func (n *Node) assumptions() {
	if n.pinsNothing() {
		n.note("neither the CPU nor the memory manager of this kubelet is static: it pins nothing (see --kubelet-config)")
	}
	if memoryOf(n.machine) == 0 {
		n.note("the machine has no memory size: amounts of memory are not checked (add mem:SIZE to a machine string)")
	}
}

// pinsNothing reports whether the kubelet pins neither CPUs nor memory.
func (n *Node) pinsNothing() bool {
	return n.config.CPUManagerPolicy != "static" && n.config.MemoryManagerPolicy != "Static"
}

func (n *Node) note(text string) {
	if !slices.Contains(n.Notes, text) {
		n.Notes = append(n.Notes, text)
	}
}

// Pods returns the number of pods with assigned resources.
func (n *Node) Pods() int { return n.state.Pods() }

// ReadState replaces the node's assigned resources with the ones in the kubelet's checkpoints in
// dir. It does not reset the used amounts, so call it at most once, and before Admit.
func (n *Node) ReadState(dir string) error {
	if err := n.readState(dir); err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	return nil
}

func (n *Node) readState(dir string) error {
	raw, err := kubeletstate.ReadRaw(os.DirFS(dir))
	if err != nil {
		return err
	}
	if raw.CPU == nil && raw.Memory == nil && raw.Devices == nil {
		return fmt.Errorf("no checkpoint: want a folder with %s, %s or %s", kubeletstate.CPUFile, kubeletstate.MemoryFile, kubeletstate.DeviceFile)
	}
	if err := n.starts(&raw, dir); err != nil {
		return err
	}
	read, err := raw.Parse()
	if err != nil {
		return err
	}
	if err := read.Check(); err != nil {
		return err
	}
	snap, err := read.Snapshot()
	if err != nil {
		return err
	}
	if read.CPU == nil || read.CPU.Policy != "static" {
		snap.SharedCPUs = n.model.NewState().SharedCPUs()
	}
	if n.state, err = n.model.StateOf(&snap); err != nil {
		return err
	}
	if slices.ContainsFunc(snap.Devices, func(p placement.DevicePool) bool { return !n.given(p.Resource) }) {
		n.note("the device checkpoint does not record the NUMA nodes of free devices: give them with --device")
	}
	n.count(&snap)
	return nil
}

// Startup returns the data with which the node's kubelet compares its checkpoints when it starts.
func (n *Node) Startup() placement.Startup { return n.model.Startup() }

// starts returns an error if a kubelet with these checkpoints would refuse to start. If it depends
// on chance whether the kubelet starts, starts only adds a note.
func (n *Node) starts(raw *kubeletstate.Raw, dir string) error {
	startup := n.Startup()
	err := n.Described(raw.Start(&startup, kubeletstate.RootOf(dir)), raw.Memory)
	if may, ok := errors.AsType[*kubeletstate.StartError](err); ok && may.Chance {
		n.note(err.Error())
		return nil
	}
	return err
}

// count adds the assigned resources in the checkpoints to the used amounts. The pods' requests are
// not known, because checkpoints do not contain them.
func (n *Node) count(snap *placement.Snapshot) {
	for i := range snap.Pods {
		n.totals.Add(heldBy(&snap.Pods[i]))
	}
	n.note("checkpoints record assigned resources, not requests: requests for shared CPUs and shared memory are not counted")
	if len(snap.Pods) > 0 {
		n.note("checkpoints may contain pods that are gone: they are counted until -f lists them as ended, but the kubelet releases them before it admits its next pod")
	}
}

// Forget releases the resources of pods that have ended. Checkpoints contain such pods until the
// kubelet admits its next pod, before which it releases them.
func (n *Node) Forget(ended []types.UID) {
	for _, uid := range ended {
		if held, ok := n.state.Pod(string(uid)); ok {
			n.totals.Remove(heldBy(&held))
			n.state.Release(string(uid))
		}
	}
}

func heldBy(p *placement.PodAllocation) amounts.List {
	out := amounts.List{}
	cpus := p.CPUs() // containers of one pod may have the same CPUs
	for b := range p.Blocks() {
		out[b.Resource] += int64(b.Bytes)
	}
	for i := range p.Containers {
		c := &p.Containers[i]
		for _, d := range c.Devices {
			out[d.Resource] += int64(len(d.IDs))
		}
	}
	out[amounts.CPU] = int64(cpus.Len()) * 1000
	return out
}
