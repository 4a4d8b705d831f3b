package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/internal/survey"
	"github.com/berth-dev/berth/internal/survey/query"
	"github.com/berth-dev/berth/internal/wire"
)

// defaultCopies is the default for the maximum number of copies that are counted on a node.
const defaultCopies = 1000

// mostCopies is the largest value of --limit. Copies that pin nothing are counted one by one, and a
// million of them take about a second.
const mostCopies = 1_000_000

// onlyLive are the flags of fit that apply only to a cluster.
var onlyLive = []string{"on", "set", "empty", "compare", "nodes"}

// fitQuestion has the flags of `berth fit` for a cluster.
type fitQuestion struct {
	cluster clusterFlags
	// limit is the maximum number of copies that are counted on a node. The field nodes is the
	// number of refusing nodes that are explained in full.
	limit, nodes int
	on, set      []string
	empty        bool
	// compare requests the table with the results before and after the change.
	compare bool
}

func (q *fitQuestion) register(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.IntVar(&q.limit, "limit", q.limit, "stop after this many copies on a node")
	fs.IntVar(&q.nodes, "nodes", q.nodes, "in a cluster: how many refusing nodes are explained in full")
	fs.StringSliceVar(&q.on, "on", nil, "in a cluster: ask only these nodes; may be repeated")
	fs.StringArrayVar(&q.set, "set", nil, "in a cluster: ask as if the nodes had these settings, KEY=VALUE with "+strings.Join(query.SettingKeys(), ", ")+"; may be repeated")
	fs.BoolVar(&q.empty, "empty", false, "in a cluster: ask as if no pods were on the nodes")
	fs.BoolVar(&q.compare, "compare", false, "in a cluster: compare the nodes as they are with the nodes after --set and --empty, with and without moving pods, and count the nodes of each kind that the pods need")
	q.cluster.register(cmd)
	_ = cmd.RegisterFlagCompletionFunc("on", q.cluster.completeNodes)
	_ = cmd.RegisterFlagCompletionFunc("set", completeSettings)
}

// completeSettings completes the keys of --set. No space follows a completed key, because the value
// follows.
func completeSettings(*cobra.Command, []string, string) (out []string, _ cobra.ShellCompDirective) {
	for _, key := range query.SettingKeys() {
		out = append(out, key+"=")
	}
	return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

func (q *fitQuestion) run(cmd *cobra.Command, from *question) error {
	if q.nodes < 0 {
		return Usagef("--nodes %d: want 0 or more", q.nodes)
	}
	setting, err := query.ParseSetting(q.set)
	if err != nil {
		return Usagef("--set %w", err)
	}
	setting.Empty = setting.Empty || q.empty
	pods, err := readManifests(cmd, from.files, from.recursive)
	if err != nil {
		return err
	}
	c, err := q.cluster.connect()
	if err != nil {
		return err
	}
	options := query.FitOptions{Nodes: q.on, Limit: q.limit, Setting: setting, Templates: pods.Claims}
	if q.compare {
		return cmp.Or(compared(cmd, &from.output, c, pods.Templates, options, pods.Notes), pods.partly())
	}
	all, more, err := query.Fit(cmd.Context(), c, pods.Templates, options)
	if err != nil {
		return err
	}
	notes := slices.Concat(pods.Notes, more, setting.Notes())
	writeNotes(cmd, notes)
	none := slices.ContainsFunc(all, func(f query.Fitting) bool { return f.Placed == 0 && f.Replicas > 0 })
	asTable := func(w io.Writer) error { return q.table(w, all) }
	return cmp.Or(printCleaned(cmd, from.output, listing("pods", all, notes), asTable), answerNo(none, errNoCopy), pods.partly())
}

func (q *fitQuestion) table(w io.Writer, all []query.Fitting) error {
	for i := range all {
		if i > 0 {
			fmt.Fprintln(w)
		}
		if err := q.one(w, &all[i]); err != nil {
			return err
		}
	}
	return nil
}

// maxBerths is the maximum number of listed replicas, and of nodes that are listed with their
// number of copies.
const maxBerths = 20

func (q *fitQuestion) one(w io.Writer, f *query.Fitting) error {
	fmt.Fprintf(w, "pod %s: %s\n", f.Name, fitSum(f))
	for _, a := range f.Asks {
		fmt.Fprintf(w, "asks: %s\n", a)
	}
	if !f.Decided {
		fmt.Fprintln(w, "Berth makes no decision for this pod: the pod is not Guaranteed and asks for no devices, so no kubelet pins anything for it.")
	}
	if err := berthsTable(w, f); err != nil {
		return err
	}
	if err := copiesTable(w, f); err != nil {
		return err
	}
	fmt.Fprintf(w, "\n%s:\n", wire.Counted(len(f.Nodes), "node"))
	groupsText(w, f.Groups)
	answers := make([]query.Answer, len(f.Nodes))
	for i := range f.Nodes {
		answers[i] = f.Nodes[i].Answer
	}
	refusalsText(w, answers, q.nodes, "")
	if err := claimsText(w, f.Claims); err != nil {
		return err
	}
	if len(f.NotAsked) > 0 {
		fmt.Fprintf(w, "\nNot checked: %s.\n", strings.Join(f.NotAsked, "; "))
	}
	return nil
}

// fitSum describes how many replicas fit, as the second half of a sentence.
func fitSum(f *query.Fitting) string {
	tried := f.Replicas - f.Untried
	switch {
	case f.Replicas == 0:
		return "no replicas are wanted"
	case f.Placed == 0:
		return "no node takes it now"
	case f.Placed < tried:
		return fmt.Sprintf("%d of %d replicas find a place now", f.Placed, f.Replicas)
	case f.Untried > 0:
		return fmt.Sprintf("the first %d of %d replicas find a place now; the others were not tried", tried, f.Replicas)
	case f.Replicas > 1:
		return fmt.Sprintf("all %d replicas find a place now", f.Replicas)
	}
	return "finds a place now"
}

func berthsTable(w io.Writer, f *query.Fitting) error {
	var rows [][]string
	for i := range f.Berths[:min(len(f.Berths), maxBerths)] {
		rows = append(rows, berthRows(strconv.Itoa(i+1), &f.Berths[i])...)
	}
	if err := section(w, "", "COPY | NODE | NUMA | CONTAINER | CPUS | MEMORY | DEVICES", rows); err != nil {
		return err
	}
	if more := len(f.Berths) - maxBerths; more > 0 {
		fmt.Fprintf(w, "and %d more\n", more)
	}
	return nil
}

// berthRows returns a row for each container of a copy.
func berthRows(copied string, b *query.Berthed) (rows [][]string) {
	containers := b.Containers
	if len(containers) == 0 {
		containers = []survey.Container{{Name: "-"}}
	}
	for i := range containers {
		c := &containers[i]
		rows = append(rows, []string{copied, b.Node, dash(b.NUMANodes), c.Label(), cpusText(c), dash(c.MemoryText()), dash(c.DevicesText())})
	}
	return rows
}

// copiesTable prints the number of copies that each node admits, the best node first.
func copiesTable(w io.Writer, f *query.Fitting) error {
	var rows [][]string
	taking := 0
	for i := range f.Nodes {
		n := &f.Nodes[i]
		if n.Copies == 0 {
			continue
		}
		if taking++; taking <= maxBerths {
			rows = append(rows, []string{n.Node, strconv.Itoa(n.Copies), dash(countsText(n.ByNUMA)), cmp.Or(n.Next, "the limit was reached")})
		}
	}
	title := fmt.Sprintf("\nIn total, %s of it would fit, on %s:", copiesText(f.Copies), wire.Counted(taking, "node"))
	if err := section(w, title, "NODE | COPIES | BY NUMA NODES | THE NEXT IS NOT TAKEN BECAUSE", rows); err != nil {
		return err
	}
	if more := taking - len(rows); more > 0 {
		fmt.Fprintf(w, "and %s\n", wire.Counted(more, "more node"))
	}
	return nil
}

func copiesText(n int) string {
	if n == 1 {
		return "1 copy"
	}
	return fmt.Sprintf("%d copies", n)
}
