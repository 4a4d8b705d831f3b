package cpu

import (
	"errors"
	"math"
	"slices"

	"github.com/berth-dev/berth/topology"
)

// slow is a simple implementation of the static CPU manager with maps and slices, for comparison
// with the fast one.
type slow struct {
	node Node
	o    Options
	cpus map[int]Thread
}

func newSlow(n Node, o Options) *slow {
	s := &slow{node: n, o: o, cpus: map[int]Thread{}}
	for _, th := range n.Threads {
		s.cpus[int(th.CPU)] = th
	}
	return s
}

type keyOf func(Thread) int

func byNUMA(t Thread) int   { return int(t.NUMA) }
func bySocket(t Thread) int { return t.Socket }
func byCore(t Thread) int   { return t.Core }
func byUncore(t Thread) int { return t.Uncore }

type ints map[int]bool

func (s ints) sorted() []int {
	var out []int
	for i := range s {
		out = append(out, i)
	}
	slices.Sort(out)
	return out
}

// in returns the CPUs of cpus that are in one of the elements.
func (s *slow) in(cpus ints, k keyOf, ids ...int) ints {
	out := ints{}
	for c := range cpus {
		if slices.Contains(ids, k(s.cpus[c])) {
			out[c] = true
		}
	}
	return out
}

func (s *slow) all() ints {
	out := ints{}
	for c := range s.cpus {
		out[c] = true
	}
	return out
}

// ids returns the elements that contain some of cpus.
func (s *slow) ids(cpus ints, k keyOf) ints {
	out := ints{}
	for c := range cpus {
		out[k(s.cpus[c])] = true
	}
	return out
}

// order returns the elements, by key k, that contain some of cpus. It sorts them by their number of
// free CPUs.
func (s *slow) order(cpus, free ints, k keyOf) []int {
	ids := s.ids(cpus, k).sorted()
	slices.SortStableFunc(ids, func(a, b int) int { return len(s.in(free, k, a)) - len(s.in(free, k, b)) })
	return ids
}

// nested lists the children of each parent, one parent after the other.
func (s *slow) nested(parents []int, parent keyOf, free ints, child keyOf) []int {
	var out []int
	for _, p := range parents {
		out = append(out, s.order(s.in(free, parent, p), free, child)...)
	}
	return out
}

func (s *slow) numaFirst() bool { return s.node.NumSockets >= len(s.ids(s.all(), byNUMA)) }

func (s *slow) numas(free ints) []int {
	if s.numaFirst() {
		return s.order(free, free, byNUMA)
	}
	return s.nested(s.order(free, free, bySocket), bySocket, free, byNUMA)
}

func (s *slow) socketList(free ints) []int {
	if s.numaFirst() {
		return s.nested(s.order(free, free, byNUMA), byNUMA, free, bySocket)
	}
	return s.order(free, free, bySocket)
}

func (s *slow) coreList(free ints) []int {
	if s.numaFirst() {
		return s.nested(s.socketList(free), bySocket, free, byCore)
	}
	return s.nested(s.numas(free), byNUMA, free, byCore)
}

// accumulation is the state of taking CPUs.
type accumulation struct {
	s            *slow
	free, result ints
	need         int
}

func (a *accumulation) take(cpus ints) {
	for c := range cpus {
		a.result[c] = true
	}
	for c := range a.result {
		delete(a.free, c)
	}
	a.need -= len(cpus)
}

// takeFull takes the elements of list that are free. The list was made before the first is taken.
func (a *accumulation) takeFull(list []int, k keyOf, isFree func(total, free int) bool) {
	var chosen []int
	for _, id := range list {
		if isFree(len(a.s.in(a.s.all(), k, id)), len(a.s.in(a.free, k, id))) {
			chosen = append(chosen, id)
		}
	}
	for _, id := range chosen {
		if cpus := a.s.in(a.s.all(), k, id); a.need >= len(cpus) {
			a.take(cpus)
		}
	}
}

func (s *slow) begin(avail ints, n int) (*accumulation, bool, error) {
	a := &accumulation{s: s, free: ints{}, result: ints{}, need: n}
	for c := range avail {
		if _, ok := s.cpus[c]; ok {
			a.free[c] = true
		}
	}
	if n < 1 {
		return a, false, nil
	}
	if n > len(a.free) {
		return a, false, ErrNotEnough
	}
	return a, true, nil
}

func exact(total, free int) bool { return total == free }

func average(n int) func(int, int) bool { return func(_, free int) bool { return free == n } }

func (s *slow) pack(avail ints, n int, uncore bool) (ints, error) {
	a, more, err := s.begin(avail, n)
	if !more {
		return a.result, err
	}
	perCore, perSocket := s.node.NumCPUs/s.node.NumCores, s.node.NumCPUs/s.node.NumSockets
	nodes := func() { a.takeFull(s.numas(a.free), byNUMA, exact) }
	sockets := func() { a.takeFull(s.socketList(a.free), bySocket, average(perSocket)) }
	steps := []func(){sockets, nodes}
	if s.numaFirst() {
		steps = []func(){nodes, sockets}
	}
	if uncore {
		steps = append(steps, a.takeUncore)
	}
	if !s.o.DistributeAcrossCores {
		steps = append(steps, func() { a.takeFull(s.coreList(a.free), byCore, average(perCore)) })
	}
	for _, step := range append(steps, a.takeSingle) {
		if step(); a.need < 1 {
			return a.result, nil
		}
	}
	return nil, ErrFailed
}

func (a *accumulation) takeSingle() {
	list, k := a.s.socketList(a.free), keyOf(bySocket)
	if !a.s.o.DistributeAcrossCores {
		list, k = a.s.coreList(a.free), byCore
	}
	var cpus []int
	for _, id := range list {
		cpus = append(cpus, a.s.in(a.free, k, id).sorted()...)
	}
	for _, c := range cpus {
		if a.take(ints{c: true}); a.need < 1 {
			return
		}
	}
}

func (a *accumulation) uncoreList() []int {
	return a.s.nested(a.s.numas(a.free), byNUMA, a.free, byUncore)
}

func (a *accumulation) takeUncore() {
	per := a.s.node.NumCPUs / len(a.s.ids(a.s.all(), byUncore))
	for _, u := range a.uncoreList() {
		if a.need >= per {
			a.takeFull(a.uncoreList(), byUncore, exact)
		}
		if a.need < 1 {
			return
		}
		if a.takePartial(u); a.need < 1 {
			return
		}
	}
}

func (a *accumulation) takePartial(u int) {
	per := a.s.node.NumCPUs / a.s.node.NumCores
	want := int(math.Ceil(float64(a.need) / float64(per)))
	if a.s.o.Version == 33 {
		want = a.need / per
	}
	cores := a.s.ids(a.s.in(a.free, byUncore, u), byCore).sorted()
	cpus := a.s.in(a.free, byCore, cores[:min(want, len(cores))]...).sorted()
	if a.s.o.Version != 33 && a.need%2 == 1 && per > 1 && len(cpus) > a.need {
		cpus = cpus[:len(cpus)-1]
	}
	if len(cpus) != a.need {
		return
	}
	set := ints{}
	for _, c := range cpus {
		set[c] = true
	}
	a.take(set)
}

var errStop = errors.New("stop")

// each calls f with every k-combination of list, on arrays that are shared as Go's append shares
// them.
func each(list []int, k int, f func([]int) error) error {
	if k < 1 {
		return nil
	}
	var walk func(start, k int, chosen []int) error
	walk = func(start, k int, chosen []int) error {
		if k == 0 {
			return f(chosen)
		}
		for i := start; i <= len(list)-k; i++ {
			if err := walk(i+1, k-1, append(chosen, list[i])); err != nil {
				return err
			}
		}
		return nil
	}
	return walk(0, k, []int{})
}

func deviation(m map[int]int) float64 {
	var xs []int
	for _, x := range m {
		xs = append(xs, x)
	}
	slices.Sort(xs)
	round := func(x float64) float64 { return math.Round(x*1000) / 1000 }
	sum, n := 0.0, float64(len(xs))
	for _, x := range xs {
		sum += float64(x)
	}
	mean := round(sum / n)
	sum = 0
	for _, x := range xs {
		sum += (float64(x) - mean) * (float64(x) - mean)
	}
	return round(math.Sqrt(sum / n))
}

func (s *slow) distribute(avail ints, n int) (ints, error) {
	g := 1
	if s.o.FullPhysicalCPUsOnly {
		g = s.node.NumCPUs / s.node.NumCores
	}
	if n%g != 0 {
		return s.pack(avail, n, false)
	}
	a, more, err := s.begin(avail, n)
	if !more {
		return a.result, err
	}
	list := s.numas(a.free)
	up := func(a, b int) int { return (a + b - 1) / b }
	portions := up(n, g)
	lo := up(portions, up(up(len(s.cpus), g), len(s.ids(s.all(), byNUMA))))
	hi := min(portions, len(s.ids(a.free, byNUMA)))
	for k := lo; k <= hi; k++ {
		combo, rest, err := s.search(a, list, n, g, k)
		if err != nil {
			return nil, err
		}
		if combo != nil {
			return s.carryOut(a, combo, rest, n, g)
		}
	}
	return s.pack(avail, n, false)
}

func (s *slow) search(a *accumulation, list []int, n, g, k int) (combo, rest []int, err error) {
	best, bestOne := math.MaxFloat64, false
	bySockets := s.o.AlignBySocket && s.o.Version >= 37
	free := func(ids ...int) int { return len(s.in(a.free, byNUMA, ids...)) }
	err = each(list, k, func(c []int) error {
		if best == 0 && (!bySockets || bestOne) {
			return errStop
		}
		portions := 0
		for _, id := range c {
			portions += free(id) / g
		}
		if free(c...) < n || portions*g < n {
			return nil
		}
		even := n / k / g * g
		for _, id := range c {
			if bySockets {
				even = min(even, free(id)/g*g)
			}
		}
		for _, id := range c {
			if free(id) < even {
				return nil
			}
		}
		after := map[int]int{}
		for _, id := range list {
			after[id] = free(id)
		}
		for _, id := range c {
			after[id] -= even
		}
		score, r, err := s.remainder(after, c, n-even*k, g)
		if err != nil {
			return err
		}
		one := bySockets && len(s.ids(s.in(s.all(), byNUMA, c...), bySocket)) <= 1
		better := score < best
		if one != bestOne {
			better = one
		}
		if better {
			best, bestOne, combo, rest = score, one, c, r
		}
		return nil
	})
	if errors.Is(err, errStop) {
		err = nil
	}
	return combo, rest, err
}

func (s *slow) remainder(after map[int]int, combo []int, left, g int) (best float64, rest []int, err error) {
	if left == 0 {
		return deviation(after), nil, nil
	}
	var cand []int
	for _, id := range combo {
		if after[id] >= g {
			cand = append(cand, id)
		}
	}
	best = math.MaxFloat64
	for k := len(cand); k >= 1; k-- {
		err := each(cand, k, func(sub []int) error {
			left, then, sum := left, map[int]int{}, 0
			for id, x := range after {
				then[id] = x
			}
			for _, id := range sub {
				sum += then[id]
			}
			if sum < left {
				return nil
			}
			for left > 0 {
				before := left
				for _, id := range sub {
					if left > 0 && then[id] >= g {
						then[id] -= g
						left -= g
					}
				}
				if left == before {
					return ErrWouldHang
				}
			}
			if score := deviation(then); score < best {
				best, rest = score, sub
			}
			return nil
		})
		if err != nil {
			return 0, nil, err
		}
	}
	return best, rest, nil
}

func (s *slow) carryOut(a *accumulation, combo, rest []int, n, g int) (ints, error) {
	free := func(id int) ints { return s.in(a.free, byNUMA, id) }
	even := n / len(combo) / g * g
	if s.o.Version >= 37 {
		for _, id := range combo {
			even = min(even, len(free(id))/g*g)
		}
	}
	for _, id := range combo {
		if cpus, err := s.pack(free(id), even, false); err == nil {
			a.take(cpus)
		}
	}
	for left := n - even*len(combo); left > 0; {
		before := left
		for _, id := range rest {
			if left == 0 || len(free(id)) < g {
				continue
			}
			if cpus, err := s.pack(free(id), g, false); err == nil {
				a.take(cpus)
			}
			left -= g
		}
		if left == before {
			return nil, ErrWouldHang
		}
	}
	if a.need != 0 {
		return nil, ErrAccounting
	}
	return a.result, nil
}

func (s *slow) take(avail ints, n int) (ints, error) {
	if s.o.DistributeAcrossNUMA {
		return s.distribute(avail, n)
	}
	return s.pack(avail, n, s.o.PreferAlignByUncore)
}

// slowInput is AllocateInput with simple sets.
type slowInput struct {
	n                          int
	shared, reserved, reusable ints
	aligned                    bool
	numa                       topology.NUMASet
}

func (s *slow) allocate(in slowInput) (ints, error) {
	per := s.node.NumCPUs / s.node.NumCores
	if s.o.FullPhysicalCPUsOnly {
		if in.n%per != 0 {
			return nil, ErrSMTSize
		}
		siblings, free := s.in(s.all(), byCore, s.ids(in.reserved, byCore).sorted()...), 0
		for c := range in.shared {
			if !siblings[c] {
				free++
			}
		}
		if in.n > free {
			return nil, ErrSMTCores
		}
	}
	pool, result := ints{}, ints{}
	for c := range in.shared {
		if !in.reserved[c] {
			pool[c] = true
		}
	}
	for c := range in.reusable {
		pool[c] = true
	}
	if in.aligned {
		near := ints{}
		var sockets []int
		for c, th := range s.cpus {
			if in.numa.Has(th.NUMA) {
				near[c] = true
				sockets = append(sockets, th.Socket)
			}
		}
		if s.o.AlignBySocket {
			near = s.in(pool, bySocket, sockets...)
		}
		near = both(near, pool)
		got, err := s.take(near, min(in.n, len(near)))
		if err != nil {
			return nil, err
		}
		for c := range got {
			result[c] = true
			delete(pool, c)
		}
	}
	got, err := s.take(pool, in.n-len(result))
	if err != nil {
		return nil, err
	}
	for c := range got {
		result[c] = true
	}
	return result, nil
}

func both(a, b ints) ints {
	out := ints{}
	for c := range a {
		if a[c] && b[c] {
			out[c] = true
		}
	}
	return out
}

// slowHint is one offered hint.
type slowHint struct {
	mask      topology.NUMASet
	preferred bool
}

func (s *slow) hints(avail, reusable ints, n int) []slowHint {
	nodes := s.ids(s.all(), byNUMA).sorted()
	smallest := len(nodes)
	var out []slowHint
	for sub := 1; sub < 1<<len(nodes); sub++ {
		var ids []int
		var mask topology.NUMASet
		for i, id := range nodes {
			if sub>>i&1 == 1 {
				ids = append(ids, id)
				mask = mask.With(topology.NUMAID(id))
			}
		}
		if len(s.in(s.all(), byNUMA, ids...)) >= n {
			smallest = min(smallest, len(ids))
		}
		have := len(s.in(reusable, byNUMA, ids...))
		if have == len(reusable) && have+len(s.in(avail, byNUMA, ids...)) >= n {
			out = append(out, slowHint{mask: mask})
		}
	}
	for i := range out {
		out[i].preferred = out[i].mask.Len() == smallest || s.o.AlignBySocket && s.socketAligned(out[i].mask, smallest)
	}
	return out
}

func (s *slow) socketAligned(mask topology.NUMASet, smallest int) bool {
	per := len(s.ids(s.all(), byNUMA)) / s.node.NumSockets
	if per == 0 {
		return false
	}
	sockets := ints{}
	for _, th := range s.cpus {
		if mask.Has(th.NUMA) {
			sockets[th.Socket] = true
		}
	}
	return len(sockets) == (smallest+per-1)/per
}
