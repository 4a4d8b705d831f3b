//go:build !kube133 && !kube134 && !kube135

package oracle

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/kubernetes/pkg/kubelet/allocation"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	kubepod "k8s.io/kubernetes/pkg/kubelet/pod"
	"k8s.io/kubernetes/pkg/kubelet/status"
	kubetypes "k8s.io/kubernetes/pkg/kubelet/types"
	kubeletutil "k8s.io/kubernetes/pkg/kubelet/util"

	"github.com/berth-dev/berth/test/replay/cases"
)

// Resizer is the genuine allocation manager of a kubelet, with its admission handlers for resizes,
// resource managers and amounts in the kubelet's order.
type Resizer struct {
	k        *kubelet
	manager  allocation.Manager
	statuses status.Manager
	node     *corev1.Node
	swaps    bool
	// specs are the pods of the API.
	specs []*corev1.Pod
}

// NewResizer starts the managers of a case's kubelet on a node.
func NewResizer(c *cases.Case, dir string, node *corev1.Node) (*Resizer, error) {
	s, err := newSettings(c, dir)
	if err != nil {
		return nil, err
	}
	k, err := newKubelet(s, &podList{running: map[string][]string{}})
	if err != nil {
		return nil, err
	}
	if err := k.start(nil); err != nil {
		return nil, err
	}
	r := &Resizer{k: k, node: node}
	r.statuses = status.NewManager(&fake.Clientset{}, kubepod.NewBasicPodManager(), noContainers{}, kubeletutil.NewPodStartupLatencyTracker())
	r.manager = newAllocations(r)
	config := nodeConfig{config: cm.NodeConfig{CPUManagerPolicy: s.cpuPolicy, MemoryManagerPolicy: s.memoryPolicy}}
	r.manager.AddPodAdmitHandlers(lifecycle.PodAdmitHandlers{
		newResizes(config, swapping{r: r}, r.manager),
		k.topology.(lifecycle.PodAdmitHandler),
		lifecycle.NewPredicateAdmitHandler(func(context.Context, bool) (*corev1.Node, error) { return node, nil },
			lifecycle.NewAdmissionFailureHandlerStub(), k.device.UpdatePluginResources),
	})
	return r, nil
}

// Stop ends everything except the CPU manager's goroutine.
func (r *Resizer) Stop() error { return r.k.stop() }

// Add admits a pod.
func (r *Resizer) Add(pod *corev1.Pod) (ok bool, reason, message string) {
	r.k.activate(pod)
	r.specs = append(r.specs, pod)
	if ok, reason, message = addPod(r.manager, slices.Clone(r.specs), pod); !ok {
		r.specs = r.specs[:len(r.specs)-1]
		r.k.remove(string(pod.UID))
	}
	return ok, reason, message
}

// Resize changes the spec of an admitted pod, and returns the condition that the kubelet sets: nil
// if it has allocated the new amounts.
func (r *Resizer) Resize(pod *corev1.Pod, swaps bool) (pending *corev1.PodCondition) {
	at := slices.IndexFunc(r.specs, func(p *corev1.Pod) bool { return p.UID == pod.UID })
	r.specs[at], r.swaps = pod, swaps
	retry(r.manager, pod.UID)
	for _, c := range r.statuses.GetPodResizeConditions(pod.UID) {
		if c.Type == corev1.PodResizePending {
			pending = c
		}
	}
	return pending
}

// Allocated is the pod with the amounts that the kubelet has allocated.
func (r *Resizer) Allocated(pod *corev1.Pod) *corev1.Pod {
	out, _ := r.manager.UpdatePodFromAllocation(pod)
	return out
}

func (r *Resizer) spec(uid types.UID) (*corev1.Pod, bool) {
	for _, p := range r.specs {
		if p.UID == uid {
			return p, true
		}
	}
	return nil, false
}

// nodeConfig is a ContainerManager that answers only questions about the policies.
type nodeConfig struct {
	cm.ContainerManager
	config cm.NodeConfig
}

func (n nodeConfig) GetNodeConfig() cm.NodeConfig { return n.config }

// swapping is a runtime that answers only questions about swap.
type swapping struct {
	kubecontainer.Runtime
	r *Resizer
}

func (s swapping) GetContainerSwapBehavior(*corev1.Pod, *corev1.Container) kubetypes.SwapBehavior {
	if s.r.swaps {
		return kubetypes.LimitedSwap
	}
	return kubetypes.NoSwap
}

// noContainers reports for every pod that no containers run.
type noContainers struct{}

func (noContainers) PodCouldHaveRunningContainers(*corev1.Pod) bool { return false }
