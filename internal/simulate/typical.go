package simulate

import (
	"cmp"
	"slices"
	"strings"
)

// Typical is a shape with its share of the expected load.
type Typical struct {
	Shape *Shape
	Part  float64 // of all pods with a typical shape, from 0 to 1
}

// Together, the typical shapes cover at least typicalPart of all pods.
const typicalPart = 0.95

// typical returns the most frequent shapes of a load, until they cover typicalPart of the pods.
// Shapes that differ only in memory, huge pages or other devices count as one. `count` has the
// number of pods of each shape.
func typical(all []Shape, count []int) []Typical {
	type key struct {
		cpu, gpu int64
		gpus     int
		models   string
	}
	total, known, out := 0, map[key]int{}, []Typical(nil)
	for i := range all {
		s := &all[i]
		k := key{s.MilliCPU, s.MilliGPU, s.GPUs, strings.Join(s.GPUModels, "|")}
		at, ok := known[k]
		if !ok {
			at = len(out)
			known[k] = at
			out = append(out, Typical{Shape: s})
		}
		out[at].Part += float64(count[i])
		total += count[i]
	}
	slices.SortStableFunc(out, func(a, b Typical) int { return TypicalOrder(&a, &b) })
	covered := 0.0
	for i := range out {
		if covered >= typicalPart*float64(total) {
			out = out[:i]
			break
		}
		covered += out[i].Part
	}
	for i := range out {
		out[i].Part /= covered
	}
	return out
}

// TypicalOrder orders shapes by frequency, most frequent first, and then by size, largest first.
func TypicalOrder(a, b *Typical) int {
	s, o := a.Shape, b.Shape
	return cmp.Or(cmp.Compare(b.Part, a.Part), cmp.Compare(o.MilliCPU, s.MilliCPU), cmp.Compare(o.MilliGPU, s.MilliGPU), cmp.Compare(o.GPUs, s.GPUs),
		cmp.Compare(strings.Join(o.GPUModels, "|"), strings.Join(s.GPUModels, "|")))
}
