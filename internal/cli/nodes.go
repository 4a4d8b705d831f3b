package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/internal/survey"
)

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
			s, err := surveyNodes(cmd.Context(), c, only)
			if err != nil {
				return err
			}
			writeNotes(cmd, s.Notes)
			if watch.on() {
				return watchNodes(cmd, o, c, s, following{only, watch.only})
			}
			return printNodes(cmd, o, s, only)
		},
	}
	live.register(cmd)
	watch.register(cmd)
	o.register(cmd, formatWide, formatName)
	return cmd
}

// surveyNodes surveys all nodes, or the one that is named, which has to be there.
func surveyNodes(ctx context.Context, c *survey.Cluster, only string) (*survey.Survey, error) {
	if only == "" {
		return c.Survey(ctx, "")
	}
	return c.SurveyNode(ctx, only)
}

// printNodes prints all nodes; more is said of the one that was asked for, if there is one.
func printNodes(cmd *cobra.Command, o output, s *survey.Survey, only string) error {
	all := s.Nodes()
	return printLive(cmd, o, listing("nodes", all, s.Notes), func(w io.Writer) error {
		if o.is(formatName) {
			return printNames(w, "node", len(all), func(i int) string { return all[i].Name })
		}
		if err := nodesTable(w, all, o.is(formatWide)); err != nil || only == "" {
			return err
		}
		return conditionsTable(w, s, only)
	})
}

// watchNodes prints nodes, and those again that change. What is wrong with one stands in its STATUS.
func watchNodes(cmd *cobra.Command, o output, c *survey.Cluster, s *survey.Survey, q following) error {
	wide := o.is(formatWide)
	st := stream[survey.Node]{
		cmd: cmd, o: o, list: "nodes", kind: "node", columns: nodeHeader(wide),
		name:   func(n *survey.Node) string { return n.Name },
		rows:   func(n *survey.Node) [][]string { return nodeRows(n, wide) },
		steady: func(n survey.Node) survey.Node { n.AgeSeconds = 0; return n },
		gone:   func(n survey.Node) survey.Node { n.Gone = true; return n },
	}
	if err := st.offerAll(s.Nodes(), func(n *survey.Node) string { return n.Name }, q.quietly); err != nil {
		return err
	}
	return c.WatchNodes(cmd.Context(), s, q.only, survey.Follower[survey.Node]{Show: st.show, Tell: teller(cmd)})
}

// Columns of nodes; the second are only of -o wide.
const (
	nodeColumns     = "NODE | STATUS | POLICY | PODS | REPORT | GUARANTEE | NUMA | CPUS | MEMORY | DEVICES"
	nodeWideColumns = " | KUBELET | MANAGERS | SEQUENCE | CONDITIONS"
)

func nodesTable(w io.Writer, all []survey.Node, wide bool) error {
	var rows [][]string
	for i := range all {
		rows = append(rows, nodeRows(&all[i], wide)...)
	}
	if err := columns(w, nodeHeader(wide), rows); err != nil {
		return err
	}
	for i := range all {
		nodeRemarks(w, &all[i])
	}
	return nil
}

func nodeHeader(wide bool) string {
	if wide {
		return nodeColumns + nodeWideColumns
	}
	return nodeColumns
}

// nodeRows repeats the node's name, so that lines can be searched for; the rest of the node stands in its first line.
func nodeRows(n *survey.Node, wide bool) [][]string {
	policy := "-"
	if n.Policy != "" {
		policy = n.Policy + "/" + n.Scope
	}
	pods, age := "-", "-"
	if n.Report > 0 {
		pods, age = strconv.Itoa(n.Pods), survey.AgeText(n.AgeSeconds)
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
		cells = append(cells, numaCells(&numa[i]))
	}
	first, last := []string{n.Name, nodeStatus(n), policy, pods, age, n.Guarantee}, nodeWide(n)
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

// nodeWide is what -o wide adds.
func nodeWide(n *survey.Node) []string {
	managers, report := "", "" // CPU and memory manager
	if n.CPUManager != "" {
		managers = n.CPUManager + "/" + n.MemoryManager
	}
	if n.Report > 0 {
		report = strconv.FormatInt(n.Report, 10)
	}
	return []string{dash(n.KubeletVersion), dash(managers), dash(report), dash(strings.Join(n.Conditions, ","))}
}

func numaCells(m *survey.NUMANode) []string {
	numa, cpus := strconv.Itoa(int(m.NUMA)), "-"
	if m.Anywhere {
		numa = "-"
	}
	if m.CPUs != nil {
		cpus = fmt.Sprintf("%d/%d", m.CPUs.Free, m.CPUs.Total)
	}
	var memory, devices []string
	for _, a := range m.Memory {
		text := survey.RoughBytes(a.Free) + "/" + survey.RoughBytes(a.Total)
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

// Words of the column STATUS, in the order in which they stand there.
const (
	statusReady    = "Ready"
	statusCordoned = "Cordoned"
	statusGone     = "Gone"
	statusNotReady = "NotReady" // the Node, that is the kubelet, whatever its report says
)

// nodeStatus is the column STATUS: the reason of the trouble, and of everything that is doubtful; Ready where there is nothing.
func nodeStatus(n *survey.Node) string {
	var words []string
	if n.Gone {
		return statusGone
	}
	if n.Trouble != nil {
		words = append(words, n.Trouble.Reason)
	}
	for i := range n.Warnings {
		if r := n.Warnings[i].Reason; r == survey.NotReady {
			words = append(words, statusNotReady)
		} else if !slices.Contains(words, r) {
			words = append(words, r)
		}
	}
	if len(words) == 0 {
		words = []string{statusReady}
	}
	if slices.Contains(n.Conditions, "Unschedulable") {
		words = append(words, statusCordoned)
	}
	return strings.Join(words, ",")
}

// nodeRemarks stand below the table: what is wrong or doubtful, and what to do.
func nodeRemarks(w io.Writer, n *survey.Node) {
	tell := func(t *survey.Trouble) {
		fmt.Fprintf(w, "\nnode %s (%s): %s\n", n.Name, t.Reason, t.Message)
		indented(w, "do: "+t.Advice)
	}
	if n.Trouble != nil {
		tell(n.Trouble)
	}
	for i := range n.Warnings {
		tell(&n.Warnings[i])
	}
}

// conditionsTable prints the conditions of the report, and of the Node's that its kubelet is ready.
func conditionsTable(w io.Writer, s *survey.Survey, name string) error {
	var rows [][]string
	for _, c := range s.Conditions(name) {
		age := "-"
		if !c.Since.IsZero() {
			age = survey.AgeText(survey.Seconds(s.Now.Sub(c.Since)))
		}
		rows = append(rows, []string{c.Source, c.Type, c.Status, dash(c.Reason), age, dash(c.Message)})
	}
	if len(rows) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	return columns(w, "SOURCE | CONDITION | STATUS | REASON | SINCE | MESSAGE", rows)
}
