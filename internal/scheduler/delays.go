package scheduler

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/berth-dev/berth/internal/wire"
)

// cause is what a pod spends its time on until its Binding is written.
type cause int

// Causes. A pod is in one of them at a time.
const (
	// inQueue: it may be tried, and others are before it.
	inQueue cause = iota
	// inAttempt: it is being tried.
	inAttempt
	// forReport: a node that may take it has to report first.
	forReport
	// forMates: other members of its gang are not ready.
	forMates
	// forRoom: no node takes it.
	forRoom
	// inBackOff: something else has failed, and kube-scheduler tries it again after a while.
	inBackOff
	// inBinding: it has a node, and Bindings of the node before it, or its own, are being written.
	inBinding
	causes
)

// causeTexts are the values of the label cause.
var causeTexts = [causes]string{"queue", "attempt", "report", "mates", "room", "backoff", "binding"}

// maxDelays is how many pods' delays are remembered at most. With more, all are forgotten.
const maxDelays = 16384

// Delays are where the time of pods without a node goes. Only pods that could be pinned count.
type Delays struct {
	clock clock.PassiveClock
	// waits says whether the API has the pod, and without a node. Who is asked knows that a pod has
	// gone, or been bound, before forget or bound is called for it.
	waits func(*corev1.Pod) bool

	mu sync.Mutex
	of map[types.UID]*delay
}

// delay is where the time of one pod went.
type delay struct {
	now   cause
	since time.Time
	spent [causes]time.Duration
}

// Tried notes that a pod, which was put into the queue at that time, leaves it to be tried.
func (d *Delays) Tried(pod *corev1.Pod, queued time.Time) {
	if !wire.MightPin(pod) {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.of[pod.UID] == nil {
		defer func() { // nobody reports a pod that has gone already
			if !d.waits(pod) {
				delete(d.of, pod.UID)
			}
		}()
		if d.of == nil || len(d.of) >= maxDelays {
			d.of = map[types.UID]*delay{}
		}
		d.of[pod.UID] = &delay{now: inQueue, since: queued}
	}
	d.become(pod.UID, inAttempt)
}

// Failed notes that an attempt was in vain. waits says that a plugin waits for something.
func (d *Delays) Failed(pod *corev1.Pod, status *fwk.Status, waits bool) {
	why := inBackOff
	switch {
	case wire.InGang(pod):
		why = forMates
	case waits:
		why = forReport
	case status.IsRejected():
		why = forRoom
	}
	d.is(pod.UID, why)
}

// is notes what the pod spends its time on from now on.
func (d *Delays) is(uid types.UID, now cause) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.become(uid, now)
}

func (d *Delays) become(uid types.UID, now cause) {
	pod := d.of[uid]
	if pod == nil {
		return
	}
	at := d.clock.Now()
	pod.spent[pod.now] += max(0, at.Sub(pod.since))
	pod.now, pod.since = now, at
}

// forget ends what is remembered of a pod that is gone.
func (d *Delays) forget(uid types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.of, uid)
}

// bound reports a pod whose Binding is written: for each cause how long it took, mostly 0.
func (d *Delays) bound(uid types.UID) {
	d.mu.Lock()
	d.become(uid, inBinding)
	pod := d.of[uid]
	delete(d.of, uid)
	d.mu.Unlock()
	if pod == nil {
		return
	}
	for cause, spent := range pod.spent {
		delays.WithLabelValues(causeTexts[cause]).Observe(spent.Seconds())
	}
}
