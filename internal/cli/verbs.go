package cli

import "github.com/spf13/cobra"

// Help shows verbs in the order in which they are added. It is a variable of cobra's, for all
// commands of the process.
func init() { cobra.EnableCommandSorting = false }

// verbs lists the verbs in the order in which help shows them.
func verbs() []*cobra.Command {
	return []*cobra.Command{
		NewPlaceCommand(),
		NewExplainCommand(),
		NewNodesCommand(),
		NewPodsCommand(),
		NewTopCommand(),
		NewGangsCommand(),
		NewFitCommand(),
		NewNeedCommand(),
		NewFragCommand(),
		NewDefragCommand(),
		NewServeCommand(),
		NewSnapshotCommand(),
		NewShadowCommand(),
		NewTopologyCommand(),
		NewCheckCommand(),
		NewSimulateCommand(),
		NewConvertCommand(),
		NewVersionCommand(),
	}
}
