package obey

// Action is one kind of step.
type Action uint8

// The steps.
const (
	Place Action = iota
	SeeReport
	SeeGone
	KubeletSees
	KubeletDrops
	Create
	Hold
	Start
	Stop
	Remove
	RemoveContainer
	ProcessesEnd
	UpdateShared
	FreeEarly
	AgentStarts
	AgentLearns
	AgentReports
	PodGone
	AgentStops
	Reboot
	ContainerEnds
	HandWrites
	Unanswered
	RuntimeRestarts
	SilentSandbox
	SilentContainer
	actions
)

var actionNames = [actions]string{
	"place", "see report", "see gone", "kubelet sees", "kubelet drops", "create", "hold", "start", "stop", "remove",
	"remove container", "processes end", "update shared", "free early", "agent starts", "agent learns", "agent reports",
	"delete by force", "agent stops", "reboot", "container ends", "hand writes", "create unanswered", "runtime restarts",
	"runtime restarts, silent of a sandbox", "runtime restarts, silent of a container",
}

func (a Action) String() string { return actionNames[a] }

// world reports whether the step may never happen.
func (a Action) world() bool { return a >= PodGone }

// Step is one step of a run.
type Step struct {
	Action Action
	Pod    PodID
}

// Model is a Config that can be walked.
type Model struct{ Config }

// successors emits every step that can follow.
func (m *Model) successors(s *State, emit func(Step, *State)) {
	for p := PodID(0); p < Pods; p++ {
		m.schedulerSteps(s, p, emit)
		m.kubeletSteps(s, p, emit)
		m.runtimeSteps(s, p, emit)
		m.worldPodSteps(s, p, emit)
	}
	m.agentSteps(s, emit)
	m.worldSteps(s, emit)
}

func (m *Model) schedulerSteps(s *State, p PodID, emit func(Step, *State)) {
	if s.api[p] == pending {
		if free := m.open(s, p); free.Len() >= m.Pods[p].N {
			t := *s
			t.rec[p] = free.Lowest(m.Pods[p].N)
			t.api[p], t.view[p] = bound, bound
			emit(Step{Place, p}, &t)
		}
	}
	if s.api[p] == gone && s.view[p] != gone {
		t := *s
		t.view[p] = gone
		emit(Step{SeeGone, p}, &t)
	}
}

// open returns the CPUs that are free for the pod as far as the scheduler knows. For an owner this
// is the rest of its Reservation, which the scheduler computes from the object and the pods.
func (m *Model) open(s *State, p PodID) CPUs {
	used := m.counted(s)
	switch {
	case m.Pods[p].Owns && m.Rules.Has(ReuseInPlace):
		if !m.Rules.Has(OwnersCount) {
			used = m.told(s)
		}
		return m.Held &^ used
	case m.Rules.Has(HoldingHolds) && m.Held != 0:
		return allCPUs &^ used &^ m.Held
	}
	return allCPUs &^ used
}

// told returns the CPUs of pods that are still in the API.
func (m *Model) told(s *State) (used CPUs) {
	for p := PodID(0); p < Pods; p++ {
		if s.view[p] == bound {
			used |= s.rec[p]
		}
	}
	return used
}

// counted returns the CPUs that the scheduler counts as used: promised CPUs and reported CPUs.
func (m *Model) counted(s *State) CPUs {
	var used CPUs
	for p := PodID(0); p < Pods; p++ {
		if !m.pinned(p) || s.api[p] == pending {
			continue
		}
		evidence := s.seen.passed.Has(p)
		switch {
		case s.view[p] == gone && (evidence || !m.Rules.Has(ReleaseByEvidence)):
		case s.view[p] == bound && !m.Rules.Has(PromiseHolds) && s.showed.Has(p):
			used |= s.seen.on[p]
		case m.Pods[p].Kind == Forged:
			used |= s.seen.on[p] // the pod has no promise
		default:
			used |= s.rec[p] | s.seen.on[p]
		}
	}
	return used
}

func (m *Model) kubeletSteps(s *State, p PodID, emit func(Step, *State)) {
	t := *s
	switch {
	case s.life[p] == unseen && s.api[p] != pending:
		t.life[p] = wanted
		emit(Step{KubeletSees, p}, &t)
	case s.life[p] == wanted && s.api[p] == gone:
		t.life[p] = stopping
		emit(Step{KubeletDrops, p}, &t)
	}
}

// runtimeSteps are the calls of the container runtime. The runtime asks the agent before it creates
// a container. It informs the agent when a container has stopped and when a pod's sandbox is
// removed.
func (m *Model) runtimeSteps(s *State, p PodID, emit func(Step, *State)) {
	switch {
	case s.life[p] == wanted && s.runs[p] == 0:
		m.create(s, p, emit)
	case s.life[p] == wanted && s.begins.Has(p):
		m.start(*s, p, emit)
	case s.life[p] == wanted && s.mute.Has(p), s.life[p] == stopping && s.runs[p] != 0:
		t := *s
		t.end(p)
		emit(Step{Stop, p}, &t)
	case s.life[p] == stopping:
		t := *s
		t.life[p] = over
		if told := !s.old.Has(p); told || m.Rules.Has(RemovalFrees) {
			m.free(&t, p)
		}
		t.old.Drop(p)
		t.mute.Drop(p)
		emit(Step{Remove, p}, &t)
	}
	m.siftSteps(s, p, emit)
}

// siftSteps are the outcomes for containers that have ended or are not reported.
func (m *Model) siftSteps(s *State, p PodID, emit func(Step, *State)) {
	if s.life[p] == wanted && s.runs[p] == 0 && s.old.Has(p) && s.holds[p] != 0 && !s.down && m.Rules.Has(RemovalFrees) {
		t := *s
		m.free(&t, p)
		emit(Step{RemoveContainer, p}, &t)
	}
	if s.ghosts[p] != 0 {
		t := *s
		t.ghosts[p] = 0
		if t.lost[p] != 0 && !s.down {
			t.lost[p] = 0
			m.spread(&t)
		}
		emit(Step{ProcessesEnd, p}, &t)
	}
}

// free makes the agent, if it runs, release a pod's CPUs.
func (m *Model) free(s *State, p PodID) {
	if !s.down && s.holds[p] != 0 {
		s.holds[p] = 0
		m.spread(s)
	}
}

// create asks the agent for the container's CPUs. Without the agent, the container begins
// unadjusted, unless its Binding demands the agent.
func (m *Model) create(s *State, p PodID, emit func(Step, *State)) {
	t := *s
	if s.mute.Has(p) { // in a new sandbox, because the kubelet does not know the other one
		t.mute.Drop(p)
		t.old.Drop(p)
	}
	if s.down {
		needs := OthersNeedAgent
		if m.pinned(p) {
			needs = PinnedNeedAgent
		}
		if !m.Rules.Has(needs) {
			t.runs[p] = allCPUs
			m.judge(&t)
			emit(Step{Create, p}, &t)
		}
		return
	}
	if !m.pinned(p) {
		m.createShared(t, p, emit)
		return
	}
	if s.left.Restarts > 0 && !m.Rules.Has(SilenceIsNo) {
		u := t
		u.left.Restarts--
		u.agent = agent{down: true}
		u.runs[p] = allCPUs
		m.judge(&u)
		emit(Step{Unanswered, p}, &u)
	}
	got := s.rec[p]
	if !m.Rules.Has(DecisionBinds) {
		got = (allCPUs &^ m.heldBut(s, p)).Lowest(m.Pods[p].N)
	}
	if got&m.heldBut(s, p) != 0 && m.Rules.Has(CollisionsWait) {
		if m.genuineRival(s, p, got) {
			t.broken = MadeToWait
			emit(Step{Hold, p}, &t)
		}
		return
	}
	if m.inTheWay(s, got) {
		return
	}
	t.runs[p], t.holds[p] = got, got
	m.spread(&t)
	m.judge(&t)
	emit(Step{Create, p}, &t)
}

// end ends a container.
func (r *runtime) end(p PodID) {
	r.runs[p] = 0
	r.begins.Drop(p)
	r.touched.Drop(p)
}

// start lets a shared container run. It receives the moves that it missed while it started.
func (m *Model) start(t State, p PodID, emit func(Step, *State)) {
	t.begins.Drop(p)
	if pool := m.pool(&t); !t.down && pool != 0 && m.Rules.Has(SettledMove) {
		t.runs[p] = pool
	}
	m.judge(&t)
	emit(Step{Start, p}, &t)
}

// inTheWay reports whether a shared container that is starting, or that the runtime does not list,
// would have to leave the CPUs.
func (m *Model) inTheWay(s *State, got CPUs) bool {
	for o := PodID(0); o < Pods; o++ {
		if !m.pinned(o) && s.lost[o]&got != 0 {
			return true
		}
		if s.begins.Has(o) && s.runs[o]&got != 0 {
			return m.Rules.Has(SettledMove)
		}
	}
	return false
}

func (m *Model) createShared(t State, p PodID, emit func(Step, *State)) {
	t.runs[p] = m.pool(&t)
	if t.runs[p] == 0 {
		if m.Rules.Has(EmptyPoolWaits) {
			return
		}
		t.runs[p] = allCPUs
	}
	t.begins.Add(p)
	m.judge(&t)
	emit(Step{Create, p}, &t)
}

// genuineRival reports whether a valid decision needs CPUs that another valid decision has.
func (m *Model) genuineRival(s *State, p PodID, got CPUs) bool {
	if m.Pods[p].Kind != Decided {
		return false
	}
	for o := PodID(0); o < Pods; o++ {
		if o != p && s.holds[o]&got != 0 {
			return m.Pods[o].Kind == Decided
		}
	}
	return false
}

// spread moves the running shared containers to their remaining CPUs, at once or some time later.
func (m *Model) spread(s *State) {
	if !m.Rules.Has(ShrinkFirst) {
		s.stale = true
		return
	}
	m.updateShared(s)
}

// updateShared does not move a running container when no CPU is left: an empty set would remove its
// limit. Reserved CPUs prevent this situation, but the model has none.
func (m *Model) updateShared(s *State) {
	s.stale = false
	for p := PodID(0); p < Pods; p++ {
		if !m.pinned(p) && s.runs[p] != 0 && !s.begins.Has(p) {
			s.runs[p] = m.pool(s)
			if s.runs[p] == 0 {
				s.life[p], s.runs[p] = wanted, 0 // evicted, and not started until there is room
			}
		}
	}
}

func (m *Model) agentSteps(s *State, emit func(Step, *State)) {
	if s.down {
		t := *s
		t.down = false
		switch {
		case !m.Rules.Has(Synchronize):
		case m.Rules.Has(SynchronizeFirst):
			m.synchronize(&t)
		default:
			t.blank = true
		}
		emit(Step{Action: AgentStarts}, &t)
		return
	}
	if s.blank {
		t := *s
		t.blank = false
		m.synchronize(&t)
		emit(Step{Action: AgentLearns}, &t)
	}
	if s.stale {
		t := *s
		m.updateShared(&t)
		emit(Step{Action: UpdateShared}, &t)
	}
	if r := m.capture(s); r != s.posted {
		t := *s
		t.posted = r
		emit(Step{Action: AgentReports}, &t)
	}
	if s.seen != s.posted {
		t := *s
		t.seen = s.posted
		for p := PodID(0); p < Pods; p++ {
			if t.seen.on[p] != 0 {
				t.showed.Add(p)
			}
		}
		emit(Step{Action: SeeReport}, &t)
	}
}

// synchronize rebuilds the agent's memory from the runtime's pods, and corrects the CPUs of
// everything that runs. Unless the agent has itself restarted, its memory fills in what the runtime
// does not report.
func (m *Model) synchronize(s *State) {
	before := s.holds
	s.holds, s.lost = [Pods]CPUs{}, [Pods]CPUs{}
	for p := PodID(0); p < Pods; p++ {
		if m.Rules.Has(ProcessesKeep) {
			s.lost[p] = s.ghosts[p]
		}
		if !m.pinned(p) || s.runs[p] == 0 {
			continue
		}
		s.holds[p] = s.rec[p]
		if s.mute.Has(p) {
			s.holds[p] = m.adopt(s, p, before[p])
		}
		if s.holds[p] != 0 && !s.touched.Has(p) {
			s.runs[p] = s.holds[p]
		}
	}
	for p := PodID(0); p < Pods; p++ {
		if m.pinned(p) && s.runs[p] != 0 && s.holds[p] == 0 { // counts as a shared container
			s.runs[p] = m.pool(s)
		}
	}
	m.updateShared(s)
	m.judge(s)
}

// adopt returns the CPUs that a container keeps if the runtime does not report its decision, 0 for
// none. The runtime reports on which CPUs the container runs, but not a manual write to its cgroup.
func (m *Model) adopt(s *State, p PodID, remembered CPUs) CPUs {
	switch {
	case !m.Rules.Has(SilentKeep):
		return 0
	case remembered != 0:
		return remembered
	case s.touched.Has(p):
		return s.rec[p]
	}
	return s.runs[p]
}

func (m *Model) worldPodSteps(s *State, p PodID, emit func(Step, *State)) {
	if s.left.Deletions > 0 && s.api[p] != gone {
		t := *s
		t.left.Deletions--
		t.api[p] = gone
		if s.api[p] == pending {
			t.view[p], t.life[p] = gone, over
		}
		emit(Step{PodGone, p}, &t)
	}
	if s.left.Crashes > 0 && s.life[p] == wanted && s.runs[p] != 0 {
		t := *s
		t.left.Crashes--
		t.end(p)
		emit(Step{ContainerEnds, p}, &t)
	}
	if s.left.Hands > 0 && m.Pods[p].Kind == Decided && s.runs[p] != 0 && s.runs[p] != allCPUs {
		t := *s
		t.left.Hands--
		t.runs[p] = allCPUs
		t.touched.Add(p)
		emit(Step{HandWrites, p}, &t)
	}
	if !m.Rules.Has(GrowAfterStop) && !s.down && s.holds[p] != 0 && s.api[p] == gone {
		t := *s
		t.holds[p] = 0
		m.spread(&t)
		m.judge(&t)
		emit(Step{FreeEarly, p}, &t)
	}
}

func (m *Model) worldSteps(s *State, emit func(Step, *State)) {
	m.runtimeRestarts(s, emit)
	if s.left.Restarts > 0 && !s.down && s.ghosts == ([Pods]CPUs{}) {
		t := *s
		t.left.Restarts--
		t.agent = agent{down: true}
		emit(Step{Action: AgentStops}, &t)
	}
	if s.left.Reboots > 0 {
		t := *s
		t.left.Reboots--
		t.runtime, t.agent = runtime{}, agent{down: true}
		for p := PodID(0); p < Pods; p++ { // the kubelet lists, and never sees deleted pods
			switch {
			case s.api[p] == gone:
				t.life[p] = over
			case s.life[p] == wanted:
				t.life[p] = unseen
			}
		}
		emit(Step{Action: Reboot}, &t)
	}
}

// runtimeRestarts restarts the runtime, which may then omit a sandbox or a container. The agent has
// lost the connection, but keeps its memory. An agent that was down itself cannot know an
// unreported container.
func (m *Model) runtimeRestarts(s *State, emit func(Step, *State)) {
	if s.left.Runtimes == 0 {
		return
	}
	t := *s
	t.left.Runtimes--
	t.down, t.stale, t.blank, t.mute = true, false, false, 0
	for p := PodID(0); p < Pods; p++ {
		if s.life[p] == wanted || s.life[p] == stopping {
			t.old.Add(p)
		}
	}
	emit(Step{Action: RuntimeRestarts}, &t)
	for p := PodID(0); p < Pods; p++ {
		if s.runs[p] == 0 || s.begins.Has(p) {
			continue
		}
		u := t
		u.mute.Add(p)
		emit(Step{SilentSandbox, p}, &u)
		if !s.down && s.ghosts[p] == 0 && !s.touched.Has(p) {
			u = t
			u.ghosts[p] = s.runs[p]
			u.end(p)
			emit(Step{SilentContainer, p}, &u)
		}
	}
}

// occupies returns where processes of the pod run, except processes of a container that has not
// started, or of one whose cgroup was written manually.
func (r *runtime) occupies(p PodID) CPUs {
	if r.touched.Has(p) || r.begins.Has(p) {
		return r.ghosts[p]
	}
	return r.runs[p] | r.ghosts[p]
}

// judge looks for containers that run on wrong CPUs.
func (m *Model) judge(s *State) {
	for p := PodID(0); p < Pods; p++ {
		on := s.occupies(p)
		if on == 0 || !m.pinned(p) {
			continue
		}
		for o := PodID(0); o < Pods; o++ {
			switch {
			case o == p || s.occupies(o)&on == 0:
			case !m.pinned(o):
				s.broken = Overrun
			case s.broken == Kept:
				s.broken = TwiceGiven
			}
		}
		if on != s.rec[p] {
			s.broken = Beside
		}
	}
}
