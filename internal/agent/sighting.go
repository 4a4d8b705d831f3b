package agent

import (
	"time"

	"github.com/berth-dev/berth/internal/kubeletstate"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// sighting is all that a report is made of: one moment of the node.
type sighting struct {
	now      time.Time
	books    Books
	platform *platform
	// memory is why the memory that the kubelet has written down is not the platform's; nil if it
	// is.
	memory error
	drift  drift
	// absent names a checkpoint that the kubelet writes and that is not there; nil if all are.
	// starts says why a kubelet does not start over them; nil if it does.
	absent error
	starts *kubeletstate.StartError
	// offline are the CPUs that the books would hand out, or have, and that are offline.
	offline topology.CPUSet
	// holders are the pods that hold something, by the kubelet's UID; pods are the ones that the
	// API knows.
	holders map[string]bool
	pods    map[string]podFacts
	// active counts the kubelet's active pods by namespace/name; nil if the kubelet cannot be
	// asked.
	active map[string]int
	// booting: the kubelet is gone, or may not have read its pods yet since it is back. One that
	// starts admits the first pods before it clears away what ended pods hold
	// (docs/scope.md). away: it is gone.
	booting, away bool
	history       history
	// obeyed is what runs if Berth decides; nil elsewhere.
	obeyed *obeyed
	// rival is another plugin that offers the agent's resources or devices to the kubelet; "" for
	// none.
	rival string
	// stale are resources that the agent offers, while a kubelet that starts still counts tokens
	// that gone pods had: it admits its first pods before it takes these back, and refuses them.
	stale []string
	// pools are the devices; undescribed are healthy ones whose NUMA nodes nobody has reported.
	pools       []placement.DevicePool
	undescribed []string
}

// history is what the agent remembers from one report to the next.
type history struct {
	// firstSeen is when the agent first found a pod in the books that it knows nothing of.
	firstSeen map[string]time.Time
	// last is the position of pods in the last report, by the kubelet's UID.
	last map[string]int
	// over are pods that the kubelet does not run any more, if koordlet carries decisions out.
	over map[string]bool
}

func newHistory() history {
	return history{firstSeen: map[string]time.Time{}, last: map[string]int{}, over: map[string]bool{}}
}

func (s *sighting) admitted(uid string) bool {
	if admitted, told := s.books.Admitted(uid); told {
		return admitted
	}
	f, ok := s.pods[uid]
	return ok && f.acknowledged && !f.refused
}

// ended reports whether the API says that a pod has ended, or does not have it.
func (s *sighting) ended(uid string) bool {
	f, known := s.pods[uid]
	return !known || !f.ended.IsZero()
}

func (s *sighting) admittedAlive(uid string) bool {
	f := s.pods[uid]
	return f.ended.IsZero() && s.admitted(uid)
}
