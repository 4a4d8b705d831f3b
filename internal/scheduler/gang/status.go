package gang

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/klog/v2"

	sigs "github.com/berth-dev/berth/api/scheduling/sigs/v1alpha1"
	volcano "github.com/berth-dev/berth/api/scheduling/volcano/v1beta1"
	"github.com/berth-dev/berth/internal/gangs"
	"github.com/berth-dev/berth/internal/wire"
)

// teller writes events and the status of groups and pods, and deletes members. The teller's lock
// protects group.told. A caller that holds the book's lock may take the teller's lock, but not the
// reverse.
type teller struct {
	book *book
	mu   sync.Mutex
}

// statusPause is the time between a change of a group and the write of its status. The write
// includes all changes during this time.
const statusPause = 200 * time.Millisecond

// tellStatus schedules a write of the group's status or, if the gang has no object, of its pods'
// conditions. It does nothing if this process does not lead.
func (t *teller) tellStatus(g *group) {
	t.book.mu.Lock()
	synced := t.book.synced
	t.book.mu.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case g.told.writing:
		g.told.outdated = true
	case t.book.Client != nil && synced && t.book.Lead.Leads():
		t.tellSoon(g)
	}
}

// tellSoon schedules a write of the group's status after statusPause. The caller holds the teller's
// lock.
func (t *teller) tellSoon(g *group) {
	g.told.writing = true
	t.book.callAt(t.book.Clock.Now().Add(statusPause), func() { t.writeStatus(g) })
}

// writeStatus writes the status of a group. While it runs, told.writing is set, so that only one
// write runs at a time.
func (t *teller) writeStatus(g *group) {
	t.book.mu.Lock()
	t.mu.Lock()
	g.told.outdated = false
	s, marks := g.standing(), g.marks()
	at, left := t.book.groups[g.key], g.leftBehind(s)
	known, key, uid := g.object != "" && (at == g || at == nil && left) && !g.says(s), g.key, g.spec.UID
	t.mu.Unlock()
	t.book.mu.Unlock()
	ctx, cancel := context.WithTimeout(klog.NewContext(context.Background(), t.book.Logger), requestTimeout)
	defer cancel()
	var err error
	switch {
	case !key.Source.HasObject():
		err = t.mark(ctx, marks)
	case known && t.book.Objects != nil:
		var as string
		if at == nil {
			var now wire.Gang
			if now, err = t.book.Objects.Read(ctx, key); err != nil || now.UID != uid {
				break // the object is gone, or another object has its name
			}
		}
		if as, err = t.book.Objects.Write(ctx, key, s); err == nil {
			t.mu.Lock()
			g.told.status, g.told.version = s, as
			t.mu.Unlock()
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	g.told.writing = false
	switch {
	case err != nil && !isGone(err):
		t.book.Logger.Info("Status of a gang cannot be written, will try again", "gang", key, "err", err)
		g.told.writing = true // the next write includes changes until then
		t.book.callAt(t.book.Clock.Now().Add(g.told.writes.pause()), func() { t.writeStatus(g) })
		return
	case g.told.outdated:
		t.tellSoon(g)
	}
	g.told.writes = retry{}
}

// says reports whether the group's object already has this status: Berth has written s, and the
// watch shows no later change of the object. The caller holds the locks of the book and the teller.
func (g *group) says(s standing) bool {
	return g.told.version != "" && g.told.status == s && (g.object == g.told.version || !newer(g.object, g.told.version))
}

// leftBehind reports whether the group has lost its last member and its status must show this. It
// returns false for a completed group and for a group that was not admitted. The caller holds the
// locks of the book and the teller.
func (g *group) leftBehind(s standing) bool {
	completed := g.told.status.phase == volcano.PodGroupCompleted || g.spec.Phase == string(volcano.PodGroupCompleted)
	return len(g.members) == 0 && s.phase == volcano.PodGroupInqueue && !completed
}

// standing returns the current content of the status. The caller holds the locks of the book and
// the teller.
func (g *group) standing() (s standing) {
	for _, m := range g.members {
		switch m.pod.Status.Phase {
		case corev1.PodRunning:
			s.running++
		case corev1.PodSucceeded:
			s.succeeded++
		case corev1.PodFailed:
			s.failed++
		}
	}
	ended := int(s.succeeded + s.failed)
	switch settled := g.settled(); {
	case g.Whole && ended > 0 && ended == len(g.members):
		s.phase = volcano.PodGroupCompleted
	case settled, g.replacing():
		s.phase = volcano.PodGroupRunning
	case g.Whole && g.done.All > 0:
		s.phase = volcano.PodGroupUnknown
	case g.letIn || len(g.spec.Resources) == 0:
		s.phase = volcano.PodGroupInqueue
	default:
		s.phase = volcano.PodGroupPending
	}
	switch {
	case g.settled():
	case g.Lacking:
		s.lacking = strings.TrimPrefix(g.told.trouble, "does not fit: ")
	case g.told.trouble != "" && g.missing() != "":
		s.lacking, s.fewPods = g.blockedBy(), true
	default:
		s.lacking = g.shut
	}
	return s
}

// replacing reports whether the phase Running, which the object has, stays right although members
// are missing for the minimum: the missing members are still being deleted, or wait for a node and
// no attempt has found too little capacity yet. With the phase Unknown, the controller of a Job may
// restart the Job. The caller holds the locks of the book and the teller.
func (g *group) replacing() bool {
	var leaving gangs.Count
	for _, m := range g.members {
		if m.placed() && lifeOf(m.pod) == lifeLeaving {
			leaving.Add(m.says.Task, 1)
		}
	}
	last := cmp.Or(g.told.status.phase, volcano.PodGroupPhase(g.spec.Phase))
	return last == volcano.PodGroupRunning && g.done.All+leaving.All > 0 && !g.Lacking &&
		g.wrong == nil && g.mates() == nil && g.lacks(&g.waiting, &g.done, &leaving) == ""
}

// maxMarks is the number of members that get wire.GangWholeCondition if their gang has no object.
// If one of these pods is deleted, the other still shows that the gang was whole.
const maxMarks = 2

// marks returns the members that must get wire.GangWholeCondition. The caller holds the book's
// lock.
func (g *group) marks() (out []*member) {
	if !g.Whole || g.key.Source.HasObject() {
		return nil
	}
	have := 0
	for _, m := range g.members {
		switch {
		case m.pod.Spec.NodeName == "" || !m.active():
		case m.marked || wire.GangWasWhole(m.pod):
			have++
		default:
			out = append(out, m)
		}
	}
	slices.SortFunc(out, func(a, b *member) int { return strings.Compare(a.pod.Name, b.pod.Name) })
	return out[:min(len(out), max(0, maxMarks-have))]
}

func (t *teller) mark(ctx context.Context, members []*member) error {
	for _, m := range members {
		t.book.mu.Lock()
		pod := m.pod
		t.book.mu.Unlock()
		err := t.book.patchCondition(ctx, pod, corev1.PodCondition{
			Type: wire.GangWholeCondition, Status: corev1.ConditionTrue,
			Reason: "GangWhole", Message: "the gang has had nodes for its minimum number of pods",
		})
		if err != nil && !isGone(err) {
			return err
		}
		t.book.mu.Lock()
		m.marked = true
		t.book.mu.Unlock()
	}
	return nil
}

// tellMates writes the condition PodScheduled=False (Unschedulable) into every other pending member
// of a group that does not fit. kube-scheduler writes the condition only into the leader, but
// autoscalers count the pods that have the condition.
func (t *teller) tellMates(g *group) {
	leader, untold := t.untold(g)
	for _, pod := range untold {
		t.book.mu.Lock()
		still := g.LacksRoom(g.conditions())
		t.book.mu.Unlock()
		if !still {
			return
		}
		if err := t.tellMate(pod, g.key.String()+" does not fit; the condition of pod "+leader.pod.Name+" says why"); err != nil && !isGone(err) {
			t.book.Logger.V(2).Info("Cannot write into a pod that its gang does not fit", "pod", klog.KObj(pod), "err", err)
			return // the next attempt writes again
		}
	}
}

// untold returns the gang's leader, and the other pending pods whose condition PodScheduled does
// not have the reason Unschedulable yet. It returns no pods if the gang does not lack room.
func (t *teller) untold(g *group) (leader *member, pods []*corev1.Pod) {
	t.book.mu.Lock()
	defer t.book.mu.Unlock()
	leader = g.leader()
	if leader == nil || !g.LacksRoom(g.conditions()) {
		return leader, nil
	}
	for _, m := range g.members {
		if m.pending() && m != leader && wire.Unscheduled(m.pod).Reason != corev1.PodReasonUnschedulable {
			pods = append(pods, m.pod)
		}
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return leader, pods
}

func (t *teller) tellMate(pod *corev1.Pod, why string) error {
	ctx, cancel := context.WithTimeout(klog.NewContext(context.Background(), t.book.Logger), requestTimeout)
	defer cancel()
	return t.book.patchCondition(ctx, pod, corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
		Reason: corev1.PodReasonUnschedulable, Message: "Berth: " + why,
	})
}

// patchCondition writes a condition into the status of a pod, with the current time as the
// transition time.
func (o *Options) patchCondition(ctx context.Context, pod *corev1.Pod, c corev1.PodCondition) error {
	c.LastTransitionTime = metav1.NewTime(o.Clock.Now())
	return o.patchStatus(ctx, pod, map[string]any{"conditions": []corev1.PodCondition{c}})
}

// patchStatus patches the status of the pod. It fails if another pod now has the name.
func (o *Options) patchStatus(ctx context.Context, pod *corev1.Pod, status map[string]any) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID}, "status": status})
	if err != nil {
		return err
	}
	_, err = o.Client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

// Write implements Objects.
func (o *APIObjects) Write(ctx context.Context, key wire.GangKey, s standing) (string, error) {
	object, err := o.fetch(ctx, key)
	if err != nil {
		return "", err
	}
	var status *groupStatus
	version := ""
	switch group := object.(type) {
	case *volcano.PodGroup:
		status, version = s.ofVolcano(group, metav1.NewTime(o.groups.book.Clock.Now())), group.ResourceVersion
	case *sigs.PodGroup:
		status, version = s.ofSigs(group), group.ResourceVersion
	}
	if status == nil {
		return version, nil
	}
	return o.writeStatus(ctx, key, object.(metav1.Object).GetUID(), *status)
}

// ofVolcano returns the status to write for a PodGroup of Volcano, or nil if nothing has changed.
// It changes only the conditions Unschedulable and Scheduled, which Volcano's own scheduler also
// sets.
func (s *standing) ofVolcano(g *volcano.PodGroup, now metav1.Time) *groupStatus {
	conditions := slices.Clone(g.Status.Conditions)
	set := func(kind volcano.PodGroupConditionType, status corev1.ConditionStatus, reason, message string) (changed bool) {
		i := slices.IndexFunc(conditions, func(c volcano.PodGroupCondition) bool { return c.Type == kind })
		if i < 0 && status != corev1.ConditionTrue || i >= 0 && conditions[i].Status == status && conditions[i].Message == message {
			return false
		}
		c := volcano.PodGroupCondition{Type: kind, Status: status, TransitionID: string(uuid.NewUUID()), LastTransitionTime: now, Reason: reason, Message: message}
		if i < 0 {
			conditions = append(conditions, c)
		} else {
			conditions[i] = c
		}
		return true
	}
	changed := false
	switch {
	case s.fewPods:
		changed = set(volcano.PodGroupUnschedulableType, corev1.ConditionTrue, "NotEnoughTasks", s.lacking)
	case s.lacking != "":
		changed = set(volcano.PodGroupUnschedulableType, corev1.ConditionTrue, "NotEnoughResources", s.lacking)
	default:
		changed = set(volcano.PodGroupUnschedulableType, corev1.ConditionFalse, "", "")
	}
	if s.phase == volcano.PodGroupRunning {
		changed = set(volcano.PodGroupScheduled, corev1.ConditionTrue, "tasks in gang are ready to be scheduled", "") || changed
	}
	if !changed && s.phase == g.Status.Phase && s.running == g.Status.Running && s.succeeded == g.Status.Succeeded && s.failed == g.Status.Failed {
		return nil
	}
	return &groupStatus{Phase: string(s.phase), Running: s.running, Succeeded: s.succeeded, Failed: s.failed, Conditions: conditions}
}

// sigsPhases maps the phases of Volcano's PodGroups to those of the PodGroups of scheduler-plugins.
var sigsPhases = map[volcano.PodGroupPhase]sigs.PodGroupPhase{
	volcano.PodGroupPending: sigs.PodGroupPending, volcano.PodGroupInqueue: sigs.PodGroupScheduling, volcano.PodGroupRunning: sigs.PodGroupRunning,
	volcano.PodGroupUnknown: sigs.PodGroupUnknown, volcano.PodGroupCompleted: sigs.PodGroupFinished,
}

// ofSigs returns the status to write for a PodGroup of scheduler-plugins, or nil if nothing has
// changed.
func (s *standing) ofSigs(g *sigs.PodGroup) *groupStatus {
	phase := sigsPhases[s.phase]
	if phase == g.Status.Phase && s.running == g.Status.Running && s.succeeded == g.Status.Succeeded && s.failed == g.Status.Failed {
		return nil
	}
	return &groupStatus{Phase: string(phase), Running: s.running, Succeeded: s.succeeded, Failed: s.failed}
}

// String is for logs.
func (s standing) String() string { return fmt.Sprintf("%s, %d running", s.phase, s.running) }

// tell writes an event about the group, unless why is the text of its last event. If why is "",
// tell only forgets the last event. The caller holds the book's lock.
func (t *teller) tell(g *group, pod *corev1.Pod, why string) {
	t.mu.Lock()
	was := g.told.trouble
	if t.book.Lead.Leads() || why == "" {
		g.told.trouble = why
	}
	t.mu.Unlock()
	if why == was || why == "" || !t.book.Lead.Leads() {
		return
	}
	t.book.Events.Eventf(g.reference(pod), nil, corev1.EventTypeWarning, "GangNotPlaced", "Scheduling", "%s", why)
}
