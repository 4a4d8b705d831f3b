package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/internal/whatif"
)

// errRefused is the error of several verbs if a pod is refused. The output already has the reason.
var errRefused = errors.New("not every pod is admitted")

// NewPlaceCommand returns the verb that shows how a kubelet would place pods.
func NewPlaceCommand() *cobra.Command {
	var q question
	var podsOf string
	cmd := &cobra.Command{
		Use:   "place -f PODS [MACHINE|CAPTURE]",
		Short: "Show where pods go on a node, or why its kubelet refuses them",
		Long: `Admits pods one after another on a node, as its kubelet would, and prints the CPUs, memory, devices and NUMA nodes of
every container. It also checks the node's allocatable (the machine minus what the configuration reserves for the
system) and the pods' own policies. -o svg draws the machine with its pods. Exit code 1 means that a pod was refused.`,
		Example: `  berth place -f pod.yaml --node 'package:2 numa:2 core:8 pu:2 mem:64Gi' --kubelet-config kubelet.yaml
  berth place -f pods.yaml --node sysinfo.tgz --kubelet-config kubelet.yaml --state /var/lib/kubelet --device nvidia.com/gpu=0:4,1:4
  berth place -f pods.yaml sysinfo.tgz --kubelet-config kubelet.yaml -o svg > node.svg
  helm template chart | berth place -f - sysinfo.tgz --kubelet-config kubelet.yaml`,
		Args: arguments(0, 1, "at most one machine"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := q.node.takeMachine(cmd, args); err != nil {
				return err
			}
			return q.ask(cmd, podsOf, placeTable)
		},
	}
	q.register(cmd, formatSVG)
	registerPodsOf(cmd, &podsOf)
	return cmd
}

// registerPodsOf adds the flag that selects the pods to place.
func registerPodsOf(cmd *cobra.Command, node *string) {
	cmd.Flags().StringVar(node, podsOfFlag, "", "if the pods are of several nodes, as kubectl get pods -A -o yaml prints them: use only the pods of this node, and pods without a node")
}

// ask asks the node about the pods in order. Each admitted pod keeps its resources for the next
// questions. ask prints the answers, and returns an error if a pod is refused. podsOf is the name
// of the node whose pods are asked about; "" means all pods.
func (q *question) ask(cmd *cobra.Command, podsOf string, print func(io.Writer, []whatif.Placed) error) error {
	n, pods, err := q.load(cmd)
	if err == nil {
		err = pods.ofNode(podsOf)
	}
	if err != nil {
		return err
	}
	answers, refused := []whatif.Placed{}, false
	for i := range pods.Templates {
		for _, pod := range pods.Templates[i].Pods() {
			a, err := n.Admit(pod)
			if err != nil {
				return err
			}
			answers = append(answers, a)
			refused = refused || !a.Admitted
		}
	}
	writeNotes(cmd, n.Notes)
	if q.output.is(formatSVG) {
		return drawAnswers(cmd, n, answers)
	}
	asTable := func(w io.Writer) error { return print(w, answers) }
	return cmp.Or(printCleaned(cmd, q.output, map[string]any{"pods": answers}, asTable), answerNo(refused, errRefused), pods.partly())
}

// refusedWord is printed in the column of NUMA nodes if the pod is refused.
const refusedWord = "refused"

// placeTable prints a row for each container, and the refusals below.
func placeTable(w io.Writer, answers []whatif.Placed) error {
	var rows [][]string
	refused := ""
	for i := range answers {
		a := &answers[i]
		if !a.Admitted {
			rows = append(rows, []string{a.Name, "-", refusedWord, "-", "-", "-"})
			refused += fmt.Sprintf("%s: %s\n", a.Name, a.Refusal)
			if a.Refusal.Advice != "" {
				refused += "  do: " + a.Refusal.Advice + "\n"
			}
			continue
		}
		for j := range a.Containers {
			c := &a.Containers[j]
			rows = append(rows, []string{a.Name, c.Label(), dash(c.NUMANodes), cpusText(c), dash(c.MemoryText()), dash(c.DevicesText())})
		}
	}
	if err := columns(w, "POD | CONTAINER | NUMA | CPUS | MEMORY | DEVICES", rows); err != nil {
		return err
	}
	if refused != "" {
		refused = "\n" + refused
	}
	_, err := io.WriteString(w, refused)
	return err
}
