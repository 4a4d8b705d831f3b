package query

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/internal/survey"
	"github.com/berth-dev/berth/internal/survey/source"
	"github.com/berth-dev/berth/internal/wire"
)

// waitingGang adds a gang to the playground: one pod for each number of GPUs.
func waitingGang(c *survey.Cluster, minimum int, counts ...string) {
	for i, count := range counts {
		p := gpus(count)
		p.Name, p.UID = fmt.Sprint("train-gang-", i), types.UID(fmt.Sprint("uid-train-gang-", i))
		p.Namespace = c.Namespace
		p.Annotations = map[string]string{wire.GangAnnotation: "train", wire.GangMinimumAnnotation: fmt.Sprint(minimum)}
		c.From.(*source.Snapshot).Pods = append(c.From.(*source.Snapshot).Pods, p)
	}
}

// TestMakeRoomForGang: room is planned for the gang's minimum, whether the gang or a member is
// named.
func TestMakeRoomForGang(t *testing.T) {
	c := owning(t)
	waitingGang(c, 2, "3", "0", "0")
	r, err := makeRoomForGang(t.Context(), c, "", "train", RoomOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Wanted) != 2 || r.Gang != "train" || r.Outcome != "found" || len(r.Moves) == 0 {
		t.Fatalf("%s, %d moves, gang %q: %+v", r.Outcome, len(r.Moves), r.Gang, r.Wanted)
	}
	carryOut(t, c, r, gpus("2"))
	plan := r.Moving()
	if len(plan.Wanted) != 2 || plan.Wanted[0].Node == "" || len(plan.Moves) != len(r.Moves) || plan.Moves[0].Pod.UID == "" {
		t.Errorf("%+v", plan)
	}
	same, err := MakeRoomFor(t.Context(), c, c.Namespace, "train-gang-2", RoomOptions{})
	if err != nil || same.Gang != "train" || !slices.Equal(same.Moves, r.Moves) {
		t.Errorf("%+v, %v", same, err)
	}
	for _, one := range []struct {
		counts []string
		want   string
	}{{[]string{"1"}, "its state is forming, so making room does not help: 1 of 2 pods are there"}, {nil, "no gang train in namespace"}} {
		c := owning(t)
		waitingGang(c, 2, one.counts...)
		if _, err := makeRoomForGang(t.Context(), c, "", "train", RoomOptions{}); err == nil || !strings.Contains(err.Error(), one.want) {
			t.Errorf("%v: %v, want %q", one.counts, err, one.want)
		}
	}
	c = owning(t)
	waitingGang(c, 1, "1")
	c.From.(*source.Snapshot).Pods[len(c.From.(*source.Snapshot).Pods)-1].Spec.NodeName = "gpu-1"
	if _, err := makeRoomForGang(t.Context(), c, "", "train", RoomOptions{}); err == nil || !strings.Contains(err.Error(), "its state is whole: want a gang with pods that wait") {
		t.Error(err)
	}
}
