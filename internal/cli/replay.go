package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/internal/cases"
	"github.com/berth-dev/berth/internal/replay"
	"github.com/berth-dev/berth/placement"
)

// NewReplayCommand returns `berth replay`.
func NewReplayCommand() *cobra.Command {
	var version string
	cmd := &cobra.Command{
		Use:   "replay [FILE]",
		Short: "Say what a kubelet would do with recorded cases",
		Long: `Replay reads cases, one JSON document a line, from FILE (unpacked if its name ends in .gz) or standard input, and
prints for each, in the same order, what a kubelet with that machine and configuration would do with the events: which
pods it admits, with which CPUs, memory and devices, or why it refuses them, and its books after every event.

A case is {"id", "machine", "config", "devices", "events"}; docs/replay.md describes it and docs/replay-case.json is
one. Case and result have the form in which those of the genuine kubelet are recorded.`,
		Example: "  berth replay cases.ndjson.gz > results.ndjson",
		Args:    usageArgs(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			release, err := parseVersion(version)
			if err != nil {
				return err
			}
			in, name, err := replayInput(cmd, args)
			if err != nil {
				return err
			}
			defer in.Close()
			if err := replayAll(in, cmd.OutOrStdout(), release); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&version, kubeletVersionFlag, defaultKubeletVersion, "the kubelet's release, 1.33 to 1.37")
	return cmd
}

func replayInput(cmd *cobra.Command, args []string) (io.ReadCloser, string, error) {
	if len(args) == 0 || args[0] == "-" {
		return io.NopCloser(cmd.InOrStdin()), "standard input", nil
	}
	f, err := cases.Open(args[0])
	return f, args[0], err
}

// replayAll answers case by case, and prints what it has when a case makes no sense.
func replayAll(in io.Reader, out io.Writer, release placement.Version) (err error) {
	w := bufio.NewWriter(out)
	defer func() { err = errors.Join(err, w.Flush()) }()
	for c, err := range cases.ReadCases(in) {
		if err != nil {
			return err
		}
		r, err := replay.Run(c, release)
		if err != nil {
			return err
		}
		line, err := cases.Encode(r)
		if err != nil {
			return err
		}
		if _, err := w.Write(line); err != nil {
			return err
		}
	}
	return nil
}
