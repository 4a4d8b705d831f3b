package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/internal/cli/table"
	"github.com/berth-dev/berth/internal/gangs"
	"github.com/berth-dev/berth/internal/survey"
	"github.com/berth-dev/berth/internal/survey/query"
	"github.com/berth-dev/berth/internal/whatif"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// errNoNode is the error of explain if no node admits the pod. The output already has the reason.
var errNoNode = errors.New("no node takes the pod")

// The errors for other negative answers of explain.
var (
	errUnserved       = errors.New("no scheduler has looked at the pod")
	errHeldBack       = errors.New("something other than Berth holds the pod back")
	errGangForming    = errors.New("the pod's gang is incomplete: it has fewer pods than must start together")
	errKubeletRefused = errors.New("its kubelet refused the pod")
	errNoDevices      = errors.New("no node has the devices that the pod's claims ask for")
	errGangWrong      = errors.New("the gang's declaration cannot be used")
	errGangDoesNotFit = errors.New("too few pods of the gang have a node or would get one now")
)

// NewExplainCommand returns the verb that shows, for every NUMA node and resource, why a node
// admits or refuses a pod.
func NewExplainCommand() *cobra.Command {
	var q question
	var l podQuestion
	var podsOf string
	cmd := &cobra.Command{
		Use:   "explain POD | gang NAME | -f PODS [--node MACHINE|CAPTURE]",
		Short: "Show why pods and gangs are on their NUMA nodes, or why they cannot be placed",
		Long: `explain POD asks the cluster. If the pod has a node, the verb compares the scheduler's promise with the node's report
and shows what other nodes would answer now. If the pod is pending, it shows the answer of every node. For refusals it
lists for every NUMA node what the pod asks for and what is there. If the pod has ResourceClaims, it shows which
devices each claim has or could have, on which NUMA nodes; this needs list on resourceclaims, resourceslices and
deviceclasses. Exit code 1 means that no node admits the pod, its kubelet rejected it, no scheduler has looked at it,
no node has the devices that its claims ask for, or its gang is incomplete or declared wrongly.

explain gang NAME asks the cluster about pods that start together; podgroup NAME does the same for a gang that a
PodGroup declares. The verb plans the waiting members as the scheduler does. It shows where each would go now, how
many fit, and the answer of every node to the first that does not fit. It ignores volumes, and affinity between
pods. Exit code 1 means that too few fit, or that Berth cannot use the gang's declaration.

explain -f PODS asks no cluster. It admits the pods of a file one after another on one node, as its kubelet would. For
each refusal it prints the rule. For every resource and NUMA node it prints the request, the free amount, and the
amount on an empty node. Exit code 1 means that a pod was refused.`,
		Example: `  kubectl berth explain train-0 -n training
  kubectl berth explain train-0 -n training --node n7
  kubectl berth explain gang train -n training
  kubectl berth explain train-0 -n training --resize main:cpu=16
  berth explain -f pod.yaml --node capture.tgz --kubelet-config kubelet.yaml --state /var/lib/kubelet`,
		Args:              arguments(0, 2, "the name of a pod, gang NAME or podgroup NAME"),
		ValidArgsFunction: l.cluster.completeSubject,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(l.resize) > 0 && len(args) == 0:
				return Usagef("explain --resize %s: want the name of a pod that has a node", strings.Join(l.resize, ","))
			case len(args) > 0 && len(q.files) > 0:
				return Usagef("explain %s -f %s: want a pod of the cluster or a file, not both", strings.Join(args, " "), strings.Join(q.files, ","))
			case len(args) > 0:
				if used := changedOf(cmd, slices.Concat(offlineFlags, []string{podsOfFlag, "recursive"})); used != "" {
					return Usagef("explain %s --%s: want --%s only with -f, because a cluster's nodes describe themselves", strings.Join(args, " "), used, used)
				}
				if cmd.Flags().Changed("node") {
					l.only = q.node.machine
				}
				return l.about(cmd, args, q.output)
			case len(q.files) == 0:
				return Usagef("explain: want the name of a pod, gang NAME, podgroup NAME, or pods with -f, --filename")
			}
			if used := changedOf(cmd, append([]string{"nodes"}, ownFlags...)); used != "" {
				return Usagef("explain -f %s --%s: want --%s only with POD; berth fit -f asks a cluster about new pods", strings.Join(q.files, ","), used, used)
			}
			return q.ask(cmd, podsOf, explainText)
		},
	}
	q.register(cmd)
	_ = cmd.Flags().SetAnnotation("filename", cobra.BashCompOneRequiredFlag, []string{"false"})
	registerPodsOf(cmd, &podsOf)
	l.cluster.register(cmd)
	_ = cmd.RegisterFlagCompletionFunc("node", l.completeNode)
	cmd.Flags().IntVar(&l.limit, "nodes", defaultExplained, "with POD: how many refusing nodes are explained in full")
	cmd.Flags().StringSliceVar(&l.resize, "resize", nil, "with POD: show the result of a resize in place: [CONTAINER:]cpu=AMOUNT or memory=AMOUNT; may be repeated")
	node := cmd.Flags().Lookup(nodeFlag)
	node.Usage = "with POD: explain the answer of this node only; with -f: " + node.Usage
	delete(node.Annotations, headingKey)
	return cmd
}

// defaultExplained is the default number of refusing nodes that are explained in full.
const defaultExplained = 3

func explainText(w io.Writer, answers []whatif.Placed) error {
	for i := range answers {
		a := &answers[i]
		if i > 0 {
			fmt.Fprintln(w)
		}
		if !a.Admitted {
			fmt.Fprintf(w, "pod %s: refused\n%s", a.Name, a.Refusal.Table())
			if a.Refusal.Refusal.Reason != placement.Admitted {
				fmt.Fprintf(w, "why: %s\n", a.Refusal)
			}
			if do := a.Refusal.Advice; do != "" {
				fmt.Fprintf(w, "do: %s\n", do)
			}
			fmt.Fprintln(w)
			continue
		}
		on := ""
		if a.NUMANodes != "" {
			on = " on NUMA nodes " + a.NUMANodes
		}
		fmt.Fprintf(w, "pod %s: admitted%s\n", a.Name, on)
		if err := placeTable(w, answers[i:i+1]); err != nil {
			return err
		}
		for _, text := range a.Shares {
			fmt.Fprintf(w, "shares: %s\n", text)
		}
	}
	return nil
}

// podQuestion has the flags of explain for a pod of a cluster.
type podQuestion struct {
	cluster clusterFlags
	// limit is the maximum number of nodes that are explained in full. The field only is the only
	// node to ask, or "".
	limit int
	only  string
	// resize are the new amounts of an in-place resize.
	resize []string
}

// about explains the object that the arguments name: a pod or a gang.
func (q *podQuestion) about(cmd *cobra.Command, args []string, o output) error {
	s, err := subjectOf("explain", args)
	switch {
	case err != nil:
		return err
	case s.gang && len(q.resize) > 0:
		return Usagef("explain gang %s --resize: want the name of a pod", s.name)
	case s.gang:
		return q.explainGang(cmd, s, o)
	}
	if len(q.resize) > 0 {
		return q.resized(cmd, s.name, o)
	}
	return q.run(cmd, s.name, o)
}

// prepare checks the flags, and connects to the cluster.
func (q *podQuestion) prepare() (*survey.Cluster, error) {
	if q.limit < 0 {
		return nil, Usagef("--nodes %d: want 0 or more", q.limit)
	}
	return q.cluster.connect()
}

func (q *podQuestion) run(cmd *cobra.Command, name string, o output) error {
	c, err := q.prepare()
	if err != nil {
		return err
	}
	e, err := query.Explain(cmd.Context(), c, c.Namespace, name, q.only)
	if err != nil {
		return err
	}
	writeNotes(cmd, e.Notes)
	asText := func(w io.Writer) error { return explainedText(w, e, q.tables(cmd, e)) }
	return cmp.Or(printCleaned(cmd, o, e, asText), whyNot(e))
}

// completeNode completes --node. If the command line has an argument, the command asks a cluster,
// so completeNode suggests nodes of the cluster. Otherwise it suggests files.
func (q *podQuestion) completeNode(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	return q.cluster.completeNodes(cmd, args, typed)
}

// tables returns the number of nodes that are explained in full. For a pod that has a node whose
// kubelet did not refuse it, tables returns 0, unless the user sets --nodes or --node.
func (q *podQuestion) tables(cmd *cobra.Command, e *query.Explained) int {
	if e.Node != "" && !e.Refused && q.only == "" && !cmd.Flags().Changed("nodes") {
		return 0
	}
	return q.limit
}

// whyNot returns the error for a negative answer, and nil for a positive answer.
func whyNot(e *query.Explained) error {
	admits := slices.ContainsFunc(e.Nodes, func(a query.Answer) bool { return a.Answer == query.Admits })
	switch {
	case e.Refused:
		return errKubeletRefused
	case e.Node == "" && e.MemberOf.HoldsBack() && e.MemberOf.State == gangs.Forming:
		return errGangForming
	case e.Node == "" && e.MemberOf.HoldsBack():
		return errGangWrong
	case e.Node == "" && e.Decided && !admits:
		return errNoNode
	case e.HeldBack != nil:
		return errHeldBack
	case e.Node == "" && e.NoDevices():
		return errNoDevices
	case e.Unserved != nil:
		return errUnserved
	}
	return nil
}

// maxNamed is the maximum number of nodes of a group that the output names.
const maxNamed = 6

// explainedText prints an explanation for users. The argument limit is the number of nodes that are
// explained in full.
func explainedText(w io.Writer, e *query.Explained, limit int) error {
	fmt.Fprintf(w, "pod %s/%s: %s\n", e.Namespace, e.Name, whereIs(e))
	fmt.Fprintf(w, "scheduler: %s\n", e.Scheduler)
	if h := e.HeldBack; h != nil {
		fmt.Fprintf(w, "held back by %s: %s\n", h.By, h.Message)
		if h.Advice != "" {
			indented(w, "do: "+h.Advice)
		}
	}
	if e.Message != "" {
		fmt.Fprintf(w, "message: %s\n", e.Message)
	}
	if t := e.Unserved; t != nil {
		fmt.Fprintf(w, "%s\n", t.Message)
		indented(w, "do: "+t.Advice)
	}
	if e.Gang != "" {
		fmt.Fprintf(w, "member of: %s%s (see explain gang %s)\n", e.Gang, gangHalf(e.MemberOf), e.GangName)
	} else if e.MemberOf != nil {
		fmt.Fprintf(w, "member of: a gang%s\n", gangHalf(e.MemberOf))
	}
	for i := range e.Reservations {
		fmt.Fprintln(w, reservationText(&e.Reservations[i]))
	}
	for _, a := range e.Asks {
		fmt.Fprintf(w, "asks: %s\n", a)
	}
	for _, f := range e.Fractions {
		fmt.Fprintf(w, "shares: %s\n", f)
	}
	if e.Resize != "" {
		fmt.Fprintf(w, "resize: %s\n", e.Resize)
	}
	for _, text := range e.Ignored {
		fmt.Fprintf(w, "no effect: %s\n", text)
	}
	if !e.Decided {
		fmt.Fprintf(w, "Berth makes no decision for this pod: the pod is not Guaranteed%s and asks for no devices, so no kubelet pins anything for it.\n", because(e.NotGuaranteed))
	}
	if e.Node != "" {
		if err := boundText(w, e); err != nil {
			return err
		}
	}
	answersText(w, e, limit)
	return claimsText(w, e.Claims)
}

// because returns the reason in brackets, or "" if there is none.
func because(why string) string {
	if why == "" {
		return ""
	}
	return " (" + why + ")"
}

// gangHalf returns the state of a gang and the reason, as the second half of a sentence. It returns
// "" if the gang is unknown.
func gangHalf(g *survey.Gang) string {
	if g == nil {
		return ""
	}
	text := ", " + gangStyles[g.State].Mark(string(g.State))
	if g.HoldsBack() { // otherwise the pod's own message has the reason
		text += ": " + g.Why
	}
	return text
}

// reservationText describes in one line whether the pod uses a Reservation, or could use it.
func reservationText(r *query.Owned) string {
	switch {
	case r.Has:
		return "uses: Reservation " + r.Name
	case r.Takes:
		return "owns: Reservation " + r.Name + ", which holds a place for the pod on node " + r.Node
	case r.Node != "":
		return "owns: Reservation " + r.Name + " on node " + r.Node + ", but the pod cannot use its place there: " + r.Message
	}
	return "owns: Reservation " + r.Name + ": " + r.Message
}

// whereIs describes the pod's state and node, as the second half of a sentence.
func whereIs(e *query.Explained) string {
	if e.Node == "" {
		return strings.ToLower(e.Phase) + ", on no node"
	}
	if e.Refused {
		return "refused by the kubelet of node " + e.Node
	}
	return strings.ToLower(e.Phase) + " on node " + e.Node
}

func boundText(w io.Writer, e *query.Explained) error {
	var rows [][]string
	switch p := e.Promise; {
	case p != nil && !p.Pins():
		fmt.Fprintf(w, "promised: admission only, without exclusive CPUs, memory or devices (Binding %d to this node)\n", p.Sequence)
	case p != nil:
		fmt.Fprintf(w, "promised: %s, certainty %s, guarantee %s, Binding %d to this node, based on report %d\n", numaText(p.NUMANodes), p.Certainty, p.Guarantee, p.Sequence, p.Report)
		rows = append(rows, containerRows("promise", p.Containers)...)
	case e.PromiseError != "":
		fmt.Fprintf(w, "promised: ignored, because the placement is invalid: %s\n", e.PromiseError)
	case e.Decided:
		fmt.Fprintln(w, "promised: nothing, because the pod has no placement (another scheduler or a user bound the pod, the pod is static, or its node is one of nodesWithoutAgents)")
	}
	if h := e.Holds; h != nil {
		fmt.Fprintf(w, "reported: %s, report %d, %s ago", heldText(h), h.Report, survey.AgeText(h.AgeSeconds))
		if h.Alignment != "" {
			fmt.Fprint(w, ", "+numaText(h.NUMANodes)+because(alignmentWords[h.Alignment]))
		}
		fmt.Fprintln(w)
		rows = append(rows, containerRows("report", h.Containers)...)
	}
	if e.Outcome != "" {
		fmt.Fprintf(w, "promise: %s\n", promiseStyles[e.Outcome].Mark(e.Outcome))
	}
	if e.Trouble != nil {
		fmt.Fprintf(w, "node %s: %s\n", e.Node, e.Trouble.Message)
		if e.Trouble.Advice != "" {
			indented(w, "do: "+e.Trouble.Advice)
		}
	}
	return section(w, "", "CONTAINER | SOURCE | NUMA | CPUS | MEMORY | DEVICES", rows)
}

// alignmentWords describes pods on several NUMA nodes.
var alignmentWords = map[topology.Spread]string{
	topology.WithinPackage: "one package", topology.WithinMachine: "across packages",
}

// heldText describes the pod's entry in its node's report.
func heldText(h *survey.Holding) string {
	switch h.State {
	case survey.StateAbsent:
		return "not in the report (the pod has not arrived, or no longer holds resources)"
	case survey.StateEnded:
		return "ended, but the kubelet still holds its resources"
	case survey.StateRefused:
		return "refused by the kubelet"
	case "unknown":
		return "held by the kubelet for a pod that its agent does not know"
	}
	return h.State
}

func containerRows(what string, containers []survey.Container) [][]string {
	var rows [][]string
	for i := range containers {
		c := &containers[i]
		rows = append(rows, []string{c.Label(), what, dash(c.NUMANodes), cpusText(c), dash(c.MemoryText()), dash(c.DevicesText())})
	}
	return rows
}

// answersText prints the answers of nodes. The argument limit is the number of nodes that are
// explained in full.
func answersText(w io.Writer, e *query.Explained, limit int) {
	if len(e.Groups) > 0 {
		fmt.Fprintf(w, "\n%s:\n", whoAnswers(e))
	}
	others := 0
	var groups []query.Group
	for _, g := range e.Groups {
		if e.Node == "" || len(e.Nodes) == 1 || g.Answer != query.Unreliable && g.Answer != query.Excluded {
			groups = append(groups, g)
		} else {
			others += len(g.Nodes)
		}
	}
	groupsText(w, groups)
	if others > 0 {
		indented(w, wire.Counted(others, "node")+" excluded or not relied on")
	}
	if len(e.Fewer) > 0 {
		indented(w, fmt.Sprintf("nodes where the pod would use fewer NUMA nodes than now: %s", someNames(e.Fewer)))
	}
	for i := range e.Alternatives {
		a := &e.Alternatives[i]
		indented(w, "would fit now: "+a.Text+": "+someNames(a.Nodes))
	}
	choicesText(w, e)
	var given [][]string
	for i := range e.Nodes {
		given = append(given, givenRows(e.Nodes[i].Node, e.Nodes[i].Given)...)
	}
	_ = givenTable(w, given)
	refusalsText(w, e.Nodes, limit, "; --node NAME explains one")
}

// maxChoices is the maximum number of nodes that are listed with their ranks.
const maxChoices = 5

// choicesText lists the nodes that admit the pod with the values by which the scheduler ranks them,
// the best node first.
func choicesText(w io.Writer, e *query.Explained) {
	var rows [][]string
	for i := range e.Nodes {
		if a := &e.Nodes[i]; a.Choice != nil && a.Answer == query.Admits && len(rows) < maxChoices {
			rows = append(rows, []string{a.Node, dash(a.NUMANodes), strconv.Itoa(a.Choice.Devices), strconv.Itoa(a.Choice.Stranded), fmt.Sprintf("%d%%", a.Choice.Demand), a.Choice.Policy, strconv.Itoa(a.Choice.Score)})
		}
	}
	if len(rows) < 2 {
		return
	}
	fmt.Fprintf(w, "\nWith the default scoring (%s), the scheduler ranks these nodes as follows. Between nodes of equal rank, other plugins decide:\n", query.DefaultScoring())
	_ = columns(w, "NODE | NUMA | DEVICES LEFT | STRANDED | DEMAND | POLICY | SCORE", rows)
}

// whoAnswers returns the heading above the answers.
func whoAnswers(e *query.Explained) string {
	switch {
	case e.Node == "" && e.HeldBack != nil:
		return wire.Counted(len(e.Nodes), "node") + ", asked as if nothing else held the pod back"
	case e.Node == "" && e.MemberOf != nil:
		return wire.Counted(len(e.Nodes), "node") + ", asked about this pod without its gang"
	case e.Node == "":
		return wire.Counted(len(e.Nodes), "node")
	case e.Refused:
		return "asked again now"
	}
	return "now, " + wire.Counted(len(e.Nodes), "other node")
}

// someNames returns the first names of a list, and "..." if there are more.
func someNames(names []string) string {
	text := strings.Join(names[:min(len(names), maxNamed)], ", ")
	if len(names) > maxNamed {
		text += ", ..."
	}
	return text
}

// refusalsText explains at most limit refusing nodes. If there are more, it mentions the flag
// --nodes, and appends the argument others, which names another way to see them. If limit is 0, it
// prints nothing.
func refusalsText(w io.Writer, answers []query.Answer, limit int, others string) {
	refusals := refusalsOf(answers)
	for _, a := range refusals[:min(len(refusals), limit)] {
		answerText(w, a)
	}
	if more := len(refusals) - limit; more > 0 && limit > 0 {
		fmt.Fprintf(w, "\nNot shown: %s. --nodes N explains up to N refusing nodes%s.\n", wire.Counted(more, "refusing node"), others)
	}
}

// refusalsOf returns the refusing nodes: first one node for each different message, then the
// others.
func refusalsOf(answers []query.Answer) []*query.Answer {
	var first, others []*query.Answer
	seen := map[string]bool{}
	for i := range answers {
		switch a := &answers[i]; {
		case a.Refusal == nil:
		case seen[a.Message]:
			others = append(others, a)
		default:
			seen[a.Message] = true
			first = append(first, a)
		}
	}
	return append(first, others...)
}

// groupsText prints answers and advice by group. If consecutive groups have the same advice, it
// prints the advice once, below the last of these groups.
func groupsText(w io.Writer, groups []query.Group) {
	for i := range groups {
		g := &groups[i]
		indented(w, fmt.Sprintf("%s %s: %s\n  (%s)", wire.Counted(len(g.Nodes), "node"), answerStyles[g.Answer].Mark(groupVerb(g)), g.Message, someNames(g.Labels)))
		if g.Advice != "" && (i+1 == len(groups) || groups[i+1].Advice != g.Advice) {
			indented(w, "  do: "+g.Advice)
		}
	}
}

var answerStyles = map[string]table.Style{query.Admits: table.Good, query.Waits: table.Doubtful, query.Refuses: table.Bad, query.Unreliable: table.Doubtful, query.Excluded: table.Aside}

// groupVerb returns the verb that describes the answer of a group.
func groupVerb(g *query.Group) string {
	if len(g.Nodes) == 1 {
		return map[string]string{query.Admits: "admits", query.Waits: "waits", query.Refuses: "refuses", query.Unreliable: "is not relied on", query.Excluded: "is excluded"}[g.Answer]
	}
	return map[string]string{query.Admits: "admit", query.Waits: "wait", query.Refuses: "refuse", query.Unreliable: "are not relied on", query.Excluded: "are excluded"}[g.Answer]
}

func answerText(w io.Writer, a *query.Answer) {
	fmt.Fprintf(w, "\nnode %s (report %d", a.Node, a.Report)
	if a.InFlight > 0 {
		fmt.Fprintf(w, ", and %s bound since", wire.Counted(a.InFlight, "pod"))
	}
	if a.Mates > 0 {
		fmt.Fprintf(w, ", with %s of the gang", wire.Counted(a.Mates, "pod"))
	}
	fmt.Fprintln(w, "):")
	indented(w, a.Refusal.Table())
}
