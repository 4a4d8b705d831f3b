package captures

import (
	"encoding/xml"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/topology"
)

// seen describes a machine in a form that is common to both programs: one line per object.
type seen struct {
	cpus  topology.CPUSet
	lines map[string][]string // by aspect: "package", "core", "l3", "numa", "memory", "distances", "pci"
}

func newSeen() *seen { return &seen{lines: map[string][]string{}} }

func (s *seen) add(aspect, format string, args ...any) {
	s.lines[aspect] = append(s.lines[aspect], fmt.Sprintf(format, args...))
}

// object is an object of lstopo's tree.
type object struct {
	kind     string
	id       string // P#, "" for none
	logical  int    // L#, of the text format
	label    string // the rest of the line
	memory   string
	cpus     topology.CPUSet
	parent   *object
	children []*object
}

var (
	consoleLine = regexp.MustCompile(`^( *)([A-Za-z0-9]+)(?:\([^)]*\)|\[[^\]]*\])? L#(\d+)(.*)$`)
	osIndex     = regexp.MustCompile(`^ \(P#(\d+)`)
	localMemory = regexp.MustCompile(`[( ]local=(\d+[KMG]i?B)`)
	busID       = regexp.MustCompile(`busid=([0-9a-f:.]+) id=([0-9a-f]{4}:[0-9a-f]{4}) class=([0-9a-f]{4})`)
	quotedName  = regexp.MustCompile(`"([^"]+)"\s*$`)
)

// readConsole reads the text that "lstopo -v -" prints.
func readConsole(text string) *object {
	root := &object{kind: "Machine"}
	stack := []*object{root}
	depths := []int{0}
	tree, _, _ := strings.Cut(text, "\ndepth 0:")
	for line := range strings.Lines(tree) {
		m := consoleLine.FindStringSubmatch(strings.TrimRight(line, "\n"))
		if m == nil || strings.HasPrefix(m[2], "Machine") {
			continue
		}
		depth := len(m[1])
		for len(depths) > 1 && depths[len(depths)-1] >= depth {
			stack, depths = stack[:len(stack)-1], depths[:len(depths)-1]
		}
		o := &object{kind: m[2], label: m[4], parent: stack[len(stack)-1]}
		o.logical, _ = strconv.Atoi(m[3])
		if id := osIndex.FindStringSubmatch(m[4]); id != nil {
			o.id = id[1]
		}
		if local := localMemory.FindStringSubmatch(m[4]); local != nil {
			o.memory = local[1]
		}
		o.parent.children = append(o.parent.children, o)
		stack, depths = append(stack, o), append(depths, depth)
	}
	root.gather()
	root.lend()
	return root
}

// gather computes the CPUs of all objects from their PUs.
func (o *object) gather() {
	if o.kind == "PU" {
		n, err := strconv.Atoi(o.id)
		if err == nil {
			o.cpus.Add(topology.CPUID(n))
		}
	}
	for _, child := range o.children {
		child.gather()
		o.cpus = o.cpus.Or(&child.cpus)
	}
}

// lend gives memory objects the CPUs of their nearest parent that is not memory.
func (o *object) lend() {
	if o.kind == "NUMANode" {
		owner := o.parent
		for owner.kind == "MemCache" {
			owner = owner.parent
		}
		o.cpus = owner.cpus
	}
	for _, child := range o.children {
		child.lend()
	}
}

// xmlObject is an object of lstopo's XML.
type xmlObject struct {
	Type   string      `xml:"type,attr"`
	Index  string      `xml:"os_index,attr"`
	CPUs   string      `xml:"cpuset,attr"`
	Memory string      `xml:"local_memory,attr"`
	BusID  string      `xml:"pci_busid,attr"`
	PCI    string      `xml:"pci_type,attr"`
	Name   string      `xml:"name,attr"`
	Objs   []xmlObject `xml:"object"`
}

type xmlTopology struct {
	Objs      []xmlObject `xml:"object"`
	Distances []struct {
		Type    string   `xml:"type,attr"`
		Name    string   `xml:"name,attr"`
		Indexes []string `xml:"indexes"`
		Values  []string `xml:"u64values"`
	} `xml:"distances2"`
}

func readXML(text string) (*object, *seen, error) {
	var doc xmlTopology
	decoder := xml.NewDecoder(strings.NewReader(text))
	decoder.Strict = false
	if err := decoder.Decode(&doc); err != nil {
		return nil, nil, err
	}
	root := &object{kind: "Machine"}
	for i := range doc.Objs {
		if err := doc.Objs[i].convert(root); err != nil {
			return nil, nil, err
		}
	}
	s := newSeen()
	for _, d := range doc.Distances {
		if d.Type == "NUMANode" && d.Name == "NUMALatency" {
			s.add("distances", "%s = %s", words(d.Indexes), words(d.Values))
		}
	}
	return root, s, nil
}

func words(parts []string) string {
	return strings.Join(strings.Fields(strings.Join(parts, " ")), " ")
}

var pciType = regexp.MustCompile(`^([0-9a-f]{4}) \[([0-9a-f]{4}:[0-9a-f]{4})\]`)

func (x *xmlObject) convert(parent *object) error {
	o := &object{kind: x.Type, id: x.Index, parent: parent}
	parent.children = append(parent.children, o)
	if x.Memory != "" {
		o.memory = x.Memory + "B"
	}
	if m := pciType.FindStringSubmatch(x.PCI); m != nil && x.BusID != "" {
		o.kind = "PCI"
		o.label = fmt.Sprintf("busid=%s id=%s class=%s", x.BusID, m[2], m[1])
	}
	if x.Type == "OSDev" {
		o.label = fmt.Sprintf("%q", x.Name)
	}
	if x.CPUs != "" {
		cpus, err := parseHexMask(x.CPUs)
		if err != nil {
			return err
		}
		o.cpus = cpus
	}
	for i := range x.Objs {
		if err := x.Objs[i].convert(o); err != nil {
			return err
		}
	}
	return nil
}

// parseHexMask reads hwloc's masks, "0xf,0x00000003" or "0xf...f".
func parseHexMask(text string) (set topology.CPUSet, err error) {
	groups := strings.Split(text, ",")
	for i, group := range groups {
		group = strings.TrimPrefix(group, "0x")
		if group == "" {
			continue
		}
		word, err := strconv.ParseUint(group, 16, 32)
		if err != nil {
			return set, err
		}
		for bit := range 32 {
			if word>>bit&1 == 1 {
				set.Add(topology.CPUID((len(groups)-1-i)*32 + bit))
			}
		}
	}
	return set, nil
}

// list turns lstopo's tree into lines.
func (o *object) list(s *seen) {
	switch {
	case o.kind == "Package", o.kind == "Socket":
		s.add("package", "%s: %s", unknown(o.id), o.cpus)
	case o.kind == "Core":
		s.add("core", "%s: %s", unknown(o.id), o.cpus)
	case o.kind == "L3Cache" || o.kind == "L3":
		s.add("l3", "%s", o.cpus)
	case o.kind == "NUMANode":
		s.add("numa", "%s: %s", unknown(o.id), o.cpus)
		s.add("memory", "%s: %s", unknown(o.id), o.memory)
	case busID.MatchString(o.label):
		m := busID.FindStringSubmatch(o.label)
		s.add("pci", "%s %s %s", m[1], strings.Replace(m[2], "0000:0000", ":", 1), m[3])
		for _, child := range o.children {
			if name := quotedName.FindStringSubmatch(child.label); name != nil && !strings.HasPrefix(name[1], "dma") {
				s.add("names", "%s %s", m[1], name[1])
			}
		}
	}
	for _, child := range o.children {
		child.list(s)
	}
}

func unknown(id string) string {
	if id == "" || id == "4294967295" {
		return "-"
	}
	return id
}

// consoleDistances reads the latency matrix of a console output, which has logical indexes in the
// order of its head. nodes are the ids in logical order.
func consoleDistances(text string, nodes []string) []string {
	_, rest, ok := strings.Cut(text, "Relative latency matrix (name NUMALatency")
	if !ok {
		return nil
	}
	var values []string
	lines := strings.Split(rest, "\n")
	var order []string
	for _, head := range strings.Fields(lines[1])[1:] {
		if at, err := strconv.Atoi(head); err == nil && at < len(nodes) {
			order = append(order, nodes[at])
		}
	}
	for i := 2; i < len(lines) && i < 2+len(nodes); i++ {
		fields := strings.Fields(lines[i])
		if len(fields) != len(nodes)+1 {
			return nil
		}
		values = append(values, fields[1:]...)
	}
	return []string{strings.Join(order, " ") + " = " + strings.Join(values, " ")}
}

// readHwloc reads either output format.
func readHwloc(text string) (*seen, error) {
	root, s := (*object)(nil), newSeen()
	if strings.HasPrefix(text, "<?xml") {
		var err error
		if root, s, err = readXML(text); err != nil {
			return nil, err
		}
	} else {
		root = readConsole(text)
	}
	root.list(s)
	root.pus(&s.cpus)
	if !strings.HasPrefix(text, "<?xml") {
		ids := make([]string, len(s.lines["numa"]))
		root.nodes(ids)
		s.lines["distances"] = consoleDistances(text, ids)
	}
	return s, nil
}

// nodes puts the ids of the NUMA nodes in logical order.
func (o *object) nodes(ids []string) {
	if o.kind == "NUMANode" {
		ids[o.logical] = o.id
	}
	for _, child := range o.children {
		child.nodes(ids)
	}
}

func (o *object) pus(set *topology.CPUSet) {
	if o.kind == "PU" {
		if n, err := strconv.Atoi(o.id); err == nil {
			set.Add(topology.CPUID(n))
		}
	}
	for _, child := range o.children {
		child.pus(set)
	}
}
