package source

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/internal/wire"
)

// GroupsIn implements Source.
func (a *API) GroupsIn(ctx context.Context, namespace string) (*Groups, error) {
	out := &Groups{Hidden: map[wire.GangSource]bool{}}
	for _, source := range slices.Sorted(maps.Keys(wire.GroupKinds)) {
		kind := wire.GroupKinds[source].Version
		path := []string{kind.String()}
		if namespace != metav1.NamespaceAll {
			path = append(path, "namespaces", namespace)
		}
		list, err := readAll[json.RawMessage](ctx, a, metav1.ListOptions{}, append(path, "podgroups")...)
		if apierrors.IsNotFound(err) {
			continue
		}
		note, rest := a.tolerate("podgroups."+kind.Group, "gangs are known only from their pods", err)
		if rest != nil {
			return nil, rest
		}
		out.Hidden[source] = err != nil
		out.Notes = append(out.Notes, note...)
		for _, raw := range list {
			out.List = append(out.List, slimGroup(raw, kind))
		}
	}
	return out, nil
}

// slimGroup keeps the identity, the spec, the status, and the protection from eviction of an
// object. It also sets apiVersion and kind, which items of a list may lack.
func slimGroup(raw json.RawMessage, v schema.GroupVersion) json.RawMessage {
	var whole struct {
		Metadata metav1.ObjectMeta `json:"metadata"`
		Spec     json.RawMessage   `json:"spec,omitempty"`
		Status   json.RawMessage   `json:"status,omitempty"`
	}
	if json.Unmarshal(raw, &whole) != nil {
		return raw
	}
	m := &whole.Metadata
	data, err := json.Marshal(map[string]any{
		"apiVersion": v.String(), "kind": "PodGroup", "spec": whole.Spec, "status": whole.Status,
		"metadata": metav1.ObjectMeta{Name: m.Name, Namespace: m.Namespace, UID: m.UID, ResourceVersion: m.ResourceVersion, CreationTimestamp: m.CreationTimestamp,
			Annotations: protecting(m.Annotations), Labels: protecting(m.Labels)},
	})
	if err != nil {
		return raw
	}
	return data
}

// protecting returns only those annotations or labels that protect a group from eviction.
func protecting(words map[string]string) map[string]string {
	text, said := words[wire.PreemptableKey]
	if !said {
		return nil
	}
	return map[string]string{wire.PreemptableKey: text}
}
