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

// parts is the text of the help about the parts of a playground that can be broken and mended.
const parts = `
  scheduler    the scheduler that leads
  agent NODE   the agent of a node
  node NODE    a node: its kubelet and its agent
  api          the API server: it refuses connections
`

func breakCommand(stdout io.Writer) *cobra.Command {
	return askCommand(stdout, "break", &cobra.Command{
		Use:     "break [scheduler|agent NODE|node NODE|api]",
		Short:   "Break a part of the running playground; without a part, list all parts",
		Long:    "Kills a part of the running playground. Only berth-demo mend starts it again. The parts are:\n" + parts + "\nWithout a part it lists all parts.",
		Example: "  berth-demo break\n  berth-demo break agent xeon-a",
	})
}

func mendCommand(stdout io.Writer) *cobra.Command {
	return askCommand(stdout, "mend", &cobra.Command{
		Use:     "mend [scheduler|agent NODE|node NODE|api]",
		Short:   "Start a part again that berth-demo break has broken; without a part, all of them",
		Long:    "Restarts a part of the playground that berth-demo break has broken. The parts are:\n" + parts + "\nWithout a part it starts all broken parts.",
		Example: "  berth-demo mend\n  berth-demo mend agent xeon-a",
	})
}

// askCommand returns a command that sends its verb and its arguments to the playground.
func askCommand(stdout io.Writer, verb string, cmd *cobra.Command) *cobra.Command {
	first := filepath.SplitList(os.Getenv("KUBECONFIG"))
	kubeconfig := cmd.Flags().String("kubeconfig", cmp.Or(append(first, defaultKubeconfig)...), "kubeconfig that berth-demo up has written; the default is the first file of $KUBECONFIG")
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
