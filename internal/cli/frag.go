package cli

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/internal/survey"
	"github.com/berth-dev/berth/internal/wire"
)

// defaultStranded is the default number of NUMA nodes that are listed for each resource.
const defaultStranded = 20

// NewFragCommand returns the verb that shows stranded resources, which are free but hard to use.
func NewFragCommand() *cobra.Command {
	var live clusterFlags
	var o output
	var q nodesQuestion
	limit := defaultStranded
	cmd := &cobra.Command{
		Use:   "frag [NODE ...]",
		Short: "Show which free resources of a cluster are of little use, and why",
		Long: `Shows for each resource how much is free and how much of that is stranded. On nodes that are cordoned or
in trouble, all free resources are stranded. With --keep and --cpus-per-device, a device is stranded if its NUMA node
has too few free CPUs for it. Otherwise a device is stranded if no pod that waits or recently ran could use it. Free
memory is stranded if its NUMA node has too few free CPUs for it. Free CPUs are stranded if their NUMA node has too
little free memory for them. How much is too little follows from the NUMA node's ratio of memory to CPUs. Parts
smaller than a tenth of the total do not count. The second table lists the NUMA nodes, with the RULE that applied.`,
		Example: `  kubectl berth frag
  kubectl berth frag -l pool=gpu --limit 5
  kubectl berth frag gpu-1 -o json`,
		ValidArgsFunction: live.completeNodes,
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 0 {
				return Usagef("--limit %d: want 0 or more", limit)
			}
			if err := q.check(); err != nil {
				return err
			}
			q.names = args
			c, err := live.connect()
			if err != nil {
				return err
			}
			s, err := q.survey(cmd.Context(), c)
			if err != nil {
				return err
			}
			writeNotes(cmd, s.Notes)
			wants, err := c.Wants(cmd.Context())
			if err != nil {
				writeNotes(cmd, []string{"the devices that pods ask for are not known: " + err.Error()})
				wants = &survey.Wants{PerDevice: live.terms.CPUsPerDevice}
			}
			all := s.Stranded(wants)
			return printCleaned(cmd, o, listing("stranded", all, s.Notes), func(w io.Writer) error {
				return fragTable(w, s.Nodes(), all, limit)
			})
		},
	}
	cmd.Flags().StringVarP(&q.selector, "selector", "l", "", "only nodes with these labels, in kubectl's syntax")
	cmd.Flags().IntVar(&limit, "limit", limit, "how many NUMA nodes are listed for each resource; 0 lists none")
	live.register(cmd)
	o.register(cmd)
	return cmd
}

// byImportance orders resources: first devices, which are scarce and expensive, then CPUs, huge
// pages and memory.
func byImportance(a, b string) int {
	rank := func(r string) int {
		switch {
		case strings.Contains(r, "/"):
			return 0
		case r == "cpu":
			return 1
		case r == "memory":
			return 3
		default:
			return 2
		}
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b))
}

// fragSum has the amounts of one resource in the whole cluster.
type fragSum struct {
	free, total uint64
	survey.StrandedSum
}

func fragTable(w io.Writer, nodes []survey.Node, all []survey.Stranded, limit int) error {
	if len(nodes) == 0 {
		_, err := fmt.Fprintln(w, "No nodes.")
		return err
	}
	sums := fragSums(nodes, all)
	var rows [][]string
	for _, r := range slices.SortedFunc(maps.Keys(sums), byImportance) {
		f := sums[r]
		share := "-"
		if f.free > 0 {
			share = strconv.FormatUint(100*f.Stranded/f.free, 10) + "%"
		}
		rows = append(rows, []string{r, survey.AmountText(r, f.total), survey.AmountText(r, f.free), survey.AmountText(r, f.Stranded), share, dash(f.why())})
	}
	if err := columns(w, "RESOURCE | TOTAL | FREE | STRANDED | OF FREE | BECAUSE", rows); err != nil || len(all) == 0 || limit == 0 {
		return err
	}
	rows = nil
	listed := map[string]int{}
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b survey.Stranded) int { return byImportance(a.Resource, b.Resource) })
	for i := range all {
		s := &all[i]
		if listed[s.Resource]++; listed[s.Resource] <= limit {
			rows = append(rows, []string{s.Resource, s.Node, strconv.Itoa(int(s.NUMA)), survey.AmountText(s.Resource, s.Stranded), s.Reason, s.Message, dash(s.Rule)})
		}
	}
	fmt.Fprintln(w)
	if err := columns(w, "RESOURCE | NODE | NUMA | STRANDED | REASON | WHY | RULE", rows); err != nil {
		return err
	}
	if more := len(all) - len(rows); more > 0 {
		fmt.Fprintf(w, "\nNot shown: %s. --limit N shows up to N lines of each resource.\n", wire.Counted(more, "line"))
	}
	return nil
}

func fragSums(nodes []survey.Node, all []survey.Stranded) map[string]*fragSum {
	sums := map[string]*fragSum{}
	of := func(resource string) *fragSum {
		if sums[resource] == nil {
			sums[resource] = &fragSum{}
		}
		return sums[resource]
	}
	for i := range nodes {
		for _, numa := range nodes[i].NUMANodes {
			for _, a := range numa.Amounts() {
				f := of(a.Resource)
				f.free, f.total = f.free+a.Free, f.total+a.Total
			}
		}
	}
	for _, sum := range survey.SumStranded(all) {
		of(sum.Resource).StrandedSum = sum
	}
	return sums
}

// why returns the reasons, sorted by the stranded amount, or "" if nothing is stranded.
func (f *fragSum) why() string {
	texts := make([]string, 0, len(f.Reasons))
	for _, r := range f.Reasons {
		texts = append(texts, fmt.Sprintf("%s: %s on %d", r.Reason, survey.AmountText(f.Resource, r.Stranded), r.Count))
	}
	return strings.Join(texts, ", ")
}
