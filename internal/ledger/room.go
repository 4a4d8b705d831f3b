package ledger

import "strconv"

// Room returns how many pods like the candidate the node takes one after the other, at most limit.
func (n *Node) Room(c *Candidate, limit int) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.report == nil {
		return 0
	}
	n.compute()
	w := n.full.clone()
	for room := range limit {
		r := *c.Request
		r.UID += "/" + strconv.Itoa(room)
		if w.uncertain() {
			return room
		}
		w.own()
		for i := 0; i < len(w.all); i++ {
			if !w.commit(&w.all[i], &r) {
				return room
			}
		}
	}
	return limit
}
