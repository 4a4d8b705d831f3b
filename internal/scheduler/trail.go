package scheduler

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
)

const (
	// TrailName is the Lease, in the namespace of the heartbeats, by which a leader tells the next one whether Bindings of it
	// may be under way.
	TrailName = "berth-scheduler-bindings"
	// trailAnnotation holds bindingsUnderWay or bindingsNone.
	trailAnnotation  = "berth.dev/bindings"
	bindingsUnderWay = "under-way"
	bindingsNone     = "none"
	// trailIdle is how long after its last Binding a leader says that none is under way: under load the Lease is not
	// written at all, otherwise at most twice in that time.
	trailIdle = time.Second
)

// errDeposed says that another scheduler has taken over, or may: the Lease is not ours any more.
var errDeposed = errors.New("another scheduler has taken over, or the Lease was deleted")

// trail is what a leader leaves behind for the next one: a Lease that is written before the first of a series of
// Bindings, and after the last. What a leader that died in between has sent may still be written; see takeover.
type trail struct {
	leases coordinationclient.LeaseInterface
	clock  clock.WithDelayedExecution
	logger klog.Logger
	// name is ours among all schedulers that ever ran.
	name string

	mu sync.Mutex
	// lease is as we last wrote or read it; nil while it is not ours, or cannot be written: then nothing is left behind,
	// and the next leader has to assume the worst.
	lease *coordinationv1.Lease
	// marked: the Lease says under-way.
	marked bool
	// bindings are under way now.
	bindings int
	// quietFrom is since when none has been that may still be written.
	quietFrom time.Time
	armed     bool // a clear is to come
}

// legacy is what the leader before has left.
type legacy uint8

const (
	// legacyUnknown: nobody could tell.
	legacyUnknown legacy = iota
	// legacyNone: nobody has led before.
	legacyNone
	// legacyQuiet: no Binding of it is under way.
	legacyQuiet
	// legacyUnderWay: Bindings of it may still be written.
	legacyUnderWay
)

// claim makes the trail ours and says what is to be found there. From then on no other scheduler begins a series of
// Bindings.
func (t *trail) claim(ctx context.Context) (legacy, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	found, err := t.leases.Get(ctx, TrailName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		fresh := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: TrailName, Annotations: map[string]string{trailAnnotation: bindingsNone}},
			Spec: coordinationv1.LeaseSpec{HolderIdentity: &t.name}}
		t.lease, err = t.leases.Create(ctx, fresh, metav1.CreateOptions{})
		if err != nil {
			t.lease = nil
			return legacyUnknown, err
		}
		return legacyNone, nil
	}
	if err != nil {
		return legacyUnknown, err
	}
	left, ours := found.Annotations[trailAnnotation], found.DeepCopy()
	ours.Spec.HolderIdentity = &t.name
	if ours, err = t.leases.Update(ctx, ours, metav1.UpdateOptions{}); err != nil {
		return legacyUnknown, err
	}
	t.lease, t.marked = ours, left != bindingsNone
	if t.marked {
		t.quietFrom = t.clock.Now().Add(bindTimeout)
		return legacyUnderWay, nil
	}
	return legacyQuiet, nil
}

// over says that what was found under way is over.
func (t *trail) over() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.marked {
		t.quietFrom = t.clock.Now()
		t.arm()
	}
}

// enter is called before a Binding is written. The error says that it must not be.
func (t *trail) enter(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lease != nil && !t.marked {
		if err := t.write(ctx, bindingsUnderWay); err != nil {
			return fmt.Errorf("lease %s: %w", TrailName, err)
		}
		t.marked = true
	}
	t.bindings++
	return nil
}

// leave is called when the outcome of a Binding is known, or given up on; from the moment given on it can no longer be
// written.
func (t *trail) leave(quietFrom time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.bindings--
	if quietFrom.After(t.quietFrom) {
		t.quietFrom = quietFrom
	}
	t.arm()
}

// arm sees to it that clear is called when it is quiet. The caller holds the lock.
func (t *trail) arm() {
	if t.lease == nil || t.bindings > 0 || t.armed {
		return
	}
	t.armed = true
	t.clock.AfterFunc(max(0, t.quietFrom.Add(trailIdle).Sub(t.clock.Now())), func() { go t.clear() })
}

// clear says that no Binding is under way, if that is so.
func (t *trail) clear() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.armed = false
	if t.bindings > 0 || !t.marked {
		return // the next leave arms again
	}
	now := t.clock.Now()
	if now.Before(t.quietFrom.Add(trailIdle)) {
		t.arm()
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), readBackFor)
	defer cancel()
	err := t.write(ctx, bindingsNone)
	switch {
	case err == nil:
		t.marked = false
	case errors.Is(err, errDeposed):
		t.marked = false // what it says is not ours: enter has to see
	default:
		t.logger.Error(err, "Lease not written: it says on that Bindings are under way", "lease", TrailName)
		t.quietFrom = now.Add(readBackFor)
		t.arm()
	}
}

// write writes the Lease unless it is somebody else's by now. The caller holds the lock.
func (t *trail) write(ctx context.Context, state string) error {
	const tries = 3
	var err error
	for range tries {
		next := t.lease.DeepCopy()
		// Where somebody has taken the last annotation off there is no map.
		metav1.SetMetaDataAnnotation(&next.ObjectMeta, trailAnnotation, state)
		var written *coordinationv1.Lease
		if written, err = t.leases.Update(ctx, next, metav1.UpdateOptions{}); err == nil {
			t.lease = written
			return nil
		}
		if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return err
		}
		found, getErr := t.leases.Get(ctx, TrailName, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(getErr): // deleted: whoever claims it first has it
			return errDeposed
		case getErr != nil:
			return getErr
		case found.Spec.HolderIdentity == nil || *found.Spec.HolderIdentity != t.name:
			return errDeposed
		}
		t.lease = found
	}
	return err
}
