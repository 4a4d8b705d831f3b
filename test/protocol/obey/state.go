package obey

import (
	"fmt"

	"github.com/berth-dev/berth/test/protocol/explore"
)

// Pods is the number of pods in the model.
const Pods = 3

// The basic types of a model.
type (
	PodID  = explore.Pod
	podSet = explore.Pods
	CPUs   = explore.CPUs
)

const allCPUs CPUs = 0b111

// Kind is how a pod comes to the node.
type Kind uint8

// The kinds of pods.
const (
	Decided Kind = iota // Berth has bound the pod, with CPUs
	Shared              // another scheduler has bound the pod, without CPUs: it runs in the shared pool
	Forged              // a user has written CPUs on the pod
)

// Pod is one pod of a Config.
type Pod struct {
	Kind Kind
	N    int  // Decided: the number of requested CPUs
	Says CPUs // Forged: the CPUs of the forged decision
	Owns bool // Decided: the pod may use the CPUs of Config.Held
}

// Budget counts the events that may still happen.
type Budget struct {
	Restarts  uint8 // of the agent
	Runtimes  uint8 // restarts of the container runtime, which afterwards may not report a pod
	Reboots   uint8
	Crashes   uint8 // of containers, each of which the kubelet starts again
	Deletions uint8 // of pods by force: the API forgets the pod at once
	Hands     uint8 // manual writes to a cgroup
}

// Config is one model.
type Config struct {
	Pods   [Pods]Pod
	Rules  Rule
	Budget Budget
	Held   CPUs // the CPUs that a Reservation holds for its owners
}

// Validate returns an error that names the first field outside the limits of the model.
func (c *Config) Validate() error {
	for p, pod := range c.Pods {
		if pod.Kind == Decided && (pod.N < 1 || pod.N > allCPUs.Len()) {
			return fmt.Errorf("obey: Pods[%d].N is %d, want 1 to %d", p, pod.N, allCPUs.Len())
		}
		if pod.Kind == Forged && (pod.Says == 0 || pod.Says&^allCPUs != 0) {
			return fmt.Errorf("obey: Pods[%d].Says is %v, want CPUs that the node has", p, pod.Says)
		}
	}
	return nil
}

// phase is the state of a pod in the API.
type phase uint8

const (
	pending phase = iota
	bound
	gone
)

// life is the kubelet's state of a pod.
type life uint8

const (
	unseen   life = iota
	wanted        // its container should run, and is started again when it ends
	stopping      // the pod should end
	over          // the kubelet has finished the pod
)

// report is the agent's report about the node: the CPUs on which each pinned container runs, and
// the pods that the kubelet has released.
type report struct {
	on     [Pods]CPUs
	passed podSet
}

// State is the memory of all actors. It is comparable: equal states are one state.
type State struct {
	api  [Pods]phase
	rec  [Pods]CPUs // the decision in the pod's annotation
	life [Pods]life

	runtime
	agent

	posted, seen report
	showed       podSet      // pods that a delivered report has shown
	view         [Pods]phase // as the scheduler's watch has shown

	left   Budget
	broken Breach
}

// runtime has the containers of the node. A reboot ends them.
type runtime struct {
	runs    [Pods]CPUs // the cgroup of the running container, 0 without one
	begins  podSet     // shared containers that were created and have not started
	touched podSet     // containers with a manually written cgroup

	// A restarted runtime does not report that old sandboxes stop. Until the next restart it also
	// does not report the mute sandboxes, or containers whose processes continue.
	old, mute podSet
	ghosts    [Pods]CPUs
}

// agent is the agent's memory.
type agent struct {
	down  bool       // the agent does not run
	holds [Pods]CPUs // pinned CPUs
	lost  [Pods]CPUs // CPUs that it keeps for containers that the runtime does not report
	stale bool       // the shared containers do not have the newest pool yet
	blank bool       // it answers without having read the running containers
}

// Breach is a broken promise.
type Breach uint8

// The breaches that Check looks for.
const (
	Kept         Breach = iota
	TwiceGiven          // two pinned containers on one CPU
	Overrun             // a shared container on a pinned CPU
	Beside              // a container runs on other CPUs than its decision names
	MadeToWait          // a valid decision must wait, because another valid decision has its CPUs
	Unnoticed           // a cgroup differs from the decision, and no report shows it
	LeftStanding        // no further step is possible, and a pod that fits does not run
)

var breachNames = [...]string{"kept", "given twice", "overrun", "beside its decision", "made to wait", "unnoticed", "left standing"}

func (b Breach) String() string { return breachNames[b] }

func initial(c *Config) State {
	s := State{left: c.Budget}
	for p, pod := range c.Pods {
		if pod.Kind != Decided {
			s.api[p], s.view[p], s.rec[p] = bound, bound, pod.Says
		}
	}
	return s
}

// pinned reports whether the pod's containers are pinned.
func (m *Model) pinned(p PodID) bool { return m.Pods[p].Kind != Shared }

// heldBut returns the CPUs that the agent remembers for all pods but one.
func (m *Model) heldBut(s *State, p PodID) CPUs {
	var used CPUs
	for o := PodID(0); o < Pods; o++ {
		if o != p {
			used |= s.holds[o]
			if m.pinned(o) {
				used |= s.lost[o]
			}
		}
	}
	return used
}

// pool returns the CPUs that the agent leaves to shared containers.
func (m *Model) pool(s *State) CPUs { return allCPUs &^ m.heldBut(s, Pods) }

// capture returns the report that the agent would write now.
func (m *Model) capture(s *State) report {
	var r report
	for p := PodID(0); p < Pods; p++ {
		keeps := s.holds[p] | s.lost[p]
		if !m.pinned(p) {
			keeps = 0
		}
		if s.life[p] == over && keeps == 0 {
			r.passed.Add(p)
		}
		if keeps == 0 {
			continue
		}
		r.on[p] = keeps
		if m.Rules.Has(ReadBack) && s.runs[p] != 0 {
			r.on[p] = s.runs[p]
		}
	}
	return r
}
