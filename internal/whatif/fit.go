package whatif

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/internal/wire"
)

// Fitted has the number of copies of a pod that fit next to the existing pods.
type Fitted struct {
	Name   string `json:"name"`
	Copies int    `json:"copies"`
	// PerNUMA counts the copies by the NUMA nodes that they occupy, such as "0" or "0-1".
	PerNUMA map[string]int `json:"perNUMANodes"`
	// Unlimited means that only the number of pods limits the copies.
	Unlimited bool `json:"unlimited,omitempty"`
	// Stopped is the reason why the node refuses the next copy. It is nil if the limit was reached.
	Stopped *Refused `json:"stopped,omitempty"`
}

// Fit counts how many copies of the pod fit, at most limit. It lets a copy of the node admit them
// one after another. If the first copy pins nothing and uses no host ports, only amounts limit the
// number of copies, and Fit checks only these.
func (n *Node) Fit(pod *corev1.Pod, limit int) (Fitted, error) {
	out := Fitted{Name: pod.Name, PerNUMA: map[string]int{}}
	a, err := read(pod)
	if err != nil {
		return out, err
	}
	n.doubts(&a)
	trial := n.bare()
	out.Unlimited = len(a.amounts) == 0 && len(wire.PortsOf(pod)) == 0
	for uid := a.request.UID; out.Copies < limit; {
		a.request.UID = fmt.Sprintf("%s/copy-%d", uid, out.Copies+1)
		p := trial.admit(&a)
		if !p.Admitted {
			out.Stopped = p.Refusal
			break
		}
		out.Copies++
		out.PerNUMA[p.NUMANodes]++
		if p.pins() || len(wire.PortsOf(pod)) > 0 {
			continue
		}
		for ; out.Copies < limit; out.Copies++ { // a million copies must not take long
			if out.Stopped = trial.refusedAfter(&a); out.Stopped != nil {
				break
			}
			trial.totals.Add(a.amounts)
			out.PerNUMA[p.NUMANodes]++
		}
		break
	}
	return out, nil
}
