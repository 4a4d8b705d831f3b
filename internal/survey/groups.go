package survey

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	sigs "github.com/berth-dev/berth/api/scheduling/sigs/v1alpha1"
	volcano "github.com/berth-dev/berth/api/scheduling/volcano/v1beta1"
	"github.com/berth-dev/berth/internal/wire"
)

// groupObjects has objects that declare gangs, mostly unparsed.
type groupObjects struct {
	list []json.RawMessage
	// hidden has the kinds that may not be read. notes has a note about each of them.
	hidden map[wire.GangSource]bool
	notes  []string
}

// groupsIn implements source.
func (a *api) groupsIn(ctx context.Context, namespace string) (*groupObjects, error) {
	out := &groupObjects{hidden: map[wire.GangSource]bool{}}
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
		out.hidden[source] = err != nil
		out.notes = append(out.notes, note...)
		for _, raw := range list {
			out.list = append(out.list, slimGroup(raw, kind))
		}
	}
	return out, nil
}

// slimGroup keeps the identity, the request, the protection and the status of an object. It also
// sets apiVersion, which items of a list may lack.
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

// readGroup reads an object that declares a gang. wrong describes fields that Berth does not
// support. err means that the object cannot be read.
func readGroup(raw json.RawMessage) (spec wire.Gang, wrong, err error) {
	var head struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
	}
	if err := json.Unmarshal(raw, &head); err != nil {
		return spec, nil, fmt.Errorf("a PodGroup: %w", err)
	}
	err = fmt.Errorf("apiVersion %q: want %s, %s or %s", head.APIVersion, volcano.GroupVersion, sigs.GroupVersion, sigs.OldGroupVersion)
	for _, kind := range wire.GroupKinds {
		if kind.Version.String() != head.APIVersion {
			continue
		}
		object := kind.New()
		if err = json.Unmarshal(raw, object); err == nil {
			spec, wrong = kind.Read(object)
		}
	}
	if err != nil {
		err = fmt.Errorf("PodGroup %s/%s: %w", head.Namespace, head.Name, err)
	}
	return spec, wrong, err
}
