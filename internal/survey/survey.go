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
	"github.com/berth-dev/berth/internal/parallel"
	"github.com/berth-dev/berth/internal/survey/source"
)

// Survey is the state of nodes and of the pods bound to them, at about one moment.
type Survey struct {
	// Now is the time of the survey, by the API server's clock.
	Now time.Time
	// Notes describe data that could not be read or understood.
	Notes []string

	facts *source.Facts
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
	if s.facts.NodesKnown {
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
	f, err := c.from.Facts(ctx, only)
	if err != nil {
		return nil, err
	}
	s := c.surveyOf(f)
	s.partial = only != ""
	return s, nil
}

// surveyOf computes the state of every known node.
func (c *Cluster) surveyOf(f *source.Facts) *Survey {
	s := &Survey{facts: f, nodes: map[string]*node{}, bound: byNode(f.Pods), held: map[string]ledger.Holding{}, Notes: f.Notes, Now: c.from.Now()}
	s.hold()
	found := f.ByNode()
	look := c.glance()
	names := slices.Sorted(maps.Keys(found))
	nodes := make([]*node, len(names))
	parallel.Do(len(names), func(i int) {
		f := found[names[i]]
		f.Pods, f.Now = s.bound[names[i]], s.Now
		nodes[i] = look.at(names[i], f, s.held)
	})
	for i, name := range names {
		s.nodes[name] = nodes[i]
		s.Notes = append(s.Notes, nodes[i].notes...)
	}
	return s
}

// glance returns the inputs, common to all nodes, for the state of nodes.
func (c *Cluster) glance() glance {
	return glance{kinds: new(nodestate.Kinds), staleAfter: c.StaleAfter}
}

// classes returns the resources of device classes, if the pod requests a resource that could be one
// of them.
func (s *Survey) classes(ctx context.Context, c *Cluster, asked amounts.List) (map[corev1.ResourceName]bool, error) {
	if !foreign(asked) {
		return nil, nil
	}
	classes, notes, err := c.from.DeviceClasses(ctx)
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
