package under

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	kubescheduler "k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/profile"

	"github.com/berth-dev/berth/internal/scheduler"
	"github.com/berth-dev/berth/internal/scheduler/command"
)

// Mode is the environment variable that selects the scheduler of the tests.
const Mode = "SCHEDULER_SUITE"

// Berth is the value of Mode for Berth's scheduler; any other value selects kube-scheduler.
const Berth = "berth"

func berth() bool { return os.Getenv(Mode) == Berth }

// told has the profiles of the last call of WithProfiles, because an option of kube-scheduler
// cannot be read.
var told struct {
	sync.Mutex
	profiles []config.KubeSchedulerProfile
}

// New is kube-scheduler's New.
func New(ctx context.Context, client kubernetes.Interface, shared informers.SharedInformerFactory, dynamic dynamicinformer.DynamicSharedInformerFactory, recorders profile.RecorderFactory, opts ...kubescheduler.Option) (*kubescheduler.Scheduler, error) {
	if !berth() {
		return kubescheduler.New(ctx, client, shared, dynamic, recorders, opts...)
	}
	profiles, err := usual()
	if err != nil {
		return nil, err
	}
	told.Lock()
	own := told.profiles
	told.profiles = nil
	told.Unlock()
	agents := startAgents(ctx, client)
	all := []kubescheduler.Option{WithFrameworkOutOfTreeRegistry(frameworkruntime.Registry{})}
	if own == nil {
		all = append(all, kubescheduler.WithProfiles(withBerth(profiles)...))
	}
	all = append(append(all, opts...), kubescheduler.WithKubeConfig(&rest.Config{Host: agents}))
	sched, err := kubescheduler.New(ctx, client, shared, dynamic, recorders, all...)
	if err != nil {
		return nil, err
	}
	if !command.Equip(ctx, sched, nil, orUsual(own, profiles)) {
		return nil, fmt.Errorf("no profile has plugin %s", scheduler.Name)
	}
	return sched, nil
}

func orUsual(a, b []config.KubeSchedulerProfile) []config.KubeSchedulerProfile {
	if a != nil {
		return a
	}
	return b
}

// WithProfiles is kube-scheduler's option, with Berth in each profile.
func WithProfiles(profiles ...config.KubeSchedulerProfile) kubescheduler.Option {
	if !berth() {
		return kubescheduler.WithProfiles(profiles...)
	}
	with := withBerth(profiles)
	told.Lock()
	told.profiles = with
	told.Unlock()
	return kubescheduler.WithProfiles(with...)
}

// WithFrameworkOutOfTreeRegistry is kube-scheduler's option, with Berth's plugins.
func WithFrameworkOutOfTreeRegistry(registry frameworkruntime.Registry) kubescheduler.Option {
	if !berth() {
		return kubescheduler.WithFrameworkOutOfTreeRegistry(registry)
	}
	with := frameworkruntime.Registry{scheduler.Name: scheduler.New, scheduler.TiersName: scheduler.NewTiers, scheduler.SortName: command.NewSort}
	for name, factory := range registry {
		with[name] = factory
	}
	return kubescheduler.WithFrameworkOutOfTreeRegistry(with)
}

// usual are the profiles of a scheduler without a configuration.
func usual() ([]config.KubeSchedulerProfile, error) {
	const text = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
	object, err := runtime.Decode(scheme.Codecs.UniversalDecoder(), []byte(text))
	if err != nil {
		return nil, err
	}
	return object.(*config.KubeSchedulerConfiguration).Profiles, nil
}

// withBerth adds Berth to each profile as the chart does for a default scheduler: its plugins at
// all extension points, its Bind and PostFilter before the others, and its QueueSort unless the
// profile has its own.
func withBerth(profiles []config.KubeSchedulerProfile) []config.KubeSchedulerProfile {
	var out []config.KubeSchedulerProfile
	for i := range profiles {
		p := *profiles[i].DeepCopy()
		if p.Plugins == nil {
			p.Plugins = &config.Plugins{}
		}
		ours := []config.Plugin{{Name: scheduler.Name, Weight: scheduler.Weight}, {Name: scheduler.TiersName, Weight: scheduler.TiersWeight}}
		p.Plugins.MultiPoint.Enabled = append(p.Plugins.MultiPoint.Enabled, ours...)
		first := func(set *config.PluginSet) {
			set.Enabled = slices.Insert(set.Enabled, 0, config.Plugin{Name: scheduler.Name})
		}
		first(&p.Plugins.Bind)
		first(&p.Plugins.PostFilter)
		for set, plugins := range map[*config.PluginSet][]config.Plugin{
			&p.Plugins.PreEnqueue: ours[:1], &p.Plugins.PreFilter: ours[:1], &p.Plugins.Filter: ours[:1], &p.Plugins.PreScore: ours, &p.Plugins.Score: ours, &p.Plugins.Reserve: ours[:1], &p.Plugins.Permit: ours[:1],
		} {
			if slices.ContainsFunc(set.Disabled, func(d config.Plugin) bool { return d.Name == "*" }) { // disables multiPoint too
				set.Enabled = append(set.Enabled, plugins...)
			}
		}
		if len(p.Plugins.QueueSort.Enabled) == 0 {
			p.Plugins.QueueSort = config.PluginSet{Enabled: []config.Plugin{{Name: scheduler.SortName}}, Disabled: []config.Plugin{{Name: "*"}}}
		}
		args := `{"staleAfter":"24h"}` // these agents send no heartbeats
		p.PluginConfig = append(p.PluginConfig, config.PluginConfig{Name: scheduler.Name, Args: &runtime.Unknown{Raw: []byte(args)}})
		out = append(out, p)
	}
	return out
}
