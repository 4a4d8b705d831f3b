package placement

import "github.com/berth-dev/berth/placement/joint"

// The resources of a Refusal where Berth decides: CPUs of one's own, and CPU time in thousandths.
const shareResource = "cpu shares (m)"

// explainJointly is Explain where Berth decides: what the pod, or the container at which it
// stopped, asks for, and what each NUMA node has of it.
func explainJointly(s *State, r *Request, out Refusal, v *Verdict) Refusal {
	ad := newAdmission(s.m)
	ad.rules = s.m.rulesFor(r.Rules)
	ad.s, ad.r, ad.d = s, r, new(Decision)
	ad.resetDecision()
	ad.joint.try.Begin(s.account)
	copy(ad.provision.given, s.given)
	at := wholePod
	if ad.rules.Scope == PodScope && ad.rules.Policy != PolicyNone {
		ad.wantPod()
	} else {
		out.Container = r.Containers[v.Container].Name
		ad.runJointly()
		at = int(v.Container)
		ad.wantContainer(at)
	}
	w, book := &ad.joint.want, &ad.joint.try.Book
	if w.CPUs > 0 {
		n := Need{Resource: cpuResource, Asked: uint64(w.CPUs)}
		for pos := range s.m.space.Len() {
			free := uint64(s.m.joint.FreeOn(book, pos))
			n.add(s.m, pos, free, s.m.joint.Capacity(joint.CPU, pos)/1000)
		}
		out.Needs = append(out.Needs, n)
	}
	for _, a := range w.Amounts {
		n := Need{Resource: shareResource, Asked: a.N}
		if a.Kind != joint.CPU {
			n.Resource = s.m.joint.KindName(a.Kind)
		}
		for pos := range s.m.space.Len() {
			n.add(s.m, pos, s.m.joint.Room(book, a.Kind, pos), s.m.joint.Capacity(a.Kind, pos))
		}
		out.Needs = append(out.Needs, n)
	}
	out.Needs = ad.explainProvided(out.Needs, at)
	return out
}

// add adds a NUMA node that has any of the resource.
func (n *Need) add(m *Model, pos int, free, total uint64) {
	n.Free += free
	if total > 0 {
		n.Nodes = append(n.Nodes, NodeAmount{NUMA: m.space.ID(pos), Free: free, Total: total})
	}
}
