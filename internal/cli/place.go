package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/internal/survey"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

// errRefused is the answer no of a verb that asks; the output has said why.
var errRefused = errors.New("not every pod is admitted")

// placed is what one pod got, or why it got nothing.
type placed struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace,omitempty"`
	Admitted  bool   `json:"admitted"`
	// NUMANodes holds everything that is pinned, "0-1"; "" when nothing is.
	NUMANodes  string             `json:"numaNodes"`
	Containers []survey.Container `json:"containers,omitempty"`
	// Random says that the kubelet leaves the choice of devices to chance.
	Random  bool               `json:"random,omitempty"`
	Refusal *placement.Refusal `json:"refusal,omitempty"`
}

// NewPlaceCommand returns the verb that says what a kubelet would do with pods.
func NewPlaceCommand() *cobra.Command {
	var q question
	cmd := &cobra.Command{
		Use:   "place -f PODS [--node MACHINE|CAPTURE]",
		Short: "Say where pods go on a node, or why its kubelet refuses them",
		Long: `Admit pods one after another on a node, as its kubelet would, and print CPUs, memory, devices and NUMA
nodes of every container. Exit code 1 says that a pod was refused.`,
		Example: `  berth place -f pod.yaml --node 'package:2 numa:2 core:8 pu:2 mem:64Gi' --kubelet-config kubelet.yaml
  berth place -f pods.yaml --node sysinfo.tgz --kubelet-config kubelet.yaml --state /var/lib/kubelet --device nvidia.com/gpu=0:4,1:4`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			answers, n, err := q.ask(cmd)
			if err != nil {
				return err
			}
			return q.answer(cmd, n, answers, func(w io.Writer) error { return placeTable(w, answers) })
		},
	}
	q.register(cmd)
	return cmd
}

// question is what place and explain have in common: pods, a node, a format.
type question struct {
	file   string
	node   nodeFlags
	output output
}

func (q *question) register(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&q.file, "filename", "f", "", "file with pods or workloads, YAML or JSON; - is stdin")
	_ = cmd.MarkFlagRequired("filename")
	q.node.register(cmd)
	q.output.register(cmd)
}

func (q *question) load(cmd *cobra.Command) (*node, []*corev1.Pod, error) {
	if err := q.output.check(); err != nil {
		return nil, nil, err
	}
	pods, err := readPods(q.file, cmd.InOrStdin())
	if err != nil {
		return nil, nil, err
	}
	n, err := q.node.load()
	return n, pods, err
}

// ask admits the pods in their order; each sees what those before it hold.
func (q *question) ask(cmd *cobra.Command) ([]placed, *node, error) {
	n, pods, err := q.load(cmd)
	if err != nil {
		return nil, nil, err
	}
	var answers []placed
	for _, pod := range pods {
		r, err := wire.Request(pod)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", q.file, err)
		}
		n.warnDevices(&r)
		a := n.admit(&r)
		a.Name, a.Namespace = pod.Name, pod.Namespace
		answers = append(answers, a)
	}
	return answers, n, nil
}

// warnDevices notes resources that no plugin of the node offers: its kubelet ignores them, but no scheduler sends such a pod.
func (n *node) warnDevices(r *placement.Request) {
	pools := n.state.Snapshot().Devices
	for i := range r.Containers {
		for _, d := range r.Containers[i].Devices {
			offered := slices.ContainsFunc(pools, func(p placement.DevicePool) bool { return p.Resource == d.Resource })
			note := "no device plugin of this node offers " + d.Resource + ", so its kubelet ignores it (see --device)"
			if !offered && !slices.Contains(n.warnings, note) {
				n.warnings = append(n.warnings, note)
			}
		}
	}
}

// answer prints and turns a refusal into the exit code.
func (q *question) answer(cmd *cobra.Command, n *node, answers []placed, table func(io.Writer) error) error {
	for _, w := range n.warnings {
		fmt.Fprintln(cmd.ErrOrStderr(), "note:", w)
	}
	if err := q.output.print(cmd.OutOrStdout(), map[string]any{"pods": answers}, table); err != nil {
		return err
	}
	for i := range answers {
		if !answers[i].Admitted {
			return errRefused
		}
	}
	return nil
}

// admit decides for one pod and hands out what it gets.
func (n *node) admit(r *placement.Request) placed {
	var d placement.Decision
	v := placement.Decide(n.state, r, &d)
	if !v.OK() {
		refusal := placement.Explain(n.state, r)
		return placed{Refusal: &refusal}
	}
	n.state.Commit(r, &d)
	out := placed{Admitted: true, NUMANodes: v.NUMA.String(), Random: v.Random}
	for i := range d.Containers {
		out.Containers = append(out.Containers, survey.ContainerOf(n.machine, &d.Containers[i]))
	}
	return out
}

func placeTable(w io.Writer, answers []placed) error {
	tw := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(tw, "POD\tCONTAINER\tNUMA\tCPUS\tMEMORY\tDEVICES")
	for i := range answers {
		a := &answers[i]
		if !a.Admitted {
			fmt.Fprintf(tw, "%s\t-\trefused\t%s\t\t\n", a.Name, a.Refusal)
			continue
		}
		for _, c := range a.Containers {
			fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\n", a.Name, c.Label(), dash(c.NUMANodes), c.CPUsText(), dash(c.MemoryText()), dash(c.DevicesText()))
		}
	}
	return tw.Flush()
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
