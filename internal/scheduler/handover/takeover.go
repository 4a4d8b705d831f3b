package handover

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/wait"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/berth-dev/berth/internal/scheduler/later"
	"github.com/berth-dev/berth/internal/turns"
)

// Options are the dependencies of a Handover.
type Options struct {
	Leases coordinationclient.LeaseInterface
	Pods   corev1client.PodsGetter
	Clock  clock.WithDelayedExecution
	Logger klog.Logger
	// SettleAfter is the maximum time until a kubelet knows about a pod that was bound to its node
	// and then force-deleted.
	SettleAfter time.Duration
	// BindTimeout is the time after which the API server gives up a request (--request-timeout).
	BindTimeout time.Duration
	// Ours reports whether a scheduler with the same profile names could be binding this pod. The
	// pod has no node.
	Ours func(*corev1.Pod) bool
	// Resizing returns the bound pods for which the previous leader may still be writing a
	// decision. Resizing may be nil.
	Resizing func() []*corev1.Pod
	// Decided reports whether a pod has the decision of a Berth scheduler, whatever that
	// scheduler's name is (wire.HasPlacement).
	Decided func(*corev1.Pod) bool
	// Done is called when the takeover ends and pods may be placed.
	Done func()
	// Leads asks the API server whether the election's Lease names this process. It is nil without
	// leader election. It is needed because a process that was suspended believes for some seconds
	// that it still leads: client-go's leaderelection tries to renew until RenewDeadline.
	Leads func(ctx context.Context) (bool, error)
}

// Handover takes over from the previous leader, and prepares for the next leader. It is safe for
// concurrent use.
type Handover struct {
	Options
	lease  bindingsLease
	pace   *turns.Turns
	fences fences
	state  atomic.Int32
	// decided means that at least one pod has a decision (Options.Decided).
	decided atomic.Bool
	// synced is the time from which all objects that existed at the start have been processed.
	synced time.Time
	// led is closed when this scheduler has taken over for the first time.
	led  chan struct{}
	once sync.Once
}

// The states of a Handover.
const (
	// idle means that Ready has not been called yet, or that another scheduler has deposed this
	// scheduler.
	idle int32 = iota
	// takingOver means that takeOver is running.
	takingOver
	// leading means that pods may be placed.
	leading
)

// maxUnderWay is the maximum number of concurrent Bindings. The API server allows 100 requests at a
// time on one connection (--http2-max-streams-per-connection), including watches and the events
// that follow the Bindings. With more requests, client-go opens a new connection for each of them,
// which costs more CPU time than the pod's cycle. Besides, an API server under high load might
// answer a Binding with "too many requests", after which the pod waits for seconds. It is better if
// the pod waits in Pace: it continues at once when its turn comes, and its decision then uses the
// newest report of its node.
const maxUnderWay = 32

// New returns a Handover that has not taken over yet.
func New(o Options) *Handover {
	return &Handover{Options: o, led: make(chan struct{}), pace: turns.New(maxUnderWay), lease: bindingsLease{leases: o.Leases, clock: o.Clock, logger: o.Logger,
		name: string(uuid.NewUUID()), bindTimeout: o.BindTimeout, fresh: leaseFresh}}
}

// Pace waits until the number of running Bindings allows another Binding of the namespace. The
// caller must call done, at least once, when the API server has answered the Binding. Namespaces
// take turns, so a namespace with many pods hardly delays pods of other namespaces. It delays them
// only on nodes to which its own pods must be bound first. A repeated Binding does not wait in Pace
// again. If ctx ends first, Pace returns the error of ctx.
func (h *Handover) Pace(ctx context.Context, namespace string) (done func(), err error) {
	return h.pace.Take(ctx, namespace)
}

// Synced records that all objects that existed at the start have been processed. Call Synced before
// Ready.
func (h *Handover) Synced() { h.synced = h.Clock.Now() }

// Ready reports whether pods may be placed. If they may not, Ready starts the takeover, which calls
// Options.Done at its end. Only a leader may call Ready.
func (h *Handover) Ready(ctx context.Context) bool {
	if h.state.Load() == leading {
		return true
	}
	if h.state.CompareAndSwap(idle, takingOver) {
		go h.takeOver(context.WithoutCancel(ctx))
	}
	return false
}

// takeOver returns when the API server can no longer write Bindings of the previous leader. From
// the end of awaitLead, this takes at most Options.BindTimeout plus Options.SettleAfter.
func (h *Handover) takeOver(ctx context.Context) {
	h.awaitLead(ctx)
	limit, cancel := context.WithTimeout(ctx, h.BindTimeout)
	defer cancel()
	left := h.claim(limit)
	if left == foundNobody && h.decided.Load() { // the Lease was deleted
		left = foundUnderWay
	}
	if young := h.synced.Add(h.SettleAfter).Sub(h.Clock.Now()); left != foundNobody && young > 0 {
		// Before this watch began, a pod may have been bound and force-deleted, and its kubelet may
		// not know this yet.
		<-h.Clock.After(young)
	}
	if left == foundUnderWay || left == foundUnknown {
		begun := h.Clock.Now()
		pods, err := h.fence(limit)
		h.Logger.Info("Fenced the pods that the previous scheduler may be binding", "pods", pods, "took", h.Clock.Now().Sub(begun), "err", err)
	}
	h.lease.endFound()
	h.state.Store(leading)
	h.once.Do(func() { close(h.led) })
	h.Done()
	if left == foundUnknown {
		go h.claimLater(ctx)
	}
}

// claimPause is the time after which a leader tries again to claim the Lease.
const claimPause = 10 * time.Second

// claimLater tries to claim the Lease until it succeeds. Without a claim, the Lease would still
// have the record of the previous leader, and the next leader would take it for the record of this
// process.
func (h *Handover) claimLater(ctx context.Context) {
	for later.Wait(ctx, h.Clock, claimPause) {
		h.awaitLead(ctx)
		if _, err := h.lease.claim(ctx); err != nil {
			h.Logger.V(2).Info("Cannot claim the lease yet", "lease", LeaseName, "err", err)
			continue
		}
		if h.Enter(ctx) == nil { // record the Bindings that are already under way
			h.Leave(nil)
		}
		return
	}
}

// Await returns when this scheduler has taken over, when ctx ends, or after limit. Before the end
// of the takeover, no attempt to place a pod that could be pinned succeeds.
func (h *Handover) Await(ctx context.Context, limit time.Duration) {
	if h.Ready(ctx) {
		return
	}
	select {
	case <-h.led:
	case <-ctx.Done():
	case <-h.Clock.After(limit):
	}
}

// awaitLead returns when the election's Lease names this process. A process that has lost the
// election waits in awaitLead until the process ends, so that it does not take over from the new
// leader.
func (h *Handover) awaitLead(ctx context.Context) {
	if h.Leads == nil {
		return
	}
	_ = wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		leads, err := h.Leads(ctx)
		if err != nil {
			h.Logger.Info("Cannot read yet which process leads", "err", err)
		}
		return leads, nil
	})
}

// claim claims the Lease. It repeats the request until the claim succeeds, the API server refuses
// it for good, or ctx ends.
func (h *Handover) claim(ctx context.Context) (left found) {
	err := wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		var err error
		left, err = h.lease.claim(ctx)
		if err != nil {
			h.Logger.Info("Cannot take over the lease yet", "lease", LeaseName, "err", err)
		}
		return err == nil || apierrors.IsForbidden(err) || apierrors.IsNotFound(err), nil
	})
	if err != nil {
		return foundUnknown
	}
	return left
}

// Enter is called before a Binding is written. If it returns an error, the Binding must not be
// written. If another scheduler has taken over, Enter returns ErrDeposed, and the next call of
// Ready starts a new takeover. With leader election, this takeover ends only after this process
// leads again (awaitLead). If two schedulers run without leader election, each takes over from the
// other.
func (h *Handover) Enter(ctx context.Context) error {
	err := h.stillLeads(ctx)
	if err == nil {
		err = h.lease.enter(ctx)
	}
	if errors.Is(err, ErrDeposed) {
		h.state.CompareAndSwap(leading, idle)
	}
	return err
}

// stillLeads returns ErrDeposed if another process leads. It asks the API server only if this
// process could not claim the Lease. A process that has claimed the Lease learns from the Lease
// that another process leads, for example after a suspension.
func (h *Handover) stillLeads(ctx context.Context) error {
	if h.Leads == nil || !h.lease.unclaimed() {
		return nil
	}
	asked := time.Now()
	leads, err := h.Leads(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("find out which process leads: %w", err)
	case !leads:
		return ErrDeposed
	}
	h.lease.leads(asked)
	return nil
}

// Leave must be called after each successful Enter, with the error of Write. If the error is
// ErrInDoubt, the API server may still write the Binding for Options.BindTimeout.
func (h *Handover) Leave(err error) {
	quietFrom := h.Clock.Now()
	if errors.Is(err, ErrInDoubt) {
		quietFrom = quietFrom.Add(h.BindTimeout)
	}
	h.lease.leave(quietFrom)
}
