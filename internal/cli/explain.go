package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// NewExplainCommand returns the verb that shows, for every NUMA node and resource, why pods go where they go or nowhere.
func NewExplainCommand() *cobra.Command {
	var q question
	cmd := &cobra.Command{
		Use:   "explain -f PODS [--node MACHINE|CAPTURE]",
		Short: "Show why a node's kubelet admits or refuses pods, NUMA node by NUMA node",
		Long: `Admit pods one after another on a node, as its kubelet would. For each refusal print the rule, and for every
resource and NUMA node what was asked, what is free and what would be there on an empty node. Exit code 1 says that a pod was
refused.`,
		Example: `  berth explain -f pod.yaml --node capture.tgz --kubelet-config kubelet.yaml --state /var/lib/kubelet`,
		Args:    usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			answers, n, err := q.ask(cmd)
			if err != nil {
				return err
			}
			return q.answer(cmd, n, answers, func(w io.Writer) error { return explainText(w, answers) })
		},
	}
	q.register(cmd)
	return cmd
}

func explainText(w io.Writer, answers []placed) error {
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
