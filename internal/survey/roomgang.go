package survey

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/internal/moving"
	"github.com/berth-dev/berth/internal/wire"
)

// MakeRoomForGang plans room for the pods of a gang that wait: as many as it lacks to start. source
// is as in ExplainGang.
func (c *Cluster) MakeRoomForGang(ctx context.Context, source, name string, o RoomOptions) (*Room, error) {
	all, err := c.Gangs(ctx)
	if err != nil {
		return nil, err
	}
	g, err := c.gangNamed(all, source, name)
	if err != nil {
		return nil, err
	}
	return c.makeRoomForGang(ctx, g, o)
}

// makeRoomForMember plans room for the gang of a pod.
func (c *Cluster) makeRoomForMember(ctx context.Context, pod *corev1.Pod, o RoomOptions) (*Room, error) {
	says, err := wire.ReadMembership(pod)
	if err != nil {
		return nil, fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	all, err := c.Gangs(ctx)
	if err != nil {
		return nil, err
	}
	g := all.Of(pod)
	if g == nil {
		return nil, fmt.Errorf("pod %s/%s: its gang %s is gone", pod.Namespace, pod.Name, says.Gang)
	}
	return c.makeRoomForGang(ctx, g, o)
}

func (c *Cluster) makeRoomForGang(ctx context.Context, g *Gang, o RoomOptions) (*Room, error) {
	pods, err := g.wanting()
	if err != nil {
		return nil, fmt.Errorf("gang %s/%s: %w", g.Namespace, g.Name, err)
	}
	wanted := make([]Wanted, len(pods))
	for i := range pods {
		wanted[i] = Wanted{Pod: pods[i], Replicas: 1}
	}
	room, err := c.MakeRoom(ctx, wanted, o)
	if err == nil {
		room.Gang = g.Name
	}
	return room, err
}

// wanting are the pods that wait, the oldest first: as many as are lacking until the gang starts,
// or all where it has started.
func (g *Gang) wanting() ([]*corev1.Pod, error) {
	if g.State == wire.GangWrong || g.State == wire.GangForming {
		return nil, fmt.Errorf("it is %s, and no room helps: %s", g.State, g.Why)
	}
	var waiting []*corev1.Pod
	lacking, of := g.Minimum, map[string]int{}
	for task, least := range g.Tasks {
		of[task] = least
	}
	for _, pod := range g.pods {
		switch placed := pod.Spec.NodeName != ""; {
		case placed && (active(pod) || pod.Status.Phase == corev1.PodSucceeded):
			lacking--
			of[taskOf(pod)]--
		case !placed && active(pod) && len(pod.Spec.SchedulingGates) == 0:
			waiting = append(waiting, pod)
		}
	}
	if len(waiting) == 0 {
		return nil, fmt.Errorf("it is %s: want one with pods that wait for a place", g.State)
	}
	slices.SortFunc(waiting, func(a, b *corev1.Pod) int {
		switch {
		case older(a, b):
			return -1
		case older(b, a):
			return 1
		}
		return 0
	})
	if g.State == wire.GangWhole {
		return waiting, nil
	}
	return firstOf(waiting, lacking, of), nil
}

// firstOf chooses the oldest pods that are lacking, of each task and in all.
func firstOf(waiting []*corev1.Pod, lacking int, of map[string]int) []*corev1.Pod {
	chosen := make([]bool, len(waiting))
	take := func(i int) {
		chosen[i] = true
		lacking--
	}
	for i, pod := range waiting {
		if task := taskOf(pod); of[task] > 0 {
			of[task]--
			take(i)
		}
	}
	for i := range waiting {
		if !chosen[i] && lacking > 0 {
			take(i)
		}
	}
	var out []*corev1.Pod
	for i, pod := range waiting {
		if chosen[i] {
			out = append(out, pod)
		}
	}
	return out
}

func taskOf(pod *corev1.Pod) string {
	says, _ := wire.ReadMembership(pod) // what is wrong with it is the gang's Why
	return says.Task
}

// Moving is the plan, to be carried out.
func (r *Room) Moving() *moving.Plan {
	out := &moving.Plan{}
	for i := range r.Wanted {
		w := &r.Wanted[i]
		out.Wanted = append(out.Wanted, moving.Wanted{Pod: moving.Pod{Namespace: w.Namespace, Name: w.Name, UID: types.UID(w.UID)}, Node: w.Node})
	}
	for i := range r.Moves {
		m := &r.Moves[i]
		out.Moves = append(out.Moves, moving.Move{Pod: moving.Pod{Namespace: m.Namespace, Name: m.Name, UID: types.UID(m.UID)}, From: m.From, To: m.To})
	}
	return out
}
