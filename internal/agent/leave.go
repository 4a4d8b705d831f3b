package agent

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/wire"
)

// When an agent exits, its device plugins end too, and the kubelet then refuses pods that ask for
// their devices. So before the agent exits, it publishes a report without its devices. It then
// waits until the kubelet has admitted or refused the bound pods that ask for these devices, but at
// most for leaveLimit.

const (
	// leaveLimit is the maximum time that an agent waits before it exits. By default the agent's
	// pod has 30 s to end (terminationGracePeriodSeconds).
	leaveLimit = 10 * time.Second
	// lastBindings is the time after the agent's last report in which pods may still be bound on
	// the basis of earlier reports.
	lastBindings = time.Second
	admitPoll    = 50 * time.Millisecond
)

const leaving = "the agent ends"

// leave waits until the agent may exit. It returns at once if the agent offers no devices.
func (a *agent) leave(ctx context.Context) {
	resources := a.enforcer.withdraw()
	if len(resources) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, leaveLimit)
	defer cancel()
	select {
	case <-ctx.Done():
	case <-a.withdrawn:
		a.opts.Log.Info("the agent ends; its devices are no longer promised to pods", "node", a.opts.Node)
	}
	for pause(ctx, lastBindings); ctx.Err() == nil; pause(ctx, admitPoll) {
		if !a.awaitsAdmission(resources) {
			return
		}
	}
	a.opts.Log.Warn("the agent ends, and the kubelet may refuse pods that were just bound", "node", a.opts.Node)
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// awaitsAdmission reports whether the kubelet still has to admit or refuse a pod that asks for one
// of the resources. An admitted pod has a start time, and a refused pod has ended.
func (a *agent) awaitsAdmission(resources map[string]bool) bool {
	for _, object := range a.pods.GetStore().List() {
		pod, ok := object.(*corev1.Pod)
		if ok && pod.Status.StartTime == nil && !wire.Ended(pod) && asks(pod, resources) {
			return true
		}
	}
	return false
}

func asks(pod *corev1.Pod, resources map[string]bool) bool {
	for _, c := range wire.Containers(pod) {
		for name := range c.Resources.Requests {
			if resources[string(name)] {
				return true
			}
		}
	}
	return false
}

// withdraw makes all later reports offer none of the agent's devices. It returns the resources that
// the agent offers.
func (e *enforcer) withdraw() map[string]bool {
	e.leaving.Store(true)
	e.mu.Lock()
	offers := e.offers
	e.mu.Unlock()
	if offers == nil {
		return nil
	}
	resources := map[string]bool{}
	for _, p := range offers.Pools() {
		for _, name := range wire.DeviceNames(p.Resource) {
			resources[name] = true
		}
	}
	e.changed()
	return resources
}

// withdrew reports whether a report offers none of the agent's devices. A report that is not Ready
// offers none.
func withdrew(nt *v1alpha1.NodeTopology) bool {
	if nt == nil {
		return false
	}
	if meta.IsStatusConditionFalse(nt.Status.Conditions, v1alpha1.ConditionReady) {
		return true
	}
	for _, pool := range nt.Status.Devices {
		for _, g := range pool.Groups {
			if pool.DecidedBy == v1alpha1.AuthorityBerth && !g.Unhealthy {
				return false
			}
		}
	}
	return true
}
