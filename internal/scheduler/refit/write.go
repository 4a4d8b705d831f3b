package refit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/berth-dev/berth/internal/clip"
	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/scheduler/handover"
	"github.com/berth-dev/berth/internal/scheduler/later"
	"github.com/berth-dev/berth/internal/scheduler/nodes"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

const (
	requestTimeout = 10 * time.Second
	// firstRetry is the pause after the first request without an answer, and lastRetry the longest
	// pause.
	firstRetry = 50 * time.Millisecond
	lastRetry  = 5 * time.Second
	// maxMessage is the maximum length of a condition's message, in bytes.
	maxMessage = 500
)

// write is one write of a pod's status: a condition, and the decision if there is one.
type write struct {
	*Refitter
	pod  *corev1.Pod
	body []byte
	// node is the pod's node, or nil if the write has no decision. generation is the generation of
	// the decision.
	node       *nodes.Node
	generation uint64
	reason     string
	message    string
	// quiet means that no event is written about the resize.
	quiet bool
}

// errStale means that the pod's version from the watch does not have the newest decision yet.
var errStale = errors.New("there is a newer decision")

// decided returns the write of a decision. The write is conditional on this version of the pod: if
// the pod has changed, it fails.
func (r *Refitter) decided(pod *corev1.Pod, d *placement.Decision, a *ledger.Refit) (*write, error) {
	p, _, err := wire.ReadPlacement(pod)
	switch {
	case err != nil:
		return nil, err
	case max(p.Generation, 1)+1 != a.Generation:
		return nil, errStale
	}
	p.Generation, p.Report, p.Decision, p.Certainty, p.Guarantee = a.Generation, a.Report, *d, wire.Exact, wire.GuaranteeFull
	text, err := wire.WritePlacement(&p)
	if err == nil {
		err = wire.CheckAnnotations(pod, len(text))
	}
	if err != nil {
		return nil, err
	}
	w := &write{Refitter: r, pod: pod, generation: a.Generation, reason: "Resized", message: summary(d, a.Generation)}
	return w, w.make(corev1.ConditionTrue, map[string]string{wire.PlacementAnnotation: text})
}

// summary describes the CPUs and NUMA nodes of the containers that have exclusive CPUs.
func summary(d *placement.Decision, generation uint64) string {
	text := fmt.Sprintf("decision %d:", generation)
	for i := range d.Containers {
		c := &d.Containers[i]
		if !c.CPUs.IsEmpty() {
			text += fmt.Sprintf(" %s has CPUs %s on NUMA nodes %s;", c.Name, c.CPUs, c.Hint.NUMA)
		}
	}
	return text[:len(text)-1]
}

// deferred returns the write of a condition with the reason why a resize waits, or nil if the pod
// already has this condition.
func (r *Refitter) deferred(pod *corev1.Pod, why string) *write {
	why = clip.Text(why, maxMessage)
	if c := isDeferred(pod); c != nil && c.Message == why {
		return nil
	}
	return r.condition(pod, corev1.ConditionFalse, "ResizeDeferred", why)
}

// condition returns the write of a condition without a decision.
func (r *Refitter) condition(pod *corev1.Pod, status corev1.ConditionStatus, reason, message string) *write {
	w := &write{Refitter: r, pod: pod, reason: reason, message: message, quiet: status == corev1.ConditionTrue}
	if err := w.make(status, nil); err != nil {
		r.Logger.Error(err, "Cannot report whether a resize is deferred", "pod", klog.KObj(pod))
		return nil
	}
	return w
}

// isDeferred returns the pod's condition for a deferred resize, or nil.
func isDeferred(pod *corev1.Pod) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == wire.ResizeCondition && c.Status == corev1.ConditionFalse {
			return c
		}
	}
	return nil
}

func (w *write) make(status corev1.ConditionStatus, annotations map[string]string) (err error) {
	w.message = clip.Text(w.message, maxMessage)
	meta := map[string]any{"uid": w.pod.UID, "resourceVersion": w.pod.ResourceVersion} // preconditions of the write
	if annotations != nil {
		meta["annotations"] = annotations
	}
	w.body, err = json.Marshal(map[string]any{"metadata": meta, "status": map[string]any{"conditions": []any{corev1.PodCondition{
		Type: wire.ResizeCondition, Status: status, Reason: w.reason, Message: w.message, LastTransitionTime: metav1.NewTime(w.Clock.Now()),
	}}}})
	return err
}

// do sends the write. It returns false if the write failed and should be tried again. If only the
// watch can show whether it failed, do returns true.
func (w *write) do(ctx context.Context) bool {
	if w.node == nil {
		err := w.send(ctx)
		if err == nil && !w.quiet {
			w.Events.Eventf(w.pod, nil, corev1.EventTypeWarning, w.reason, "Resizing", "%s", w.message)
		}
		return err == nil
	}
	uid := string(w.pod.UID)
	if err := w.Handover.Enter(ctx); err != nil {
		w.node.Account().NotRefitted(uid)
		return false
	}
	written, err := w.decision(ctx)
	w.Handover.Leave(err)
	switch {
	case err != nil:
		return true // both decisions count until the watch shows one of them
	case !written:
		w.node.Account().NotRefitted(uid)
		return false
	}
	w.node.Account().Refitted(uid)
	w.Events.Eventf(w.pod, nil, corev1.EventTypeNormal, w.reason, "Resizing", "%s", w.message)
	return true
}

// decision repeats the request until it is known whether the decision was written. It returns an
// error if this cannot be known, because the pod is gone or ctx has ended.
func (w *write) decision(ctx context.Context) (written bool, err error) {
	lost := false
	for rest := firstRetry; ; rest = min(2*rest, lastRetry) {
		err := w.send(ctx)
		switch {
		case err == nil:
			return true, nil
		case !handover.Definite(err):
			lost = true
		case !lost:
			return false, nil
		default: // this request failed; an earlier one may have succeeded
			pod, err := w.Client.Pods(w.pod.Namespace).Get(ctx, w.pod.Name, metav1.GetOptions{})
			switch {
			case err == nil && pod.UID == w.pod.UID && wire.GenerationOf(pod) >= w.generation:
				return true, nil
			case err == nil && pod.UID == w.pod.UID && pod.ResourceVersion != w.pod.ResourceVersion:
				return false, nil
			case apierrors.IsNotFound(err) || err == nil && pod.UID != w.pod.UID:
				return false, fmt.Errorf("%w: the pod has gone", handover.ErrInDoubt)
			}
		}
		if !later.Wait(ctx, w.Clock, rest) {
			return false, fmt.Errorf("%w: %w", handover.ErrInDoubt, ctx.Err())
		}
	}
}

func (w *write) send(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	_, err := w.Client.Pods(w.pod.Namespace).Patch(ctx, w.pod.Name, types.StrategicMergePatchType, w.body, metav1.PatchOptions{}, "status")
	return err
}
