package command

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	kubescheduler "k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/berth-dev/berth/internal/clip"
	"github.com/berth-dev/berth/internal/scheduler"
)

// chartConfig is the output of the chart's template for its default values.
const chartConfig = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: berth
  plugins:
    queueSort: {enabled: [{name: BerthSort}], disabled: [{name: "*"}]}
    multiPoint:
      enabled: [{name: Berth, weight: 2}, {name: BerthTiers, weight: 1000000}, {name: BerthClaims, weight: 2}]
      disabled: [{name: DynamicResources}]
    bind: {enabled: [{name: Berth}]}
    postFilter: {enabled: [{name: Berth}, {name: BerthClaims}]}
  pluginConfig:
  - name: Berth
    args: {heartbeatNamespace: berth-system}
  - name: PodTopologySpread
    args: {defaultingType: List, defaultConstraints: []}
  - name: InterPodAffinity
    args: {ignorePreferredTermsOfExistingPods: true}
`

// chartScheduler returns a scheduler with the chart's profile, and its events. Its API server
// serves no kinds.
func chartScheduler(t *testing.T) (*kubescheduler.Scheduler, *config.KubeSchedulerConfiguration, chan string) {
	t.Helper()
	object, err := runtime.Decode(scheme.Codecs.UniversalDecoder(), []byte(chartConfig))
	if err != nil {
		t.Fatal(err)
	}
	c := object.(*config.KubeSchedulerConfiguration)
	api := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(api.Close)
	nothing := &rest.Config{Host: api.URL}
	client, err := kubernetes.NewForConfig(nothing)
	if err != nil {
		t.Fatal(err)
	}
	shared := informersFor(client)
	registry := frameworkruntime.Registry{scheduler.Name: scheduler.New, scheduler.TiersName: scheduler.NewTiers, scheduler.SortName: NewSort, scheduler.ClaimsName: scheduler.NewClaims}
	told := events.NewFakeRecorder(100)
	sched, err := kubescheduler.New(t.Context(), client, shared, nil, func(string) events.EventRecorderLogger { return told },
		kubescheduler.WithProfiles(c.Profiles...), kubescheduler.WithFrameworkOutOfTreeRegistry(registry), kubescheduler.WithKubeConfig(nothing))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sched.SchedulingQueue.Close)
	return sched, c, told.Events
}

// TestEventsOfThePluginAreBrief: the plugin's own events have at most 300 bytes, as the events
// about attempts have.
func TestEventsOfThePluginAreBrief(t *testing.T) {
	sched, c, told := chartScheduler(t)
	*loop(sched) = func(klog.Logger) (entity, error) { return nil, nil } //nolint:nilnil // no pod waits
	if !Equip(t.Context(), sched, nil, c.Profiles) {
		t.Fatal("no profile has the plugin")
	}
	if _, err := (*loop(sched))(klog.Background()); err != nil { // as the leader does
		t.Fatal(err)
	}
	pod := pinnedPod()
	pod.Namespace, pod.Name, pod.UID, pod.Annotations = "default", "p", "p", map[string]string{}
	for i := range 30 {
		pod.Annotations[fmt.Sprintf("berth.dev/of-no-effect-%d", i)] = ""
	}
	sched.Profiles["berth"].RunPreFilterPlugins(t.Context(), framework.NewCycleState(), pod)
	head := corev1.EventTypeWarning + " AnnotationIgnored "
	select {
	case text := <-told:
		if note, ok := strings.CutPrefix(text, head); !ok || len(note) > clip.Event || !strings.HasSuffix(note, "...") {
			t.Errorf("%d bytes: %s", len(note), text)
		}
	default:
		t.Error("nothing is told")
	}
}

// TestOrdinaryPodsAreSigned: with the chart's profile, kube-scheduler may reuse the result of an
// ordinary pod for an equal pod (opportunistic batching), but never the result of a pinned pod.
func TestOrdinaryPodsAreSigned(t *testing.T) {
	sched, _, _ := chartScheduler(t)
	ordinary := (&seams{}).pod("ordinary", "1")
	ordinary.Spec.Volumes = nil
	pinned := ordinary.DeepCopy()
	pinned.Name = "pinned"
	pinned.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"cpu": resource.MustParse("1"), "memory": resource.MustParse("1Gi")}
	pinned.Spec.Containers[0].Resources.Requests = pinned.Spec.Containers[0].Resources.Limits
	profile := sched.Profiles["berth"]
	if profile.SignPod(t.Context(), ordinary) == nil {
		t.Error("an ordinary pod is not signed: nothing is reused for it")
	}
	if profile.SignPod(t.Context(), pinned) != nil {
		t.Error("a pinned pod is signed, and the next one would take the CPUs that it was given")
	}
}

// passage has the calls in a scheduler for one pod.
type passage struct {
	profile framework.Framework
	info    *framework.QueuedPodInfo
}

// TestOrdinaryPodsPassUntouched: for a pod about which Berth does not decide, kube-scheduler's own
// SchedulePod and FailureHandler are called with the scheduler's own profile and with the queue's
// own entry. For a pinned pod they are not.
func TestOrdinaryPodsPassUntouched(t *testing.T) {
	sched, c, _ := chartScheduler(t)
	for i := range 150 { // with fewer nodes, candidates are not named
		room := corev1.ResourceList{"cpu": resource.MustParse("10"), "memory": resource.MustParse("10Gi"), "pods": resource.MustParse("10")}
		sched.Cache.AddNode(klog.Background(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n", i)}, Status: corev1.NodeStatus{Allocatable: room}})
	}
	own := sched.Profiles["berth"]
	var next *framework.QueuedPodInfo
	var placing, failing []passage
	place := sched.SchedulePod
	*loop(sched) = func(klog.Logger) (entity, error) { return next, nil }
	sched.SchedulePod = func(ctx context.Context, profile framework.Framework, state fwk.CycleState, info *framework.QueuedPodInfo) (kubescheduler.ScheduleResult, error) {
		placing = append(placing, passage{profile, info})
		return place(ctx, profile, state, info)
	}
	sched.FailureHandler = func(_ context.Context, profile framework.Framework, info *framework.QueuedPodInfo, _ *fwk.Status, _ *fwk.NominatingInfo, _ time.Time) {
		failing = append(failing, passage{profile, info})
	}
	if !Equip(t.Context(), sched, nil, c.Profiles) {
		t.Fatal("no profile has the plugin")
	}
	if sched.Profiles["berth"] != own {
		t.Errorf("the profile is a %T, want kube-scheduler's own", sched.Profiles["berth"])
	}
	pinned := pinnedPod()
	pinned.ObjectMeta = metav1.ObjectMeta{Namespace: "default", Name: "pinned", UID: "pinned"}
	pinned.Spec.SchedulerName = "berth"
	for _, tc := range []struct {
		pod            *corev1.Pod
		untouched      bool
		placed, failed int
	}{
		{(&seams{}).pod("large", "1000"), true, 1, 1},
		{pinned, false, 1, 1},
	} {
		tc.pod.Spec.SchedulerName = "berth"
		if tc.untouched {
			tc.pod.Status.QOSClass = corev1.PodQOSBurstable
		}
		podInfo, err := framework.NewPodInfo(tc.pod)
		if err != nil {
			t.Fatal(err)
		}
		next, placing, failing = &framework.QueuedPodInfo{PodInfo: podInfo}, nil, nil
		sched.ScheduleOne(t.Context())
		if len(placing) != tc.placed || len(failing) != tc.failed {
			t.Fatalf("%s: %d calls of SchedulePod and %d of FailureHandler, want %d and %d", tc.pod.Name, len(placing), len(failing), tc.placed, tc.failed)
		}
		for _, p := range append(placing, failing...) {
			if untouched := p.profile == own && p.info == next; untouched != tc.untouched {
				t.Errorf("%s: it passes with a profile of %T, untouched: %t, want %t", tc.pod.Name, p.profile, untouched, tc.untouched)
			}
		}
	}
}
