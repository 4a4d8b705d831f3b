package scheduler

import "github.com/berth-dev/berth/internal/wire"

// misses says why the node cannot keep the policy that a pod asks for in wire.PolicyAnnotation; "" when it can.
func (n *node) misses(p *wire.PodPolicy) string {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if n.kind == nil {
		return ""
	}
	return p.Unmet(&n.kind.Spec.Config)
}
