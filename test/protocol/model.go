package protocol

import "slices"

// Action is one kind of step.
type Action uint8

// The steps of the scheduler, the API server, the kubelets and agents, and the world.
const (
	Filter Action = iota
	Reserve
	Bind
	ReadBackBinding
	StorePlacement
	SeePod
	SeeReport
	TakeOver
	Preempt
	ApplyBinding
	ApplyLate
	ExpireLate
	KubeletSees
	KubeletFrees
	KubeletPosts
	AgentReports
	ApplyUnheard
	TimeOut
	FailBinding
	PodEnds
	DeleteByForce
	CollectTerminal
	WatchBreaks
	KubeletRestarts
	SchedulerCrashes
	LateReport
	actions
)

var actionNames = [actions]string{
	"filter", "reserve", "bind", "read back", "store placement", "see pod", "see report", "take over", "preempt",
	"apply binding", "apply late binding", "late binding expires", "kubelet sees", "kubelet frees", "kubelet posts",
	"agent reports", "apply binding unheard", "time out", "fail binding", "pod ends", "delete by force",
	"collect terminal", "watch breaks", "kubelet restarts", "scheduler crashes", "late report",
}

func (a Action) String() string { return actionNames[a] }

// Step is one step of a run. If the step has several outcomes, Variant distinguishes them.
type Step struct {
	Action  Action
	Pod     PodID
	Node    NodeID
	Variant uint8
}

// world reports whether the step may never happen: a failure, or an action of a user.
func (a Action) world() bool { return a >= ApplyUnheard }

// Model is a Config that can be walked. It is not safe for concurrent use.
type Model struct {
	Config
	evaluator
}

// NewModel returns the model of the configuration.
func NewModel(c Config) *Model {
	m := &Model{Config: c}
	m.evaluator = evaluator{&m.Config, map[question]answer{}}
	return m
}

// note records a broken promise in the state, if the model looks for it.
func (m *Model) note(s *State, b Breach) {
	if m.looksFor(b) {
		s.broken = b
	}
}

func (m *Model) looksFor(b Breach) bool { return len(m.Look) == 0 || slices.Contains(m.Look, b) }
