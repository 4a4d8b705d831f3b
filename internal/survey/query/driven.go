package query

import (
	"cmp"
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/berth-dev/berth/internal/claims"
	"github.com/berth-dev/berth/internal/survey"
	"github.com/berth-dev/berth/internal/survey/source"
	"github.com/berth-dev/berth/internal/wire"
)

// DrivenOn returns the devices of DRA drivers on a node, and the claims of its pods. It returns nil
// if there are none, or if n is nil. The notes describe missing information.
func DrivenOn(ctx context.Context, c *survey.Cluster, n *survey.NodeState) (*survey.Driven, []string, error) {
	if n == nil {
		return nil, nil, nil
	}
	read, err := c.From.HandedOut(ctx, metav1.NamespaceAll)
	if err != nil || read.Absent {
		return nil, nil, err
	}
	h := *read
	if h.One {
		h.Notes = append(slices.Clip(h.Notes), "no permission to read resource claims of all namespaces, so devices that are allocated to claims count as free")
	}
	a := newAllocator(&h, &c.Terms)
	inventory := claims.Read(n.Name, knownMachine(n), a.slicesOf(n.Object, n.Name), &a.sources)
	out := &survey.Driven{}
	byDriver := map[string]*devicesFor{}
	var drivers []string
	for id := range inventory.All() { // sorted by driver
		if byDriver[id.Driver] == nil {
			drivers = append(drivers, id.Driver)
			byDriver[id.Driver] = &devicesFor{allocator: a, inventory: inventory}
		}
		byDriver[id.Driver].matching = append(byDriver[id.Driver].matching, id)
	}
	for _, driver := range drivers {
		for _, row := range byDriver[driver].rows(0, false, "") {
			out.Devices = append(out.Devices, survey.DriverDevices{Driver: driver, NUMANode: row.NUMANode, Free: row.Free, Taken: row.Taken, FreeCount: row.FreeCount, TakenCount: row.TakenCount, Why: row.Why})
		}
	}
	for _, pod := range n.Bound {
		out.Claims = append(out.Claims, allocatedClaims(n, pod, &c.Terms, &h, inventory)...)
	}
	slices.SortStableFunc(out.Claims, func(a, b survey.ClaimOfPod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Pod, b.Pod))
	})
	if len(out.Devices)+len(out.Claims) == 0 {
		return nil, h.Notes, nil
	}
	return out, h.Notes, nil
}

// allocatedClaims returns the claims of a pod on the node that have devices, with their alignment.
func allocatedClaims(n *survey.NodeState, pod *corev1.Pod, terms *wire.Terms, h *source.HandedOut, i *claims.Inventory) (out []survey.ClaimOfPod) {
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
		lies := lies(n, pod)
		one := claims.Claim{
			Name: pod.Namespace + "/" + *name, Results: c.Status.Allocation.Devices.Results, Users: claims.Users(pod, of.Name, lies),
		}
		j := claims.Judge(i, []claims.Claim{one})
		out = append(out, survey.ClaimOfPod{
			Namespace: pod.Namespace, Pod: pod.Name, Claim: *name, Asks: mode.String(), Devices: deviceNames(one.Results),
			Alignment: j.Alignment().String(), Why: strings.TrimSpace(j.Why()),
		})
	}
	return out
}
