package whatif

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/internal/wire"
)

// Fitted is the result of Fit: how many copies of a pod fit on the node in addition to its pods.
type Fitted struct {
	Name   string `json:"name"`
	Copies int    `json:"copies"`
	// PerNUMA has the number of copies by Placed.NUMANodes, such as "0" or "0-1".
	PerNUMA map[string]int `json:"perNUMANodes"`
	// Unlimited means that only the number of pods limits the copies.
	Unlimited bool `json:"unlimited,omitempty"`
	// Stopped is the reason why the node refuses the next copy. It is nil if Fit reached its limit.
	Stopped *Refused `json:"stopped,omitempty"`
}

// Fit counts how many copies of the pod the node admits, one after another, up to limit. It changes
// nothing in n except Notes. If the first copy has no exclusive resources and no host ports, Fit
// checks only amounts for the other copies, because nothing else limits them.
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
