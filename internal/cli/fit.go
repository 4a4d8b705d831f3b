package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/internal/whatif"
)

// errNoCopy is the error of fit if, for some pod, not even one copy fits.
var errNoCopy = errors.New("at least one pod does not fit even once")

// NewFitCommand returns the verb that shows on which nodes new pods would be placed, and how many
// fit.
func NewFitCommand() *cobra.Command {
	var q question
	l := fitQuestion{limit: defaultCopies, nodes: defaultExplained}
	cmd := &cobra.Command{
		Use:   "fit -f PODS [MACHINE|CAPTURE]",
		Short: "Show where new pods would go now, and how many more copies fit",
		Long: `Without a machine, fit asks the cluster or the file of --snapshot. It shows where each replica would go now, on which
NUMA nodes, why not elsewhere, and how many copies fit on every node. It checks Berth's rules, taints, selectors, node
affinity, ports and amounts, and its last line names what it does not check. --set answers as if nodes were configured
differently. --compare prints a table of before and after: what fits, on how many NUMA nodes, what would fit after
moves, and how many empty nodes of each kind the pods need. Nothing is written.

With a machine (an argument, or --node) or any flag that describes a kubelet, fit asks no cluster. It admits copies of
each pod on that node until the kubelet would refuse the next. Every pod starts from the same state.

Exit code 1 means that some pod does not fit even once.`,
		Example: `  kubectl berth fit -f deployment.yaml
  kubectl berth fit -f pod.yaml --on gpu-1 --set topologyManagerPolicy=single-numa-node
  kubectl berth fit -f pod.yaml --set numaNodesPerPackage=4
  kubectl berth fit -f load.yaml --compare --set numaNodesPerPackage=4 --set reservedSystemCPUs=0-3 --snapshot cluster.berth
  berth fit -f pod.yaml --node 'package:2 numa:4 core:8 pu:2 mem:64Gi' --kubelet-config kubelet.yaml`,
		Args: arguments(0, 1, "at most one machine"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if l.limit < 1 || l.limit > mostCopies {
				return Usagef("--limit %d: want 1 to %d", l.limit, mostCopies)
			}
			if q.node.describe(cmd) || len(args) > 0 {
				if err := q.node.takeMachine(cmd, args); err != nil {
					return err
				}
				if used := changedOf(cmd, slices.Concat(onlyLive, ownFlags)); used != "" {
					return Usagef("--%s applies only to a cluster: leave out the machine and the flags that describe it", used)
				}
				return q.fit(cmd, l.limit)
			}
			return l.run(cmd, &q)
		},
	}
	q.register(cmd)
	l.register(cmd)
	return cmd
}

// fit counts how many copies of the pod of each template fit. It ignores replicas.
func (q *question) fit(cmd *cobra.Command, limit int) error {
	n, pods, err := q.load(cmd)
	if err != nil {
		return err
	}
	all, none := []whatif.Fitted{}, false
	for i := range pods.Templates {
		f, err := n.Fit(pods.Templates[i].Pod, limit)
		if err != nil {
			return err
		}
		all = append(all, f)
		none = none || f.Copies == 0
	}
	writeNotes(cmd, n.Notes)
	asTable := func(w io.Writer) error { return fitTable(w, all) }
	return cmp.Or(printCleaned(cmd, q.output, map[string]any{"pods": all}, asTable), answerNo(none, errNoCopy), pods.partly())
}

func fitTable(w io.Writer, all []whatif.Fitted) error {
	var rows [][]string
	for i := range all {
		f := &all[i]
		because := "the limit was reached"
		if f.Stopped != nil {
			because = f.Stopped.String()
		}
		if f.Unlimited {
			because += "; only the number of pods limits it"
		}
		rows = append(rows, []string{f.Name, fmt.Sprint(f.Copies), dash(countsText(f.PerNUMA)), because})
	}
	return columns(w, "POD | COPIES | BY NUMA NODES | THE NEXT IS REFUSED BECAUSE", rows)
}

// countsText prints counts in the order of their keys, such as "0: 3, 1: 2".
func countsText(counts map[string]int) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%s: %d", dash(k), counts[k]))
	}
	return strings.Join(parts, ", ")
}
