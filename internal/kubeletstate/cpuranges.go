package kubeletstate

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/topology"
)

// cpuRanges is a set of arbitrary ints, like a k8s.io/utils/cpuset.CPUSet, in ascending ranges that
// do not touch. topology.CPUSet is too small: a checkpoint may name CPUs that no machine has, and
// the kubelet's message lists them.
type cpuRanges []cpuRange

type cpuRange struct{ first, last int }

// parseRanges returns the same result and the same errors as cpuset.Parse.
func parseRanges(list string) (cpuRanges, error) {
	if list == "" {
		return nil, nil
	}
	var out cpuRanges
	for item := range strings.SplitSeq(list, ",") {
		low, high, isRange := strings.Cut(item, "-")
		first, err := strconv.Atoi(low)
		if err != nil {
			return nil, err
		}
		last := first
		if isRange {
			if last, err = strconv.Atoi(high); err != nil {
				return nil, err
			}
		}
		if first > last {
			return nil, fmt.Errorf("invalid range %q (%d > %d)", item, first, last)
		}
		out = append(out, cpuRange{first, last})
	}
	return out.merged(), nil
}

func rangesOf(set topology.CPUSet) cpuRanges {
	var out cpuRanges
	for id := range set.All() {
		out = append(out, cpuRange{int(id), int(id)})
	}
	return out.merged()
}

// merged sorts the ranges and joins ranges that overlap or touch.
func (r cpuRanges) merged() cpuRanges {
	slices.SortFunc(r, func(a, b cpuRange) int { return cmp.Compare(a.first, b.first) })
	out := r[:0]
	for _, next := range r {
		if n := len(out); n > 0 && next.first-1 <= out[n-1].last {
			out[n-1].last = max(out[n-1].last, next.last)
			continue
		}
		out = append(out, next)
	}
	return out
}

// and returns the CPUs that are in both sets. It is fast if r has few ranges.
func (r cpuRanges) and(o cpuRanges) (both cpuRanges) {
	for _, c := range r {
		i, _ := slices.BinarySearchFunc(o, c.first, func(x cpuRange, first int) int { return cmp.Compare(x.last, first) })
		for ; i < len(o) && o[i].first <= c.last; i++ {
			both = append(both, cpuRange{max(c.first, o[i].first), min(c.last, o[i].last)})
		}
	}
	return both
}

func (r cpuRanges) without(o cpuRanges) (rest cpuRanges) {
	for _, c := range r {
		for _, gone := range (cpuRanges{c}).and(o) {
			if c.first < gone.first {
				rest = append(rest, cpuRange{c.first, gone.first - 1})
			}
			if c.first = gone.last + 1; gone.last == c.last {
				break
			}
		}
		if c.first <= c.last && c.first >= 0 {
			rest = append(rest, c)
		}
	}
	return rest
}

// String writes the set as the kubelet does, such as "0-3,8".
func (r cpuRanges) String() string {
	var b strings.Builder
	for i, c := range r {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(c.first))
		if c.last > c.first {
			b.WriteByte('-')
			b.WriteString(strconv.Itoa(c.last))
		}
	}
	return b.String()
}
