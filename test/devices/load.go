package devices

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/test/obeying"
	"github.com/berth-dev/berth/topology"
)

// Trial returns this kind of trial.
func Trial() obeying.Kind {
	return obeying.Kind{Name: "devices", Nodes: nodes(), Obey: len(machines), Stream: 17, New: newLoad}
}

// load is the load of one seed.
type load struct {
	*obeying.Trial
	reserved topology.CPUSet
	crooked  map[string]string // decisions that differ from the request, by pod
}

func newLoad(t *obeying.Trial) (obeying.Load, error) {
	d := &load{t, topology.NewCPUSet(0), map[string]string{}}
	t.Noticed = func(pod *corev1.Pod) {
		if m := d.Machines[pod.Spec.NodeName]; m != nil && d.Decisions[string(pod.UID)] != nil {
			if why := notAsAsked(m, pod, d.Decisions[string(pod.UID)]); why != "" {
				d.crooked[pod.Name] = why
			}
		}
	}
	return d, nil
}

// result is the last line of the output.
type result struct {
	Seed    uint64 `json:"seed"`
	Pods    int    `json:"pods"`
	Running int    `json:"running"`
	// Misaligned counts containers whose devices or CPUs differ from the decision, and decisions
	// that differ from the pod's request.
	Misaligned int `json:"misaligned"`
	// Refused counts pods that a kubelet rejected.
	Refused int `json:"refused"`
	// HeldTwice counts CPUs and devices that two pods have.
	HeldTwice int `json:"heldTwice"`
	// Leftover counts containers that remain after all pods are gone.
	Leftover int `json:"leftover"`
}

func (d *load) Result(seed uint64) (line any, wrong string) {
	r := result{Seed: seed, Pods: d.Made, Running: len(d.Ran), Refused: len(d.Refused), HeldTwice: len(d.Faults.HeldTwice),
		Misaligned: len(d.Faults.Outside) + len(d.Faults.Unconfined) + len(d.crooked), Leftover: d.Leftover() + len(d.Pods)}
	if r.HeldTwice+r.Misaligned+r.Refused+r.Leftover > 0 {
		wrong = fmt.Sprintf("held twice %v\noutside %v\nunconfined %v\nnot as asked %v\nrefused %v",
			d.Faults.HeldTwice, d.Faults.Outside, d.Faults.Unconfined, d.crooked, d.Refused)
	}
	return r, wrong
}

func (d *load) Make(_ context.Context, i int) ([]*corev1.Pod, error) { return newPods(d.Rand, i), nil }

// Awaits returns a pod that the trial still waits for, or "".
func (d *load) Awaits(context.Context) (string, error) {
	d.Lock()
	defer d.Unlock()
	return d.Waiting(d.roomFor), nil
}

func (d *load) Clean(ctx context.Context) error { return d.Empty(ctx) }
