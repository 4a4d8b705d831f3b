package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	koordinator "github.com/berth-dev/berth/api/scheduling/koordinator/v1alpha1"
	"github.com/berth-dev/berth/internal/lscpu"
	"github.com/berth-dev/berth/internal/machineview"
	"github.com/berth-dev/berth/internal/strict"
	"github.com/berth-dev/berth/internal/suggest"
	"github.com/berth-dev/berth/internal/whatif"
	"github.com/berth-dev/berth/internal/wire"
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
	var root, form, device, printed string
	var live clusterFlags
	var names []string
	for _, v := range views {
		names = append(names, v.name)
	}
	cmd := &cobra.Command{
		Use:   "topology [MACHINE|CAPTURE|node/NAME]",
		Short: "Show the NUMA nodes, caches, cores, memory and devices of a machine",
		Long: `Reads a machine from /sys, from a capture, or from a machine string. A capture is a folder that contains sys/, or an
archive (.tar.gz, .tgz, .tar.bz2, .tar.xz) with such a folder; ARCHIVE:FOLDER selects one of several machines.
node/NAME is a node of the cluster, as its agent reported it; stderr lists contradictions between it and its
ResourceSlices.

--lscpu reads the output of lscpu -p, -e, -J or lscpu without options, and prints the machine string unless you set
--output. lscpu -p is unambiguous. lscpu knows no memory, distances and devices: add mem:SIZE, dist:LOCAL,REMOTE and
dev: to the string.`,
		Example: `  berth topology
  ssh server lscpu -p | berth topology --lscpu -
  berth topology server.tgz -o tree
  kubectl berth topology node/gpu-1
  berth topology 'package:2 numa:2 core:8 pu:2 mem:64Gi' -o svg > machine.svg`,
		Args: arguments(0, 1, "at most one machine, capture or node/NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if printed != "" && !cmd.Flags().Changed("output") {
				form = "string"
			}
			for _, v := range views {
				if v.name != form {
					continue
				}
				m, err := machineFor(cmd, &live, source{root, printed, args})
				if err == nil && device != "" {
					m, err = withDevice(cmd.ErrOrStderr(), m, device)
				}
				if err != nil {
					return err
				}
				return v.print(cmd.OutOrStdout(), m)
			}
			return Usagef("--output %q: want %s%s", form, strings.Join(names, ", "), suggest.DidYouMean(form, names))
		},
	}
	cmd.Flags().String(nodeFlag, "/", "machine string ('package:2 numa:2 core:8 pu:2 mem:64Gi'), a capture (a folder with sys/ in it, or an archive of one), or a file with the output of lscpu -p")
	cmd.Flags().StringVar(&root, "root", "/", "folder that contains sys/, or an archive of one")
	cmd.Flags().StringVar(&printed, "lscpu", "", "file with the output of lscpu, best with -p; - is standard input")
	cmd.Flags().StringVar(&device, "device", "", "file with a Device of scheduling.koordinator.sh: show its devices instead of the machine's own")
	cmd.Flags().StringVarP(&form, "output", "o", names[0], strings.Join(names, ", "))
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp))
	live.register(cmd)
	return cmd
}

// source has the flags and arguments that name the source of a machine.
type source struct {
	root, printed string
	args          []string
}

// machineFor reads the machine of a node of the cluster, if the argument names a node and no file
// has this name. Otherwise it is like machineOf.
func machineFor(cmd *cobra.Command, live *clusterFlags, from source) (*topology.Machine, error) {
	if len(from.args) == 0 {
		return machineOf(cmd, from.root, from.printed, from.args)
	}
	name, ofCluster := strings.CutPrefix(from.args[0], "node/")
	if _, err := os.Stat(from.args[0]); !ofCluster || err == nil {
		return machineOf(cmd, from.root, from.printed, from.args)
	}
	for _, other := range []string{"root", "lscpu", nodeFlag} {
		if cmd.Flags().Changed(other) {
			return nil, Usagef("topology %s: --%s names another machine: want the argument or the flag, not both", from.args[0], other)
		}
	}
	c, err := live.connect()
	if err != nil {
		return nil, err
	}
	h, err := c.Hardware(cmd.Context(), name)
	if err != nil {
		return nil, err
	}
	writeNotes(cmd, h.Notes)
	return h.Machine, nil
}

// withDevice replaces the machine's devices with the devices of the Device object in a file. It
// writes to w which devices are not drawn.
func withDevice(w io.Writer, m *topology.Machine, file string) (*topology.Machine, error) {
	doc, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var d koordinator.Device
	if err := strict.Unmarshal(file, doc, &d); err != nil {
		return nil, err
	}
	m, bare, err := wire.ReadDevice(&d, m)
	for _, b := range bare {
		fmt.Fprintf(w, "%s: %s has no busID and is not shown\n", file, b)
	}
	return m, err
}

// machineOf reads the machine from the output of lscpu if the user gives such output. Otherwise it
// is like machineAt.
func machineOf(cmd *cobra.Command, root, printed string, args []string) (*topology.Machine, error) {
	if !cmd.Flags().Changed("lscpu") {
		return machineAt(cmd, root, args)
	}
	if len(args) > 0 || cmd.Flags().Changed("root") || cmd.Flags().Changed(nodeFlag) {
		return nil, Usagef("topology: want only one of --lscpu, --root, --%s and an argument", nodeFlag)
	}
	text, err := readBounded(cmd, printed, lscpu.MaxText)
	if err != nil {
		return nil, err
	}
	m, err := lscpu.Read(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", printed, err)
	}
	return m, nil
}

// machineAt reads the machine that --root, --node or an argument names. Without them, it reads this
// machine.
func machineAt(cmd *cobra.Command, root string, args []string) (*topology.Machine, error) {
	byRoot, byNode := cmd.Flags().Changed("root"), cmd.Flags().Changed(nodeFlag)
	switch {
	case byRoot && (byNode || len(args) > 0), byNode && len(args) > 0:
		return nil, Usagef("topology: want only one of --%s, --root and an argument", nodeFlag)
	case byRoot && root == "":
		return nil, Usagef("--root is empty: want the folder that contains sys/, or an archive")
	case byNode:
		return whatif.ReadMachine(cmd.Flags().Lookup(nodeFlag).Value.String())
	case len(args) > 0:
		return whatif.ReadMachine(args[0])
	}
	return whatif.ReadCapture(root)
}
