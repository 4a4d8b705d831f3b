package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

// refusal classifies a refusal by a kubelet, which may have restarted.
func (o *observer) refusal(w *watched) {
	node, now := w.pod.Spec.NodeName, time.Now()
	h := o.holdings[string(w.pod.UID)]
	died, restarted := o.book.lastKill("node-" + node)
	switch {
	case w.foreign:
		o.tally.refused.foreign++
	case (w.ran || h != nil && h.first.Before(restarted)) && !restarted.IsZero():
		w.excuse = "the kubelet has restarted"
		o.tally.refused.again++
	case asksForGPU(w.pod) && now.Sub(restarted) < afterRestart:
		w.excuse = "the plugin had not registered again"
		o.tally.refused.unplugged++
	case now.Sub(restarted) < afterRestart && o.unswept(node):
		w.excuse = "the kubelet had not cleared away what ended pods held"
		o.tally.refused.unswept++
		o.book.note(fmt.Sprintf("node %s refused pod %s after its restart, before it had cleared away what ended pods held", node, w.pod.Name))
	case now.Sub(restarted) < afterRestart && o.returned[node].After(died):
		w.excuse = "a pod came back that the kubelet had let go of"
		o.tally.refused.returned++
	case o.contended(w, now):
		o.tally.refused.contended++
	default:
		o.book.violate(fmt.Sprintf("node %s refused pod %s: %s: %s", node, w.pod.Name, w.pod.Status.Reason, w.pod.Status.Message), node, o.evidence(w)...)
	}
}

// unswept reports whether pods that had ended were still in the checkpoints when the node's kubelet
// was last killed. A restarted kubelet admits its first pods before it removes ended ones:
// pkg/kubelet/kubelet.go marks the sources as ready after it has handled their first additions, and
// the managers' removeStaleState waits for that. The caller holds mu.
func (o *observer) unswept(node string) bool {
	died, _ := o.book.lastKill("node-" + node)
	for uid, h := range o.holdings {
		w := o.pods[types.UID(uid)]
		if h.node == node && !h.last.Before(died.Add(-2*checkpointPoll)) && (w == nil || !w.ended.IsZero() && w.ended.Before(died.Add(recovery))) {
			return true
		}
	}
	return false
}

func asksForGPU(pod *corev1.Pod) bool {
	_, ok := pod.Spec.Containers[0].Resources.Limits[gpuResource]
	return ok
}

// judge compares an exact placement with the observed checkpoints. The pod runs, so its admission
// is complete: checkpoints read since asked have all its resources, unless it has ended.
func (o *observer) judge(w *watched, asked time.Time) {
	p, found, err := wire.ReadPlacement(w.pod)
	if err != nil {
		o.book.violate("placement of pod "+w.pod.Name+": "+err.Error(), w.pod.Spec.NodeName, o.evidence(w)...)
	}
	h := o.holdings[string(w.pod.UID)]
	switch {
	case h == nil && found && o.obeys(w.pod.Spec.NodeName): // its cgroups are watched
		o.tally.placed.obeyed++
		return
	case h == nil && found:
		if differ(p.Decision.Containers, &placement.PodAllocation{}) != "" {
			o.tally.placed.unseen++
		}
		return
	case !found && h != nil && o.cluster.fraud != fraudStock && !w.foreign:
		o.book.violate("pod "+w.pod.Name+" holds something exclusively and carries no placement", w.pod.Spec.NodeName, o.evidence(w)...)
		return
	case !found:
		return
	case p.Certainty != wire.Exact:
		o.tally.placed.verdict++
		return
	}
	o.judgeExact(w, h, p.Decision.Containers, asked)
}

// judgeExact judges a placement that promises each CPU.
func (o *observer) judgeExact(w *watched, h *holding, promised []placement.ContainerDecision, asked time.Time) {
	posted := o.posted(w, h.first)
	disturbed := o.book.disturbed(h.node, posted, h.first)
	wrong := differ(promised, &h.alloc)
	if wrong != "" && disturbed != nil {
		w.excuse = disturbed.String()
	}
	switch {
	case wrong == "" && disturbed != nil:
		o.tally.placed.exactDisturbed++
	case wrong == "":
		o.tally.placed.exact++
	case h.last.Before(asked):
		o.tally.placed.unseen++ // it has already left, and may have been read only in part
	case o.contended(w, h.first):
		o.tally.placed.differedContended++
	case o.vanished(w, h.first):
		o.tally.placed.differedVanished++
	case disturbed != nil:
		o.tally.placed.differedDisturbed++
		o.book.note(fmt.Sprintf("pod %s on %s, seen to be admitted at %s, %.1f s after its Binding was sent, exact: %s; %v",
			w.pod.Name, h.node, h.first.UTC().Format(clockFormat), h.first.Sub(posted).Seconds(), wrong, disturbed))
	default:
		o.book.violate(fmt.Sprintf("pod %s on %s, exact: %s", w.pod.Name, h.node, wrong), h.node, o.evidence(w)...)
	}
}

// posted returns when a scheduler last sent the pod's Binding. A Binding that a fault delays takes
// longer than exact assumes, even if the fault is over when the kubelet receives it. For an
// unobserved Binding it is the time of the kubelet's decision.
func (o *observer) posted(w *watched, decided time.Time) time.Time {
	at, ok := o.cluster.bindings.Load(w.pod.Namespace + "/" + w.pod.Name)
	if !ok || at.(time.Time).After(decided) {
		return decided
	}
	return at.(time.Time)
}

// differ describes how the allocation contradicts the decisions, or "".
func differ(decisions []placement.ContainerDecision, alloc *placement.PodAllocation) string {
	for i := range decisions {
		d, got := &decisions[i], &placement.ContainerAllocation{}
		if k := slices.IndexFunc(alloc.Containers, func(c placement.ContainerAllocation) bool { return c.Name == d.Name }); k >= 0 {
			got = &alloc.Containers[k]
		}
		if got.CPUs != d.CPUs {
			return fmt.Sprintf("container %s has CPUs %q, promised %q", d.Name, got.CPUs.String(), d.CPUs.String())
		}
		if a, b := blocks(got.Memory), blocks(d.Memory); a != b {
			return fmt.Sprintf("container %s has memory %s, promised %s", d.Name, a, b)
		}
		if a, b := fmt.Sprint(got.Devices), fmt.Sprint(d.Devices); a != b {
			return fmt.Sprintf("container %s has devices %s, promised %s", d.Name, a, b)
		}
	}
	return ""
}

// blocks returns equal texts for equal memory: it ignores empty blocks and the order.
func blocks(all []placement.MemoryBlock) string {
	var out []string
	for _, b := range all {
		if b.Bytes > 0 {
			out = append(out, fmt.Sprintf("%s %d on %v", b.Resource, b.Bytes, b.NUMA))
		}
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}
