package scheduler

import (
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

// misses says why the node cannot keep the rules that a pod asks for; "" when it can.
func (n *node) misses(r placement.Rules) string {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if n.kind == nil || n.kind.Model == nil {
		return ""
	}
	return wire.Unmet(n.kind.Model, r)
}
