package cli

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	koordinator "github.com/berth-dev/berth/api/scheduling/koordinator/v1alpha1"
	"github.com/berth-dev/berth/internal/lscpu"
	"github.com/berth-dev/berth/internal/machineview"
	"github.com/berth-dev/berth/internal/manifest"
	"github.com/berth-dev/berth/internal/strict"
	"github.com/berth-dev/berth/internal/suggest"
	"github.com/berth-dev/berth/internal/survey/query"
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
	{"json", func(w io.Writer, m *topology.Machine) error {
		o := output{format: "json"}
		return o.print(w, machineview.NewDocument(m), nil)
	}},
	{"svg", machineview.SVG},
	{"string", func(w io.Writer, m *topology.Machine) error {
		_, err := fmt.Fprintln(w, m)
		return err
	}},
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
				var d *koordinator.Device
				if device != "" {
					var err error
					if d, err = readDevice(device); err != nil {
						return err
					}
				}
				m, err := machineSource{root, printed, args}.read(cmd, &live)
				if err == nil && d != nil {
					m, err = withDevice(cmd.ErrOrStderr(), m, device, d)
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

// machineSource has the flags and arguments that name the source of a machine.
type machineSource struct {
	root, printed string
	args          []string
}

// node returns the name of the cluster's node that the argument names. The result is is false if
// there is no such argument, or if a file has the argument's name.
func (from machineSource) node() (name string, is bool) {
	if len(from.args) == 0 {
		return "", false
	}
	name, is = strings.CutPrefix(from.args[0], "node/")
	_, err := os.Stat(from.args[0])
	return name, is && err != nil
}

// read reads the machine that a flag or an argument names. Without them, it reads this machine. An
// argument node/NAME is a node of the cluster, unless a file has this name.
func (from machineSource) read(cmd *cobra.Command, live *clusterFlags) (*topology.Machine, error) {
	given := cmd.Flags().Changed
	named := len(from.args)
	for _, flag := range []string{"lscpu", "root", nodeFlag} {
		if given(flag) {
			named++
		}
	}
	node, ofCluster := from.node()
	used := changedOf(cmd, ownFlags)
	switch {
	case used != "" && !ofCluster:
		return nil, Usagef("topology --%s: want --%s only with node/NAME, a node of a cluster", used, used)
	case named > 1:
		return nil, Usagef("topology: want only one of --lscpu, --root, --%s or an argument", nodeFlag)
	case given("lscpu"):
		return printedMachine(cmd, from.printed)
	case given("root") && from.root == "":
		return nil, Usagef("--root is empty: want the folder that contains sys/, or an archive")
	case given(nodeFlag):
		return whatif.ReadMachine(cmd.Flags().Lookup(nodeFlag).Value.String())
	case len(from.args) == 0:
		return whatif.ReadCapture(from.root)
	}
	if !ofCluster {
		return whatif.ReadMachine(from.args[0])
	}
	c, err := live.connect()
	if err != nil {
		return nil, err
	}
	h, err := query.HardwareOf(cmd.Context(), c, node)
	if err != nil {
		return nil, err
	}
	writeNotes(cmd, h.Notes)
	return h.Machine, nil
}

func printedMachine(cmd *cobra.Command, file string) (*topology.Machine, error) {
	text, err := manifest.ReadInput(file, cmd.InOrStdin(), lscpu.MaxText)
	if err != nil {
		return nil, err
	}
	m, err := lscpu.Read(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return m, nil
}

// readDevice reads the file of --device, which has one Device. It checks the kind first, because an
// object of another kind may also have a field spec.devices.
func readDevice(file string) (*koordinator.Device, error) {
	data, err := manifest.ReadInput(file, nil, manifest.MaxBytes)
	if err != nil {
		return nil, err
	}
	const want = "want one Device, as in the output of kubectl get devices.scheduling.koordinator.sh NODE -o yaml"
	var read []byte
	for doc, err := range manifest.Documents(data) {
		var object struct{ APIVersion, Kind string }
		switch {
		case err != nil:
			return nil, fmt.Errorf("%s: %w", file, err)
		case len(doc) == 0:
			continue
		case yaml.Unmarshal(doc, &object) != nil:
			return nil, fmt.Errorf("%s: %s", file, want)
		}
		group, _, _ := strings.Cut(object.APIVersion, "/")
		switch {
		case object.Kind != "Device" || group != koordinator.GroupVersion.Group:
			return nil, fmt.Errorf("%s: apiVersion %q, kind %q: %s", file, object.APIVersion, object.Kind, want)
		case read != nil:
			return nil, fmt.Errorf("%s: more than one Device: %s", file, want)
		}
		read = doc
	}
	if read == nil {
		return nil, fmt.Errorf("%s: no objects: %s", file, want)
	}
	d := new(koordinator.Device)
	return d, strict.Unmarshal(file, read, d)
}

// withDevice replaces the machine's devices with the devices of the Device from the file. It writes
// to w which devices are not drawn.
func withDevice(w io.Writer, m *topology.Machine, file string, d *koordinator.Device) (*topology.Machine, error) {
	m, bare, err := wire.ReadDevice(d, m)
	for _, b := range bare {
		fmt.Fprintf(w, "%s: %s has no busID and is not shown\n", file, b)
	}
	return m, err
}
