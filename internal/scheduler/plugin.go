package scheduler

import (
	"context"
	"errors"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"
)

// Name of the plugin in profiles and statuses.
const Name = "Berth"

// Plugin is Berth in the scheduler.
type Plugin struct {
	args    Args
	handle  fwk.Handle
	clock   clock.WithDelayedExecution
	nodes   *nodes
	waiters *waiters
	feed    *feed
	// reserved numbers the calls of Reserve.
	reserved atomic.Uint64
	// ready: everything that was there at the start has been taken in.
	ready atomic.Bool
}

var (
	_ fwk.PreFilterPlugin     = (*Plugin)(nil)
	_ fwk.PreFilterExtensions = (*Plugin)(nil)
	_ fwk.FilterPlugin        = (*Plugin)(nil)
	_ fwk.PostFilterPlugin    = (*Plugin)(nil)
	_ fwk.ScorePlugin         = (*Plugin)(nil)
	_ fwk.ReservePlugin       = (*Plugin)(nil)
	_ fwk.BindPlugin          = (*Plugin)(nil)
	_ fwk.EnqueueExtensions   = (*Plugin)(nil)
	_ fwk.SignPlugin          = (*Plugin)(nil)
)

// New makes the plugin; it has the signature of frameworkruntime.PluginFactory. The plugin watches NodeTopologies and
// Leases with the scheduler's own credentials until ctx ends.
func New(ctx context.Context, obj runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	args, err := ParseArgs(obj)
	if err != nil {
		return nil, err
	}
	if handle.KubeConfig() == nil {
		return nil, errors.New("plugin " + Name + " needs the scheduler's client configuration")
	}
	register()
	p := newPlugin(ctx, args, handle, clock.RealClock{})
	sources, err := newSources(handle.KubeConfig(), handle.ClientSet(), &args)
	if err != nil {
		return nil, err
	}
	pods, err := handle.SharedInformerFactory().Core().V1().Pods().Informer().AddEventHandler(p.feed.podHandler())
	if err != nil {
		return nil, err
	}
	sources.podsSynced = pods.HasSynced
	synced := p.feed.start(ctx, sources)
	go p.begin(synced)
	return p, nil
}

func newPlugin(ctx context.Context, args Args, handle fwk.Handle, c clock.WithDelayedExecution) *Plugin {
	logger := klog.LoggerWithName(klog.FromContext(ctx), Name)
	n := &nodes{}
	w := newWaiters(logger, handle)
	return &Plugin{
		args: args, handle: handle, clock: c, nodes: n, waiters: w,
		feed: &feed{nodes: n, waiters: w, clock: c, settle: args.SettleAfter.Duration, logger: logger, events: handle.EventRecorder()},
	}
}

// begin lets pods through once everything that was there has been taken in.
func (p *Plugin) begin(synced func() bool) {
	if synced() {
		p.ready.Store(true)
		p.waiters.wakeAll()
	}
}

// Name implements fwk.Plugin.
func (p *Plugin) Name() string { return Name }
