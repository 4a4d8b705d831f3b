package agent

import (
	"time"

	"github.com/berth-dev/berth/internal/kubeletstate"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// sighting has all inputs of a report, collected at one moment.
type sighting struct {
	now      time.Time
	books    *checkpoints
	platform *platform
	// memory is the error if the memory in the kubelet's checkpoint does not fit the machine, for
	// example because the machine lacks a NUMA node of the checkpoint.
	memory error
	drift  drift
	// absent is the error if a checkpoint that the kubelet should have written is missing. starts
	// explains why a kubelet does not start with the checkpoints, or is nil.
	absent error
	starts *kubeletstate.StartError
	// offline are offline CPUs that the kubelet has assigned or could still assign.
	offline topology.CPUSet
	// holders are the pods with resources, by the kubelet's UID. The field pods has the pods in the
	// API, and pods that have left it and may still be in the checkpoints (podBook.all).
	holders map[string]bool
	pods    map[string]podFacts
	// active has the number of active pods in the kubelet by namespace/name. It is nil if it is not
	// known.
	active map[string]int
	// booting means that the kubelet does not run, or may not have read its pods since it started.
	// A starting kubelet admits its first pods before it frees the resources of ended pods
	// (docs/scope.md). The field away means that the kubelet does not run.
	booting, away bool
	history       history
	// obeyed has the running containers if Berth decides. Otherwise it is nil.
	obeyed *obeyed
	// rival describes another plugin that offers the agent's resources or devices to the kubelet,
	// or is "".
	rival string
	// stale are resources of the agent's offers for which a starting kubelet still counts tokens of
	// ended pods as used. The kubelet admits its first pods before it frees these tokens, so it
	// refuses pods that need them.
	stale []string
	// pools are the pools of devices. The field undescribed has the healthy devices whose topology
	// is not known.
	pools       []placement.DevicePool
	undescribed []string
}

// history has the data that the agent keeps from one report to the next.
type history struct {
	// firstSeen has, by the kubelet's UID, the time when the agent first found a pod in the
	// checkpoints that the API did not have.
	firstSeen map[string]time.Time
	// last is the position of pods in the last report, by the kubelet's UID.
	last map[string]int
	// over are pods that the kubelet no longer runs, if koordlet carries out decisions.
	over map[string]bool
}

func newHistory() history {
	return history{firstSeen: map[string]time.Time{}, last: map[string]int{}, over: map[string]bool{}}
}

func (s *sighting) admitted(uid string) bool {
	if admitted, told := s.books.admitted(uid); told {
		return admitted
	}
	f, ok := s.pods[uid]
	return ok && f.acknowledged && !f.refused
}

// ended reports whether a pod has ended according to the API, or is not in the API.
func (s *sighting) ended(uid string) bool {
	f, known := s.pods[uid]
	return !known || !f.ended.IsZero()
}

func (s *sighting) admittedAlive(uid string) bool {
	f := s.pods[uid]
	return f.ended.IsZero() && s.admitted(uid)
}
