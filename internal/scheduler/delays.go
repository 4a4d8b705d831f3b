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

// cause is the reason why a pod's Binding is not written yet.
type cause int

// The causes. A pod has one cause at a time.
const (
	// inQueue means that the pod may be tried, and waits behind other pods in the queue.
	inQueue cause = iota
	// inAttempt means that the pod is being tried.
	inAttempt
	// forReport means that the pod waits for the report of a node that may admit it.
	forReport
	// forMates means that the pod waits for other members of its gang.
	forMates
	// forRoom means that no node admits the pod.
	forRoom
	// inBackOff means that the attempt failed for another reason, such as an error, and that
	// kube-scheduler will try the pod again.
	inBackOff
	// inBinding means that the pod has a node, and that its Binding or earlier Bindings are being
	// written.
	inBinding
	causes
)

// causeTexts are the values of the metric label cause.
var causeTexts = [causes]string{"queue", "attempt", "report", "mates", "room", "backoff", "binding"}

// maxDelays is the maximum number of measured pods. If another pod comes, all delays are forgotten.
const maxDelays = 16384

// Delays measures, by cause, the time for which pods wait for a node. It measures only pods that
// could be pinned.
type Delays struct {
	clock clock.PassiveClock
	// waits reports whether the API has the pod and the pod has no node. After a deletion or a
	// Binding, it returns false even before forget or bound is called.
	waits func(*corev1.Pod) bool

	mu sync.Mutex
	of map[types.UID]*delay
	// crowds has the counts of each namespace, so that a tenant's burst does not affect pods of
	// other tenants.
	crowds map[string]*crowd
}

// crowd counts the measured pods of a namespace: by cause (count), and all together (all).
type crowd struct {
	count [causes]int
	all   int
	// before is the last result of Delays.crowded for the namespace.
	before bool
}

// delay records how long one pod has waited, by cause.
type delay struct {
	namespace string
	now       cause
	since     time.Time
	spent     [causes]time.Duration
	// ours means that the pod's last attempt failed only because of Berth.
	ours bool
}

// Queued records that a pod may be tried from now on. It ignores a pod whose gang, scheduling gate
// or claim may still prevent this.
func (d *Delays) Queued(pod *corev1.Pod) {
	if !wire.MightPin(pod) || mayBeHeld(pod) {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.begin(pod, d.clock.Now())
}

// mayBeHeld reports whether the pod's gang, PodGroup, scheduling gates or claims could keep it from
// being tried.
func mayBeHeld(pod *corev1.Pod) bool {
	return wire.InGang(pod) || pod.Spec.SchedulingGroup != nil || len(pod.Spec.SchedulingGates)+len(pod.Spec.ResourceClaims) > 0
}

// Tried records that a pod is taken from the queue to be tried. The parameter queued is the time
// when the pod entered the queue.
func (d *Delays) Tried(pod *corev1.Pod, queued time.Time) {
	if !wire.MightPin(pod) {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.begin(pod, queued) {
		d.become(pod.UID, inAttempt)
		d.of[pod.UID].ours = false
	}
}

// begin starts to measure a pod unless the pod is already measured or gone. No event would remove a
// pod that is gone. begin reports whether the pod is measured. The caller holds the lock.
func (d *Delays) begin(pod *corev1.Pod, queued time.Time) bool {
	if d.of[pod.UID] != nil {
		return true
	}
	if !d.waits(pod) {
		return false
	}
	if d.of == nil || len(d.of) >= maxDelays {
		d.of, d.crowds = map[types.UID]*delay{}, map[string]*crowd{}
	}
	d.of[pod.UID] = &delay{namespace: pod.Namespace, now: inQueue, since: queued}
	in := d.crowds[pod.Namespace]
	if in == nil {
		in = &crowd{}
		d.crowds[pod.Namespace] = in
	}
	in.all++
	in.count[inQueue]++
	return true
}

// A namespace with more than crowdFrom waiting pods per node becomes crowded, and stays crowded
// until it has at most one waiting pod per crowdTo nodes. A node can promise particular CPUs to one
// pod per report, so the last of more than crowdFrom pods per node would wait for more than
// crowdFrom reports.
const crowdFrom, crowdTo = 8, 8

// crowded reports whether the namespace is crowded (crowdFrom, crowdTo) in a cluster with this
// number of nodes. It counts only waiting pods that a report could help.
func (d *Delays) crowded(namespace string, nodes int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	in := d.crowds[namespace]
	if in == nil {
		return false
	}
	want := in.count[inQueue] + in.count[inAttempt] + in.count[forReport]
	in.before = want > crowdFrom*nodes || in.before && crowdTo*want > nodes
	return in.before
}

// Failed records a failed attempt. The parameter waits is the result of MerelyWaits.
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
	d.mu.Lock()
	defer d.mu.Unlock()
	d.become(pod.UID, why)
	if known := d.of[pod.UID]; known != nil {
		known.ours = refusesAlone(status) && !mayBeHeld(pod)
	}
}

// Ours reports whether only Berth refused the pod in its last attempt. Then only events that Berth
// has registered can help the pod. Ours returns false if this is not known.
func (d *Delays) Ours(pod *corev1.Pod) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	known := d.of[pod.UID]
	return known != nil && known.ours
}

// is sets the pod's current cause of delay.
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
	in := d.crowds[pod.namespace]
	in.count[pod.now]--
	in.count[now]++
	pod.now, pod.since = now, at
}

func (d *Delays) forget(uid types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.end(uid)
}

// end removes a pod. The caller holds the lock.
func (d *Delays) end(uid types.UID) {
	pod := d.of[uid]
	if pod == nil {
		return
	}
	delete(d.of, uid)
	in := d.crowds[pod.namespace]
	in.count[pod.now]--
	if in.all--; in.all == 0 {
		delete(d.crowds, pod.namespace)
	}
}

// bound removes a pod whose Binding is written, and records in the metric how long the pod waited
// for each cause. It records nothing if the pod was in this replica's queue, because then another
// replica has bound the pod.
func (d *Delays) bound(uid types.UID) {
	d.mu.Lock()
	pod := d.of[uid]
	tried := pod != nil && pod.now != inQueue
	d.become(uid, inBinding)
	d.end(uid)
	d.mu.Unlock()
	if !tried {
		return
	}
	for cause, spent := range pod.spent {
		delays.WithLabelValues(causeTexts[cause]).Observe(spent.Seconds())
	}
}
