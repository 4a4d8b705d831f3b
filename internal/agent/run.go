package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"

	"github.com/berth-dev/berth/internal/apiclient"
	"github.com/berth-dev/berth/internal/kubeletstate"
)

// Run runs an agent until ctx ends, and then returns nil. It returns an error only if the agent
// cannot be set up, for example because the options are wrong. After other errors the agent tries
// again.
func Run(ctx context.Context, opts Options) error {
	a, err := newAgent(opts)
	if err != nil {
		return err
	}
	if a.socket != nil {
		defer a.socket.Close()
	}
	files, stop, err := watchFiles(a.opts.Root, a.opts.DevicePlugins)
	if err != nil {
		return err
	}
	defer stop()
	told := ctx
	work, end := context.WithCancel(context.WithoutCancel(told))
	defer end()
	g, ctx := errgroup.WithContext(work)
	g.Go(func() error {
		select {
		case <-ctx.Done():
		case <-told.Done():
			a.leave(ctx)
			end()
		}
		return nil
	})
	g.Go(func() error { a.pods.RunWithContext(ctx); return nil })
	g.Go(func() error { a.nodes.RunWithContext(ctx); return nil })
	g.Go(func() error { a.heartbeats(ctx); return nil })
	g.Go(func() error { return a.loop(ctx, files) })
	g.Go(func() error { a.enforcer.run(ctx); return nil })
	if a.socket != nil {
		g.Go(func() error { a.socket.Follow(ctx, a.kubeletIs); return nil })
	}
	if err := g.Wait(); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

func newAgent(opts Options) (*agent, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(apiclient.Core(opts.Client))
	if err != nil {
		return nil, fmt.Errorf("agent: %w", err)
	}
	dyn, err := dynamic.NewForConfig(opts.Client)
	if err != nil {
		return nil, fmt.Errorf("agent: %w", err)
	}
	meta, err := metadata.NewForConfig(opts.Client)
	if err != nil {
		return nil, fmt.Errorf("agent: %w", err)
	}
	a := &agent{opts: opts, changed: make(chan struct{}, 1), withdrawn: make(chan struct{})}
	a.enforcer = &enforcer{opts: &a.opts, node: a.node, changed: func() { poke(a.changed) }, decisions: newDecisions(&a.opts), inAPI: a.hasPod}
	a.informers(client)
	if err := a.trim(); err != nil {
		return nil, fmt.Errorf("agent: %w", err)
	}
	book := newPodBook(opts.Rivals)
	if err := a.follow(book); err != nil {
		return nil, fmt.Errorf("agent: %w", err)
	}
	a.api = &Cluster{
		node: opts.Node, dynamic: dyn, metadata: meta, leases: client.CoordinationV1().Leases(opts.Namespace),
		every: opts.Heartbeat, owner: a.node,
	}
	a.mirror = a.newMirror(a.api, book)
	if opts.PodResources != NoPodResources {
		if a.socket, err = DialPodResources(opts.PodResources); err != nil {
			return nil, err
		}
		// The kubelet may have started just before the agent, as after a reboot of the node.
		a.mirror.kubelet = a.socket
		a.mirror.presence.is(false)
		a.mirror.presence.age = func() time.Duration { return kubeletAge(opts.DevicePlugins) }
	}
	if opts.Metrics != nil {
		for _, c := range a.mirror.metrics.collectors() {
			if err := opts.Metrics.Register(c); err != nil {
				return nil, fmt.Errorf("agent: %w", err)
			}
		}
	}
	return a, nil
}

func (a *agent) newMirror(api API, book *podBook) *mirror {
	o := &a.opts
	log := o.Log.With("node", o.Node)
	say := newComplaints(log)
	out := &publisher{
		name: o.Node, node: a.node, api: api, now: o.Now, pace: pace{least: o.MinInterval}, log: log, backoff: newBackoff(),
	}
	if o.Amounts || o.Numatopology || o.KoordinatorDevice {
		out.amounts = &amountsWriter{zones: o.Amounts, cpus: o.Numatopology, devices: o.KoordinatorDevice, running: book.running}
	}
	out.metrics = newMetrics(func() float64 {
		at, _ := out.vouch.holds()
		if at.IsZero() {
			return -1
		}
		return o.Now().Sub(at).Seconds()
	})
	around := &surroundings{
		now: o.Now, machine: o.readMachine, config: o.Config, authority: o.Authority, enforcer: o.Enforcer, devices: o.Devices, version: o.KubeletVersion, every: o.Rescan, say: say, attempts: newLook(),
	}
	if o.Machine == "" {
		around.fingerprint = MachineFingerprint(os.DirFS(o.SysRoot))
		around.slots.fingerprint = DeviceFingerprint(os.DirFS(o.SysRoot))
	}
	around.started = func() time.Time { return kubeletStart(o.DevicePlugins) }
	out.started = func() time.Time { return socketMade(o.DevicePlugins) }
	root := kubeletstate.Files(os.DirFS(o.Root), os.DirFS(o.DevicePlugins))
	return &mirror{
		now: o.Now, books: &checkpoints{read: func() (kubeletstate.Raw, error) { return kubeletstate.ReadRaw(root) }, root: kubeletstate.RootOf(o.Root)},
		node: a.node, pods: book, around: around, presence: &presence{now: o.Now}, devices: newDeviceBook(o.Preferences, o.NVIDIA),
		running: a.enforcer.look, renew: a.enforcer.renew, history: newHistory(), out: out, say: say, metrics: out.metrics,
	}
}

func (a *agent) informers(client kubernetes.Interface) {
	pods := cache.NewListWatchFromClient(client.CoreV1().RESTClient(), "pods", metav1.NamespaceAll,
		fields.OneTermEqualSelector("spec.nodeName", a.opts.Node))
	a.pods = cache.NewSharedIndexInformer(pods, &corev1.Pod{}, 0, cache.Indexers{})
	nodes := cache.NewListWatchFromClient(client.CoreV1().RESTClient(), "nodes", metav1.NamespaceAll,
		fields.OneTermEqualSelector("metadata.name", a.opts.Node))
	a.nodes = cache.NewSharedIndexInformer(nodes, &corev1.Node{}, 0, cache.Indexers{})
}

// follow makes changes of pods in the API update the podBook and the newest decisions, and wake the
// loop. Changes of the Node only wake the loop.
func (a *agent) follow(book *podBook) error {
	see := func(object any) {
		if pod, ok := object.(*corev1.Pod); ok {
			book.see(pod, a.opts.Now())
			a.enforcer.decisions.see(pod)
			poke(a.changed)
		}
	}
	change := func(old, object any) {
		book.change(old.(*corev1.Pod), object.(*corev1.Pod), a.opts.Now())
		a.enforcer.decisions.see(object.(*corev1.Pod))
		poke(a.changed)
	}
	lose := func(object any) {
		if pod, ok := apiclient.Last(object).(*corev1.Pod); ok {
			book.lose(pod, a.opts.Now())
			poke(a.changed)
		}
	}
	_, err := a.pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: see, UpdateFunc: change, DeleteFunc: lose,
	})
	if err != nil {
		return err
	}
	node := func(any) { poke(a.changed) }
	_, err = a.nodes.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: node, UpdateFunc: func(any, any) { poke(a.changed) }, DeleteFunc: node})
	return err
}

// hasPod reports whether the API has the pod on the node. It also returns true while the pods are
// not known yet.
func (a *agent) hasPod(uid string) bool {
	if !a.pods.HasSynced() {
		return true
	}
	for _, object := range a.pods.GetStore().List() {
		if pod, ok := object.(*corev1.Pod); ok && string(pod.UID) == uid {
			return true
		}
	}
	return false
}

// node returns the Node object, or nil.
func (a *agent) node() *corev1.Node {
	object, _, _ := a.nodes.GetStore().GetByKey(a.opts.Node) // a store in memory returns no error
	node, _ := object.(*corev1.Node)
	return node
}

// loop calls mirror.step after each event, after the time that the last step returned, and at the
// rescan interval.
func (a *agent) loop(ctx context.Context, files *fileEvents) error {
	if !cache.WaitForCacheSync(ctx.Done(), a.pods.HasSynced, a.nodes.HasSynced) {
		return ctx.Err()
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	look := time.NewTicker(lookPeriod)
	defer look.Stop()
	withdrawn := sync.OnceFunc(func() { close(a.withdrawn) })
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-look.C:
			if !a.mirror.lookAround(ctx) {
				continue
			}
		case <-files.Restarted:
			a.mirror.restarted()
		case <-files.Changed:
			a.mirror.notice()
		case <-a.changed:
		case <-timer.C:
		}
		n := a.mirror.step(ctx)
		if a.enforcer.leaving.Load() && withdrew(a.mirror.out.published) {
			withdrawn()
		}
		if n == settled {
			n = again(a.opts.Rescan)
		}
		timer.Reset(n.after)
	}
}

func (a *agent) kubeletIs(there bool) {
	a.mirror.presence.is(there)
	poke(a.changed)
}

// heartbeats renews the Lease as long as the last report is confirmed.
func (a *agent) heartbeats(ctx context.Context) {
	failures := newBackoff()
	for ctx.Err() == nil {
		pause(ctx, a.beat(ctx, &failures))
	}
}

// firstBeatPoll is the interval at which the agent checks for the first report that a heartbeat can
// confirm.
const firstBeatPoll = 100 * time.Millisecond

// beat sends a heartbeat and returns the time until the next one. It sends none if the report was
// not confirmed for two rescan intervals.
func (a *agent) beat(ctx context.Context, failures *backoff) time.Duration {
	at, sequence := a.mirror.out.vouch.holds()
	now := a.opts.Now()
	switch {
	case at.IsZero():
		return firstBeatPoll
	case now.Sub(at) > 2*a.opts.Rescan+time.Second:
		return a.opts.Heartbeat
	}
	err := a.api.Heartbeat(ctx, sequence, now)
	a.mirror.metrics.heartbeats.WithLabelValues(result(err)).Inc()
	if err != nil {
		a.opts.Log.Warn("cannot send a heartbeat", "node", a.opts.Node, "error", err)
		return min(failures.Step(), a.opts.Heartbeat)
	}
	*failures = newBackoff()
	return a.opts.Heartbeat
}
