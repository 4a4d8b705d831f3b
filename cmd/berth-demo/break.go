package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/internal/demo"
)

// defaultKubeconfig is the file that the verb up writes.
const defaultKubeconfig = "berth-demo.kubeconfig"

// parts is the part of the help about the parts that can be broken and mended.
const parts = `
  scheduler    the one that leads
  agent NODE   the agent of a node
  node NODE    a node: its kubelet and its agent
  api          the API server, which refuses connections
`

func breakCommand(stdout io.Writer) *cobra.Command {
	return askCommand(stdout, "break", &cobra.Command{
		Use:     "break [scheduler|agent NODE|node NODE|api]",
		Short:   "Break a part of the playground that runs, until it is mended; without one, list them",
		Long:    "Kills a part of the playground that runs, and keeps it from being started again until it is mended:\n" + parts + "\nWithout a part it lists all of them.",
		Example: "  berth-demo break\n  berth-demo break agent xeon-a",
	})
}

func mendCommand(stdout io.Writer) *cobra.Command {
	return askCommand(stdout, "mend", &cobra.Command{
		Use:     "mend [scheduler|agent NODE|node NODE|api]",
		Short:   "Mend what berth-demo break has broken; without a part, everything",
		Long:    "Starts a part of the playground again that berth-demo break has broken:\n" + parts + "\nWithout a part it mends all that is broken.",
		Example: "  berth-demo mend\n  berth-demo mend agent xeon-a",
	})
}

// askCommand returns a command that sends its verb and its arguments to the playground.
func askCommand(stdout io.Writer, verb string, cmd *cobra.Command) *cobra.Command {
	first := filepath.SplitList(os.Getenv("KUBECONFIG"))
	kubeconfig := cmd.Flags().String("kubeconfig", cmp.Or(append(first, defaultKubeconfig)...), "file that berth-demo up has written; the default is the first of $KUBECONFIG")
	cmd.Args = cobra.MaximumNArgs(2)
	cmd.ValidArgs = []string{"scheduler", "agent", "node", "api"}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		text, err := demo.Ask(cmd.Context(), *kubeconfig, append([]string{verb}, args...)...)
		if err != nil {
			return err
		}
		_, err = fmt.Fprint(stdout, text)
		return err
	}
	return cmd
}
