package cli

import (
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/internal/kubeletconfig"
	"github.com/berth-dev/berth/internal/manifest"
	"github.com/berth-dev/berth/internal/whatif"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

const (
	nodeFlag           = "node"
	kubeletConfigFlag  = "kubelet-config"
	kubeletDropInsFlag = "kubelet-config-dir"
	kubeletVersionFlag = "kubelet-version"
	kubeletFlagsFlag   = "kubelet-flags"
	podsOfFlag         = "pods-of"
)

const defaultKubeletVersion = "1.37"

// nodeFlags describe one node without a cluster: a machine, a kubelet's configuration, and the
// assigned resources.
type nodeFlags struct {
	machine, config, dropIns, flags, version, state string
	devices                                         []string
	guard, ignoreMissing                            bool
}

// registerKubelet adds the flags that describe the kubelet. The verb check needs only these flags.
func (f *nodeFlags) registerKubelet(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&f.config, kubeletConfigFlag, "", "file with the node's KubeletConfiguration, kubeadm's ConfigMap of it, the kubelet's answer to /configz, or its flags; without it every manager's policy is none")
	fs.StringVar(&f.dropIns, kubeletDropInsFlag, "", "directory with drop-ins (*.conf) of the KubeletConfiguration")
	fs.StringVar(&f.flags, kubeletFlagsFlag, "", "the kubelet's own flags ('--reserved-cpus=0-1 --kube-reserved=cpu=1'), or a file with them: its command line as ps prints it, or KUBELET_EXTRA_ARGS=...")
	fs.StringVar(&f.version, kubeletVersionFlag, defaultKubeletVersion, "release of the node's kubelet, 1.33 to 1.37")
	_ = cmd.RegisterFlagCompletionFunc(kubeletVersionFlag, cobra.FixedCompletions(kubeletVersions, cobra.ShellCompDirectiveNoFileComp))
}

func (f *nodeFlags) register(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&f.machine, nodeFlag, "/", "machine string ('package:2 numa:2 core:8 pu:2 mem:64Gi'), a capture (a folder with sys/ in it, or an archive of one), or a file with the output of lscpu -p")
	f.registerKubelet(cmd)
	fs.StringVar(&f.state, "state", "", "folder with the kubelet's checkpoints (/var/lib/kubelet); without it the node is empty")
	fs.StringArrayVar(&f.devices, "device", nil, "devices of a plugin, RESOURCE=NUMA:COUNT[,NUMA:COUNT...] (nvidia.com/gpu=0:4,1:4; NUMA 0-1 means both, - none); repeat for each resource")
	fs.BoolVar(&f.guard, "guard", true, "refuse, as Berth's scheduler does, pods that would trigger a known defect of the kubelet or break their own policy; false shows what the kubelet does")
	fs.BoolVar(&f.ignoreMissing, "ignore-missing-devices", false, "admit pods that ask for devices that the node does not offer: a kubelet admits them, but no scheduler sends them there")
}

func (f *nodeFlags) spec() (whatif.Spec, error) {
	s := whatif.Spec{
		Machine: f.machine, Config: kubeletconfig.Files{File: f.config, Dir: f.dropIns}, State: f.state,
		NoGuard: !f.guard, IgnoreMissingDevices: f.ignoreMissing,
	}
	var err error
	if s.Config.Flags, err = textOrFile(f.flags); err != nil {
		return s, err
	}
	if s.Version, err = parseVersion(f.version); err != nil {
		return s, err
	}
	for _, text := range f.devices {
		pool, err := whatif.ParsePool(text)
		if err != nil {
			return s, Usagef("--device %q: %w", text, err)
		}
		if slices.ContainsFunc(s.Pools, func(other placement.DevicePool) bool { return other.Resource == pool.Resource }) {
			return s, Usagef("--device %q: %s is given twice: want all its NUMA nodes in one flag, like %s=0:4,1:4", text, pool.Resource, pool.Resource)
		}
		s.Pools = append(s.Pools, pool)
	}
	return s, nil
}

// textOrFile returns the content of the file that the text names, or otherwise the text.
func textOrFile(text string) (string, error) {
	if info, err := os.Stat(text); err != nil || info.IsDir() {
		return text, nil
	}
	data, err := manifest.ReadInput(text, nil, kubeletconfig.MaxBytes)
	return string(data), err
}

// describe reports whether the user has set a flag that describes a node. In this case the verb
// reads no cluster.
func (f *nodeFlags) describe(cmd *cobra.Command) bool {
	return cmd.Flags().Changed(nodeFlag) || changedOf(cmd, offlineFlags) != ""
}

// offlineFlags are the flags of nodeFlags, except nodeFlag.
var offlineFlags = []string{kubeletConfigFlag, kubeletDropInsFlag, kubeletFlagsFlag, kubeletVersionFlag, "state", "device", "guard", "ignore-missing-devices"}

// changedOf returns the first of the named flags that the user has set, or "" if there is none.
func changedOf(cmd *cobra.Command, names []string) string {
	i := slices.IndexFunc(names, func(name string) bool { return cmd.Flags().Changed(name) })
	if i < 0 {
		return ""
	}
	return names[i]
}

// takeMachine reads the machine from the first argument instead of a flag.
func (f *nodeFlags) takeMachine(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if cmd.Flags().Changed(nodeFlag) {
		return Usagef("%s %q --%s %q: want the machine as an argument or with the flag, not both", cmd.Name(), args[0], nodeFlag, f.machine)
	}
	f.machine = args[0]
	return nil
}

// kubeletVersions are the releases of the kubelet that Berth can predict.
var kubeletVersions = []string{"1.33", "1.34", "1.35", "1.36", "1.37"}

// parseVersion parses a release such as "1.36" or "v1.36.3".
func parseVersion(text string) (placement.Version, error) {
	version, err := wire.ReadKubeletVersion("v" + strings.TrimPrefix(text, "v"))
	if err != nil || version < placement.V133 || version > placement.V137 {
		return 0, Usagef("--%s %q: want 1.33 to 1.37", kubeletVersionFlag, text)
	}
	return version, nil
}

// question has the flags that the verbs about pods on one node share: the pods, the node and the
// output format.
type question struct {
	files     []string
	recursive bool
	node      nodeFlags
	output    output
}

func (q *question) register(cmd *cobra.Command, formats ...string) {
	cmd.Flags().StringSliceVarP(&q.files, "filename", "f", nil, "files or folders with pods or workloads, YAML or JSON; - is stdin; may be repeated")
	cmd.Flags().BoolVarP(&q.recursive, "recursive", "R", false, "also read the subfolders of folders given with -f")
	_ = cmd.MarkFlagRequired("filename")
	cmd.PreRunE = wantPods
	under(nodeHeading, cmd, func() { q.node.register(cmd) })
	q.output.register(cmd, formats...)
}

// wantPods returns an error if the user names no pods. Unlike cobra's message, the error names the
// flag.
func wantPods(cmd *cobra.Command, _ []string) error {
	if cmd.ValidateRequiredFlags() == nil {
		return nil
	}
	return Usagef("%s: want pods: -f, --filename with a file, a folder, or - for standard input", cmd.Name())
}

// load reads the pods and the node. The node's notes list assumptions.
func (q *question) load(cmd *cobra.Command) (n *whatif.Node, pods manifests, err error) {
	spec, err := q.node.spec()
	if err != nil {
		return nil, pods, err
	}
	if pods, err = readManifests(cmd, q.files, q.recursive); err != nil {
		return nil, pods, err
	}
	if n, err = spec.Load(); err == nil {
		n.Forget(pods.Ended)
		n.Notes = append(pods.Notes, n.Notes...)
	}
	return n, pods, err
}
