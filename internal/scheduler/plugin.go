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

// Name is the name of the plugin in profiles and statuses.
const Name = "Berth"

// Plugin is Berth in one profile of the scheduler.
type Plugin struct {
	core    *core
	args    Args
	terms   wire.Terms // from the arguments
	profile *nodes.Profile
	handle  fwk.Handle
	// ownClaims returns the plugin that deallocates devices in a profile without BerthClaims. It
	// returns nil if that plugin cannot be created.
	ownClaims func() claims
	// agentless selects nodes on which no agent is expected.
	agentless labels.Selector
}

// claims is the part of kube-scheduler's plugin for claims that deallocates devices.
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

// New creates the plugin; it has the signature of frameworkruntime.PluginFactory. The plugin
// watches NodeTopologies and Leases with the scheduler's own credentials until ctx ends.
func New(ctx context.Context, obj runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	return newPlugin(ctx, obj, handle, Options{})
}

// Options are the settings that a scheduler build adds to the arguments of the profiles.
type Options struct {
	// Providers are additional placement providers.
	Providers []placement.Provider
	// Clock is set by tests; nil means the real clock.
	Clock clock.WithDelayedExecution
}

// With returns a function that creates the plugin as New does, but with options.
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
	agentless, _ := args.withoutAgents() // ParseArgs has validated the arguments
	terms, _ := args.terms()
	own := sync.OnceValue(func() claims { return claimsOf(ctx, handle) })
	p := &Plugin{core: c, args: args, terms: terms, profile: &nodes.Profile{Table: c.table, Scoring: args.Scoring}, handle: handle, ownClaims: own, agentless: agentless}
	nodeGauges.core.Store(c)
	return p, nil
}

// claimsOf creates a DynamicResources plugin that Berth calls itself, because a plugin cannot call
// another plugin of its profile. It works because this plugin and the profile's own
// DynamicResources use the same key of the cycle's state. Berth creates the plugin only when a pod
// with claims needs it, because the plugin adds an index of pods. If creation fails, the result is
// nil.
func claimsOf(ctx context.Context, handle fwk.Handle) claims {
	made, err := dynamicresources.New(ctx, new(config.DynamicResourcesArgs), apart{handle}, feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate))
	if err != nil {
		klog.FromContext(ctx).Error(err, "Cannot deallocate the claims of pods that no node admits")
		return nil
	}
	return made.(claims)
}

// claimsPlugin returns the profile's BerthClaims if there is one, and otherwise the plugin of
// claimsOf.
func (p *Plugin) claimsPlugin() claims {
	if s := steererOf(p.handle); s != nil {
		return s
	}
	return p.ownClaims()
}

// apart is a handle with a different profile name. DynamicResources derives the name of its index
// of pods from the profile's name, and a second index with the same name would be an error.
type apart struct{ fwk.Handle }

func (a apart) ProfileName() string { return Name + "-" + a.Handle.ProfileName() }

// Name implements fwk.Plugin.
func (p *Plugin) Name() string { return Name }
