package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-dev/berth/internal/machineview"
	"github.com/berth-dev/berth/internal/survey"
	"github.com/berth-dev/berth/internal/survey/query"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/topology"
)

// nodesQuestion selects and sorts the nodes.
type nodesQuestion struct {
	names    []string
	selector string
	labels   labels.Selector // what selector means; check sets it
	sortBy   string
	cluster  *survey.Cluster
}

// NewNodesCommand returns the verb that shows the free resources of a cluster's NUMA nodes.
func NewNodesCommand() *cobra.Command {
	var cluster clusterFlags
	var o output
	var watch watchFlags
	var q nodesQuestion
	cmd := &cobra.Command{
		Use:     "nodes [NODE ...]",
		Aliases: []string{"node"},
		Short:   "Show what every NUMA node of a cluster has free, and which nodes are reliable",
		Long: `Shows for each NUMA node of the cluster which CPUs, memory and devices are free for exclusive use, as free/total.
The resources of bound pods count as taken. STATUS is Ready, or lists why the node is not fully reliable. Lines below
the table list what Reservations hold for future pods, and describe each node in trouble with advice. If you name
nodes, the verb also lists their conditions and the pods on their CPUs. -o svg draws one node with its pods.`,
		Example: `  kubectl berth nodes
  kubectl berth nodes -l pool=gpu --sort-by free
  kubectl berth node n1
  kubectl berth node n1 -o svg > n1.svg
  kubectl berth nodes -w
  kubectl berth nodes n1 n2 -o yaml`,
		ValidArgsFunction: cluster.completeNodes,
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, name := range args {
				q.names = append(q.names, strings.TrimPrefix(strings.TrimPrefix(name, "node/"), "nodes/"))
			}
			if nodeOrders[q.sortBy] == nil {
				return Usagef("--sort-by %q: want %s", q.sortBy, strings.Join(slices.Sorted(maps.Keys(nodeOrders)), ", "))
			}
			if err := q.check(); err != nil {
				return err
			}
			if o.is(formatSVG) {
				if err := q.drawable(watch); err != nil {
					return err
				}
			}
			c, err := cluster.connect()
			if err != nil {
				return err
			}
			s, err := q.survey(cmd.Context(), c)
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("namespace") {
				writeNotes(cmd, []string{"nodes belong to no namespace: -n " + *cluster.config.Namespace + " has no effect"})
			}
			writeNotes(cmd, s.Notes)
			q.cluster = c
			if o.is(formatSVG) {
				return q.draw(cmd, s)
			}
			if watch.on() {
				return watchNodes(cmd, o, c, s, following{q.only(), watch.only})
			}
			return q.print(cmd, o, s)
		},
	}
	cmd.Flags().StringVarP(&q.selector, "selector", "l", "", "only nodes with these labels, in kubectl's syntax")
	cmd.Flags().StringVar(&q.sortBy, "sort-by", "name", "name; free: most free CPUs first; block: most free CPUs on one NUMA node first; pods: most pods first")
	_ = cmd.RegisterFlagCompletionFunc("sort-by", cobra.FixedCompletions(slices.Sorted(maps.Keys(nodeOrders)), cobra.ShellCompDirectiveNoFileComp))
	cluster.register(cmd)
	watch.register(cmd)
	o.register(cmd, formatWide, formatName, formatSVG)
	o.registerNoHeaders(cmd)
	return cmd
}

// The result of only is the name of the node if the user has named exactly one node, and otherwise
// "".
func (q *nodesQuestion) only() string {
	if len(q.names) != 1 {
		return ""
	}
	return q.names[0]
}

// check reads --selector. A verb calls it before it connects to a cluster.
func (q *nodesQuestion) check() (err error) {
	if q.labels, err = labels.Parse(q.selector); err != nil {
		return Usagef("--selector %q: %w: want labels in kubectl's syntax, like pool=gpu or 'pool in (a,b)'", q.selector, err)
	}
	return nil
}

// survey surveys the selected nodes. It returns an error if a named node does not exist.
func (q *nodesQuestion) survey(ctx context.Context, c *survey.Cluster) (*survey.Survey, error) {
	s, err := c.Survey(ctx, q.only())
	if err != nil {
		return nil, err
	}
	return s, c.Narrow(s, q.names, q.labels)
}

// nodeOrders are the values of --sort-by. Nodes that compare equal stay in the order of their
// names.
var nodeOrders = map[string]func(a, b *survey.Node) int{
	"name":  func(a, b *survey.Node) int { return cmp.Compare(a.Name, b.Name) },
	"free":  func(a, b *survey.Node) int { return cmp.Compare(freeCPUs(b), freeCPUs(a)) },
	"block": func(a, b *survey.Node) int { return cmp.Compare(freeBlock(b), freeBlock(a)) },
	"pods":  func(a, b *survey.Node) int { return cmp.Compare(b.Pods+b.InFlight, a.Pods+a.InFlight) },
}

// freeCPUs returns the number of CPUs on the node that pods can still get exclusively.
func freeCPUs(n *survey.Node) (free uint64) {
	for i := range n.NUMANodes {
		if c := n.NUMANodes[i].CPUs; c != nil {
			free += c.Free
		}
	}
	return free
}

// freeBlock returns the largest number of CPUs on one NUMA node that pods can still get
// exclusively.
func freeBlock(n *survey.Node) (most uint64) {
	for i := range n.NUMANodes {
		if c := n.NUMANodes[i].CPUs; c != nil {
			most = max(most, c.Free)
		}
	}
	return most
}

// print prints the nodes. Nodes that the user has named are printed with more detail.
func (q *nodesQuestion) print(cmd *cobra.Command, o output, s *survey.Survey) error {
	all := s.Nodes()
	for i := range all {
		if len(q.names) > 0 {
			all[i].Holders, all[i].Resizes = s.Holders(all[i].Name), s.Resizes(all[i].Name)
			driven, notes, err := query.DrivenOn(cmd.Context(), q.cluster, s.States[all[i].Name])
			if err != nil {
				return err
			}
			all[i].Driven = driven
			if i == 0 {
				writeNotes(cmd, notes)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b survey.Node) int { return nodeOrders[q.sortBy](&a, &b) })
	return printCleaned(cmd, o, listing("nodes", all, s.Notes), func(w io.Writer) error {
		if o.is(formatName) {
			return printNames(w, "node", len(all), func(i int) string { return all[i].Name })
		}
		if err := nodesTable(w, o, all); err != nil || len(q.names) == 0 || o.noHeaders {
			return err
		}
		for i := range all {
			if err := conditionsTable(w, s, all[i].Name); err != nil {
				return err
			}
			if err := holdersTable(w, &all[i]); err != nil {
				return err
			}
			if err := resizesTable(w, &all[i]); err != nil {
				return err
			}
			if err := givenTable(w, givenRows(all[i].Name, all[i].Given)); err != nil {
				return err
			}
			if err := drivenTables(w, all[i].Name, all[i].Driven); err != nil {
				return err
			}
		}
		return nil
	})
}

// watchNodes prints nodes, and prints a node again after each change. The column STATUS shows the
// trouble of a node.
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

// The columns of nodes. nodeColumns are the first columns of both formats. nodeColumnsLine follow
// in the format with one line per node, and nodeWideColumns in -o wide, which has one line per NUMA
// node.
const (
	nodeColumns     = "NODE | STATUS | AUTHORITY | POLICY | PODS | " + ageColumn + " | GUARANTEE"
	nodeColumnsLine = " | CPUS | MEMORY | DEVICES"
	nodeWideColumns = " | NUMA | CPUS | MEMORY | DEVICES | KUBELET | MANAGERS | SEQUENCE | CONDITIONS"
)

// ageColumn is the heading of the column with the time since the agent's last report or heartbeat.
const ageColumn = "REPORT"

// nodesTable prints nodes, and remarks about them below. With --no-headers, it prints only rows.
func nodesTable(w io.Writer, o output, all []survey.Node) error {
	if len(all) == 0 && !o.noHeaders {
		_, err := fmt.Fprintln(w, "No nodes.")
		return err
	}
	wide := o.is(formatWide)
	var rows [][]string
	for i := range all {
		rows = append(rows, nodeRows(&all[i], wide)...)
	}
	if err := o.rows(w, nodeHeader(wide), rows); err != nil || o.noHeaders {
		return err
	}
	if text := wholeFree(all); text != "" {
		fmt.Fprintf(w, "\nWhole NUMA nodes free: %s.\n", text)
	}
	if err := heldTable(w, all); err != nil {
		return err
	}
	for i := range all {
		nodeRemarks(w, &all[i])
	}
	return nil
}

// heldTable prints the resources of Reservations, or nothing if there are no Reservations.
func heldTable(w io.Writer, all []survey.Node) error {
	var rows [][]string
	for i := range all {
		for k := range all[i].Held {
			rows = append(rows, slices.Concat([]string{all[i].Name}, heldCells(&all[i].Held[k])))
		}
	}
	return section(w, "\nHeld by Reservations, for pods to come:", "NODE | NUMA | RESERVATION | CPUS | MEMORY | DEVICES", rows)
}

// heldCells returns a row about a Reservation's resources on a NUMA node. The CPUs are shown as
// ids, as a number if the kubelet chooses them, or as shared CPU time.
func heldCells(h *survey.Vacancy) []string {
	numa, cpus := strconv.Itoa(int(h.NUMA)), []string(nil)
	if h.Anywhere {
		numa = "-"
	}
	switch {
	case h.CPUs != "":
		cpus = append(cpus, fmt.Sprintf("%d (%s)", h.Count, stridesOf(h.CPUs)))
	case h.Count > 0:
		cpus = append(cpus, strconv.Itoa(h.Count))
	}
	if h.MilliCPU > 0 {
		cpus = append(cpus, fmt.Sprintf("%dm shared", h.MilliCPU))
	}
	var memory, devices []string
	for _, r := range slices.Sorted(maps.Keys(h.Memory)) {
		text := topology.RoughBytes(h.Memory[r])
		if r != "memory" {
			text = r + " " + text
		}
		memory = append(memory, text)
	}
	slices.SortStableFunc(memory, func(a, b string) int { return cmp.Compare(strings.Index(a, " "), strings.Index(b, " ")) })
	for _, r := range slices.Sorted(maps.Keys(h.Devices)) {
		devices = append(devices, fmt.Sprintf("%s %d", r, h.Devices[r]))
	}
	return []string{numa, h.Reservation, dash(strings.Join(cpus, ", ")), dash(strings.Join(memory, ", ")), dash(strings.Join(devices, ", "))}
}

// wholeFree counts the NUMA nodes whose CPUs are all free. It groups them by the number of CPUs,
// the largest number first. It omits nodes in trouble and cordoned nodes (survey.Node.Open).
func wholeFree(all []survey.Node) string {
	bySize := map[uint64]int{}
	for i := range all {
		for j := range all[i].NUMANodes {
			c := all[i].NUMANodes[j].CPUs
			if c != nil && c.Total > 0 && all[i].Open() {
				bySize[c.Total] += int(c.Free / c.Total)
			}
		}
	}
	var parts []string
	for _, size := range slices.Backward(slices.Sorted(maps.Keys(bySize))) {
		parts = append(parts, fmt.Sprintf("%d of %s", bySize[size], wire.Counted(int(size), "CPU")))
	}
	return strings.Join(parts, ", ")
}

func nodeHeader(wide bool) string {
	if wide {
		return nodeColumns + nodeWideColumns
	}
	return nodeColumns + nodeColumnsLine
}

// nodeRows returns one line for a node. If the argument wide is true, it returns one line for each
// NUMA node of the node. Each line has the node's name, so that users can search the lines. The
// other columns about the node are only in its first line.
func nodeRows(n *survey.Node, wide bool) [][]string {
	first := nodeCells(n)
	if !wide {
		return [][]string{slices.Concat(first, lineCells(n.NUMANodes))}
	}
	numa := n.NUMANodes
	cells := [][]string{{"-", "-", "-", "-"}}
	if len(numa) > 0 {
		cells = nil
	}
	for i := range numa {
		cells = append(cells, numaCells(&numa[i]))
	}
	last := nodeWide(n)
	var rows [][]string
	for _, c := range cells {
		rows = append(rows, slices.Concat(first, c, last))
		first, last = []string{n.Name, "", "", "", "", "", ""}, []string{"", "", "", ""}
	}
	return rows
}

// nodeCells returns the columns about the node itself.
func nodeCells(n *survey.Node) []string {
	policy := "-"
	if n.Policy != "" {
		policy = n.Policy + "/" + n.Scope
	}
	authority := dash(n.Authority)
	pods, age := "-", "-"
	if n.Report > 0 {
		pods, age = strconv.Itoa(n.Pods), survey.AgeText(n.AgeSeconds)
	}
	if n.InFlight > 0 {
		pods += "+" + strconv.Itoa(n.InFlight)
	}
	guarantee := n.Guarantee
	if n.Source != "" {
		guarantee += " (" + n.Source + ")"
	}
	return []string{n.Name, nodeStatus(n), authority, policy, pods, age, guarantee}
}

// lineCells returns CPUs, memory and devices of all NUMA nodes, like "0:6/6 1-3:8/8". It omits huge
// pages, which -o wide shows. If the memory has more than maxStretches stretches, it returns only
// the sum, and the largest free amount.
func lineCells(numa []survey.NUMANode) []string {
	var cpus, memory stretches
	var sum, most survey.Amount // the memory of all NUMA nodes, and the largest amount on one
	var at topology.NUMAID
	devices := map[string]*stretches{}
	for i := range numa {
		m := &numa[i]
		if m.CPUs != nil {
			cpus.add(m, fmt.Sprintf("%d/%d", m.CPUs.Free, m.CPUs.Total))
		}
		for _, a := range m.Memory {
			if a.Resource == "memory" {
				memory.add(m, memoryText(a.Free, a.Total))
				sum.Free, sum.Total = sum.Free+a.Free, sum.Total+a.Total
				if !m.Anywhere && a.Free > most.Free {
					most.Free, at = a.Free, m.NUMA
				}
			}
		}
		for _, a := range m.Devices {
			if devices[a.Resource] == nil {
				devices[a.Resource] = &stretches{}
			}
			devices[a.Resource].add(m, fmt.Sprintf("%d/%d", a.Free, a.Total))
		}
	}
	var all []string
	for _, r := range slices.Sorted(maps.Keys(devices)) {
		all = append(all, r+" "+devices[r].String())
	}
	inMemory := memory.String()
	if len(memory) > maxStretches {
		inMemory = fmt.Sprintf("%s, most %d:%s", memoryText(sum.Free, sum.Total), at, topology.RoughBytes(most.Free))
	}
	return []string{dash(cpus.String()), dash(inMemory), dash(strings.Join(all, ", "))}
}

// maxStretches is the maximum number of stretches of memory in a line. If there are more, the line
// has the sum, and the largest free amount on one NUMA node.
const maxStretches = 4

// memoryText returns the free amount and the total amount. If both have the same unit, the unit
// appears once, as in "4.7/36.7Gi".
func memoryText(free, total uint64) string {
	a, b := topology.RoughBytes(free), topology.RoughBytes(total)
	if number, ok := strings.CutSuffix(a, b[max(0, len(b)-2):]); ok {
		a = number
	}
	return a + "/" + b
}

// stretches has the amounts of one resource on all NUMA nodes of a node, in the order of the NUMA
// nodes.
type stretches []stretch

// stretch is a range of NUMA nodes, from first to last, that have equal amounts.
type stretch struct {
	first, last topology.NUMAID
	anywhere    bool
	each        string
}

// add adds a NUMA node. Neighbours with equal amounts are joined, because otherwise the line of a
// machine with eight NUMA nodes would be too long.
func (l *stretches) add(m *survey.NUMANode, text string) {
	if n := len(*l); n > 0 && !m.Anywhere {
		if before := &(*l)[n-1]; !before.anywhere && before.each == text && before.last+1 == m.NUMA {
			before.last = m.NUMA
			return
		}
	}
	*l = append(*l, stretch{m.NUMA, m.NUMA, m.Anywhere, text})
}

func (l stretches) String() string {
	texts := make([]string, len(l))
	for i, a := range l {
		id := strconv.Itoa(int(a.first))
		switch {
		case a.anywhere:
			id = "-"
		case a.last > a.first:
			id += "-" + strconv.Itoa(int(a.last))
		}
		texts[i] = id + ":" + a.each
	}
	return strings.Join(texts, " ")
}

func nodeWide(n *survey.Node) []string {
	managers, report := "", "" // the policies of the CPU and memory managers
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
		text := topology.RoughBytes(a.Free) + "/" + topology.RoughBytes(a.Total)
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

// Words of the column STATUS. Its other words are reasons of trouble and warnings.
const (
	statusReady    = "Ready"
	statusCordoned = "Cordoned"
	statusGone     = "Gone"
	statusNotReady = "NotReady" // the Node's condition Ready is not True
)

// nodeStatus returns the text of the column STATUS: the reasons of trouble and warnings, or Ready,
// and then Cordoned for a cordoned node. For a node that is gone it returns only Gone.
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

// nodeRemarks prints the node's trouble and warnings, with advice.
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

// conditionsTable prints the conditions of the report, and the Node's condition Ready.
func conditionsTable(w io.Writer, s *survey.Survey, name string) error {
	var rows [][]string
	for _, c := range s.Conditions(name) {
		age := "-"
		if !c.Since.IsZero() {
			age = survey.AgeText(survey.Seconds(s.Now.Sub(c.Since)))
		}
		rows = append(rows, []string{c.Source, c.Type, c.Status, dash(c.Reason), age, dash(c.Message)})
	}
	return section(w, "", "SOURCE | CONDITION | STATUS | REASON | SINCE | MESSAGE", rows)
}

// holdersTable prints the holders of the node's CPUs, by NUMA node.
func holdersTable(w io.Writer, n *survey.Node) error {
	var rows [][]string
	for i := range n.Holders {
		h := &n.Holders[i]
		pod := h.Namespace + "/" + h.Name
		switch {
		case h.Name == "":
			pod = "unknown (" + h.UID + ")"
		case h.Namespace == "":
			pod = h.Name
		}
		cpus := stridesOf(h.CPUs)
		if h.CPUs == "" {
			cpus = "unknown"
		}
		rows = append(rows, []string{n.Name, strconv.Itoa(int(h.NUMA)), strconv.Itoa(h.Count), cpus, pod, h.Container})
	}
	return section(w, "", "NODE | NUMA | HELD | CPUS | POD | CONTAINER", rows)
}

func resizesTable(w io.Writer, n *survey.Node) error {
	var rows [][]string
	for i := range n.Resizes {
		r := &n.Resizes[i]
		rows = append(rows, []string{n.Name, r.Namespace + "/" + r.Name, r.State, r.Message})
	}
	return section(w, "\nUnfinished in-place resizes:", "NODE | POD | RESIZE | MESSAGE", rows)
}

// givenTable prints the amounts of providers' resources that pods use.
func givenTable(w io.Writer, rows [][]string) error {
	return section(w, "\nAssigned by the scheduler's providers (only they know the totals):", "NODE | RESOURCE | PLACE | GIVEN", rows)
}

// drivenTables prints the devices of drivers, and the claims of pods.
func drivenTables(w io.Writer, node string, d *survey.Driven) error {
	if d == nil {
		return nil
	}
	var devices, claims [][]string
	for i := range d.Devices {
		r := &d.Devices[i]
		devices = append(devices, []string{node, r.NUMANode, r.Driver, someDevices(r.Free, r.FreeCount), someDevices(r.Taken, r.TakenCount), dash(r.Why)})
	}
	for i := range d.Claims {
		c := &d.Claims[i]
		claims = append(claims, []string{c.Namespace + "/" + c.Pod, c.Claim, dash(c.Asks), c.Alignment, c.Why})
	}
	if err := section(w, "\nDevices in ResourceSlices:", "NODE | NUMA | DRIVER | FREE | TAKEN | WHY", devices); err != nil {
		return err
	}
	return section(w, "\nClaims of its pods:", "POD | CLAIM | ASKS | ALIGNMENT | WHY", claims)
}

func givenRows(node string, all []survey.Given) [][]string {
	var rows [][]string
	for _, g := range all {
		rows = append(rows, []string{node, g.Resource, g.Place, strconv.FormatUint(g.Amount, 10)})
	}
	return rows
}

// stridesOf formats a list of CPUs as the verb topology does. A long list uses strides.
func stridesOf(list string) string {
	set, err := topology.ParseCPUList(list)
	if err != nil {
		return list
	}
	return machineview.CPUList(&set)
}
