package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/internal/manifest"
	"github.com/berth-dev/berth/internal/survey/query"
	"github.com/berth-dev/berth/internal/whatif"
)

var errNever = errors.New("some pods do not fit even on an empty node")

// needed is a row of the output of need.
type needed struct {
	Machine string `json:"machine"`
	// Set is the assumed change of the machine's configuration, or "".
	Set string `json:"set,omitempty"`
	whatif.Need
}

// NewNeedCommand returns the verb that computes how many nodes a load needs.
func NewNeedCommand() *cobra.Command {
	var q question
	var sets []string
	cmd := &cobra.Command{
		Use:   "need -f PODS [MACHINE|CAPTURE]...",
		Short: "Count the nodes of a group that pods need, before and after a change of its settings",
		Long: `Counts the nodes that all replicas of the pods need, if the nodes are alike and empty. It places the largest pods
first, each on the first node that admits it; another order may need fewer nodes. It does so for each machine, as
configured and with each --set. BY AMOUNTS is the number of nodes if only the sums of CPUs, memory and devices had to
suffice, as an autoscaler computes. Pods that an empty node refuses are not counted; they are listed with the reason.

Exit code 1 means that some pod does not fit even on an empty node.`,
		Example: `  berth need -f load.yaml 'package:2 numa:1 core:48 pu:2 mem:512Gi' --kubelet-config kubelet.yaml --device nvidia.com/gpu=0:4,1:4
  berth need -f load.yaml sysinfo.tgz --kubelet-config kubelet.yaml --set numaNodesPerPackage=4 --set topologyManagerPolicy=restricted
  berth need -f load.yaml 'package:1 numa:4 core:16 pu:2 mem:64Gi' 'package:2 numa:1 core:32 pu:2 mem:256Gi' --kubelet-config kubelet.yaml
  berth need -f load.yaml sysinfo.tgz --kubelet-config kubelet.yaml --set reservedSystemCPUs=0-3,topologyManagerScope=pod -o json`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := q.node.takeMachine(cmd, args); err != nil {
				return err
			}
			if len(args) == 0 {
				args = []string{q.node.machine}
			}
			return q.need(cmd, args, sets)
		},
	}
	q.register(cmd)
	cmd.Flags().StringArrayVar(&sets, "set", nil, "also compute with these settings of the nodes, KEY=VALUE[,KEY=VALUE...] with "+strings.Join(query.SettingKeys(), ", ")+"; repeat for another row")
	_ = cmd.RegisterFlagCompletionFunc("set", completeSettings)
	return cmd
}

func (q *question) need(cmd *cobra.Command, machines, sets []string) error {
	if q.node.state != "" {
		return Usagef("--state %s: leave out --state, because berth need counts new, empty nodes, which have no checkpoints", q.node.state)
	}
	pods, err := readManifests(cmd, q.files, q.recursive)
	if err != nil {
		return err
	}
	notes := pods.Notes
	rows, never := []needed{}, false
	for _, machine := range machines {
		for _, set := range append([]string{""}, sets...) {
			row, more, err := q.needOne(cmd.Context(), machine, set, pods.Templates)
			if err != nil {
				return err
			}
			rows, never = append(rows, row), never || len(row.Never) > 0
			notes = append(notes, more...)
		}
	}
	slices.Sort(notes)
	notes = slices.Compact(notes)
	writeNotes(cmd, notes)
	asTable := func(w io.Writer) error { return needTable(w, rows, len(sets)+1) }
	return cmp.Or(printCleaned(cmd, q.output, listing("groups", rows, notes), asTable), answerNo(never, errNever), pods.partly())
}

// needOne computes the answer for one machine with one setting.
func (q *question) needOne(ctx context.Context, machine, set string, load []manifest.Template) (row needed, notes []string, err error) {
	spec, err := q.node.spec()
	if err != nil {
		return row, nil, err
	}
	spec.Machine = machine
	if set != "" {
		if spec.Setting, err = query.ParseSetting(settingsOf(set)); err != nil {
			return row, nil, Usagef("--set %w", err)
		}
	}
	n, err := spec.Load()
	if err != nil && set != "" {
		return row, nil, fmt.Errorf("%s, --set %s: %w", machine, set, err)
	}
	if err != nil {
		return row, nil, err
	}
	row = needed{Machine: machine, Set: set}
	row.Need, err = n.Need(ctx, load)
	return row, n.Notes, err
}

// settingsOf splits KEY=VALUE[,KEY=VALUE...]. A value that is a list of CPUs may contain commas.
func settingsOf(text string) (out []string) {
	for item := range strings.SplitSeq(text, ",") {
		if len(out) > 0 && !strings.Contains(item, "=") {
			out[len(out)-1] += "," + item
			continue
		}
		out = append(out, item)
	}
	return out
}

// needTable prints a row for each machine and setting. If the same pods fit, a row also has the
// difference from the first row of its machine.
func needTable(w io.Writer, all []needed, each int) error {
	var rows [][]string
	for i := range all {
		n, before := &all[i], &all[i-i%each]
		change := "-"
		if i%each > 0 && len(n.Never) == len(before.Never) {
			change = fmt.Sprintf("%+d", n.Nodes-before.Nodes)
		}
		rows = append(rows, []string{n.Machine, n.setText(), strconv.Itoa(n.Nodes), change, strconv.Itoa(n.ByAmounts), strconv.Itoa(n.Pods), strconv.Itoa(neverFit(n))})
	}
	if err := columns(w, "MACHINE | SET | NODES | CHANGE | BY AMOUNTS | PODS PLACED | NEVER FIT", rows); err != nil {
		return err
	}
	for i := range all {
		for _, never := range all[i].Never {
			fmt.Fprintf(w, "\n%s, %s: %s does not fit even on an empty node: %s\n", all[i].Machine, all[i].setText(), never.Name, never.Refusal)
		}
	}
	return nil
}

func neverFit(n *needed) (pods int) {
	for _, never := range n.Never {
		pods += never.Pods
	}
	return pods
}

func (n *needed) setText() string { return cmp.Or(n.Set, "as configured") }
