// Package survey reads a cluster or a snapshot of a cluster. It computes the free resources of the
// nodes and the resources of the pods, and explains why a pod is on its node or has none. The
// results have JSON tags; the CLI prints them, and the web page shows them. The package writes
// nothing to the cluster.
package survey

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-dev/berth/internal/amounts"
	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/nodestate"
)

// Survey is the state of nodes and of the pods bound to them, at about one moment.
type Survey struct {
	// Now is the time of the survey, by the API server's clock.
	Now time.Time
	// Notes describe data that could not be read or understood.
	Notes []string

	facts *facts
	nodes map[string]*node
	// bound has the pods by node, and pods that stand for places of Reservations.
	bound map[string][]*corev1.Pod
	// held has the unused parts of Reservations' places, by UID.
	held map[string]ledger.Holding
	// narrowed selects the wanted nodes; nil selects all.
	narrowed func(*node) bool
	// partial means that only one node was surveyed.
	partial bool
}

// missing returns the trouble of a node that has neither a Node nor a NodeTopology.
func (s *Survey) missing(name string) *Trouble {
	if s.facts.nodesKnown {
		return &Trouble{Reason: nodestate.NoReport, Message: "there is no Node " + name}
	}
	return &Trouble{Reason: nodestate.NoReport, Message: "there is no NodeTopology " + name, Advice: adviceFor(nodestate.NoReport, name)}
}

// noNode returns the error that there is no such node in the cluster.
func (c *Cluster) noNode(s *Survey, name string) error {
	return fmt.Errorf("%s at %s", s.missing(name).Message, c.Where)
}

// Names returns the names of the nodes, ascending.
func (s *Survey) Names() []string { return slices.Sorted(maps.Keys(s.nodes)) }

// Narrow keeps the named nodes that the selector matches. If there are no names, it keeps all nodes
// that the selector matches; selector may be nil. A name without a node is an error.
func (c *Cluster) Narrow(s *Survey, names []string, selector labels.Selector) error {
	for _, name := range names {
		if s.nodes[name] == nil {
			return c.noNode(s, name)
		}
	}
	s.narrowed = func(n *node) bool {
		if len(names) > 0 && !slices.Contains(names, n.name) {
			return false
		}
		return selector == nil || selector.Empty() || n.object != nil && selector.Matches(labels.Set(n.object.Labels))
	}
	maps.DeleteFunc(s.nodes, func(_ string, n *node) bool { return !s.narrowed(n) })
	return nil
}

// Survey surveys one node, or all nodes if only is "".
func (c *Cluster) Survey(ctx context.Context, only string) (*Survey, error) {
	f, err := c.from.facts(ctx, only)
	if err != nil {
		return nil, err
	}
	s := c.surveyOf(f)
	s.partial = only != ""
	return s, nil
}

// surveyOf computes the state of every known node.
func (c *Cluster) surveyOf(f *facts) *Survey {
	s := &Survey{facts: f, nodes: map[string]*node{}, bound: byNode(f.pods), held: map[string]ledger.Holding{}, Notes: f.notes, Now: c.from.now()}
	s.hold()
	found := s.perNode()
	look := c.glance(f, s.Now)
	names := slices.Sorted(maps.Keys(found))
	nodes := make([]*node, len(names))
	inParallel(len(names), func(i int) { nodes[i] = look.at(names[i], found[names[i]]) })
	for i, name := range names {
		s.nodes[name] = nodes[i]
		s.Notes = append(s.Notes, nodes[i].notes...)
	}
	return s
}

// perNode sorts the facts by node.
func (s *Survey) perNode() map[string]*nodeFacts {
	out := map[string]*nodeFacts{}
	of := func(name string) *nodeFacts {
		if out[name] == nil {
			out[name] = &nodeFacts{beat: s.facts.beats[name], pods: s.bound[name], held: s.held}
		}
		return out[name]
	}
	for i := range s.facts.nodes {
		of(s.facts.nodes[i].Name).object = &s.facts.nodes[i]
	}
	for i := range s.facts.reports {
		of(s.facts.reports[i].Name).report = &s.facts.reports[i]
	}
	for _, o := range s.facts.coarse {
		if one := out[o.GetName()]; one != nil || !s.facts.nodesKnown {
			of(o.GetName()).coarse = append(of(o.GetName()).coarse, o)
		}
	}
	return out
}

// glance returns the inputs for the state of nodes, given the permissions.
func (c *Cluster) glance(f *facts, now time.Time) glance {
	return glance{
		kinds: new(nodestate.Kinds), nodesKnown: f.nodesKnown,
		silence: silence{after: c.StaleAfter, told: f.beatsKnown, now: now},
	}
}

// classes returns the resources of device classes, if the pod requests a resource that could be one
// of them.
func (s *Survey) classes(ctx context.Context, c *Cluster, asked amounts.List) (map[corev1.ResourceName]bool, error) {
	if !foreign(asked) {
		return nil, nil
	}
	classes, notes, err := c.from.deviceClasses(ctx)
	s.Notes = append(s.Notes, notes...)
	return classes, err
}

func byNode(pods []corev1.Pod) map[string][]*corev1.Pod {
	out := map[string][]*corev1.Pod{}
	for i := range pods {
		out[pods[i].Spec.NodeName] = append(out[pods[i].Spec.NodeName], &pods[i])
	}
	return out
}
