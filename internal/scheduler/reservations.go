package scheduler

import (
	"cmp"
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/scheduler/nodes"
	"github.com/berth-dev/berth/internal/scheduler/reservation"
	"github.com/berth-dev/berth/internal/wire"
)

func newReservations(args *Args, c *core, logger klog.Logger) *reservation.Reservations {
	return reservation.New(reservation.Options{
		Clock: c.clock, Logger: logger, Lead: c.lead, OwnersNeedNamespace: args.ReservationOwnersNeedNamespace, Events: c.events, Account: func(node string) *ledger.Node { return c.table.Named(node).Account() },
		HasNode: c.onNodes.exists, Done: c.waiters.Done,
		Ours: c.profiles.ours,
	})
}

// stir tells gangs, Reservations and the Refitter that a pod has left a node, or that a report has
// arrived.
func (c *core) stir() {
	c.gangs.Stir()
	c.reservations.Stir()
	c.refits.Stir()
}

// Freed is called when resources that a Reservation held, or that were kept for a nominated pod,
// become free on the node. The parameter held is a pod with these resources.
type Freed func(node string, held *corev1.Pod)

// CycleBegins must be called before each cycle of the scheduler.
func (p Parts) CycleBegins() { p.core.trial = nil }

// ReadGroups sets the function that returns a Kubernetes PodGroup.
func (p Parts) ReadGroups(group func(namespace, name string) (OwnGroup, error)) {
	p.core.group = group
}

// HoldReservations makes a scheduler hold places for the owners of Reservations. The scheduler must
// call three methods of the result: Between (before it takes a pod from the queue), Begins (at the
// start of each cycle) and Failed (after a failed attempt).
func (p Parts) HoldReservations(in reservation.Cache, queue reservation.Queue, freed Freed) *reservation.Reservations {
	c := p.core
	c.freed = freed
	c.reservations.Changed = func(node string, held *corev1.Pod) {
		c.waiters.NodeChanged(c.table.Named(node).Account())
		c.gangs.Stir()
		if held != nil {
			freed(node, held)
		}
	}
	c.reservations.Attach(in, queue)
	return c.reservations
}

const (
	elsewhere  = "the pod's Reservation is on another node"
	noPlace    = "Berth: no Reservation that the pod owns, and that its " + wire.ReservationAffinityAnnotation + " allows, has a place for it now"
	notInPlace = "Berth: the pod does not fit into the place of its Reservation; it is tried again without that place"
)

// onlyHeld ends the attempt of a pod that must use a Reservation if no Reservation has a place for
// it.
func (c *core) onlyHeld(ctx context.Context, pod *corev1.Pod, from string) *fwk.Status {
	affinity, err := wire.ReadReservationAffinity(pod)
	switch {
	case err != nil:
		podsRefused.WithLabelValues("policy").Inc()
		return unreadable(err)
	case affinity == nil || from != "":
		return nil
	}
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, cmp.Or(c.notYet(ctx), c.noPlaceHeld(pod)))
}

// noPlaceHeld explains that no Reservation has a place for the pod. If a place was tried, it adds
// why the pod did not fit into it.
func (c *core) noPlaceHeld(pod *corev1.Pod) string {
	if why := c.reservations.WhyInVain(pod); why != "" {
		return noPlace + "; " + why
	}
	return noPlace
}

// owner implements the extension points for a pod that uses the place of a Reservation. If the pod
// does not fit into the place, its next attempt does not use that Reservation.
type owner struct {
	alone
	// from is the UID of the Reservation, and heldOn its node.
	from, heldOn string
	// passed means that Berth decides nothing for the pod on the node heldOn.
	passed bool
}

var _ way = (*owner)(nil)

func (o *owner) filter(_ context.Context, c *cycle, info fwk.NodeInfo) *fwk.Status {
	n := c.plugin.core.table.Of(info.Node())
	switch {
	case n.Name() != o.heldOn: // the pod may be nominated to another node
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, elsewhere)
	case c.unpinned && c.passes(n):
		return nil
	}
	if status := c.unasked(n); status != nil {
		return status
	}
	a := n.Account().View().DecideOwner(&c.query.Candidate, o.from, nil)
	return c.status(nodes.Pack(0, &a), false)
}

// postFilter ends the attempt without evictions, and makes the scheduler try the pod again at once,
// without the place.
func (o *owner) postFilter(_ context.Context, c *cycle, pod *corev1.Pod, statuses fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	core := c.plugin.core
	core.reservations.InVain(pod, o.from, statuses.Get(o.heldOn).Message())
	core.waiters.Tried(uidOf(pod))
	core.waiters.WakeOne(uidOf(pod))
	return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, notInPlace)
}

func (o *owner) reserve(_ fwk.CycleState, c *cycle, pod *corev1.Pod, n *nodes.Node) *fwk.Status {
	core := c.plugin.core
	if o.passed = c.unpinned && c.passes(n); !o.passed {
		if why := core.table.Unusable(n); why != nil {
			return c.refuse(fwk.NewStatus(fwk.Unschedulable, why.Text))
		}
		if status := c.decide(pod, n, o.from); status != nil {
			if o.again = c.refused; o.again {
				core.reservations.InVain(pod, o.from, status.Message())
			}
			return status
		}
	}
	core.reservations.Took(pod)
	core.waiters.Done(uidOf(pod))
	return nil
}

func (o *owner) unreserve(state fwk.CycleState, c *cycle, pod *corev1.Pod, n *nodes.Node) {
	if !o.passed {
		o.alone.unreserve(state, c, pod, n)
	}
	c.plugin.core.reservations.GaveBack(pod, o.from)
}
