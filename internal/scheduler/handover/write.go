package handover

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
)

var (
	// ErrInDoubt means that the scheduler cannot find out whether a Binding was written.
	ErrInDoubt = errors.New("it is not known whether the Binding was written")
	// errUnread means that the pod could not be read, so it is not known whether the Binding was
	// written.
	errUnread = errors.New("the pod could not be read back")
)

const (
	// BindTimeout is the time after which the API server gives up a request (--request-timeout).
	// The scheduler does not wait longer for an answer.
	BindTimeout = time.Minute
	// readBackFor is the maximum time for which Write checks whether a Binding was written, and
	// repeats it.
	readBackFor = 10 * time.Second
)

// Binding has the operations that Write needs to bind one pod.
type Binding interface {
	// Make returns the Binding for this version of the pod.
	Make(now *corev1.Pod) (*corev1.Binding, error)
	// Post sends a Binding.
	Post(ctx context.Context, b *corev1.Binding) error
	// Read returns the pod of this name from the API server. The result may be another pod that now
	// has the name.
	Read(ctx context.Context) (*corev1.Pod, error)
	// Reconsider decides again from the newest information about the node. It returns an error if
	// no decision is valid any longer. A later Make uses the new decision.
	Reconsider() error
	// Forbidden returns the reason why this version of the pod must not be bound, or "".
	Forbidden(now *corev1.Pod) string
}

// write is one call of Write.
type write struct {
	Binding
	pod  *corev1.Pod
	node string
	// now is the version of the pod that is bound.
	now *corev1.Pod
	// lost means that a request had no definite answer, so the API server may still write its
	// Binding.
	lost bool
}

// Write writes the Binding of a pod to a node. The parameter now is the newest known version of the
// pod. If the result is unknown or the pod has changed, Write reads the pod, and repeats the
// Binding if the pod is not bound. This is safe, because the API server refuses a second Binding
// for the same pod. Write returns ErrInDoubt if the result is still unknown after readBackFor.
func Write(ctx context.Context, b Binding, now *corev1.Pod, node string) error {
	w := &write{Binding: b, pod: now, node: node, now: now}
	err := w.send(ctx)
	if err == nil || Definite(err) && !apierrors.IsConflict(err) {
		return err
	}
	// The context of the cycle may have ended, but the result of the Binding must still be found
	// out.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readBackFor)
	defer cancel()
	return w.readBack(ctx, err)
}

// unsent is the error of a Binding that was not sent.
type unsent struct{ error }

func (e unsent) Unwrap() error { return e.error }

func (w *write) send(ctx context.Context) error {
	b, err := w.Make(w.now)
	if err != nil {
		return unsent{err}
	}
	ctx, cancel := context.WithTimeout(ctx, BindTimeout)
	defer cancel()
	err = w.Post(ctx, b)
	w.lost = w.lost || err != nil && !Definite(err)
	return err
}

func (w *write) readBack(ctx context.Context, cause error) error {
	backoff := wait.Backoff{Duration: 50 * time.Millisecond, Factor: 2, Steps: 9} // these steps last longer than readBackFor; a Cap would end them early
	var outcome error
	err := wait.ExponentialBackoffWithContext(ctx, backoff, func(ctx context.Context) (bool, error) {
		var done bool
		done, outcome = w.lookAndSend(ctx)
		return done, nil
	})
	switch {
	case err == nil:
		return outcome
	case w.lost:
		return fmt.Errorf("%w: %w", ErrInDoubt, cause)
	default:
		return cause
	}
}

// lookAndSend checks whether the Binding was written. If it was not, lookAndSend sends the Binding
// again. The result final means that the outcome cannot change any more.
func (w *write) lookAndSend(ctx context.Context) (final bool, outcome error) {
	written, err := w.isWritten(ctx)
	if err != nil || written {
		return !errors.Is(err, errUnread), err
	}
	if err := w.Reconsider(); err != nil {
		return !w.lost, err
	}
	// A failed request is not final, even if it was refused: an earlier request may have been
	// carried out, and may be the reason for the refusal.
	err = w.send(ctx)
	return err == nil, err
}

// isWritten reports whether the pod is bound to the node. If the pod has no node and may be bound,
// isWritten sets w.now to the version that it has read. Any error except errUnread is final: it is
// ErrInDoubt, or a reason why this Binding will never be written.
func (w *write) isWritten(ctx context.Context) (bool, error) {
	pod, err := w.Read(ctx)
	switch {
	case apierrors.IsNotFound(err):
		return false, w.gone(err)
	case err != nil:
		return false, fmt.Errorf("%w: %w", errUnread, err)
	case pod.UID != w.pod.UID:
		return false, w.gone(apierrors.NewNotFound(corev1.Resource("pods"), w.pod.Name))
	case pod.Spec.NodeName == w.node:
		return true, nil
	case pod.Spec.NodeName != "":
		return false, w.conflict("bound to " + pod.Spec.NodeName)
	case pod.DeletionTimestamp != nil:
		return false, w.conflict("being deleted")
	}
	if why := w.Forbidden(pod); why != "" {
		return false, w.conflict(why)
	}
	w.now = pod
	return false, nil
}

// gone returns the error for a pod that no longer exists. If a request is lost, the pod may have
// been bound and then force-deleted, so the error is ErrInDoubt.
func (w *write) gone(err error) error {
	if w.lost {
		return fmt.Errorf("%w: %w", ErrInDoubt, err)
	}
	return err
}

func (w *write) conflict(why string) error {
	return apierrors.NewConflict(corev1.Resource("pods"), w.pod.Name, errors.New(why))
}

// Definite reports whether the error of a write proves that the API server has not carried it out.
func Definite(err error) bool {
	var not unsent
	return errors.As(err, &not) || apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsForbidden(err) ||
		apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsUnauthorized(err) || apierrors.IsTooManyRequests(err) ||
		apierrors.IsMethodNotSupported(err) || apierrors.IsGone(err) || apierrors.IsRequestEntityTooLargeError(err)
}
