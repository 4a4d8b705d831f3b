package wake

// wakeAgain records that a node admits a class and may have admitted it before its change too. The
// caller holds the lock.
func (w *Waiters) wakeAgain(c *change, m *members, free room) {
	a := &w.again
	r := a.byShape[m.class.shape]
	if r == nil {
		r = &renewal{wakeRound: newRound(c, m.class.shape)}
		a.byShape[r.shape] = r
	}
	if r.node != c.node {
		r.several, r.blamed = true, nil
	}
	if c.blamed() == nil {
		r.blamed = nil
	}
	switch {
	case r.several:
		free.apart = nil
	case free.pods == 0: // another class of the shape has recorded the room
		free.apart = r.room.apart
	}
	r.room = room{min(r.room.pods+free.pods, maxAgain), free.apart}
	r.node, r.more = c.node, len(r.woken) > 0
	a.add(m)
}

// renew gives classes their turns while the budget lasts. The caller does not hold the lock.
func (w *Waiters) renew() {
	for w.renewNext() {
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if a := &w.again; !a.timed && (a.spent > 0 || a.line.Len()+len(a.later) > 0) {
		a.timed = true
		w.edge.After(RoundPause, w.refill)
	}
}

// refill starts a new budget after a pause.
func (w *Waiters) refill() {
	w.mu.Lock()
	a := &w.again
	a.spent, a.timed = 0, false
	later := a.later
	a.later = nil
	for _, m := range later {
		if r := a.byShape[m.class.shape]; r != nil {
			r.turned = false
			a.add(m)
		}
	}
	w.mu.Unlock()
	w.renew()
}

// renewNext gives the next class its turn. It returns false if no class waits for a turn, or if the
// budget is spent.
func (w *Waiters) renewNext() bool {
	w.mu.Lock()
	m := w.again.next()
	var r *renewal
	if m != nil {
		r = w.again.byShape[m.class.shape]
	}
	if r == nil || r.turned && r.room.pods == 0 {
		if r != nil {
			w.again.add(m)
		}
		w.mu.Unlock()
		return m != nil
	}
	from, free := r.roundKey, r.room
	if r.several && free.pods == 0 {
		free.pods = maxRoom // one of the nodes may have room
	}
	w.mu.Unlock()
	if free.pods == 0 { // no lock is held while a node is asked
		free = w.roomOf(from)
	}
	pods := batch{}
	w.mu.Lock()
	if w.again.byShape[r.shape] == r {
		w.turn(m, r, free, pods)
	}
	w.mu.Unlock()
	w.activate(pods)
	return true
}

// turn wakes as many pods of the shape as room and budget allow. The caller holds the lock.
func (w *Waiters) turn(m *members, r *renewal, free room, pods batch) {
	a := &w.again
	some, left := w.wakeSome(&r.wakeRound, room{min(free.pods, maxAgain-a.spent), free.apart}, pods)
	a.spent += some
	r.room, r.turned = room{}, true
	switch {
	case free.pods > 0 && left > 0:
	case r.more:
		r.more = false
		clear(r.woken)
	default:
		delete(a.byShape, r.shape)
		return
	}
	if w.byClass[m.class] != m { // the class is gone, but the shape has other classes
		m = w.byShape[r.shape][0]
	}
	a.add(m)
}
