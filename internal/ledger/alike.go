package ledger

// Pods that ask for the same can change places without anybody noticing: whichever the kubelet admits first gets what the
// first one gets, and what is left for others is the same. So of all orders, and of all sets of pods that have come, that
// differ only in this, one is gone through. A replica set's pods come to a node in one second; without this five of them were
// more orders than are gone through.

// alike says whether two pods in flight may change places.
func (p *pod) alike(q *pod) bool {
	return p == q || !p.apart && !q.apart && p.ending == q.ending && p.kindOfRequest() == q.kindOfRequest()
}

// alikeInDebt says whether two pods may change places though each is to get what it was promised.
func (p *pod) alikeInDebt(q *pod) bool {
	return p == q || !p.owedCPUs() && !q.owedCPUs() && p.alike(q)
}

func (p *pod) owedCPUs() bool { return p.promise != nil && p.promise.Exact }

// kindOfRequest is equal for requests that get the same decisions on the same state.
func (p *pod) kindOfRequest() string {
	if p.shape == "" {
		p.shape = string(requestKey(p.req))
	}
	return p.shape
}

// supposing returns the states that the question what would be without certain pods begins with: it matters there which is
// which. They are those after the posted pods, and where asked for after the reserved ones too, and are the caller's.
func (n *Node) supposing(uids []string, reserved bool) worlds {
	n.compute()
	apart := n.exchangeable(uids)
	if len(apart) == 0 {
		if reserved {
			return n.full.clone()
		}
		return n.base.clone()
	}
	for _, p := range apart {
		p.apart = true
	}
	first := n.start()
	w := first.landAll(n.flight(reserved))
	for _, p := range apart {
		p.apart = false
	}
	return w
}

// exchangeable returns those of the pods that can change places with another one.
func (n *Node) exchangeable(uids []string) []*pod {
	var list []*pod
	for _, uid := range uids {
		if p := n.pods[uid]; p != nil && n.hasTwin(p) {
			list = append(list, p)
		}
	}
	return list
}

func (n *Node) hasTwin(p *pod) bool {
	if p.stage == landedStage {
		return false
	}
	for _, q := range n.pods {
		if q != p && q.stage != landedStage && q.alike(p) {
			return true
		}
	}
	return false
}

// addArrivals adds the admissions of pods whose place in the order is not known, and returns those that are possible now.
// Of pods that are alike, each comes after the one before.
func (w *worlds) addArrivals(afloat []*pod) uint32 {
	var possible uint32
	events := make([]uint32, len(afloat))
	for i := len(afloat) - 1; i >= 0; i-- {
		p := afloat[i]
		then := w.eventsAfter(p)
		for j := i + 1; j < len(afloat); j++ {
			if p.alike(afloat[j]) {
				then |= events[j]
				possible &^= events[j]
				break
			}
		}
		events[i] = w.addEvent(event{kind: admit, uid: p.uid, req: p.req, then: then})
		possible |= events[i]
	}
	return possible
}
