package query

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/internal/gangs"
	"github.com/berth-dev/berth/internal/moving"
	"github.com/berth-dev/berth/internal/survey"
	"github.com/berth-dev/berth/internal/wire"
)

func makeRoomForMember(ctx context.Context, b Base, pod *corev1.Pod, o RoomOptions) (*Room, error) {
	says, err := wire.ReadMembership(pod)
	if err != nil {
		return nil, fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	all, err := b.Gangs(ctx)
	if err != nil {
		return nil, err
	}
	g := all.Of(pod)
	if g == nil {
		return nil, fmt.Errorf("pod %s/%s: its gang %s no longer exists", pod.Namespace, pod.Name, says.Gang)
	}
	return MakeRoomForGang(ctx, b, g, o)
}

// MakeRoomForGang plans room for the waiting pods that a gang needs in order to start.
func MakeRoomForGang(ctx context.Context, b Base, g *survey.Gang, o RoomOptions) (*Room, error) {
	pods, err := wanting(g)
	if err != nil {
		return nil, fmt.Errorf("gang %s/%s: %w", g.Namespace, g.Name, err)
	}
	wanted := make([]Wanted, len(pods))
	for i := range pods {
		wanted[i] = Wanted{Pod: pods[i], Replicas: 1}
	}
	room, err := MakeRoom(ctx, b, wanted, o)
	if err == nil {
		room.Gang = g.Name
	}
	return room, err
}

// wanting returns the waiting pods that the gang needs in order to start, the oldest first. If the
// gang has started, it returns all waiting pods.
func wanting(g *survey.Gang) ([]*corev1.Pod, error) {
	if g.State == gangs.Wrong || g.State == gangs.Forming {
		return nil, fmt.Errorf("its state is %s, so making room does not help: %s", g.State, g.Why)
	}
	if len(g.Waiting) == 0 {
		return nil, fmt.Errorf("its state is %s: want a gang with pods that wait for a node", g.State)
	}
	if g.State == gangs.Whole {
		return g.Waiting, nil
	}
	left := gangs.Needed(&g.Spec, &g.Done)
	return gangs.Together(g.Waiting, taskOf, left.All, left.Tasks), nil
}

// Moving converts the plan to the type that package moving carries out.
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
