package main

import (
	"fmt"
	"strings"
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

// vanished reports whether a pod that was bound before w has been deleted before it ran, between
// the decision about w and the moment at which the kubelet decided: it had nothing to stop, so that
// its kubelet let go of it at once. The caller holds mu.
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

// contended reports whether a pod that came to the node by another way may have come between the
// report on which w was decided and the moment at which the kubelet decided about it; it is then
// w's excuse. The caller holds mu.
//
// One that the report has, or that the scheduler must have heard of before it wrote w's Binding, is
// no excuse: Berth counts with it. But of a pod that holds nothing the report has the UID alone.
// Berth cannot know then what it asks for, and the kubelet may have too little left for w.
func (o *observer) contended(w *watched, decided time.Time) bool {
	p, _, _ := wire.ReadPlacement(w.pod)
	reported := o.listed
	if strings.HasPrefix(w.pod.Status.Reason, "OutOf") {
		reported = o.shown
	}
	for uid, f := range o.pods {
		switch sequence, listed := reported[string(uid)]; {
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
