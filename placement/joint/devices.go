package joint

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
)

// MaxDevices is the maximum number of devices of one kind. MaxPlaces is the maximum number of
// places (PCI switches and root complexes) with devices.
const (
	MaxDevices = 4096
	MaxPlaces  = 64
)

// NoNode stands for an unknown NUMA node.
const NoNode = -1

// DeviceKind is a resource that is assigned in whole devices.
type DeviceKind struct {
	Name    string // such as "nvidia.com/gpu"
	Devices []Device
	// Links are direct connections between devices of the kind, each pair once.
	Links []DeviceLink
}

// Device is a device with its place. The numbers of roots, switches and functions are unique on the
// machine.
type Device struct {
	ID string
	// Node is the position of the device's NUMA node in Config.Nodes, or NoNode. On a machine with
	// one NUMA node, every device counts as being on it.
	Node int
	// Root is the number of the PCI root complex, and Switch the number of the outermost PCI
	// switch. 0 means none.
	Root, Switch int
	// Function is the number of the device's physical function. All virtual functions of one
	// physical function have the same number. 0 means that the device shares its physical function
	// with no other device.
	Function int
	// Unhealthy devices are never assigned.
	Unhealthy bool
}

// DeviceLink is the number of links between two devices. A and B are positions in
// DeviceKind.Devices.
type DeviceLink struct{ A, B, Count int }

// Same tells at which places the devices of a request must be together.
type Same uint8

// The places at which devices can be together. The zero value, Anywhere, requires no common place.
const (
	Anywhere Same = iota
	// SameRoot: each PCI root complex that provides a device provides at least one device of each
	// requested kind.
	SameRoot
	// SameSwitch: each PCI switch that provides a device provides at least one device of each
	// requested kind.
	SameSwitch
	// OneRoot: all devices are at one root complex. OneSwitch: all devices are below one switch.
	OneRoot
	OneSwitch

	sames // the number of values
)

// Sane reports whether s is one of the constants.
func (s Same) Sane() bool { return s < sames }

// DeviceWant is a number of devices of one kind.
type DeviceWant struct {
	Kind uint8
	N    int
	// All requests one device of each physical function of the kind. If All is set, N has no
	// meaning.
	All bool
	// OnePerFunction allows at most one virtual function of each physical function.
	OnePerFunction bool
}

// deviceKind is a compiled DeviceKind. In the order of the model, devices are sorted by place, then
// by function, then by position in DeviceKind.Devices.
type deviceKind struct {
	name  string
	ids   []string // in the order of the model
	given []uint16 // in the order of the model, the position in DeviceKind.Devices
	index []uint16 // the inverse of given
	byID  []uint16 // in ascending order of ids, the position in the order of the model
	at    []uint8  // by device, the place
	funcs []uint16 // by device, the function, counted from 0 in each kind
	word  int      // the index of the kind's first word in Book.devices
	spans []span   // by place, the range of its devices
	links *linkTable
}

// DeviceTable has the devices of a machine with their PCIe places.
type DeviceTable struct {
	kinds  []deviceKind
	places []place
	roots  int
	groups []group
	// own has a bit for each device that may be assigned, as in Book.devices.
	own []uint64
}

// place stands for the devices of one NUMA node that are below one PCI switch, or at one root
// complex without a switch.
type place struct {
	node     int8 // NoNode: not known
	root     uint8
	isSwitch bool
	hasRoot  bool
}

// maxLinked is the largest number of devices of a kind for which links matter. A linkTable has 2^n
// entries.
const maxLinked = 12

// linkTable rates each set of devices of a kind by the links inside the set. A set is a bit mask.
type linkTable struct {
	inside []uint32 // links inside the set
	// sets has the sets of each size, in descending order of inside.
	sets [][]uint16
	// fours and pairs rate the best partition of the set into sets of four, or into pairs. A
	// partition is better if more pairs of devices inside its sets share a NUMA node. Among equal
	// partitions, more links are better.
	fours, pairs []uint32
}

func (t *DeviceTable) compile(kinds []DeviceKind, nodes int) error {
	type key struct {
		node, root, sw int
	}
	placeOf := func(d *Device) key {
		if nodes == 1 {
			return key{0, d.Root, d.Switch}
		}
		return key{d.Node, d.Root, d.Switch}
	}
	places := map[key]int{}
	roots := map[[2]int]int{}
	for k := range kinds {
		kind := &kinds[k]
		if k > 255 {
			return fmt.Errorf("%d kinds of devices: want at most 256", len(kinds))
		}
		if len(kind.Devices) > MaxDevices {
			return fmt.Errorf("%s: %d devices: want at most %d", kind.Name, len(kind.Devices), MaxDevices)
		}
		for i := range kind.Devices {
			d := &kind.Devices[i]
			if d.Node < NoNode || d.Node >= nodes {
				return fmt.Errorf("%s %s: NUMA node at position %d: want a position from 0 to %d, or %d for none", kind.Name, d.ID, d.Node, nodes-1, NoNode)
			}
			at := placeOf(d)
			if _, known := places[at]; known {
				continue
			}
			r, known := roots[[2]int{at.node, at.root}]
			if !known {
				r = len(roots)
				roots[[2]int{at.node, at.root}] = r
			}
			places[at] = len(t.places)
			t.places = append(t.places, place{node: int8(at.node), root: uint8(r), isSwitch: at.sw != 0, hasRoot: at.root != 0})
		}
	}
	if len(t.places) > MaxPlaces {
		return fmt.Errorf("devices at %d switches and root complexes: want at most %d", len(t.places), MaxPlaces)
	}
	t.roots = len(roots)
	for k := range kinds {
		kind := &kinds[k]
		at := make([]uint8, len(kind.Devices))
		for i := range kind.Devices {
			at[i] = uint8(places[placeOf(&kind.Devices[i])])
		}
		if err := t.addKind(kind, at); err != nil {
			return err
		}
	}
	return nil
}

// addKind compiles a kind; at has the place of each device.
func (t *DeviceTable) addKind(kind *DeviceKind, at []uint8) error {
	n := len(kind.Devices)
	k := deviceKind{name: kind.Name, word: len(t.own), spans: make([]span, len(t.places)), given: make([]uint16, n), index: make([]uint16, n)}
	for i := range k.given {
		k.given[i] = uint16(i)
	}
	slices.SortStableFunc(k.given, func(a, b uint16) int {
		return cmp.Or(cmp.Compare(at[a], at[b]), cmp.Compare(kind.Devices[a].Function, kind.Devices[b].Function))
	})
	t.own = append(t.own, make([]uint64, (n+63)/64)...)
	for i, g := range k.given {
		d := &kind.Devices[g]
		k.index[g] = uint16(i)
		k.ids = append(k.ids, d.ID)
		k.at = append(k.at, at[g])
		function := uint16(0)
		if i > 0 {
			before := &kind.Devices[k.given[i-1]]
			function = k.funcs[i-1]
			if at[g] != k.at[i-1] || d.Function == 0 || d.Function != before.Function {
				function++
			}
		}
		k.funcs = append(k.funcs, function)
		s := &k.spans[at[g]]
		if s.to == 0 {
			s.from = uint16(i)
		}
		s.to = uint16(i + 1)
		if !d.Unhealthy {
			t.own[k.word+i/64] |= 1 << (i % 64)
		}
	}
	for i := range k.ids {
		k.byID = append(k.byID, uint16(i))
	}
	slices.SortFunc(k.byID, func(a, b uint16) int { return cmp.Compare(k.ids[a], k.ids[b]) })
	for i := 1; i < n; i++ {
		if k.ids[k.byID[i]] == k.ids[k.byID[i-1]] {
			return fmt.Errorf("%s %s: want each device once", kind.Name, k.ids[k.byID[i]])
		}
	}
	if err := k.compileLinks(t, kind); err != nil {
		return err
	}
	t.kinds = append(t.kinds, k)
	return nil
}

// compileLinks fills k.links if the kind has at most maxLinked devices, and not all pairs of them
// have the same number of links.
func (k *deviceKind) compileLinks(of *DeviceTable, kind *DeviceKind) error {
	n := len(k.ids)
	links := map[[2]int]int{}
	alike := true
	for _, l := range kind.Links {
		if l.A < 0 || l.B < 0 || l.A >= n || l.B >= n || l.A == l.B || l.Count < 1 || l.Count > 255 {
			return fmt.Errorf("%s: link with A %d, B %d and Count %d: want different positions A and B from 0 to %d, and a Count from 1 to 255", kind.Name, l.A, l.B, l.Count, n-1)
		}
		a, b := int(k.index[l.A]), int(k.index[l.B])
		pair := [2]int{min(a, b), max(a, b)}
		if links[pair] != 0 {
			return fmt.Errorf("%s: link with A %d, B %d and Count %d: want each pair of devices once", kind.Name, l.A, l.B, l.Count)
		}
		links[pair] = l.Count
		alike = alike && l.Count == kind.Links[0].Count
	}
	if len(links) == 0 || alike && len(links) == n*(n-1)/2 || n > maxLinked {
		return nil
	}
	const together = 1 << 12 // more than the links inside any set of four
	bond := func(a, b int) uint32 {
		w := uint32(links[[2]int{min(a, b), max(a, b)}])
		if node := of.places[k.at[a]].node; node == of.places[k.at[b]].node && node != NoNode {
			w += together
		}
		return w
	}
	t := &linkTable{inside: make([]uint32, 1<<n), fours: make([]uint32, 1<<n), pairs: make([]uint32, 1<<n)}
	for set := 1; set < 1<<n; set++ {
		a := bits.TrailingZeros(uint(set))
		rest := set &^ (1 << a)
		t.inside[set], t.pairs[set], t.fours[set] = t.inside[rest], t.pairs[rest], t.fours[rest]
		for b := range n {
			if rest>>b&1 == 0 {
				continue
			}
			t.inside[set] += uint32(links[[2]int{min(a, b), max(a, b)}])
			t.pairs[set] = max(t.pairs[set], bond(a, b)+t.pairs[rest&^(1<<b)])
			for c := b + 1; c < n; c++ {
				for d := c + 1; d < n; d++ {
					if rest>>c&1 == 1 && rest>>d&1 == 1 {
						four := bond(a, b) + bond(a, c) + bond(a, d) + bond(b, c) + bond(b, d) + bond(c, d)
						t.fours[set] = max(t.fours[set], four+t.fours[rest&^(1<<b|1<<c|1<<d)])
					}
				}
			}
		}
	}
	t.sortSets(n)
	k.links = t
	return nil
}

func (t *linkTable) sortSets(n int) {
	t.sets = make([][]uint16, n+1)
	for set := range 1 << n {
		size := bits.OnesCount(uint(set))
		t.sets[size] = append(t.sets[size], uint16(set))
	}
	for _, sets := range t.sets {
		slices.SortStableFunc(sets, func(a, b uint16) int { return cmp.Compare(t.inside[b], t.inside[a]) })
	}
}

// Kind returns the kind with this resource name, and whether the machine has such a kind.
func (t *DeviceTable) Kind(name string) (uint8, bool) {
	i := slices.IndexFunc(t.kinds, func(k deviceKind) bool { return k.name == name })
	return uint8(max(i, 0)), i >= 0
}

// Kinds returns the number of kinds of devices; they are numbered from 0.
func (t *DeviceTable) Kinds() int { return len(t.kinds) }

// KindName returns the name of a kind of devices.
func (t *DeviceTable) KindName(kind uint8) string { return t.kinds[kind].name }

// ID returns the id of a device.
func (t *DeviceTable) ID(d DeviceRef) string {
	k := &t.kinds[d.Kind]
	return k.ids[k.index[d.Index]]
}

// Find returns the device with this id, and whether the kind has such a device.
func (t *DeviceTable) Find(kind uint8, id string) (DeviceRef, bool) {
	k := &t.kinds[kind]
	from, to := 0, len(k.byID)
	for from < to {
		mid := (from + to) / 2
		if k.ids[k.byID[mid]] < id {
			from = mid + 1
		} else {
			to = mid
		}
	}
	if from == len(k.byID) || k.ids[k.byID[from]] != id {
		return DeviceRef{}, false
	}
	return DeviceRef{kind, k.given[k.byID[from]]}, true
}

// Len returns the number of devices of a kind; they are numbered from 0, as in
// DeviceKind.Devices.
func (t *DeviceTable) Len(kind uint8) int { return len(t.kinds[kind].ids) }

// PlaceOf returns the place of a device: the position of its NUMA node, or NoNode, and the numbers
// of its root complex and switch. These numbers are unique in the model; 0 means none.
func (t *DeviceTable) PlaceOf(d DeviceRef) (node, root, sw int) {
	k := &t.kinds[d.Kind]
	at := k.at[k.index[d.Index]]
	p := &t.places[at]
	if p.hasRoot {
		root = int(p.root) + 1
	}
	if p.isSwitch {
		sw = int(at) + 1
	}
	return int(p.node), root, sw
}

// Functions returns the number of physical functions of the devices of a kind.
func (t *DeviceTable) Functions(kind uint8) int {
	funcs := t.kinds[kind].funcs
	if len(funcs) == 0 {
		return 0
	}
	return int(funcs[len(funcs)-1]) + 1
}

// IsFree reports whether a device is healthy and no pod has it.
func (t *DeviceTable) IsFree(b *Book, d DeviceRef) bool {
	at, bit := t.bitOf(d)
	return b.devices[at]&bit != 0
}

// bitOf returns the word and the bit of a device in Book.devices.
func (t *DeviceTable) bitOf(d DeviceRef) (at int, bit uint64) {
	k := &t.kinds[d.Kind]
	i := int(k.index[d.Index])
	return k.word + i/64, 1 << (i % 64)
}

// On returns how many devices of a kind are free on the NUMA node at a position, and how many it
// has in all. Devices with Device.Unhealthy count in neither number.
func (t *DeviceTable) On(b *Book, kind uint8, node int) (free, all int) {
	k := &t.kinds[kind]
	for i := range k.ids {
		if int(t.places[k.at[i]].node) == node {
			free += int(b.devices[k.word+i/64] >> (i % 64) & 1)
			all += int(t.own[k.word+i/64] >> (i % 64) & 1)
		}
	}
	return free, all
}

func (k *deviceKind) free(b *Book, i int) bool { return b.devices[k.word+i/64]>>(i%64)&1 == 1 }

// enter records a device as taken or, if take is false, as no longer taken. It ignores devices that
// do not exist.
func (t *DeviceTable) enter(b *Book, d DeviceRef, take bool) {
	if int(d.Kind) >= len(t.kinds) || int(d.Index) >= len(t.kinds[d.Kind].index) {
		return
	}
	at, bit := t.bitOf(d)
	if take {
		b.taken[at] |= bit
		b.devices[at] &^= bit
	} else {
		b.taken[at] &^= bit
		b.devices[at] |= bit & t.own[at] &^ b.sick[at]
	}
}

// IsTaken reports whether a pod has the device.
func (t *DeviceTable) IsTaken(b *Book, d DeviceRef) bool {
	at, bit := t.bitOf(d)
	return b.taken[at]&bit != 0
}

// MarkSick marks a device as unhealthy: a pod that has the device keeps it, and Place does not
// assign it.
func (t *DeviceTable) MarkSick(b *Book, d DeviceRef) {
	at, bit := t.bitOf(d)
	b.sick[at] |= bit
	b.devices[at] &^= bit
}

// Take records a device as taken.
func (t *DeviceTable) Take(b *Book, d DeviceRef) { t.enter(b, d, true) }

// room returns the number of free devices of a kind that the request may take at a place.
func (k *deviceKind) room(b *Book, at int, w *DeviceWant) int {
	s, n := k.spans[at], 0
	if s.from == s.to {
		return 0
	}
	if !w.OnePerFunction && !w.All {
		for from, to := int(s.from), int(s.to); from < to; from += 64 - from%64 {
			in := uint64(1)<<min(to-from, 64) - 1
			n += bits.OnesCount64(b.devices[k.word+from/64] >> (from % 64) & in)
		}
		return n
	}
	last := -1
	for i := int(s.from); i < int(s.to); i++ {
		if int(k.funcs[i]) != last && k.free(b, i) {
			last = int(k.funcs[i])
			n++
		}
	}
	return n
}

// count returns the requested number of devices.
func (t *DeviceTable) count(w *DeviceWant) int {
	if !w.All {
		return w.N
	}
	return max(t.Functions(w.Kind), 1) // without devices, a request for all devices cannot be fulfilled
}

// group is a set of devices that belong together, with the same bits as Book.devices.
type group []uint64

// byRoot reports whether s is about root complexes.
func (s Same) byRoot() bool { return s == SameRoot || s == OneRoot }

// one reports whether all devices must be at one place.
func (s Same) one() bool { return s == OneRoot || s == OneSwitch }
