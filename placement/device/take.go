package device

import (
	"math/bits"

	"github.com/berth-dev/berth/placement/hint"
)

// Preference is how a device plugin chooses among devices (GetPreferredAllocation).
type Preference uint8

const (
	// None: the plugin has no GetPreferredAllocation, so the kubelet uses the random order of a Go
	// map.
	None Preference = iota
	// Sorted: the plugin takes the devices that it must include, then the first free devices in
	// order of their ids.
	Sorted
	// Unknown: the plugin has GetPreferredAllocation, but its rules are not known.
	Unknown
	// NVIDIA: the plugin chooses as NVIDIA documents it (nvidia.go). This needs Options.NVIDIA and,
	// for whole GPUs, Options.Points.
	NVIDIA

	// Preferences is the number of values.
	Preferences
)

// Taking is the input of Take.
type Taking struct {
	N int
	// InUse has the devices that containers hold. Reusable has the devices of the pod's finished
	// init containers; nil counts as empty.
	InUse, Reusable Set
	Hint            hint.Hint
	Prefer          Preference
}

// Take adds to out, which must be empty, the devices for a container that has no devices yet. It
// returns false if too few are free (the kubelet's "requested number of devices unavailable"). It
// does not change InUse. chance means that the kubelet could also take other devices.
func (p *Pool) Take(t *Taking, out Set) (chance, ok bool) {
	need := t.N
	if need <= 0 {
		return false, true
	}
	if t.Reusable != nil {
		reusable := t.Reusable.Len()
		chance = need < reusable
		need -= fill(out, need, func(w int) uint64 { return t.Reusable[w] })
		if need == 0 {
			return chance, true
		}
	}
	free := func(w int) uint64 { return p.healthy[w] &^ t.InUse[w] &^ out[w] }
	if p.total(free) < need {
		return false, false
	}
	aligned := func(w int) uint64 { return free(w) & p.alignedWord(t.Hint, w) }
	if n := p.total(aligned); need < n {
		return p.takeSome(t, need, aligned, out) || chance, true
	}
	if need -= fill(out, need, aligned); need == 0 {
		return chance, true
	}
	return p.takeRest(t, need, free, out) || chance, true
}

// alignedWord returns word w of the set of devices that have a NUMA node in the hint: the first
// list of the kubelet's filterByAffinity.
func (p *Pool) alignedWord(h hint.Hint, w int) uint64 {
	if h.Any || !p.aligned {
		return 0
	}
	var word uint64
	for i := range p.classes {
		if p.classes[i].mask&h.Mask != 0 {
			word |= p.classes[i].members[w]
		}
	}
	return word
}

// takeSome takes the needed number of aligned devices when more aligned devices are free than
// needed. The kubelet then offers the aligned and the reused devices to the plugin, and asks for N
// of them.
func (p *Pool) takeSome(t *Taking, need int, from func(int) uint64, out Set) (chance bool) {
	if t.Prefer == NVIDIA {
		return p.takeNVIDIA(need, from, out)
	}
	fill(out, need, from)
	return t.Prefer != Sorted
}

// takeRest takes the devices that are missing after all aligned devices are taken. A plugin with a
// preference chooses among all free devices. If the plugin has no preference, the kubelet takes
// devices of other NUMA nodes before devices without NUMA nodes.
func (p *Pool) takeRest(t *Taking, need int, free func(int) uint64, out Set) (chance bool) {
	if t.Prefer == Sorted {
		fill(out, need, free)
		return false
	}
	if t.Prefer == NVIDIA {
		if need == p.total(free) {
			fill(out, need, free)
			return false
		}
		return p.takeNVIDIA(need, free, out)
	}
	if t.Hint.Any || !p.aligned {
		chance = need < p.total(free)
		fill(out, need, free)
		return chance
	}
	for _, noded := range [2]bool{true, false} {
		part := func(w int) uint64 { return free(w) & p.nodedWord(w, noded) }
		n := p.total(part)
		chance = chance || need < n
		if need -= fill(out, need, part); need == 0 {
			break
		}
	}
	return chance || t.Prefer == Unknown
}

// nodedWord returns word w of the set of devices whose topology names NUMA nodes or, if noded is
// false, of the set of all other devices.
func (p *Pool) nodedWord(w int, noded bool) uint64 {
	var word uint64
	for i := range p.classes {
		if p.classes[i].hasNodes == noded {
			word |= p.classes[i].members[w]
		}
	}
	return word
}

func (p *Pool) total(word func(int) uint64) int {
	n := 0
	for w := range p.healthy {
		n += bits.OnesCount64(word(w))
	}
	return n
}

// fill adds devices to out, the lowest first and no more than need, and returns the number of
// devices that it added. from may read out, because fill reads each word once, before it changes
// the word.
func fill(out Set, need int, from func(int) uint64) int {
	left := need
	for w := range out {
		for m := from(w) &^ out[w]; m != 0 && left > 0; m &= m - 1 {
			out[w] |= m & -m
			left--
		}
	}
	return need - left
}
