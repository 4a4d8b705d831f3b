package explore

import (
	"fmt"
	"math/bits"
	"strings"
)

// Pod is a pod's index in a model.
type Pod uint8

func (p Pod) String() string { return string('a' + rune(p)) }

// Pods is a set of pods, bit p for pod p.
type Pods uint8

// Has reports whether the pod is in the set.
func (s Pods) Has(p Pod) bool { return s&(1<<p) != 0 }

// Add adds the pod to the set.
func (s *Pods) Add(p Pod) { *s |= 1 << p }

// Drop removes the pod from the set.
func (s *Pods) Drop(p Pod) { *s &^= 1 << p }

// CPUs is a set of the CPUs of a model's node, bit n for CPU n.
type CPUs uint8

// Len returns the number of CPUs.
func (c CPUs) Len() int { return bits.OnesCount8(uint8(c)) }

// Lowest returns the n lowest CPUs.
func (c CPUs) Lowest(n int) (got CPUs) {
	for ; n > 0; n-- {
		bit := c & -c
		got, c = got|bit, c&^bit
	}
	return got
}

// String lists the CPUs, as in {0,1}.
func (c CPUs) String() string {
	var ids []string
	for i := range 8 {
		if c&(1<<i) != 0 {
			ids = append(ids, fmt.Sprint(i))
		}
	}
	return "{" + strings.Join(ids, ",") + "}"
}
