package cli

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/internal/whatif"
)

// errNoCopy is fit's answer no.
var errNoCopy = errors.New("not every pod fits even once")

// NewFitCommand returns the verb that counts how many more copies of a pod fit.
func NewFitCommand() *cobra.Command {
	var q question
	limit := 1000
	cmd := &cobra.Command{
		Use:   "fit -f PODS [MACHINE|CAPTURE]",
		Short: "Count how many more copies of each pod fit on a node",
		Long: `Admit copy after copy of each pod, each time from the same state, until the kubelet would refuse the next: its
resource managers, what the node has in all (allocatable), or the number of pods (maxPods). What a scheduler looks at
beside these is not considered: taints, selectors, spreading. Exit code 1 says that of some pod no copy fits.`,
		Example: `  berth fit -f pod.yaml --node 'package:2 numa:4 core:8 pu:2 mem:64Gi' --kubelet-config kubelet.yaml`,
		Args:    usageArgs(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 1 {
				return Usagef("--limit %d: want at least 1", limit)
			}
			if err := q.node.takeMachine(cmd, args); err != nil {
				return err
			}
			return q.fit(cmd, limit)
		},
	}
	q.register(cmd)
	cmd.Flags().IntVar(&limit, "limit", limit, "stop after so many copies")
	return cmd
}

// fit counts the copies of one pod of each template: replicas do not matter.
func (q *question) fit(cmd *cobra.Command, limit int) error {
	n, templates, err := q.load(cmd)
	if err != nil {
		return err
	}
	all, none := []whatif.Fitted{}, false
	for i := range templates {
		f, err := n.Fit(templates[i].Pod, limit)
		if err != nil {
			return err
		}
		all = append(all, f)
		none = none || f.Copies == 0
	}
	notes(cmd, n)
	asTable := func(w io.Writer) error { return fitTable(w, all) }
	if err := printCleaned(cmd, q.output, map[string]any{"pods": all}, asTable); err != nil {
		return err
	}
	if none {
		return errNoCopy
	}
	return nil
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
			because += "; nothing of it is limited but the number of pods"
		}
		rows = append(rows, []string{f.Name, fmt.Sprint(f.Copies), dash(countsText(f.PerNUMA)), because})
	}
	return columns(w, "POD | COPIES | BY NUMA NODES | THE NEXT IS REFUSED BECAUSE", rows)
}

// countsText prints counts by key in order: "0: 3, 1: 2".
func countsText(counts map[string]int) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%s: %d", dash(k), counts[k]))
	}
	return strings.Join(parts, ", ")
}
