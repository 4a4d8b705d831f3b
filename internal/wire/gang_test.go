package wire

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sigs "github.com/berth-dev/berth/api/scheduling/sigs/v1alpha1"
	volcano "github.com/berth-dev/berth/api/scheduling/volcano/v1beta1"
)

func gangPod(annotations, labels map[string]string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", Annotations: annotations, Labels: labels}}
}

func TestReadMembership(t *testing.T) {
	type set = map[string]string
	for name, c := range map[string]struct {
		annotations, labels set
		want                Membership
		err                 string
	}{
		"none":         {nil, nil, Membership{}, ""},
		"Berth's":      {set{GangAnnotation: "a", GangMinimumAnnotation: "3"}, nil, Membership{Gang: GangKey{GangOfPods, "ns", "a"}, Declaration: Declaration{Minimum: 3}}, ""},
		"Volcano's":    {set{"scheduling.k8s.io/group-name": "a", "volcano.sh/task-spec": "ps"}, nil, Membership{Gang: GangKey{GangOfVolcano, "ns", "a"}, Task: "ps"}, ""},
		"a label":      {set{"scheduling.k8s.io/group-name": "a"}, set{"volcano.sh/task-spec": "ps"}, Membership{Gang: GangKey{GangOfVolcano, "ns", "a"}, Task: "ps"}, ""},
		"both say":     {set{"scheduling.k8s.io/group-name": "a", "volcano.sh/task-spec": "ps"}, set{"volcano.sh/task-spec": "x"}, Membership{Gang: GangKey{GangOfVolcano, "ns", "a"}, Task: "ps"}, ""},
		"both names":   {set{"scheduling.k8s.io/group-name": "a", "scheduling.volcano.sh/group-name": "a"}, nil, Membership{Gang: GangKey{GangOfVolcano, "ns", "a"}}, ""},
		"sigs'":        {nil, set{sigs.PodGroupLabel: "a"}, Membership{Gang: GangKey{GangOfSigs, "ns", "a"}}, ""},
		"two gangs":    {set{"scheduling.k8s.io/group-name": "a"}, set{sigs.PodGroupLabel: "a"}, Membership{}, "one gang only"},
		"two names":    {set{"scheduling.k8s.io/group-name": "a", "scheduling.volcano.sh/group-name": "b"}, nil, Membership{}, "one gang only"},
		"no minimum":   {set{GangAnnotation: "a"}, nil, Membership{}, "this annotation next to berth.dev/gang: the number of pods of the gang that start together, from 1 to 4096"},
		"a million":    {set{GangAnnotation: "a", GangMinimumAnnotation: "1000000"}, nil, Membership{}, "the number of pods of the gang that start together, from 1 to 4096"},
		"nobody":       {set{GangAnnotation: "a", GangMinimumAnnotation: "0"}, nil, Membership{}, "the number of pods of the gang that start together, from 1 to 4096"},
		"an odd name":  {set{GangAnnotation: "A b", GangMinimumAnnotation: "1"}, nil, Membership{}, "the name of a gang"},
		"an empty one": {nil, set{sigs.PodGroupLabel: ""}, Membership{}, "the name of a gang"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := gangPod(c.annotations, c.labels)
			got, err := ReadMembership(pod)
			var wrong *FieldError
			switch {
			case c.err == "" && (err != nil || got != c.want):
				t.Errorf("got %+v, %v; want %+v", got, err, c.want)
			case c.err != "" && (!errors.As(err, &wrong) || !strings.Contains(wrong.Want, c.err) || wrong.Object != "Pod ns/p"):
				t.Errorf("got %v, want %q", err, c.err)
			}
			if InGang(pod) != (len(c.annotations)+len(c.labels) > 0) {
				t.Errorf("InGang says %t", InGang(pod))
			}
		})
	}
}

// TestAGangInAKubernetesPodGroup: kube-scheduler and Berth would each try to place the pod with its
// own group.
func TestAGangInAKubernetesPodGroup(t *testing.T) {
	pod := gangPod(map[string]string{GangAnnotation: "a", GangMinimumAnnotation: "2"}, nil)
	pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: new("b")}
	const want = `Pod ns/p: spec.schedulingGroup.podGroupName: "b": want one gang only; the pod also names gang ns/a`
	if m, err := ReadMembership(pod); err == nil || err.Error() != want || m.Gang.Name != "a" {
		t.Errorf("%+v, %v, want %s", m, err, want)
	}
	pod.Annotations = nil
	if m, err := ReadMembership(pod); err != nil || !m.Gang.IsZero() {
		t.Errorf("without annotations: %+v, %v", m, err)
	}
}

func TestReadGroups(t *testing.T) {
	seconds := int32(30)
	g, err := ReadSigsGroup(&sigs.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"},
		Spec: sigs.PodGroupSpec{MinMember: 4, ScheduleTimeoutSeconds: &seconds}, Status: sigs.PodGroupStatus{Phase: sigs.PodGroupRunning}}, GangOfSigs)
	if err != nil || g.Minimum != 4 || g.Timeout != 30*time.Second || !g.Ran || g.Key != (GangKey{GangOfSigs, "ns", "a"}) {
		t.Errorf("got %+v, %v", g, err)
	}
	for seconds, want := range map[int32]string{0: "", -1: `PodGroup ns/a: spec.scheduleTimeoutSeconds: "-1": want 0, which means the default, or more`} {
		g, err := ReadSigsGroup(&sigs.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}, Spec: sigs.PodGroupSpec{MinMember: 3, ScheduleTimeoutSeconds: &seconds}}, GangOfSigs)
		if (err == nil) != (want == "") || err != nil && err.Error() != want || g.Timeout != 0 {
			t.Errorf("scheduleTimeoutSeconds %d: got %+v, %v, want %q", seconds, g, err, want)
		}
	}
	for want, spec := range map[string]volcano.PodGroupSpec{
		"spec.minMember":         {MinMember: -1},
		"spec.minTaskMember[ps]": {MinTaskMember: map[string]int32{"ps": -1}},
		"spec.minMember: \"4097": {MinMember: 4097},
		"spec.networkTopology":   {NetworkTopology: &volcano.NetworkTopologySpec{Mode: "hard"}},
		"spec.subGroupPolicy":    {SubGroupPolicy: []volcano.SubGroupPolicySpec{{Name: "x"}}},
	} {
		_, err := ReadVolcanoGroup(&volcano.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}, Spec: spec})
		var wrong *FieldError
		if !errors.As(err, &wrong) || !strings.Contains(err.Error(), "PodGroup ns/a: "+want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	for _, read := range []func() (Gang, error){
		func() (Gang, error) {
			return ReadVolcanoGroup(&volcano.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}, Malformed: "spec.x: wrong"})
		},
		func() (Gang, error) {
			return ReadSigsGroup(&sigs.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}, Malformed: "spec.x: wrong"}, GangOfSigs)
		},
	} {
		if g, err := read(); err == nil || err.Error() != "PodGroup ns/a: spec.x: wrong" || g.Key.Name != "a" {
			t.Errorf("got %+v, %v of a malformed group", g, err)
		}
	}
	v, err := ReadVolcanoGroup(&volcano.PodGroup{Spec: volcano.PodGroupSpec{MinMember: 2, MinTaskMember: map[string]int32{"ps": 1}, Queue: "night"}})
	if v.Ignored != `shares and quotas of spec.queue "night": use Kueue above it` {
		t.Errorf("ignored: %s", v.Ignored)
	}
	if err != nil || v.Minimum != 2 || v.Tasks["ps"] != 1 || v.Ran {
		t.Errorf("got %+v, %v", v, err)
	}
}

// TestASoftTopologyIsAWish: the group is accepted, and a warning says that Berth does not look at
// the network. Other values of the mode are refused.
func TestASoftTopologyIsAWish(t *testing.T) {
	for mode, told := range map[string]string{"soft": "spec.networkTopology of mode soft", "hard": "", "": "", "sofft": ""} {
		g, err := ReadVolcanoGroup(&volcano.PodGroup{Spec: volcano.PodGroupSpec{MinMember: 2, NetworkTopology: &volcano.NetworkTopologySpec{Mode: mode}}})
		if served := told != ""; served != (err == nil) || !strings.Contains(g.Ignored, told) || served && g.Minimum != 2 {
			t.Errorf("mode %q: %+v, %v", mode, g, err)
		}
		if err != nil && !strings.Contains(err.Error(), `spec.networkTopology.mode: "`+mode+`": want soft`) {
			t.Errorf("mode %q: %v", mode, err)
		}
	}
}

// TestWhatVolcanosControllerWrites: its groups have quotas among their resources, and minima of
// tasks whose sum exceeds the group's minimum.
func TestWhatVolcanosControllerWrites(t *testing.T) {
	one := resource.MustParse("1")
	asked := corev1.ResourceList{}
	for _, name := range []string{"cpu", "memory", "pods", "nvidia.com/gpu", "count/pods", "requests.cpu", "limits.memory", "requests.nvidia.com/gpu", "limits.cpu"} {
		asked[corev1.ResourceName(name)] = one
	}
	g, err := ReadVolcanoGroup(&volcano.PodGroup{Spec: volcano.PodGroupSpec{MinMember: 3, MinResources: &asked, MinTaskMember: map[string]int32{"a": 2, "b": 2}}})
	want := corev1.ResourceList{"cpu": one, "memory": one, "pods": one, "nvidia.com/gpu": one}
	if err != nil || !equality.Semantic.DeepEqual(g.Resources, want) {
		t.Errorf("resources %v, %v, want %v", g.Resources, err, want)
	}
	if lack := g.Lacks(3, func(string) int { return 0 }); lack != "" {
		t.Errorf("a group whose minimum is below that of its tasks lacks %s", lack)
	}
	g, err = ReadVolcanoGroup(&volcano.PodGroup{Spec: volcano.PodGroupSpec{MinMember: 1, MinTaskMember: map[string]int32{"a": 5000}}})
	if lack := g.Lacks(1, func(string) int { return 0 }); err != nil || lack != "" {
		t.Errorf("a large group that begins with one pod lacks %q, %v", lack, err)
	}
	g, err = ReadVolcanoGroup(&volcano.PodGroup{Spec: volcano.PodGroupSpec{MinMember: 4, MinTaskMember: map[string]int32{"a": 2, "b": 2}}})
	if lack := g.Lacks(4, func(string) int { return 1 }); err != nil || lack != `1 of 2 pods of task "a"` {
		t.Errorf("a group whose minimum is that of its tasks lacks %q, %v", lack, err)
	}
}

func FuzzReadMembership(f *testing.F) {
	f.Add("a", "3", "b", "c")
	f.Fuzz(func(t *testing.T, gang, minimum, group, label string) {
		m, err := ReadMembership(gangPod(map[string]string{GangAnnotation: gang, GangMinimumAnnotation: minimum, volcano.GroupNameAnnotation: group}, map[string]string{sigs.PodGroupLabel: label}))
		if err == nil || m.Minimum < 0 || m.Minimum > MaxGang {
			t.Errorf("three gangs claim the pod: %+v, %v", m, err)
		}
	})
}

// TestTrimToGang: the reduced pod has the same gang, start and end as the pod.
func TestTrimToGang(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	for _, said := range []map[string]string{
		{GangAnnotation: "a", GangMinimumAnnotation: "3"},
		{volcano.GroupNameAnnotation: "a", volcano.TaskSpecAnnotation: "worker"},
		{volcano.VolcanoGroupNameAnnotation: "a"},
		{volcano.GroupNameAnnotation: "a", "label": "worker"},
		{koordinatorGang: "a", koordinatorGangMinimum: "2", koordinatorGangTimeout: "30s", koordinatorGangPolicy: onceWords[true], koordinatorGangGroups: `["ns/a","ns/b"]`},
		{GangAnnotation: "a", GangMinimumAnnotation: "three"},
		{},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u", Annotations: map[string]string{"note": long}, Labels: map[string]string{"note": "x"},
			OwnerReferences: []metav1.OwnerReference{{UID: "no controller"}, {UID: "job", Controller: new(true)}}}}
		maps.Copy(pod.Annotations, said)
		if task := said["label"]; task != "" {
			pod.Labels[volcano.TaskSpecAnnotation] = task
		}
		pod.Spec.NodeName, pod.Spec.Containers, pod.Status.Phase = "n", []corev1.Container{{Name: long}}, corev1.PodSucceeded
		pod.Annotations[BoundForAnnotation] = WriteBoundFor(pod, BoundFor{Gang: GangKey{Source: GangOfPods, Namespace: "ns", Name: "a"}, Whole: true})
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{}, {State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.Unix(7, 0)}}}}
		kept := TrimToGang(pod)
		want, wrong := ReadMembership(pod)
		got, err := ReadMembership(kept)
		if got != want || fmt.Sprint(err) != fmt.Sprint(wrong) {
			t.Errorf("%v: it says %v, %v: want %v, %v", said, got, err, want, wrong)
		}
		bound, _ := ReadBoundFor(kept)
		if wantBound, _ := ReadBoundFor(pod); bound != wantBound || !GangWasWhole(kept) || !Ended(kept) || Finished(kept) != Finished(pod) || metav1.GetControllerOf(kept).UID != "job" {
			t.Errorf("%v: %+v is left of it", said, kept)
		}
		if size := kept.Size(); size > 2048 {
			t.Errorf("%v: %d bytes are left of it", said, size)
		}
	}
	huge := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{GangAnnotation: long, koordinatorGangGroups: long}}}
	if size := TrimToGang(huge).Size(); size > 2048 {
		t.Errorf("of huge annotations %d bytes are left", size)
	}
}

// TestPriorityClassOfAGroup: a PodGroup's priorityClassName has no effect. The pods of a Volcano
// Job have the class of their Job, so nothing is lost there.
func TestPriorityClassOfAGroup(t *testing.T) {
	group := &volcano.PodGroup{Spec: volcano.PodGroupSpec{MinMember: 2, PriorityClassName: "high"}}
	if g, err := ReadVolcanoGroup(group); err != nil || !strings.Contains(g.Ignored, `spec.priorityClassName "high": set it in the pods' template`) {
		t.Errorf("%v, ignored: %s", err, g.Ignored)
	}
	yes := true
	group.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch.volcano.sh/v1alpha1", Kind: "Job", Name: "j", Controller: &yes}}
	if g, err := ReadVolcanoGroup(group); err != nil || g.Ignored != "" {
		t.Errorf("of a Job: %v, ignored: %s", err, g.Ignored)
	}
}
