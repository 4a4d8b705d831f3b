package gang

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/klog/v2"

	sigs "github.com/berth-dev/berth/api/scheduling/sigs/v1alpha1"
	volcano "github.com/berth-dev/berth/api/scheduling/volcano/v1beta1"
	"github.com/berth-dev/berth/internal/wire"
)

// statusPause is how long changes of a group are collected before its status is written.
const statusPause = 200 * time.Millisecond

// standing is what a group's status tells.
type standing struct {
	phase                      volcano.PodGroupPhase
	running, succeeded, failed int32
	// lacking says why capacity is missing; "" when it is not, or nobody knows.
	lacking string
}

// tellStatus arranges for the status of a group to be written soon. Gangs without an object have
// marks instead.
func (gs *Groups) tellStatus(g *group) {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	if g.telling {
		g.outdated = true
		return
	}
	if gs.Client == nil || !gs.synced || !gs.Lead.Leads() {
		return
	}
	gs.tellSoon(g)
}

// tellSoon collects changes for a moment. The caller holds the lock.
func (gs *Groups) tellSoon(g *group) {
	g.telling = true
	gs.callAt(gs.Clock.Now().Add(statusPause), func() { gs.writeStatus(g) })
}

// writeStatus writes what has changed, one write at a time for a group.
func (gs *Groups) writeStatus(g *group) {
	gs.mu.Lock()
	g.outdated = false
	s, marks := gs.standing(g), g.marks()
	known, key := g.object != "" && gs.groups[g.key] == g && !g.says(s), g.key
	gs.mu.Unlock()
	ctx, cancel := context.WithTimeout(klog.NewContext(context.Background(), gs.Logger), requestTimeout)
	defer cancel()
	var err error
	switch {
	case !key.Source.HasObject():
		err = gs.mark(ctx, marks)
	case known && gs.Objects != nil:
		var as string
		if as, err = gs.Objects.Write(ctx, key, s); err == nil {
			gs.mu.Lock()
			g.said, g.saidAs = s, as
			gs.mu.Unlock()
		}
	}
	gs.mu.Lock()
	defer gs.mu.Unlock()
	g.telling = false
	switch {
	case err != nil && !isGone(err):
		gs.Logger.Info("Status of a gang cannot be written, will try again", "gang", key, "err", err)
		g.telling = true // what changes until then is told with it
		gs.callAt(gs.Clock.Now().Add(g.writes.pause()), func() { gs.writeStatus(g) })
		return
	case g.outdated:
		gs.tellSoon(g)
	}
	g.writes = retry{}
}

// says says whether the group's object is known to say how things stand: it was written, and nobody
// has changed the object since, as far as the watch has shown.
func (g *group) says(s standing) bool {
	return g.saidAs != "" && g.said == s && (g.object == g.saidAs || !newer(g.object, g.saidAs))
}

// standing says how things stand. The caller holds the lock.
func (gs *Groups) standing(g *group) (s standing) {
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
	case settled:
		s.phase = volcano.PodGroupRunning
	case g.Whole && g.done.All > 0:
		s.phase = volcano.PodGroupUnknown
	case g.roomy || len(g.spec.Resources) == 0:
		s.phase = volcano.PodGroupInqueue
	default:
		s.phase = volcano.PodGroupPending
	}
	if g.Lacking && !g.settled() {
		s.lacking = strings.TrimPrefix(g.told, "does not fit: ")
	}
	return s
}

// maxMarks is how many members of a gang carry the wire.GangWholeCondition: a second one, should
// the first die.
const maxMarks = 2

// marks returns the members to mark. The caller holds the lock.
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

// mark gives members the wire.GangWholeCondition.
func (gs *Groups) mark(ctx context.Context, members []*member) error {
	for _, m := range members {
		gs.mu.Lock()
		pod := m.pod
		gs.mu.Unlock()
		patch, err := json.Marshal(map[string]any{
			"metadata": map[string]any{"uid": pod.UID},
			"status": map[string]any{"conditions": []corev1.PodCondition{{
				Type: wire.GangWholeCondition, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(gs.Clock.Now()),
				Reason: "GangWhole", Message: "the pod's gang had nodes for its minimum",
			}}},
		})
		if err != nil {
			return err
		}
		_, err = gs.Client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
		if err != nil && !isGone(err) {
			return err
		}
		gs.mu.Lock()
		m.marked = true
		gs.mu.Unlock()
	}
	return nil
}

// tellMates gives every member of a group that does not fit the condition which kube-scheduler
// gives its leader alone: autoscalers count the pods that have it.
func (gs *Groups) tellMates(g *group) {
	gs.mu.Lock()
	leader := g.leader()
	var untold []*corev1.Pod
	if leader != nil && g.LacksRoom(g.conditions()) {
		for _, m := range g.members {
			if m.pending() && m != leader && !isTold(m.pod) {
				untold = append(untold, m.pod)
			}
		}
	}
	gs.mu.Unlock()
	slices.SortFunc(untold, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	for _, pod := range untold {
		gs.mu.Lock()
		still := g.LacksRoom(g.conditions())
		gs.mu.Unlock()
		if !still {
			return
		}
		if err := gs.tellMate(pod, g.key.String()+" does not fit; the condition of pod "+leader.pod.Name+" says why"); err != nil && !isGone(err) {
			gs.Logger.V(2).Info("A pod cannot be told that its gang does not fit", "pod", klog.KObj(pod), "err", err)
			return // the next attempt comes
		}
	}
}

func isTold(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable
	})
}

func (gs *Groups) tellMate(pod *corev1.Pod, why string) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID},
		"status": map[string]any{"conditions": []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(gs.Clock.Now()),
			Reason: corev1.PodReasonUnschedulable, Message: "Berth: " + why,
		}}},
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(klog.NewContext(context.Background(), gs.Logger), requestTimeout)
	defer cancel()
	_, err = gs.Client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

// Write implements Objects.
func (o *APIObjects) Write(ctx context.Context, key wire.GangKey, s standing) (string, error) {
	c, err := o.client(key.Source)
	if err != nil {
		return "", err
	}
	object := sources[key.Source].make()
	if err := c.Get().Namespace(key.Namespace).Resource(groupsResource).Name(key.Name).Do(ctx).Into(object); err != nil {
		return "", err
	}
	var status *groupStatus
	version := ""
	switch group := object.(type) {
	case *volcano.PodGroup:
		status, version = s.ofVolcano(group, metav1.NewTime(o.groups.Clock.Now())), group.ResourceVersion
	case *sigs.PodGroup:
		status, version = s.ofSigs(group), group.ResourceVersion
	}
	if status == nil {
		return version, nil
	}
	return o.writeStatus(ctx, key, object.(metav1.Object).GetUID(), *status)
}

// ofVolcano returns what to write about a PodGroup of Volcano; nil where nothing has changed.
// Conditions of other types stay.
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
	if s.lacking != "" {
		changed = set(volcano.PodGroupUnschedulableType, corev1.ConditionTrue, "NotEnoughResources", s.lacking)
	} else {
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

// sigsPhases are the phases in the words of scheduler-plugins.
var sigsPhases = map[volcano.PodGroupPhase]sigs.PodGroupPhase{
	volcano.PodGroupPending: sigs.PodGroupPending, volcano.PodGroupInqueue: sigs.PodGroupScheduling, volcano.PodGroupRunning: sigs.PodGroupRunning,
	volcano.PodGroupUnknown: sigs.PodGroupUnknown, volcano.PodGroupCompleted: sigs.PodGroupFinished,
}

// ofSigs returns what to write about a PodGroup of scheduler-plugins; nil where nothing has
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
