package scheduler

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-dev/berth/internal/scheduler/handover"
	"github.com/berth-dev/berth/internal/scheduler/nodes"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

// Bind writes Binding and decision in one request, one request at a time per node. So the kubelet's
// watch delivers pods in the order in which they were decided.
func (p *Plugin) Bind(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodeName string) *fwk.Status {
	c := cycleOf(state)
	p.tellShared(pod, nodeName)
	switch {
	case wire.OfReservation(pod):
		return p.bindReservation(ctx, c, pod, nodeName)
	case c == nil || c.untouched:
		return p.bindUnpinned(ctx, c, pod, nodeName)
	}
	n := p.core.table.Named(nodeName)
	if err := p.core.gangs.AwaitTurn(ctx, pod.UID); err != nil {
		return fwk.AsStatus(err)
	}
	p.core.delays.is(pod.UID, inBinding)
	if err := n.Enter(ctx, c.number); err != nil {
		return fwk.AsStatus(err)
	}
	defer n.Leave()
	if why := p.core.table.Unusable(n); why != nil {
		return c.refuse(fwk.NewStatus(fwk.Unschedulable, why.Text))
	}
	// Before the decision: nothing may come between that and the Binding which takes time.
	if err := p.core.handover.Enter(ctx); err != nil {
		return fwk.AsStatus(err)
	}
	status, err := p.decideAndWrite(ctx, c, pod, n)
	p.core.handover.Leave(err)
	if status.IsSuccess() {
		p.core.gangs.Bound(pod.UID, nodeName)
		p.core.delays.bound(pod.UID)
	}
	if status.IsRejected() {
		return c.refuse(status)
	}
	return status
}

// decideAndWrite returns, beside the status, how the write went.
func (p *Plugin) decideAndWrite(ctx context.Context, c *cycle, pod *corev1.Pod, n *nodes.Node) (*fwk.Status, error) {
	if n.TookSince(c.began.Add(-othersLate)) {
		if why := p.core.onNodes.tooLate(pod, n.Name(), p.core.feed.PostedOn(n.Name())); why != "" {
			return fwk.NewStatus(fwk.Unschedulable, why), nil
		}
	}
	var d placement.Decision
	posting, err := n.Account().Post(uidOf(pod), &d)
	if err != nil {
		return fwk.AsStatus(err), nil
	}
	verdicts.WithLabelValues("Bind", posting.Answer.Outcome.String(), reasonOf(&posting.Answer)).Inc()
	if status := c.status(nodes.Pack(0, &posting.Answer), false); status != nil {
		return status, nil
	}
	p.core.feed.Posted(pod, n)
	b := &binding{
		plugin: p, node: n, pod: pod, decision: &d, turn: posting.Turn, report: posting.Report,
		exact: posting.Answer.Exact, amounts: posting.Answer.Amounts,
	}
	b.words = p.wordsOf(c, pod)
	err = handover.Write(ctx, b, p.newest(pod), n.Name())
	if near, known := n.Nearness(&d); known && err == nil && !b.amounts {
		devicePods.WithLabelValues(string(near)).Inc()
	}
	return p.conclude(pod, n, err), err
}

// wordsOf returns the annotations that a Binding brings beside the decision: how much of a
// Reservation the pod has, and the Reservation and the gang that it is bound for.
func (p *Plugin) wordsOf(c *cycle, pod *corev1.Pod) map[string]string {
	words, bound := map[string]string{}, p.core.gangs.BoundFor(pod.UID)
	if c != nil && c.from != "" {
		if text := p.core.reservations.Allocated(c.from); text != "" {
			words[wire.AllocatedAnnotation], bound.Reservation = text, types.UID(c.from)
		}
	}
	if text := wire.WriteBoundFor(pod, bound); text != "" {
		words[wire.BoundForAnnotation] = text
	}
	return words
}

// bindUnpinned binds a member of a gang or an owner of a Reservation for which nothing is decided.
// Any other pod is left to the next plugin.
func (p *Plugin) bindUnpinned(ctx context.Context, c *cycle, pod *corev1.Pod, nodeName string) *fwk.Status {
	if err := p.core.gangs.AwaitMates(ctx, pod.UID); err != nil {
		return fwk.AsStatus(err)
	}
	words := p.wordsOf(c, pod)
	if len(words) == 0 {
		return fwk.NewStatus(fwk.Skip)
	}
	if why := p.core.onNodes.tooLate(pod, nodeName, p.core.feed.PostedOn(nodeName)); why != "" {
		return fwk.NewStatus(fwk.Unschedulable, why)
	}
	err := p.post(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Annotations: words},
		Target:     corev1.ObjectReference{Kind: "Node", Name: nodeName},
	})
	if err == nil {
		p.core.gangs.Bound(pod.UID, nodeName)
	}
	return fwk.AsStatus(err)
}

// newest returns the version of the pod that its Binding should be for. The pod may have been
// written since its cycle began, mostly by this scheduler itself.
func (p *Plugin) newest(pod *corev1.Pod) *corev1.Pod {
	newest, err := p.pods.Pods(pod.Namespace).Get(pod.Name)
	if err != nil || newest.UID != pod.UID || p.cannotBind(pod, newest) != "" {
		return pod
	}
	return newest
}

// cannotBind says why a pod that was decided for as it was then may not be bound as it is now. It
// returns "" if nobody else has taken over in between and the pod asks for the same.
func (p *Plugin) cannotBind(then, now *corev1.Pod) string {
	switch {
	case p.core.handover.FencedSince(then, now):
		return "fenced by another scheduler"
	case then.ResourceVersion == now.ResourceVersion:
		return ""
	}
	// Which of its devices are claimed is written on the way to Bind, for nodes without a device
	// plugin for them.
	like := *now
	like.Status.ExtendedResourceClaimStatus = then.Status.ExtendedResourceClaimStatus
	if !asksTheSame(then, &like) {
		return "resized"
	}
	return ""
}

// conclude draws the ledger's conclusion from how the write went.
func (p *Plugin) conclude(pod *corev1.Pod, n *nodes.Node, err error) *fwk.Status {
	if errors.Is(err, handover.ErrInDoubt) {
		n.Account().Doubt(uidOf(pod), p.core.clock.Now().Add(handover.BindTimeout))
		bindings.WithLabelValues(bindingDoubt).Inc()
		return fwk.AsStatus(err)
	}
	if err != nil {
		p.core.feed.TakenBack(pod.UID)
		n.Account().Forget(uidOf(pod))
		bindings.WithLabelValues(bindingFailed).Inc()
		return fwk.AsStatus(err)
	}
	bindings.WithLabelValues(bindingWritten).Inc()
	return nil
}

// binding is the decision for one pod, for handover.Write.
type binding struct {
	plugin   *Plugin
	node     *nodes.Node
	pod      *corev1.Pod
	decision *placement.Decision
	turn     int64
	// report is what was decided on, whatever has come since.
	report int64
	// exact says whether the CPUs are certain by what is known now.
	exact bool
	// amounts says that the node tells amounts alone.
	amounts bool
	// words are what else the Binding is to say (wordsOf).
	words map[string]string
}

var _ handover.Binding = (*binding)(nil)

// Make implements handover.Binding.
func (b *binding) Make(now *corev1.Pod) (*corev1.Binding, error) {
	placed := wire.Placement{
		Sequence: uint64(b.turn), Report: b.report, Certainty: certainty(b.exact), Guarantee: wire.GuaranteeFull, Decision: *b.decision,
	}
	if b.node.Obeys() {
		placed.Authority, placed.Koordlet = placement.AuthorityBerth, b.node.Koordlet()
	}
	if b.amounts {
		placed.Guarantee, placed.Decision = wire.GuaranteeAmounts, wire.AmountsAlone(b.decision)
	}
	if b.node.Koordlet() { // it gives all containers of a pod the same CPUs
		placed.Certainty, placed.Guarantee = wire.VerdictOnly, wire.GuaranteeAmounts
	}
	text, err := wire.WritePlacement(&placed)
	if err != nil {
		return nil, err
	}
	annotations := map[string]string{wire.PlacementAnnotation: text}
	bytes := len(text)
	for key, text := range b.words {
		annotations[key] = text
		bytes += len(key) + len(text)
	}
	if b.node.Obeys() {
		if !b.node.Koordlet() {
			bytes += wire.DemandPlugin(annotations, b.decision)
		}
		if b.node.Koordlet() || wire.SpeaksKoordinator(b.pod) {
			words, err := wire.WriteKoordinatorWords(b.decision, b.node.Machine())
			if err != nil {
				return nil, err
			}
			for key, text := range words {
				annotations[key] = text
				bytes += len(key) + len(text)
			}
		}
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

// Post implements handover.Binding, through the framework's cache of calls where there is one.
func (b *binding) Post(ctx context.Context, object *corev1.Binding) error {
	klog.FromContext(ctx).V(3).Info("Binding pod", "pod", klog.KRef(object.Namespace, object.Name), "node", object.Target.Name)
	return b.plugin.post(ctx, object)
}

// post writes a Binding.
func (p *Plugin) post(ctx context.Context, object *corev1.Binding) error {
	handle := p.handle
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

// errChanged says that what was decided does not hold any more.
var errChanged = errors.New("the node is not certain to take the pod any more")

// Reconsider implements handover.Binding.
func (b *binding) Reconsider() error {
	a := b.node.Account().Reconsider(uidOf(b.pod))
	if !a.OK() {
		return errChanged
	}
	b.exact = a.Exact
	return nil
}

// Forbidden implements handover.Binding.
func (b *binding) Forbidden(now *corev1.Pod) string { return b.plugin.cannotBind(b.pod, now) }

func certainty(exact bool) wire.Certainty {
	if exact {
		return wire.Exact
	}
	return wire.VerdictOnly
}
