package agent

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// podFacts has the facts about a pod that a report needs.
type podFacts struct {
	uid             string // the UID in the kubelet's checkpoints
	apiUID          string // "" for a pod that has left the API
	mirror          bool   // the pod claims to mirror the static pod with that UID
	namespace, name string
	created         time.Time
	// acknowledged means that the kubelet has admitted the pod, according to the pod's status.
	acknowledged bool
	// refused means that the kubelet has refused the pod: it is Failed and never ran.
	refused bool
	// admitted means that the kubelet has admitted the pod at some time. When a pod is removed, the
	// kubelet forgets the admission before it frees the pod's resources.
	admitted bool
	// ended is the time when the agent first saw that the pod was terminal or gone, or zero.
	ended time.Time
	// owner is the rival to which the pod belongs, or "". looksLike is the rival whose name is in
	// the pod's image, or "".
	owner, looksLike string
	// by is the program that carries out the pod's decision, or "" if the kubelet decides. If it is
	// koordlet, decided has the allocations of the decision.
	by      v1alpha1.Enforcer
	decided []placement.ContainerAllocation
	// predicted has the CPUs that Berth predicted for the pod. It is empty if the prediction was
	// exact, or if Berth itself decided.
	predicted  topology.CPUSet
	containers []containerFacts // in the kubelet's order of allocation: init containers, then the others
}

type containerFacts struct {
	name    string
	kind    placement.ContainerKind
	devices []string // the extended resources that the container asks for, ascending
}

func (p *podFacts) key() string { return p.namespace + "/" + p.name }

func factsOf(pod *corev1.Pod, rivals []Rival) podFacts {
	f := podFacts{
		uid: string(pod.UID), apiUID: string(pod.UID), namespace: pod.Namespace, name: pod.Name,
		created: pod.CreationTimestamp.Time, acknowledged: wire.Admitted(pod),
		owner: rivalIn(rivals, pod), looksLike: famousImage(rivals, pod),
	}
	f.notePlacement(pod)
	if static := pod.Annotations[corev1.MirrorPodAnnotationKey]; static != "" {
		f.uid, f.mirror = static, true
	}
	f.refused = wire.Refused(pod)
	f.admitted = slices.ContainsFunc(slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses), ran)
	for at, c := range wire.Containers(pod) {
		f.containers = append(f.containers, containerFacts{c.Name, at.Kind, extended(c)})
	}
	return f
}

// extended returns the resources, ascending, that a device plugin may provide. Their requests equal
// the limits.
func extended(c *corev1.Container) []string {
	var out []string
	for name, q := range c.Resources.Limits {
		if wire.IsExtended(name) && !q.IsZero() {
			out = append(out, string(name))
		}
	}
	slices.Sort(out)
	return out
}

func ran(s corev1.ContainerStatus) bool {
	return s.State.Running != nil || s.State.Terminated != nil || s.RestartCount > 0
}

// podBook has the pods that are bound to the node, and the pods that have left the API but may
// still be in the kubelet's checkpoints. It is safe for concurrent use.
//
// Any user who can create pods can create a pod that claims to mirror another pod (annotation
// kubernetes.io/config.mirror). The kubelet does not run such a pod, and deletes it if there is no
// static pod. So a mirror never replaces the pod whose UID it claims. Of several mirrors, the
// podBook uses the oldest.
type podBook struct {
	rivals []Rival
	mu     sync.Mutex
	pods   map[types.UID]podFacts // pods in the API, by UID
	left   map[string]podFacts    // pods that left the API, by the kubelet's UID
}

// maxLeft is the maximum number of pods in left. While the agent cannot read the checkpoints, it
// does not know which pods are gone from them, and left could grow without a limit.
const maxLeft = 512

func newPodBook(rivals []Rival) *podBook {
	return &podBook{rivals: rivals, pods: map[types.UID]podFacts{}, left: map[string]podFacts{}}
}

// see records a pod that the API has.
func (b *podBook) see(pod *corev1.Pod, now time.Time) {
	f := factsOf(pod, b.rivals)
	b.mu.Lock()
	defer b.mu.Unlock()
	old, known := b.pods[pod.UID]
	if gone := b.left[f.uid]; !known && gone.mirror == f.mirror {
		old = gone
		delete(b.left, f.uid)
	}
	f.admitted = f.admitted || old.admitted
	if wire.Ended(pod) {
		f.ended = now
		if !old.ended.IsZero() {
			f.ended = old.ended
		}
	}
	b.pods[pod.UID] = f
}

// change records a changed pod. The new version may be another pod that was created with the same
// name while the watch was broken.
func (b *podBook) change(old, pod *corev1.Pod, now time.Time) {
	if old.UID != pod.UID {
		b.lose(old, now)
	}
	b.see(pod, now)
}

// lose records that the API no longer has a pod.
func (b *podBook) lose(pod *corev1.Pod, now time.Time) {
	f := factsOf(pod, b.rivals)
	b.mu.Lock()
	defer b.mu.Unlock()
	old := b.pods[pod.UID]
	delete(b.pods, pod.UID)
	if _, known := b.left[f.uid]; f.mirror && (known || b.hasOther(f.uid)) {
		return // another pod has this UID in the kubelet, and is in the API or has left it
	}
	f.ended, f.admitted = now, f.admitted || old.admitted
	if !old.ended.IsZero() {
		f.ended = old.ended
	}
	f.apiUID = ""
	if len(b.left) >= maxLeft {
		b.leaveOldest()
	}
	b.left[f.uid] = f
}

// hasOther reports whether a pod in the API has this UID in the kubelet. The caller must hold the
// lock.
func (b *podBook) hasOther(uid string) bool {
	for _, f := range b.pods {
		if f.uid == uid {
			return true
		}
	}
	return false
}

// leaveOldest forgets one of the pods that left the API: the pod that ended first. The caller holds
// the lock.
func (b *podBook) leaveOldest() {
	oldest, at := "", time.Time{}
	for uid, f := range b.left {
		if oldest == "" || f.ended.Before(at) {
			oldest, at = uid, f.ended
		}
	}
	delete(b.left, oldest)
}

// admit records which pods the kubelet has admitted.
func (b *podBook) admit(admitted func(uid string) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for uid, f := range b.pods {
		if !f.admitted && admitted(f.uid) {
			f.admitted = true
			b.pods[uid] = f
		}
	}
	for uid, f := range b.left {
		if !f.admitted && admitted(uid) {
			f.admitted = true
			b.left[uid] = f
		}
	}
}

// The method all returns a copy of all pods, by the kubelet's UID.
func (b *podBook) all() map[string]podFacts {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := maps.Clone(b.left)
	for _, f := range b.pods {
		if other, taken := out[f.uid]; !taken || f.standsBefore(other) {
			out[f.uid] = f
		}
	}
	return out
}

// standsBefore reports whether the pod takes precedence over another pod that has the same UID in
// the kubelet. A pod that has this UID in the API comes before a mirror. Otherwise, a pod in the
// API comes before a pod that is gone. Otherwise, a pod that has not ended comes before an ended
// pod. Otherwise, the older pod comes before the younger.
func (p podFacts) standsBefore(o podFacts) bool {
	switch {
	case p.mirror != o.mirror:
		return !p.mirror
	case (p.apiUID == "") != (o.apiUID == ""):
		return p.apiUID != ""
	case p.ended.IsZero() != o.ended.IsZero():
		return p.ended.IsZero()
	}
	return cmp.Or(p.created.Compare(o.created), cmp.Compare(p.apiUID, o.apiUID)) < 0
}

// forget drops pods that have left the API and that the kubelet's checkpoints no longer contain.
func (b *podBook) forget(named func(uid string) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.DeleteFunc(b.left, func(uid string, _ podFacts) bool { return !named(uid) })
}

// running returns the names of the pods that have not ended.
func (b *podBook) running() []wire.PodName {
	var out []wire.PodName
	for _, f := range b.all() {
		if f.ended.IsZero() {
			out = append(out, wire.PodName{Namespace: f.namespace, Name: f.name})
		}
	}
	return out
}

// byCreation compares pods by creation time, and then by name and UID.
func byCreation(a, b podFacts) int {
	return cmp.Or(a.created.Compare(b.created), cmp.Compare(a.key(), b.key()), cmp.Compare(a.uid, b.uid))
}

// order sorts the pods of a report: first the pods of the last report in the same order, then the
// others by creation.
func order(uids []string, last map[string]int, facts map[string]podFacts) {
	slices.SortFunc(uids, func(a, b string) int {
		i, old1 := last[a]
		j, old2 := last[b]
		switch {
		case old1 && old2:
			return cmp.Compare(i, j)
		case old1:
			return -1
		case old2:
			return 1
		}
		fa, fb := facts[a], facts[b]
		fa.uid, fb.uid = a, b
		return byCreation(fa, fb)
	})
}

// notePlacement records which program carries out the pod's decision, the allocations if this is
// koordlet, and CPUs that were predicted without certainty. It reads the placement, which only the
// scheduler can write.
func (f *podFacts) notePlacement(pod *corev1.Pod) {
	p, found, err := wire.ReadPlacement(pod)
	if !found || err != nil {
		return
	}
	switch {
	case p.Koordlet:
		f.by, f.decided = v1alpha1.EnforcerKoordlet, decidedBy(&p)
	case p.Authority == placement.AuthorityBerth:
		f.by = v1alpha1.EnforcerAgent
	}
	if w := p.Decision.Whole; f.by == "" && p.Certainty == wire.VerdictOnly && w != nil {
		f.predicted = w.CPUs
	}
	for i := 0; f.by == "" && p.Certainty == wire.VerdictOnly && i < len(p.Decision.Containers); i++ {
		f.predicted = f.predicted.Or(&p.Decision.Containers[i].CPUs)
	}
}

// decidedBy returns the allocations of a pod's containers in a placement.
func decidedBy(p *wire.Placement) []placement.ContainerAllocation {
	out := make([]placement.ContainerAllocation, 0, len(p.Decision.Containers))
	for i := range p.Decision.Containers {
		c := &p.Decision.Containers[i]
		out = append(out, placement.ContainerAllocation{Name: c.Name, Kind: c.Kind, CPUs: c.CPUs, Exclusive: c.Exclusive, Shares: c.Shares, Memory: c.Memory})
	}
	return out
}
