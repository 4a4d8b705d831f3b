package cli

import (
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// watchNodes prints nodes, and those again that change. What is wrong with a node stands in its column STATUS alone.
func watchNodes(cmd *cobra.Command, c *cluster, o output, f *facts, only string, quietly bool) error {
	wide := o.is(formatWide)
	st := stream[nodeSummary]{cmd: cmd, o: o, list: "nodes", kind: "node", columns: nodeHeader(wide),
		name:   func(n *nodeSummary) string { return n.Name },
		rows:   func(n *nodeSummary) [][]string { return n.rows(wide) },
		steady: func(n nodeSummary) nodeSummary { n.AgeSeconds = 0; return n },
		gone:   func(n nodeSummary) nodeSummary { n.Gone = true; return n },
	}
	s := c.surveyOf(f)
	writeNotes(cmd, s.notes)
	show := func(names []string, quietly bool) error {
		items := map[string]*nodeSummary{}
		for _, name := range names {
			if n := s.nodes[name]; n != nil {
				sum := n.summary(s)
				items[name] = &sum
			}
		}
		return st.offer(names, items, quietly)
	}
	if err := show(s.names(), quietly); err != nil {
		return err
	}
	w, err := c.watch(f, only, false)
	if err != nil {
		return err
	}
	return w.run(cmd.Context(), func(ch *changes) error { return show(w.refresh(s, ch), false) }, teller(cmd))
}

// watchPods prints pods that could be pinned, and those again that change.
func watchPods(cmd *cobra.Command, c *cluster, o output, only string, quietly bool) error {
	f, err := c.facts(cmd.Context(), "")
	if err != nil {
		return err
	}
	pods, err := c.allPodsIn(cmd, only)
	if err != nil {
		return err
	}
	if only != "" && len(pods) == 0 {
		return fmt.Errorf("no pod %s in namespace %s at %s", only, c.namespace, c.where)
	}
	wide := o.is(formatWide)
	st := stream[podSummary]{cmd: cmd, o: o, list: "pods", kind: "pod", columns: podHeader(wide),
		name:   func(p *podSummary) string { return p.Name },
		rows:   func(p *podSummary) [][]string { return [][]string{p.row(wide)} },
		steady: func(p podSummary) podSummary { return p },
		gone:   func(p podSummary) podSummary { p.State = stateGone; return p },
	}
	s := c.surveyOf(f)
	writeNotes(cmd, s.notes)
	all := s.summaries(pods, only)
	keys, items := make([]string, len(all)), map[string]*podSummary{}
	for i := range all {
		keys[i] = all[i].Namespace + "/" + all[i].Name
		items[keys[i]] = &all[i]
	}
	if err := st.offer(keys, items, quietly); err != nil {
		return err
	}
	w, err := c.watch(f, "", true)
	if err != nil {
		return err
	}
	return w.run(cmd.Context(), func(ch *changes) error {
		for _, name := range w.refresh(s, ch) {
			for _, pod := range w.podsOn(name) {
				ch.pods[pod.Namespace+"/"+pod.Name] = true
			}
		}
		items := map[string]*podSummary{}
		for key := range ch.pods {
			if sum := w.podSummary(s, key, only); sum != nil {
				items[key] = sum
			}
		}
		return st.offer(slices.Sorted(maps.Keys(ch.pods)), items, false)
	}, teller(cmd))
}

// podSummary puts a pod into a line; nil where there is none, or it is not among those asked for.
func (w *watcher) podSummary(s *survey, key, only string) *podSummary {
	obj, ok, err := w.pods.GetStore().GetByKey(key)
	if err != nil || !ok {
		return nil
	}
	pod := obj.(*corev1.Pod)
	if w.c.namespace != metav1.NamespaceAll && pod.Namespace != w.c.namespace || only != "" && pod.Name != only {
		return nil
	}
	sum, pinned := s.summary(pod)
	if !pinned && only == "" {
		return nil
	}
	return &sum
}

// teller says on stderr what is wrong with a watch.
func teller(cmd *cobra.Command) func(string) {
	return func(text string) { writeNotes(cmd, []string{text}) }
}
