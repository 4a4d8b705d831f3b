package main

import (
	"fmt"
	"time"

	"github.com/berth-dev/berth/internal/wire"
)

// What the scheduler can know of a pod that another way has brought to a node.
const (
	// hearing is how long the scheduler may take to hear of it, when nothing is done to anybody.
	hearing = 3 * time.Second
	// leaving is how long the node may go on holding what it had.
	leaving = 10 * time.Second
)

// vanished says whether a pod that was bound before w has been deleted before it ran, between the
// decision about w and the moment at which the kubelet decided: it had nothing to stop, so that its
// kubelet let go of it at once. The caller holds mu.
func (o *observer) vanished(w *watched, decided time.Time) bool {
	for _, p := range o.pods {
		switch {
		case p == w || p.ran || p.pod.Spec.NodeName != w.pod.Spec.NodeName || p.bound.After(w.bound) || p.ended.IsZero():
		case p.ended.Before(w.bound.Add(-hearing)) || p.ended.After(decided.Add(checkpointPoll)):
		default:
			w.excuse = fmt.Sprintf("pod %s was deleted before it ran, seen at %s", p.pod.Name, p.ended.UTC().Format(clockFormat))
			return true
		}
	}
	return false
}

// contended says whether a pod that came to the node by another way may have come between the
// report on which w was decided and the moment at which the kubelet decided about it; it is then
// w's excuse. The caller holds mu.
//
// Berth counts with a pod by what the report shows it to hold, and by what the API tells: one that
// holds something in that report, or that the scheduler must have heard of before it wrote w's
// Binding, is no excuse. Of a pod that shares CPUs, or came past Berth to a node where Berth
// decides, a report shows the UID alone.
func (o *observer) contended(w *watched, decided time.Time) bool {
	p, _, _ := wire.ReadPlacement(w.pod)
	for uid, f := range o.pods {
		switch sequence, listed := o.listed[string(uid)]; {
		case !f.foreign || f.pod.Spec.NodeName != w.pod.Spec.NodeName:
		case f.bound.After(decided):
		case listed && sequence <= p.Report:
		case !f.ended.IsZero() && f.ended.Add(leaving).Before(w.bound):
		case w.bound.Sub(f.bound) > hearing && !o.book.deafened(f.bound, w.bound):
		default:
			w.excuse = fmt.Sprintf("contended by pod %s, seen on %s at %s", f.pod.Name, f.pod.Spec.NodeName, f.bound.UTC().Format(clockFormat))
			return true
		}
	}
	return false
}
