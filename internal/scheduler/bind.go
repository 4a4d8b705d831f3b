package scheduler

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	dra "github.com/berth-dev/berth/internal/claims"
	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/scheduler/handover"
	"github.com/berth-dev/berth/internal/scheduler/later"
	"github.com/berth-dev/berth/internal/scheduler/nodes"
	"github.com/berth-dev/berth/internal/scheduler/wake"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

// Bind writes the Binding and the pod's decision in one request. For each node, it sends one such
// Binding at a time, so that the kubelet's watch shows pods in the order of the decisions.
// bindUndecided handles pods without a decision.
func (p *Plugin) Bind(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodeName string) *fwk.Status {
	c := p.cycle(state)
	if dra.MayClaim(pod) {
		if s := steererOf(p.handle); s != nil {
			c.judge = func() error { return s.Check(ctx, state, pod, nodeName) }
		}
	}
	p.core.tellShared(pod, nodeName)
	if err := p.dropClaim(ctx, pod); err != nil {
		return fwk.AsStatus(err)
	}
	from := ""
	if o, ok := c.way.(*owner); ok {
		from = o.from
	}
	switch {
	case wire.OfReservation(pod): // the pod is not in the API, so it cannot be bound
		return p.core.bindReservation(ctx, pod, nodeName, c.decided())
	case !c.decided():
		return c.bindUndecided(ctx, pod, nodeName, from)
	}
	b := &binding{cycle: c, pod: pod, node: p.core.table.Named(nodeName), from: from}
	return b.write(ctx)
}

// dropClaim removes from the pod's status the name of the claim that an earlier attempt made for
// extended resources. kube-scheduler deletes the claim but not this part of the status, so a
// kubelet would look for the claim instead of asking its device plugin. If the status already names
// the claim of this attempt, which has another name, dropClaim leaves it.
func (p *Plugin) dropClaim(ctx context.Context, pod *corev1.Pod) error {
	stale := pod.Status.ExtendedResourceClaimStatus
	if stale == nil {
		return nil
	}
	const at = "/status/extendedResourceClaimStatus"
	patch, err := json.Marshal([]map[string]any{
		{"op": "test", "path": "/metadata/uid", "value": pod.UID},
		{"op": "test", "path": at + "/resourceClaimName", "value": stale.ResourceClaimName},
		{"op": "remove", "path": at},
	})
	if err != nil {
		return err
	}
	_, err = p.handle.ClientSet().CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.JSONPatchType, patch, metav1.PatchOptions{}, "status")
	if apierrors.IsInvalid(err) {
		return nil // the pod is gone, or its status has changed
	}
	return err
}

// decided reports whether the pod has a decision that Bind must write.
func (c *cycle) decided() bool { return c.number > 0 }

// bindReservation writes the place into the Reservation that the pod stands for. The parameter
// decided means that the node's account has reserved the place.
func (c *core) bindReservation(ctx context.Context, pod *corev1.Pod, nodeName string, decided bool) *fwk.Status {
	if err := c.handover.Enter(ctx); err != nil {
		return fwk.AsStatus(err)
	}
	err := c.placeReservation(ctx, pod, nodeName, decided)
	c.handover.Leave(nil)
	return fwk.AsStatus(err)
}

func (c *core) placeReservation(ctx context.Context, pod *corev1.Pod, nodeName string, decided bool) error {
	n := c.table.Named(nodeName)
	if !decided || !n.Obeys() {
		return c.reservations.Place(ctx, pod.UID, nodeName, nil, nil)
	}
	d, ok := n.Account().View().Promised(uidOf(pod))
	if !ok {
		return errChanged
	}
	text, err := wire.WritePlacement(&wire.Placement{
		Sequence: 1, Certainty: wire.Exact, Guarantee: wire.GuaranteeFull, Decision: d,
	})
	if err != nil {
		return err
	}
	words, err := wire.WriteKoordinatorWords(&d, n.Machine())
	if err != nil {
		return err
	}
	annotations := map[string]any{wire.PlacementAnnotation: text}
	for key, said := range words {
		annotations[key] = said
	}
	return c.reservations.Place(ctx, pod.UID, nodeName, &d, annotations)
}

// bindUndecided waits for the pod's turn (Handover.Pace), and binds a member of a gang, or an owner
// of a Reservation, without a decision. It leaves any other pod to the next plugin.
func (c *cycle) bindUndecided(ctx context.Context, pod *corev1.Pod, nodeName, from string) *fwk.Status {
	core := c.plugin.core
	if err := core.gangs.AwaitTurn(ctx, pod.UID); err != nil {
		return fwk.AsStatus(err)
	}
	done, err := core.handover.Pace(ctx, pod.Namespace)
	if err != nil {
		return fwk.AsStatus(err)
	}
	words := core.wordsOf(from, pod)
	if len(words) == 0 {
		context.AfterFunc(ctx, done) // runBindingCycle cancels ctx when the next plugin has bound the pod
		return fwk.NewStatus(fwk.Skip)
	}
	defer done()
	if why := core.onNodes.tooLate(pod, nodeName, core.feed.PostedOn(nodeName)); why != "" {
		return fwk.NewStatus(fwk.Unschedulable, why)
	}
	err = post(ctx, c.plugin.handle, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Annotations: words},
		Target:     corev1.ObjectReference{Kind: "Node", Name: nodeName},
	})
	if err == nil {
		core.gangs.Bound(pod.UID, nodeName)
	}
	return fwk.AsStatus(err)
}

// wordsOf returns the annotations that a Binding has in addition to the decision if the pod is in a
// gang or uses a Reservation: wire.BoundForAnnotation names the gang and the Reservation, and
// wire.AllocatedAnnotation names the Reservation in Koordinator's format. The parameter from is the
// UID of the Reservation, or "" if the pod uses none.
func (c *core) wordsOf(from string, pod *corev1.Pod) map[string]string {
	words, bound := map[string]string{}, c.gangs.BoundFor(pod.UID)
	if from != "" {
		if text := c.reservations.Allocated(from); text != "" {
			words[wire.AllocatedAnnotation], bound.Reservation = text, types.UID(from)
		}
	}
	if text := wire.WriteBoundFor(pod, bound); text != "" {
		words[wire.BoundForAnnotation] = text
	}
	return words
}

// binding implements handover.Binding for one pod and its decision.
type binding struct {
	*cycle
	node     *nodes.Node
	pod      *corev1.Pod
	decision placement.Decision
	// posting is the result of ledger.Node.Post.
	posting ledger.Posting
	// from is the UID of the Reservation that the pod uses, or "".
	from string
	// words are the other annotations of the Binding (wordsOf).
	words map[string]string
	// sent is the function that handover.Handover.Pace returned. It lets the next Binding be sent.
	sent func()
}

var _ handover.Binding = (*binding)(nil)

// reportPatience is the maximum time for which Bind waits for a report that shows if the pod still
// fits. It is kube-scheduler's shortest back-off (podInitialBackoffSeconds), after which the pod
// would be tried again. While Bind waits, other pods can be bound to the node. For a planned member
// of a gang, Bind waits for up to wake.ReportLimit, because the member keeps its place meanwhile.
// If it failed, the gang could lack it at its deadline. changePause is the interval at which Bind
// checks whether the node has changed.
const (
	reportPatience = time.Second
	changePause    = 20 * time.Millisecond
)

// write waits for the pod's turn on its node, decides again and writes the Binding. If only the
// node's next report will show whether the pod fits, write tries again after each change of the
// node, as long as its patience lasts (reportPatience).
func (b *binding) write(ctx context.Context) *fwk.Status {
	core, n := b.plugin.core, b.node
	if err := core.gangs.AwaitTurn(ctx, b.pod.UID); err != nil {
		return fwk.AsStatus(err)
	}
	patience := reportPatience
	if _, planned := b.way.(*gangMember); planned {
		patience = wake.ReportLimit
	}
	for until := core.clock.Now().Add(patience); ; {
		changes := n.Changes()
		core.delays.is(b.pod.UID, inBinding)
		status := b.writeInTurn(ctx)
		if status.Code() == fwk.Pending {
			core.delays.is(b.pod.UID, forReport)
			if b.awaitChange(ctx, changes, until) {
				continue
			}
		}
		if status.IsRejected() {
			return b.refuse(status)
		}
		return status
	}
}

// awaitChange waits until the node's count of changes (Node.Changes) differs from the argument
// changes. It returns false if the node has not changed before the time until, or before ctx ends.
func (b *binding) awaitChange(ctx context.Context, changes uint32, until time.Time) bool {
	clock := b.plugin.core.clock
	for clock.Now().Before(until) && later.Wait(ctx, clock, changePause) {
		if b.node.Changes() != changes {
			return true
		}
	}
	return false
}

// writeInTurn waits for the pod's turn on the node, decides again and writes the Binding. It
// returns the code Pending if only the node's next report will show whether the pod fits.
func (b *binding) writeInTurn(ctx context.Context) *fwk.Status {
	core, n := b.plugin.core, b.node
	if err := n.Enter(ctx, b.number); err != nil {
		return fwk.AsStatus(err)
	}
	defer n.Leave()
	// Pace comes before the decision, because no time may pass between the decision and the
	// Binding.
	var err error
	if b.sent, err = core.handover.Pace(ctx, b.pod.Namespace); err != nil {
		return fwk.AsStatus(err)
	}
	defer b.sent()
	if why := core.table.Unusable(n); why != nil {
		return fwk.NewStatus(fwk.Unschedulable, why.Text)
	}
	if err := core.handover.Enter(ctx); err != nil {
		return fwk.AsStatus(err)
	}
	status, err := b.decideAndWrite(ctx)
	core.handover.Leave(err)
	if status.IsSuccess() {
		core.gangs.Bound(b.pod.UID, n.Name())
		core.delays.bound(b.pod.UID)
	}
	return status
}

// decideAndWrite decides again and writes the Binding. It returns the status for Bind, and the
// error of the write. The error is nil if nothing was sent.
func (b *binding) decideAndWrite(ctx context.Context) (*fwk.Status, error) {
	core, n := b.plugin.core, b.node
	if n.TookSince(b.began.Add(-othersLate)) {
		if why := core.onNodes.tooLate(b.pod, n.Name(), core.feed.PostedOn(n.Name())); why != "" {
			return fwk.NewStatus(fwk.Unschedulable, why), nil
		}
	}
	if !core.feed.Prompt() {
		n.Account().Loosen(uidOf(b.pod))
	}
	answer := &b.posting.Answer
	var err error
	if b.posting, err = n.Account().Post(uidOf(b.pod), &b.decision); err != nil {
		return fwk.AsStatus(err), nil
	}
	verdicts.WithLabelValues("Bind", answer.Outcome.String(), reasonOf(answer)).Inc()
	if status := b.status(nodes.Pack(0, answer), false); status != nil {
		return status, nil
	}
	if b.judge != nil {
		if err := b.judge(); err != nil {
			return fwk.NewStatus(fwk.Unschedulable, err.Error()), nil
		}
	}
	core.feed.Posted(b.pod, n)
	b.words = core.wordsOf(b.from, b.pod)
	core.tellRepeats(b.pod, n.Name(), &b.decision)
	err = handover.Write(ctx, b, b.newest(), n.Name())
	if near, known := n.Nearness(&b.decision); known && err == nil && !answer.Amounts {
		devicePods.WithLabelValues(string(near)).Inc()
	}
	return b.conclude(err), err
}

// newest returns the newest known version of the pod, on which its Binding is conditional. The pod
// may have changed since the cycle began, usually by a write of the scheduler itself. If that
// version must not be bound (Forbidden) or is not known, newest returns the version with which the
// cycle began.
func (b *binding) newest() *corev1.Pod {
	newest, err := b.plugin.core.pods.Pods(b.pod.Namespace).Get(b.pod.Name)
	if err != nil || newest.UID != b.pod.UID || b.Forbidden(newest) != "" {
		return b.pod
	}
	return newest
}

// Forbidden implements handover.Binding. The pod may be bound if its request has not changed since
// the decision and no other scheduler has fenced it.
func (b *binding) Forbidden(now *corev1.Pod) string {
	switch {
	case b.plugin.core.handover.FencedSince(b.pod, now):
		return "fenced by another scheduler"
	case b.pod.ResourceVersion == now.ResourceVersion:
		return ""
	}
	if ask, err := b.plugin.readBy(wire.ReadPending, now); err != nil || !ask.Equal(b.ask) {
		return "resized"
	}
	return ""
}

// conclude updates the ledger with the result of the write.
func (b *binding) conclude(err error) *fwk.Status {
	uid, core := uidOf(b.pod), b.plugin.core
	if errors.Is(err, handover.ErrInDoubt) {
		b.doubtful = true
		b.node.Account().Doubt(uid, core.clock.Now().Add(handover.BindTimeout))
		bindings.WithLabelValues(bindingDoubt).Inc()
		return fwk.AsStatus(err)
	}
	if err != nil {
		core.feed.TakenBack(b.pod.UID)
		b.node.Account().Forget(uid)
		bindings.WithLabelValues(bindingFailed).Inc()
		return fwk.AsStatus(err)
	}
	bindings.WithLabelValues(bindingWritten).Inc()
	return nil
}

// Make implements handover.Binding.
func (b *binding) Make(now *corev1.Pod) (*corev1.Binding, error) {
	placed := wire.Placement{
		Sequence: uint64(b.posting.Turn), Report: b.posting.Report, Certainty: certainty(b.posting.Answer.Exact), Guarantee: wire.GuaranteeFull, Decision: b.decision,
	}
	if b.node.Obeys() {
		placed.Authority, placed.Koordlet = placement.AuthorityBerth, b.node.Koordlet()
	}
	if b.posting.Answer.Amounts {
		placed.Guarantee, placed.Decision = wire.GuaranteeAmounts, wire.AmountsAlone(&b.decision)
	}
	if b.node.Koordlet() { // koordlet gives all containers of a pod the same CPUs
		placed.Certainty, placed.Guarantee = wire.VerdictOnly, wire.GuaranteeAmounts
	}
	text, err := wire.WritePlacement(&placed)
	if err != nil {
		return nil, err
	}
	annotations := map[string]string{wire.PlacementAnnotation: text}
	maps.Copy(annotations, b.words)
	if b.node.Obeys() {
		if !b.node.Koordlet() {
			wire.DemandPlugin(annotations, &b.decision)
		}
		if b.node.Koordlet() || wire.SpeaksKoordinator(b.pod) {
			words, err := wire.WriteKoordinatorWords(&b.decision, b.node.Machine())
			if err != nil {
				return nil, err
			}
			maps.Copy(annotations, words)
		}
	}
	bytes := -len(wire.PlacementAnnotation)
	for key, text := range annotations {
		bytes += len(key) + len(text)
	}
	if err := wire.CheckAnnotations(now, bytes); err != nil {
		return nil, err
	}
	return &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: b.pod.Namespace, Name: b.pod.Name, UID: b.pod.UID, ResourceVersion: now.ResourceVersion,
			Annotations: annotations,
		},
		Target: corev1.ObjectReference{Kind: "Node", Name: b.node.Name()},
	}, nil
}

// Post implements handover.Binding. It uses the framework's API cacher if there is one.
func (b *binding) Post(ctx context.Context, object *corev1.Binding) error {
	klog.FromContext(ctx).V(3).Info("Binding pod", "pod", klog.KRef(object.Namespace, object.Name), "node", object.Target.Name)
	defer b.sent()
	return post(ctx, b.plugin.handle, object)
}

func post(ctx context.Context, handle fwk.Handle, object *corev1.Binding) error {
	if cacher := handle.APICacher(); cacher != nil {
		done, err := cacher.BindPod(object)
		if err != nil {
			return err
		}
		return cacher.WaitOnFinish(ctx, done)
	}
	return handle.ClientSet().CoreV1().Pods(object.Namespace).Bind(ctx, object, metav1.CreateOptions{})
}

// Read implements handover.Binding.
func (b *binding) Read(ctx context.Context) (*corev1.Pod, error) {
	return b.plugin.handle.ClientSet().CoreV1().Pods(b.pod.Namespace).Get(ctx, b.pod.Name, metav1.GetOptions{})
}

var errChanged = errors.New("it is no longer certain that the node admits the pod")

// Reconsider implements handover.Binding.
func (b *binding) Reconsider() error {
	a := b.node.Account().Reconsider(uidOf(b.pod))
	if !a.OK() {
		return errChanged
	}
	b.posting.Answer.Exact = a.Exact
	b.plugin.core.feed.Again(b.pod.UID)
	return nil
}

func certainty(exact bool) wire.Certainty {
	if exact {
		return wire.Exact
	}
	return wire.VerdictOnly
}
