package witness

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/klog/v2"

	"github.com/berth-dev/berth/internal/claims"
	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/shadow"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// The limits of judging claims. Claims and slices are read from the API server when a report shows
// the pod's resources, and are not stored, because few pods have claims.
const (
	maxClaimed   = 256 // pods whose claims wait to be judged
	claimTimeout = 10 * time.Second
)

// claimed is a pod with claims, and the resources that its kubelet has assigned.
type claimed struct {
	pod     *corev1.Pod
	outcome ledger.PromiseOutcome
}

func (w *Witness) hasClaims(node string, o *ledger.PromiseOutcome) {
	there := w.pods.on(node)
	i := slices.IndexFunc(there, func(pod *corev1.Pod) bool { return string(pod.UID) == o.UID })
	if o.Refused || i < 0 || len(there[i].Spec.ResourceClaims) == 0 {
		return
	}
	select {
	case w.claimed <- claimed{there[i], *o}:
	default:
		w.claimsNotLooked()
	}
}

// lookAtClaims judges the claims of queued pods, one pod after another, until ctx ends.
func (w *Witness) lookAtClaims(ctx context.Context, client kubernetes.Interface) {
	for {
		select {
		case <-ctx.Done():
			return
		case c := <-w.claimed:
			judged, err := w.judgeClaims(ctx, client, &c)
			if err != nil {
				w.Logger.V(2).Info("The claims of a pod cannot be judged", "pod", klog.KObj(c.pod), "err", err)
				w.claimsNotLooked()
				continue
			}
			w.metrics.claims.WithLabelValues(judged.Alignment).Inc()
			w.mu.Lock()
			w.book.Claimed(*judged)
			w.mu.Unlock()
		}
	}
}

func (w *Witness) claimsNotLooked() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.book.ClaimsNotLooked()
}

// judgeClaims compares the devices of a pod's claims with the CPUs and memory that its kubelet has
// assigned.
func (w *Witness) judgeClaims(ctx context.Context, client kubernetes.Interface, c *claimed) (*shadow.Claimed, error) {
	ctx, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()
	out := &shadow.Claimed{Namespace: c.pod.Namespace, Name: c.pod.Name, Node: c.pod.Spec.NodeName, Scheduler: c.pod.Spec.SchedulerName}
	found := map[string]*resourceapi.ResourceClaim{}
	for i := range c.pod.Spec.ResourceClaims {
		name, _, err := resourceclaim.Name(c.pod, &c.pod.Spec.ResourceClaims[i])
		if err != nil {
			return nil, err
		}
		if name == nil {
			continue // no claim is needed
		}
		if found[*name], err = client.ResourceV1().ResourceClaims(c.pod.Namespace).Get(ctx, *name, metav1.GetOptions{}); err != nil {
			return nil, err
		}
		if found[*name].Status.Allocation == nil {
			return nil, fmt.Errorf("claim %s/%s no longer has devices", c.pod.Namespace, *name)
		}
	}
	published, err := client.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{FieldSelector: resourceapi.ResourceSliceSelectorNodeName + "=" + out.Node})
	if err != nil {
		return nil, err
	}
	known := make([]*resourceapi.ResourceSlice, len(published.Items))
	for i := range published.Items {
		known[i] = &published.Items[i]
	}
	sources := claims.DefaultSources()
	machine := w.table.Named(out.Node).Machine()
	j := claims.Judge(claims.Read(out.Node, machine, known, &sources), c.claims(machine, found))
	out.Alignment, out.Why = j.Alignment().String(), j.Why()
	return out, nil
}

// claims returns the pod's claims that are in found, with the NUMA nodes of the containers that use
// them.
func (c *claimed) claims(machine *topology.Machine, found map[string]*resourceapi.ResourceClaim) (out []claims.Claim) {
	var d placement.Decision
	for i := range c.outcome.Found.Containers {
		has := &c.outcome.Found.Containers[i]
		d.Containers = append(d.Containers, placement.ContainerDecision{Name: has.Name, CPUs: has.CPUs, Memory: has.Memory, Shares: has.Shares})
	}
	lies := claims.NUMAOf(&d, machine)
	for i := range c.pod.Spec.ResourceClaims {
		of := &c.pod.Spec.ResourceClaims[i]
		if name, _, err := resourceclaim.Name(c.pod, of); err == nil && name != nil && found[*name] != nil {
			out = append(out, claims.Claim{Name: c.pod.Namespace + "/" + *name, Results: found[*name].Status.Allocation.Devices.Results, Users: claims.Users(c.pod, of.Name, lies)})
		}
	}
	return out
}
