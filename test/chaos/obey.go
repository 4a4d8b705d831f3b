package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/berth-dev/berth/internal/hollow"
	"github.com/berth-dev/berth/test/obeyed"
	"github.com/berth-dev/berth/test/trial"
	"github.com/berth-dev/berth/topology"
)

// obeys reports whether Berth decides on the node.
func (o *observer) obeys(node string) bool {
	return slices.ContainsFunc(o.cluster.specs, func(s hollow.Spec) bool { return s.Name == node && s.NRI })
}

// watchCgroups compares the cgroups of a node where Berth decides with the Bindings, until ctx
// ends. Cgroups are read one after the other, so an error must appear in three readings.
func (o *observer) watchCgroups(ctx context.Context, spec *hollow.Spec) {
	m, err := topology.Parse(spec.Machine)
	if err != nil {
		o.book.violate("machine of "+spec.Name+": "+err.Error(), spec.Name)
		return
	}
	for range trial.Every(ctx, checkpointPoll) {
		wrong := o.judgeCgroups(spec, m)
		for range 2 {
			if !wrong.Empty() {
				wrong = wrong.Both(o.judgeCgroups(spec, m))
			}
		}
		if wrong.Empty() {
			continue
		}
		for kind, all := range map[string]map[string]string{"held twice": wrong.HeldTwice, "beside its decision": wrong.Outside, "unconfined": wrong.Unconfined} {
			for name, why := range all {
				o.book.violate(fmt.Sprintf("node %s obeys, and container %s is %s: %s", spec.Name, name, kind, why), spec.Name)
			}
		}
	}
}

func (o *observer) judgeCgroups(spec *hollow.Spec, m *topology.Machine) obeyed.Faults {
	groups := obeyed.ReadCgroups(o.cluster.nodeDir(spec.Name).Cgroups())
	o.mu.Lock()
	defer o.mu.Unlock()
	o.tally.looks++
	return obeyed.Judge(m, groups, o.decided)
}

// leftInCgroups returns another pod with cgroups on a node where Berth decides, or "".
func (c *cluster) leftInCgroups(node, but string) string {
	for _, g := range obeyed.ReadCgroups(c.nodeDir(node).Cgroups()) {
		if g.UID != but {
			return fmt.Sprintf("node %s: container %s of pod %s still has a cgroup", node, g.Container, g.UID)
		}
	}
	return ""
}
