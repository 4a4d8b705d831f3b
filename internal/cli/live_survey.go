package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
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
}

// names returns the names of the nodes, ascending.
func (s *survey) names() []string { return slices.Sorted(maps.Keys(s.nodes)) }

func (s *survey) note(format string, args ...any) {
	s.notes = append(s.notes, fmt.Sprintf(format, args...))
}

// survey reads one node, or with only "" all of them. Reports are read before pods, so that what comes in between counts
// as on its way, never as gone.
func (c *cluster) survey(ctx context.Context, only string) (*survey, error) {
	s := &survey{nodes: map[string]*liveNode{}}
	objects, err := c.topologies(ctx, only)
	if err != nil {
		return nil, err
	}
	nodes, err := c.nodeObjects(ctx, only)
	known := err == nil
	if err := s.tolerate("nodes", "whether a NodeTopology is of a node that exists is not checked", c, err); err != nil {
		return nil, err
	}
	beats, err := c.beats(ctx)
	heard := err == nil
	if err := s.tolerate("leases in "+c.heartbeats, "whether agents are alive is judged by their reports", c, err); err != nil {
		return nil, err
	}
	if s.pods, err = c.podsIn(ctx, metav1.NamespaceAll, only); err != nil {
		s.pods = nil
	}
	if err := s.tolerate("pods of all namespaces", "pods that are bound and not yet reported are not counted", c, err); err != nil {
		return nil, err
	}
	s.now = c.clock.now()
	for i := range nodes {
		s.nodes[nodes[i].Name] = &liveNode{name: nodes[i].Name, object: &nodes[i]}
	}
	s.read(objects, beats, known)
	silence := silence{after: c.staleAfter, told: heard, now: s.now}
	s.bound = byNode(s.pods)
	names := s.names()
	inParallel(len(names), func(i int) { n := s.nodes[names[i]]; n.finish(s.bound[n.name], silence) })
	for _, name := range names {
		s.notes = append(s.notes, s.nodes[name].notes...)
	}
	return s, nil
}

func byNode(pods []corev1.Pod) map[string][]*corev1.Pod {
	out := map[string][]*corev1.Pod{}
	for i := range pods {
		out[pods[i].Spec.NodeName] = append(out[pods[i].Spec.NodeName], &pods[i])
	}
	return out
}

// tolerate makes a note of a list that the user may not read, and of what is missing therefore; other errors stay.
func (s *survey) tolerate(what, then string, c *cluster, err error) error {
	switch {
	case err == nil:
		return nil
	case apierrors.IsForbidden(err):
		s.note("%s may not be read, so %s: %v", what, then, err)
		return nil
	}
	return c.failed(what, err)
}

// read takes the NodeTopologies in.
func (s *survey) read(objects []unstructured.Unstructured, beats map[string]time.Time, known bool) {
	var kinds kinds
	for i := range objects {
		name := objects[i].GetName()
		if s.nodes[name] == nil {
			s.nodes[name] = &liveNode{name: name, stray: known}
		}
		s.nodes[name].heard = beats[name]
	}
	inParallel(len(objects), func(i int) { s.nodes[objects[i].GetName()].read(&objects[i], &kinds) })
}

func (c *cluster) topologies(ctx context.Context, only string) ([]unstructured.Unstructured, error) {
	out, err := pages(func(o metav1.ListOptions) ([]unstructured.Unstructured, string, error) {
		l, err := c.reports.List(ctx, o)
		if err != nil {
			return nil, "", err
		}
		return l.Items, l.GetContinue(), nil
	}, named("metadata.name", only))
	if apierrors.IsNotFound(err) {
		return nil, ErrNotInstalled
	}
	if err != nil {
		return nil, c.failed("nodetopologies.berth.dev", err)
	}
	return out, nil
}

func (c *cluster) nodeObjects(ctx context.Context, only string) ([]corev1.Node, error) {
	return pages(func(o metav1.ListOptions) ([]corev1.Node, string, error) {
		l, err := c.core.Nodes().List(ctx, o)
		if err != nil {
			return nil, "", err
		}
		return l.Items, l.Continue, nil
	}, named("metadata.name", only))
}

// podsIn reads the pods of a namespace; with all namespaces, those that are bound, to one node where it is named.
func (c *cluster) podsIn(ctx context.Context, namespace, node string) ([]corev1.Pod, error) {
	opts := named("spec.nodeName", node)
	if namespace == metav1.NamespaceAll && node == "" {
		opts.FieldSelector = "spec.nodeName!="
	}
	return pages(func(o metav1.ListOptions) ([]corev1.Pod, string, error) {
		l, err := c.core.Pods(namespace).List(ctx, o)
		if err != nil {
			return nil, "", err
		}
		return l.Items, l.Continue, nil
	}, opts)
}

// beats returns the last heartbeat of each node's agent, by the API server's clock where it tells.
func (c *cluster) beats(ctx context.Context) (map[string]time.Time, error) {
	leases, err := pages(func(o metav1.ListOptions) ([]coordinationv1.Lease, string, error) {
		l, err := c.leases.Leases(c.heartbeats).List(ctx, o)
		if err != nil {
			return nil, "", err
		}
		return l.Items, l.Continue, nil
	}, metav1.ListOptions{})
	out := map[string]time.Time{}
	for i := range leases {
		l := &leases[i]
		if node, ok := strings.CutPrefix(l.Name, v1alpha1.HeartbeatName("")); ok && l.Spec.RenewTime != nil {
			out[node] = written(&l.ObjectMeta, l.Spec.RenewTime.Time)
		}
	}
	return out, err
}

// named selects by a field, unless the value is empty.
func named(field, value string) metav1.ListOptions {
	if value == "" {
		return metav1.ListOptions{}
	}
	return metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(field, value).String()}
}
