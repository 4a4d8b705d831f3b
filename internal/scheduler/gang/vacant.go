package gang

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	volcano "github.com/berth-dev/berth/api/scheduling/volcano/v1beta1"
	"github.com/berth-dev/berth/internal/wire"
)

// Groups of Volcano's Jobs have no pods at first: Volcano's controller makes them when the group
// has left the phase Pending. So the phase is written for groups that are not there yet, as far as
// the rest of this package knows: their Job names this scheduler, and what they name is free.

// vacantEvery is how often groups without pods are looked at: what they name may have become free.
const vacantEvery = 2 * time.Second

// vacantSeen notes, or forgets, the object of a group without pods. The caller holds the lock.
func (gs *Groups) vacantSeen(spec wire.Gang, wrong error) {
	waits := spec.Phase == "" || spec.Phase == string(volcano.PodGroupPending)
	if wrong != nil || spec.Job == "" || !waits || gs.Room == nil {
		delete(gs.vacant, spec.Key)
		return
	}
	gs.vacant[spec.Key] = spec
	gs.lookAtVacantIn(statusPause)
}

// lookAtVacantIn arranges a look at groups without pods then. The caller holds the lock.
func (gs *Groups) lookAtVacantIn(pause time.Duration) {
	if gs.lookingAtVacant || len(gs.vacant) == 0 || !gs.Lead.Leads() {
		return
	}
	gs.lookingAtVacant = true
	gs.callAt(gs.Clock.Now().Add(pause), gs.lookAtVacant)
}

// lookAtVacant lets the groups in that fit, one after the other by name.
func (gs *Groups) lookAtVacant() {
	gs.mu.Lock()
	waiting := maps.Clone(gs.vacant)
	gs.mu.Unlock()
	for _, key := range slices.SortedFunc(maps.Keys(waiting), compareKeys) {
		gs.letIn(waiting[key])
	}
	gs.mu.Lock()
	defer gs.mu.Unlock()
	gs.lookingAtVacant = false
	gs.lookAtVacantIn(vacantEvery)
}

func compareKeys(a, b wire.GangKey) int {
	return cmp.Compare(a.String(), b.String())
}

// letIn writes the phase of one group without pods.
func (gs *Groups) letIn(spec wire.Gang) {
	if !gs.Room(spec.Resources) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	closed, err := gs.writeVacant(ctx, &spec)
	if err != nil && !isGone(err) {
		gs.Logger.Info("Group without pods cannot be admitted, will try again", "gang", spec.Key, "err", err)
		return
	}
	if closed {
		return // it may be opened
	}
	gs.mu.Lock()
	defer gs.mu.Unlock()
	if gs.vacant[spec.Key].Version == spec.Version {
		delete(gs.vacant, spec.Key)
	}
}

// writeVacant lets a group in whose Job is this scheduler's. Where its queue is closed it says so
// instead: Volcano's scheduler leaves such Jobs out (pkg/scheduler/actions/allocate).
func (gs *Groups) writeVacant(ctx context.Context, spec *wire.Gang) (closed bool, err error) {
	name, err := gs.Objects.SchedulerOf(ctx, spec.Key.Namespace, spec.Job)
	if err != nil || !gs.Ours(name) {
		return false, err
	}
	state, err := gs.Objects.QueueState(ctx, spec.Queue)
	if err != nil {
		return false, err
	}
	now := standing{phase: volcano.PodGroupInqueue}
	if closed = state == queueClosed || state == queueClosing; closed {
		now = standing{phase: volcano.PodGroupPending, lacking: fmt.Sprintf("queue %q is %s: open it, or name another", spec.Queue, state)}
	}
	_, err = gs.Objects.Write(ctx, spec.Key, now)
	return closed, err
}

// The states in which a queue of Volcano's takes no Job.
const (
	queueClosed  = "Closed"
	queueClosing = "Closing"
)

// QueueState implements Objects.
func (o *APIObjects) QueueState(ctx context.Context, queue string) (string, error) {
	if queue == "" {
		return "", nil
	}
	c, err := o.client(wire.GangOfVolcano)
	if err != nil {
		return "", err
	}
	data, err := c.Get().Resource("queues").Name(queue).DoRaw(ctx)
	if apierrors.IsNotFound(err) {
		return "", nil // of the queue, or of the kind: Berth has none of its own
	}
	if err != nil {
		return "", err
	}
	var read struct {
		Status struct {
			State string `json:"state"`
		} `json:"status"`
	}
	err = json.Unmarshal(data, &read)
	return read.Status.State, err
}

// Room says whether that much is free in all on the nodes that pods may go to.
type Room func(asked corev1.ResourceList) bool

// SchedulerOf implements Objects.
func (o *APIObjects) SchedulerOf(ctx context.Context, namespace, job string) (string, error) {
	c, err := o.client(wire.GangOfVolcano)
	if err != nil {
		return "", err
	}
	data, err := c.Get().AbsPath("/apis", wire.JobVersion.Group, wire.JobVersion.Version, "namespaces", namespace, "jobs", job).DoRaw(ctx)
	if err != nil {
		return "", err
	}
	var read struct {
		Spec struct {
			SchedulerName string `json:"schedulerName"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(data, &read); err != nil {
		return "", err
	}
	return cmp.Or(read.Spec.SchedulerName, "volcano"), nil
}
