package scheduler

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/berth-dev/berth/internal/wire"
)

// strictness is the Topology Manager's policies, each promising what those before it do.
var strictness = []string{"none", "best-effort", "restricted", "single-numa-node"}

// misses says why the node cannot keep the policy that a pod asks for in wire.PolicyAnnotation; "" when it can. On a node
// with authority kubelet the kubelet's own policy counts: it must be the same or a stricter one, and the scope the same.
func (n *node) misses(p *wire.PodPolicy) string {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if n.wired == nil || p.Policy == "" {
		return ""
	}
	policy := cmp.Or(n.wired.Config.TopologyManagerPolicy, "none")
	scope := cmp.Or(n.wired.Config.TopologyManagerScope, "container")
	if slices.Index(strictness, policy) < slices.Index(strictness, p.Policy) || p.Scope != "" && p.Scope != scope {
		return fmt.Sprintf("its kubelet's policy is %s with scope %s, the pod's %s asks for %s", policy, scope, wire.PolicyAnnotation, p)
	}
	return ""
}
