package gang

import (
	"slices"
	"strconv"

	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/interpodaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
)

// shut records the nodes that have refused members of a coupled kind (isCoupled), so that the trial
// does not ask these nodes again for each member. If a node refuses a member because of the pods in
// its topology domain, every other node of the domain refuses the member too, until a member is
// placed in another domain.
type shut struct {
	// full has the nodes that refuse the kind, even if members are placed on other nodes.
	full []bool
	// spread and affinity have the domains for PodTopologySpread and InterPodAffinity, the plugins
	// whose refusals hold for a whole domain. A domain is a combination of values of the node
	// labels that the plugin reads. closed counts the refusals that hold for a whole domain.
	spread, affinity domains
	closed           int
}

type domains struct {
	of     []int32 // the domain of each node
	closed []bool  // whether each domain has refused the kind
}

// passes reports whether a refusal holds for a whole domain and may end when members are placed on
// other nodes. It returns false for a refusal by the anti-affinity of existing pods, because their
// terms may have any topology key.
func passes(said *fwk.Status) bool {
	switch said.Plugin() {
	case names.PodTopologySpread:
		return said.Code() == fwk.Unschedulable // otherwise the node lacks the label
	case names.InterPodAffinity:
		return !slices.Contains(said.Reasons(), interpodaffinity.ErrReasonExistingAntiAffinityRulesNotMatch)
	}
	return false
}

func (s *shut) close(t *trial, k *kind, node int, said *fwk.Status) {
	if s.full == nil {
		s.full = make([]bool, len(t.infos))
		s.spread, s.affinity = newDomains(t, spreadKeys(k.pod)), newDomains(t, affinityKeys(k.pod))
	}
	switch {
	case !passes(said):
		s.full[node] = true
		return
	case said.Plugin() == names.PodTopologySpread:
		s.spread.closed[s.spread.of[node]] = true
	default:
		s.affinity.closed[s.affinity.of[node]] = true
	}
	s.closed++
}

// has reports whether the node, or its domain, has refused the kind.
func (s *shut) has(node int) bool {
	return s.full != nil && (s.full[node] || s.closed > 0 && (s.spread.closed[s.spread.of[node]] || s.affinity.closed[s.affinity.of[node]]))
}

// reopen forgets the refusals that hold for whole domains, and reports whether there were any.
func (s *shut) reopen() bool {
	if s.closed == 0 {
		return false
	}
	clear(s.spread.closed)
	clear(s.affinity.closed)
	s.closed = 0
	return true
}

func newDomains(t *trial, keys []string) domains {
	d := domains{of: make([]int32, len(t.infos))}
	number := map[string]int32{}
	t.budget.Spend(len(t.infos) / 8)
	for i, info := range t.infos {
		text := ""
		for _, key := range keys {
			if value, ok := info.Node().Labels[key]; ok {
				text += strconv.Quote(value)
			}
			text += ","
		}
		n, ok := number[text]
		if !ok {
			n = int32(len(number))
			number[text] = n
		}
		d.of[i] = n
	}
	d.closed = make([]bool, len(number))
	return d
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}
