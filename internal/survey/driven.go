package survey

import (
	"cmp"
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/berth-dev/berth/internal/claims"
	"github.com/berth-dev/berth/internal/survey/source"
	"github.com/berth-dev/berth/internal/wire"
)

// Driven has the devices that drivers offer on a node (ResourceSlices), and the claims of the
// node's pods.
type Driven struct {
	Devices []DriverDevices `json:"devices"`
	Claims  []ClaimOfPod    `json:"claims,omitempty"`
}

// DriverDevices are a driver's devices on a NUMA node.
type DriverDevices struct {
	Driver string `json:"driver"`
	// NUMANode and the following fields are as in ClaimOnNUMANode.
	NUMANode   string   `json:"numaNode"`
	Free       []string `json:"free"`
	Taken      []string `json:"taken,omitempty"`
	FreeCount  int      `json:"freeCount"`
	TakenCount int      `json:"takenCount"`
	Why        string   `json:"why,omitempty"`
}

// ClaimOfPod is an allocated claim of a pod. It compares the positions of the devices with the
// pod's CPUs and memory.
type ClaimOfPod struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	Claim     string `json:"claim"`
	Asks      string `json:"asks,omitempty"`
	Devices   string `json:"devices"`
	// Alignment is the alignment of the worst device (with the values of
	// berth_scheduler_claim_pods_total). Why describes the device.
	Alignment string `json:"alignment"`
	Why       string `json:"why"`
}

// Driven returns the drivers' devices on a node, or nil. The notes describe missing information.
func (c *Cluster) Driven(ctx context.Context, s *Survey, name string) (*Driven, []string, error) {
	n := s.nodes[name]
	if n == nil {
		return nil, nil, nil
	}
	read, err := c.from.HandedOut(ctx, metav1.NamespaceAll)
	if err != nil || read.Absent {
		return nil, nil, err
	}
	h := *read
	if h.One {
		h.Notes = append(slices.Clip(h.Notes), "resource claims of all namespaces may not be read, so devices that are allocated to claims count as free")
	}
	a := newAllocator(&h, &c.Terms)
	inventory := claims.Read(name, n.knownMachine(), a.slicesOf(n.object, name), &a.sources)
	out := &Driven{}
	byDriver := map[string]*devicesFor{}
	var drivers []string
	for id := range inventory.All() { // by driver
		if byDriver[id.Driver] == nil {
			drivers = append(drivers, id.Driver)
			byDriver[id.Driver] = &devicesFor{allocator: a, inventory: inventory}
		}
		byDriver[id.Driver].matching = append(byDriver[id.Driver].matching, id)
	}
	for _, driver := range drivers {
		for _, row := range byDriver[driver].rows(0, false, "") {
			out.Devices = append(out.Devices, DriverDevices{driver, row.NUMANode, row.Free, row.Taken, row.FreeCount, row.TakenCount, row.Why})
		}
	}
	for _, pod := range n.bound {
		out.Claims = append(out.Claims, n.claimsOf(pod, &c.Terms, &h, inventory)...)
	}
	slices.SortStableFunc(out.Claims, func(a, b ClaimOfPod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Pod, b.Pod))
	})
	if len(out.Devices)+len(out.Claims) == 0 {
		return nil, h.Notes, nil
	}
	return out, h.Notes, nil
}

// claimsOf returns the claims of a pod on the node that have devices, with their alignment.
func (n *node) claimsOf(pod *corev1.Pod, terms *wire.Terms, h *source.HandedOut, i *claims.Inventory) (out []ClaimOfPod) {
	mode, _ := terms.ReadClaims(pod) // Explain reports the error
	for k := range pod.Spec.ResourceClaims {
		of := &pod.Spec.ResourceClaims[k]
		name, _, err := resourceclaim.Name(pod, of)
		if err != nil || name == nil {
			continue
		}
		c := h.Claim(pod.Namespace, *name)
		if c == nil || c.Status.Allocation == nil {
			continue
		}
		lies := n.lies(pod)
		one := claims.Claim{
			Name: pod.Namespace + "/" + *name, Results: c.Status.Allocation.Devices.Results, Users: claims.Users(pod, of.Name, lies),
		}
		j := claims.Judge(i, []claims.Claim{one})
		out = append(out, ClaimOfPod{
			Namespace: pod.Namespace, Pod: pod.Name, Claim: *name, Asks: mode.String(), Devices: deviceNames(one.Results),
			Alignment: j.Alignment().String(), Why: strings.TrimSpace(j.Why()),
		})
	}
	return out
}
