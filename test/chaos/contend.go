package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/berth-dev/berth/internal/wire"
)

// Times after which the scheduler must know of a pod that it did not place.
const (
	// hearing is the limit if there is no fault.
	hearing = 3 * time.Second
	// leaving is how long the node may keep the resources of an ended pod.
	leaving = 10 * time.Second
)

// vanished reports whether a pod that was bound before w was deleted before it ran. The deletion
// was at most hearing before the Binding of w, and not after the kubelet's admission of w
// (decided). The kubelet had no container to stop, so it released the pod's resources at once. The
// caller holds mu.
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

// contended reports whether a pod of another scheduler may have arrived between the report on which
// w was decided and the kubelet's admission of w. Then w is excused. The caller holds mu.
//
// A pod is no excuse if the report has it, or if the scheduler must have known it when it wrote w's
// Binding. But for a pod without exclusive resources the report has only the UID. Then Berth cannot
// know its requests, and the kubelet may have too little left for w.
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
