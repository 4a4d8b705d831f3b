package survey

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	koordinator "github.com/berth-dev/berth/api/scheduling/koordinator/v1alpha1"
	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// StateHeld is of what a Reservation holds, which is no pod.
const StateHeld = "held"

// readReservations reads Koordinator's Reservations. Where they are not served, or may not be read,
// there are none.
func (f *facts) readReservations(ctx context.Context, c *Cluster) error {
	raw, err := pages(func(o metav1.ListOptions) ([]json.RawMessage, string, error) {
		return c.rawPage(ctx, []string{"/apis", koordinator.GroupVersion.String(), koordinator.Reservations.Resource}, o)
	}, metav1.ListOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return f.tolerate("reservations.scheduling.koordinator.sh", "what they hold is not counted", c, err)
	}
	for i := range raw {
		var o koordinator.Reservation
		if err := json.Unmarshal(raw[i], &o); err == nil {
			f.reservations = append(f.reservations, o)
		}
	}
	return nil
}

// hold counts what Reservations hold: for each place what is left of it, as a pod of its node.
func (s *Survey) hold() {
	for i := range s.facts.reservations {
		o := &s.facts.reservations[i]
		if o.Status.Phase != koordinator.ReservationAvailable || o.Status.NodeName == "" {
			continue
		}
		r, err := wire.ReadReservation(o)
		if err != nil {
			s.Notes = append(s.Notes, err.Error())
			continue
		}
		var owners []*corev1.Pod
		var taken []*placement.PodAllocation
		for _, pod := range s.bound[r.Node] {
			if wire.ReadAllocated(pod) != r.UID || wire.Ended(pod) || !r.Owns(pod) {
				continue
			}
			owners = append(owners, pod)
			if p, found, err := wire.ReadPlacement(pod); found && err == nil {
				taken = append(taken, ledger.HeldBy(&p.Decision))
			}
		}
		rest := r.Rest(owners)
		if rest == nil {
			continue
		}
		s.bound[r.Node] = append(s.bound[r.Node], wire.Held(rest, r.Node))
		if r.Decision != nil {
			s.held[string(r.UID)] = placement.Rest(ledger.HeldBy(r.Decision), taken)
		}
	}
}

// seeHeld takes in what a Reservation holds on the node.
func (n *node) seeHeld(pod *corev1.Pod) error {
	ask, err := wire.ReadPod(pod)
	if err == nil {
		n.account.Hold(ledger.Holding{UID: string(pod.UID), Request: &ask.Request, Held: n.held[string(pod.UID)]})
	}
	return err
}

// heldPods are what is left of each Reservation's place, by name.
func (s *Survey) heldPods() (out []Pod) {
	for name, pods := range s.bound {
		for _, pod := range pods {
			if !wire.OfReservation(pod) {
				continue
			}
			row := Pod{Name: "reservation/" + pod.Name, UID: string(pod.UID), Node: name, State: StateHeld}
			if n := s.nodes[name]; n != nil {
				row.CPUs, row.NUMANodes = n.heldBy(string(pod.UID))
			}
			out = append(out, row)
		}
	}
	slices.SortFunc(out, func(a, b Pod) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// heldBy says which CPUs of the node are held, and on which NUMA nodes anything is.
func (n *node) heldBy(uid string) (cpus, numa string) {
	p := n.held[uid]
	if p == nil {
		return "", ""
	}
	var all topology.CPUSet
	var nodes topology.NUMASet
	for i := range p.Containers {
		c := &p.Containers[i]
		all = all.Or(&c.CPUs)
		for _, a := range c.Shares {
			nodes = nodes.With(a.NUMA)
		}
		for k := range c.Memory {
			nodes |= c.Memory[k].NUMA
		}
	}
	machine := n.machine()
	for i := range machine.NUMANodes {
		if m := &machine.NUMANodes[i]; m.CPUs.Intersects(&all) {
			nodes = nodes.With(m.ID)
		}
	}
	return all.String(), nodes.String()
}
