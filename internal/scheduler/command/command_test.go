package command

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
	kubescheduler "k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// profile is a profile of a scheduler with 200 nodes.
type profile struct {
	framework.Framework
	fwk.SharedLister
	fwk.NodeInfoLister
	percentage *int32
	err        error
}

func (p *profile) ProfileName() string                    { return "p" }
func (p *profile) PercentageOfNodesToScore() *int32       { return p.percentage }
func (p *profile) SnapshotSharedLister() fwk.SharedLister { return p }
func (p *profile) NodeInfos() fwk.NodeInfoLister          { return p }
func (p *profile) List() ([]fwk.NodeInfo, error)          { return make([]fwk.NodeInfo, 200), p.err }

// TestLookingFurther: kube-scheduler gets the profile with the percentage for the pod. A profile's
// own percentage has precedence over the percentage for all profiles.
func TestLookingFurther(t *testing.T) {
	seven, nine := int32(7), int32(9)
	for _, tc := range []struct {
		name        string
		global, own *int32
		said        int32 // the argument of Look
		answer      int32
		want        *int32 // nil: the profile's value
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
		pod := &framework.QueuedPodInfo{PodInfo: &framework.PodInfo{Pod: pinnedPod()}}
		result, err := lookingFurther(next, look, tc.global, nil)(t.Context(), &profile{percentage: tc.own}, framework.NewCycleState(), pod)
		if err != nil || result.SuggestedHost != "n" {
			t.Errorf("%s: %+v, %v", tc.name, result, err)
		}
		if (got == nil) != (tc.want == nil) || got != nil && *got != *tc.want {
			t.Errorf("%s: the percentage is %v, want %v", tc.name, got, tc.want)
		}
		failing := &profile{err: errors.New("no snapshot")}
		if _, err := lookingFurther(next, look, tc.global, nil)(t.Context(), failing, nil, pod); err == nil {
			t.Errorf("%s: placed without nodes", tc.name)
		}
	}
}

// pinnedPod returns a pod that a kubelet could pin.
func pinnedPod() *corev1.Pod {
	all := corev1.ResourceList{"cpu": resource.MustParse("1"), "memory": resource.MustParse("1Gi")}
	return &corev1.Pod{
		Spec:   corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Limits: all, Requests: all}}}},
		Status: corev1.PodStatus{QOSClass: corev1.PodQOSGuaranteed},
	}
}

func ptr(n int32) *int32 { return &n }

// TestExtendersRefuseAllThatIsNamed: if extenders refuse all candidates, the other nodes are
// searched, and the failure of the first search is not reported.
func TestExtendersRefuseAllThatIsNamed(t *testing.T) {
	calls := 0
	next := func(_ context.Context, p framework.Framework, _ fwk.CycleState, _ *framework.QueuedPodInfo) (kubescheduler.ScheduleResult, error) {
		s := p.(*search)
		if calls++; calls == 1 {
			s.named = sets.New("n")
			if got := *p.PercentageOfNodesToScore(); got != 100 {
				t.Errorf("%d percent of what is named, want 100", got)
			}
			return kubescheduler.ScheduleResult{}, &framework.FitError{}
		}
		if got := *p.PercentageOfNodesToScore(); got != 60 || !s.all {
			t.Errorf("then %d percent, all nodes: %t; want 60, true", got, s.all)
		}
		return kubescheduler.ScheduleResult{SuggestedHost: "m"}, nil
	}
	look := func(*corev1.Pod, int, int32) int32 { return 60 }
	pod := &framework.QueuedPodInfo{PodInfo: &framework.PodInfo{Pod: pinnedPod()}}
	result, err := lookingFurther(next, look, nil, nil)(t.Context(), &profile{}, nil, pod)
	if err != nil || result.SuggestedHost != "m" || calls != 2 {
		t.Errorf("%+v, %v after %d calls", result, err, calls)
	}
}

// picky is a profile whose plugins accept only some nodes.
type picky struct {
	framework.Framework
	take  sets.Set[string]
	asked int
}

func (p *picky) RunFilterPluginsWithNominatedPods(_ context.Context, _ fwk.CycleState, _ *corev1.Pod, n fwk.NodeInfo) *fwk.Status {
	if p.asked++; p.take.Has(n.Node().Name) {
		return nil
	}
	return fwk.NewStatus(fwk.Unschedulable)
}

// TestFind: candidates are asked a few at a time, in their order, until one of a batch passes, for
// a limited number of rounds. Nodes that have passed are not asked again.
func TestFind(t *testing.T) {
	for _, tc := range []struct {
		name  string
		take  []string
		want  []string // nil: look at all nodes
		asked int
	}{
		{"the first few", []string{"n1", "n9"}, []string{"n1"}, 2},
		{"the next few", []string{"n4", "n5"}, []string{"n4", "n5"}, 6},
		{"too far down", []string{"n16"}, nil, 16},
		{"nobody", nil, nil, 16},
	} {
		at := 0
		two := func() (few []fwk.NodeInfo) {
			for range 2 {
				info := framework.NewNodeInfo()
				info.SetNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n", at)}})
				few, at = append(few, info), at+1
			}
			return few
		}
		p := &picky{take: sets.New(tc.take...)}
		s := &search{Framework: p}
		got := sets.Set[string]{}
		found, _ := s.find(t.Context(), nil, &corev1.Pod{}, got, two)
		if !got.Equal(sets.New(tc.want...)) || found != (tc.want != nil) || p.asked != tc.asked {
			t.Errorf("%s: %v after %d questions, want %v after %d", tc.name, got, p.asked, tc.want, tc.asked)
		}
		s.named = sets.New("n0")
		at = 0
		if few := two(); !s.RunFilterPluginsWithNominatedPods(t.Context(), nil, nil, few[0]).IsSuccess() || p.asked != tc.asked {
			t.Errorf("%s: what is named is asked again", tc.name)
		}
	}
	none := func() []fwk.NodeInfo { return nil }
	if found, rounds := (&search{Framework: &picky{}}).find(t.Context(), nil, nil, nil, none); found || rounds > 0 {
		t.Errorf("without candidates: found %t after %d rounds", found, rounds)
	}
}

// reserving is a profile that keeps a node for another pod.
type reserving struct {
	picky
	kept string
}

func (k *reserving) NominatedPodsForNode(node string) []fwk.PodInfo {
	if node == k.kept {
		return make([]fwk.PodInfo, 1)
	}
	return nil
}

// TestPluginsAreNotAskedAboutNodesThatWait: if Berth has no candidate, plugins are not asked about
// a node that waits, because Berth's answer is sufficient. They are asked about nodes that are full
// or kept for other pods.
func TestPluginsAreNotAskedAboutNodesThatWait(t *testing.T) {
	p := &reserving{kept: "kept"}
	waits := fwk.NewStatus(fwk.Pending)
	s := &search{Framework: p, waits: func(_ context.Context, info fwk.NodeInfo) *fwk.Status {
		if info.Node().Name == "full" {
			return nil
		}
		return waits
	}}
	for _, tc := range []struct {
		node  string
		asked int
	}{{"waits", 0}, {"full", 1}, {"kept", 1}} {
		p.asked = 0
		info := framework.NewNodeInfo()
		info.SetNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: tc.node}})
		status := s.RunFilterPluginsWithNominatedPods(t.Context(), nil, nil, info)
		if p.asked != tc.asked || (status == waits) != (tc.asked == 0) {
			t.Errorf("%s: %v after %d questions, want %d", tc.node, status, p.asked, tc.asked)
		}
	}
}

// informed is a profile with informers.
type informed struct {
	framework.Framework
	shared informers.SharedInformerFactory
}

func (f *informed) SharedInformerFactory() informers.SharedInformerFactory { return f.shared }

// TestSpreadBy: the labels and pods that PodTopologySpread uses for scores: for a pod with its own
// constraints, and for a pod that a profile spreads by default among the pods of its Service.
func TestSpreadBy(t *testing.T) {
	shared := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s"}, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "a"}}}
	if err := shared.Core().V1().Services().Informer().GetIndexer().Add(service); err != nil {
		t.Fatal(err)
	}
	pod := func(app string, constraints ...corev1.TopologySpreadConstraint) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Labels: map[string]string{"app": app, "hash": "1"}}, Spec: corev1.PodSpec{TopologySpreadConstraints: constraints}}
	}
	rack := corev1.TopologySpreadConstraint{TopologyKey: "rack", WhenUnsatisfiable: corev1.ScheduleAnyway, MatchLabelKeys: []string{"hash", "none"}, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}}}
	strict, wrong, hosts := rack, rack, rack
	hosts.TopologyKey = corev1.LabelHostname
	strict.WhenUnsatisfiable = corev1.DoNotSchedule
	wrong.LabelSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "?"}}}
	for _, tc := range []struct {
		name string
		k    *known
		pod  *corev1.Pod
		want string
	}{
		{"its own", &known{spreads: true, defaults: systemDefaults}, pod("a", rack, strict), "rack:app=a,hash=1 "},
		{"by default", &known{spreads: true, defaults: systemDefaults}, pod("a"), "topology.kubernetes.io/zone:app=a "},
		{"over nodes, its own", &known{spreads: true, defaults: systemDefaults}, pod("a", hosts), "kubernetes.io/hostname:app=a,hash=1 "},
		{"of no Service", &known{spreads: true, defaults: systemDefaults}, pod("b"), ""},
		{"nothing by default", &known{spreads: true}, pod("a"), ""},
		{"a profile that does not spread", &known{defaults: systemDefaults}, pod("a", rack), ""},
		{"an unknown profile", nil, pod("a", rack), ""},
		{"a selector that cannot be read", &known{spreads: true}, pod("a", strict, wrong), "topologySpreadConstraints[1].labelSelector"},
	} {
		got := ""
		by, err := tc.k.spreadBy(&informed{shared: shared}, tc.pod)
		for _, c := range by {
			got += c.Key + ":" + c.Selector.String() + " "
		}
		if err != nil {
			got, _, _ = strings.Cut(err.Error(), ": ")
		}
		if got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}

func TestDropManagedFields(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"a": "b"}, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubelet"}}}}
	if _, err := dropManagedFields(node); err != nil || node.ManagedFields != nil || node.Name != "n" || node.Labels["a"] != "b" {
		t.Errorf("%v, error %v", node, err)
	}
	gone := cache.DeletedFinalStateUnknown{Key: "n"}
	if got, err := dropManagedFields(gone); err != nil || got != gone {
		t.Errorf("%v, error %v", got, err)
	}
}
