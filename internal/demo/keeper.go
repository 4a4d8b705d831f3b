package demo

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/berth-dev/berth/internal/child"
	"github.com/berth-dev/berth/internal/hollow"
)

// Keeper supervises the processes of a playground. It restarts processes that die, and breaks and
// repairs parts on request. During Run, no other code may start or stop parts of the cluster.
type Keeper struct {
	cluster *Cluster
	out     io.Writer
	parts   []*part
	api     bool // the API server is broken
	line    net.Listener

	died chan death
	due  chan *part
	asks chan order
	over chan struct{}
}

type death struct {
	part    *part
	process *child.Process
}

type order struct {
	words []string
	reply chan answer
}

type answer struct {
	text string
	err  error
}

// NewKeeper returns a Keeper for the cluster. When a process dies, the Keeper prints a sentence to
// out.
func NewKeeper(c *Cluster, out io.Writer) (*Keeper, error) {
	k := &Keeper{cluster: c, out: out, died: make(chan death), due: make(chan *part), asks: make(chan order), over: make(chan struct{})}
	k.parts = append(k.parts, c.schedulers...)
	for _, p := range c.Nodes {
		if a := c.agents[p.Name]; a.part != nil {
			k.parts = append(k.parts, a.part)
		}
	}
	for _, p := range c.Nodes {
		node, err := c.nodePart(p)
		if err != nil {
			return nil, err
		}
		k.parts = append(k.parts, node)
	}
	var err error
	k.line, err = net.Listen("unix", filepath.Join(c.dir, "playground.sock"))
	return k, err
}

func (c *Cluster) nodePart(p *hollow.Process) (*part, error) {
	spec, err := p.Dir.ReadSpec()
	if err != nil {
		return nil, err
	}
	made := &part{name: nodePart + " " + p.Name, start: func() (*child.Process, error) {
		again, err := c.launch(spec)
		if err != nil {
			return nil, err
		}
		return again.Process, nil
	}}
	made.is(p.Process)
	return made, nil
}

// Run supervises the cluster until ctx ends. The caller must then stop the cluster.
func (k *Keeper) Run(ctx context.Context) error {
	served := make(chan error, 1)
	go func() { served <- k.serve() }()
	for _, p := range k.parts {
		k.watch(p)
	}
	for {
		select {
		case <-ctx.Done():
			return errors.Join(k.leave(), <-served)
		case d := <-k.died:
			if d.process == d.part.process && !d.part.broken {
				k.again(d.part, k.obituary(d.part))
			}
		case p := <-k.due:
			k.start(p)
		case o := <-k.asks:
			text, err := k.obey(ctx, o.words)
			o.reply <- answer{text, err}
		}
	}
}

// leave ends the supervision, so that the caller can stop the cluster.
func (k *Keeper) leave() error {
	close(k.over)
	err := k.line.Close()
	for i, p := range k.cluster.Nodes {
		if node, _ := k.part(nodePart + " " + p.Name); node != nil {
			k.cluster.Nodes[i] = &hollow.Process{Process: node.process, Dir: p.Dir}
		}
	}
	if !k.api {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), mendLimit)
	defer cancel()
	return errors.Join(err, k.cluster.ControlPlane.Mend(ctx))
}

// mendLimit is the time within which the API server must listen on its port again.
const mendLimit = 10 * time.Second

// watch returns at once. When the part's process ends, Run gets a death from k.died.
func (k *Keeper) watch(p *part) {
	process := p.process
	go func() {
		select {
		case <-process.Done():
		case <-k.over:
			return
		}
		select {
		case k.died <- death{p, process}:
		case <-k.over:
		}
	}()
}

// The Keeper restarts a dead process after firstPause. If the process dies again in less than the
// time steady, the pause doubles, up to lastPause.
const (
	firstPause = time.Second
	lastPause  = 30 * time.Second
	steady     = time.Minute
)

// pause counts a death of the part and returns how long the Keeper waits before it restarts the
// part.
func (p *part) pause(now time.Time) time.Duration {
	if now.Sub(p.begun) >= steady {
		p.deaths = 0
	}
	wait := min(firstPause<<min(p.deaths, 10), lastPause)
	p.deaths++
	return wait
}

// obituary describes in a few words how a part's process ended.
func (k *Keeper) obituary(p *part) string {
	_ = p.process.Ended() // marks the end as reported, so that Stop does not report it again
	how := fmt.Sprintf("%s (process %d) ended: %s", p.name, p.process.PID(), p.process.How())
	if p.says("Leaderelection lost") {
		return how + ", as it lost its lease"
	}
	if why := lastWords(p.process); why != "" && strings.HasPrefix(p.process.How(), "exit") {
		return how + ": " + why
	}
	return how
}

// The method again prints why a part ended or did not start, and schedules its restart.
func (k *Keeper) again(p *part, why string) {
	wait := p.pause(time.Now())
	fmt.Fprintf(k.out, "%s; the playground starts it again in %.0f s.\n", why, wait.Seconds())
	time.AfterFunc(wait, func() {
		select {
		case k.due <- p:
		case <-k.over:
		}
	})
}

func (k *Keeper) start(p *part) {
	if p.broken || p.runs() {
		return
	}
	if err := p.up(); err != nil {
		p.begun = time.Now()
		k.again(p, fmt.Sprintf("%s does not start: %v", p.name, err))
		return
	}
	k.watch(p)
}

// obey carries out a request and returns a text about the result.
func (k *Keeper) obey(ctx context.Context, words []string) (string, error) {
	if len(words) == 0 {
		return "", errors.New("want break, mend or parts")
	}
	verb, names := words[0], words[1:]
	switch {
	case verb == "parts" || verb == "break" && len(names) == 0:
		return k.table(), nil
	case verb == "mend" && len(names) == 0:
		return k.mendAll(ctx)
	case verb != "break" && verb != "mend":
		return "", fmt.Errorf("%q: want break, mend or parts", verb)
	}
	if strings.Join(names, " ") == apiPart {
		return k.obeyAPI(ctx, verb)
	}
	parts, err := k.named(names)
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", verb, strings.Join(names, " "), err)
	}
	if verb == "break" {
		return k.breakOne(parts)
	}
	return k.mend(parts)
}

// named returns the parts with the given name: all schedulers, a node with its agent, or one part.
func (k *Keeper) named(words []string) ([]*part, error) {
	kind := words[0]
	switch {
	case kind == schedulerPart && len(words) == 1:
		return k.cluster.schedulers, nil
	case kind != agentPart && kind != nodePart || len(words) != 2:
		return nil, errors.New("want scheduler, agent NODE, node NODE or api")
	}
	found, others := k.part(strings.Join(words, " "))
	if found == nil && len(others) == 0 {
		return nil, errors.New("a playground with --stock has no agents: want a playground without --stock")
	}
	if found == nil {
		return nil, fmt.Errorf("there is no such node: want one of %s", strings.Join(others, ", "))
	}
	parts := []*part{found}
	if kind == nodePart {
		if a, _ := k.part(agentPart + " " + words[1]); a != nil {
			parts = append(parts, a)
		}
	}
	return parts, nil
}

// part returns the part with the name, or nil. The result nodes has the names of all nodes that
// have a part of the same kind.
func (k *Keeper) part(name string) (found *part, nodes []string) {
	kind, _, _ := strings.Cut(name, " ")
	for _, p := range k.parts {
		if p.name == name {
			found = p
		}
		if node, ok := strings.CutPrefix(p.name, kind+" "); ok {
			nodes = append(nodes, node)
		}
	}
	return found, nodes
}

// breakOne kills the parts that a name stands for, such as a node's kubelet and agent. Of several
// schedulers, it kills only the leader, or the first one if none leads.
func (k *Keeper) breakOne(parts []*part) (string, error) {
	whole := slices.DeleteFunc(slices.Clone(parts), func(p *part) bool { return p.broken })
	if len(whole) == 0 || parts[0].broken && parts[0].name != schedulerPart {
		return "", fmt.Errorf("%s is already broken (to mend it: berth-demo mend %s)", parts[0].name, parts[0].name)
	}
	if parts[0].name == schedulerPart {
		i := slices.IndexFunc(whole, (*part).leads)
		whole = whole[max(i, 0):][:1]
	}
	var killed []string
	for _, p := range whole {
		p.broken = true
		p.process.Kill()
		_ = p.process.Ended() // marks the end as reported, so that Stop does not report it again
		killed = append(killed, fmt.Sprintf("%s (process %d)", p.name, p.process.PID()))
	}
	them := "it"
	if len(killed) > 1 {
		them = "them"
	}
	return fmt.Sprintf("Killed: %s. To start %s again: berth-demo mend %s\n", strings.Join(killed, " and "), them, parts[0].name), nil
}

func (k *Keeper) mend(parts []*part) (string, error) {
	var started []string
	for _, p := range parts {
		if !p.broken {
			continue
		}
		p.broken, p.deaths = false, 0
		k.start(p)
		started = append(started, p.name)
	}
	if len(started) == 0 {
		return "", fmt.Errorf("%s is not broken, so there is nothing to mend (to break it: berth-demo break %s)", parts[0].name, parts[0].name)
	}
	return fmt.Sprintf("Started: %s.\n", strings.Join(started, " and ")), nil
}

func (k *Keeper) mendAll(ctx context.Context) (string, error) {
	broken := slices.DeleteFunc(slices.Clone(k.parts), func(p *part) bool { return !p.broken })
	if !k.api && len(broken) == 0 {
		return "Nothing is broken.\n", nil
	}
	var text string
	if k.api {
		var err error
		if text, err = k.obeyAPI(ctx, "mend"); err != nil {
			return "", err
		}
	}
	if len(broken) == 0 {
		return text, nil
	}
	more, err := k.mend(broken)
	return text + more, err
}

func (k *Keeper) obeyAPI(ctx context.Context, verb string) (string, error) {
	if verb == "break" {
		if k.api {
			return "", errors.New("api is already broken (to mend it: berth-demo mend api)")
		}
		if err := k.cluster.ControlPlane.Break(); err != nil {
			return "", err
		}
		k.api = true
		return "The API server refuses connections. To have it listen again: berth-demo mend api\n", nil
	}
	if !k.api {
		return "", errors.New("api is not broken, so there is nothing to mend (to break it: berth-demo break api)")
	}
	ctx, cancel := context.WithTimeout(ctx, mendLimit)
	defer cancel()
	if err := k.cluster.ControlPlane.Mend(ctx); err != nil {
		return "", err
	}
	k.api = false
	return "The API server listens again.\n", nil
}

func (k *Keeper) table() string {
	var out bytes.Buffer
	tw := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "PART\tSTATE\tPROCESS\tMETRICS")
	state := "runs"
	if k.api {
		state = "broken"
	}
	fmt.Fprintf(tw, "%s\t%s\t-\t-\n", apiPart, state)
	for _, p := range k.parts {
		process := "-"
		if p.runs() {
			process = fmt.Sprint(p.process.PID())
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\n", p.name, p.state(), process, cmp.Or(p.metrics, "-"))
	}
	_ = tw.Flush() // writing to a buffer does not fail
	return out.String()
}

func (p *part) state() string {
	switch {
	case p.broken:
		return "broken"
	case !p.runs():
		return "dead, is started again"
	case !strings.HasPrefix(p.name, schedulerPart):
		return "runs"
	case p.leads():
		return "leads"
	default:
		return "stands by"
	}
}

// Metrics returns name and metrics address of each part that serves metrics, in the order of the
// parts.
func (k *Keeper) Metrics() (out [][2]string) {
	for _, p := range k.parts {
		if p.metrics != "" {
			out = append(out, [2]string{p.name, p.metrics})
		}
	}
	return out
}
