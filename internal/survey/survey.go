// Package survey computes the state of a cluster from its objects: the free resources of nodes, the
// resources that pods have or were promised, and the states of gangs. The results have JSON tags.
// The CLI prints them, and the web page shows them.
package survey

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/nodestate"
	"github.com/berth-dev/berth/internal/parallel"
	"github.com/berth-dev/berth/internal/survey/source"
)

// Survey is the state of nodes and of the pods bound to them, at about the same moment.
type Survey struct {
	// Now is the time of the survey, by the API server's clock.
	Now time.Time
	// Notes describe data that could not be read or understood.
	Notes []string

	// Facts are the objects from which the survey was computed.
	Facts *source.Facts
	// States has the nodes by name.
	States map[string]*NodeState
	// elsewhere are pods that are bound to nodes that the survey did not find.
	elsewhere []*corev1.Pod
	// narrowed selects the wanted nodes; nil selects all.
	narrowed func(*NodeState) bool
	// Partial means that only one node was surveyed.
	Partial bool
}

// missing returns the Trouble about a node that is not in the survey, because there is neither a
// Node nor a report with this name.
func (s *Survey) missing(name string) *Trouble {
	if s.Facts.NodesKnown {
		return &Trouble{Reason: nodestate.NoReport, Message: "there is no Node " + name}
	}
	return &Trouble{Reason: nodestate.NoReport, Message: "there is no NodeTopology " + name, Advice: adviceFor(nodestate.NoReport, name)}
}

// NoNode returns the error that there is no such node in the cluster.
func (c *Cluster) NoNode(s *Survey, name string) error {
	return fmt.Errorf("%s at %s", s.missing(name).Message, c.Where)
}

// Names returns the names of the nodes, ascending.
func (s *Survey) Names() []string { return slices.Sorted(maps.Keys(s.States)) }

// Narrow keeps the named nodes that the selector matches. If there are no names, it keeps all nodes
// that the selector matches; selector may be nil. A name without a node is an error.
func (c *Cluster) Narrow(s *Survey, names []string, selector labels.Selector) error {
	for _, name := range names {
		if s.States[name] == nil {
			return c.NoNode(s, name)
		}
	}
	s.narrowed = func(n *NodeState) bool {
		if len(names) > 0 && !slices.Contains(names, n.Name) {
			return false
		}
		return selector == nil || selector.Empty() || n.Object != nil && selector.Matches(labels.Set(n.Object.Labels))
	}
	maps.DeleteFunc(s.States, func(_ string, n *NodeState) bool { return !s.narrowed(n) })
	return nil
}

// Survey surveys nodes. The argument `only` is the name of one node, or "" for all nodes.
func (c *Cluster) Survey(ctx context.Context, only string) (*Survey, error) {
	f, err := c.From.Facts(ctx, only)
	if err != nil {
		return nil, err
	}
	s := c.surveyOf(f)
	s.Partial = only != ""
	return s, nil
}

func (c *Cluster) surveyOf(f *source.Facts) *Survey {
	s := &Survey{Facts: f, States: map[string]*NodeState{}, Notes: f.Notes, Now: c.From.Now()}
	bound, held := byNode(f.Pods), map[string]ledger.Holding{}
	s.Notes = append(s.Notes, addHeld(f.Reservations, bound, held)...)
	found, look := f.ByNode(), c.glance()
	names := slices.Sorted(maps.Keys(found))
	nodes := make([]*NodeState, len(names))
	parallel.Do(len(names), func(i int) {
		f := found[names[i]]
		f.Pods, f.Now = bound[names[i]], s.Now
		nodes[i] = look.at(names[i], f, held)
	})
	for i, name := range names {
		s.States[name] = nodes[i]
		s.Notes = append(s.Notes, nodes[i].notes...)
		delete(bound, name)
	}
	for _, pods := range bound {
		s.elsewhere = append(s.elsewhere, pods...)
	}
	return s
}

// Bound returns the bound pods of the nodes in States and of unknown nodes, and the pods that stand
// for places of Reservations.
func (s *Survey) Bound() iter.Seq[*corev1.Pod] {
	return func(yield func(*corev1.Pod) bool) {
		for _, n := range s.States {
			for _, pod := range n.Bound {
				if !yield(pod) {
					return
				}
			}
		}
		for _, pod := range s.elsewhere {
			if !yield(pod) {
				return
			}
		}
	}
}

func (c *Cluster) glance() glance {
	return glance{kinds: new(nodestate.Kinds), staleAfter: c.StaleAfter}
}

func byNode(pods []corev1.Pod) map[string][]*corev1.Pod {
	out := map[string][]*corev1.Pod{}
	for i := range pods {
		out[pods[i].Spec.NodeName] = append(out[pods[i].Spec.NodeName], &pods[i])
	}
	return out
}
