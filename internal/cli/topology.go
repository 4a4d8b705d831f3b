package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/internal/capture"
	"github.com/berth-dev/berth/internal/machineview"
	"github.com/berth-dev/berth/sysfs"
	"github.com/berth-dev/berth/topology"
)

// views are the forms in which a machine is printed, the default first.
var views = []struct {
	name  string
	print func(io.Writer, *topology.Machine) error
}{
	{"table", machineview.Table},
	{"tree", machineview.Tree},
	{"json", printDocument},
	{"svg", machineview.SVG},
	{"string", func(w io.Writer, m *topology.Machine) error {
		_, err := fmt.Fprintln(w, m)
		return err
	}},
}

func printDocument(w io.Writer, m *topology.Machine) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(machineview.NewDocument(m))
}

// NewTopologyCommand returns the verb that shows a machine.
func NewTopologyCommand() *cobra.Command {
	var root, form string
	var names []string
	for _, v := range views {
		names = append(names, v.name)
	}
	cmd := &cobra.Command{
		Use:   "topology [--root DIR|ARCHIVE]",
		Short: "Show the NUMA nodes, caches, cores, memory and devices of a machine",
		Long: `Read a machine from /sys, or from a capture of it: the folder that contains sys/, or an archive (.tar.gz, .tgz,
.tar.bz2, .tar.xz) in which such a folder lies. Of an archive with several machines, ARCHIVE:FOLDER names one.`,
		Example: `  berth topology
  berth topology --root server.tgz -o tree
  berth topology -o svg > machine.svg`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, v := range views {
				if v.name != form {
					continue
				}
				m, err := machineAt(root)
				if err != nil {
					return err
				}
				return v.print(cmd.OutOrStdout(), m)
			}
			return Usagef("--output %q: want %s", form, strings.Join(names, ", "))
		},
	}
	cmd.Flags().StringVar(&root, "root", "/", "folder that contains sys/, or an archive of one")
	cmd.Flags().StringVarP(&form, "output", "o", names[0], strings.Join(names, "|"))
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// machineAt reads the machine of a live system or a capture.
func machineAt(root string) (*topology.Machine, error) {
	if root == "" {
		return nil, Usagef("--root is empty: want the folder that contains sys/, or an archive")
	}
	c, err := capture.Open(root)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	m, err := sysfs.Read(c.FS)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", root, err)
	}
	return m, nil
}
