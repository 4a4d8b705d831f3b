package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/internal/survey"
	"github.com/berth-dev/berth/topology"
)

// NewPodsCommand returns the verb that shows where pods have their CPUs, memory and devices.
func NewPodsCommand() *cobra.Command {
	var cluster clusterFlags
	var o output
	var everywhere bool
	var watch watchFlags
	cmd := &cobra.Command{
		Use:   "pods [POD]",
		Short: "Show which CPUs and NUMA nodes the pods of a cluster have, and whether they are aligned",
		Long: `Shows for each pod that could be pinned its node, its CPUs, the NUMA nodes of its CPUs, memory and devices, if they
are aligned, and if the node kept the scheduler's promise. Other pods are omitted.`,
		Example:           "  kubectl berth pods -A\n  kubectl berth pods -w\n  kubectl berth pods -n training -o json",
		Args:              arguments(0, 1, "at most one pod"),
		ValidArgsFunction: cluster.completePods,
		RunE: func(cmd *cobra.Command, args []string) error {
			only := strings.Join(args, "")
			if everywhere && only != "" {
				return Usagef("pods %s -A: want -n with the namespace of the pod, or no pod", only)
			}
			c, err := cluster.connect()
			if err != nil {
				return err
			}
			if everywhere {
				c.Namespace = metav1.NamespaceAll
			}
			pods, err := c.Pods(cmd.Context(), only)
			if err != nil {
				return err
			}
			writeNotes(cmd, pods.Notes)
			if watch.on() {
				return watchPods(cmd, o, c, pods, following{only, watch.only})
			}
			return printPods(cmd, o, pods)
		},
	}
	cmd.Flags().BoolVarP(&everywhere, "all-namespaces", "A", false, "the pods of all namespaces")
	cluster.register(cmd)
	watch.register(cmd)
	o.register(cmd, formatWide, formatName)
	o.registerNoHeaders(cmd)
	return cmd
}

func printPods(cmd *cobra.Command, o output, p *survey.Pods) error {
	return printCleaned(cmd, o, listing("pods", p.Pods, p.Notes), func(w io.Writer) error {
		if o.is(formatName) {
			return printNames(w, "pod", len(p.Pods), func(i int) string { return p.Pods[i].Name })
		}
		return podsTable(w, o, p.Pods)
	})
}

// watchPods prints the pods that could be pinned, and prints a pod again after each change.
func watchPods(cmd *cobra.Command, o output, c *survey.Cluster, p *survey.Pods, q following) error {
	wide := o.is(formatWide)
	st := stream[survey.Pod]{
		cmd: cmd, o: o, list: "pods", kind: "pod", columns: podHeader(wide),
		name:   func(p *survey.Pod) string { return p.Name },
		rows:   func(p *survey.Pod) [][]string { return [][]string{podRow(p, wide)} },
		steady: func(p survey.Pod) survey.Pod { return p },
		gone:   func(p survey.Pod) survey.Pod { p.State = survey.StateGone; return p },
	}
	if err := st.offerAll(p.Pods, (*survey.Pod).Key, q.quietly); err != nil {
		return err
	}
	return c.WatchPods(cmd.Context(), p, q.only, survey.Follower[survey.Pod]{Show: st.show, Tell: teller(cmd)})
}

// The columns of pods. The second list is only for -o wide.
const (
	podColumns     = "NAMESPACE | POD | NODE | STATE | NUMA | CPUS | CERTAINTY | PROMISE | ALIGNED"
	podWideColumns = " | GUARANTEE | MEMORY | DEVICES"
)

func podsTable(w io.Writer, o output, all []survey.Pod) error {
	if len(all) == 0 && !o.noHeaders {
		_, err := fmt.Fprintln(w, "No pods that could be pinned.")
		return err
	}
	var rows [][]string
	for i := range all {
		rows = append(rows, podRow(&all[i], o.is(formatWide)))
	}
	if err := o.rows(w, podHeader(o.is(formatWide)), rows); err != nil || o.noHeaders {
		return err
	}
	for i := range all {
		p := &all[i]
		if p.Error != "" {
			fmt.Fprintf(w, "\npod %s/%s: %s\n", p.Namespace, p.Name, p.Error)
		}
		if r := p.Resize; r != nil {
			fmt.Fprintf(w, "\npod %s/%s: resize %s: %s\n", p.Namespace, p.Name, r.State, r.Message)
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

func podRow(p *survey.Pod, wide bool) []string {
	state := p.State
	if p.Resize != nil {
		state += ", resize " + p.Resize.State
	}
	row := []string{
		p.Namespace, p.Name, dash(p.Node), state, dash(p.NUMANodes), dash(podCPUs(p)), dash(p.Certainty), dash(p.Outcome), dash(aligned(p)),
	}
	if wide {
		row = append(row, podWide(p)...)
	}
	return row
}

// podCPUs returns the CPUs of the containers. A long list uses strides. If a resize moves the pod,
// podCPUs adds the new CPUs.
func podCPUs(p *survey.Pod) string {
	if p.CPUs == "" && p.UnknownCPUs > 0 {
		return fmt.Sprintf("%d %s", p.UnknownCPUs, survey.CPUsUnknown)
	}
	text := stridesOfAll(p.CPUs)
	if r := p.Resize; r != nil && r.CPUs != "" && r.CPUs != p.CPUs {
		text += " -> " + stridesOfAll(r.CPUs)
	}
	return text
}

func stridesOfAll(cpus string) string {
	parts := strings.Split(cpus, ";")
	for i := range parts {
		parts[i] = stridesOf(parts[i])
	}
	return strings.Join(parts, ";")
}

func podWide(p *survey.Pod) []string {
	var memory, devices []string
	for i := range p.Containers {
		c := &p.Containers[i]
		if text := c.MemoryText(); text != "" {
			memory = append(memory, text)
		}
		if text := c.DevicesText(); text != "" {
			devices = append(devices, text)
		}
	}
	return []string{dash(p.Guarantee), dash(strings.Join(memory, "; ")), dash(strings.Join(devices, "; "))}
}

// aligned returns the text of the column ALIGNED: whether all resources are on one NUMA node.
func aligned(p *survey.Pod) string {
	switch p.Alignment {
	case "":
		return ""
	case topology.WithinNode:
		return "yes"
	}
	return "no, " + alignmentWords[p.Alignment]
}
