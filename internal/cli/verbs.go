package cli

import "github.com/spf13/cobra"

// Help shows the verbs in the order in which they are added. cobra has only a global variable for
// this.
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
