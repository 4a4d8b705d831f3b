package cli

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

// fitted says how many copies of a pod fit beside what is there.
type fitted struct {
	Name   string `json:"name"`
	Copies int    `json:"copies"`
	// PerNUMA counts the copies by the NUMA nodes that they occupy, "0" or "0-1".
	PerNUMA map[string]int `json:"perNUMANodes"`
	// Stopped says why the next copy is refused; absent when the limit was reached.
	Stopped *placement.Refusal `json:"stopped,omitempty"`
}

// NewFitCommand returns the verb that counts how many more copies of a pod fit.
func NewFitCommand() *cobra.Command {
	var q question
	limit := 1000
	cmd := &cobra.Command{
		Use:   "fit -f PODS [--node MACHINE|CAPTURE]",
		Short: "Count how many more copies of each pod fit on a node",
		Long: `Admit copy after copy of each pod, each time from the same state, until the kubelet would refuse the next.
The limit of pods per node (maxPods) and the scheduler's other filters are not considered.`,
		Example: `  berth fit -f pod.yaml --node 'package:2 numa:4 core:8 pu:2 mem:64Gi' --kubelet-config kubelet.yaml`,
		Args:    usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 1 {
				return Usagef("--limit %d: want at least 1", limit)
			}
			n, pods, err := q.load(cmd)
			if err != nil {
				return err
			}
			var all []fitted
			for _, pod := range pods {
				f, err := n.fit(pod, limit)
				if err != nil {
					return fmt.Errorf("%s: %w", q.file, err)
				}
				all = append(all, f)
			}
			for _, w := range n.warnings {
				fmt.Fprintln(cmd.ErrOrStderr(), "note:", w)
			}
			return q.output.print(cmd.OutOrStdout(), map[string]any{"pods": all}, func(w io.Writer) error { return fitTable(w, all) })
		},
	}
	q.register(cmd)
	cmd.Flags().IntVar(&limit, "limit", limit, "stop after so many copies")
	return cmd
}

// fit admits copies into a copy of the state.
func (n *node) fit(pod *corev1.Pod, limit int) (fitted, error) {
	trial := *n
	trial.state = n.state.Clone()
	out := fitted{Name: pod.Name, PerNUMA: map[string]int{}}
	r, err := wire.Request(pod)
	if err != nil {
		return out, err
	}
	for uid := r.UID; out.Copies < limit; out.Copies++ {
		r.UID = fmt.Sprintf("%s/copy-%d", uid, out.Copies+1)
		a := trial.admit(&r)
		if !a.Admitted {
			out.Stopped = a.Refusal
			break
		}
		out.PerNUMA[a.NUMANodes]++
	}
	return out, nil
}

func fitTable(w io.Writer, all []fitted) error {
	tw := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(tw, "POD\tCOPIES\tBY NUMA NODES\tTHE NEXT IS REFUSED BECAUSE")
	for i := range all {
		f := &all[i]
		because := "the limit was reached"
		if f.Stopped != nil {
			because = f.Stopped.String()
		}
		fmt.Fprintf(tw, "%s\t%d\t%s\t%s\n", f.Name, f.Copies, dash(countsText(f.PerNUMA)), because)
	}
	return tw.Flush()
}

// countsText prints counts by key in order: "0: 3, 1: 2".
func countsText(counts map[string]int) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%s: %d", dash(k), counts[k]))
	}
	return strings.Join(parts, ", ")
}
