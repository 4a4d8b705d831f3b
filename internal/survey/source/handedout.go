package source

import (
	"context"

	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// resources reads a list of the group resource.k8s.io. The list is nil only if it could not be
// read.
func resources[T any](ctx context.Context, a *API, path ...string) ([]*T, error) {
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

// HandedOut implements Source. It caches the lists of the whole cluster for a short time, because
// the web page requests them for each pod.
func (a *API) HandedOut(ctx context.Context, namespace string) (*HandedOut, error) {
	all, err := a.handed.Get(func() (*HandedOut, error) { return a.readHandedOut(ctx) })
	if err != nil || !all.One || namespace == metav1.NamespaceAll {
		return all, err
	}
	h := *all
	h.Claims, err = resources[resourcev1.ResourceClaim](ctx, a, "namespaces", namespace, "resourceclaims")
	note, err := a.tolerate("resource claims", "nothing is known about the pod's claims", err)
	if note == nil {
		note = []string{"no permission to read resource claims of other namespaces, so devices that are allocated to them count as free"}
	}
	h.Notes = append(note, all.Notes...)
	return &h, err
}

func (a *API) readHandedOut(ctx context.Context) (*HandedOut, error) {
	h := new(HandedOut)
	var err error
	if h.Slices, err = resources[resourcev1.ResourceSlice](ctx, a, "resourceslices"); apierrors.IsNotFound(err) {
		h.Notes = []string{"the API server does not serve " + resourcev1.SchemeGroupVersion.String() + ", so nothing is known about resource claims"}
		h.Absent = true
		return h, nil
	}
	if err = h.note(a.tolerate("resource slices", "the devices that a claim could have are not known", err)); err != nil {
		return nil, err
	}
	h.Classes, err = resources[resourcev1.DeviceClass](ctx, a, "deviceclasses")
	if err = h.note(a.tolerate("device classes", "the devices that a claim could have are not known", err)); err != nil {
		return nil, err
	}
	h.Claims, err = resources[resourcev1.ResourceClaim](ctx, a, "resourceclaims")
	if h.One = apierrors.IsForbidden(err); h.One {
		return h, nil
	}
	if err != nil {
		return nil, a.failed("resource claims", err)
	}
	return h, nil
}

// note adds the notes of a call of tolerate, and returns the error of this call.
func (h *HandedOut) note(notes []string, err error) error {
	h.Notes = append(h.Notes, notes...)
	return err
}

// ClaimTemplates implements Source.
func (a *API) ClaimTemplates(ctx context.Context, namespace string) ([]*resourcev1.ResourceClaimTemplate, []string, error) {
	all, err := resources[resourcev1.ResourceClaimTemplate](ctx, a, "namespaces", namespace, "resourceclaimtemplates")
	if apierrors.IsNotFound(err) {
		return nil, nil, nil // HandedOut has the note
	}
	notes, err := a.tolerate("resource claim templates", "only the templates in the files are known", err)
	return all, notes, err
}
