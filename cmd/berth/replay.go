package main

import (
	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/test/replay/play"
)

// newReplay returns test/replay as a verb, for users who compare the placement engine with a
// kubelet and have no copy of Berth's source. The help does not list the verb.
func newReplay() *cobra.Command {
	return &cobra.Command{
		Use: "replay [-kubelet-version v1.36] [FILE]", Short: "Say what a kubelet would do with recorded cases", Hidden: true, DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			return play.Command(args, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
}
