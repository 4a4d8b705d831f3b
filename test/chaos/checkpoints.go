package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/berth-dev/berth/internal/hollow"
	"github.com/berth-dev/berth/internal/kubeletstate"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/test/trial"
	"github.com/berth-dev/berth/topology"
)

// watchCheckpoints reads a node's checkpoints whenever they change, and compares them with the
// machine when they have been unchanged for a while.
func (o *observer) watchCheckpoints(ctx context.Context, spec *hollow.Spec) {
	var last kubeletstate.Raw
	var next, since time.Time // next: when to compare with the machine; zero: after the next change
	for now := range trial.Every(ctx, checkpointPoll) {
		if raw, held := o.look(spec); held && !raw.Equal(last) {
			last, since, next = raw, now, now.Add(soundAfter)
			o.mu.Lock()
			o.tally.checkpoints++
			o.mu.Unlock()
		}
		if next.IsZero() || now.Before(next) {
			continue
		}
		next = time.Time{}
		switch problem := o.againstMachine(spec); {
		case problem == "":
		case now.Sub(since) < unsoundAfter:
			next = since.Add(unsoundAfter)
		case o.torn(spec.Name, since):
			o.mend(spec.Name, problem)
		default:
			o.book.violate("node "+spec.Name+": "+problem, spec.Name)
		}
	}
}

// torn reports whether the node's kubelet was killed at the last change of its checkpoints. A
// kubelet that is killed between two writes does not start again (docs/scope.md).
func (o *observer) torn(node string, since time.Time) bool {
	died, _ := o.book.lastKill("node-" + node)
	return since.Sub(died).Abs() < soundAfter
}

// mend removes the checkpoint that the agent's report names, as an administrator would. When the
// kubelet starts, it gives all pods new CPUs or memory.
func (o *observer) mend(node, problem string) {
	o.book.note(fmt.Sprintf("node %s: its kubelet was killed between two writes, and does not start: %s", node, problem))
	wrong := kubeletstate.CPUFile
	if strings.Contains(problem, kubeletstate.MemoryFile) || strings.Contains(problem, ": memory: ") {
		wrong = kubeletstate.MemoryFile
	}
	if err := os.Remove(filepath.Join(o.cluster.nodeDir(node).Root(), wrong)); err != nil {
		o.book.violate("node "+node+": "+err.Error(), node)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.tally.torn++
	o.returned[node] = time.Now()
	for uid, h := range o.holdings {
		if h.node == node {
			delete(o.holdings, uid)
		}
	}
	delete(o.pinned, node)
}

// againstMachine returns the findings of `berth check` about the checkpoints on this machine, or
// "".
func (o *observer) againstMachine(spec *hollow.Spec) string {
	dir := o.cluster.nodeDir(spec.Name)
	return berthCheck(nil, dir.Root(), "--node="+spec.Machine, "--kubelet-config="+dir.KubeletConfig())
}

// look reads a node's checkpoints, checks each and records the holders of resources.
func (o *observer) look(spec *hollow.Spec) (raw kubeletstate.Raw, ok bool) {
	raw, err := kubeletstate.ReadRaw(os.DirFS(o.cluster.nodeDir(spec.Name).Root()))
	var state kubeletstate.State
	if err == nil {
		state, err = raw.Parse()
	}
	if err == nil {
		err = state.Check()
	}
	var snap placement.Snapshot
	if err == nil {
		snap, err = state.Snapshot()
	}
	if err != nil {
		o.book.violate("node "+spec.Name+": "+err.Error(), spec.Name)
		return raw, false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.saw(spec.Name, snap.Pods, time.Now())
	return raw, true
}

// saw records the contents of a node's checkpoints.
func (o *observer) saw(node string, pods []placement.PodAllocation, now time.Time) {
	var pinned []string
	for i := range pods {
		o.remember(node, &pods[i], now)
		if hasCPUs(&pods[i]) {
			pinned = append(pinned, pods[i].UID)
		}
	}
	for _, uid := range o.pinned[node] {
		if !slices.Contains(pinned, uid) {
			o.holdings[uid].left = now
		}
	}
	o.pinned[node] = pinned
}

func hasCPUs(p *placement.PodAllocation) bool {
	return slices.ContainsFunc(p.Containers, func(c placement.ContainerAllocation) bool { return !c.CPUs.IsEmpty() })
}

// forgotten reports whether the kubelet has released the pod's CPUs and was killed after that. It
// released them because the pod had ended, or because it refused the pod at its start. If a kubelet
// dies before it has written a pod's status, it admits the pod again after its restart
// (docs/scope.md).
func (o *observer) forgotten(h *holding) bool {
	died, _ := o.book.lastKill("node-" + h.node)
	return !h.left.IsZero() && died.After(h.left)
}

// remember adds the pod's resources to the recorded ones, which grow during its admission. An
// assignment does not change until the kubelet has forgotten the pod.
func (o *observer) remember(node string, p *placement.PodAllocation, now time.Time) {
	h := o.holdings[p.UID]
	if h != nil && hasCPUs(p) && o.forgotten(h) {
		o.tally.readmitted++
		o.returned[node] = now
		o.book.note(fmt.Sprintf("node %s admitted pod %s again, whose CPUs it had let go of before it was killed", node, p.UID))
		h = nil
	}
	if h == nil {
		h = &holding{node: node, first: now, alloc: placement.PodAllocation{UID: p.UID}}
		o.holdings[p.UID] = h
	}
	h.last = now
	if hasCPUs(p) {
		h.left = time.Time{}
	}
	for i := range p.Containers {
		if from, to := h.add(&p.Containers[i]); from != to {
			o.book.violate(fmt.Sprintf("node %s: pod %s, container %s: CPUs went from %s to %s", node, p.UID, p.Containers[i].Name, from.String(), to.String()), node)
		}
	}
}

// add records the resources of a container. If its CPUs have changed, the two returned sets differ.
func (h *holding) add(is *placement.ContainerAllocation) (from, to topology.CPUSet) {
	k := slices.IndexFunc(h.alloc.Containers, func(c placement.ContainerAllocation) bool { return c.Name == is.Name })
	if k < 0 {
		h.alloc.Containers = append(h.alloc.Containers, *is)
		return from, to
	}
	was := &h.alloc.Containers[k]
	if !is.CPUs.IsEmpty() && !was.CPUs.IsEmpty() {
		from, to = was.CPUs, is.CPUs
	}
	if was.CPUs.IsEmpty() {
		was.CPUs = is.CPUs
	}
	if len(is.Memory) > 0 {
		was.Memory = is.Memory
	}
	if len(is.Devices) > 0 {
		was.Devices = is.Devices
	}
	return from, to
}

// Delays before checkpoints are compared with the machine. A kubelet writes one file after the
// other, and a change of CPUs in two steps; a fault may stop it in between. So an error counts only
// if it lasts.
const (
	soundAfter   = 300 * time.Millisecond
	unsoundAfter = 8 * time.Second
)
