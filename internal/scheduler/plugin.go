package scheduler

import (
	"context"
	"errors"
	"sync"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/utils/clock"

	"github.com/berth-dev/berth/internal/scheduler/nodes"
	"github.com/berth-dev/berth/internal/version"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

// Name of the plugin in profiles and statuses.
const Name = "Berth"

// Plugin is Berth in one profile of the scheduler.
type Plugin struct {
	core    *core
	args    Args
	terms   wire.Terms // of the args
	profile *nodes.Profile
	handle  fwk.Handle
	// ownClaims is what stands in for a plugin BerthClaims that the profile lacks; it may be nil.
	ownClaims func() claims
	// agentless selects nodes on which no agent is expected.
	agentless labels.Selector
}

// claims is kube-scheduler's plugin for claims, as far as it gives devices back.
type claims interface {
	fwk.PreFilterPlugin
	fwk.PostFilterPlugin
}

var (
	_ fwk.PreFilterPlugin     = (*Plugin)(nil)
	_ fwk.PreFilterExtensions = (*Plugin)(nil)
	_ fwk.FilterPlugin        = (*Plugin)(nil)
	_ fwk.PostFilterPlugin    = (*Plugin)(nil)
	_ fwk.PreScorePlugin      = (*Plugin)(nil)
	_ fwk.ScorePlugin         = (*Plugin)(nil)
	_ fwk.ReservePlugin       = (*Plugin)(nil)
	_ fwk.BindPlugin          = (*Plugin)(nil)
	_ fwk.EnqueueExtensions   = (*Plugin)(nil)
	_ fwk.SignPlugin          = (*Plugin)(nil)
)

// New makes the plugin; it has the signature of frameworkruntime.PluginFactory. The plugin watches
// NodeTopologies and Leases with the scheduler's own credentials until ctx ends.
func New(ctx context.Context, obj runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	return newPlugin(ctx, obj, handle, Options{})
}

// Options are what a build of the scheduler adds to the arguments of the profiles.
type Options struct {
	// Providers hand out resources of their own.
	Providers []placement.Provider
	// Clock is turned by a test; nil means the real one.
	Clock clock.WithDelayedExecution
}

// With returns New with options.
func With(o Options) func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
	return func(ctx context.Context, obj runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
		return newPlugin(ctx, obj, handle, o)
	}
}

func newPlugin(ctx context.Context, obj runtime.Object, handle fwk.Handle, o Options) (fwk.Plugin, error) {
	args, err := ParseArgs(obj)
	if err != nil {
		return nil, err
	}
	if handle.KubeConfig() == nil {
		return nil, errors.New("plugin " + Name + " needs the scheduler's client configuration")
	}
	register()
	klog.FromContext(ctx).Info("Berth", "version", version.Version)
	c, err := sharedCore(ctx, args, handle, o)
	if err != nil {
		return nil, err
	}
	agentless, err := args.withoutAgents()
	if err != nil {
		return nil, err
	}
	terms, err := args.terms()
	if err != nil {
		return nil, err
	}
	own := sync.OnceValue(func() claims { return claimsOf(ctx, handle) })
	p := &Plugin{core: c, args: args, terms: terms, profile: &nodes.Profile{Table: c.table, Scoring: args.Scoring}, handle: handle, ownClaims: own, agentless: agentless}
	nodeGauges.core.Store(c)
	return p, nil
}

// claimsOf returns a plugin for claims of Berth's own: a plugin cannot call another one of its
// profile. Both read and write the same entry of the cycle's state. It indexes pods once more, so
// it is made when a pod with claims needs it; nil if it cannot be made.
func claimsOf(ctx context.Context, handle fwk.Handle) claims {
	made, err := dynamicresources.New(ctx, new(config.DynamicResourcesArgs), apart{handle}, feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate))
	if err != nil {
		klog.FromContext(ctx).Error(err, "Claims of pods that no node takes are not given back")
		return nil
	}
	return made.(claims)
}

// claimsPlugin is the profile's plugin for claims if that is known, and otherwise Berth's own.
func (p *Plugin) claimsPlugin() claims {
	if s := steererOf(p.handle); s != nil {
		return s
	}
	return p.ownClaims()
}

// apart is a handle whose plugin indexes pods by another name than that of the profile itself: two
// indexers of one name are an error.
type apart struct{ fwk.Handle }

func (a apart) ProfileName() string { return Name + "-" + a.Handle.ProfileName() }

// Name implements fwk.Plugin.
func (p *Plugin) Name() string { return Name }
