package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/internal/cli/table"
	"github.com/berth-dev/berth/internal/gangs"
	"github.com/berth-dev/berth/internal/survey"
	"github.com/berth-dev/berth/internal/survey/query"
)

// NewGangsCommand returns the verb that lists the gangs of a cluster.
func NewGangsCommand() *cobra.Command {
	var cluster clusterFlags
	var o output
	var everywhere bool
	cmd := &cobra.Command{
		Use:   "gangs",
		Short: "Show which pods start together, how far they are, and why they wait",
		Long: `Shows for each gang what declares it, its state, how many of its pods have nodes, how many start together, how long
its oldest pod has waited, and why. The states are:

  forming    fewer pods exist than start together
  wrong      Berth cannot use the gang's declaration
  waiting    no pod has a node
  partial    fewer pods have nodes than start together
  whole      enough pods have nodes
  reduced    it was whole, and fewer pods have nodes now
  completed  its pods have ended

explain gang NAME shows more about one gang.`,
		Example: "  kubectl berth gangs -A\n  kubectl berth gangs -n training -o json",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := cluster.connect()
			if err != nil {
				return err
			}
			if everywhere {
				c.Namespace = metav1.NamespaceAll
			}
			gangs, err := c.Gangs(cmd.Context())
			if err != nil {
				return err
			}
			writeNotes(cmd, gangs.Notes)
			return printCleaned(cmd, o, listing("gangs", gangs.Gangs, gangs.Notes), func(w io.Writer) error {
				return gangsText(w, o, gangs.Gangs)
			})
		},
	}
	cmd.Flags().BoolVarP(&everywhere, "all-namespaces", "A", false, "the gangs of all namespaces")
	cluster.register(cmd)
	o.register(cmd, formatWide, formatName)
	o.registerNoHeaders(cmd)
	return cmd
}

const gangColumns = "NAMESPACE | GANG | SOURCE | GANG STATE | BOUND | WAITING | WHY"

// maxWhy is the maximum length of a reason in a row on a terminal, in runes. -o wide prints the
// whole reason.
const maxWhy = 100

func gangsText(w io.Writer, o output, all []survey.Gang) error {
	if o.is(formatName) {
		return printNames(w, "gang", len(all), func(i int) string { return all[i].Name })
	}
	if len(all) == 0 && !o.noHeaders {
		_, err := fmt.Fprintln(w, "No gangs.")
		return err
	}
	_, _, terminal := table.Size(w)
	var rows [][]string
	for i := range all {
		g := &all[i]
		row := []string{g.Namespace, g.Name, sourceText(g.Source), string(g.State), boundOf(g), dash(waitingText(g)), dash(g.Why)}
		if why := []rune(g.Why); len(why) > maxWhy && terminal && !o.is(formatWide) {
			row[len(row)-1] = string(why[:maxWhy]) + "..."
		}
		rows = append(rows, row)
	}
	return o.rows(w, gangColumns, rows)
}

func sourceText(source string) string {
	if source == "gang" {
		return "annotations"
	}
	return strings.ToLower(source)
}

// boundOf returns "BOUND/MINIMUM". BOUND counts the pods that have nodes or have succeeded.
func boundOf(g *survey.Gang) string {
	minimum := "?"
	if g.Minimum > 0 {
		minimum = strconv.Itoa(g.Minimum)
	}
	return strconv.Itoa(g.Bound+g.Succeeded) + "/" + minimum
}

func waitingText(g *survey.Gang) string {
	if g.WaitingSeconds == 0 {
		return ""
	}
	return survey.AgeText(g.WaitingSeconds)
}

var gangStyles = map[gangs.Stage]table.Style{gangs.Whole: table.Good, gangs.Completed: table.Aside, gangs.Wrong: table.Bad,
	gangs.Partial: table.Bad, gangs.Forming: table.Doubtful, gangs.Waiting: table.Doubtful, gangs.Reduced: table.Doubtful}

// gangWords returns gangStyles with the names of the states as keys.
func gangWords() map[string]table.Style {
	out := map[string]table.Style{}
	for state, style := range gangStyles {
		out[string(state)] = style
	}
	return out
}

// gangKinds maps the words before a gang's name in arguments to the beginning of the gang's source.
var gangKinds = map[string]string{
	"gang": "", "gangs": "", "podgroup": "podgroup", "podgroups": "podgroup", "pg": "podgroup",
	"podgroup.scheduling.volcano.sh": "podgroup.scheduling.volcano.sh", "podgroups.scheduling.volcano.sh": "podgroup.scheduling.volcano.sh",
	"podgroup.scheduling.x-k8s.io": "podgroup.scheduling.x-k8s.io", "podgroups.scheduling.x-k8s.io": "podgroup.scheduling.x-k8s.io",
	"podgroup.scheduling.sigs.k8s.io": "podgroup.scheduling.sigs.k8s.io", "podgroups.scheduling.sigs.k8s.io": "podgroup.scheduling.sigs.k8s.io",
}

// subject is the object that a command is about.
type subject struct {
	// gang means that the argument names a gang. The field source is the beginning of the gang's
	// source (a value of gangKinds), or "" for a gang of any source.
	gang   bool
	source string
	name   string
}

// subjectOf reads arguments in kubectl's forms: NAME, KIND NAME, KIND/NAME.
func subjectOf(verb string, args []string) (subject, error) {
	kind, name := "pod", args[0]
	switch before, after, found := strings.Cut(args[0], "/"); {
	case len(args) == 2:
		kind, name = args[0], args[1]
	case found:
		kind, name = before, after
	}
	kind = strings.ToLower(kind)
	if slices.Contains([]string{"pod", "pods", "po"}, kind) {
		return subject{name: name}, nil
	}
	source, ok := gangKinds[kind]
	if !ok {
		return subject{}, Usagef("%s %s: %q is not a kind that this verb knows: want pod, gang or podgroup", verb, strings.Join(args, " "), kind)
	}
	return subject{gang: true, source: source, name: name}, nil
}

func (q *podQuestion) explainGang(cmd *cobra.Command, s subject, o output) error {
	c, err := q.prepare()
	if err != nil {
		return err
	}
	if q.only != "" {
		return Usagef("explain gang %s --node %s: leave out --node, because a gang is explained for all nodes together", s.name, q.only)
	}
	g, notes, err := c.GangNamed(cmd.Context(), s.source, s.name)
	if err != nil {
		return err
	}
	e, err := query.ExplainGang(cmd.Context(), c, g, notes)
	if err != nil {
		return err
	}
	writeNotes(cmd, e.Notes)
	asText := func(w io.Writer) error { return explainedGangText(w, e, q.limit) }
	return cmp.Or(printCleaned(cmd, o, e, asText), answerNo(e.State == gangs.Wrong, errGangWrong),
		answerNo(!e.Whole && e.State != gangs.Completed, errGangDoesNotFit))
}

// explainedGangText prints an explanation for users. The argument limit is the number of nodes that
// are explained in full.
func explainedGangText(w io.Writer, e *query.ExplainedGang, limit int) error {
	fmt.Fprintf(w, "gang %s/%s: %s\n", e.Namespace, e.Name, gangStyles[e.State].Mark(string(e.State)))
	fmt.Fprintf(w, "declared by: %s%s\n", sourceText(e.Source), afterComma("phase ", e.Phase))
	fmt.Fprintf(w, "bound: %s%s\n", boundOf(&e.Gang), tasksText(e.Tasks))
	if e.Scheduler != "" {
		fmt.Fprintf(w, "scheduler: %s\n", e.Scheduler)
	}
	if e.WaitingSeconds > 0 {
		fmt.Fprintf(w, "waiting: for %s\n", waitingText(&e.Gang))
	}
	if e.Why != "" {
		fmt.Fprintf(w, "message: %s\n", e.Why)
	}
	if e.Verdict != "" {
		fmt.Fprintf(w, "asked now: %s\n", e.Verdict)
	}
	if err := gangPodsText(w, e); err != nil || e.Lacking == nil {
		return err
	}
	fmt.Fprintf(w, "\npod %s gets no node if the other pods of the gang get their planned places:\n", e.Lacking.Pod)
	groupsText(w, e.Lacking.Groups)
	refusalsText(w, e.Lacking.Nodes, limit, "")
	return nil
}

func afterComma(what, value string) string {
	if value == "" {
		return ""
	}
	return ", " + what + value
}

// tasksText returns the minimum number of pods of each task.
func tasksText(tasks map[string]int) string {
	var parts []string
	for task, least := range tasks {
		parts = append(parts, fmt.Sprintf("%s %d", task, least))
	}
	slices.Sort(parts)
	return afterComma("of tasks ", strings.Join(parts, ", "))
}

func gangPodsText(w io.Writer, e *query.ExplainedGang) error {
	var rows [][]string
	for _, p := range e.Pods {
		rows = append(rows, []string{p.Name, dash(p.Task), p.State, dash(p.Node), dash(p.NUMANodes), dash(p.Certainty)})
	}
	return section(w, "", "POD | TASK | STATE | NODE | NUMA | CERTAINTY", rows)
}
