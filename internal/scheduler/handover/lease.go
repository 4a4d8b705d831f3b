package handover

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/berth-dev/berth/internal/scheduler/later"
)

const (
	// LeaseName is the Lease, in the namespace of the heartbeats, in which a leader records for the
	// next one whether its Bindings may be under way.
	LeaseName = "berth-scheduler-bindings"
	// leaseAnnotation holds bindingsUnderWay or bindingsNone.
	leaseAnnotation  = "berth.dev/bindings"
	bindingsUnderWay = "under-way"
	bindingsNone     = "none"
	// leaseIdle is the time after its last Binding at which a leader records that none is under
	// way. So the Lease is written at most twice in that time, and under load once in leaseFresh.
	leaseIdle = time.Second
	// leaseFresh is the time for which a leader trusts that the Lease is still its own. A process
	// that was stopped for longer finds out before its next Binding that another one leads. The
	// election gives the lead to another process no sooner than a lease duration after the last
	// renewal.
	leaseFresh = time.Second
	// writeTimeout bounds one attempt to record whether Bindings are under way.
	writeTimeout = 10 * time.Second
)

// ErrDeposed means that another scheduler has taken over, or may: the Lease is no longer ours.
var ErrDeposed = errors.New("another scheduler has taken over, or the Lease was deleted")

// bindingsLease is the record that a leader leaves for the next one. It is written before the first
// Binding of a series, and after the last.
type bindingsLease struct {
	leases coordinationclient.LeaseInterface
	clock  clock.WithDelayedExecution
	logger klog.Logger
	// name is ours among all schedulers that ever ran.
	name string
	// bindTimeout is the time for which a Binding that was found under way can still be written.
	bindTimeout time.Duration
	// fresh is leaseFresh, except for tests.
	fresh time.Duration

	// writing is held while the Lease is written, and by changes of lease or marked. mu guards all
	// following fields, and is never held during a request, so that no end of a Binding waits for a
	// request.
	writing sync.Mutex
	mu      sync.Mutex
	// lease is the last written or read version. It is nil while it is not ours or cannot be
	// written. Then there is no record, and the next leader must assume the worst.
	lease *coordinationv1.Lease
	// marked means that the Lease contains under-way.
	marked bool
	// confirmed is the last time when we checked that the Lease is ours, by this process' own
	// monotonic clock, which cannot be set.
	confirmed time.Time
	// bindings is the number of Bindings under way.
	bindings int
	// quietFrom is the time from which there has been none that may still be written.
	quietFrom time.Time
	// armed: a call of clear is to come.
	armed bool
	// giveUp cancels the write "no Binding is under way". It is nil if no such write runs.
	giveUp context.CancelFunc
}

// found is what the previous leader left.
type found uint8

const (
	// foundUnknown: it is not known.
	foundUnknown found = iota
	// foundNobody: there was no Lease.
	foundNobody
	// foundQuiet: no Binding of the previous leader is under way.
	foundQuiet
	// foundUnderWay: Bindings of the leader before may still be written.
	foundUnderWay
)

// claim makes the Lease ours and returns its earlier content. From then on no other scheduler
// begins a series of Bindings.
func (l *bindingsLease) claim(ctx context.Context) (found, error) {
	l.writing.Lock()
	defer l.writing.Unlock()
	there, err := l.leases.Get(ctx, LeaseName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return l.create(ctx)
	}
	if err != nil {
		return foundUnknown, err
	}
	said, ours, asked := there.Annotations[leaseAnnotation], there.DeepCopy(), time.Now()
	ours.Spec.HolderIdentity = &l.name
	if ours, err = l.leases.Update(ctx, ours, metav1.UpdateOptions{}); err != nil {
		return foundUnknown, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lease, l.marked, l.confirmed = ours, said != bindingsNone, asked
	if l.marked {
		l.quietFrom = l.clock.Now().Add(l.bindTimeout)
		return foundUnderWay, nil
	}
	return foundQuiet, nil
}

// create makes the Lease. The caller holds writing.
func (l *bindingsLease) create(ctx context.Context) (found, error) {
	fresh := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: LeaseName, Annotations: map[string]string{leaseAnnotation: bindingsNone}},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &l.name}}
	made, err := l.leases.Create(ctx, fresh, metav1.CreateOptions{})
	if err != nil {
		l.keep(nil)
		return foundUnknown, err
	}
	l.keep(made)
	return foundNobody, nil
}

// keep records the present Lease. The caller holds writing.
func (l *bindingsLease) keep(lease *coordinationv1.Lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lease = lease
}

// endFound records that the Bindings that claim found under way have ended.
func (l *bindingsLease) endFound() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.marked {
		l.quietFrom = l.clock.Now()
		l.arm()
	}
}

// enter is called before a Binding is written. If it returns an error, the Binding must not be
// written.
func (l *bindingsLease) enter(ctx context.Context) error {
	if l.goesOn() {
		return nil
	}
	l.writing.Lock()
	defer l.writing.Unlock()
	if l.goesOn() { // somebody else has said so meanwhile
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	asked := time.Now()
	if err := l.write(ctx, bindingsUnderWay); err != nil {
		return fmt.Errorf("lease %s: %w", LeaseName, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.marked, l.confirmed = true, asked
	l.bindings++
	return nil
}

// goesOn counts a Binding if the Lease has recently recorded that some are under way, or cannot
// record anything. It cancels a running write that there are none, because the Lease is written
// again at once.
func (l *bindingsLease) goesOn() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.giveUp != nil {
		l.giveUp()
		return false
	}
	if l.lease != nil && (!l.marked || time.Since(l.confirmed) >= l.fresh) {
		return false
	}
	l.bindings++
	return true
}

// unclaimed reports whether the Lease is not ours although we were not deposed, and the last check
// of the leader was some time ago.
func (l *bindingsLease) unclaimed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lease == nil && time.Since(l.confirmed) >= l.fresh
}

// leads records that we led at the time of the check.
func (l *bindingsLease) leads(asked time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.confirmed = asked
}

// leave is called when the outcome of a Binding is known, or given up on. From quietFrom on the
// Binding can no longer be written.
func (l *bindingsLease) leave(quietFrom time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bindings--
	if quietFrom.After(l.quietFrom) {
		l.quietFrom = quietFrom
	}
	l.arm()
}

// arm arranges for clear to be called once it is quiet. The caller holds the lock.
func (l *bindingsLease) arm() {
	if l.lease == nil || l.bindings > 0 || l.armed {
		return
	}
	l.armed = true
	later.Call(l.clock, max(0, l.quietFrom.Add(leaseIdle).Sub(l.clock.Now())), l.clear)
}

// clear records that no Binding is under way, if this is true.
func (l *bindingsLease) clear() {
	l.writing.Lock()
	defer l.writing.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
	defer cancel()
	if !l.beginClear(cancel) {
		return
	}
	err := l.write(ctx, bindingsNone)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.giveUp = nil
	switch {
	case err == nil, errors.Is(err, ErrDeposed), errors.Is(ctx.Err(), context.Canceled):
		l.marked = false // if what it says is not ours, or not known, enter has to see
	default:
		l.logger.Error(err, "Lease not written: it still says that Bindings are under way", "lease", LeaseName)
		l.quietFrom = l.clock.Now().Add(writeTimeout)
		l.arm()
	}
}

// beginClear reports whether clear has anything to write. giveUp ends that.
func (l *bindingsLease) beginClear(giveUp context.CancelFunc) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.armed = false
	if l.bindings > 0 || !l.marked {
		return false // the next leave arms again
	}
	if l.clock.Now().Before(l.quietFrom.Add(leaseIdle)) {
		l.arm()
		return false
	}
	l.giveUp = giveUp
	return true
}

// write writes the Lease unless it now belongs to another scheduler. The caller holds writing.
func (l *bindingsLease) write(ctx context.Context, state string) error {
	const tries = 3
	var err error
	for range tries {
		next := l.lease.DeepCopy()
		// If a user has removed the last annotation, there is no map.
		metav1.SetMetaDataAnnotation(&next.ObjectMeta, leaseAnnotation, state)
		var written *coordinationv1.Lease
		if written, err = l.leases.Update(ctx, next, metav1.UpdateOptions{}); err == nil {
			l.keep(written)
			return nil
		}
		if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return err
		}
		there, getErr := l.leases.Get(ctx, LeaseName, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(getErr): // deleted: the first to claim it has it
			return ErrDeposed
		case getErr != nil:
			return getErr
		case there.Spec.HolderIdentity == nil || *there.Spec.HolderIdentity != l.name:
			return ErrDeposed
		}
		l.keep(there)
	}
	return err
}
