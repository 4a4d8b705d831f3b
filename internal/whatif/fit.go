package whatif

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/internal/wire"
)

// Fitted is how many copies of a pod fit next to the existing pods.
type Fitted struct {
	Name   string `json:"name"`
	Copies int    `json:"copies"`
	// PerNUMA counts the copies by the NUMA nodes that they occupy, "0" or "0-1".
	PerNUMA map[string]int `json:"perNUMANodes"`
	// Unlimited means that only the number of pods limits the copies.
	Unlimited bool `json:"unlimited,omitempty"`
	// Stopped is why the next copy is refused; absent when the limit was reached.
	Stopped *Refused `json:"stopped,omitempty"`
}

// Fit admits copy after copy, at most limit, into a copy of the node. Copies that pin nothing and
// use no host ports are all alike, and counted by division.
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
		if !p.pins() && len(wire.PortsOf(pod)) == 0 {
			more := trial.totals.Copies(a.amounts, limit-out.Copies)
			out.Copies += more
			out.PerNUMA[p.NUMANodes] += more
			out.Stopped = trial.exhausted(&a, more, limit-out.Copies)
			break
		}
	}
	return out, nil
}

// exhausted returns what the node lacks after that many more copies; nil if all had room.
func (n *Node) exhausted(a *ask, copies, left int) *Refused {
	if left <= 0 {
		return nil
	}
	n.totals.AddTimes(a.amounts, copies)
	return n.refusedAfter(a)
}
