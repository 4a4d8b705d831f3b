package placement

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/placement/memory"
	"github.com/berth-dev/berth/topology"
)

// Refusal explains why a node refuses a pod: the request, the amounts of every NUMA node, and the
// rule that refused. Events, the command line and the web page print this type. The JSON format of
// a Refusal is stable.
type Refusal struct {
	UID      string `json:"uid"`
	Reason   Reason `json:"reason"`
	Detail   Detail `json:"detail"`
	Rule     string `json:"rule"` // Detail.Text; for some Details, with names and numbers
	Scarcity string `json:"scarcity,omitempty"`
	// Cut means that the search ran out of steps before it found a place. A place may still exist.
	Cut bool `json:"cut,omitempty"`
	// Container is the container at which the admission stopped. It is "" if the refusal is not
	// about one container, for example because the pod is placed as one unit.
	Container string `json:"container,omitempty"`
	// Policy and Scope are the policy and the scope that applied to the pod.
	Policy string `json:"policy"`
	Scope  string `json:"scope,omitempty"`
	// NUMANodes is the number of NUMA nodes that the pod requires, if this number is the reason for
	// the refusal.
	NUMANodes int `json:"numaNodes,omitempty"`
	// Needs has the resources that the container or the pod requested, with the amounts that were
	// free when the node refused the pod.
	Needs []Need `json:"needs,omitempty"`
	// Devices explains for each device of a requested kind why it was not assigned. It is set only
	// if Berth decides.
	Devices []DeviceAnswer `json:"devices,omitempty"`
	// Remedies are changes after which the node admits the pod. Only Advise sets them.
	Remedies []Remedy `json:"remedies,omitempty"`

	asked Rules // the pod's own rules
	// advised means that Remedies is complete. milderHelps means that Advise has tried the policy
	// best-effort, and that it helps.
	advised, milderHelps bool
	// alone means that the pod has only one container. Messages then do not name the container.
	alone bool
}

// DeviceAnswer explains why a device was not assigned.
type DeviceAnswer struct {
	Resource string `json:"resource"`
	ID       string `json:"id"`
	// NUMA, Root and Switch are the place of the device, if known.
	NUMA   *topology.NUMAID `json:"numa,omitempty"`
	Root   string           `json:"root,omitempty"`
	Switch string           `json:"switch,omitempty"`
	// Why is "held", "unhealthy", "free", or "free, and ..." with the reason why the pod cannot use
	// the device.
	Why string `json:"why"`
	// Holder is the pod that holds the device: its UID, a name that a program has put in place of
	// the UID, or "the pod itself".
	Holder string `json:"holder,omitempty"`
}

// Need is one resource of a Refusal. Amounts are CPUs, thousandths of a CPU for CPU shares, bytes,
// devices, or a provider's amounts.
type Need struct {
	Resource string `json:"resource"`
	Asked    uint64 `json:"asked"`
	// Free is the free amount of the whole node. If the kubelet decides, it includes devices
	// without a NUMA node.
	Free uint64 `json:"free"`
	// Fewest is the smallest number of NUMA nodes that could provide the requested amount on an
	// empty machine. It is 0 if the number is not known, or if the resource accepts all NUMA nodes.
	Fewest int `json:"fewest,omitempty"`
	// FewestUsable is Fewest computed without reserved CPUs. It is set only if it differs from
	// Fewest. A kubelet counts reserved CPUs (kubernetes#132187).
	FewestUsable int `json:"fewestUsable,omitempty"`
	// Whole is the number of CPUs per core if a rule for whole cores applies: full-pcpus-only, or
	// berth.dev/exclusive: core in a refusal with the Detail Withholds. Otherwise it is 0.
	Whole uint64 `json:"whole,omitempty"`
	// Preferred has the sets of NUMA nodes for which the resource has a preferred hint, each as a
	// list such as "0-1". Anywhere means that the resource accepts all NUMA nodes. If both are
	// unset, the resource has no preferred hint, so a policy that requires preferred hints refuses
	// the pod.
	Preferred []string `json:"preferred,omitempty"`
	Anywhere  bool     `json:"anywhere,omitempty"`
	// Nodes has one entry for each NUMA node that has any of the resource, ascending.
	Nodes []NodeAmount `json:"nodes,omitempty"`
}

// NodeAmount has the amounts of a resource on a NUMA node.
type NodeAmount struct {
	NUMA topology.NUMAID `json:"numa"`
	// Free is the amount that is free now. Total is the amount that would be free if the node had
	// no pods and all its devices were healthy.
	Free  uint64 `json:"free"`
	Total uint64 `json:"total"`
	// Reused is the part of Free that init containers of the pod had before. The kubelet must
	// assign the whole Reused amount again, so it considers only sets of NUMA nodes that contain
	// this amount. Reused is set for CPUs and devices, not for memory.
	Reused uint64 `json:"reused,omitempty"`
	// Group is the list of NUMA nodes that share this NUMA node's memory allocations. It is "" if
	// the NUMA node is in no group.
	Group string `json:"group,omitempty"`
}

// RemovingPods returns a text that tells whether evicting pods would help; scarcity is a result of
// Scarcity.String.
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

// String returns the refusal in one line, for an event: "container main: NUMA 0 has 5 free CPUs (8
// needed), NUMA 1 has 3 (TopologyAffinityError)". It does not name the container if the pod has
// only one, so that nodes with the scopes container and pod print the same line.
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

// cutText is appended to a refusal whose search ran out of steps.
const cutText = "; the search stopped at its limit and did not try every placement"

// shortage describes, with numbers, the resource of which too little is free. It returns "" if
// there is no such resource.
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
			return fmt.Sprintf("the node has %s free %s (%s needed)", n.amount(n.Free), n.unitOf(n.Free), n.amount(n.Asked))
		}
	}
	for i := range r.Needs {
		if n := &r.Needs[i]; r.about(n) && (n.isMemory() || r.Detail == TooWide) && n.scattered() {
			return n.perNode()
		}
	}
	for i := range r.Needs {
		if n := &r.Needs[i]; r.about(n) && n.isProvided() {
			return fmt.Sprintf("%s: the node has %d %s left (%d needed)", r.Rule, n.Free, n.Resource, n.Asked)
		}
	}
	return ""
}

// brokenCores explains that the request is not a multiple of the CPUs per core. It returns "" if
// the number of CPUs per core is not known.
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
			return fmt.Sprintf("%s not a whole number of cores, which have %d CPUs each; full-pcpus-only requires %s", asks, n.Whole, want)
		}
	}
	return ""
}

// withheld explains how many CPUs the pod must request so that it keeps no other CPUs idle.
func (r *Refusal) withheld() string {
	at := slices.IndexFunc(r.Needs, func(n Need) bool { return n.Resource == cpuResource })
	if at < 0 {
		return ""
	}
	n := &r.Needs[at]
	if n.Whole > 0 {
		return fmt.Sprintf("\"berth.dev/exclusive: core\" would keep CPUs of a core idle, because the pod asks for %d %s and a core has %d: ask for whole cores",
			n.Asked, n.unitOf(n.Asked), n.Whole)
	}
	var nodes []string
	for _, node := range n.Nodes {
		nodes = append(nodes, fmt.Sprintf("NUMA node %d has %d", node.NUMA, node.Total))
	}
	return fmt.Sprintf("\"berth.dev/exclusive: numa\" would keep CPUs of a NUMA node idle, because the pod asks for %d %s: ask for all CPUs of one or more NUMA nodes (%s)",
		n.Asked, n.unitOf(n.Asked), strings.Join(nodes, ", "))
}

// inexact describes the amounts of each NUMA node if no set with the required number of NUMA nodes
// has room.
func (r *Refusal) inexact() string {
	wanted := numaNodes(r.NUMANodes)
	var parts []string
	for i := range r.Needs {
		parts = append(parts, r.Needs[i].perNode())
	}
	if len(parts) == 0 {
		return "the pod asks for no CPUs and no memory to place on " + wanted
	}
	return "no room on exactly " + wanted + " with a part on each: " + strings.Join(parts, "; ")
}

// scattered returns true if no single NUMA node has enough, and also if memory is allocated in
// groups.
func (n *Need) scattered() bool {
	enough, grouped := false, false
	for i := range n.Nodes {
		enough = enough || n.Nodes[i].Free >= n.Asked
		grouped = grouped || n.Nodes[i].Group != ""
	}
	return !enough || grouped
}

// unaligned explains why the policy finds no set of NUMA nodes. There are three causes: resources
// need different numbers of NUMA nodes, a resource fits on no set, or each resource fits on some
// set but no set fits all.
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

// sizes describes the numbers of NUMA nodes that resources need. It returns "" if these numbers are
// not the cause of the refusal.
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

// extremes returns the need with the smallest Fewest and the need with the largest Fewest, or nil.
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

// counted explains that the kubelet expects the CPUs on fewer NUMA nodes than they need, because it
// also counts reserved CPUs.
func (n *Need) counted() string {
	return fmt.Sprintf("the kubelet expects %s %s on %s, because it also counts reserved CPUs (%s without them)",
		n.amount(n.Asked), n.unit(), numaNodes(n.Fewest), numaNodes(n.FewestUsable))
}

func numaNodes(n int) string {
	if n == 1 {
		return "1 NUMA node"
	}
	return strconv.Itoa(n) + " NUMA nodes"
}

// about reports whether a shortage of this resource can be the reason for the refusal.
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

// isProvided reports whether the resource is a device or a provider's resource, and not CPUs, CPU
// time or memory.
func (n *Need) isProvided() bool {
	return !n.isMemory() && n.Resource != cpuResource && n.Resource != shareResource
}

func (n *Need) isMemory() bool { return isMemory(n.Resource) }

func isMemory(resource string) bool {
	return resource == memory.Regular || strings.HasPrefix(resource, "hugepages-")
}

// perNode lists the free amount of each NUMA node, with its group if it has one.
func (n *Need) perNode() string {
	if len(n.Nodes) == 0 {
		return fmt.Sprintf("the node has %s free %s without a known NUMA node (%s needed)", n.amount(n.Free), n.unitOf(n.Free), n.amount(n.Asked))
	}
	parts := make([]string, len(n.Nodes))
	for i := range n.Nodes {
		a := &n.Nodes[i]
		if i == 0 {
			parts[i] = fmt.Sprintf("NUMA %d has %s free %s (%s needed)", a.NUMA, n.amount(a.Free), n.unitOf(a.Free), n.amount(n.Asked))
		} else {
			parts[i] = fmt.Sprintf("NUMA %d has %s", a.NUMA, n.amount(a.Free))
		}
		if a.Group != "" {
			parts[i] += " in group " + a.Group
		}
	}
	return strings.Join(parts, ", ") + n.reuse()
}

// reuse describes the resources of the pod's init containers that the kubelet must assign again. It
// returns "" if these resources do not explain why the kubelet uses no other NUMA node.
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
	return "; they must include the resources of its init containers: " + strings.Join(parts, ", ")
}

// conflict describes the NUMA nodes on which each resource fits.
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
	return "no NUMA nodes have room for all resources: " + strings.Join(parts, ", ")
}

func (n *Need) unit() string {
	if n.Resource == cpuResource {
		return "CPUs"
	}
	return n.Resource
}

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

// close reports whether some amount would be printed like the request, although the two differ.
func (n *Need) close() bool {
	alike := func(v uint64) bool { return v != n.Asked && topology.RoughBytes(v) == topology.RoughBytes(n.Asked) }
	return alike(n.Free) || slices.ContainsFunc(n.Nodes, func(a NodeAmount) bool { return alike(a.Free) || alike(a.Total) })
}

// endless is a number of bytes that no machine has. A larger amount means that an unsigned
// subtraction of the kubelet wrapped around (DefectMemoryUnderflow).
const endless = 1 << 60

// Table returns the complete refusal: the rule, then a table with a line for each resource and NUMA
// node.
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

// writeColumns writes rows as columns. It pads all columns but the last.
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

// shareResource is the name of CPU time in a Refusal if Berth decides. Amounts of CPU time are in
// thousandths of a CPU.
const shareResource = "cpu shares (m)"
