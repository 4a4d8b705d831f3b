package query

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/berth-dev/berth/internal/defrag"
	"github.com/berth-dev/berth/internal/survey"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/topology"
)

// Comparison shows how many pods of a load fit on a cluster before and after a change of its nodes.
type Comparison struct {
	// Pods are the results of Fit for each workload separately.
	Pods []ComparedPods `json:"pods"`
	// Empty means that the nodes were asked as if they had no pods, both before and after the
	// change.
	Empty bool `json:"empty"`
	// Moving is the result for all pods together if running pods may be moved for them. It is nil
	// in these cases: there are more than maxRoomFor pods, all pods find a place without moves both
	// before and after the change, the nodes are treated as empty, or only some nodes are asked.
	Moving *BeforeAfter[Moving] `json:"moving,omitempty"`
	// Groups are the groups of identical nodes with reliable reports, the largest first, at most
	// maxGroups.
	Groups []ComparedGroup `json:"groups"`
	// Rows are the lines of the printed comparison. Never names the pods that fit on no node of a
	// group after the change, and explains why.
	Rows  []ComparedRow `json:"rows"`
	Never []string      `json:"never,omitempty"`
	Notes []string      `json:"notes,omitempty"`
}

// BeforeAfter has a value for the nodes as they are, and for the changed nodes.
type BeforeAfter[T any] struct {
	Before T `json:"before"`
	After  T `json:"after"`
}

// ComparedPods is the result for one workload.
type ComparedPods struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace,omitempty"`
	Replicas  int    `json:"replicas"`
	BeforeAfter[Fits]
}

// Fits has the numbers of pods of a workload that fit.
type Fits struct {
	// Placed is the number of tried replicas that fit. Untried is the number of replicas beyond
	// maxBerths, which were not tried.
	Placed  int `json:"placed"`
	Untried int `json:"untried,omitempty"`
	// Copies is the total number of copies that fit, including replicas. Nodes is the number of
	// nodes that admit at least one.
	Copies int `json:"copies"`
	Nodes  int `json:"nodes"`
	// NUMANodes is the maximum number of NUMA nodes of a replica, or 0 if nothing is pinned.
	NUMANodes int `json:"numaNodes"`
}

// ComparedGroup is a group of nodes of one pool that have identical machines, devices,
// configurations and allocatable amounts.
type ComparedGroup struct {
	// Like is the first node of the group. Pool is the name of its pool, or "" if no label of the
	// node names a pool.
	Like    string `json:"like"`
	Pool    string `json:"pool,omitempty"`
	Count   int    `json:"count"`
	Machine string `json:"machine"`
	Policy  string `json:"policy"`
	BeforeAfter[Needed]
}

// Moving summarizes a plan that makes room by moving pods.
type Moving struct {
	// Outcome is Room.Outcome, or "" if all replicas fit together and no pod has to move.
	Outcome string `json:"outcome,omitempty"`
	Moves   int    `json:"moves"`
}

// ComparedRow is a line of the table.
type ComparedRow struct {
	About  string `json:"about"`
	What   string `json:"what"`
	Before string `json:"before"`
	After  string `json:"after"`
	Change string `json:"change"`
}

type comparing struct {
	cluster *survey.Cluster
	survey  *survey.Survey
	wanted  []Wanted
	names   []string
	// before and after are the options for Fit on the nodes as they are, and on the changed nodes.
	// If the change requires that nodes are drained, both treat the nodes as empty.
	before, after FitOptions
	out           *Comparison
}

// Compare shows how the load fits on the nodes as they are, and how it would fit on the nodes with
// o.Setting.
func Compare(ctx context.Context, b Base, wanted []Wanted, o FitOptions) (*Comparison, error) {
	s, err := b.Survey(ctx, "")
	if err != nil {
		return nil, err
	}
	if err := tooMany(wanted); err != nil {
		return nil, err
	}
	c := b.Cluster()
	names, err := o.names(c, s)
	if err != nil {
		return nil, err
	}
	o.Draw, o.Setting.Empty = false, o.Setting.Empty || o.Setting.drains()
	as := o
	as.Setting = Setting{Empty: o.Setting.Empty}
	m := &comparing{c, s, wanted, names, as, o, &Comparison{Pods: []ComparedPods{}, Groups: []ComparedGroup{}, Empty: o.Setting.Empty}}
	for _, part := range []func(context.Context) error{m.fit, m.move, m.need} {
		if err := part(ctx); err != nil {
			return nil, err
		}
	}
	m.out.tell()
	return m.out, nil
}

// fit checks each workload separately.
func (m *comparing) fit(ctx context.Context) error {
	before, notes, err := fitAll(ctx, m.cluster, m.survey, m.wanted, m.before)
	if err != nil {
		return err
	}
	after, _, err := fitAll(ctx, m.cluster, m.survey, m.wanted, m.after)
	if err != nil {
		return err
	}
	for i := range before {
		b := &before[i]
		m.out.Pods = append(m.out.Pods, ComparedPods{Name: b.Name, Namespace: b.Namespace, Replicas: b.Replicas, BeforeAfter: BeforeAfter[Fits]{fits(b), fits(&after[i])}})
	}
	m.out.Notes = slices.Concat(notes, m.after.Setting.Notes(), []string{"the numbers of nodes needed are for new, empty nodes, without pods of DaemonSets"})
	return nil
}

func fits(f *Fitting) Fits {
	out := Fits{Placed: f.Placed, Untried: f.Untried, Copies: f.Copies}
	for i := range f.Nodes {
		if f.Nodes[i].Copies > 0 {
			out.Nodes++
		}
	}
	for i := range f.Berths {
		if on, err := topology.ParseNUMAList(f.Berths[i].NUMANodes); err == nil {
			out.NUMANodes = max(out.NUMANodes, on.Len())
		}
	}
	return out
}

// move determines how many pods would have to move to make room for the whole load, before and
// after the change.
func (m *comparing) move(ctx context.Context) error {
	replicas := 0
	for i := range m.wanted {
		replicas += m.wanted[i].Replicas
	}
	if replicas > maxRoomFor || len(m.after.Nodes) > 0 || m.out.Empty {
		return nil
	}
	var moving BeforeAfter[Moving]
	if err := m.room(ctx, m.survey, &moving.Before); err != nil {
		return err
	}
	if m.after.Setting == (Setting{}) {
		moving.After = moving.Before
	} else if err := m.room(ctx, m.after.Setting.on(m.survey, m.names), &moving.After); err != nil {
		return err
	}
	if moving != (BeforeAfter[Moving]{}) {
		m.out.Moving = &moving
	}
	return nil
}

// room plans room for the whole load, and stores the result in *into.
func (m *comparing) room(ctx context.Context, s *survey.Survey, into *Moving) error {
	with := *s
	room, err := makeRoom(ctx, m.cluster, &with, m.wanted, RoomOptions{})
	if err != nil {
		return err
	}
	if room.Outcome != defrag.Found.String() || len(room.Moves) > 0 {
		into.Outcome, into.Moves = room.Outcome, len(room.Moves)
	}
	return nil
}

func tooMany(wanted []Wanted) error {
	pods := 0
	for i := range wanted {
		if pods += wanted[i].Replicas; pods > MaxNeeded || wanted[i].Replicas > MaxNeeded {
			return fmt.Errorf("load %s brings the total to %d pods: want at most %d", wanted[i].Pod.Name, pods, MaxNeeded)
		}
	}
	return nil
}

// need computes, for each group, how many empty nodes like those of the group the load would need.
func (m *comparing) need(ctx context.Context) error {
	after := m.after.Setting
	after.Empty = true
	for _, group := range groupNodes(m.survey, m.names) {
		n := m.survey.States[group[0]]
		g := ComparedGroup{Like: n.Name, Pool: n.Pool(), Count: len(group), Machine: n.Machine().String(), Policy: policyOf(n)}
		var err error
		if g.Before, err = needOn(ctx, m.cluster, m.survey, m.wanted, &Setting{Empty: true}, n.Name); err != nil {
			return err
		}
		if g.After, err = needOn(ctx, m.cluster, m.survey, m.wanted, &after, n.Name); err != nil {
			return err
		}
		m.out.Groups = append(m.out.Groups, g)
	}
	return nil
}

// text describes the group: its first node, the number of the other nodes, and the pool.
func (g *ComparedGroup) text() string {
	out := g.Like
	if g.Count > 1 {
		out += fmt.Sprintf(" and %d like it", g.Count-1)
	}
	if g.Pool != "" {
		out += " (" + g.Pool + ")"
	}
	return out
}

func (c *Comparison) tell() {
	for i := range c.Pods {
		p := &c.Pods[i]
		row := func(what string, of func(*Fits) int, text func(*Fits) string) {
			c.Rows = append(c.Rows, ComparedRow{p.Name, what, text(&p.Before), text(&p.After), changeText(of(&p.Before), of(&p.After))})
		}
		plain := func(what string, of func(*Fits) int) {
			row(what, of, func(f *Fits) string { return strconv.Itoa(of(f)) })
		}
		row("replicas that find a place", func(f *Fits) int { return f.Placed }, func(f *Fits) string { return fmt.Sprintf("%d of %d", f.Placed, p.Replicas-f.Untried) })
		plain("copies that fit in total", func(f *Fits) int { return f.Copies })
		plain("nodes that take one", func(f *Fits) int { return f.Nodes })
		row("NUMA nodes of a replica, at the most", func(f *Fits) int { return f.NUMANodes }, func(f *Fits) string { return dashed(f.NUMANodes) })
	}
	if m := c.Moving; m != nil {
		c.Rows = append(c.Rows, ComparedRow{"all of them", "with pods moved for them", m.Before.text(), m.After.text(), "-"})
	}
	for i := range c.Groups {
		g := &c.Groups[i]
		for _, never := range g.After.Never {
			c.Never = append(c.Never, fmt.Sprintf("%s fits on no node like %s with this setting: %s", never.Name, g.Like, never.Why))
		}
		if g.Before.Pods == 0 && g.After.Pods == 0 {
			continue
		}
		change := "-"
		if neverFit(g.Before.Never) == neverFit(g.After.Never) {
			change = changeText(g.Before.Nodes, g.After.Nodes)
		}
		c.Rows = append(c.Rows, ComparedRow{g.text(), "empty nodes that the load needs", g.Before.text(), g.After.text(), change})
	}
}

func dashed(n int) string {
	if n == 0 {
		return "-"
	}
	return strconv.Itoa(n)
}

func changeText(before, after int) string {
	if before == after {
		return "-"
	}
	return fmt.Sprintf("%+d", after-before)
}

func (m *Moving) text() string {
	switch {
	case m.Outcome == "":
		return "nothing has to move"
	case m.Outcome == defrag.Found.String():
		return "all find a place, " + wire.Counted(m.Moves, "move")
	}
	return "no: " + m.Outcome
}
