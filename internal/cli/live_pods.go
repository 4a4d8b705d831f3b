package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/internal/wire"
)

// podSummary is a pod as `berth pods` shows it.
type podSummary struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Node      string `json:"node,omitempty"`
	// State is pending, in flight (bound and in no report yet), or what the report says: admitted, ended, rejected, unknown.
	State string `json:"state"`
	// NUMANodes and CPUs are what the pod holds; of a pod in flight, what it was promised.
	NUMANodes string `json:"numaNodes,omitempty"`
	CPUs      string `json:"cpus,omitempty"`
	Certainty string `json:"certainty,omitempty"`
	Guarantee string `json:"guarantee,omitempty"`
	// Outcome says how promise and report compare.
	Outcome string `json:"outcome,omitempty"`
	// Alignment is numa-node, package or machine; "" when nothing is pinned.
	Alignment string `json:"alignment,omitempty"`
	// Containers are those that NUMANodes and CPUs are of.
	Containers []placedContainer `json:"containers,omitempty"`
	Error      string            `json:"error,omitempty"`
}

const (
	statePending  = "pending"
	stateInFlight = "in flight"
	stateGone     = "gone" // a watch saw it go
)

// NewPodsCommand returns the verb that shows where pods have their CPUs, memory and devices.
func NewPodsCommand() *cobra.Command {
	var live liveFlags
	var o output
	var everywhere bool
	var watch watchFlags
	cmd := &cobra.Command{
		Use:   "pods [POD]",
		Short: "Show which CPUs and NUMA nodes the pods of a cluster have, and whether they are aligned",
		Long: `For each pod that could be pinned show its node, its CPUs, the NUMA nodes of everything that it has to itself, how far
apart these are, and whether its node kept what the scheduler promised. Ordinary pods are left out.`,
		Example:           "  kubectl berth pods -A\n  kubectl berth pods -w\n  kubectl berth pods -n training -o json",
		Args:              usageArgs(cobra.MaximumNArgs(1)),
		ValidArgsFunction: live.completePods,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(); err != nil {
				return err
			}
			c, err := live.connect()
			if err != nil {
				return err
			}
			if everywhere {
				c.namespace = metav1.NamespaceAll
			}
			if watch.on() {
				return watchPods(cmd, c, o, strings.Join(args, ""), watch.only)
			}
			return printPods(cmd, c, o, strings.Join(args, ""))
		},
	}
	cmd.Flags().BoolVarP(&everywhere, "all-namespaces", "A", false, "the pods of all namespaces")
	live.register(cmd)
	watch.register(cmd)
	o.register(cmd, formatWide, formatName)
	return cmd
}

func printPods(cmd *cobra.Command, c *cluster, o output, only string) error {
	s, err := c.survey(cmd.Context(), "")
	if err != nil {
		return err
	}
	pods, err := c.allPodsIn(cmd, only)
	if err != nil {
		return err
	}
	all := s.summaries(pods, only)
	if only != "" && len(all) == 0 {
		return fmt.Errorf("no pod %s in namespace %s at %s", only, c.namespace, c.where)
	}
	writeNotes(cmd, s.notes)
	return printLive(cmd, o, listing("pods", all, s.notes), func(w io.Writer) error {
		if o.is(formatName) {
			return printNames(w, "pod", len(all), func(i int) string { return all[i].Name })
		}
		return podsTable(w, all, o.is(formatWide))
	})
}

// summaries are those of pods that could be pinned, and of one that was asked for, by namespace and name.
func (s *survey) summaries(pods []corev1.Pod, only string) []podSummary {
	all := []podSummary{}
	for i := range pods {
		if sum, pinned := s.summary(&pods[i]); pinned || only != "" {
			all = append(all, sum)
		}
	}
	slices.SortFunc(all, func(a, b podSummary) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// allPodsIn reads the pods of the namespace, bound or not.
func (c *cluster) allPodsIn(cmd *cobra.Command, only string) ([]corev1.Pod, error) {
	pods, err := pages(func(o metav1.ListOptions) ([]corev1.Pod, string, error) {
		l, err := c.core.Pods(c.namespace).List(cmd.Context(), o)
		if err != nil {
			return nil, "", err
		}
		return l.Items, l.Continue, nil
	}, named("metadata.name", only))
	if err != nil {
		return nil, c.failed("pods", err)
	}
	return pods, nil
}

// summary puts a pod into a line, and says whether it could be pinned.
func (s *survey) summary(pod *corev1.Pod) (podSummary, bool) {
	out := podSummary{Namespace: pod.Namespace, Name: pod.Name, Node: pod.Spec.NodeName, State: statePending}
	request, err := wire.Request(pod)
	if err != nil {
		out.Error = err.Error()
		return out, true
	}
	n := s.nodes[pod.Spec.NodeName]
	p, found, err := wire.PlacementOf(pod)
	if err != nil {
		out.Error, found = err.Error(), false
	}
	if pod.Spec.NodeName == "" {
		return out, request.Pinnable()
	}
	out.State = stateInFlight
	if found {
		promise := n.promise(&p)
		out.Certainty, out.Guarantee, out.Outcome = promise.Certainty, promise.Guarantee, n.compare(&p, found)
		out.hold(promise.NUMANodes, promise.Containers)
		out.Alignment = alignmentOf(n.machine(), n.numaOf(allocationOf(&p.Decision)))
	}
	h := n.holding(string(pod.UID), s)
	switch {
	case h != nil && h.State != stateAbsent:
		out.State, out.Alignment = h.State, h.Alignment
		out.hold(h.NUMANodes, h.Containers)
	case wire.Ending(pod):
		out.State, out.Alignment = "ended", ""
		out.hold("", nil)
	}
	return out, request.Pinnable() || err != nil
}

func (p *podSummary) hold(numa string, containers []placedContainer) {
	var cpus []string
	for i := range containers {
		if containers[i].CPUs != "" {
			cpus = append(cpus, containers[i].CPUs)
		}
	}
	p.NUMANodes, p.CPUs, p.Containers = numa, strings.Join(cpus, ";"), containers
}

// Columns of pods; the second are only of -o wide.
const (
	podColumns     = "NAMESPACE | POD | NODE | STATE | NUMA | CPUS | CERTAINTY | PROMISE | ALIGNED"
	podWideColumns = " | GUARANTEE | MEMORY | DEVICES"
)

func podsTable(w io.Writer, all []podSummary, wide bool) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(w, "No pods that could be pinned.")
		return err
	}
	var rows [][]string
	for i := range all {
		rows = append(rows, all[i].row(wide))
	}
	if err := columns(w, podHeader(wide), rows); err != nil {
		return err
	}
	for i := range all {
		if p := &all[i]; p.Error != "" {
			fmt.Fprintf(w, "\npod %s/%s: %s\n", p.Namespace, p.Name, p.Error)
		}
	}
	return nil
}

func podHeader(wide bool) string {
	if wide {
		return podColumns + podWideColumns
	}
	return podColumns
}

func (p *podSummary) row(wide bool) []string {
	row := []string{p.Namespace, p.Name, dash(p.Node), p.State, dash(p.NUMANodes), dash(p.CPUs), dash(p.Certainty), dash(p.Outcome), dash(p.aligned())}
	if wide {
		row = append(row, p.wide()...)
	}
	return row
}

// wide is what -o wide adds.
func (p *podSummary) wide() []string {
	var memory, devices []string
	for i := range p.Containers {
		c := &p.Containers[i]
		if text := c.memoryText(); text != "" {
			memory = append(memory, text)
		}
		if text := c.devicesText(); text != "" {
			devices = append(devices, text)
		}
	}
	return []string{dash(p.Guarantee), dash(strings.Join(memory, "; ")), dash(strings.Join(devices, "; "))}
}

// aligned says whether everything is on one NUMA node.
func (p *podSummary) aligned() string {
	switch p.Alignment {
	case "":
		return ""
	case "numa-node":
		return "yes"
	}
	return "no, " + alignmentWords[p.Alignment]
}
