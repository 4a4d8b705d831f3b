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
	// LeaseName is the name of the Lease, in the namespace of the heartbeats, in which a leader
	// records for the next leader whether Bindings may be under way.
	LeaseName = "berth-scheduler-bindings"
	// leaseAnnotation is an annotation of the Lease. Its value is bindingsUnderWay or bindingsNone.
	leaseAnnotation  = "berth.dev/bindings"
	bindingsUnderWay = "under-way"
	bindingsNone     = "none"
	// leaseIdle is the time for which a leader waits after its last Binding before it records that
	// no Binding is under way. So single Bindings cause at most two writes of the Lease per
	// leaseIdle. Under load, the leader writes the Lease once per leaseFresh.
	leaseIdle = time.Second
	// leaseFresh is the time for which a leader assumes that the Lease is still its own. A process
	// that was suspended for longer writes the Lease before its next Binding, and so learns if
	// another process leads. leaseFresh is short enough, because the election makes another process
	// the leader no sooner than a lease duration after the last renewal.
	leaseFresh = time.Second
	// writeTimeout is the timeout of one attempt to record whether Bindings are under way.
	writeTimeout = 10 * time.Second
)

// ErrDeposed means that this process may no longer write Bindings: its Lease was deleted or belongs
// to another scheduler, or another process leads.
var ErrDeposed = errors.New("another scheduler has taken over, or the Lease was deleted")

// bindingsLease is the record that a leader leaves for the next leader. The leader writes it before
// the first Binding of a series and after the last Binding.
type bindingsLease struct {
	leases coordinationclient.LeaseInterface
	clock  clock.WithDelayedExecution
	logger klog.Logger
	// name is a random name of this process, which no other scheduler has had.
	name string
	// bindTimeout is the time for which the API server may still write a Binding of the previous
	// leader.
	bindTimeout time.Duration
	// fresh is leaseFresh, except in tests.
	fresh time.Duration

	// writing is held during a write of the Lease and during changes of lease or marked. mu guards
	// all following fields. mu is never held during a request, so that bindingsLease.leave never
	// waits for a request.
	writing sync.Mutex
	mu      sync.Mutex
	// lease is the last written or read version. lease is nil if this process has not claimed the
	// Lease. While lease is nil, this process leaves no record of its Bindings.
	lease *coordinationv1.Lease
	// marked means that the Lease contains under-way, or may contain it.
	marked bool
	// confirmed is the last time at which this process found that the Lease is its own or that it
	// leads. The age of confirmed is measured by the monotonic clock, which cannot be set.
	confirmed time.Time
	// bindings is the number of Bindings under way.
	bindings int
	// quietFrom is the time from which the API server can no longer write any of the Bindings for
	// which bindingsLease.leave was called.
	quietFrom time.Time
	// armed means that a call of clear is scheduled.
	armed bool
	// giveUp cancels the running write of bindingsNone. It is nil if bindingsNone is not being
	// written.
	giveUp context.CancelFunc
}

// found is what the Lease shows about the Bindings of the previous leader.
type found uint8

const (
	// foundUnknown means that the Lease could not be read or claimed.
	foundUnknown found = iota
	// foundNobody means that there was no Lease, so no earlier leader is known.
	foundNobody
	// foundQuiet means that no Binding of the previous leader is under way.
	foundQuiet
	// foundUnderWay means that Bindings of the previous leader may still be written.
	foundUnderWay
)

// claim makes this process the holder of the Lease, and returns the state that the Lease had
// before. After claim, another scheduler cannot write under-way into the Lease unless it claims the
// Lease too.
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

// create makes the Lease. The caller holds l.writing.
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

// keep records the current Lease. The caller holds l.writing.
func (l *bindingsLease) keep(lease *coordinationv1.Lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lease = lease
}

// endFound records that no Binding of the previous leader is under way any more.
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
	if l.goesOn() { // another Binding has written the Lease meanwhile
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

// goesOn reports whether a Binding may go on without a write of the Lease: the Lease already says
// under-way and was checked recently, or this process does not hold the Lease. If the Binding may
// go on, goesOn counts it. goesOn cancels a running write of bindingsNone, because enter will write
// the Lease again.
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

// unclaimed reports whether this process does not hold the Lease, and must ask again whether it
// leads, because the last answer is at least l.fresh old.
func (l *bindingsLease) unclaimed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lease == nil && time.Since(l.confirmed) >= l.fresh
}

// leads records that the API server, in answer to a request at the time asked, named this process
// as the leader.
func (l *bindingsLease) leads(asked time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.confirmed = asked
}

// leave is called when the result of a Binding is known, or when the scheduler gives up asking for
// the result. From quietFrom on, the API server can no longer write the Binding.
func (l *bindingsLease) leave(quietFrom time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bindings--
	if quietFrom.After(l.quietFrom) {
		l.quietFrom = quietFrom
	}
	l.arm()
}

// arm schedules a call of clear if no Binding is under way. The caller holds l.mu.
func (l *bindingsLease) arm() {
	if l.lease == nil || l.bindings > 0 || l.armed {
		return
	}
	l.armed = true
	later.Call(l.clock, max(0, l.quietFrom.Add(leaseIdle).Sub(l.clock.Now())), l.clear)
}

// clear writes bindingsNone into the Lease, unless a Binding is under way.
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
		l.marked = false // enter must write the Lease again
	default:
		l.logger.Error(err, "Cannot write the Lease: it still records Bindings under way", "lease", LeaseName)
		l.quietFrom = l.clock.Now().Add(writeTimeout)
		l.arm()
	}
}

// beginClear reports whether clear must write the Lease. The function giveUp cancels this write.
func (l *bindingsLease) beginClear(giveUp context.CancelFunc) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.armed = false
	if l.bindings > 0 || !l.marked {
		return false // the next leave calls arm again
	}
	if l.clock.Now().Before(l.quietFrom.Add(leaseIdle)) {
		l.arm()
		return false
	}
	l.giveUp = giveUp
	return true
}

// write writes state into the Lease. It returns ErrDeposed if the Lease was deleted or belongs to
// another scheduler. The caller holds l.writing.
func (l *bindingsLease) write(ctx context.Context, state string) error {
	const tries = 3
	var err error
	for range tries {
		next := l.lease.DeepCopy()
		// The map of annotations may be nil, because a user may have removed the last annotation.
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
		case apierrors.IsNotFound(getErr): // deleted; the first scheduler to create it holds it
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
