package gang

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/internal/wire"
)

// group is a gang and its pods. Groups' lock protects it.
type group struct {
	key     wire.GangKey
	members map[types.UID]*member

	// spec is what is asked; wrong says why that is not known, or cannot be served.
	spec  wire.Gang
	wrong error
	// object is the version of the object that spec was read from; "" for none.
	object string
	// changes counts new members and new versions of the object; fresh is up to which of them the
	// object has been asked for. confirming: it is being asked for.
	changes, fresh uint64
	confirming     bool

	// whole: the minimum had nodes once.
	whole bool
	plan  *planned
	// failures in a row, and the moment before which nothing is tried.
	failures  int
	notBefore time.Time
	// waits says what the group waits for where it was tried in vain; stirs is how often the
	// cluster had changed then.
	waits string
	stirs uint64
	// deadline is when members that are bound are deleted, unless the group is whole; zero: none is
	// bound.
	deadline time.Time
	// roomy: the resources that it names were free once. lacking: capacity was missing at the last
	// attempt.
	roomy, lacking bool
	// telling: its status will be written.
	telling bool
	// told is the last trouble that an event was written of.
	told string
}

// member is a pod of a group.
type member struct {
	pod *corev1.Pod
	// says is what the pod says of its gang, wrong why that cannot be read.
	says  wire.Membership
	wrong error
	// bound is when the pod got its node; zero: it has none.
	bound time.Time
	// posted: its Binding was written, whether the API has shown it or not.
	posted bool
}

func (m *member) placed() bool { return m.posted || m.pod.Spec.NodeName != "" }

// active says whether the pod counts: it has not ended, and is not on its way out.
func (m *member) active() bool { return !wire.Ended(m.pod) && m.pod.DeletionTimestamp == nil }

// pending says whether the pod waits for a node, and nothing but its group holds it.
func (m *member) pending() bool {
	return !m.placed() && m.active() && len(m.pod.Spec.SchedulingGates) == 0
}

// done says whether the pod has a node, or had one and ended well.
func (m *member) done() bool {
	return m.placed() && (m.active() || m.pod.Status.Phase == corev1.PodSucceeded)
}

// count counts members of all tasks, and of each.
func (g *group) count(what func(*member) bool) (all int, tasks map[string]int) {
	tasks = map[string]int{}
	for _, m := range g.members {
		if what(m) {
			all++
			tasks[m.says.Task]++
		}
	}
	return all, tasks
}

// lacks says how far a count is from the minimum; "" when it is reached.
func (g *group) lacks(all int, tasks map[string]int) string {
	if all < g.spec.Minimum {
		return fmt.Sprintf("%d of %d pods", all, g.spec.Minimum)
	}
	for _, task := range sortedKeys(g.spec.Tasks) {
		if tasks[task] < g.spec.Tasks[task] {
			return fmt.Sprintf("%d of %d pods of task %q", tasks[task], g.spec.Tasks[task], task)
		}
	}
	return ""
}

func sortedKeys(m map[string]int) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// settled says whether the minimum has nodes.
func (g *group) settled() bool {
	all, tasks := g.count((*member).done)
	return g.wrong == nil && g.spec.Minimum > 0 && g.lacks(all, tasks) == ""
}

// hold says why no member is tried now; "" when the group is ready.
func (g *group) hold(now time.Time) string {
	if g.wrong != nil {
		return g.wrong.Error()
	}
	if err := g.mates(); err != nil {
		return err.Error()
	}
	all, tasks := g.count(func(m *member) bool { return m.pending() || m.done() })
	switch lack := g.lacks(all, tasks); {
	case lack != "":
		return g.key.String() + " is not complete: " + lack
	case g.fresh < g.changes:
		return g.key.String() + " is being asked for again"
	case now.Before(g.notBefore):
		return g.key.String() + " was tried in vain, and backs off"
	case g.waits != "":
		return g.waits
	}
	return ""
}

// mates says what is wrong with the members; nil when nothing is.
func (g *group) mates() error {
	pods := make([]*corev1.Pod, 0, len(g.members))
	for _, m := range g.members {
		switch {
		case !m.active():
		case m.wrong != nil:
			return m.wrong
		default:
			pods = append(pods, m.pod)
		}
	}
	return wire.CheckMates(pods)
}

// pending returns the members that want a node, by age and name.
func (g *group) pending() []*member {
	var out []*member
	for _, m := range g.members {
		if m.pending() {
			out = append(out, m)
		}
	}
	slices.SortFunc(out, func(a, b *member) int {
		return cmp.Or(a.pod.CreationTimestamp.Compare(b.pod.CreationTimestamp.Time), strings.Compare(a.pod.Name, b.pod.Name))
	})
	return out
}

// leader is the member whose cycle plans for all; nil for none.
func (g *group) leader() *member {
	var first *member
	for _, m := range g.members {
		if m.pending() && (first == nil || before(m.pod, first.pod)) {
			first = m
		}
	}
	return first
}

func before(a, b *corev1.Pod) bool {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name)) < 0
}

// needed is how many members must still get nodes together, of all and of each task.
func (g *group) needed() (int, map[string]int) {
	all, tasks := g.count((*member).done)
	left := make(map[string]int, len(g.spec.Tasks))
	for task, least := range g.spec.Tasks {
		left[task] = max(0, least-tasks[task])
	}
	return max(0, g.spec.Minimum-all), left
}

// The first and the longest pause after a group was tried in vain.
const (
	firstPause = time.Second
	lastPause  = 10 * time.Second
)

// backOff notes a failure, and returns how long the group is not tried.
func (g *group) backOff(now time.Time) time.Duration {
	pause := min(lastPause, firstPause<<min(g.failures, 6))
	g.failures++
	g.notBefore = now.Add(pause)
	return pause
}
