package ledger

import "sync/atomic"

// Pulse tells without a lock whether an answer of a Node still holds: it does as long as the beat is the same and the
// candidate follows every pod in flight. It is a hint. Who acts on an answer asks again, as Reserve does.
type Pulse struct {
	// state is the beat, and in the lower half the standing; 0 while nobody has asked for it since the beat.
	state  atomic.Uint64
	newest atomic.Int64
}

// Now returns the present beat.
func (p *Pulse) Now() uint32 { return uint32(p.state.Load() >> 32) }

// Read returns the present beat and standing.
func (p *Pulse) Read() (beat uint32, s Standing) {
	v := p.state.Load()
	return uint32(v >> 32), Standing(v)
}

// Beat says that answers given before do not hold any more.
func (p *Pulse) Beat() {
	for {
		old := p.state.Load()
		if p.state.CompareAndSwap(old, (old>>32+1)<<32) {
			return
		}
	}
}

// Start sets the first beat.
func (p *Pulse) Start(beat uint32) { p.state.Store(uint64(beat) << 32) }

// stand tells the standing, unless the pulse has moved on.
func (p *Pulse) stand(beat uint32, s Standing) {
	p.state.CompareAndSwap(uint64(beat)<<32, uint64(beat)<<32|uint64(s))
}

// Follows says whether a pod created in that second comes after all pods in flight in every order.
func (p *Pulse) Follows(created int64) bool { return created > p.newest.Load() }

// Keep lets p tell whether answers of the node still hold, from now on.
func (n *Node) Keep(p *Pulse) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p.newest.Store(n.newest)
	n.pulse = p
}

// Sample is Admit with the beat at which the answer was given. Lasting says that the answer holds for every later
// candidate of the same shape that follows the pods in flight, until the next beat.
func (n *Node) Sample(c *Candidate) (a Answer, beat uint32, lasting bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	a = n.admit(c)
	return a, n.pulse.Now(), n.lasts(c)
}

// Estimate is Sample, but does not go through the orders in which a kubelet may admit the candidate and pods in flight that
// were created in the same second, or later: it answers for the order of Reserve alone. Sure says that nothing was left out;
// otherwise the answer is an admission, and Reserve has the last word.
func (n *Node) Estimate(c *Candidate) (a Answer, beat uint32, lasting, sure bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if a, ok := n.firstOrder(c); ok {
		return a, n.pulse.Now(), false, false
	}
	a = n.admit(c)
	return a, n.pulse.Now(), n.lasts(c), true
}

// lasts says whether an answer to the candidate is one to all of its shape that follow the pods in flight.
func (n *Node) lasts(c *Candidate) bool { return n.questionOf(c).shape != 0 && c.Created > n.newest }

// firstOrder answers for the order of Reserve, where there are others and nobody has gone through them.
func (n *Node) firstOrder(c *Candidate) (a Answer, ok bool) {
	if n.report == nil || n.answers.find(n.questionOf(c)) != nil {
		return Answer{}, false
	}
	n.compute()
	if c.Created > n.newest || n.full.uncertain() {
		return Answer{}, false
	}
	q := question{shape: n.questionOf(c).shape}
	if known := n.estimates.find(q); known != nil {
		return *known, known.OK()
	}
	a = n.full.ask(c.Request)
	a.Certain, a.Exact = false, false
	if q.shape != 0 {
		n.estimates.put(q, a)
	}
	return a, a.OK()
}

// setNewest notes the latest second of creation among the pods in flight.
func (n *Node) setNewest(second int64) {
	n.newest = second
	n.pulse.newest.Store(second)
}
