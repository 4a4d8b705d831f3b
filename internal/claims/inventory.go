package claims

import (
	"cmp"
	"fmt"
	"iter"
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/berth-dev/berth/topology"
)

// DeviceID names a device in the whole cluster.
type DeviceID struct{ Driver, Pool, Name string }

// String returns the id as driver/pool/device, as kube-scheduler logs it.
func (id DeviceID) String() string { return id.Driver + "/" + id.Pool + "/" + id.Name }

func compareIDs(a, b DeviceID) int {
	return cmp.Or(cmp.Compare(a.Driver, b.Driver), cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Name, b.Name))
}

// Standing shows whether a device's NUMA node is known.
type Standing uint8

// The values of Place.Standing.
const (
	// Absent, the zero value, means that no ResourceSlice of the node lists the device.
	Absent Standing = iota
	// Neutral means that the device has no NUMA node, or an unknown one.
	Neutral
	// Located means that the device is on Place.NUMA.
	Located
	// Misstated means that the driver names a NUMA node that the machine does not have.
	Misstated
)

// Place is the NUMA node of a device, with its source. It is comparable.
type Place struct {
	Standing Standing
	// NUMA is the NUMA node of a Located device.
	NUMA topology.NUMAID
	// From is the source of the NUMA node of a Located or Misstated device: the name of an
	// attribute, a PCI address, or "its parent". For a Neutral device, it is the reason why it has
	// no known NUMA node.
	From string
	// Odd describes, for administrators, the first error or contradiction in the data about the
	// device. It is "" if there is none.
	Odd string
}

// String returns where the device is, for a sentence that begins "device x is ...".
func (p Place) String() string {
	switch p.Standing {
	case Located:
		return fmt.Sprintf("on NUMA node %d (%s)", p.NUMA, p.From)
	case Neutral:
		return "on no NUMA node (" + p.From + ")"
	case Misstated:
		return "on a NUMA node that the machine does not have (" + p.Odd + ")"
	default:
		return "in no ResourceSlice of the node"
	}
}

// Values of Place.From: the reasons why a device is neutral, and the source "its parent".
const (
	notStated  = "its driver states none"
	isNegative = "its driver states a negative number"
	isAttached = "its ResourceSlice has no nodeName for it"
	isNowhere  = "no NUMA node follows from its driver's attributes"
	ofParent   = "its parent"
)

// Inventory has the devices that one node can use, with their places. It does not change after
// Read, and is safe for concurrent use.
type Inventory struct {
	node   string
	places map[DeviceID]Place
}

// Read reads the devices of a node from ResourceSlices. It skips slices of other nodes and of older
// generations of a pool. machine is the machine in the node's report. If it is nil, Read uses no
// PCI addresses and no PCI roots, and does not check the NUMA nodes that drivers state.
func Read(node string, machine *topology.Machine, list []*resourceapi.ResourceSlice, sources *Sources) *Inventory {
	r := reader{
		Inventory: Inventory{node: node, places: map[DeviceID]Place{}},
		machine:   machine, sources: sources, families: map[family]parent{},
	}
	for _, s := range Newest(list) {
		r.slice(s)
	}
	r.partitions()
	return &r.Inventory
}

// Place returns the place of a device.
func (i *Inventory) Place(id DeviceID) Place { return i.places[id] }

// Len returns the number of devices.
func (i *Inventory) Len() int { return len(i.places) }

// All yields the devices and their places, sorted by driver, pool and name.
func (i *Inventory) All() iter.Seq2[DeviceID, Place] {
	return func(yield func(DeviceID, Place) bool) {
		ids := make([]DeviceID, 0, len(i.places))
		for id := range i.places {
			ids = append(ids, id)
		}
		slices.SortFunc(ids, compareIDs)
		for _, id := range ids {
			if !yield(id, i.places[id]) {
				return
			}
		}
	}
}

// Contradiction is a device with an attribute that is wrong or contradicts the machine.
type Contradiction struct {
	Device DeviceID
	Text   string
}

func (c Contradiction) String() string { return "device " + c.Device.String() + ": " + c.Text }

// Contradictions returns the first contradictions in the order of All, and the total number of
// contradictions. The parameter most limits the number that it returns.
func (i *Inventory) Contradictions(most int) (first []Contradiction, count int) {
	for id, p := range i.All() {
		if p.Odd == "" {
			continue
		}
		if count++; count <= most {
			first = append(first, Contradiction{id, p.Odd})
		}
	}
	return first, count
}

// NUMANodes returns the NUMA nodes on which the node has Located devices.
func (i *Inventory) NUMANodes() (out topology.NUMASet) {
	for _, p := range i.places {
		if p.Standing == Located {
			out = out.With(p.NUMA)
		}
	}
	return out
}

type pool struct{ driver, name string }

func poolOf(s *resourceapi.ResourceSlice) pool { return pool{s.Spec.Driver, s.Spec.Pool.Name} }

// Newest returns the slices of the newest generation of each pool.
func Newest(list []*resourceapi.ResourceSlice) (out []*resourceapi.ResourceSlice) {
	newest := make(map[pool]int64, len(list))
	for _, s := range list {
		if g, known := newest[poolOf(s)]; !known || g < s.Spec.Pool.Generation {
			newest[poolOf(s)] = s.Spec.Pool.Generation
		}
	}
	for _, s := range list {
		if s.Spec.Pool.Generation == newest[poolOf(s)] {
			out = append(out, s)
		}
	}
	return out
}

// NodeOf returns the only node that can use the devices of a slice. It returns "" for a slice of
// several nodes, and for a slice whose devices name their nodes.
func NodeOf(s *resourceapi.ResourceSlice) string {
	if s.Spec.NodeName == nil {
		return ""
	}
	return *s.Spec.NodeName
}

// ownerOf returns the only node that can use a device of the slice. It returns "" if several nodes
// can use the device.
func ownerOf(s *resourceapi.ResourceSlice, d *resourceapi.Device) string {
	if d.NodeName != nil && s.Spec.PerDeviceNodeSelection != nil && *s.Spec.PerDeviceNodeSelection {
		return *d.NodeName
	}
	return NodeOf(s)
}

// family is a counter set that a device and its partitions share.
type family struct {
	pool
	counters string
}

// parent has the common NUMA node of a group of devices. If differ is set, they have none.
type parent struct {
	numa   topology.NUMAID
	differ bool
}

// orphan is a device without a NUMA node of its own that consumes counter sets.
type orphan struct {
	id   DeviceID
	sets []resourceapi.DeviceCounterConsumption
}

type reader struct {
	Inventory
	machine  *topology.Machine
	sources  *Sources
	families map[family]parent
	orphans  []orphan
	// roots has the NUMA node of each PCI root of the machine; nil until the first lookup.
	roots map[string]parent
}

func (r *reader) slice(s *resourceapi.ResourceSlice) {
	for i := range s.Spec.Devices {
		d := &s.Spec.Devices[i]
		id := DeviceID{s.Spec.Driver, s.Spec.Pool.Name, d.Name}
		switch owner := ownerOf(s, d); owner {
		case "":
			r.places[id] = Place{Standing: Neutral, From: isAttached}
		case r.node:
			p := r.place(s.Spec.Driver, d)
			r.places[id] = p
			r.relate(poolOf(s), id, d, p)
		}
	}
}

// relate records the counter sets of a device, so that partitions can find parents.
func (r *reader) relate(of pool, id DeviceID, d *resourceapi.Device, p Place) {
	if len(d.ConsumesCounters) == 0 {
		return
	}
	if p.Standing != Located {
		r.orphans = append(r.orphans, orphan{id, d.ConsumesCounters})
		return
	}
	for i := range d.ConsumesCounters {
		f := family{of, d.ConsumesCounters[i].CounterSet}
		known, found := r.families[f]
		r.families[f] = parent{p.NUMA, found && (known.differ || known.numa != p.NUMA)}
	}
}

// partitions gives each device without a NUMA node of its own the NUMA node of its parent. A device
// that consumes counters of parents on different NUMA nodes stays neutral.
func (r *reader) partitions() {
	for _, o := range r.orphans {
		p := r.places[o.id]
		if p.Standing != Neutral {
			continue
		}
		var of parent
		found := false
		for i := range o.sets {
			f, known := r.families[family{pool{o.id.Driver, o.id.Pool}, o.sets[i].CounterSet}]
			if !known {
				continue
			}
			of = parent{f.numa, f.differ || found && (of.differ || of.numa != f.numa)}
			found = true
		}
		if found && !of.differ {
			p.Standing, p.NUMA, p.From = Located, of.numa, ofParent
			r.places[o.id] = p
		}
	}
}

// place returns the place of a device, from the first source that gives a NUMA node. Later sources
// can only add a contradiction.
func (r *reader) place(driver string, d *resourceapi.Device) Place {
	p := Place{Standing: Neutral, From: notStated}
	r.stated(driver, d, &p)
	found := r.byAddress(driver, d, &p)
	if found != nil && (!found.HasNUMA || found.NUMA >= topology.MaxNUMANodes) {
		found = nil
	}
	switch {
	case p.Standing == Neutral && found != nil:
		p.Standing, p.NUMA, p.From = Located, found.NUMA, "PCI address "+found.Address
	case p.Standing == Located && found != nil && found.NUMA != p.NUMA:
		p.odd("%s: %d, and the machine has %s on NUMA node %d", p.From, p.NUMA, found.Address, found.NUMA)
	case p.Standing == Neutral:
		r.byRoot(driver, d, &p)
	}
	return p
}

func (p *Place) odd(format string, args ...any) {
	if p.Odd == "" {
		p.Odd = fmt.Sprintf(format, args...)
	}
}

// stated looks for the NUMA node in the attributes whose value is the number of a NUMA node.
func (r *reader) stated(driver string, d *resourceapi.Device, p *Place) {
	ask := func(name string) (done bool) {
		a, found := attribute(driver, d, name)
		if !found {
			return false
		}
		n, ok := number(&a)
		switch {
		case !ok:
			p.odd("%s is %s: want an int, or a list of ints", name, typeOf(&a))
			return false
		case n < 0:
			p.From = isNegative
			return false
		case n >= topology.MaxNUMANodes, r.machine != nil && r.machine.NUMANode(topology.NUMAID(n)) == nil:
			p.Standing, p.From = Misstated, name
			p.odd("%s: %d: want a NUMA node of the machine", name, n)
			return true
		}
		p.Standing, p.NUMA, p.From = Located, topology.NUMAID(n), name
		return true
	}
	for _, name := range slices.Concat([]string{StandardNUMANode}, r.sources.NUMA) {
		if ask(name) {
			return
		}
	}
}

// byAddress finds a device in the machine by its PCI address. It returns nil if there is none. The
// machine in a report has only some classes of devices, so an unknown address is no contradiction.
func (r *reader) byAddress(driver string, d *resourceapi.Device, p *Place) *topology.Device {
	if r.machine == nil {
		return nil
	}
	for i := -1; i < len(r.sources.Address); i++ {
		name := StandardAddress
		if i >= 0 {
			name = r.sources.Address[i]
		}
		a, stated := attribute(driver, d, name)
		if !stated {
			continue
		}
		s, ok := text(&a)
		if !ok {
			p.odd("%s is %s: want a string", name, typeOf(&a))
			continue
		}
		if found := r.machine.Device(canonical(s)); found != nil {
			return found
		}
		p.nowhere()
	}
	return nil
}

// nowhere records that the driver states a PCI address or PCI root, but that no NUMA node follows
// from it.
func (p *Place) nowhere() {
	if p.Standing == Neutral && p.From == notStated {
		p.From = isNowhere
	}
}

// byRoot finds a device's NUMA node by its PCI root in the machine.
func (r *reader) byRoot(driver string, d *resourceapi.Device, p *Place) {
	a, stated := attribute(driver, d, StandardPCIeRoot)
	if !stated {
		return
	}
	root, ok := text(&a)
	switch {
	case !ok:
		p.odd("%s is %s: want a string, or a list of strings", StandardPCIeRoot, typeOf(&a))
		return
	case root == "" || r.machine == nil:
		return
	}
	if r.roots == nil {
		r.index()
	}
	if of, known := r.roots[root]; known && !of.differ {
		p.Standing, p.NUMA, p.From = Located, of.numa, StandardPCIeRoot
		return
	}
	p.nowhere()
}

func (r *reader) index() {
	r.roots = map[string]parent{}
	for i := range r.machine.Devices {
		d := &r.machine.Devices[i]
		if d.Root == "" || !d.HasNUMA || d.NUMA >= topology.MaxNUMANodes {
			continue
		}
		of, known := r.roots[d.Root]
		r.roots[d.Root] = parent{d.NUMA, known && (of.differ || of.numa != d.NUMA)}
	}
}
