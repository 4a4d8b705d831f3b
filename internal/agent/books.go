package agent

import (
	"cmp"
	"fmt"

	"github.com/berth-dev/berth/internal/kubeletstate"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// Books are where a node's allocations are written down. A kubelet's checkpoints are such books; an
// agent that enforces decisions keeps its own. All methods but Read are about the last reading.
type Books interface {
	// Read takes a reading. It is settled if it equals the one before byte by byte: then nothing
	// moved in between.
	Read() (settled bool, err error)
	// Check says what contradicts itself in the reading. A change that is under way may look so for
	// a moment.
	Check() error
	// Snapshot is the reading in the engine's words. The error says that the books hold what a
	// Snapshot cannot.
	Snapshot() (placement.Snapshot, error)
	// Admitted says whether a pod was admitted, by the UID in the books; told is false where the
	// books do not say.
	Admitted(uid string) (admitted, told bool)
}

var _ Books = (*checkpoints)(nil)

// checkpoints are the Books of a kubelet.
type checkpoints struct {
	read  func() (kubeletstate.Raw, error)
	raw   *kubeletstate.Raw // the last reading; nil before the first
	state kubeletstate.State
}

// Read implements Books.
func (c *checkpoints) Read() (settled bool, err error) {
	raw, err := c.read()
	if err != nil {
		return false, err
	}
	settled = c.raw != nil && raw.Equal(*c.raw)
	c.raw = &raw
	return settled, nil
}

// parse reads what the last reading says. Where the kubelet does not record which pods it admitted,
// what lies there is from another time.
func (c *checkpoints) parse(tellsAdmitted bool) (err error) {
	if c.state, err = c.raw.Parse(); err == nil && !tellsAdmitted {
		c.state.Admitted = nil
	}
	return err
}

// Check implements Books.
func (c *checkpoints) Check() error { return c.state.Check() }

// Snapshot implements Books.
func (c *checkpoints) Snapshot() (placement.Snapshot, error) { return c.state.Snapshot() }

// Admitted implements Books.
func (c *checkpoints) Admitted(uid string) (admitted, told bool) {
	if c.state.Admitted == nil {
		return false, false
	}
	return c.state.Admitted.Has(uid), true
}

// holders returns the pods that hold something, by the kubelet's UID.
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

// pin is CPUs or memory that a pod has: the kubelet's UID of the pod, and the file that says so.
type pin struct{ uid, file string }

// pinned returns the CPUs and the memory that pods have.
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

// offline are the CPUs among these that the CPU manager would still hand out, or has handed out.
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

// policiesAgree says whether the checkpoints were written under a configuration: they are not while
// somebody has changed the file and not restarted the kubelet.
func (c *checkpoints) policiesAgree(config *placement.Config) error {
	s := &c.state
	if s.CPU == nil && config.CPUManagerPolicy == "static" {
		return absent(kubeletstate.CPUFile, "static")
	}
	if s.Memory == nil && config.MemoryManagerPolicy == "Static" {
		return absent(kubeletstate.MemoryFile, "Static")
	}
	if s.CPU != nil && s.CPU.Policy != cmp.Or(config.CPUManagerPolicy, "none") {
		return fmt.Errorf("%s: policyName: %q: want %q, the kubelet configuration's cpuManagerPolicy: restart the kubelet",
			kubeletstate.CPUFile, s.CPU.Policy, config.CPUManagerPolicy)
	}
	if s.Memory != nil && s.Memory.Policy != cmp.Or(config.MemoryManagerPolicy, "None") {
		return fmt.Errorf("%s: policyName: %q: want %q, the kubelet configuration's memoryManagerPolicy: restart the kubelet",
			kubeletstate.MemoryFile, s.Memory.Policy, config.MemoryManagerPolicy)
	}
	return nil
}

func absent(file, policy string) error {
	return fmt.Errorf("%s is not there: want the file that a kubelet with policy %s writes when it starts: is it running?",
		file, policy)
}
