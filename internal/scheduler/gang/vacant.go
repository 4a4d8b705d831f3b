package gang

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	volcano "github.com/berth-dev/berth/api/scheduling/volcano/v1beta1"
	"github.com/berth-dev/berth/internal/wire"
)

// Groups of Volcano's Jobs have no pods at first: Volcano's controller makes them when the group
// has left the phase Pending. So the phase is written for groups that are not there yet, as far as
// the rest of this package knows: their Job names this scheduler, and what they name is free.

// vacantEvery is how often groups without pods are looked at: what they name may have become free.
const vacantEvery = 2 * time.Second

// vacantSeen notes, or forgets, the object of a group without pods. The caller holds the lock.
func (t *teller) vacantSeen(spec wire.Gang, wrong error) {
	waits := spec.Phase == "" || spec.Phase == string(volcano.PodGroupPending)
	if wrong != nil || spec.Job == "" || !waits || t.Room == nil {
		delete(t.vacant, spec.Key)
		return
	}
	t.vacant[spec.Key] = vacancy{spec, t.vacant[spec.Key].looked}
	t.lookAtVacantIn(statusPause)
}

// vacancy is a group without pods.
type vacancy struct {
	spec wire.Gang
	// looked is when it was looked at last, counted in looks at all.
	looked int
}

// vacantShare is how many groups of a namespace are looked at beside those of others. Each look
// counts what is free or asks the API server, so that a tenant's thousands would hold up all
// others.
const vacantShare = 64

// lookAtVacantIn arranges a look at groups without pods then. The caller holds the lock.
func (t *teller) lookAtVacantIn(pause time.Duration) {
	if t.lookingAtVacant || len(t.vacant) == 0 || !t.Lead.Leads() {
		return
	}
	t.lookingAtVacant = true
	t.callAt(t.Clock.Now().Add(pause), t.lookAtVacant)
}

// lookAtVacant lets the groups in that fit, one after the other, those first that were looked at
// longest ago, and then by name. While some go in, the ones that were left out soon follow.
func (t *teller) lookAtVacant() {
	t.mu.Lock()
	waiting := maps.Clone(t.vacant)
	t.mu.Unlock()
	now := inShares(waiting)
	for _, key := range now {
		t.letIn(waiting[key].spec)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.vacantLooks++
	pause := vacantEvery
	for _, key := range now {
		if v, still := t.vacant[key]; still {
			t.vacant[key] = vacancy{v.spec, t.vacantLooks}
		} else if len(now) < len(waiting) {
			pause = statusPause
		}
	}
	t.lookingAtVacant = false
	t.lookAtVacantIn(pause)
}

// inShares returns the groups whose turn it is.
func inShares(waiting map[wire.GangKey]vacancy) (now []wire.GangKey) {
	order := slices.SortedFunc(maps.Keys(waiting), func(a, b wire.GangKey) int {
		return cmp.Or(cmp.Compare(waiting[a].looked, waiting[b].looked), compareKeys(a, b))
	})
	count := map[string]int{}
	for _, key := range order {
		if count[key.Namespace]++; count[key.Namespace] <= vacantShare {
			now = append(now, key)
		}
	}
	return now
}

func compareKeys(a, b wire.GangKey) int {
	return cmp.Compare(a.String(), b.String())
}

// letIn writes the phase of one group without pods.
func (t *teller) letIn(spec wire.Gang) {
	if !t.Room(spec.Resources) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	closed, err := t.writeVacant(ctx, &spec)
	if err != nil && !isGone(err) {
		t.Logger.Info("Group without pods cannot be admitted, will try again", "gang", spec.Key, "err", err)
		return
	}
	if closed {
		return // it may be opened
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.vacant[spec.Key].spec.Version == spec.Version {
		delete(t.vacant, spec.Key)
	}
}

// writeVacant lets a group in whose Job is this scheduler's. Where its queue is closed it says so
// instead: Volcano's scheduler leaves such Jobs out (pkg/scheduler/actions/allocate).
func (t *teller) writeVacant(ctx context.Context, spec *wire.Gang) (closed bool, err error) {
	name, err := t.Objects.SchedulerOf(ctx, spec.Key.Namespace, spec.Job)
	if err != nil || !t.Ours(name) {
		return false, err
	}
	state, err := t.Objects.QueueState(ctx, spec.Queue)
	if err != nil {
		return false, err
	}
	now := standing{phase: volcano.PodGroupInqueue}
	if closed = state == queueClosed || state == queueClosing; closed {
		now = standing{phase: volcano.PodGroupPending, lacking: fmt.Sprintf("queue %q is %s: open it, or name another", spec.Queue, state)}
	}
	_, err = t.Objects.Write(ctx, spec.Key, now)
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
	var read struct {
		Status struct {
			State string `json:"state"`
		} `json:"status"`
	}
	err := o.read(ctx, volcano.GroupVersion, "", "queues", queue, &read)
	if apierrors.IsNotFound(err) {
		return "", nil // of the queue, or of the kind: Berth has none of its own
	}
	return read.Status.State, err
}

// read gets what into has of an object of Volcano's. Tenants choose the name: one that would make
// another path is refused.
func (o *APIObjects) read(ctx context.Context, version schema.GroupVersion, namespace, resource, name string, into any) error {
	c, err := o.client(wire.GangOfVolcano)
	if err != nil {
		return err
	}
	get := c.Get().AbsPath("/apis", version.String()).NamespaceIfScoped(namespace, namespace != "").Resource(resource).Name(name)
	data, err := get.DoRaw(ctx)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}

// SchedulerOf implements Objects.
func (o *APIObjects) SchedulerOf(ctx context.Context, namespace, job string) (string, error) {
	var read struct {
		Spec struct {
			SchedulerName string `json:"schedulerName"`
		} `json:"spec"`
	}
	err := o.read(ctx, wire.JobVersion, namespace, "jobs", job, &read)
	if err != nil {
		return "", err
	}
	return cmp.Or(read.Spec.SchedulerName, "volcano"), nil
}
