package gen

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/test/replay/cases"
)

// Case returns the case of a seed. It depends only on the seed.
func Case(seed uint64) *cases.Case {
	d := newDice(seed)
	c := &cases.Case{ID: fmt.Sprintf("gen-%d", seed)}
	if seed&Wide == 0 {
		c.Machine = d.machine()
		c.Config = d.config(&c.Machine)
	} else {
		c.Machine = d.wideMachine()
		c.Config = d.config(&c.Machine)
		d.wideConfig(&c.Config)
	}
	if seed&Level != 0 {
		c.Config.FeatureGates = map[string]bool{ManagersGate: true}
	}
	c.Devices = d.pools(&c.Machine)
	h := &history{podMaker: newPodMaker(d, c)}
	for range d.between(3, pick(d, 6, 12, 16, 24)) {
		c.Events = append(c.Events, h.event())
	}
	return c
}

// history is the external view of the node's past: the pods that were offered and not removed.
type history struct {
	*podMaker
	pods []*corev1.Pod
	gone []*corev1.Pod
	made int
}

func (h *history) event() cases.Event {
	kind := h.weighted(62, 15, 17, 3, 3)
	switch {
	case len(h.pods) == 0 || kind == 0:
		return h.admit()
	case kind == 1:
		return h.start()
	case kind == 2:
		return h.remove()
	case kind == 3:
		return h.devices()
	case kind == 4:
		h.gone = nil // device checkpoints still contain removed pods, which would not be new pods for the kubelet
		return cases.Event{Type: cases.Restart}
	}
	return h.admit()
}

// devices returns an update of a pool, rarely of a new pool.
func (h *history) devices() cases.Event {
	pool := cases.Pool{Resource: "vendor.example/late", Preferred: cases.PreferSorted}
	if len(h.pools) > 0 && !h.chance(5) {
		pool = pick(h.dice, h.pools...)
	}
	return cases.Event{Type: cases.Devices, Pool: h.update(&pool, h.machine)}
}

// admit offers a new pod, rarely a pod that was removed, was refused or still exists.
func (h *history) admit() cases.Event {
	if old := h.again(); old != nil {
		return cases.Event{Type: cases.Admit, Pod: old}
	}
	pod := h.pod(fmt.Sprintf("p%d", h.made))
	h.made++
	endings := h.endings(len(pod.Spec.InitContainers) + len(pod.Spec.Containers))
	h.pods = append(h.pods, pod)
	return cases.Event{Type: cases.Admit, Pod: pod, Meanwhile: endings}
}

// endings lets up to two pods end while another pod with that many containers is admitted.
func (h *history) endings(containers int) (out []cases.Ending) {
	for len(h.pods) > 0 && len(out) < 2 && h.chance(15) {
		out = append(out, cases.Ending{UID: h.remove().UID, Step: h.IntN(6*containers + 1)})
	}
	return out
}

// again returns a pod that was offered before, without init containers. The kubelet keeps the
// reusable resources of init containers by UID until another pod comes. A pod that came twice in a
// row would reuse its own resources, which does not happen in a cluster.
func (h *history) again() *corev1.Pod {
	from := h.gone
	if h.chance(25) {
		from = h.pods
	}
	if len(from) == 0 || !h.chance(5) {
		return nil
	}
	if pod := pick(h.dice, from...); len(pod.Spec.InitContainers) == 0 {
		return pod
	}
	return nil
}

// start starts all containers of a pod, or the first ones of a pod that is still initialising.
func (h *history) start() cases.Event {
	pod := pick(h.dice, h.pods...)
	e := cases.Event{Type: cases.Start, UID: string(pod.UID)}
	if inits := pod.Spec.InitContainers; len(inits) > 0 && h.chance(30) {
		for i := range h.between(1, len(inits)) {
			e.Containers = append(e.Containers, inits[i].Name)
		}
	}
	return e
}

func (h *history) remove() cases.Event {
	i := h.IntN(len(h.pods))
	uid := string(h.pods[i].UID)
	h.gone = append(h.gone, h.pods[i])
	h.pods = append(h.pods[:i], h.pods[i+1:]...)
	return cases.Event{Type: cases.Remove, UID: uid}
}
