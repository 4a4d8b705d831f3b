package agent

import (
	"errors"
	"fmt"
	"slices"

	"github.com/berth-dev/berth/internal/kubeletstate"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// checkpoints reads a kubelet's records of its allocations. All methods except readAgain are about
// the reading that readAgain took last.
type checkpoints struct {
	read func() (kubeletstate.Raw, error)
	root string            // the kubelet's root directory, for messages
	raw  *kubeletstate.Raw // the last reading, or the one before if both are equal; nil before the first
	// state is the parsed reading. The mirror changes its devices.
	state kubeletstate.State
	// Most readings equal the last one, so parsed and started keep the last results of parse and
	// starts.
	parsed struct {
		from  *kubeletstate.Raw
		state kubeletstate.State
	}
	started struct {
		from  *kubeletstate.Raw
		model *placement.Model
		err   *kubeletstate.StartError
	}
}

// readAgain takes a reading. The result settled means that the reading equals the previous one byte
// by byte.
func (c *checkpoints) readAgain() (settled bool, err error) {
	raw, err := c.read()
	if err != nil {
		return false, err
	}
	if c.raw != nil && raw.Equal(*c.raw) {
		return true, nil
	}
	c.raw = &raw
	return false, nil
}

// parse parses the last reading. If the kubelet does not write the file of admitted pods, parse
// ignores the file, because it is outdated.
func (c *checkpoints) parse(tellsAdmitted bool) (err error) {
	if c.parsed.from != c.raw {
		if c.parsed.state, err = c.raw.Parse(); err != nil {
			c.parsed.from = nil
			return err
		}
		c.parsed.from = c.raw
	}
	c.state = c.parsed.state
	if d := c.state.Devices; d != nil {
		c.state.Devices = &kubeletstate.DeviceState{Entries: slices.Clone(d.Entries), Registered: d.Registered}
	}
	if !tellsAdmitted {
		c.state.Admitted = nil
	}
	return nil
}

// admitted reports whether the kubelet has admitted a pod, by the UID in the records. The result
// told is false if the records do not show this.
func (c *checkpoints) admitted(uid string) (admitted, told bool) {
	if c.state.Admitted == nil {
		return false, false
	}
	return c.state.Admitted.Has(uid), true
}

// holders returns the pods that hold resources, by the UID that the kubelet uses.
func (c *checkpoints) holders() map[string]bool {
	out := map[string]bool{}
	for p := range c.pinned() {
		out[p.uid] = true
	}
	if c.state.Devices != nil {
		for _, e := range c.state.Devices.Entries {
			out[e.PodUID] = true
		}
	}
	return out
}

// pin identifies the CPUs or the memory of a pod: the pod's UID in the kubelet, and the file with
// the entry.
type pin struct{ uid, file string }

// pinned returns a pin for the CPUs and for the memory of each pod that has any.
func (c *checkpoints) pinned() map[pin]bool {
	out := map[pin]bool{}
	if c.state.CPU != nil {
		for _, e := range c.state.CPU.Entries {
			out[pin{e.PodUID, kubeletstate.CPUFile}] = true
		}
	}
	if c.state.Memory != nil {
		for _, e := range c.state.Memory.Entries {
			out[pin{e.PodUID, kubeletstate.MemoryFile}] = true
		}
	}
	return out
}

// offline returns the CPUs in the argument cpus, which are offline, that the CPU manager has
// assigned or could still assign.
func (c *checkpoints) offline(cpus topology.CPUSet) topology.CPUSet {
	s := c.state.CPU
	if s == nil || s.Policy != "static" {
		return topology.CPUSet{}
	}
	named := s.Shared
	for i := range s.Entries {
		named = named.Or(&s.Entries[i].CPUs)
	}
	return named.And(&cpus)
}

// present returns an error if a checkpoint is missing that a kubelet with this configuration
// writes.
func (c *checkpoints) present(config *placement.Config) error {
	if c.state.CPU == nil && config.CPUManagerPolicy == "static" {
		return absent(kubeletstate.CPUFile, "cpuManagerPolicy static")
	}
	if c.state.Memory == nil && config.MemoryManagerPolicy == "Static" {
		return absent(kubeletstate.MemoryFile, "memoryManagerPolicy Static")
	}
	return nil
}

// starts explains why a kubelet with this machine and configuration does not start with the
// checkpoints. It returns nil if the kubelet starts, or may start. The checkpoints may be those of
// another policy, if the configuration was changed and the kubelet has not restarted yet.
func (c *checkpoints) starts(p *platform) *kubeletstate.StartError {
	if p.model == nil {
		return nil // p.problem has the reason
	}
	last := &c.started
	if last.from == c.raw && last.model == p.model {
		return last.err
	}
	startup := p.model.Startup()
	err, _ := errors.AsType[*kubeletstate.StartError](c.raw.Start(&startup, c.root))
	if err != nil && err.Chance {
		err = nil
	}
	last.from, last.model, last.err = c.raw, p.model, err
	return err
}

func absent(file, policy string) error {
	return fmt.Errorf("%s does not exist: a kubelet with %s writes this file when it starts. Is the kubelet running?",
		file, policy)
}
