package steer

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-dev/berth/internal/claims"
)

// PostFilter implements fwk.PostFilterPlugin. DynamicResources deallocates one claim if the claim's
// devices exclude every node that could otherwise accept the pod. It does not deallocate a claim
// whose devices are on a suitable node, but not on the NUMA nodes of the CPUs that the pod could
// get there. PostFilter deallocates such a claim itself. If the attempt ended before PreFilter of
// DynamicResources, PostFilter does not call PostFilter of DynamicResources, because users would
// see the error "not found" in the pod's event.
func (p *Plugin) PostFilter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, statuses fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	a := attemptOf(state)
	if a != nil && a.mode == claims.Required {
		for _, c := range a.misplacedClaims() {
			if p.giveBack(ctx, pod, c.ResourceClaim) {
				return nil, fwk.NewStatus(fwk.Unschedulable, fmt.Sprintf("claim %s/%s is deallocated: its devices are not on the NUMA nodes of the CPUs that the pod can get", c.Namespace, c.Name))
			}
		}
	}
	if !Saw(state) {
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	return p.DynamicResources.PostFilter(ctx, state, pod, statuses)
}

// Saw reports whether the attempt reached PreFilter of DynamicResources.
func Saw(state fwk.CycleState) bool {
	_, err := state.Read(originalKey)
	return err == nil
}

// Unreserve implements fwk.ReservePlugin. DynamicResources keeps an allocation that PreBind has
// written, and this allocation ties the pod to the node. If the pod is gone, no component would
// deallocate the claim later. So Unreserve removes both the allocation and the reservation in one
// write, before DynamicResources would remove the reservation only. If the scheduler stops after
// this write, no allocation remains.
func (p *Plugin) Unreserve(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node string) {
	if a := attemptOf(state); a != nil && a.written && (a.refused || !p.berth.Doubtful(state) || p.gone(ctx, pod)) {
		for _, c := range a.pending {
			p.giveBack(ctx, pod, c.ResourceClaim)
		}
	}
	p.DynamicResources.Unreserve(ctx, state, pod, node)
}

// gone reports whether the API server no longer has the pod.
func (p *Plugin) gone(ctx context.Context, pod *corev1.Pod) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shortly)
	defer cancel()
	now, err := p.handle.ClientSet().CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	return apierrors.IsNotFound(err) || err == nil && now.UID != pod.UID
}

// giveBack reads the claim from the API server and deallocates it if no other pod uses it. It
// reports whether it has deallocated the claim.
func (p *Plugin) giveBack(ctx context.Context, pod *corev1.Pod, claim *resourceapi.ResourceClaim) (done bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shortly)
	defer cancel()
	client := p.handle.ClientSet().ResourceV1().ResourceClaims(claim.Namespace)
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		now, err := client.Get(ctx, claim.Name, metav1.GetOptions{})
		if err != nil || now.Status.Allocation == nil {
			return err
		}
		// The name may belong to a new claim, into which DynamicResources has written.
		if own, others := users(now, pod); others || !own && now.UID != claim.UID {
			return nil
		}
		now.Status.Allocation, now.Status.ReservedFor, now.Status.Devices = nil, nil, nil
		_, err = client.UpdateStatus(ctx, now, metav1.UpdateOptions{})
		done = err == nil
		return err
	})
	if err != nil && !apierrors.IsNotFound(err) {
		klog.FromContext(ctx).Error(err, "A claim stays allocated until its pod is tried again or deleted", "claim", klog.KObj(claim), "pod", klog.KObj(pod))
	}
	return done
}

// users reports whether the claim is reserved for the pod, and whether it is reserved for other
// pods.
func users(c *resourceapi.ResourceClaim, pod *corev1.Pod) (own, others bool) {
	for i := range c.Status.ReservedFor {
		if c.Status.ReservedFor[i].UID == pod.UID {
			own = true
		} else {
			others = true
		}
	}
	return own, others
}
