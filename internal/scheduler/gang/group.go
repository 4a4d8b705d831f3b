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
	// sums are over members: groups may have many.
	sums

	// spec is the gang's specification. wrong is the error if it is not known or cannot be served.
	spec  wire.Gang
	wrong error
	// object is the version of the object that spec was read from; "" for none.
	object string
	// changes counts new members and new versions of the object. fresh is the value of changes at
	// the last request for the object; confirming: a request is running.
	changes, fresh uint64
	confirming     bool

	// Progress is the gang's progress. Groups.on changes it.
	gangs.Progress
	// plan is the reserved plan, if Progress shows one.
	plan *planned
	// timer checks the group again at the time again, or never if it is zero.
	timer clock.Timer
	again time.Time
	// The requests to the API server that fail are repeated, less and less often.
	deletions, reads retry
	// letIn means that it need not wait for its named resources. Its phase shows this.
	letIn bool
	// shut is the reason why it is not let in while pods are missing, or "".
	shut string
	// kept are the nodes that are kept for members while others leave them, by UID.
	kept map[types.UID]kept
	// told has what was last reported about it. The teller's lock protects it.
	told told
}

// member is a pod of a group.
type member struct {
	pod *corev1.Pod
	// claims is the pod's own declaration of its gang, and wrong the error if that cannot be
	// parsed. says is the declaration that counts.
	claims, says wire.Membership
	wrong        error
	// bound is the time when this process first saw it with a node, by its own clock, or zero.
	bound time.Time
	// posted: its Binding to that node was written, whether the API has shown it or not.
	posted bool
	node   string
	// sworn means that its Binding names the gang. Only such members are deleted.
	sworn bool
	// summed is its part of the group's sums, and asks its request; nil means that the request was
	// not computed.
	summed part
	asks   amounts.List
	// Wait is the wait of a pod that came after its gang and did not fit. nominated is the node
	// that is kept for it while others leave it, or "".
	gangs.Wait
	nominated string
	// marked: it has been given the wire.GangWholeCondition, whether the API has shown it or not.
	marked bool
	// at is its place in the group's line, counted from 1; 0: it is in none.
	at int
	// parted: the scheduler's watch shows it no more, and it may have ended or be gone.
	parted bool
}

func (m *member) placed() bool { return m.posted || m.pod.Spec.NodeName != "" }

// active reports whether the pod counts: it has not ended and is not being deleted.
func (m *member) active() bool { return gangs.Active(m.pod) }

// pending reports whether the pod waits for a node, and nothing but its group holds it.
func (m *member) pending() bool { return gangs.Waits(m.pod, m.placed()) }

// lacks returns how far a count is from the minimum; "" when it is reached.
func (g *group) lacks(counts ...*gangs.Count) string { return gangs.Lacks(&g.spec, counts...) }

// settled reports whether the minimum has nodes, or no longer needs them.
func (g *group) settled() bool {
	return g.wrong == nil && gangs.Enough(&g.spec, &g.done, g.Whole)
}

// blocked describes why the group cannot be tried, whatever room there is, or returns "".
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

// conditions returns the state of the members and the object.
func (g *group) conditions() *gangs.Conditions {
	return &gangs.Conditions{
		Members: len(g.members), Waiting: g.waiting.All, Blocked: g.blocked(), Settled: g.settled(),
		Stale: g.fresh < g.changes || g.parted > 0, Disagree: !g.agree(),
	}
}

// mates returns an error about the members, or nil.
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

// pods returns the pods of the members.
func (g *group) pods() []*corev1.Pod {
	pods := make([]*corev1.Pod, 0, len(g.members))
	for _, m := range g.members {
		pods = append(pods, m.pod)
	}
	return pods
}

// activePods are the pods of the members that count.
func (g *group) activePods() []*corev1.Pod {
	return slices.DeleteFunc(g.pods(), func(pod *corev1.Pod) bool { return !gangs.Active(pod) })
}

// pending returns the members that want a node, by age and name.
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

// atOnce returns the members that are planned together: all that want a node, or the first of them
// if there are more than a gang may need. They include those that tasks need.
func (g *group) atOnce() []*member {
	left := g.needed()
	return gangs.Together(g.pending(), func(m *member) string { return m.says.Task }, wire.MaxGang, left.Tasks)
}

// asksOf reports whether the pod's place depends on its mates: the pod has wishes about them, or a
// placed mate has wishes about it.
func (g *group) asksOf(pod *corev1.Pod) bool {
	return g.asking > 0 && (wire.AsksMates(pod) || slices.ContainsFunc(g.seated(), wire.AsksMates))
}

// seated returns the pods of the members with nodes, with these nodes.
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

// standing is the content of a group's status.
type standing struct {
	phase                      volcano.PodGroupPhase
	running, succeeded, failed int32
	// lacking explains which capacity is missing; "" if none is, or if this is unknown.
	lacking string
}

// told has what was last reported about a group.
type told struct {
	// writing: its status will be written, or is being written; outdated: it has changed since.
	writing, outdated bool
	// status is the last written status. version is the version of the object with this status, or
	// "".
	status  standing
	version string
	// writes are the failed writes.
	writes retry
	// trouble is the last problem for which an event was written.
	trouble string
}

// retry counts attempts in a row that have failed.
type retry struct{ failures int }

// pause records a failure, and returns the waiting time, which doubles each time.
func (r *retry) pause() time.Duration {
	r.failures++
	return gangs.Doubled(r.failures-1, lastRetry)
}

// lastRetry is the longest pause between two attempts to ask the API server for the same.
const lastRetry = 30 * time.Second

// newer reports whether a resource version is later than another. What cannot be compared is.
func newer(a, b string) bool {
	x, err := strconv.ParseUint(a, 10, 64)
	y, wrong := strconv.ParseUint(b, 10, 64)
	return err != nil || wrong != nil || x > y
}

// kept is a node that is kept for a member while others leave it. The scheduling queue has the
// member nominated there, and no pod of its priority or below gets the place.
type kept struct {
	pod  *corev1.Pod
	node string
	// shows: the pod's status has the nomination. This is only true for the leader, which
	// PostFilter nominated; other nominations are only in the scheduling queue.
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

// placeOf is a member's place in the plan; nil if it has none.
func (g *group) placeOf(uid types.UID) *place {
	if g == nil || g.plan == nil {
		return nil
	}
	return g.plan.by[uid]
}
