package gangs

import (
	"math"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/internal/amounts"
	"github.com/berth-dev/berth/internal/gangfit"
)

// TestAdmissionIsChecked: invalid values are refused by name.
func TestAdmissionIsChecked(t *testing.T) {
	for want, a := range map[string]Admission{
		"": {},
		`admission.gate: "open": want resources or none`:   {Gate: "open"},
		"admission.overcommitFactor: 0.5: want 1 to 1000":  {OvercommitFactor: 0.5},
		"admission.overcommitFactor: NaN: want 1 to 1000":  {OvercommitFactor: math.NaN()},
		"admission.keepFor: 25h0m0s: want at most 24h0m0s": {KeepFor: duration(25 * time.Hour)},
	} {
		a.FillIn()
		got := ""
		if err := a.Check(); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	var a Admission
	if a.FillIn(); a.Gate != GateResources || a.OvercommitFactor != 1 || a.KeepFor.Duration != 5*time.Minute {
		t.Errorf("the defaults are %+v", a)
	}
}

// TestRoomIsOnOpenNodes: nodes that accept no pods have no room, except for some pods.
func TestRoomIsOnOpenNodes(t *testing.T) {
	for key, c := range map[string]struct {
		effect corev1.TaintEffect
		open   bool
	}{
		"node.kubernetes.io/not-ready":       {effect: corev1.TaintEffectNoSchedule},
		"node.kubernetes.io/unreachable":     {effect: corev1.TaintEffectNoExecute},
		"node.kubernetes.io/unschedulable":   {effect: corev1.TaintEffectNoSchedule},
		"ToBeDeletedByClusterAutoscaler":     {effect: corev1.TaintEffectNoSchedule},
		"karpenter.sh/disrupted":             {effect: corev1.TaintEffectNoSchedule},
		"node.kubernetes.io/memory-pressure": {effect: corev1.TaintEffectNoSchedule, open: true}, // Guaranteed pods may tolerate it
		"berth.dev/pool":                     {effect: corev1.TaintEffectNoSchedule, open: true},
		"node.kubernetes.io/disk-pressure":   {effect: corev1.TaintEffectPreferNoSchedule, open: true},
	} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
		node.Spec.Taints = []corev1.Taint{{Key: key, Effect: c.effect}}
		node.Status.Allocatable = corev1.ResourceList{"cpu": resource.MustParse("8"), "pods": resource.MustParse("9")}
		pod := &corev1.Pod{Spec: corev1.PodSpec{NodeName: "n"}}
		room := RoomOn([]*corev1.Node{node}, []*corev1.Pod{pod}, func(*corev1.Pod) gangfit.Occupant { return gangfit.Occupant{} })
		if got := room.Short(&gangfit.Claim{Asked: amounts.List{amounts.CPU: 8000, amounts.Pods: 8}}) == nil; got != c.open {
			t.Errorf("%s:%s: open %t, want %t", key, c.effect, got, c.open)
		}
	}
}

func duration(d time.Duration) (out metav1.Duration) {
	out.Duration = d
	return out
}
