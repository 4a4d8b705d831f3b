package device

import "github.com/berth-dev/berth/placement/hint"

// maxInline is the largest number of classes for which Hints allocates no memory.
const maxInline = 64

// HintInput is the input of Hints.
type HintInput struct {
	// N is the requested number of devices.
	N int
	// Available are the free devices, or the devices of a container that already has N devices.
	// Reusable are the devices of the pod's finished init containers. If Reusable is nil, it counts
	// as empty.
	Available, Reusable Set
	// Want decides whether Hints must fill List.Offered.
	Want hint.Want
}

// Hints fills the list as the kubelet's generateDeviceTopologyHints does. A mask is in the list if
// it has a NUMA node of each reusable device with a topology, and at least N available or reusable
// devices have a NUMA node in the mask.
func (p *Pool) Hints(in *HintInput, out *hint.List) {
	if !p.aligned {
		out.Reset(hint.NoPreference)
		return
	}
	out.Reset(hint.Masks)
	var counts [maxInline]counted
	c := p.count(in.Available, in.Reusable, counts[:0])
	size := p.MinSize(in.N)
	found := p.mark(c, size, in.N, out.Preferred)
	if in.Want == hint.Preferred {
		return
	}
	copy(out.Offered, out.Preferred)
	for k := 1; k <= p.nodes.Len(); k++ {
		if k != size {
			found = p.mark(c, k, in.N, out.Offered) || found
		}
	}
	if !found {
		out.Kind = hint.Impossible
	}
}

// counted is a class with the number of its devices that the container can get.
type counted struct {
	mask hint.Mask
	// must means that the class has a reusable device, so a mask must have a NUMA node of the
	// class.
	must bool
	n    int
}

func (p *Pool) count(available, reusable Set, buf []counted) []counted {
	for i := range p.classes {
		c := &p.classes[i]
		k := counted{mask: c.mask, n: available.AndLen(c.members)}
		if c.hasTopology && reusable != nil {
			r := reusable.AndLen(c.members)
			k.n += r
			k.must = r > 0
		}
		if k.n > 0 {
			buf = append(buf, k)
		}
	}
	return buf
}

// MinSize returns the size of the smallest set of NUMA nodes that has n devices, free or not. If no
// set has n devices, it returns the number of all NUMA nodes that hints may use.
func (p *Pool) MinSize(n int) int {
	for k := 1; k < p.nodes.Len(); k++ {
		if p.most[k] >= n {
			return k
		}
	}
	return p.nodes.Len()
}

// mark adds to set the masks of a size that serve the request for n devices, and reports whether
// there are any.
func (p *Pool) mark(classes []counted, size, n int, set hint.Set) (found bool) {
	for _, mask := range p.space.OfSize(size) {
		if mask&^p.nodes == 0 && serves(classes, mask, n) {
			set.Add(mask)
			found = true
		}
	}
	return found
}

func serves(classes []counted, mask hint.Mask, n int) bool {
	for i := range classes {
		switch touches := classes[i].mask&mask != 0; {
		case touches:
			n -= classes[i].n
		case classes[i].must:
			return false
		}
	}
	return n <= 0
}
