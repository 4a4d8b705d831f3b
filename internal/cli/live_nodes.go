package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// nodeSummary is a node as `berth nodes` shows it.
type nodeSummary struct {
	Name           string `json:"name"`
	Authority      string `json:"authority,omitempty"`
	KubeletVersion string `json:"kubeletVersion,omitempty"`
	CPUManager     string `json:"cpuManager,omitempty"`
	MemoryManager  string `json:"memoryManager,omitempty"`
	Policy         string `json:"policy,omitempty"`
	Scope          string `json:"scope,omitempty"`
	// Guarantee is what the scheduler can promise there: full or none.
	Guarantee string `json:"guarantee"`
	// Pods are those in the report that have not ended; InFlight those that are bound and in no report yet.
	Pods     int   `json:"pods"`
	InFlight int   `json:"inFlight"`
	Report   int64 `json:"report,omitempty"`
	// AgeSeconds is since the agent's last sign of life.
	AgeSeconds int64    `json:"ageSeconds,omitempty"`
	Trouble    *trouble `json:"trouble,omitempty"`
	// Warnings say what is doubtful about a node, whether or not it is in trouble.
	Warnings []trouble `json:"warnings,omitempty"`
	// Conditions are those of the report and of the Node that say something is wrong: TYPE=STATUS(REASON).
	Conditions []string `json:"conditions,omitempty"`
	// Gone: a watch saw it go.
	Gone      bool          `json:"gone,omitempty"`
	NUMANodes []numaSummary `json:"numaNodes,omitempty"`
}

// numaSummary is what one NUMA node has, after everything that is on its way; Anywhere holds devices without a node.
type numaSummary struct {
	NUMA     topology.NUMAID `json:"numa"`
	Anywhere bool            `json:"anywhere,omitempty"`
	CPUs     *amount         `json:"cpus,omitempty"`
	Memory   []amount        `json:"memory,omitempty"`
	Devices  []amount        `json:"devices,omitempty"`
}

// amount is CPUs, bytes or devices that a pod could have to itself.
type amount struct {
	Resource string `json:"resource,omitempty"`
	Free     uint64 `json:"free"`
	Total    uint64 `json:"total"`
}

// NewNodesCommand returns the verb that shows what the NUMA nodes of a cluster have left.
func NewNodesCommand() *cobra.Command {
	var live liveFlags
	var o output
	var watch watchFlags
	cmd := &cobra.Command{
		Use:     "nodes [NODE]",
		Aliases: []string{"node"},
		Short:   "Show what every NUMA node of a cluster has left, and which nodes Berth can promise for",
		Long: `For each node of the cluster and each of its NUMA nodes show what pods can still have to themselves of CPUs, memory
and devices, after everything that is bound: free/total. STATUS is Ready, or says what makes the node unusable or doubtful. Below the
table stands what that means, and what to do. With the name of one node, its conditions stand there, too.`,
		Example: "  kubectl berth nodes\n  kubectl berth node n1\n  kubectl berth nodes -w\n  kubectl berth nodes n1 -o yaml",
		Args:    usageArgs(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(); err != nil {
				return err
			}
			c, err := live.connect()
			if err != nil {
				return err
			}
			only := strings.Join(args, "")
			f, err := c.facts(cmd.Context(), only)
			if err != nil {
				return err
			}
			s := c.surveyOf(f)
			if only != "" && len(s.nodes) == 0 {
				return fmt.Errorf("%s at %s", s.missing(only).Message, c.where)
			}
			if watch.on() {
				return watchNodes(cmd, c, o, f, only, watch.only)
			}
			return printNodes(cmd, o, s, s.nodes[only])
		},
	}
	live.register(cmd)
	watch.register(cmd)
	o.register(cmd, formatWide, formatName)
	return cmd
}

// printNodes prints all nodes; more is said of the one that was asked for, if there is one.
func printNodes(cmd *cobra.Command, o output, s *survey, one *liveNode) error {
	names := s.names()
	all := make([]nodeSummary, len(names))
	inParallel(len(names), func(i int) { all[i] = s.nodes[names[i]].summary(s) })
	writeNotes(cmd, s.notes)
	return printLive(cmd, o, listing("nodes", all, s.notes), func(w io.Writer) error {
		if o.is(formatName) {
			return printNames(w, "node", len(all), func(i int) string { return all[i].Name })
		}
		if err := nodesTable(w, all, o.is(formatWide)); err != nil || one == nil {
			return err
		}
		return one.writeConditions(w, s.now)
	})
}

func (n *liveNode) summary(s *survey) nodeSummary {
	out := nodeSummary{Name: n.name, Guarantee: n.guarantee(), Report: n.sequence(), Trouble: n.trouble, Warnings: n.warnings(), Conditions: n.conditions()}
	if n.spec != nil {
		c := &n.spec.Config
		out.Authority, out.KubeletVersion = string(n.spec.Authority), n.spec.KubeletVersion
		out.CPUManager, out.MemoryManager = cmp.Or(c.CPUManagerPolicy, "none"), cmp.Or(c.MemoryManagerPolicy, "None")
		out.Policy, out.Scope = cmp.Or(c.TopologyManagerPolicy, "none"), cmp.Or(c.TopologyManagerScope, "container")
	}
	if n.report != nil {
		out.AgeSeconds = seconds(s.now.Sub(n.heard))
		for i := range n.report.Pods {
			if n.report.Pods[i].State == "" {
				out.Pods++
			}
		}
	}
	if n.account == nil {
		return out
	}
	out.InFlight = n.inFlight
	snap, ok := n.account.Snapshot()
	if !ok {
		snap = n.report.Snapshot // too much is uncertain: what was reported
	}
	out.NUMANodes = n.amounts(&snap)
	return out
}

// amounts adds up a state by NUMA node.
func (n *liveNode) amounts(snap *placement.Snapshot) []numaSummary {
	var out []numaSummary
	pins := n.spec.Config.CPUManagerPolicy == "static"
	reserved := n.model.ReservedCPUs()
	free := snap.SharedCPUs.AndNot(&reserved)
	for i := range n.spec.Machine.NUMANodes {
		m := &n.spec.Machine.NUMANodes[i]
		one := numaSummary{NUMA: m.ID, Memory: memoryOn(snap, m.ID)}
		if pins {
			all := m.CPUs.AndNot(&reserved)
			one.CPUs = &amount{Free: uint64(all.AndLen(&free)), Total: uint64(all.Len())}
		}
		one.Devices = devicesOn(snap, func(d *placement.Device) bool { return d.NUMA.Has(m.ID) })
		out = append(out, one)
	}
	if nowhere := devicesOn(snap, func(d *placement.Device) bool { return d.NUMA == 0 }); len(nowhere) > 0 {
		out = append(out, numaSummary{Anywhere: true, Devices: nowhere})
	}
	return out
}

func memoryOn(snap *placement.Snapshot, numa topology.NUMAID) []amount {
	var out []amount
	for i := range snap.Memory {
		if snap.Memory[i].NUMA != numa {
			continue
		}
		for _, r := range snap.Memory[i].Resources {
			if r.Allocatable > 0 {
				out = append(out, amount{r.Resource, r.Free, r.Allocatable})
			}
		}
	}
	return out
}

// devicesOn counts devices; those that are unhealthy are not free.
func devicesOn(snap *placement.Snapshot, there func(*placement.Device) bool) []amount {
	var out []amount
	for i := range snap.Devices {
		pool := &snap.Devices[i]
		taken := takenOf(snap, pool.Resource)
		a := amount{Resource: pool.Resource}
		for j := range pool.Devices {
			d := &pool.Devices[j]
			if !there(d) {
				continue
			}
			a.Total++
			if !d.Unhealthy && !taken[d.ID] {
				a.Free++
			}
		}
		if a.Total > 0 {
			out = append(out, a)
		}
	}
	return out
}

func takenOf(snap *placement.Snapshot, resource string) map[string]bool {
	taken := map[string]bool{}
	for i := range snap.Pods {
		for _, c := range snap.Pods[i].Containers {
			for _, d := range c.Devices {
				for _, id := range d.IDs {
					taken[id] = taken[id] || d.Resource == resource
				}
			}
		}
	}
	return taken
}

// Columns of nodes; the second are only of -o wide.
const (
	nodeColumns     = "NODE | STATUS | POLICY | PODS | REPORT | GUARANTEE | NUMA | CPUS | MEMORY | DEVICES"
	nodeWideColumns = " | KUBELET | MANAGERS | SEQUENCE | CONDITIONS"
)

func nodesTable(w io.Writer, all []nodeSummary, wide bool) error {
	var rows [][]string
	for i := range all {
		rows = append(rows, all[i].rows(wide)...)
	}
	if err := columns(w, nodeHeader(wide), rows); err != nil {
		return err
	}
	for i := range all {
		all[i].remarks(w)
	}
	return nil
}

func nodeHeader(wide bool) string {
	if wide {
		return nodeColumns + nodeWideColumns
	}
	return nodeColumns
}

// rows repeats the node's name, so that lines can be searched for; the rest of the node stands in its first line.
func (n *nodeSummary) rows(wide bool) [][]string {
	policy := "-"
	if n.Policy != "" {
		policy = n.Policy + "/" + n.Scope
	}
	pods, age := "-", "-"
	if n.Report > 0 {
		pods, age = strconv.Itoa(n.Pods), ageText(n.AgeSeconds)
	}
	if n.InFlight > 0 {
		pods += "+" + strconv.Itoa(n.InFlight)
	}
	numa := n.NUMANodes
	cells := [][]string{{"-", "-", "-", "-"}}
	if len(numa) > 0 {
		cells = nil
	}
	for i := range numa {
		cells = append(cells, numa[i].cells())
	}
	first, last := []string{n.Name, n.status(), policy, pods, age, n.Guarantee}, n.wide()
	var rows [][]string
	for _, c := range cells {
		row := slices.Concat(first, c)
		if wide {
			row = append(row, last...)
		}
		rows = append(rows, row)
		first, last = []string{n.Name, "", "", "", "", ""}, []string{"", "", "", ""}
	}
	return rows
}

// wide is what -o wide adds.
func (n *nodeSummary) wide() []string {
	managers, report := "", "" // CPU and memory manager
	if n.CPUManager != "" {
		managers = n.CPUManager + "/" + n.MemoryManager
	}
	if n.Report > 0 {
		report = strconv.FormatInt(n.Report, 10)
	}
	return []string{dash(n.KubeletVersion), dash(managers), dash(report), dash(strings.Join(n.Conditions, ","))}
}

func (m *numaSummary) cells() []string {
	numa, cpus := strconv.Itoa(int(m.NUMA)), "-"
	if m.Anywhere {
		numa = "-"
	}
	if m.CPUs != nil {
		cpus = fmt.Sprintf("%d/%d", m.CPUs.Free, m.CPUs.Total)
	}
	var memory, devices []string
	for _, a := range m.Memory {
		text := roughBytes(a.Free) + "/" + roughBytes(a.Total)
		if a.Resource != "memory" {
			text = a.Resource + " " + text
		}
		memory = append(memory, text)
	}
	slices.SortFunc(memory, func(a, b string) int { return cmp.Compare(strings.Index(a, " "), strings.Index(b, " ")) }) // ordinary memory first
	for _, a := range m.Devices {
		devices = append(devices, fmt.Sprintf("%s %d/%d", a.Resource, a.Free, a.Total))
	}
	return []string{numa, cpus, dash(strings.Join(memory, ", ")), dash(strings.Join(devices, ", "))}
}
