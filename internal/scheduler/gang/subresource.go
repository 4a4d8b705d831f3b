package gang

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/internal/wire"
)

// Berth's definition of PodGroups has the status subresource. Volcano's own definition (v1.9 to
// v1.15) does not have it: the status is an ordinary field of the object. A write to the wrong
// place fails in one of two ways. If the subresource is missing, the API server answers a write to
// it with 404, as for an object that is gone. If there is a subresource, the API server ignores the
// status in a write of the object.

const (
	groupsResource = "podgroups"
	statusPart     = "status"
)

// writeStatus writes the status of an object and returns the object's new version. If the API
// server did not accept the status, writeStatus reads the API definition again, once, because the
// definition may have been replaced. The error is NotFound or Conflict only if the object with that
// UID is gone.
func (o *APIObjects) writeStatus(ctx context.Context, key wire.GangKey, uid types.UID, status groupStatus) (string, error) {
	c, err := o.client(key.Source)
	if err != nil {
		return "", err
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": uid}, "status": status})
	if err != nil {
		return "", err
	}
	for range 2 {
		apart, err := o.statusApart(ctx, c, key.Source)
		if err != nil {
			return "", err
		}
		request := c.Patch(types.MergePatchType).Namespace(key.Namespace).Resource(groupsResource).Name(key.Name).Body(body)
		if apart {
			request = request.SubResource(statusPart)
		}
		answer, err := request.Do(ctx).Raw()
		if err != nil && !apierrors.IsNotFound(err) {
			return "", err
		}
		if version, taken := status.taken(answer); err == nil && taken {
			return version, nil
		}
		o.forgetStatusApart(key.Source)
	}
	if err := c.Get().Namespace(key.Namespace).Resource(groupsResource).Name(key.Name).Do(ctx).Error(); err != nil {
		return "", err
	}
	return "", fmt.Errorf("%s exists, but the API server accepts its status neither as a subresource nor as a field", key)
}

// groupStatus is the part of a PodGroup's status that Berth writes, for Volcano or
// scheduler-plugins.
type groupStatus struct {
	Phase     string `json:"phase"`
	Running   int32  `json:"running"`
	Succeeded int32  `json:"succeeded"`
	Failed    int32  `json:"failed"`
	// Conditions has the conditions of a Volcano PodGroup; nil leaves them unchanged.
	Conditions any `json:"conditions,omitempty"`
}

// taken reports whether the answer to a write shows the object with this status; it does not
// compare conditions. It also returns the object's version.
func (s groupStatus) taken(object []byte) (version string, taken bool) {
	var got struct {
		Metadata metav1.ObjectMeta `json:"metadata"`
		Status   groupStatus       `json:"status"`
	}
	if err := json.Unmarshal(object, &got); err != nil {
		return "", false
	}
	s.Conditions, got.Status.Conditions = nil, nil
	return got.Metadata.ResourceVersion, s == got.Status
}

// statusApart asks the API server's discovery whether a kind has a status subresource. It asks
// once, and again after forgetStatusApart.
func (o *APIObjects) statusApart(ctx context.Context, c *rest.RESTClient, s wire.GangSource) (bool, error) {
	o.mu.Lock()
	apart, known := o.apart[s]
	o.mu.Unlock()
	if known {
		return apart, nil
	}
	answer, err := c.Get().Do(ctx).Raw()
	if err != nil {
		return false, fmt.Errorf("find out whether PodGroups have a status subresource: %w", err)
	}
	var served metav1.APIResourceList
	if err := json.Unmarshal(answer, &served); err != nil {
		return false, fmt.Errorf("find out whether PodGroups have a status subresource: %w", err)
	}
	for i := range served.APIResources {
		apart = apart || served.APIResources[i].Name == groupsResource+"/"+statusPart
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.apart[s] = apart
	return apart, nil
}

func (o *APIObjects) forgetStatusApart(s wire.GangSource) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.apart, s)
}
