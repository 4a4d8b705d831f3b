package topology

import (
	"fmt"
	"iter"
	"math/bits"
	"strconv"
	"strings"
)

// MaxCPUs is the number of logical processors that a CPUSet can hold.
const MaxCPUs = 1024

const cpuWords = MaxCPUs / 64

// CPUSet is a set of logical processors, by the operating system's number. It is a comparable value
// of 128 bytes; the zero value is the empty set. Set operations do not allocate.
type CPUSet struct {
	w [cpuWords]uint64
}

// NewCPUSet returns the set of the given CPUs. It panics if an id is not below MaxCPUs; use
// ParseCPUList for input from outside.
func NewCPUSet(ids ...CPUID) CPUSet {
	var s CPUSet
	for _, id := range ids {
		s.Add(id)
	}
	return s
}

// Add puts id into the set. It panics if id is not below MaxCPUs.
func (s *CPUSet) Add(id CPUID) { s.w[id/64] |= 1 << (id % 64) }

// Remove takes id out of the set.
func (s *CPUSet) Remove(id CPUID) {
	if id < MaxCPUs {
		s.w[id/64] &^= 1 << (id % 64)
	}
}

// Has reports whether id is in the set.
func (s *CPUSet) Has(id CPUID) bool { return id < MaxCPUs && s.w[id/64]>>(id%64)&1 == 1 }

// Len returns the number of CPUs in the set.
func (s *CPUSet) Len() int {
	n := 0
	for _, w := range s.w {
		n += bits.OnesCount64(w)
	}
	return n
}

// IsEmpty reports whether the set has no CPU.
func (s *CPUSet) IsEmpty() bool { return *s == CPUSet{} }

// And returns the CPUs that are in both sets.
func (s CPUSet) And(o *CPUSet) CPUSet {
	for i := range s.w {
		s.w[i] &= o.w[i]
	}
	return s
}

// Or returns the CPUs that are in either set.
func (s CPUSet) Or(o *CPUSet) CPUSet {
	for i := range s.w {
		s.w[i] |= o.w[i]
	}
	return s
}

// AndNot returns the CPUs of s that are not in o.
func (s CPUSet) AndNot(o *CPUSet) CPUSet {
	for i := range s.w {
		s.w[i] &^= o.w[i]
	}
	return s
}

// AndLen returns the size of the intersection.
func (s *CPUSet) AndLen(o *CPUSet) int {
	n := 0
	for i := range s.w {
		n += bits.OnesCount64(s.w[i] & o.w[i])
	}
	return n
}

// Intersects reports whether the sets share a CPU.
func (s *CPUSet) Intersects(o *CPUSet) bool {
	for i := range s.w {
		if s.w[i]&o.w[i] != 0 {
			return true
		}
	}
	return false
}

// IsSubsetOf reports whether every CPU of s is in o.
func (s *CPUSet) IsSubsetOf(o *CPUSet) bool {
	for i := range s.w {
		if s.w[i]&^o.w[i] != 0 {
			return false
		}
	}
	return true
}

// Lowest returns the lowest CPU of the set, or false if the set is empty.
func (s *CPUSet) Lowest() (CPUID, bool) {
	for i, w := range s.w {
		if w != 0 {
			return CPUID(i*64 + bits.TrailingZeros64(w)), true
		}
	}
	return 0, false
}

// All yields the CPUs in ascending order.
func (s CPUSet) All() iter.Seq[CPUID] {
	return func(yield func(CPUID) bool) {
		for i, w := range s.w {
			for ; w != 0; w &= w - 1 {
				if !yield(CPUID(i*64 + bits.TrailingZeros64(w))) {
					return
				}
			}
		}
	}
}

// Words returns the set as machine words, lowest CPUs first, for fast loops.
func (s *CPUSet) Words() *[cpuWords]uint64 { return &s.w }

// String prints the set as a kernel CPU list ("0-3,8,10-11"); the empty set prints as "". It
// allocates.
func (s CPUSet) String() string { return string(s.AppendText(nil)) }

// AppendText appends the kernel CPU list to b.
func (s CPUSet) AppendText(b []byte) []byte {
	start := len(b)
	for id, ok := s.next(0); ok; {
		end := id
		for s.Has(end + 1) {
			end++
		}
		if len(b) > start {
			b = append(b, ',')
		}
		b = strconv.AppendUint(b, uint64(id), 10)
		if end > id {
			b = append(b, '-')
			b = strconv.AppendUint(b, uint64(end), 10)
		}
		id, ok = s.next(end + 1)
	}
	return b
}

// The method next returns the lowest CPU of the set that is not below from, or false if there is
// none.
func (s *CPUSet) next(from CPUID) (CPUID, bool) {
	if from >= MaxCPUs {
		return 0, false
	}
	i := from / 64
	w := s.w[i] &^ (1<<(from%64) - 1)
	for w == 0 {
		if i++; i == cpuWords {
			return 0, false
		}
		w = s.w[i]
	}
	return i*64 + CPUID(bits.TrailingZeros64(w)), true
}

// MarshalText implements encoding.TextMarshaler with the kernel CPU list.
func (s CPUSet) MarshalText() ([]byte, error) { return s.AppendText(nil), nil }

// UnmarshalText implements encoding.TextUnmarshaler; see ParseCPUList.
func (s *CPUSet) UnmarshalText(b []byte) error {
	set, err := ParseCPUList(string(b))
	if err == nil {
		*s = set
	}
	return err
}

// ParseCPUList reads a kernel CPU list: ids and ranges separated by commas, in any order, with
// optional strides as in the kernel's bitmap_parselist ("0-7:2/4"). It ignores white space around
// items. "" is the empty set. The error names the item.
func ParseCPUList(list string) (CPUSet, error) {
	var s CPUSet
	list = strings.TrimSpace(list)
	if list == "" {
		return s, nil
	}
	for item := range strings.SplitSeq(list, ",") {
		if err := s.addRange(strings.TrimSpace(item)); err != nil {
			return CPUSet{}, fmt.Errorf("CPU list %.80q: %w", list, err)
		}
	}
	return s, nil
}

// addRange adds "a", "a-b" or "a-b:used/group".
func (s *CPUSet) addRange(item string) error {
	span, stride, strided := strings.Cut(item, ":")
	from, to, ranged := strings.Cut(span, "-")
	lo, err := parseCPUID(from)
	if err != nil {
		return err
	}
	hi := lo
	if ranged {
		if hi, err = parseCPUID(to); err != nil {
			return err
		}
	}
	if hi < lo {
		return fmt.Errorf("range %.40q ends before it begins", item)
	}
	used, group := 1, 1
	if strided {
		if used, group, err = parseStride(stride); err != nil {
			return err
		}
	}
	for i := 0; lo+CPUID(i) <= hi; i++ {
		if i%group < used {
			s.Add(lo + CPUID(i))
		}
	}
	return nil
}

func parseStride(text string) (used, group int, err error) {
	u, g, ok := strings.Cut(text, "/")
	used, err1 := strconv.Atoi(u)
	group, err2 := strconv.Atoi(g)
	if !ok || err1 != nil || err2 != nil || used < 1 || group < used || group > MaxCPUs {
		return 0, 0, fmt.Errorf("stride %.40q: want USED/GROUP with 1 <= USED <= GROUP <= %d", text, MaxCPUs)
	}
	return used, group, nil
}

func parseCPUID(text string) (CPUID, error) {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%.40q is not a CPU id: want a decimal number below %d", text, MaxCPUs)
	}
	if n >= MaxCPUs {
		return 0, fmt.Errorf("CPU id %d is too large: the limit is %d", n, MaxCPUs-1)
	}
	return CPUID(n), nil
}
