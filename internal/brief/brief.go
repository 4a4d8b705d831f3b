// Package brief makes recorders of events with short notes. An event that is repeated is one of a
// series.
package brief

import (
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"

	"github.com/berth-dev/berth/internal/bounded"
	"github.com/berth-dev/berth/internal/clip"
)

// maxSaid bounds the remembered events. An event that is not remembered is written once more.
const maxSaid = 8192

// Recorder returns a recorder that hands brief events on.
func Recorder(to events.EventRecorder) events.EventRecorder { return recorder{to, NewSaid()} }

type recorder struct {
	to   events.EventRecorder
	said *Said
}

// Eventf implements events.EventRecorder.
func (r recorder) Eventf(about, related runtime.Object, kind, reason, action, note string, args ...any) {
	note = clip.Note(Format(note, args...))
	r.to.Eventf(r.said.About(about, reason, action, note), related, kind, reason, action, "%s", note)
}

// Format returns the note of an event.
func Format(note string, args ...any) string {
	if len(args) == 0 {
		return note
	}
	return fmt.Sprintf(note, args...)
}

// Said remembers the last events. Kubernetes' recorders (client-go/tools/events) make a series of
// events with one reason and action about one version of an object, and keep the first note. The
// same event about a newer version of the object would be a new event.
type Said struct {
	mu   sync.Mutex
	last bounded.Map[topic, said]
}

// NewSaid has nothing to remember.
func NewSaid() *Said { return &Said{last: bounded.New[topic, said](maxSaid)} }

// topic is the object, reason and action of an event.
type topic struct {
	uid            types.UID
	reason, action string
}

type said struct{ note, version string }

// About returns the object in the version of the earlier equal event; without one, unchanged. A pod
// is replaced by a reference.
func (s *Said) About(object runtime.Object, reason, action, note string) runtime.Object {
	var ref corev1.ObjectReference
	switch o := object.(type) {
	case *corev1.Pod:
		ref = corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: o.Namespace, Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion}
	case *corev1.ObjectReference:
		ref = *o
	default:
		m, err := meta.Accessor(object)
		if err != nil {
			return object
		}
		version := s.version(topic{m.GetUID(), reason, action}, said{note, m.GetResourceVersion()})
		if version == m.GetResourceVersion() {
			return object
		}
		again := object.DeepCopyObject()
		if m, err = meta.Accessor(again); err == nil {
			m.SetResourceVersion(version)
		}
		return again
	}
	ref.ResourceVersion = s.version(topic{ref.UID, reason, action}, said{note, ref.ResourceVersion})
	return &ref
}

// version returns the version of the earlier equal event; otherwise the present one.
func (s *Said) version(of topic, now said) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if before, ok := s.last.Get(of); ok && before.note == now.note {
		return before.version
	}
	s.last.Set(of, now)
	return now.version
}
