package gang

import (
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	volcano "github.com/berth-dev/berth/api/scheduling/volcano/v1beta1"
	"github.com/berth-dev/berth/internal/amounts"
	"github.com/berth-dev/berth/internal/gangs"
	"github.com/berth-dev/berth/internal/wire"
)

// group is a gang and its pods. The book's lock protects it.
type group struct {
	key     wire.GangKey
	members map[types.UID]*member
	sums

	// spec is the gang's specification. wrong is the error if the specification is unknown or not
	// supported.
	spec  wire.Gang
	wrong error
	// object is the resource version of the API object from which spec was read; "" means that no
	// object is known.
	object string
	// changes counts changes of the members and of the specification. fresh is the value of changes
	// at the last successful request for the object. confirming means that a request for the object
	// is running.
	changes, fresh uint64
	confirming     bool

	// Groups.on applies events to Progress.
	gangs.Progress
	// plan is the reserved plan, or nil. It is set while Progress.Planned returns true.
	plan *planned
	// again is the time of the next check of the group, and timer starts the check. If no check is
	// scheduled, again is zero and timer is nil.
	timer clock.Timer
	again time.Time
	// deletions counts consecutive failed requests to delete members, and reads counts consecutive
	// failed requests to read the object. Each failure lengthens the pause before the next request.
	deletions, reads retry
	// letIn means that this process has admitted the group, or that the phase of the object shows
	// the admission.
	letIn bool
	// shut is the reason why a group that lacks pods is not admitted yet, or "".
	shut string
	// kept has the nodes that are kept for members, by UID, while evicted pods leave the nodes.
	kept map[types.UID]kept
	// told is the last information about the group that was written to the API. The teller's lock
	// protects it.
	told told
}

type member struct {
	pod *corev1.Pod
	// claims is the membership that the pod's own annotations and labels declare. says is the
	// membership that applies (gangs.PartOf). wrong is the error if the declaration cannot be
	// parsed.
	claims, says wire.Membership
	wrong        error
	// bound is the time when this process first saw the pod with a node or bound the pod, or zero.
	bound time.Time
	// posted means that this process has written the pod's Binding to node, possibly before the
	// watch shows the node.
	posted bool
	node   string
	// sworn means that the pod's Binding names the gang. Only sworn members are deleted when their
	// gang misses its deadline.
	sworn bool
	// summed is the member's part of the group's sums. asks stores the result of takes; nil means
	// that takes has not been called yet.
	summed part
	asks   amounts.List
	// Wait determines how long a late member that did not fit must wait. nominated is the node that
	// is kept for the member while evicted pods leave the node, or "".
	gangs.Wait
	nominated string
	// marked means that this process has written wire.GangWholeCondition into the pod, possibly
	// before the watch shows the condition.
	marked bool
	// at is the member's position in sums.line, counted from 1, or 0 if it is not in the line.
	at int
	// parted means that the scheduler's watch no longer shows the pod, which may have ended or be
	// gone.
	parted bool
}

func (m *member) placed() bool { return m.posted || m.pod.Spec.NodeName != "" }

func (m *member) active() bool { return gangs.Active(m.pod) }

// pending reports whether the pod is active, has no scheduling gate and is not placed.
func (m *member) pending() bool { return gangs.Waits(m.pod, m.placed()) }

// lacks describes how many members are missing if the sum of the counts does not reach the minimum.
// Otherwise it returns "".
func (g *group) lacks(counts ...*gangs.Count) string { return gangs.Lacks(&g.spec, counts...) }

// settled reports whether enough members for the minimum have nodes or have succeeded. If spec.Once
// is set, it is enough that the group was whole at some time.
func (g *group) settled() bool {
	return g.wrong == nil && gangs.Enough(&g.spec, &g.done, g.Whole)
}

// blocked returns the reason why the group cannot be tried even if resources are free, or "".
func (g *group) blocked() string {
	if g.wrong != nil {
		return g.wrong.Error()
	}
	if err := g.mates(); err != nil {
		return err.Error()
	}
	if lack := g.lacks(&g.waiting, &g.done); lack != "" && !(g.spec.Once && g.Whole) {
		return g.key.String() + " is not complete: " + lack
	}
	return ""
}

// blockedBy returns the reason of blocked, and adds the text of missing.
func (g *group) blockedBy() string {
	why := g.blocked()
	if missing := g.missing(); missing != "" {
		why += "; " + missing
	}
	return why
}

// missing returns the text of gangs.Missing if the group lacks pods for its minimum, and otherwise
// "".
func (g *group) missing() string {
	if g.wrong != nil || g.mates() != nil || g.blocked() == "" {
		return ""
	}
	return gangs.Missing(g.pods())
}

// maxStuck is the number of members up to which conditions checks if they wait for each other. The
// check reads all members, and larger gangs often have pods that are still being created.
const maxStuck = 8

func (g *group) conditions() *gangs.Conditions {
	c := &gangs.Conditions{
		Members: len(g.members), Waiting: g.waiting.All, Blocked: g.blocked(), Settled: g.settled(),
		Stale: g.fresh < g.changes || g.parted > 0, Disagree: !g.agree(),
	}
	c.Stuck = c.Blocked != "" && c.Members <= maxStuck && gangs.Ordered(g.pods()) != ""
	return c
}

// mates returns an error if the members' declarations are wrong or contradict each other.
func (g *group) mates() error {
	if g.agree() {
		return nil
	}
	if g.wrongs > 0 {
		for _, m := range g.members {
			if m.active() && m.wrong != nil {
				return m.wrong
			}
		}
	}
	return wire.CheckMates(g.activePods())
}

func (g *group) pods() []*corev1.Pod {
	pods := make([]*corev1.Pod, 0, len(g.members))
	for _, m := range g.members {
		pods = append(pods, m.pod)
	}
	return pods
}

func (g *group) activePods() []*corev1.Pod {
	return slices.DeleteFunc(g.pods(), func(pod *corev1.Pod) bool { return !gangs.Active(pod) })
}

// pending returns the pending members, in the order of gangs.Compare.
func (g *group) pending() []*member {
	var out []*member
	for _, m := range g.members {
		if m.pending() {
			out = append(out, m)
		}
	}
	slices.SortFunc(out, func(a, b *member) int { return gangs.Compare(a.pod, b.pod) })
	return out
}

// atOnce returns the members that are planned together: all pending members, or wire.MaxGang of
// them if there are more. Among these are always the members that the tasks' minimums need.
func (g *group) atOnce() []*member {
	left := g.needed()
	return gangs.Together(g.pending(), func(m *member) string { return m.says.Task }, wire.MaxGang, left.Tasks)
}

// asksOf reports whether the pod's place depends on other members, because the pod or a placed
// member has wishes about the NUMA nodes of other members.
func (g *group) asksOf(pod *corev1.Pod) bool {
	return g.asking > 0 && (wire.AsksMates(pod) || slices.ContainsFunc(g.seated(), wire.AsksMates))
}

// seated returns the active pods that have nodes. The field spec.nodeName of each is set, even if
// the watch has not shown the node yet.
func (g *group) seated() (pods []*corev1.Pod) {
	for _, m := range g.members {
		switch pod := m.pod; {
		case !m.placed() || !m.active():
		case pod.Spec.NodeName != "":
			pods = append(pods, pod)
		default:
			pod = pod.DeepCopy()
			pod.Spec.NodeName = m.node
			pods = append(pods, pod)
		}
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return pods
}

// needed returns the number of members that must still get nodes together.
func (g *group) needed() gangs.Count { return gangs.Needed(&g.spec, &g.done) }

// standing is the content of the status of a group.
type standing struct {
	phase                      volcano.PodGroupPhase
	running, succeeded, failed int32
	// lacking is the reason why the group waits: missing capacity, missing pods (gangs.Missing), a
	// closed queue, or the reason in group.shut. It is "" if the group does not wait for one of
	// these reasons.
	lacking string
	// fewPods means that lacking is about missing pods.
	fewPods bool
}

// told records the events and the status of a group that were written to the API. The teller's lock
// protects it.
type told struct {
	// writing means that a write of the status is scheduled or running. outdated means that
	// tellStatus has been called since that write was scheduled or began.
	writing, outdated bool
	// status is the last written status. version is the version of the object after that write, or
	// "".
	status  standing
	version string
	// writes counts failed writes.
	writes retry
	// trouble is the text of the last event about a problem, or "" if the problem is over.
	trouble string
}

type retry struct{ failures int }

// pause records a failure, and returns the time until the next request: gangs.FirstPause, and then
// twice as long after each failure, up to lastRetry.
func (r *retry) pause() time.Duration {
	r.failures++
	return gangs.Doubled(r.failures-1, lastRetry)
}

// lastRetry is the longest pause before a request to the API server is repeated.
const lastRetry = 30 * time.Second

// newer reports whether resource version a is later than b. It returns true if the versions cannot
// be compared.
func newer(a, b string) bool {
	x, err := strconv.ParseUint(a, 10, 64)
	y, wrong := strconv.ParseUint(b, 10, 64)
	return err != nil || wrong != nil || x > y
}

// kept is a node that is kept for a member while evicted pods leave the node. The scheduling queue
// records the member as nominated to the node, so that pods of the same or a lower priority do not
// get the place.
type kept struct {
	pod  *corev1.Pod
	node string
	// shows means that the pod's status has, or will have, the nomination. shows is set only for
	// the leader, which PostFilter nominates. The nominations of other members exist only in the
	// scheduling queue.
	shows bool
}

// state returns the stage of the group. The caller holds the lock.
func (g *group) state() gangs.Stage {
	facts := gangs.Facts{
		Spec: &g.spec, Pods: len(g.members), Ended: g.ended, Waiting: &g.waiting, Done: &g.done,
		Wrong: g.wrong != nil || g.mates() != nil, Was: g.Whole, Planned: g.Planned(),
	}
	return facts.Stage()
}

// placeOf returns a member's place in the plan, or nil.
func (g *group) placeOf(uid types.UID) *place {
	if g == nil || g.plan == nil {
		return nil
	}
	return g.plan.by[uid]
}
