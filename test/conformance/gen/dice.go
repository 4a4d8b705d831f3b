package gen

import "math/rand/v2"

// dice is a source of choices that depends only on the seed.
type dice struct{ *rand.Rand }

func newDice(seed uint64) dice { return dice{rand.New(rand.NewPCG(seed, 0x6265727468))} }

// chance returns true with a probability of that many percent.
func (d dice) chance(percent float64) bool { return d.Float64()*100 < percent }

// between returns a number from lo to hi, inclusive.
func (d dice) between(lo, hi int) int {
	if hi <= lo {
		return lo
	}
	return lo + d.IntN(hi-lo+1)
}

// pick returns one of the values.
func pick[T any](d dice, values ...T) T { return values[d.IntN(len(values))] }

// weighted returns an index with a probability in proportion to its weight.
func (d dice) weighted(weights ...int) int {
	sum := 0
	for _, w := range weights {
		sum += w
	}
	n := d.IntN(sum)
	for i, w := range weights {
		if n -= w; n < 0 {
			return i
		}
	}
	return len(weights) - 1
}

// some returns k of the values, in their order.
func some[T any](d dice, values []T, k int) []T {
	var out []T
	for i, v := range values {
		if left := len(values) - i; d.IntN(left) < k-len(out) {
			out = append(out, v)
		}
	}
	return out
}
