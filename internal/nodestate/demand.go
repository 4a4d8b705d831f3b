package nodestate

import (
	"encoding/binary"
	"encoding/json"
	"maps"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/berth-dev/berth/internal/demand"
	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

// Demand collects the bound pods from which Levels computes the demand for nodes (package demand).
// It is safe for concurrent use. The zero value is ready to use.
type Demand struct {
	mu      sync.Mutex
	of      map[types.UID]*wish
	wishes  map[string]*wish
	tally   demand.Tally[string]
	changed chan struct{}
}

// wish has the requirements for devices and for nodes that some pods have in common.
type wish struct {
	key     string
	request placement.Request
	devices int64 // the number of devices of each pod
	pods    int
	// affinity is nil for pods without requirements for nodes.
	affinity *nodeaffinity.RequiredNodeAffinity
}

// maxSelector is the maximum size of a pod's requirements for nodes, in bytes of JSON. Demand
// compares every node with the requirements of each pod, so it does not count pods with larger
// requirements.
const maxSelector = 4096

// wishOf reads a pod. It returns false if the pod asks for no devices or cannot be counted.
func wishOf(pod *corev1.Pod) (*wish, bool) {
	ask, err := wire.ReadPod(pod)
	if err != nil || ask.RulesErr != nil {
		return nil, false
	}
	w := &wish{request: ask.Request, devices: ask.Request.Devices()}
	if w.devices == 0 {
		return nil, false
	}
	w.request.UID = "/demand" // a UID that no pod has
	var required *corev1.NodeSelector
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil {
		required = a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	if required != nil || len(pod.Spec.NodeSelector) > 0 {
		selector, err := json.Marshal([]any{pod.Spec.NodeSelector, required})
		if err != nil || len(selector) > maxSelector {
			return nil, false
		}
		affinity := nodeaffinity.GetRequiredNodeAffinity(pod)
		w.key, w.affinity = string(selector), &affinity
	}
	w.key = ledger.RequestKey(&w.request) + w.key
	return w, true
}

// Seen adds a bound pod that requests devices, or forgets the pod if it has ended. Later changes of
// a pod's requests have no effect.
func (d *Demand) Seen(pod *corev1.Pod) {
	if pod.Spec.NodeName == "" || !wire.MightAskDevices(pod) {
		return
	}
	if wire.Ended(pod) {
		d.Gone(pod.UID)
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.of[pod.UID] != nil {
		return
	}
	read, ok := wishOf(pod)
	if !ok {
		return
	}
	if d.of == nil {
		d.of, d.wishes = map[types.UID]*wish{}, map[string]*wish{}
	}
	w := d.wishes[read.key]
	if w == nil {
		w = read
		d.wishes[w.key] = w
	}
	d.of[pod.UID] = w
	w.pods++
	d.tally.Add(w.key, w.devices)
	d.signal()
}

// Gone forgets a pod.
func (d *Demand) Gone(uid types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	w := d.of[uid]
	if w == nil {
		return
	}
	delete(d.of, uid)
	d.tally.Add(w.key, -w.devices)
	if w.pods--; w.pods == 0 {
		delete(d.wishes, w.key)
	}
	d.signal()
}

// Changed returns a channel that is readable after pods have come or gone.
func (d *Demand) Changed() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.changed == nil {
		d.changed = make(chan struct{}, 1)
	}
	return d.changed
}

// signal makes the channel of Changed readable. The caller holds the lock.
func (d *Demand) signal() {
	select {
	case d.changed <- struct{}{}:
	default: // the signal is already pending
	}
}

// Due reports whether Levels should be computed again (demand.Tally.Due).
func (d *Demand) Due() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.tally.Due()
}

// Levels returns Levels for the pods at this moment. Later pods do not change the result.
func (d *Demand) Levels() *Levels {
	d.mu.Lock()
	defer d.mu.Unlock()
	return &Levels{most: d.tally.Wishes(), wishes: maps.Clone(d.wishes), known: map[string]demand.Level{}, models: map[*placement.Model]int{}}
}

// Levels computes the demand for nodes, and caches it. It is not safe for concurrent use.
type Levels struct {
	most   demand.Wishes[string]
	wishes map[string]*wish
	// known caches the computed levels, by devices, machine, kubelet configuration, and the pods
	// that may use the node.
	known  map[string]demand.Level
	models map[*placement.Model]int
	key    []byte
}

// Of returns the demand for the node: of the devices in use, the share that belongs to pods that
// the node could run if it were empty. It returns 0 for an unknown node.
func (l *Levels) Of(object *corev1.Node, v ledger.View) demand.Level {
	if object == nil {
		return 0
	}
	key, of := v.AppendKind(l.key[:0])
	if of == nil {
		return 0
	}
	if len(l.known) >= maxKinds {
		clear(l.known)
		clear(l.models)
	}
	model, seen := l.models[of]
	if !seen {
		model = len(l.models)
		l.models[of] = model
	}
	key = binary.AppendUvarint(key, uint64(model))
	for w := range l.most.All {
		comes := byte(0)
		if l.wishes[w].comes(object) {
			comes = 1
		}
		key = append(key, comes)
	}
	l.key = key
	level, seen := l.known[string(l.key)]
	if !seen {
		level = l.most.Level(func(w string) bool { return l.wishes[w].comes(object) && v.CouldTake(&l.wishes[w].request) })
		l.known[string(l.key)] = level
	}
	return level
}

// The method comes reports whether the node matches the selectors and the affinity of the pods.
func (w *wish) comes(object *corev1.Node) bool {
	if w.affinity == nil {
		return true
	}
	match, err := w.affinity.Match(object)
	return match && err == nil
}
