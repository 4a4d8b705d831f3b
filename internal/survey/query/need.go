package query

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/internal/amounts"
	"github.com/berth-dev/berth/internal/nodestate"
	"github.com/berth-dev/berth/internal/suppose"
	"github.com/berth-dev/berth/internal/survey"
	"github.com/berth-dev/berth/internal/wire"
)

// Needed is the number of empty nodes of one group that a load needs.
type Needed struct {
	suppose.Needs
	// Never lists the pods that even an empty node refuses. They are not counted in Needs.
	Never []NeverFits `json:"neverFits,omitempty"`
}

// NeverFits is a number of identical pods that no node of a group admits, with the reason.
type NeverFits struct {
	Name string `json:"name"`
	Pods int    `json:"pods"`
	Why  string `json:"why"`
}

const (
	// MaxNeeded is the maximum number of pods in all workloads together.
	MaxNeeded = 2000
	maxGroups = 16
)

// groupNodes groups the nodes with reliable reports by their key (alike). It returns at most
// maxGroups groups, the largest first.
func groupNodes(s *survey.Survey, names []string) [][]string {
	groups := map[string][]string{}
	for _, name := range names {
		if n := s.States[name]; n.Account != nil && n.Trouble == nil {
			groups[alike(n)] = append(groups[alike(n)], name)
		}
	}
	out := slices.SortedFunc(maps.Values(groups), func(a, b []string) int { return cmp.Or(len(b)-len(a), cmp.Compare(a[0], b[0])) })
	return out[:min(len(out), maxGroups)]
}

// alike returns a key that is the same for all nodes of a group, and different for other nodes.
func alike(n *survey.NodeState) string {
	spec, devices := n.Spec(), ""
	for _, pool := range n.Report().Snapshot.Devices {
		devices += pool.Resource
		for _, d := range pool.Devices {
			devices += "/" + d.NUMA.String()
		}
	}
	has, _ := nodestate.Allocatable(n.Object)
	return fmt.Sprint(n.Pool(), "|", spec.Machine, "|", spec.Authority, spec.KubeletVersion, "|", spec.Config, "|", devices, "|", has)
}

// fresh returns the Node as if it were new: not cordoned, and without taints of the domain
// node.kubernetes.io.
func fresh(object *corev1.Node) *corev1.Node {
	if object == nil {
		return nil
	}
	out := object.DeepCopy()
	out.Spec.Unschedulable = false
	out.Spec.Taints = slices.DeleteFunc(out.Spec.Taints, func(t corev1.Taint) bool { return strings.HasPrefix(t.Key, "node.kubernetes.io/") })
	return out
}

// needOn returns how many nodes the load needs if they are empty and like the named node, with the
// setting applied.
func needOn(ctx context.Context, c *survey.Cluster, s *survey.Survey, wanted []Wanted, o *Setting, name string) (out Needed, err error) {
	s = o.on(s, []string{name})
	s.States[name].Object = fresh(s.States[name].Object)
	fitters, load := make([]*fitter, len(wanted)), make([]suppose.Alike, len(wanted))
	for i := range wanted {
		if fitters[i], err = newFitter(ctx, c, s, &wanted[i]); err != nil {
			return out, err
		}
		f := fitters[i]
		f.request.UID = fmt.Sprintf("%s/%d", f.request.UID, i)
		load[i] = suppose.Alike{Asks: f.amounts, Ports: wire.PortsOf(f.pod), Pods: wanted[i].Replicas}
		if a := f.ask(f.seat(name)); a.Answer != Admits {
			out.Never = append(out.Never, NeverFits{wanted[i].Pod.Name, load[i].Pods, a.Message})
			load[i].Pods = 0
		}
	}
	object, classes := s.States[name].Object, map[corev1.ResourceName]bool{}
	for _, f := range fitters {
		maps.Copy(classes, f.classes)
	}
	counted := func() *amounts.Node { return nodestate.RoomOf(object, nil, classes) }
	out.Needs = suppose.NeedsOf(load, func() *seat { return fitters[0].seat(name) }, func(on *seat, kind, _ int) bool {
		if ctx.Err() != nil { // needOn then returns an error, so the answer does not matter
			return true
		}
		f := fitters[kind]
		if f.ask(on).Answer != Admits {
			return false
		}
		_, ok := f.take(on)
		return ok
	}, counted)
	return out, ctx.Err()
}

func neverFit(all []NeverFits) (pods int) {
	for i := range all {
		pods += all[i].Pods
	}
	return pods
}

func (n *Needed) text() string {
	out := fmt.Sprint(n.Nodes)
	if n.ByAmounts != n.Nodes {
		out += fmt.Sprintf(" (%d by amounts)", n.ByAmounts)
	}
	switch never := neverFit(n.Never); {
	case never > 0 && n.Pods == 0:
		return "none of the pods ever fits"
	case never > 0:
		out += fmt.Sprintf(", %s never", fitText(never))
	}
	return out
}

func fitText(pods int) string {
	if pods == 1 {
		return "1 pod fits"
	}
	return fmt.Sprintf("%d pods fit", pods)
}
