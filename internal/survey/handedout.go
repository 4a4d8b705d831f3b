package survey

import (
	"context"

	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// handedOut has the devices of Dynamic Resource Allocation, and the claims. A list is nil if it
// could not be read. Then notes has the reason.
type handedOut struct {
	slices  []*resourcev1.ResourceSlice
	claims  []*resourcev1.ResourceClaim
	classes []*resourcev1.DeviceClass
	notes   []string
	// one means that only the claims of one namespace may be read. absent means that the kinds are
	// not served.
	one, absent bool
}

// claim returns the claim with the name, or nil if there is none.
func (h *handedOut) claim(namespace, name string) *resourcev1.ResourceClaim {
	for _, c := range h.claims {
		if c.Namespace == namespace && c.Name == name {
			return c
		}
	}
	return nil
}

// resources reads a list of the group resource.k8s.io. The list is nil only if it could not be
// read.
func resources[T any](ctx context.Context, a *api, path ...string) ([]*T, error) {
	all, err := readAll[T](ctx, a, metav1.ListOptions{}, append([]string{resourcev1.SchemeGroupVersion.String()}, path...)...)
	if err != nil {
		return nil, err
	}
	out := make([]*T, len(all))
	for i := range all {
		out[i] = &all[i]
	}
	return out, nil
}

// handedOut implements source. It caches the lists for a short time, because the web page requests
// them for each pod.
func (a *api) handedOut(ctx context.Context, namespace string) (*handedOut, error) {
	all, err := a.handed.get(func() (*handedOut, error) { return a.readHandedOut(ctx) })
	if err != nil || !all.one || namespace == metav1.NamespaceAll {
		return all, err
	}
	h := *all
	h.claims, err = resources[resourcev1.ResourceClaim](ctx, a, "namespaces", namespace, "resourceclaims")
	note, err := a.tolerate("resource claims", "nothing is known about the pod's claims", err)
	if note == nil {
		note = []string{"resource claims of other namespaces may not be read, so devices that are allocated to them count as free"}
	}
	h.notes = append(note, all.notes...)
	return &h, err
}

func (a *api) readHandedOut(ctx context.Context) (*handedOut, error) {
	h := new(handedOut)
	var err error
	if h.slices, err = resources[resourcev1.ResourceSlice](ctx, a, "resourceslices"); apierrors.IsNotFound(err) {
		h.notes = []string{"the API server does not serve " + resourcev1.SchemeGroupVersion.String() + ", so nothing is known about resource claims"}
		h.absent = true
		return h, nil
	}
	if err = h.note(a.tolerate("resource slices", "the devices that a claim could have are not known", err)); err != nil {
		return nil, err
	}
	h.classes, err = resources[resourcev1.DeviceClass](ctx, a, "deviceclasses")
	if err = h.note(a.tolerate("device classes", "the devices that a claim could have are not known", err)); err != nil {
		return nil, err
	}
	h.claims, err = resources[resourcev1.ResourceClaim](ctx, a, "resourceclaims")
	if h.one = apierrors.IsForbidden(err); h.one {
		return h, nil
	}
	if err != nil {
		return nil, a.failed("resource claims", err)
	}
	return h, nil
}

// note converts an error about missing permissions to a note. It returns other errors.
func (h *handedOut) note(notes []string, err error) error {
	h.notes = append(h.notes, notes...)
	return err
}

// claimTemplates implements source.
func (a *api) claimTemplates(ctx context.Context, namespace string) ([]*resourcev1.ResourceClaimTemplate, []string, error) {
	all, err := resources[resourcev1.ResourceClaimTemplate](ctx, a, "namespaces", namespace, "resourceclaimtemplates")
	if apierrors.IsNotFound(err) {
		return nil, nil, nil // handedOut has the note
	}
	notes, err := a.tolerate("resource claim templates", "only the templates in the files are known", err)
	return all, notes, err
}
