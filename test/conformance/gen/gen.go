package gen

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/internal/cases"
)

// Case returns the case of a seed: the same seed, the same case.
func Case(seed uint64) *cases.Case {
	d := newDice(seed)
	c := &cases.Case{ID: fmt.Sprintf("gen-%d", seed)}
	c.Machine = d.machine()
	c.Config = d.config(&c.Machine)
	c.Devices = d.pools(&c.Machine)
	h := &history{podMaker: newPodMaker(d, c)}
	for range d.between(3, pick(d, 6, 12, 16, 24)) {
		c.Events = append(c.Events, h.event())
	}
	return c
}

// history is what happened to the node so far, as far as the outside knows: which pods were offered and not removed.
type history struct {
	*podMaker
	pods []*corev1.Pod
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
	case kind == 3 && len(h.pools) > 0:
		i := h.IntN(len(h.pools))
		return cases.Event{Type: cases.Devices, Pool: h.update(&h.pools[i], h.machine)}
	case kind == 4:
		return cases.Event{Type: cases.Restart}
	}
	return h.admit()
}

func (h *history) admit() cases.Event {
	pod := h.pod(fmt.Sprintf("p%d", h.made))
	h.made++
	h.pods = append(h.pods, pod)
	return cases.Event{Type: cases.Admit, Pod: pod}
}

// start starts all containers of a pod, or as many as a pod that is still initialising has got to.
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
	h.pods = append(h.pods[:i], h.pods[i+1:]...)
	return cases.Event{Type: cases.Remove, UID: uid}
}
