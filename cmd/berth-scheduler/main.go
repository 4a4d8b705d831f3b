// Command berth-scheduler is a complete kube-scheduler that includes the Berth plugin. It has the
// flags and the configuration file of kube-scheduler. A profile of that file enables the plugin.
// With the argument shadow, the program places no pods, but checks its predictions for pods of
// other schedulers (package witness).
package main

import (
	"os"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // metrics of client-go
	_ "k8s.io/component-base/metrics/prometheus/version"  // build_info

	"github.com/berth-dev/berth/internal/scheduler"
	"github.com/berth-dev/berth/internal/scheduler/command"
	"github.com/berth-dev/berth/internal/scheduler/witness"
)

func main() { os.Exit(cli.Run(commandOf(os.Args[1:]))) }

// commandOf returns the command for the arguments. Shadow mode has no flags of kube-scheduler, so
// it is a separate command.
func commandOf(args []string) *cobra.Command {
	if len(args) == 0 || args[0] != witness.Verb {
		return command.New(scheduler.New)
	}
	cmd := witness.NewCommand()
	cmd.SetArgs(args[1:])
	return cmd
}
