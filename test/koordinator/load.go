package koordinator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	koordinator "github.com/berth-dev/berth/api/scheduling/koordinator/v1alpha1"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/test/obeying"
	"github.com/berth-dev/berth/test/podgroup"
	"github.com/berth-dev/berth/topology"
)

// Trial is the kind of trial.
func Trial() obeying.Kind {
	return obeying.Kind{Name: "koordinator", Nodes: nodes(), Obey: len(machines), Manifests: [][]byte{podgroup.Reservations()}, Stream: 16, New: newLoad}
}

// load is the load of one seed.
type load struct {
	*obeying.Trial
	reserved topology.CPUSet
	holds    *reservations
	// strange are pods with resources that a Reservation holds for other pods. stuck are pods
	// without a node at the end.
	strange, stuck map[string]bool
}

func newLoad(t *obeying.Trial) (obeying.Load, error) {
	holds := newReservations(t.Objects)
	t.Noticed = func(pod *corev1.Pod) {
		if pod.Spec.NodeName != "" && wire.ReadAllocated(pod) != "" {
			holds.reused[string(pod.UID)] = true
		}
	}
	return &load{t, topology.NewCPUSet(0), holds, map[string]bool{}, map[string]bool{}}, nil
}

// result is the last line.
type result struct {
	Seed    uint64 `json:"seed"`
	Pods    int    `json:"pods"`
	Running int    `json:"running"`
	// HeldTwice counts CPUs that two pods have exclusively.
	HeldTwice int `json:"heldTwice"`
	// OutsideItsNUMA counts containers that do not run as decided.
	OutsideItsNUMA int `json:"outsideItsNUMA"`
	// Unconfined counts shared containers on exclusive CPUs of another container.
	Unconfined int `json:"unconfined"`
	// Refused counts pods that a kubelet refused.
	Refused int `json:"refused"`
	// Reservations counts the created Reservations, Reused the pods that got the room of a
	// Reservation.
	Reservations int `json:"reservations"`
	Reused       int `json:"reused"`
	// Strangers counts pods with CPUs that a Reservation holds for others.
	Strangers int `json:"strangers"`
	// Leftover counts what remains after the deletion of all pods and Reservations, and nodes that
	// then have no room for a pod that needs the whole node.
	Leftover int `json:"leftover"`
}

func (d *load) Result(seed uint64) (line any, wrong string) {
	r := result{Seed: seed, Pods: d.Made, Running: len(d.Ran), Refused: len(d.Refused),
		HeldTwice: len(d.Faults.HeldTwice), OutsideItsNUMA: len(d.Faults.Outside), Unconfined: len(d.Faults.Unconfined),
		Reservations: d.holds.made, Reused: len(d.holds.reused), Strangers: len(d.strange), Leftover: len(d.stuck) + d.Leftover()}
	if r.HeldTwice+r.OutsideItsNUMA+r.Unconfined+r.Refused+r.Strangers+r.Leftover > 0 {
		wrong = fmt.Sprintf("held twice %v\noutside %v\nunconfined %v\nrefused %v\nstrangers %v\nwithout room %v",
			d.Faults.HeldTwice, d.Faults.Outside, d.Faults.Unconfined, d.Refused, d.strange, d.stuck)
	}
	return r, wrong
}

func (d *load) Make(ctx context.Context, i int) ([]*corev1.Pod, error) {
	pod := newPod(d.Rand, i)
	return []*corev1.Pod{pod}, d.hold(ctx, pod)
}

// hold sometimes creates a Reservation for a pod like this one, deletes one, or makes the pod an
// owner of one.
func (d *load) hold(ctx context.Context, pod *corev1.Pod) error {
	if d.Rand.IntN(6) == 0 {
		policies := []koordinator.ReservationAllocatePolicy{"", koordinator.AllocateAligned, koordinator.AllocateRestricted}
		return d.holds.make(ctx, pod.DeepCopy(), d.Rand.IntN(2) == 0, policies[d.Rand.IntN(len(policies))])
	}
	if n := len(d.holds.live); n > 0 {
		at := d.Rand.IntN(n)
		if n > 4 && d.Rand.IntN(3) == 0 {
			return d.holds.drop(ctx, at)
		}
		if d.Rand.IntN(2) == 0 { // half of the owners ask for exactly the held room
			if like := d.holds.places[d.holds.live[at]]; d.Rand.IntN(2) == 0 {
				pod.Labels, pod.Annotations = maps.Clone(like.Labels), maps.Clone(like.Annotations)
				pod.Spec.Containers, pod.Spec.InitContainers = like.DeepCopy().Spec.Containers, nil
			}
			pod.Labels[ownerLabel] = d.holds.live[at]
			if d.Rand.IntN(3) == 0 { // the pod may use only this Reservation
				pod.Annotations[wire.ReservationAffinityAnnotation] = fmt.Sprintf(`{"name":%q}`, d.holds.live[at])
			}
		}
	}
	return nil
}

// Awaits returns the pod or Reservation for which the trial still waits; "" for none.
func (d *load) Awaits(ctx context.Context) (string, error) {
	all, err := d.holds.read(ctx)
	if err != nil {
		return "", err
	}
	d.Lock()
	defer d.Unlock()
	held := d.heldNow(all)
	for _, r := range all {
		if r.Phase == "" || r.Phase == koordinator.ReservationPending {
			if node := d.roomFor(r.Pod, held); node != "" {
				return "Reservation " + r.Name + " has no place, and there is room on " + node, nil
			}
		}
	}
	if why := d.Waiting(func(pod *corev1.Pod) string { return d.roomFor(pod, held) }); why != "" {
		return why, nil
	}
	if why := d.strangers(held); why != "" {
		d.strange[why] = true
	}
	return "", nil
}

// roomFor returns a node on which the twin finds room for the pod: in a Reservation that the pod
// owns, or in addition to all bound pods and Reservations. It returns "" if there is no such node.
func (d *load) roomFor(pod *corev1.Pod, all []held) string {
	for _, h := range all {
		if pod.Labels[ownerLabel] != h.Name {
			continue
		}
		t := twin{d.Machines[h.Node], d.reserved}
		if t.fitsWithin(h.Decision, h.rest, h.Pod, pod) || h.More && t.fitsBeyond(h.Decision, h.rest, d.freeOn(t, h.Node, all), pod) {
			return h.Node + ", of what Reservation " + h.Name + " holds"
		}
	}
	if _, picky := pod.Annotations[wire.ReservationAffinityAnnotation]; picky {
		return ""
	}
	for _, s := range nodes() {
		there := d.On(s.Name)
		beside := maps.Clone(d.Decisions)
		for _, h := range all {
			if h.Node == s.Name {
				there, beside[string(h.UID)] = append(there, h.Pod), asDecision(h.rest)
			}
		}
		if (twin{d.Machines[s.Name], d.reserved}).fits(there, beside, pod) {
			return s.Name
		}
	}
	return ""
}

// freeOn returns the resources of a node's NUMA nodes that no bound pod or Reservation has.
func (d *load) freeOn(t twin, node string, all []held) []room {
	empty, now := t.rooms(nil), t.rooms(nil)
	for _, pod := range d.On(node) {
		if got := d.Decisions[string(pod.UID)]; got != nil && !wire.Ended(pod) {
			now = minus(now, t.rooms(got), empty)
		}
	}
	for _, h := range all {
		if h.Node == node {
			now = minus(now, t.rooms(asDecision(h.rest)), empty)
		}
	}
	return now
}

// Clean deletes all pods and Reservations and waits until they have gone, from the API and from the
// nodes. Then each node must admit a pod that needs the whole node.
func (d *load) Clean(ctx context.Context) error {
	for len(d.holds.live) > 0 {
		if err := d.holds.drop(ctx, 0); err != nil {
			return err
		}
	}
	if err := d.Empty(ctx); err != nil {
		return err
	}
	return errors.Join(d.fill(ctx), d.Empty(ctx))
}

// fill makes each node admit a pod that needs every CPU, and records nodes that do not.
func (d *load) fill(ctx context.Context) error {
	for _, s := range nodes() {
		cpus := 0
		for i := range d.Machines[s.Name].NUMANodes {
			cpus += d.Machines[s.Name].NUMANodes[i].CPUs.Len()
		}
		if _, err := d.Client.CoreV1().Pods(obeying.Namespace).Create(ctx, wholePod(s.Name, cpus-1), metav1.CreateOptions{}); err != nil {
			return err
		}
		d.stuck["whole-"+s.Name] = true
	}
	ctx, cancel := context.WithTimeout(ctx, obeying.CalmLimit)
	defer cancel()
	for left := len(machines); left > 0 && ctx.Err() == nil; obeying.Pause(ctx, 100*time.Millisecond) {
		d.Lock()
		for name := range d.stuck {
			if d.Ran[name] {
				delete(d.stuck, name)
				delete(d.Ran, name) // the pod is not part of the load
			}
		}
		left = len(d.stuck)
		d.Unlock()
	}
	return nil
}
