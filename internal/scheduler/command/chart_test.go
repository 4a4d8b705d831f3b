package command

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	kubescheduler "k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/berth-dev/berth/internal/scheduler"
)

// chartConfig is what the chart's template makes of its default values.
const chartConfig = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: berth
  plugins:
    queueSort: {enabled: [{name: BerthSort}], disabled: [{name: "*"}]}
    multiPoint: {enabled: [{name: Berth, weight: 2}, {name: BerthTiers, weight: 1000000}]}
    bind: {enabled: [{name: Berth}]}
    postFilter: {enabled: [{name: Berth}]}
  pluginConfig:
  - name: Berth
    args: {heartbeatNamespace: berth-system}
  - name: PodTopologySpread
    args: {defaultingType: List, defaultConstraints: []}
  - name: InterPodAffinity
    args: {ignorePreferredTermsOfExistingPods: true}
`

// chartScheduler is a scheduler with the chart's profile, and without an API server.
func chartScheduler(t *testing.T) (*kubescheduler.Scheduler, *config.KubeSchedulerConfiguration) {
	t.Helper()
	object, err := runtime.Decode(scheme.Codecs.UniversalDecoder(), []byte(chartConfig))
	if err != nil {
		t.Fatal(err)
	}
	c := object.(*config.KubeSchedulerConfiguration)
	nowhere := &rest.Config{Host: "127.0.0.1:1"}
	client, err := kubernetes.NewForConfig(nowhere)
	if err != nil {
		t.Fatal(err)
	}
	shared := kubescheduler.NewInformerFactory(client, 0)
	registry := frameworkruntime.Registry{scheduler.Name: scheduler.New, scheduler.TiersName: scheduler.NewTiers, scheduler.SortName: scheduler.NewSort}
	sched, err := kubescheduler.New(t.Context(), client, shared, nil, func(string) events.EventRecorderLogger { return &events.FakeRecorder{} },
		kubescheduler.WithProfiles(c.Profiles...), kubescheduler.WithFrameworkOutOfTreeRegistry(registry), kubescheduler.WithKubeConfig(nowhere))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sched.SchedulingQueue.Close)
	return sched, c
}

// TestOrdinaryPodsAreSigned: with the chart's profile kube-scheduler may reuse the result of an
// ordinary pod for an equal one (opportunistic batching), and never that of a pod that is pinned.
func TestOrdinaryPodsAreSigned(t *testing.T) {
	sched, _ := chartScheduler(t)
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
