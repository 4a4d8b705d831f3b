package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/internal/whatif"
)

// NewExplainCommand returns the verb that shows, for every NUMA node and resource, why pods go
// where they go or nowhere.
func NewExplainCommand() *cobra.Command {
	var q question
	var l liveQuestion
	cmd := &cobra.Command{
		Use:   "explain POD | -f PODS [--node MACHINE|CAPTURE]",
		Short: "Show why pods go where they go or nowhere, NUMA node by NUMA node",
		Long: `explain POD asks the cluster: of a pod that has a node, what the scheduler promised and what the node's report says it
holds; of one that is pending, what every node says to it and, for refusals, what was asked and what is there on every NUMA
node. Of a pod that has a node also what other nodes would say now. Exit code 1 says that no node takes the pod, that its kubelet
refused it, or that no scheduler has looked at it.

explain -f PODS asks no cluster: it admits the pods of a file one after another on one node, as its kubelet would. For each
refusal it prints the rule, and for every resource and NUMA node what was asked, what is free and what would be there on an
empty node. Exit code 1 says that a pod was refused.`,
		Example: `  kubectl berth explain train-0 -n training
  kubectl berth explain train-0 -n training --node n7
  berth explain -f pod.yaml --node capture.tgz --kubelet-config kubelet.yaml --state /var/lib/kubelet`,
		Args:              usageArgs(cobra.MaximumNArgs(1)),
		ValidArgsFunction: l.live.completePods,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) == 1 && len(q.files) > 0:
				return Usagef("explain %s -f %s: want a pod of the cluster or a file, not both", args[0], strings.Join(q.files, ","))
			case len(args) == 1:
				if cmd.Flags().Changed("node") {
					l.only = q.node.machine
				}
				return l.run(cmd, strings.TrimPrefix(args[0], "pod/"), q.output)
			case len(q.files) == 0:
				return Usagef("explain: want the name of a pod, or a file: -f, --filename")
			}
			return q.ask(cmd, explainText)
		},
	}
	q.register(cmd)
	_ = cmd.Flags().SetAnnotation("filename", cobra.BashCompOneRequiredFlag, []string{"false"})
	l.live.register(cmd)
	_ = cmd.RegisterFlagCompletionFunc("node", l.completeNode)
	cmd.Flags().IntVar(&l.limit, "nodes", defaultExplained, "with POD: how many nodes that refuse are explained in full")
	cmd.Flags().Lookup("node").Usage = "with POD: the one node to ask; with -f: " + cmd.Flags().Lookup("node").Usage
	return cmd
}

// defaultExplained is how many refusing nodes are explained in full.
const defaultExplained = 3

func explainText(w io.Writer, answers []whatif.Placed) error {
	for i := range answers {
		a := &answers[i]
		if i > 0 {
			fmt.Fprintln(w)
		}
		if !a.Admitted {
			fmt.Fprintf(w, "pod %s: refused\n%s\n", a.Name, a.Refusal.Table())
			continue
		}
		fmt.Fprintf(w, "pod %s: admitted on NUMA nodes %s\n", a.Name, dash(a.NUMANodes))
		if err := placeTable(w, answers[i:i+1]); err != nil {
			return err
		}
	}
	return nil
}
