package placement

import "slices"

// PinsAlike reports if the CPU and memory managers see no difference between two versions of a pod.
func (m *Model) PinsAlike(a, b *Request) bool {
	if len(a.Containers) != len(b.Containers) {
		return false
	}
	for c := range a.Containers {
		if m.exclusiveCPUs(a, c) != m.exclusiveCPUs(b, c) {
			return false
		}
		if (m.pinsMemory(a, c) || m.pinsMemory(b, c)) && !slices.Equal(a.Containers[c].Memory, b.Containers[c].Memory) {
			return false
		}
	}
	return true
}

// GivesAsked reports if a decision gives each container as many CPUs of its own as the request asks
// for. It does not if the pod was resized in between.
func (m *Model) GivesAsked(r *Request, d *Decision) bool {
	for c := range r.Containers {
		at := slices.IndexFunc(d.Containers, func(g ContainerDecision) bool { return g.Name == r.Containers[c].Name })
		given := 0
		if at >= 0 {
			given = d.Containers[at].CPUs.Len()
		}
		if given != m.exclusiveCPUs(r, c) {
			return false
		}
	}
	return true
}
