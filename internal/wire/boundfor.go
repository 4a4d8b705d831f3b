package wire

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// BoundForAnnotation names the gang and the Reservation for which a pod was bound. Only the Binding
// can set it (deploy/policies), so it is reliable. The pod's other annotations about its gang are
// not: users may be able to change them even if they may not delete the pod.
const BoundForAnnotation = "berth.dev/bound-for"

// maxBoundFor is the maximum length of the annotation's value. It is enough for two names and two
// UIDs.
const maxBoundFor = 2 << 10

// BoundFor is the content of the BoundForAnnotation.
type BoundFor struct {
	// Gang is the gang in which the pod was bound, or zero.
	Gang GangKey
	// Whole means that the gang reached its minimum with the Binding of this pod.
	Whole bool
	// Reservation is the UID of the Reservation that the pod uses, or "".
	Reservation types.UID
}

type boundForJSON struct {
	Version int `json:"v"`
	// UID is the pod's UID.
	UID         types.UID `json:"uid"`
	Gang        string    `json:"gang,omitempty"`
	Source      string    `json:"source,omitempty"` // GangSource.String
	Whole       bool      `json:"whole,omitempty"`
	Reservation types.UID `json:"reservation,omitempty"`
}

const boundForVersion = 1

// WriteBoundFor returns the value of the pod's BoundForAnnotation. It returns "" if b has neither
// gang nor Reservation.
func WriteBoundFor(pod *corev1.Pod, b BoundFor) string {
	if b == (BoundFor{}) {
		return ""
	}
	said := boundForJSON{Version: boundForVersion, UID: pod.UID, Whole: b.Whole, Reservation: b.Reservation}
	if !b.Gang.IsZero() {
		said.Gang, said.Source = b.Gang.Name, b.Gang.Source.String()
	}
	text, err := json.Marshal(said)
	if err != nil {
		return "" // cannot fail for strings and a bool
	}
	return string(text)
}

// ReadBoundFor returns the content of the annotation. It returns false if the pod has no node, or
// if the annotation is missing, belongs to another pod, or cannot be parsed.
func ReadBoundFor(pod *corev1.Pod) (BoundFor, bool) {
	text, ok := pod.Annotations[BoundForAnnotation]
	if !ok || len(text) > maxBoundFor || pod.Spec.NodeName == "" {
		return BoundFor{}, false
	}
	var said boundForJSON
	if json.Unmarshal([]byte(text), &said) != nil || said.Version != boundForVersion || said.UID != pod.UID {
		return BoundFor{}, false
	}
	out := BoundFor{Whole: said.Whole, Reservation: said.Reservation}
	if said.Gang != "" {
		out.Gang = GangKey{Source: sourceOf(said.Source), Namespace: pod.Namespace, Name: said.Gang}
		if out.Gang.Source == NoGang {
			return BoundFor{}, false
		}
	}
	return out, true
}

// sourceOf returns the source with the given name, or NoGang.
func sourceOf(name string) GangSource {
	for _, s := range []GangSource{GangOfPods, GangOfVolcano, GangOfSigs, GangOfKoordinator, GangOfKoordinatorGroup} {
		if s.String() == name {
			return s
		}
	}
	return NoGang
}
