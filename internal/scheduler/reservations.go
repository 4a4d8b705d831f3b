package scheduler

import (
	"cmp"
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/scheduler/nodes"
	"github.com/berth-dev/berth/internal/scheduler/reservation"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

// newReservations makes the Reservations of a scheduler.
func newReservations(args *Args, handle fwk.Handle, c *core, logger klog.Logger) *reservation.Reservations {
	return reservation.New(reservation.Options{
		Clock: c.clock, Logger: logger, Lead: c.lead, OwnersNeedNamespace: args.ReservationOwnersNeedNamespace, Events: handle.EventRecorder(), Account: func(node string) *ledger.Node { return c.table.Named(node).Account() },
		HasNode: existsOf(handle), Done: c.waiters.Done,
		Ours: func(name string) bool {
			_, ours := c.profiles.Load(name)
			return ours
		},
	})
}

// watchForReservations tells the Reservations of their objects, and of nodes that come and go. The
// feed is told about the ones that go, too.
func (c *core) watchForReservations(ctx context.Context, handle fwk.Handle) error {
	_, err := handle.SharedInformerFactory().Core().V1().Nodes().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { c.reservations.NodeBack(obj.(*corev1.Node).Name) },
		DeleteFunc: func(obj any) {
			if last, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = last.Obj
			}
			if node, ok := obj.(*corev1.Node); ok {
				c.reservations.NodeGone(node.Name)
				c.feed.NodeGone(node.Name)
			}
		},
	})
	if err != nil {
		return err
	}
	return c.reservations.Watch(ctx, handle.KubeConfig())
}

// stir is told that something has left a node, or that a report has come.
func (c *core) stir() {
	c.gangs.Stir()
	c.reservations.Stir()
}

// Freed is called when a node may take pods that it has refused for what was held there, or kept
// for a pod.
type Freed func(node string, held *corev1.Pod)

// HoldReservations has a scheduler hold places for the owners of Reservations: it is to call what
// is returned between its cycles, at the begin of each, and when one fails. The informers are those
// of the scheduler. nil: no profile has the plugin.
func HoldReservations(shared informers.SharedInformerFactory, in reservation.Cache, queue reservation.Queue, freed Freed) *reservation.Reservations {
	cores.Lock()
	defer cores.Unlock()
	c := cores.byInformers[shared]
	if c == nil {
		return nil
	}
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
	elsewhere    = "another node holds a Reservation for the pod"
	noPlace      = "Berth: no Reservation that the pod owns, and that its " + wire.ReservationAffinityAnnotation + " allows, has a place for it now"
	notInPlace   = "Berth: what its Reservation holds does not take the pod; it is tried as any other"
	evictsNobody = "Berth: a Reservation evicts nobody"
)

// onlyHeld ends the attempt of a pod that wants what a Reservation holds, or nothing, and is not
// sent to one.
func (p *Plugin) onlyHeld(ctx context.Context, pod *corev1.Pod, from string) *fwk.Status {
	affinity, err := wire.ReadReservationAffinity(pod)
	switch {
	case err != nil:
		podsRefused.WithLabelValues("policy").Inc()
		return unreadable(err)
	case affinity == nil || from != "":
		return nil
	}
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, cmp.Or(p.core.notYet(ctx), noPlace))
}

// filterOwner is Filter for a pod that is sent to what a Reservation holds.
func (p *Plugin) filterOwner(c *cycle, n *nodes.Node) *fwk.Status {
	switch {
	case n.Name() != c.heldOn: // it may be nominated to another one
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, elsewhere)
	case c.unpinned && p.passes(c, n):
		return nil
	}
	if why := p.core.table.Unusable(n); why != nil {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, why.Text)
	}
	if why := n.Unmet(c.query.Candidate.Request); why != "" {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, c.said.In(wire.OfNodes(why)))
	}
	a := n.Account().View().AskOwner(&c.query.Candidate, c.from)
	return c.status(nodes.Pack(0, &a), false)
}

// reserveOwner takes an owner in, in place.
func (p *Plugin) reserveOwner(c *cycle, pod *corev1.Pod, n *nodes.Node) *fwk.Status {
	var d placement.Decision
	a := n.Account().ReserveOwner(&c.query.Candidate, c.from, &d)
	verdicts.WithLabelValues("Reserve", a.Outcome.String(), reasonOf(&a)).Inc()
	if status := c.status(nodes.Pack(0, &a), false); status != nil {
		c.again = true
		p.core.reservations.InVain(pod, c.from)
		return c.refuse(status)
	}
	if status := p.writable(pod, n, &d); status != nil {
		return status
	}
	c.number = p.core.reserved.Add(1)
	p.core.reservations.Took(pod)
	p.core.waiters.Done(uidOf(pod))
	return nil
}

// postFilterOwner ends the attempt of an owner that cannot have its place: it is tried at once
// without. Nobody is evicted before.
func (p *Plugin) postFilterOwner(c *cycle, pod *corev1.Pod) *fwk.Status {
	p.core.reservations.InVain(pod, c.from)
	p.core.waiters.Tried(uidOf(pod))
	p.core.waiters.WakeOne(uidOf(pod))
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, notInPlace)
}

// bindReservation writes the place of the Reservation that the pod stands for.
func (p *Plugin) bindReservation(ctx context.Context, c *cycle, pod *corev1.Pod, nodeName string) *fwk.Status {
	if err := p.core.handover.Enter(ctx); err != nil {
		return fwk.AsStatus(err)
	}
	err := p.placeReservation(ctx, c, pod, nodeName)
	p.core.handover.Leave(nil) // no pod is bound by it
	return fwk.AsStatus(err)
}

func (p *Plugin) placeReservation(ctx context.Context, c *cycle, pod *corev1.Pod, nodeName string) error {
	n := p.core.table.Named(nodeName)
	if c == nil || c.untouched || !n.Obeys() {
		return p.core.reservations.Place(ctx, pod.UID, nodeName, nil, nil)
	}
	d, ok := n.Account().Promised(uidOf(pod))
	if !ok {
		return errChanged
	}
	text, err := wire.WritePlacement(&wire.Placement{
		Sequence: 1, Certainty: wire.Exact, Guarantee: wire.GuaranteeFull, Decision: d,
	})
	if err != nil {
		return err
	}
	words, err := wire.WriteKoordinatorWords(&d, n.Machine())
	if err != nil {
		return err
	}
	annotations := map[string]any{wire.PlacementAnnotation: text}
	for key, said := range words {
		annotations[key] = said
	}
	return p.core.reservations.Place(ctx, pod.UID, nodeName, &d, annotations)
}
