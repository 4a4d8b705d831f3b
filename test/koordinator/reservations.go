package koordinator

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"

	koordinator "github.com/berth-dev/berth/api/scheduling/koordinator/v1alpha1"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/test/obeyed"
)

// ownerLabel is the label of pods that own the Reservation with that value.
const ownerLabel = "owns"

// reservations creates, deletes and reads Reservations.
type reservations struct {
	client dynamic.ResourceInterface
	live   []string
	// places are the pods for whose requests resources are held, by the Reservation's name.
	places map[string]*corev1.Pod
	// made counts the created Reservations. reused are the pods that got resources of a
	// Reservation, by UID.
	made   int
	reused map[string]bool
}

func newReservations(objects dynamic.Interface) *reservations {
	return &reservations{client: objects.Resource(koordinator.Reservations), reused: map[string]bool{}, places: map[string]*corev1.Pod{}}
}

// make creates a Reservation for the request of a pod. If once is false, the Reservation may have
// several owners.
func (r *reservations) make(ctx context.Context, pod *corev1.Pod, once bool, policy koordinator.ReservationAllocatePolicy) error {
	name := "r" + pod.Name
	o := &koordinator.Reservation{
		TypeMeta: metav1.TypeMeta{APIVersion: koordinator.GroupVersion.String(), Kind: "Reservation"}, ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: koordinator.ReservationSpec{
			Template:     &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels, Annotations: pod.Annotations}, Spec: pod.Spec},
			Owners:       []koordinator.ReservationOwner{{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{ownerLabel: name}}}},
			AllocateOnce: &once, AllocatePolicy: policy,
		},
	}
	o.Spec.Template.Spec.InitContainers = nil
	o.Spec.Template.Spec.PriorityClassName = "" // no admission plugin resolves it in a template
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return err
	}
	_, err = r.client.Create(ctx, &unstructured.Unstructured{Object: object}, metav1.CreateOptions{})
	r.live, r.made, r.places[name] = append(r.live, name), r.made+1, pod
	return err
}

// drop deletes an existing Reservation.
func (r *reservations) drop(ctx context.Context, at int) error {
	err := r.client.Delete(ctx, r.live[at], metav1.DeleteOptions{})
	r.live = append(r.live[:at], r.live[at+1:]...)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// read returns all Reservations, as the scheduler reads them.
func (r *reservations) read(ctx context.Context) (out []*wire.Reservation, err error) {
	list, err := r.client.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		text, err := json.Marshal(list.Items[i].Object)
		if err != nil {
			return nil, err
		}
		o := new(koordinator.Reservation)
		if err := json.Unmarshal(text, o); err != nil {
			return nil, err
		}
		read, err := wire.ReadReservation(o)
		if err != nil {
			return nil, fmt.Errorf("the scheduler would not understand it: %w", err)
		}
		out = append(out, read)
	}
	return out, nil
}

// held is a Reservation with the resources that are left for further owners.
type held struct {
	*wire.Reservation
	rest *placement.PodAllocation
}

// heldNow returns the rests of all available Reservations.
func (d *load) heldNow(all []*wire.Reservation) (out []held) {
	for _, r := range all {
		if r.Phase != koordinator.ReservationAvailable || r.Decision == nil {
			continue
		}
		var taken []*placement.PodAllocation
		used := false
		for _, pod := range d.Pods {
			if pod.Spec.NodeName != r.Node || wire.ReadAllocated(pod) != r.UID {
				continue
			}
			if got := d.Decisions[string(pod.UID)]; got != nil {
				taken, used = append(taken, obeyed.AllocationOf(got)), true
			}
		}
		if r.Once && used {
			continue // its status is not yet written
		}
		out = append(out, held{r, placement.Rest(obeyed.AllocationOf(r.Decision), taken)})
	}
	return out
}

// asDecision returns held resources in the form of a pod's decision.
func asDecision(p *placement.PodAllocation) *placement.Decision {
	d := &placement.Decision{UID: p.UID}
	for i := range p.Containers {
		c := &p.Containers[i]
		d.Containers = append(d.Containers, placement.ContainerDecision{Name: c.Name, Kind: c.Kind, CPUs: c.CPUs, Exclusive: c.Exclusive, Memory: c.Memory, Shares: c.Shares})
	}
	return d
}

// strangers returns a pod with CPUs that a Reservation holds for others; "" for none.
func (d *load) strangers(all []held) string {
	for _, h := range all {
		for _, pod := range d.Pods {
			got := d.Decisions[string(pod.UID)]
			if pod.Spec.NodeName != h.Node || got == nil || wire.Ended(pod) {
				continue
			}
			for i := range got.Containers {
				for k := range h.rest.Containers {
					if both := got.Containers[i].CPUs.And(&h.rest.Containers[k].CPUs); !both.IsEmpty() {
						return fmt.Sprintf("%s has CPUs %s of %s, which Reservation %s holds", pod.Name, both, h.Node, h.Name)
					}
				}
			}
		}
	}
	return ""
}
