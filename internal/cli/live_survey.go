package cli

import (
	"context"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// survey is what the API says of nodes, and of the pods bound to them, at about one moment.
type survey struct {
	now   time.Time
	nodes map[string]*liveNode
	// pods are those that are bound, in all namespaces; nil where they may not be read.
	pods []corev1.Pod
	// bound is pods by node.
	bound map[string][]*corev1.Pod
	// notes say what could not be read or understood.
	notes []string
	// nodesKnown: Nodes may be read.
	nodesKnown bool
}

// missing is the trouble with a node of which there is neither Node nor NodeTopology to be seen.
func (s *survey) missing(name string) *trouble {
	if s.nodesKnown {
		return &trouble{Reason: troubleNoReport, Message: "there is no Node " + name}
	}
	return &trouble{Reason: troubleNoReport, Message: "there is no NodeTopology " + name, Advice: adviceFor(troubleNoReport, name)}
}

// names returns the names of the nodes, ascending.
func (s *survey) names() []string { return slices.Sorted(maps.Keys(s.nodes)) }

// survey reads one node, or with only "" all of them.
func (c *cluster) survey(ctx context.Context, only string) (*survey, error) {
	f, err := c.facts(ctx, only)
	if err != nil {
		return nil, err
	}
	return c.surveyOf(f), nil
}

// surveyOf makes a survey of what was read.
func (c *cluster) surveyOf(f *facts) *survey {
	s := &survey{nodes: map[string]*liveNode{}, pods: f.pods, bound: byNode(f.pods), notes: f.notes, now: c.clock.now(), nodesKnown: f.nodesKnown}
	sources := map[string]*source{}
	of := func(name string) *source {
		if sources[name] == nil {
			sources[name] = &source{beat: f.beats[name], pods: s.bound[name]}
			s.nodes[name] = nil
		}
		return sources[name]
	}
	for i := range f.nodes {
		of(f.nodes[i].Name).object = &f.nodes[i]
	}
	for i := range f.reports {
		of(f.reports[i].Name).report = &f.reports[i]
	}
	look := glance{kinds: new(kinds), nodesKnown: f.nodesKnown, silence: silence{after: c.staleAfter, told: f.beatsKnown, now: s.now}}
	names := s.names()
	nodes := make([]*liveNode, len(names))
	inParallel(len(names), func(i int) { nodes[i] = look.at(names[i], sources[names[i]]) })
	for i, name := range names {
		s.nodes[name] = nodes[i]
	}
	for _, name := range names {
		s.notes = append(s.notes, s.nodes[name].notes...)
	}
	return s
}

// classes returns the resources that device classes stand for, if the pod asks for any that could be one.
func (s *survey) classes(ctx context.Context, c *cluster, asked amounts) (map[corev1.ResourceName]bool, error) {
	if !asked.extended() {
		return nil, nil
	}
	classes, err := c.deviceClasses(ctx)
	f := facts{notes: s.notes}
	err = f.tolerate("device classes", "what only Dynamic Resource Allocation provides counts as missing", c, err)
	s.notes = f.notes
	return classes, err
}

func byNode(pods []corev1.Pod) map[string][]*corev1.Pod {
	out := map[string][]*corev1.Pod{}
	for i := range pods {
		out[pods[i].Spec.NodeName] = append(out[pods[i].Spec.NodeName], &pods[i])
	}
	return out
}
