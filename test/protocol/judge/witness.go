package judge

// knows reports whether shadow mode has seen the pod on the node.
func (s *shadow) knows(p Pod) bool { return s.entries[p].open || s.entries[p].closed }

// seePod handles a version of a pod from the watch.
func (w *walk) seePod(s *State, v event) {
	rules, e := w.c.Rules, &s.entries[v.pod]
	switch v.what {
	case bound, listed:
		if e.closed {
			s.broken = CountedTwice
		}
		if !s.knows(v.pod) {
			w.predict(s, v)
		}
	case admitted:
		e.admitted = true
		if e.open && e.expects == 0 && !e.unjudged {
			w.answered(s, v)
		}
	case refused, refusedOtherwise:
		s.drop(v.pod)
		w.answered(s, v)
	case ended:
		s.drop(v.pod)
	case gone:
		s.drop(v.pod)
		switch {
		case !e.open || e.answer != none:
		case e.admitted && e.expects != 0:
			w.answered(s, event{admitted, v.pod, v.rev})
		case rules.Has(GoneUnseen):
			e.unjudged = true
			w.count(s, v.pod, true)
		default:
			w.count(s, v.pod, e.expects != 0)
		}
	}
}

// drop records that a pod no longer holds CPUs.
func (s *State) drop(p Pod) {
	s.departed.Add(p)
	s.strange.Drop(p)
}

// predict predicts the kubelet's answer to a pod. It assumes that the kubelet admits the pod after
// all other pods that shadow mode knows.
func (w *walk) predict(s *State, v event) {
	p, rules := v.pod, w.c.Rules
	reported := s.seen.held[p] != 0
	e := entry{open: true, hindsight: reported}
	switch {
	case (v.what == listed || s.strange != 0) && rules.Has(ListsHaveNoOrder),
		(!s.seen.written || w.c.Older) && rules.Has(KnowStart),
		s.seen.written && s.seen.rev >= v.rev && rules.Has(ReportBefore):
		e.unjudged = true
	}
	held := [pods]CPUs{}
	taken := CPUs(0)
	hold := func(q Pod, cpus CPUs) {
		if cpus != 0 {
			held[q] = cpus
			taken |= cpus
			e.company.Add(q)
		}
	}
	for q := range Pod(pods) {
		if q != p && !s.departed.Has(q) {
			hold(q, s.seen.held[q])
		}
	}
	for _, q := range s.order[:s.known] {
		if held[q] == 0 && !s.departed.Has(q) {
			hold(q, fit(q, taken))
		}
	}
	if e.expects = fit(p, taken); reported {
		e.expects = s.seen.held[p]
	}
	s.order[s.known] = p
	s.known++
	if v.what == listed && !reported {
		s.strange.Add(p)
	}
	s.entries[p] = e
}

// answered records an answer that the API shows.
func (w *walk) answered(s *State, v event) {
	e := &s.entries[v.pod]
	if !e.open {
		return
	}
	e.answer, e.answered = v.what, v.rev
	if e.unjudged || !w.c.Rules.Has(AnswerWaits) {
		w.countAnswer(s, v.pod)
	}
}

func (w *walk) countAnswer(s *State, p Pod) {
	e := &s.entries[p]
	if e.answer == refusedOtherwise && w.c.Rules.Has(ManagersOnly) {
		e.unjudged = true
	}
	w.count(s, p, (e.answer == admitted) == (e.expects != 0))
}

// seeReport handles the newest report.
func (w *walk) seeReport(s *State) {
	rules, before := w.c.Rules, s.seen
	s.seen = s.report
	var has Set
	for p := range Pod(pods) {
		if s.seen.held[p] != 0 {
			has.Add(p)
			s.strange.Drop(p)
		} else if before.held[p] != 0 {
			s.drop(p)
		}
	}
	restarted := before.written && before.start != s.seen.start
	for p := range Pod(pods) {
		e := &s.entries[p]
		if !e.open {
			continue
		}
		answered := e.answer != none && (s.seen.rev >= e.answered || !rules.Has(WrittenAfter))
		if !has.Has(p) && !answered && !restarted {
			continue
		}
		if restarted && rules.Has(RestartDoubts) || e.company&^has != 0 && rules.Has(SameCompany) {
			e.unjudged = true
		}
		switch {
		case has.Has(p):
			w.count(s, p, e.expects == s.seen.held[p])
		case answered || e.unjudged:
			w.countAnswer(s, p)
		}
	}
}

// count counts a pod, and checks the promises.
func (w *walk) count(s *State, p Pod, right bool) {
	e := &s.entries[p]
	switch {
	case e.unjudged:
	case e.hindsight:
		s.broken = Hindsight
	case s.did[p] == none:
		s.broken = Unanswered
	case e.across:
		s.broken = AcrossStart
	case !right:
		s.broken = CalledWrong
	default:
		w.right++
		if e.expects == 0 {
			w.refused++
		}
	}
	*e = entry{closed: true}
}
