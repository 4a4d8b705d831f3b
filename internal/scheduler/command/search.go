package command

import (
	"cmp"
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	kubescheduler "k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/berth-dev/berth/internal/scheduler"
)

// lookingFurther returns a SchedulePod that, for each pod that could be pinned, calls next with a
// value of type search in place of the profile. If look returns the profile's own percentage, there
// is nothing to replace, and next gets the profile itself.
func lookingFurther(next schedulePod, look scheduler.Look, global *int32, profiles map[string]*known) schedulePod {
	return func(ctx context.Context, profile framework.Framework, state fwk.CycleState, pod *framework.QueuedPodInfo) (kubescheduler.ScheduleResult, error) {
		if !scheduler.MightPin(pod.Pod) {
			return next(ctx, profile, state, pod)
		}
		set := cmp.Or(profile.PercentageOfNodesToScore(), global)
		nodes, err := profile.SnapshotSharedLister().NodeInfos().List()
		if err != nil {
			return kubescheduler.ScheduleResult{}, err
		}
		was := int32(0)
		if set != nil {
			was = *set
		}
		percentage := look(pod.Pod, len(nodes), was)
		if percentage == was {
			return next(ctx, profile, state, pod)
		}
		s := &search{Framework: profile, percentage: percentage, known: profiles[profile.ProfileName()]}
		s.all = pod.Pod.Status.NominatedNodeName != ""
		defer s.done()
		result, err := next(ctx, s, state, pod)
		if none := (*framework.FitError)(nil); s.named == nil || !errors.As(err, &none) {
			return result, err
		}
		s.done()
		s.all = true // an extender has refused all named nodes
		scheduler.Searched(scheduler.SearchedAll)
		return next(ctx, s, state, pod)
	}
}

// search replaces a profile in the cycle of one pod. Its PreFilter runs Filter on Berth's best
// nodes, and names the nodes that no plugin refuses. kube-scheduler then considers only the named
// nodes: it does not run Filter on them again, and scores them. If PreFilter names no nodes, the
// cycle continues with all nodes as usual.
//
// kube-scheduler uses a search for one call of SchedulePod. Plugins, preemption and the cycles of
// groups use the profile itself.
type search struct {
	framework.Framework
	// percentage is the result of scheduler.Look for the pod.
	percentage int32
	// all means that PreFilter must not name nodes, so that kube-scheduler checks all nodes.
	all   bool
	known *known
	// named has the named nodes, which have passed Filter. It is nil if PreFilter has named no
	// nodes.
	named sets.Set[string]
	// waits is Candidates.Waits if the search found no candidates, and otherwise nil.
	waits func(context.Context, fwk.NodeInfo) *fwk.Status
	// weighed is the result of Candidates.Taking, or a copy of it. It may use memory of candidates.
	weighed []fwk.NodeInfo
	// candidates is nil if CandidatesOf has returned nil.
	candidates *scheduler.Candidates
}

func (s *search) done() {
	s.candidates.Done()
	s.named, s.weighed, s.candidates = nil, nil, nil
}

// PercentageOfNodesToScore implements framework.Framework. If nodes are named, all of them are
// scored.
func (s *search) PercentageOfNodesToScore() *int32 {
	if s.named != nil {
		return new(int32(100))
	}
	return &s.percentage
}

// RunPreFilterPlugins implements framework.Framework.
func (s *search) RunPreFilterPlugins(ctx context.Context, state fwk.CycleState, pod *corev1.Pod) (*fwk.PreFilterResult, *fwk.Status, sets.Set[string]) {
	result, status, plugins := s.Framework.RunPreFilterPlugins(ctx, state, pod)
	if s.all || !status.IsSuccess() || !result.AllNodes() {
		return result, status, plugins
	}
	nodes, err := s.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return result, fwk.AsStatus(err), plugins
	}
	by, err := s.known.spreadBy(s.Framework, pod)
	if err != nil {
		return result, status, plugins // PodTopologySpread refuses the pod with the same error
	}
	candidates := scheduler.CandidatesOf(state, pod, nodes, s.known.ahead, by)
	if candidates == nil {
		return result, status, plugins
	}
	s.candidates = candidates
	if s.named = s.findInAll(ctx, state, pod, candidates); s.named == nil {
		return result, status, plugins
	}
	s.weighed = candidates.Taking()
	if !s.known.ours { // some plugin may keep the list
		s.weighed = slices.Clone(s.weighed)
	}
	return &fwk.PreFilterResult{NodeNames: s.named}, status, plugins
}

// maxRounds is the maximum number of batches of candidates that the search tries in each class of
// nodes. More batches would cost more than a check of all nodes.
const maxRounds = 8

// findInAll returns the names of the best candidates of each class that no plugin refuses. It
// returns nil if there are none, or if maxRounds batches of a class contain none.
func (s *search) findInAll(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, c *scheduler.Candidates) sets.Set[string] {
	named, most := sets.Set[string]{}, 0
	for class := range c.Classes() {
		found, rounds := s.find(ctx, state, pod, named, func() []fwk.NodeInfo { return c.Next(class) })
		most = max(most, rounds)
		if !found && rounds == maxRounds {
			named = nil
			break
		}
	}
	switch {
	case most == 0:
		s.waits = c.Waits
		scheduler.Searched(scheduler.SearchedNowhere)
		return nil
	case len(named) == 0:
		scheduler.Searched(scheduler.SearchedAll)
		return nil
	case most > 1:
		scheduler.Searched(scheduler.SearchedFurther)
	default:
		scheduler.Searched(scheduler.SearchedOnce)
	}
	return named
}

// find calls next, which returns a few candidates at a time, until at least one candidate of a
// batch passes all plugins. It adds these candidates to the set named, reports whether it has added
// any, and returns the number of batches.
func (s *search) find(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, named sets.Set[string], next func() []fwk.NodeInfo) (found bool, rounds int) {
	for !found && rounds < maxRounds {
		few := next()
		if len(few) == 0 {
			break
		}
		rounds++
		for _, info := range few {
			if s.Framework.RunFilterPluginsWithNominatedPods(ctx, state, pod, info).IsSuccess() {
				named.Insert(info.Node().Name)
				found = true
			}
		}
	}
	return found, rounds
}

// RunPreScorePlugins implements framework.Framework. Plugins that score a node relative to all
// feasible nodes see all nodes that probably accept the pod (weighed), not only the named nodes.
func (s *search) RunPreScorePlugins(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	if s.weighed != nil {
		nodes = s.weighed
	}
	return s.Framework.RunPreScorePlugins(ctx, state, pod, nodes)
}

// RunFilterPluginsWithNominatedPods implements framework.Framework. Named nodes have already passed
// Filter. If a node must report first, no other plugin is called for it.
func (s *search) RunFilterPluginsWithNominatedPods(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, info fwk.NodeInfo) *fwk.Status {
	if s.named.Has(info.Node().Name) {
		return nil
	}
	if s.waits != nil && len(s.NominatedPodsForNode(info.Node().Name)) == 0 {
		if status := s.waits(ctx, info); status != nil {
			return status
		}
	}
	return s.Framework.RunFilterPluginsWithNominatedPods(ctx, state, pod, info)
}
