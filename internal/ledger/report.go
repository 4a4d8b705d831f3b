package ledger

import (
	"bytes"
	"fmt"

	"github.com/berth-dev/berth/placement"
)

// Fate is the state of a pod according to the report.
type Fate uint8

const (
	// Alive, the zero value: the kubelet has admitted the pod, and the pod runs or will run.
	Alive Fate = iota
	// Over: the pod has ended. The kubelet will release its remaining resources before the next
	// admission.
	Over
	// Rejected: the kubelet refused the pod. The resources of a Rejected pod are treated like those
	// of a pod that is Over.
	Rejected
)

// Report is a report of a node, translated and checked. It is immutable.
type Report struct {
	// Sequence is the number of the report, which grows with every report of the node.
	Sequence int64
	// Model is the node's machine and kubelet configuration.
	Model *placement.Model
	// Amounts means that the report has only free amounts per NUMA node, and no individual CPUs. No
	// decision is then exact, and the order of admissions does not matter.
	Amounts bool
	// Unsure means that the kubelet may use a configuration that differs from the model's. No
	// decision is then exact, unless Berth decides.
	Unsure bool

	state *placement.State
	// bare is the state without pods if Berth decides.
	bare *placement.State
	// lingering are ended pods that still have resources in the kubelet's checkpoints. held is the
	// state with these resources, or nil. An admission in progress may still count them.
	lingering []string
	held      *placement.State
	pods      map[string]listing
	order     []string // the UIDs in the order of the report
	// rejected has the UIDs of the pods with the Fate Rejected.
	rejected []string
	// pinsMemory means that the memory manager is active.
	pinsMemory bool
}

// listing has the facts of a report about one pod that is not over.
type listing struct {
	holds bool // the pod has pinned resources
	alloc placement.PodAllocation
}

// NewReport returns a report with the content of a snapshot. fates has the pods of the snapshot
// that are not Alive. It returns an error if the snapshot contradicts itself or the model.
func NewReport(seq int64, m *placement.Model, snap *placement.Snapshot, fates map[string]Fate) (*Report, error) {
	state, err := m.StateOf(snap)
	if err != nil {
		return nil, fmt.Errorf("report %d: %w", seq, err)
	}
	// A Report never changes its state if there are no pods, so idle nodes share one.
	if empty := m.Empty(); len(snap.Pods)+len(snap.Devices) == 0 && bytes.Equal(state.AppendStateKey(nil), empty.AppendStateKey(nil)) {
		state = empty
	}
	r := &Report{Sequence: seq, Model: m, state: state, pinsMemory: len(snap.Memory) > 0}
	if m.Decides() {
		if r.bare, err = m.StateOf(&placement.Snapshot{Devices: snap.Devices}); err != nil {
			return nil, fmt.Errorf("report %d: %w", seq, err)
		}
	}
	if len(snap.Pods) > 0 {
		r.pods = make(map[string]listing, len(snap.Pods))
	}
	for _, p := range snap.Pods {
		switch fates[p.UID] {
		case Rejected:
			r.rejected = append(r.rejected, p.UID)
			fallthrough
		case Over:
			r.linger(&p)
			state.Release(p.UID)
			continue
		}
		kept, _ := state.Pod(p.UID)
		p.Whole, p.Containers = kept.Whole, kept.Containers // otherwise memory has them twice
		r.pods[p.UID] = listing{holds: holds(&p), alloc: p}
		r.order = append(r.order, p.UID)
	}
	return r, nil
}

// linger adds a pod that is over to lingering. Call it before the pod's resources are released.
func (r *Report) linger(p *placement.PodAllocation) {
	if !holds(p) {
		return
	}
	if r.held == nil {
		r.held = r.state.Clone()
	}
	r.lingering = append(r.lingering, p.UID)
}

// Has reports whether the report lists the pod as admitted.
func (r *Report) Has(uid string) bool {
	if r == nil {
		return false
	}
	_, ok := r.pods[uid]
	return ok
}

// holds reports whether the pod has pinned resources.
func holds(p *placement.PodAllocation) bool {
	for i := range p.Containers {
		c := &p.Containers[i]
		if !c.CPUs.IsEmpty() || len(c.Memory) > 0 || len(c.Devices) > 0 || len(c.Shares) > 0 || len(c.Provided) > 0 {
			return true
		}
	}
	return false
}

// starts returns the containers that come directly after an init container with memory. The start
// of such a container frees this memory.
func starts(p *placement.PodAllocation) []string {
	return startsOf(len(p.Containers), func(i int) (string, bool) {
		c := &p.Containers[i]
		return c.Name, c.Kind == placement.Init && len(c.Memory) > 0
	})
}

// requestedStarts returns the same containers for a pod that is not admitted yet.
func requestedStarts(r *placement.Request) []string {
	return startsOf(len(r.Containers), func(i int) (string, bool) {
		c := &r.Containers[i]
		return c.Name, c.Kind == placement.Init && r.Guaranteed && len(c.Memory) > 0
	})
}

// startsOf implements starts and requestedStarts. The function at returns a container's name, and
// whether the start of the next container frees its memory.
func startsOf(count int, at func(int) (name string, frees bool)) []string {
	var names []string
	held := false
	for i := range count {
		name, frees := at(i)
		if held {
			names = append(names, name)
		}
		held = frees
	}
	return names
}
