package topology

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// slowSet is a simple implementation of CPUSet, for comparison.
type slowSet map[CPUID]bool

func (s slowSet) fast() (out CPUSet) {
	for id := range s {
		out.Add(id)
	}
	return out
}

// list prints a set as a list of single CPUs.
func (s slowSet) list() string {
	var parts []string
	for _, id := range slices.Sorted(maps.Keys(s)) {
		parts = append(parts, strconv.Itoa(int(id)))
	}
	return strings.Join(parts, ",")
}

func randomSet(r *rand.Rand) slowSet {
	s := slowSet{}
	for range r.IntN(40) {
		from := r.IntN(MaxCPUs)
		for id := from; id < min(MaxCPUs, from+1+r.IntN(70)); id++ {
			s[CPUID(id)] = true
		}
	}
	return s
}

func TestCPUSetAgreesWithTwin(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		sa, sb := randomSet(r), randomSet(r)
		a, b := sa.fast(), sb.fast()
		and, or, not := slowSet{}, maps.Clone(sa), slowSet{}
		maps.Copy(or, sb)
		for id := range sa {
			if sb[id] {
				and[id] = true
			} else {
				not[id] = true
			}
		}
		for _, c := range []struct {
			name string
			got  CPUSet
			want slowSet
		}{{"and", a.And(&b), and}, {"or", a.Or(&b), or}, {"and not", a.AndNot(&b), not}} {
			if c.got != c.want.fast() {
				t.Fatalf("%s of %s and %s is %s", c.name, a, b, c.got)
			}
		}
		if a.Len() != len(sa) || a.AndLen(&b) != len(and) || a.Intersects(&b) != (len(and) > 0) || a.IsSubsetOf(&b) != (len(not) == 0) {
			t.Fatalf("sizes of %s and %s: %d, %d, %v, %v", a, b, a.Len(), a.AndLen(&b), a.Intersects(&b), a.IsSubsetOf(&b))
		}
		if got := slices.Collect(a.All()); !slices.Equal(got, slices.Sorted(maps.Keys(sa))) {
			t.Fatalf("members of %s: %v", a, got)
		}
		if back, err := ParseCPUList(a.String()); err != nil || back != a {
			t.Fatalf("%s comes back as %s, %v", a, back, err)
		}
		if back, err := ParseCPUList(sa.list()); err != nil || back != a {
			t.Fatalf("%s comes back as %s, %v", sa.list(), back, err)
		}
	}
}

func TestCPUSetEdges(t *testing.T) {
	var s CPUSet
	if _, ok := s.Lowest(); ok || !s.IsEmpty() || s.String() != "" || s.Has(MaxCPUs) || s.Has(65535) {
		t.Errorf("the zero value is %q, lowest %v", s, ok)
	}
	s = NewCPUSet(0, 63, 64, MaxCPUs-1)
	if got := s.String(); got != "0,63-64,1023" {
		t.Errorf("set prints as %s", got)
	}
	s.Remove(MaxCPUs)
	s.Remove(0)
	if lowest, ok := s.Lowest(); lowest != 63 || !ok {
		t.Errorf("lowest of %s is %d, %v", s, lowest, ok)
	}
	var text CPUSet
	if err := text.UnmarshalText([]byte("1-3")); err != nil || text != NewCPUSet(1, 2, 3) {
		t.Errorf("text is %s, %v", text, err)
	}
	if err := text.UnmarshalText([]byte("x")); err == nil || text != NewCPUSet(1, 2, 3) {
		t.Errorf("text is %s, %v after an error", text, err)
	}
	if b, err := text.MarshalText(); string(b) != "1-3" || err != nil {
		t.Errorf("text is %s, %v", b, err)
	}
}

func TestParseCPUList(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"", ""}, {" 0-3\n", "0-3"}, {"3,1,2", "1-3"}, {"0-7:2/4", "0-1,4-5"}, {"0-62:1/2", evens(62)}, {"5 , 7", "5,7"}, {"0-0", "0"},
	} {
		if got, err := ParseCPUList(c.in); err != nil || got.String() != c.want {
			t.Errorf("%q: %s, %v, want %s", c.in, got, err, c.want)
		}
	}
	for _, c := range []struct{ in, want string }{
		{"a", `"a" is not a CPU id`}, {"1,", `"" is not a CPU id`}, {"-1", `"" is not a CPU id`}, {"3-1", "ends before it begins"},
		{"1024", "the limit is 1023"}, {"0-4000000000", "CPU id 4000000000 is too large"}, {"99999999999999999999", "is not a CPU id"},
		{"0-7:2", "want USED/GROUP"}, {"0-7:0/4", "want USED/GROUP"}, {"0-7:5/4", "want USED/GROUP"}, {"0-7:1/5000", "want USED/GROUP"},
	} {
		if _, err := ParseCPUList(c.in); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want ...%s...", c.in, err, c.want)
		}
	}
}

func evens(last int) string {
	var parts []string
	for i := 0; i <= last; i += 2 {
		parts = append(parts, strconv.Itoa(i))
	}
	return strings.Join(parts, ",")
}

func TestNUMASet(t *testing.T) {
	s := NewNUMASet(0, 3, 63)
	if s.Len() != 3 || !s.Has(63) || s.Has(64) || s.Lowest() != 0 || s.String() != "0,3,63" {
		t.Errorf("set is %s of %d", s, s.Len())
	}
	if got := slices.Collect(s.All()); !slices.Equal(got, []NUMAID{0, 3, 63}) {
		t.Errorf("members %v", got)
	}
	if back, err := ParseNUMAList(s.String()); err != nil || back != s {
		t.Errorf("%s comes back as %s, %v", s, back, err)
	}
	for _, bad := range []string{"64", "x", "1023"} {
		if _, err := ParseNUMAList(bad); err == nil || !strings.Contains(err.Error(), "NUMA list") {
			t.Errorf("%s: %v", bad, err)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("node 64 fits a set")
		}
	}()
	NewNUMASet(64)
}

func FuzzParseCPUList(f *testing.F) {
	for _, seed := range []string{"", "0-3,8", "0-7:2/4", "1023", "3-1", "0-1023:1/1024", " 1 , 2 ", "0-7:" + strings.Repeat("x", 2000), strings.Repeat("9", 2000) + "-1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		set, err := ParseCPUList(text)
		if err != nil {
			if !set.IsEmpty() || len(err.Error()) > 600 {
				t.Fatalf("set %s with error %v", set, err)
			}
			return
		}
		if back, err := ParseCPUList(set.String()); err != nil || back != set {
			t.Fatalf("%s comes back as %s, %v", set, back, err)
		}
	})
}
