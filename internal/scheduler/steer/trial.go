package steer

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-dev/berth/internal/claims"
)

// Would describes the placement that a pod would have on a node.
type Would = claims.Would

// Trial is a claims.Trial on the scheduler's caches. It is not safe for concurrent use.
type Trial struct {
	plugin *Plugin
	ctx    context.Context //nolint:containedctx // a trial lives as long as the call that makes it
	// lists has the slices. lists and trial are nil until they are first needed.
	lists *attempt
	trial *claims.Trial
	pods  map[types.UID]*attempt
}

// Trial begins a trial.
func (p *Plugin) Trial(ctx context.Context) *Trial {
	return &Trial{plugin: p, ctx: ctx, pods: map[types.UID]*attempt{}}
}

// Give allocates devices for all claims of the pod, within the trial. It returns false if the node
// does not have them.
func (t *Trial) Give(pod *corev1.Pod, on fwk.NodeInfo, would Would) bool {
	a := t.of(pod)
	if t.trial == nil {
		return true // no pod of the trial has claims
	}
	var n *claims.OnNode
	if a != nil {
		a.taken = &taken{state: t.trial.State()}
		n = &t.plugin.on(a, pod, on).OnNode
	}
	return t.trial.Give(t.ctx, on.Node().Name, n, &would)
}

// Take releases a pod's devices.
func (t *Trial) Take(pod types.UID) {
	if t.trial != nil {
		t.trial.Take(pod)
	}
}

// of returns the attempt for a pod with claims. It returns nil if the pod has no claims, or if
// there is an error, which the pod's own cycle will report.
func (t *Trial) of(pod *corev1.Pod) *attempt {
	if a, known := t.pods[pod.UID]; known {
		return a
	}
	a, err := t.read(pod)
	if err != nil {
		klog.FromContext(t.ctx).V(2).Info("A pod is planned without regard to its claims", "pod", klog.KObj(pod), "err", err)
	}
	t.pods[pod.UID] = a
	return a
}

func (t *Trial) read(pod *corev1.Pod) (*attempt, error) {
	if len(pod.Spec.ResourceClaims) == 0 && !t.plugin.driversOffer(pod) {
		return nil, nil //nolint:nilnil // most pods have none
	}
	mode, err := t.plugin.berth.Mode(pod)
	if err != nil {
		return nil, err
	}
	list, err := t.plugin.claimsOf(pod)
	if err != nil {
		return nil, err
	}
	if t.lists == nil {
		read := &attempt{}
		if err := t.plugin.readSlices(read); err != nil {
			return nil, err
		}
		t.lists = read
	}
	if t.trial == nil {
		taken, err := t.plugin.handle.SharedDRAManager().ResourceClaims().GatherAllocatedState()
		if err != nil {
			return nil, err
		}
		t.trial = claims.NewTrial(taken)
	}
	takesAll := slices.ContainsFunc(list, func(c claims.PodClaim) bool { return claims.TakesAll(c.ResourceClaim) })
	return &attempt{mode: mode, claims: list, byNode: t.lists.byNode, shared: t.lists.shared, pools: t.lists.pools, steered: !t.plugin.whole && !takesAll}, nil
}
