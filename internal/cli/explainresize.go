package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-dev/berth/internal/cli/table"
	"github.com/berth-dev/berth/internal/survey/query"
	"github.com/berth-dev/berth/placement"
)

var errNotResized = errors.New("the pod would not be resized")

// resized explains the outcome of a resize in place.
func (q *podQuestion) resized(cmd *cobra.Command, name string, o output) error {
	changes, err := changesOf(q.resize)
	if err != nil {
		return err
	}
	if q.only != "" {
		return Usagef("explain --resize --node %s: leave out --node, because a pod is resized on its own node", q.only)
	}
	c, err := q.prepare()
	if err != nil {
		return err
	}
	r, err := query.Resize(cmd.Context(), c, c.Namespace, name, changes)
	if err != nil {
		return err
	}
	writeNotes(cmd, r.Notes)
	asText := func(w io.Writer) error { return resizedText(w, r) }
	return cmp.Or(printCleaned(cmd, o, r, asText), answerNo(r.Outcome != placement.ResizeProceeds, errNotResized))
}

func changesOf(texts []string) (out []query.Change, err error) {
	seen := map[string]bool{}
	for _, text := range texts {
		what, amount, ok := strings.Cut(text, "=")
		container, name, named := strings.Cut(what, ":")
		if !named {
			container, name = "", what
		}
		change := query.Change{Container: container, Resource: corev1.ResourceName(name)}
		if !ok || named && container == "" || change.Resource != corev1.ResourceCPU && change.Resource != corev1.ResourceMemory {
			return nil, Usagef("--resize %q: want [CONTAINER:]cpu=AMOUNT or [CONTAINER:]memory=AMOUNT, with CONTAINER if the pod has several containers", text)
		}
		if change.Amount, err = resource.ParseQuantity(amount); err != nil || change.Amount.Sign() < 0 {
			return nil, Usagef("--resize %q: %q: want an amount such as 8 or 500m of CPU, or 16Gi of memory", text, amount)
		}
		if seen[what] {
			return nil, Usagef("--resize %q: %s is given twice: want each amount once", text, what)
		}
		seen[what] = true
		out = append(out, change)
	}
	return out, nil
}

var outcomeStyles = map[placement.ResizeOutcome]table.Style{
	placement.ResizeProceeds: table.Good, placement.ResizeDeferred: table.Doubtful, placement.ResizeInfeasible: table.Bad,
	placement.ResizeRejected: table.Bad, placement.ResizeUnknown: table.Doubtful,
}

func resizedText(w io.Writer, r *query.Resized) error {
	fmt.Fprintf(w, "pod %s/%s: on node %s", r.Namespace, r.Name, r.Node)
	if r.Kubelet != "" {
		fmt.Fprintf(w, ", kubelet %s", r.Kubelet)
	}
	fmt.Fprintln(w)
	for _, c := range r.Changes {
		fmt.Fprintf(w, "resize: %s\n", c)
	}
	if len(r.Changes) == 0 {
		fmt.Fprintln(w, "resize: nothing changes")
	}
	fmt.Fprintf(w, "answer: %s: %s\n", outcomeStyles[r.Outcome].Mark(r.Outcome.String()), r.Then)
	if r.Message != "" {
		fmt.Fprintf(w, "why: %s\n", r.Message)
	}
	return nil
}
