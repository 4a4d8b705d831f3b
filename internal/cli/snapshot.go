package cli

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/internal/atomicfile"
	"github.com/berth-dev/berth/internal/survey"
)

// NewSnapshotCommand returns the verb that writes a cluster to a file.
func NewSnapshotCommand() *cobra.Command {
	var live clusterFlags
	cmd := &cobra.Command{
		Use:   "snapshot FILE",
		Short: "Write what Berth reads of a cluster to one file, without secrets",
		Long: `Writes nodes, their reports and heartbeats, pods, and devices for ResourceClaims to one file. Other verbs read it with
--snapshot: for a bug report, for later, or for people without access to the cluster. Of each pod it contains names,
labels, amounts, affinities, ports, status, and the annotations that affect placement. It omits environments, commands
and the contents of volumes. FILE - is stdout.`,
		Example: `  kubectl berth snapshot cluster.berth
  berth serve --snapshot cluster.berth
  berth explain train-0 -n training --snapshot cluster.berth`,
		Args: arguments(1, 1, "the file to write, or - for standard output"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if live.snapshot != "" {
				return Usagef("--snapshot %s: this command reads only a live cluster; to copy a snapshot, copy the file", live.snapshot)
			}
			c, err := live.connect()
			if err != nil {
				return err
			}
			write := func(w io.Writer) error { return c.Snapshot(cmd.Context(), w) }
			if args[0] == "-" {
				return write(cmd.OutOrStdout())
			}
			// Mode 0600: the snapshot may contain names that other users must not see.
			return atomicfile.Write(args[0], 0o600, write)
		},
	}
	live.register(cmd)
	return cmd
}

func openSnapshot(path, namespace string) (*survey.Cluster, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("--snapshot: %w", err)
	}
	defer f.Close()
	c, err := survey.Open(f, path)
	if err != nil {
		return nil, fmt.Errorf("--snapshot %w", err)
	}
	c.Namespace = namespace
	return c, nil
}
