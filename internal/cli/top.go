package cli

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/internal/cli/table"
	"github.com/berth-dev/berth/internal/survey"
	"github.com/berth-dev/berth/internal/survey/query"
	"github.com/berth-dev/berth/internal/wire"
)

// The times and sizes of top.
const (
	// topEvery is the minimum time between two drawings. After topEvery, top waits at most
	// topAtLeast for an event, because ages change without events.
	topEvery   = time.Second
	topAtLeast = 5 * time.Second
	// topWaiting is the maximum number of waiting pods that are listed. topLines is the number of
	// lines if the output is not a terminal.
	topWaiting = 5
	topLines   = 40
)

// Terminal sequences. They switch to the alternate screen, on which long lines are cut, and back.
// They also move the cursor to the start of the screen, and clear the rest of a line or of the
// screen.
const (
	otherScreen = "\x1b[?1049h\x1b[?25l\x1b[?7l"
	firstScreen = "\x1b[?7h\x1b[?25h\x1b[?1049l"
	screenHome  = "\x1b[H"
	lineEnd     = "\x1b[K"
	screenEnd   = "\x1b[J"
)

// NewTopCommand returns the verb that shows a cluster while it changes.
func NewTopCommand() *cobra.Command {
	var live clusterFlags
	order, once := "trouble", false
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Follow a cluster on the terminal: what is free, which nodes are in trouble, which pods wait",
		Long: `Shows the sums of the cluster, as many nodes as the terminal has lines for, and the pods that have waited longest. It
updates them until Ctrl-C. If the output is not a terminal, or with --once, it prints them once.`,
		Example: `  kubectl berth top
  kubectl berth top --sort-by block
  kubectl berth top --once`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if topOrders[order] == nil {
				return Usagef("--sort-by %q: want %s", order, strings.Join(slices.Sorted(maps.Keys(topOrders)), ", "))
			}
			c, err := live.connect()
			if err != nil {
				return err
			}
			return (&top{cmd: cmd, live: c.NewLive(), order: topOrders[order], once: once}).run()
		},
	}
	cmd.Flags().StringVar(&order, "sort-by", order, "trouble (nodes in trouble first, then the fullest nodes), name, free, block or pods")
	_ = cmd.RegisterFlagCompletionFunc("sort-by", cobra.FixedCompletions(slices.Sorted(maps.Keys(topOrders)), cobra.ShellCompDirectiveNoFileComp))
	cmd.Flags().BoolVar(&once, "once", false, "show it once")
	live.register(cmd)
	return cmd
}

// topOrders are the values of --sort-by: the orders of the verb nodes, and trouble.
var topOrders = func() map[string]func(a, b *survey.Node) int {
	out := maps.Clone(nodeOrders)
	out["trouble"] = func(a, b *survey.Node) int {
		return cmp.Or(worse(a)-worse(b), cmp.Compare(freeCPUs(a), freeCPUs(b)))
	}
	return out
}()

// worse returns a sort key: 0 for a node in trouble, 1 for a node with warnings, and 2 for any
// other node.
func worse(n *survey.Node) int {
	switch {
	case n.Trouble != nil:
		return 0
	case len(n.Warnings) > 0:
		return 1
	}
	return 2
}

// errShown ends a run of top that draws only once.
var errShown = errors.New("shown")

type top struct {
	cmd   *cobra.Command
	live  *survey.Live
	order func(a, b *survey.Node) int
	once  bool
}

// run draws the cluster whenever it has changed.
func (t *top) run() error {
	out := t.cmd.OutOrStdout()
	_, _, onScreen := table.Size(out)
	single := t.once || !onScreen || !t.live.Moves()
	changed := make(chan struct{}, 1)
	group, ctx := errgroup.WithContext(t.cmd.Context())
	group.Go(func() error {
		return t.live.Run(ctx, func(_, _ []string) {
			select {
			case changed <- struct{}{}:
			default:
			}
		})
	})
	group.Go(func() error {
		select {
		case <-t.live.Ready():
		case <-ctx.Done():
			return nil
		}
		if single {
			writeNotes(t.cmd, t.live.Notes())
			var b bytes.Buffer
			if err := t.draw(&b, topLines); err != nil {
				return err
			}
			_, err := io.WriteString(out, table.Render(b.String(), table.Coloured(out)))
			return cmp.Or(err, errShown)
		}
		fmt.Fprint(out, otherScreen)
		defer fmt.Fprint(out, firstScreen)
		for {
			lines, _, _ := table.Size(out)
			if err := t.refresh(out, lines); err != nil {
				return err
			}
			select { // draw at most once per topEvery
			case <-time.After(topEvery):
			case <-ctx.Done():
				return nil
			}
			select {
			case <-changed:
			case <-time.After(topAtLeast):
			case <-ctx.Done():
				return nil
			}
		}
	})
	if err := group.Wait(); err != nil && !errors.Is(err, errShown) && t.cmd.Context().Err() == nil {
		return err
	}
	return nil
}

// refresh redraws the screen without a flicker.
func (t *top) refresh(out io.Writer, lines int) error {
	var b bytes.Buffer
	if err := t.draw(&b, lines-1); err != nil {
		return err
	}
	text := strings.TrimRight(b.String(), "\n")
	_, err := io.WriteString(out, screenHome+strings.ReplaceAll(table.Render(text, table.Coloured(out)), "\n", lineEnd+"\r\n")+lineEnd+screenEnd)
	return err
}

// draw writes the cluster in the given number of lines.
func (t *top) draw(b *bytes.Buffer, lines int) error {
	rows := t.live.Rows()
	nodes := make([]survey.Node, len(rows))
	for i := range rows {
		nodes[i] = rows[i].Node
	}
	slices.SortStableFunc(nodes, func(a, b survey.Node) int { return t.order(&a, &b) })
	waiting := topPods(t.live)
	gangs, err := t.live.GangsOf(t.cmd.Context(), waiting)
	if err != nil {
		return err
	}
	fmt.Fprintf(b, "%s\n%s\n\n", t.live.Where(), topSum(nodes, len(waiting)))
	if err := columns(b, "RESOURCE | FREE | TOTAL | MOST ON ONE NUMA NODE", topResources(nodes)); err != nil {
		return err
	}
	var tail bytes.Buffer
	if err := topWaits(&tail, waiting, gangs, t.live.Now()); err != nil {
		return err
	}
	left := max(3, lines-strings.Count(b.String(), "\n")-strings.Count(tail.String(), "\n")-3)
	var nodeLines [][]string
	for i := range nodes[:min(len(nodes), left)] {
		nodeLines = append(nodeLines, nodeRows(&nodes[i], false)...)
	}
	fmt.Fprintln(b)
	if err := columns(b, nodeHeader(false), nodeLines); err != nil {
		return err
	}
	if more := len(nodes) - len(nodeLines); more > 0 {
		fmt.Fprintf(b, "and %s\n", wire.Counted(more, "more node"))
	}
	b.Write(tail.Bytes())
	return nil
}

func topSum(nodes []survey.Node, waiting int) string {
	troubled, pods, inFlight := 0, 0, 0
	for i := range nodes {
		if n := &nodes[i]; n.Trouble != nil {
			troubled++
		}
		pods, inFlight = pods+nodes[i].Pods, inFlight+nodes[i].InFlight
	}
	return fmt.Sprintf("%s, %d in trouble; %s, %d on the way, %d waiting", wire.Counted(len(nodes), "node"), troubled, wire.Counted(pods, "pod"), inFlight, waiting)
}

// topResources adds up the resources of all nodes. Resources of nodes in trouble do not count as
// free.
func topResources(nodes []survey.Node) (rows [][]string) {
	type sum struct{ free, total, block uint64 }
	sums := map[string]sum{}
	for i := range nodes {
		for _, numa := range nodes[i].NUMANodes {
			for _, a := range numa.Amounts() {
				s := sums[a.Resource]
				s.total += a.Total
				if nodes[i].Trouble == nil {
					s.free, s.block = s.free+a.Free, max(s.block, a.Free)
				}
				sums[a.Resource] = s
			}
		}
	}
	for _, r := range slices.Sorted(maps.Keys(sums)) {
		s := sums[r]
		rows = append(rows, []string{r, survey.AmountText(r, s.free), survey.AmountText(r, s.total), survey.AmountText(r, s.block)})
	}
	return rows
}

// topPods returns the pods that wait, the oldest first.
func topPods(l *survey.Live) (out []*corev1.Pod) {
	for _, p := range l.Pods() {
		if p.Spec.NodeName == "" && !wire.Ended(p) {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b *corev1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name))
	})
	return out
}

// topWaits lists the first topWaiting waiting pods.
func topWaits(w io.Writer, pods []*corev1.Pod, gangs *survey.Gangs, now time.Time) error {
	var rows [][]string
	for _, p := range pods[:min(len(pods), topWaiting)] {
		_, why := query.WhyWaiting(p, gangs.Of(p))
		rows = append(rows, []string{p.Namespace + "/" + p.Name, survey.AgeText(survey.Seconds(now.Sub(p.CreationTimestamp.Time))), clipped(why)})
	}
	if err := section(w, "", "POD THAT WAITS | SINCE | BECAUSE", rows); err != nil {
		return err
	}
	if more := len(pods) - len(rows); more > 0 {
		fmt.Fprintf(w, "and %s more\n", strconv.Itoa(more))
	}
	return nil
}

// clipped shortens a text to one line.
func clipped(text string) string {
	const most = 120
	text = strings.Join(strings.Fields(text), " ")
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return text
}
