package scheduler

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

const (
	// readBackFor is how long the outcome of a Binding is looked for before it is left in doubt.
	readBackFor = 10 * time.Second
	// bindTimeout is after how long the API server has given up a request (--request-timeout).
	bindTimeout = time.Minute
)

// Bind writes Binding and decision in one request, one request at a time per node, so that the kubelet's watch
// delivers pods in the order in which they were decided.
func (p *Plugin) Bind(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodeName string) *fwk.Status {
	c := cycleOf(state)
	if c == nil {
		return fwk.NewStatus(fwk.Skip)
	}
	n := p.nodes.get(nodeName)
	if err := n.gate.enter(ctx, c.number); err != nil {
		return fwk.AsStatus(err)
	}
	defer n.gate.leave()
	if why := n.unusable(p.clock.Now(), p.args.StaleAfter.Duration); why != nil {
		return c.refuse(fwk.NewStatus(fwk.Unschedulable, why.Text))
	}
	// Before the decision: nothing may come between that and the Binding which takes time.
	if err := p.enterTrail(ctx); err != nil {
		return fwk.AsStatus(err)
	}
	status, err := p.decideAndWrite(ctx, pod, n)
	p.leaveTrail(err)
	if status.IsRejected() {
		return c.refuse(status)
	}
	return status
}

// decideAndWrite returns, beside the status, how the write went.
func (p *Plugin) decideAndWrite(ctx context.Context, pod *corev1.Pod, n *node) (*fwk.Status, error) {
	var d placement.Decision
	posting, err := n.Post(string(pod.UID), &d)
	if err != nil {
		return fwk.AsStatus(err), nil
	}
	verdicts.WithLabelValues("Bind", posting.Answer.Outcome.String(), reasonOf(&posting.Answer)).Inc()
	if status := statusOf(&posting.Answer); status != nil {
		return status, nil
	}
	p.feed.posted.Store(pod.UID, n)
	w := &writing{Plugin: p, node: n, pod: pod, turn: posting.Turn, report: posting.Report, decision: &d, now: p.newest(pod)}
	err = w.write(ctx, posting.Answer.Exact)
	return p.conclude(pod, n, err), err
}

func (p *Plugin) enterTrail(ctx context.Context) error {
	if p.takeover == nil {
		return nil
	}
	err := p.takeover.trail.enter(ctx)
	if errors.Is(err, errDeposed) {
		// Who does not lead any more is about to end. Should both go on, each takes over from the other.
		p.takeover.over.Store(false)
	}
	return err
}

func (p *Plugin) leaveTrail(err error) {
	if p.takeover == nil {
		return
	}
	quietFrom := p.clock.Now()
	if errors.Is(err, errInDoubt) {
		quietFrom = quietFrom.Add(bindTimeout)
	}
	p.takeover.trail.leave(quietFrom)
}

// newest returns the pod as its Binding is to be for: it may have been written since its cycle began, mostly by this
// scheduler itself.
func (p *Plugin) newest(pod *corev1.Pod) *corev1.Pod {
	newest, err := p.handle.SharedInformerFactory().Core().V1().Pods().Lister().Pods(pod.Namespace).Get(pod.Name)
	if err != nil || newest.UID != pod.UID || p.cannotBind(pod, newest) != "" {
		return pod
	}
	return newest
}

// cannotBind says why a pod that was decided for as it was then may not be bound as it is now; "" when it may: nobody else has
// taken over between, and it asks for the same.
func (p *Plugin) cannotBind(then, now *corev1.Pod) string {
	fence := fenceOf(now)
	switch {
	case fence != fenceOf(then) && (p.takeover == nil || fence != p.takeover.trail.name):
		return "fenced by another scheduler"
	case then.ResourceVersion == now.ResourceVersion:
		return ""
	}
	// Which of its devices are claimed is written on the way to Bind, for nodes that have no device plugin for them.
	like := *now
	like.Status.ExtendedResourceClaimStatus = then.Status.ExtendedResourceClaimStatus
	if !asksTheSame(then, &like) {
		return "resized"
	}
	return ""
}

// conclude draws the ledger's conclusion from how the write went.
func (p *Plugin) conclude(pod *corev1.Pod, n *node, err error) *fwk.Status {
	if errors.Is(err, errInDoubt) {
		n.Doubt(string(pod.UID), p.clock.Now().Add(bindTimeout))
		bindings.WithLabelValues(bindingDoubt).Inc()
		return fwk.AsStatus(err)
	}
	if err != nil {
		p.feed.posted.Delete(pod.UID)
		n.Forget(string(pod.UID))
		bindings.WithLabelValues(bindingFailed).Inc()
		return fwk.AsStatus(err)
	}
	bindings.WithLabelValues(bindingWritten).Inc()
	return nil
}

// writing is a Binding on its way.
type writing struct {
	*Plugin
	node     *node
	pod      *corev1.Pod
	turn     int64
	report   int64 // what was decided on, whatever has come since
	decision *placement.Decision
	// now is the pod as the Binding is for: with this resource version it holds.
	now *corev1.Pod
	// lost: some request had no answer, so that a Binding may be written yet.
	lost bool
}

func (w *writing) binding(exact bool) (*corev1.Binding, error) {
	text, err := wire.EncodePlacement(&wire.Placement{
		Sequence: uint64(w.turn), Report: w.report, Certainty: certainty(exact), Guarantee: wire.GuaranteeFull, Decision: *w.decision,
	})
	if err != nil {
		return nil, err
	}
	if err := wire.CheckAnnotations(w.now, len(text)); err != nil {
		return nil, err
	}
	return &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: w.pod.Namespace, Name: w.pod.Name, UID: w.pod.UID, ResourceVersion: w.now.ResourceVersion,
			Annotations: map[string]string{wire.PlacementAnnotation: text},
		},
		Target: corev1.ObjectReference{Kind: "Node", Name: w.node.name},
	}, nil
}

func certainty(exact bool) wire.Certainty {
	if exact {
		return wire.Exact
	}
	return wire.VerdictOnly
}

// errInDoubt says that a Binding may have been written and may not.
var errInDoubt = errors.New("it is not known whether the Binding was written")

// write writes the Binding. An outcome that is not known is read back, and the Binding written again where it had
// not been: a second one for the same pod is refused by the API server. So it is where the pod has changed meanwhile.
func (w *writing) write(ctx context.Context, exact bool) error {
	b, err := w.binding(exact)
	if err != nil {
		return err
	}
	if err = w.send(ctx, b); err == nil || definite(err) && !apierrors.IsConflict(err) {
		return err
	}
	// The cycle's own context may be what ended: the outcome matters all the same.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readBackFor)
	defer cancel()
	return w.readBack(ctx, err)
}

func (w *writing) send(ctx context.Context, b *corev1.Binding) error {
	err := w.post(ctx, b)
	w.lost = w.lost || err != nil && !definite(err)
	return err
}

func (w *writing) readBack(ctx context.Context, cause error) error {
	backoff := wait.Backoff{Duration: 50 * time.Millisecond, Factor: 2, Steps: 8, Cap: 2 * time.Second}
	var outcome error
	err := wait.ExponentialBackoffWithContext(ctx, backoff, func(ctx context.Context) (bool, error) {
		written, err := w.isWritten(ctx)
		if err != nil || written {
			outcome = err
			return !errors.Is(err, errUnread), nil
		}
		// Even a definite refusal may mean that the first request arrived meanwhile: look again.
		err = w.again(ctx)
		outcome = err
		return err == nil || !w.lost && errors.Is(err, errChanged), nil
	})
	switch {
	case err == nil:
		return outcome
	case w.lost:
		return fmt.Errorf("%w: %w", errInDoubt, cause)
	default:
		return cause
	}
}

// errChanged says that what was decided does not hold any more.
var errChanged = errors.New("the node is not certain to take the pod any more")

// again writes the Binding once more, with the same decision, marked by what is known by now.
func (w *writing) again(ctx context.Context) error {
	a := w.node.Reconsider(string(w.pod.UID))
	if !a.OK() {
		return errChanged
	}
	b, err := w.binding(a.Exact)
	if err != nil {
		return err
	}
	return w.send(ctx, b)
}

// errUnread says that the pod could not be read: whatever the API server answers, nothing follows for the Binding.
var errUnread = errors.New("the pod could not be read back")

// isWritten says whether the pod is bound to the node, and if not for which version of it a Binding would hold. An error
// other than errUnread is the last word: errInDoubt, or that it never will be bound by this one.
func (w *writing) isWritten(ctx context.Context) (bool, error) {
	pod, err := w.handle.ClientSet().CoreV1().Pods(w.pod.Namespace).Get(ctx, w.pod.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return false, w.gone(err)
	case err != nil:
		return false, fmt.Errorf("%w: %w", errUnread, err)
	case pod.UID != w.pod.UID:
		return false, w.gone(apierrors.NewNotFound(corev1.Resource("pods"), w.pod.Name))
	case pod.Spec.NodeName == w.node.name:
		return true, nil
	case pod.Spec.NodeName != "":
		return false, w.conflict("bound to " + pod.Spec.NodeName)
	case pod.DeletionTimestamp != nil:
		return false, w.conflict("being deleted")
	}
	if why := w.cannotBind(w.pod, pod); why != "" {
		return false, w.conflict(why)
	}
	w.now = pod
	return false, nil
}

// gone is what it means that there is no such pod any more: it may have been bound before, and deleted by force.
func (w *writing) gone(err error) error {
	if w.lost {
		return fmt.Errorf("%w: %w", errInDoubt, err)
	}
	return err
}

func (w *writing) conflict(why string) error {
	return apierrors.NewConflict(corev1.Resource("pods"), w.pod.Name, errors.New(why))
}

// post makes the request, through the framework's cache of calls where there is one.
func (p *Plugin) post(ctx context.Context, b *corev1.Binding) error {
	klog.FromContext(ctx).V(3).Info("Binding pod", "pod", klog.KRef(b.Namespace, b.Name), "node", b.Target.Name)
	if cacher := p.handle.APICacher(); cacher != nil {
		done, err := cacher.BindPod(b)
		if err != nil {
			return err
		}
		return cacher.WaitOnFinish(ctx, done)
	}
	return p.handle.ClientSet().CoreV1().Pods(b.Namespace).Bind(ctx, b, metav1.CreateOptions{})
}

// definite says whether the API server has said that it did not write the Binding that it was asked for.
func definite(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || apierrors.IsInvalid(err) ||
		apierrors.IsBadRequest(err) || apierrors.IsUnauthorized(err) || apierrors.IsTooManyRequests(err) ||
		apierrors.IsMethodNotSupported(err) || apierrors.IsGone(err) || apierrors.IsRequestEntityTooLargeError(err)
}
