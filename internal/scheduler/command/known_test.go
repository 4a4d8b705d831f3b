package command

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	schedulercache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

// foreign is a plugin that prepares scores.
type foreign struct{}

func (foreign) Name() string { return "Foreign" }
func (foreign) PreScore(context.Context, fwk.CycleState, *corev1.Pod, []fwk.NodeInfo) *fwk.Status {
	return nil
}

// TestKnow: what Know reads of a profile's plugins and of its arguments.
func TestKnow(t *testing.T) {
	metrics.Register()
	anyway := []corev1.TopologySpreadConstraint{{TopologyKey: "rack", WhenUnsatisfiable: corev1.ScheduleAnyway, MaxSkew: 1}}
	for _, tc := range []struct {
		name     string
		args     *config.PodTopologySpreadArgs
		plugin   config.Plugin
		spreads  bool
		ours     bool
		defaults int
	}{
		{"system", &config.PodTopologySpreadArgs{DefaultingType: config.SystemDefaulting}, config.Plugin{Name: names.PodTopologySpread, Weight: 3}, true, true, 2},
		{"list", &config.PodTopologySpreadArgs{DefaultingType: config.ListDefaulting, DefaultConstraints: anyway}, config.Plugin{Name: names.PodTopologySpread}, true, true, 1},
		{"none", &config.PodTopologySpreadArgs{DefaultingType: config.ListDefaulting}, config.Plugin{Name: names.PodTopologySpread}, true, true, 0},
		{"foreign", &config.PodTopologySpreadArgs{DefaultingType: config.SystemDefaulting}, config.Plugin{Name: "Foreign"}, false, false, 2},
	} {
		profile := config.KubeSchedulerProfile{
			SchedulerName: "p", PluginConfig: []config.PluginConfig{{Name: names.NodeAffinity, Args: &config.NodeAffinityArgs{}}, {Name: names.PodTopologySpread, Args: tc.args}},
			Plugins: &config.Plugins{MultiPoint: config.PluginSet{Enabled: []config.Plugin{{Name: names.PrioritySort}, {Name: names.DefaultBinder}, {Name: names.NodeAffinity}, tc.plugin}}},
		}
		registry := plugins.NewInTreeRegistry()
		registry["Foreign"] = func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return foreign{}, nil }
		made, err := frameworkruntime.NewFramework(t.Context(), registry, &profile,
			frameworkruntime.WithSnapshotSharedLister(schedulercache.NewEmptySnapshot()), frameworkruntime.WithInformerFactory(informers.NewSharedInformerFactory(fake.NewClientset(), 0)))
		if err != nil {
			t.Fatal(err)
		}
		k := know(map[string]framework.Framework{"p": made}, []config.KubeSchedulerProfile{profile})["p"]
		if k.spreads != tc.spreads || k.ours != tc.ours || len(k.defaults) != tc.defaults {
			t.Errorf("%s: %+v", tc.name, k)
		}
	}
}
