package claims

// Action is one kind of step.
type Action uint8

// The steps.
const (
	Reserve Action = iota
	Refuse
	Drop
	PostFilter
	Write
	Bind
	GiveUp
	TakeBack
	Unreserve
	Controller
	Deny
	Delete
	Crash
	DeviceComes
	DeviceGoes
	GetReady
	Share
	actions
)

var actionNames = [actions]string{
	"reserve", "refuse", "drop", "post filter", "write", "bind", "give up", "take back", "unreserve", "controller",
	"deny", "delete", "crash", "device comes", "device goes", "get ready", "share",
}

func (a Action) String() string { return actionNames[a] }

// world reports whether the step may never happen.
func (a Action) world() bool { return a >= Deny }

// Step is one step of a run.
type Step struct {
	Action Action
	Pod    PodID
	At     place
}

// Model is a Config that can be walked.
type Model struct{ Config }

// successors emits every step that can follow.
func (m *Model) successors(s *State, emit func(Step, *State)) {
	for p := PodID(0); p < Pods; p++ {
		switch s.phase[p] {
		case pending:
			if !s.gone.Has(p) {
				m.cycle(s, p, emit)
			}
		case reserved:
			m.write(*s, p, emit)
		case written:
			m.bind(s, p, emit)
		case failing, half:
			m.takeBack(*s, p, emit)
		}
		m.controller(*s, p, emit)
		m.worldPod(s, p, emit)
	}
	m.world(s, emit)
}

// cycle does a pod's scheduling cycle up to Reserve.
func (m *Model) cycle(s *State, p PodID, emit func(Step, *State)) {
	for n := NodeID(0); n < Nodes; n++ {
		cpu, dev, ok := m.filter(s, p, n)
		if !ok {
			continue
		}
		t := *s
		if m.Pods[p] != Plain && cpu != dev && m.Rules.Has(ReserveJudges) {
			if s.refused[p]&(1<<n) != 0 {
				t.broken = ChosenAgain
			}
			t.refused[p] |= 1 << n
			if m.Rules.Has(ExcludeRefused) {
				t.excluded[p] |= 1 << n
			}
			emit(Step{Refuse, p, place{n, dev}}, &t)
			return
		}
		t.phase[p], t.cpu[p], t.dev[p] = reserved, place{n, cpu}, place{n, dev}
		m.changed(&t, n)
		emit(Step{Reserve, p, place{n, dev}}, &t)
		return
	}
	m.unschedulable(*s, p, emit)
}

// filter returns the CPU that the pod would have on a node, and the device that the allocator
// chooses.
func (m *Model) filter(s *State, p PodID, n NodeID) (cpu, dev uint8, ok bool) {
	left := m.free(s, n, p, true)
	cpu, ok = lowest(left)
	if !ok || s.excluded[p]&(1<<n) != 0 || m.Pods[p] == Plain {
		return cpu, cpu, ok && s.excluded[p]&(1<<n) == 0
	}
	follows := m.Decides[n] && m.Rules.Has(CPUsFollow)
	if c := s.claim[p]; c.allocated {
		if follows && c.at.node == n && left&(1<<c.at.numa) != 0 {
			cpu = c.at.numa
		}
		if c.at.node != n || m.Rules.Has(JudgeAllocated) && c.at.numa != cpu {
			return 0, 0, false
		}
		return cpu, c.at.numa, true
	}
	shown := m.unallocated(s, n, p)
	if near, found := lowest(left & m.choosable(p, shown)); follows && found {
		cpu = near
	}
	if m.Rules.Has(Steer) && m.Pods[p] == Claim {
		shown &= 1 << cpu
	}
	dev, ok = lowest(shown)
	return cpu, dev, ok
}

// choosable returns the devices that the allocator may choose for the pod.
func (m *Model) choosable(p PodID, devices numas) numas {
	if first, ok := lowest(devices); ok && m.Pods[p] == Whole {
		return 1 << first
	}
	return devices
}

// unschedulable handles an allocated claim if no node suffices. kube-scheduler deallocates a claim
// that is the reason on some node.
func (m *Model) unschedulable(t State, p PodID, emit func(Step, *State)) {
	c := &t.claim[p]
	if !c.allocated || c.shared && m.Rules.Has(OnlyUnused) {
		return
	}
	by := Drop
	if !m.Rules.Has(JudgeAllocated) {
		if c.shared || m.CPUs[1-c.at.node] == 0 {
			return
		}
		by = PostFilter
	}
	at := c.at
	m.deallocate(&t, p)
	emit(Step{by, p, at}, &t)
}

func (m *Model) deallocate(t *State, p PodID) {
	if t.claim[p].shared {
		t.broken = TakenAway
	}
	n := t.claim[p].at.node
	t.claim[p] = claim{}
	m.changed(t, n)
}

// changed ends the exclusion of a node whose CPUs or allocations have changed.
func (m *Model) changed(t *State, n NodeID) {
	for p := range t.excluded {
		t.refused[p] &^= 1 << n
		if m.Rules.Has(CPUsWake) {
			t.excluded[p] &^= 1 << n
		}
	}
}

// may reports whether the pod may write its Binding to the node now, because no other pod is about
// to.
func (t *State) may(p PodID) bool {
	turn := t.turn[t.cpu[p].node]
	return turn == 0 || turn == uint8(p)+1
}

// write does PreBind up to the write of the allocation.
func (m *Model) write(t State, p PodID, emit func(Step, *State)) {
	if !m.Rules.Has(TurnAfterWait) {
		if !t.may(p) {
			return
		}
		t.turn[t.cpu[p].node] = uint8(p) + 1
	}
	t.phase[p] = written
	if m.Pods[p] != Plain {
		t.claim[p].allocated, t.claim[p].reserved, t.claim[p].at = true, true, t.dev[p]
	}
	emit(Step{Write, p, t.dev[p]}, &t)
}

// bind does the rest of PreBind, Bind, and the kubelet's admission.
func (m *Model) bind(s *State, p PodID, emit func(Step, *State)) {
	n := s.cpu[p].node
	if !s.may(p) || m.Waits && n == 0 && m.Pods[p] != Plain && !s.ready {
		return
	}
	t := *s
	t.turn[n] = 0
	cpu, ok := lowest(m.free(s, n, p, false))
	if m.Decides[n] {
		cpu, ok = s.cpu[p].numa, true
	}
	if !ok || s.gone.Has(p) || m.Pods[p] != Plain && m.Rules.Has(JudgeAgain) && cpu != s.cpu[p].numa && cpu != s.dev[p].numa {
		t.phase[p] = failing
		emit(Step{GiveUp, p, place{n, cpu}}, &t)
		return
	}
	if s.left.Denials > 0 {
		u := t
		u.phase[p] = failing
		u.left.Denials--
		emit(Step{Deny, p, place{n, cpu}}, &u)
	}
	t.phase[p], t.cpu[p] = bound, place{n, cpu}
	if m.Pods[p] != Plain && cpu != s.dev[p].numa {
		t.broken = Misaligned
	}
	m.changed(&t, n)
	emit(Step{Bind, p, place{n, cpu}}, &t)
}

// takeBack does Unreserve.
func (m *Model) takeBack(t State, p PodID, emit func(Step, *State)) {
	c, n := &t.claim[p], t.cpu[p].node
	mine := c.allocated && (c.reserved || t.phase[p] == half) && m.Rules.Has(Deallocate) && !(c.shared && m.Rules.Has(OnlyUnused))
	if mine && t.phase[p] == failing && !m.Rules.Has(OneWrite) {
		t.phase[p], c.reserved = half, false
		emit(Step{Unreserve, p, c.at}, &t)
		return
	}
	t.phase[p] = pending
	at := c.at
	by := Unreserve
	if mine {
		by = TakeBack
		m.deallocate(&t, p)
	}
	t.claim[p].reserved = false
	m.changed(&t, n)
	emit(Step{by, p, at}, &t)
}

// controller deallocates a claim that is reserved only for a pod that is gone.
func (m *Model) controller(t State, p PodID, emit func(Step, *State)) {
	c := &t.claim[p]
	if !t.gone.Has(p) || !c.reserved {
		return
	}
	at := c.at
	c.reserved = false
	if !c.shared {
		*c = claim{}
	}
	m.changed(&t, at.node)
	emit(Step{Controller, p, at}, &t)
}

func (m *Model) worldPod(s *State, p PodID, emit func(Step, *State)) {
	if s.left.Deletions > 0 && !s.gone.Has(p) {
		t := *s
		t.left.Deletions--
		t.gone.Add(p)
		if s.phase[p] == bound {
			m.changed(&t, s.cpu[p].node)
		}
		emit(Step{Delete, p, s.cpu[p]}, &t)
	}
	if s.left.Sharers > 0 && s.claim[p].allocated && s.claim[p].reserved && !s.claim[p].shared {
		t := *s
		t.left.Sharers--
		t.claim[p].shared = true
		emit(Step{Share, p, s.claim[p].at}, &t)
	}
}

func (m *Model) world(s *State, emit func(Step, *State)) {
	if s.left.Crashes > 0 {
		t := *s
		t.left.Crashes--
		for p := range t.phase {
			if t.phase[p] != bound {
				t.phase[p], t.cpu[p], t.dev[p] = pending, place{}, place{}
			}
			t.excluded[p], t.refused[p] = 0, 0
		}
		t.turn = [Nodes]uint8{}
		emit(Step{Action: Crash}, &t)
	}
	if s.left.Ready > 0 && m.Waits && !s.ready {
		t := *s
		t.left.Ready--
		t.ready = true
		emit(Step{Action: GetReady}, &t)
	}
	if s.left.Slices == 0 {
		return
	}
	for n := NodeID(0); n < Nodes; n++ {
		for i := range uint8(2) {
			t := *s
			t.left.Slices--
			t.devices[n] ^= 1 << i
			for p := range t.excluded {
				t.refused[p] &^= 1 << n
				if m.Rules.Has(DevicesWake) {
					t.excluded[p] &^= 1 << n
				}
			}
			by := DeviceComes
			if s.devices[n]&(1<<i) != 0 {
				by = DeviceGoes
			}
			emit(Step{Action: by, At: place{n, i}}, &t)
		}
	}
}
