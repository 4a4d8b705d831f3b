package cli

import "github.com/spf13/cobra"

// verbs lists the verbs in the order in which help shows them.
func verbs() []*cobra.Command {
	cobra.EnableCommandSorting = false
	return []*cobra.Command{
		NewPlaceCommand(),
		NewExplainCommand(),
		NewNodesCommand(),
		NewPodsCommand(),
		NewTopCommand(),
		NewGangsCommand(),
		NewFitCommand(),
		NewFragCommand(),
		NewDefragCommand(),
		NewServeCommand(),
		NewSnapshotCommand(),
		NewTopologyCommand(),
		NewCheckCommand(),
		NewReplayCommand(),
		NewConvertCommand(),
		NewVersionCommand(),
	}
}
