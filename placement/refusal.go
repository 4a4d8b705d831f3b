package placement

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/placement/memory"
	"github.com/berth-dev/berth/topology"
)

// Refusal explains why a node refuses a pod: what was asked, what every NUMA node has, and which
// rule refused. Events, the command line and the page print the same Refusal. Its JSON is stable.
type Refusal struct {
	UID      string `json:"uid"`
	Reason   Reason `json:"reason"`
	Detail   Detail `json:"detail"`
	Rule     string `json:"rule"` // Detail.Text
	Scarcity string `json:"scarcity,omitempty"`
	// Cut means that the search for a place ended because it ran out of steps, so that there may be
	// one.
	Cut bool `json:"cut,omitempty"`
	// Container is where the kubelet stopped; "" means the pod as a whole, or that it was admitted.
	Container string `json:"container,omitempty"`
	// Policy and Scope are the Topology Manager's.
	Policy string `json:"policy"`
	Scope  string `json:"scope,omitempty"`
	// NUMANodes is the exact number of NUMA nodes that it must be on, where that is why there is no
	// room.
	NUMANodes int `json:"numaNodes,omitempty"`
	// Needs is what the container, or the pod, asks for that NUMA nodes provide, with what was
	// there at that moment.
	Needs []Need `json:"needs,omitempty"`
	// Devices is why each device that was asked for by its kind could not be given; only if Berth
	// decides.
	Devices []DeviceAnswer `json:"devices,omitempty"`
	// Remedies are changes after which the node admits the pod; only of Advise.
	Remedies []Remedy `json:"remedies,omitempty"`

	asked Rules // the pod's own
	// advised means that Remedies are all there are, and milderHelps that milder holds.
	advised, milderHelps bool
	// alone means that the pod has no other container, so that nobody has to be told which it is.
	alone bool
}

// DeviceAnswer is why a device could not be had.
type DeviceAnswer struct {
	Resource string `json:"resource"`
	ID       string `json:"id"`
	// NUMA, Root and Switch are where it is, as far as that is known.
	NUMA   *topology.NUMAID `json:"numa,omitempty"`
	Root   string           `json:"root,omitempty"`
	Switch string           `json:"switch,omitempty"`
	// Why is "held", "unhealthy", "free", or "free, and ..." with what the place lacks.
	Why string `json:"why"`
	// Holder is who holds it: the UID of a pod, or what the reader knows it by.
	Holder string `json:"holder,omitempty"`
}

// Need is one resource of a Refusal. Amounts are CPUs, bytes or devices.
type Need struct {
	Resource string `json:"resource"`
	Asked    uint64 `json:"asked"`
	// Free is what the whole node has, on any NUMA node or none.
	Free uint64 `json:"free"`
	// Fewest is the least number of NUMA nodes that could provide the resource on an empty machine;
	// 0 where that does not matter.
	Fewest int `json:"fewest,omitempty"`
	// FewestUsable is the least number that could without the reserved CPUs, if it is another one:
	// a kubelet counts reserved CPUs when it says which number is the least (kubernetes#132187).
	FewestUsable int `json:"fewestUsable,omitempty"`
	// Whole is how many CPUs a core has, if full-pcpus-only gives whole cores alone; else 0.
	Whole uint64 `json:"whole,omitempty"`
	// Preferred is the sets of NUMA nodes from which the resource would best be had, as lists;
	// Anywhere says that it has no preference. Neither means that nothing is preferred: this
	// resource alone keeps the pod out of policies that insist.
	Preferred []string `json:"preferred,omitempty"`
	Anywhere  bool     `json:"anywhere,omitempty"`
	// Nodes has one entry for each NUMA node that has any of the resource, ascending.
	Nodes []NodeAmount `json:"nodes,omitempty"`
}

// NodeAmount is how much of a resource a NUMA node has.
type NodeAmount struct {
	NUMA topology.NUMAID `json:"numa"`
	// Free can be had now, Total if the node were empty.
	Free  uint64 `json:"free"`
	Total uint64 `json:"total"`
	// Reused is how much of Free the pod's init containers had that have ended: the kubelet wants
	// all of that to be among what it gives, and so looks only at sets of NUMA nodes that have it.
	// Of CPUs and devices; of memory there is no such rule.
	Reused uint64 `json:"reused,omitempty"`
	// Group is the NUMA nodes with which the node's memory is handed out, as a list, unless it is
	// on its own.
	Group string `json:"group,omitempty"`
}

// RemovingPods describes whether evicting pods would help, for a scarcity by name.
func RemovingPods(scarcity string) string {
	if scarcity == Unresolvable.String() {
		return "removing pods does not help"
	}
	return "removing pods can help"
}

// String returns the scarcity's name, "" for NotScarce.
func (s Scarcity) String() string {
	return [...]string{"", "resolvable", "unresolvable"}[min(s, Unresolvable)]
}

// String returns the refusal in one line, for an event: "container main: NUMA 0 has 5 free CPUs of
// 8 asked, NUMA 1 has 3 (TopologyAffinityError)". It does not name the only container of a pod, so
// that nodes with the scopes container and pod print the same line.
func (r Refusal) String() string {
	if r.Reason == Admitted {
		return "admitted"
	}
	var b strings.Builder
	if r.Container != "" && !r.alone {
		b.WriteString("container " + r.Container + ": ")
	}
	text := r.shortage()
	if text == "" || r.Reason == KubeletDefect {
		text = r.Rule
	}
	b.WriteString(text + " (" + r.Reason.String() + ")")
	if r.Cut {
		b.WriteString(cutText)
	}
	return b.String()
}

// cutText follows a refusal whose search ended early.
const cutText = "; the search is limited and did not look at every place"

// shortage returns which resource is the problem, in numbers; "" if none is by itself.
func (r *Refusal) shortage() string {
	switch {
	case r.Detail == NotPreferred:
		return r.unaligned()
	case r.Detail == NotWholeCores:
		return r.brokenCores()
	case r.Detail == Withholds:
		return r.withheld()
	case r.Detail == NotExactly:
		return r.inexact()
	case r.Detail == ProviderElsewhere && len(r.Needs) > 0:
		return r.Needs[0].Resource + ": " + r.Rule
	}
	for i := range r.Needs {
		if n := &r.Needs[i]; r.about(n) && n.Free < n.Asked {
			return fmt.Sprintf("the node has %s free %s of %s asked", n.amount(n.Free), n.unitOf(n.Free), n.amount(n.Asked))
		}
	}
	for i := range r.Needs {
		if n := &r.Needs[i]; r.about(n) && (n.isMemory() || r.Detail == TooWide) && n.scattered() {
			return n.perNode()
		}
	}
	for i := range r.Needs {
		if n := &r.Needs[i]; r.about(n) && n.isProvided() {
			return fmt.Sprintf("%s: %d %s asked, %d left on the node", r.Rule, n.Asked, n.Resource, n.Free)
		}
	}
	return ""
}

// brokenCores returns how many CPUs a core has, if the CPUs asked for are no multiple of that.
func (r *Refusal) brokenCores() string {
	for i := range r.Needs {
		if n := &r.Needs[i]; n.Resource == cpuResource && n.Whole > 1 {
			below, above := n.Asked-n.Asked%n.Whole, n.Asked-n.Asked%n.Whole+n.Whole
			asks, want := fmt.Sprintf("%d CPUs are", n.Asked), fmt.Sprintf("%d or %d", below, above)
			if n.Asked == 1 {
				asks = "1 CPU is"
			}
			if below == 0 {
				want = strconv.FormatUint(above, 10)
			}
			return fmt.Sprintf("%s not a whole number of cores, which have %d CPUs each; full-pcpus-only wants %s", asks, n.Whole, want)
		}
	}
	return ""
}

// withheld describes what a pod that keeps CPUs from others would have to ask for.
func (r *Refusal) withheld() string {
	at := slices.IndexFunc(r.Needs, func(n Need) bool { return n.Resource == cpuResource })
	if at < 0 {
		return ""
	}
	n := &r.Needs[at]
	if n.Whole > 0 {
		return fmt.Sprintf("berth.dev/exclusive: core for %d CPUs keeps the rest of their cores idle, which have %d CPUs each: ask for whole cores", n.Asked, n.Whole)
	}
	var nodes []string
	for _, node := range n.Nodes {
		nodes = append(nodes, fmt.Sprintf("NUMA node %d has %d", node.NUMA, node.Total))
	}
	return fmt.Sprintf("berth.dev/exclusive: numa for %d CPUs keeps the rest of their NUMA nodes idle: ask for all CPUs of one or more (%s)", n.Asked, strings.Join(nodes, ", "))
}

// inexact describes what each NUMA node has if no set of as many as wanted has room.
func (r *Refusal) inexact() string {
	wanted := numaNodes(r.NUMANodes)
	var parts []string
	for i := range r.Needs {
		parts = append(parts, r.Needs[i].perNode())
	}
	if len(parts) == 0 {
		return "it asks for no CPUs and no memory that could be on " + wanted
	}
	return "not on exactly " + wanted + ", each of which gives some: " + strings.Join(parts, "; ")
}

// scattered reports whether no NUMA node has enough by itself, or memory is handed out in groups.
func (n *Need) scattered() bool {
	enough, grouped := false, false
	for i := range n.Nodes {
		enough = enough || n.Nodes[i].Free >= n.Asked
		grouped = grouped || n.Nodes[i].Group != ""
	}
	return !enough || grouped
}

// unaligned explains why the policy finds no set of NUMA nodes: resources that need different
// numbers of them never agree; one may be short everywhere; or each fits somewhere, but nowhere all
// do.
func (r *Refusal) unaligned() string {
	if text := r.sizes(); text != "" {
		return text
	}
	for i := range r.Needs {
		if n := &r.Needs[i]; len(n.Preferred) == 0 && !n.Anywhere {
			text := n.perNode()
			if n.FewestUsable > 0 {
				text += "; " + n.counted()
			}
			return text
		}
	}
	return r.conflict()
}

// sizes returns how many NUMA nodes resources need, if the policy allows one only, or if they
// differ and no pod's removal can help.
func (r *Refusal) sizes() string {
	fewest, most := r.extremes()
	switch {
	case most == nil || most.Fewest == 1:
		return ""
	case r.Policy == "single-numa-node":
		return most.size() + ", and single-numa-node allows 1"
	case fewest.Fewest != most.Fewest && r.Scarcity == Unresolvable.String():
		return most.size() + ", " + fewest.size() + ", and " + r.Policy + " wants the same for both"
	}
	return ""
}

// extremes returns the needs for the fewest and the most NUMA nodes, nil if none names any.
func (r *Refusal) extremes() (fewest, most *Need) {
	for i := range r.Needs {
		n := &r.Needs[i]
		if n.Fewest == 0 {
			continue
		}
		if fewest == nil || n.Fewest < fewest.Fewest {
			fewest = n
		}
		if most == nil || n.Fewest > most.Fewest {
			most = n
		}
	}
	return fewest, most
}

func (n *Need) size() string {
	if n.FewestUsable > 0 {
		return n.counted()
	}
	return fmt.Sprintf("%s %s need %s", n.amount(n.Asked), n.unit(), numaNodes(n.Fewest))
}

// counted returns how many NUMA nodes a kubelet wants for CPUs that fit on no so many.
func (n *Need) counted() string {
	return fmt.Sprintf("%s %s count as %s, as the kubelet counts reserved CPUs too (%d have so many for pods)",
		n.amount(n.Asked), n.unit(), numaNodes(n.Fewest), n.FewestUsable)
}

func numaNodes(n int) string {
	if n == 1 {
		return "1 NUMA node"
	}
	return strconv.Itoa(n) + " NUMA nodes"
}

// about reports whether the refusal's rule is about the resource.
func (r *Refusal) about(n *Need) bool {
	switch r.Detail {
	case TooFewCPUs, CPUsNotFound, NoCPUs:
		return n.Resource == cpuResource
	case TooWide:
		return len(n.Nodes) > 0
	case NotProvided, ProvidedApart, ProviderWrong:
		return n.isProvided()
	case NoRoom:
		return n.isMemory() || n.Resource == shareResource
	case NoDefaultMemory, NoMemoryExtension, DefaultMemoryNotPreferred, MemoryExtensionNotPreferred, MemoryGroup:
		return n.isMemory()
	case TooFewDevices, NoHealthyDevice, NoDevices:
		return !n.isMemory() && n.Resource != cpuResource
	}
	return false
}

// isProvided reports whether a provider hands the resource out, or a device plugin.
func (n *Need) isProvided() bool {
	return !n.isMemory() && n.Resource != cpuResource && n.Resource != shareResource
}

func (n *Need) isMemory() bool { return isMemory(n.Resource) }

func isMemory(resource string) bool {
	return resource == memory.Regular || strings.HasPrefix(resource, "hugepages-")
}

// perNode lists what each NUMA node has. If a single one has enough, its total or its group is the
// reason.
func (n *Need) perNode() string {
	if len(n.Nodes) == 0 {
		return fmt.Sprintf("no NUMA node has any of %s %s asked", n.amount(n.Asked), n.unit())
	}
	parts := make([]string, len(n.Nodes))
	for i := range n.Nodes {
		a := &n.Nodes[i]
		if i == 0 {
			parts[i] = fmt.Sprintf("NUMA %d has %s free %s of %s asked", a.NUMA, n.amount(a.Free), n.unitOf(a.Free), n.amount(n.Asked))
		} else {
			parts[i] = fmt.Sprintf("NUMA %d has %s", a.NUMA, n.amount(a.Free))
		}
		if a.Group != "" {
			parts[i] += " in group " + a.Group
		}
	}
	return strings.Join(parts, ", ") + n.reuse()
}

// reuse describes what an amount may not do without though another NUMA node has enough.
func (n *Need) reuse() string {
	var parts []string
	for i := range n.Nodes {
		if a := &n.Nodes[i]; a.Reused > 0 && a.Free < n.Asked {
			parts = append(parts, fmt.Sprintf("%s on NUMA %d", n.amount(a.Reused), a.NUMA))
		}
	}
	if len(parts) == 0 || n.scattered() {
		return ""
	}
	return "; among them must be what its init containers had: " + strings.Join(parts, ", ")
}

// conflict returns which resource fits where.
func (r *Refusal) conflict() string {
	var parts []string
	for i := range r.Needs {
		if n := &r.Needs[i]; !n.Anywhere {
			parts = append(parts, fmt.Sprintf("%s %s on NUMA %s", n.amount(n.Asked), n.unit(), strings.Join(n.Preferred, " or ")))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "no NUMA nodes have all of it at once: " + strings.Join(parts, ", ")
}

// unit is what amounts of the resource are called.
func (n *Need) unit() string {
	if n.Resource == cpuResource {
		return "CPUs"
	}
	return n.Resource
}

// unitOf is unit for so many.
func (n *Need) unitOf(v uint64) string {
	if n.Resource == cpuResource && v == 1 {
		return "CPU"
	}
	return n.unit()
}

func (n *Need) amount(v uint64) string {
	if n.isMemory() && v >= endless {
		return "endless"
	}
	switch {
	case n.isMemory() && n.close():
		return topology.FormatBytes(v)
	case n.isMemory():
		return topology.RoughBytes(v)
	}
	return strconv.FormatUint(v, 10)
}

// close reports whether what is free somewhere differs from what is asked, and would look the same.
func (n *Need) close() bool {
	alike := func(v uint64) bool { return v != n.Asked && topology.RoughBytes(v) == topology.RoughBytes(n.Asked) }
	return alike(n.Free) || slices.ContainsFunc(n.Nodes, func(a NodeAmount) bool { return alike(a.Free) || alike(a.Total) })
}

// endless is the number of bytes that shows that a kubelet has subtracted more than there is (see
// DefectMemoryUnderflow): no machine has so many.
const endless = 1 << 60

// Table returns the complete refusal: the rule, then a line for each resource and NUMA node, in
// columns.
func (r Refusal) Table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", r.Reason, r.Rule)
	fmt.Fprintf(&b, "policy %s", r.Policy)
	if r.Scope != "" {
		fmt.Fprintf(&b, ", scope %s", r.Scope)
	}
	if r.Container != "" {
		fmt.Fprintf(&b, ", container %s", r.Container)
	}
	if r.Scarcity != "" {
		b.WriteString(", " + RemovingPods(r.Scarcity))
	}
	if r.Cut {
		b.WriteString(cutText)
	}
	b.WriteByte('\n')
	if len(r.Needs) == 0 {
		return b.String()
	}
	rows := [][]string{{"RESOURCE", "ASKED", "NUMA", "FREE", "TOTAL", "PREFERRED"}}
	for i := range r.Needs {
		rows = append(rows, r.Needs[i].rows()...)
	}
	writeColumns(&b, rows)
	for i := range r.Needs {
		if n := &r.Needs[i]; n.FewestUsable > 0 {
			b.WriteString(n.counted() + "\n")
		}
	}
	if len(r.Devices) > 0 {
		rows = [][]string{{"RESOURCE", "DEVICE", "NUMA", "ROOT", "SWITCH", "STATE"}}
		for i := range r.Devices {
			rows = append(rows, r.Devices[i].row())
		}
		writeColumns(&b, rows)
	}
	return b.String()
}

func (d *DeviceAnswer) row() []string {
	numa, why := "", d.Why
	if d.NUMA != nil {
		numa = strconv.Itoa(int(*d.NUMA))
	}
	if d.Holder != "" {
		why += " by " + d.Holder
	}
	return []string{d.Resource, d.ID, numa, d.Root, d.Switch, why}
}

func (n *Need) rows() [][]string {
	preferred := strings.Join(n.Preferred, " ")
	switch {
	case n.Anywhere && n.Free >= n.Asked:
		preferred = "anywhere"
	case preferred == "":
		preferred = "none"
	}
	rows := [][]string{{n.Resource, n.amount(n.Asked), "all", n.amount(n.Free), "", preferred}}
	for i := range n.Nodes {
		a := &n.Nodes[i]
		group := ""
		if a.Group != "" {
			group = "group " + a.Group
		}
		rows = append(rows, []string{"", "", strconv.Itoa(int(a.NUMA)), n.amount(a.Free), n.amount(a.Total), group})
	}
	return rows
}

// writeColumns pads all columns but the last.
func writeColumns(b *strings.Builder, rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], len(cell))
		}
	}
	for _, row := range rows {
		line := ""
		for i, cell := range row {
			line += cell + strings.Repeat(" ", widths[i]-len(cell)+2)
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
}

// The resources of a Refusal if Berth decides: CPUs of one's own, and CPU time in thousandths.
const shareResource = "cpu shares (m)"
