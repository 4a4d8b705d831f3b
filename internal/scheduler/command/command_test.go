package command

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	kubescheduler "k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// profile is one of a scheduler with 200 nodes.
type profile struct {
	framework.Framework
	fwk.SharedLister
	fwk.NodeInfoLister
	percentage *int32
	err        error
}

func (p *profile) PercentageOfNodesToScore() *int32       { return p.percentage }
func (p *profile) SnapshotSharedLister() fwk.SharedLister { return p }
func (p *profile) NodeInfos() fwk.NodeInfoLister          { return p }
func (p *profile) List() ([]fwk.NodeInfo, error)          { return make([]fwk.NodeInfo, 200), p.err }

// TestLookingFurther: kube-scheduler is handed the profile with the percentage for the pod. What
// the profile says comes before what holds for all profiles.
func TestLookingFurther(t *testing.T) {
	seven, nine := int32(7), int32(9)
	for _, tc := range []struct {
		name        string
		global, own *int32
		said        int32 // what Look is told
		answer      int32
		want        *int32 // nil: as the profile has it
	}{
		{"nothing is set", nil, nil, 0, 60, ptr(60)},
		{"all profiles", &seven, nil, 7, 60, ptr(60)},
		{"this profile", &seven, &nine, 9, 60, ptr(60)},
		{"as it is", &seven, &nine, 9, 9, &nine},
		{"as it is for all", &seven, nil, 7, 7, nil},
	} {
		var got *int32
		next := func(_ context.Context, p framework.Framework, _ fwk.CycleState, _ *framework.QueuedPodInfo) (kubescheduler.ScheduleResult, error) {
			got = p.PercentageOfNodesToScore()
			return kubescheduler.ScheduleResult{SuggestedHost: "n"}, nil
		}
		look := func(_ *corev1.Pod, all int, set int32) int32 {
			if all != 200 || set != tc.said {
				t.Errorf("%s: %d nodes, %d percent", tc.name, all, set)
			}
			return tc.answer
		}
		pod := &framework.QueuedPodInfo{PodInfo: &framework.PodInfo{Pod: &corev1.Pod{}}}
		result, err := lookingFurther(next, look, tc.global)(t.Context(), &profile{percentage: tc.own}, nil, pod)
		if err != nil || result.SuggestedHost != "n" {
			t.Errorf("%s: %+v, %v", tc.name, result, err)
		}
		if (got == nil) != (tc.want == nil) || got != nil && *got != *tc.want {
			t.Errorf("%s: the percentage is %v, want %v", tc.name, got, tc.want)
		}
		failing := &profile{err: errors.New("no snapshot")}
		if _, err := lookingFurther(next, look, tc.global)(t.Context(), failing, nil, pod); err == nil {
			t.Errorf("%s: placed without nodes", tc.name)
		}
	}
}

func ptr(n int32) *int32 { return &n }
