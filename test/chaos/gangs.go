package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/internal/wire"
)

// gangCount has the counts of a gang.
type gangCount struct {
	minimum int
	// placed counts members with a node, and members that ended with success.
	placed int
}

// gangsOf counts the members of gangs.
func gangsOf(pods []corev1.Pod) map[string]*gangCount {
	out := map[string]*gangCount{}
	for i := range pods {
		p := &pods[i]
		name := p.Labels[gangLabel]
		if name == "" || p.DeletionTimestamp != nil || p.Status.Phase == corev1.PodFailed {
			continue
		}
		g := out[name]
		if g == nil {
			g = &gangCount{}
			out[name] = g
		}
		if n, err := strconv.Atoi(p.Labels[minimumLabel]); err == nil {
			g.minimum = n
		}
		if p.Spec.NodeName != "" {
			g.placed++
		}
	}
	return out
}

// waits reports whether the members of a gang may wait although nodes have room: the gang is
// incomplete, or must be placed as a whole.
func (g *gangCount) waits() bool { return g != nil && g.placed < g.minimum }

// partial names gangs with a part of their minimum placed that were never whole.
func (o *observer) partial(gangs map[string]*gangCount) (out []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(gangs)) {
		if g := gangs[name]; g.placed > 0 && g.waits() && !o.whole[name] {
			out = append(out, fmt.Sprintf("gang %s was never whole, and %d of %d members have nodes", name, g.placed, g.minimum))
		}
	}
	return out
}

// seeGang records when a gang has become complete. The caller holds mu.
func (o *observer) seeGang(pod *corev1.Pod) {
	name := pod.Labels[gangLabel]
	if name == "" || o.whole[name] {
		return
	}
	var members []corev1.Pod
	for _, w := range o.pods {
		if w.pod.Labels[gangLabel] == name && !w.gone {
			members = append(members, *w.pod)
		}
	}
	if g := gangsOf(members)[name]; wire.GangWasWhole(pod) || g != nil && g.placed > 0 && !g.waits() {
		o.whole[name] = true
		o.tally.gangs++
	}
}
