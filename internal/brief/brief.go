// Package brief makes recorders of events that shorten long notes and let repeated events join a
// series.
package brief

import (
	"fmt"
	"hash/maphash"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"

	"github.com/berth-dev/berth/internal/bounded"
	"github.com/berth-dev/berth/internal/clip"
)

// maxSaid is the maximum number of remembered events. If a forgotten event happens again, it is
// written as a new event.
const maxSaid = 8192

// Recorder returns a recorder that passes on events with shortened notes to another recorder.
// Repeated events join a series (Said).
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

// Said remembers the last events, so that equal events about later versions of an object join the
// series of the first. Kubernetes' recorders (client-go/tools/events) combine events into a series
// only if they have the same reason and action and are about the same version of an object. The
// series keeps the first note.
type Said struct {
	mu   sync.Mutex
	last bounded.Map[uint64, said] // by the hash of the topic
	seed maphash.Seed
}

// NewSaid returns a Said that remembers no events.
func NewSaid() *Said {
	return &Said{last: bounded.New[uint64, said](maxSaid), seed: maphash.MakeSeed()}
}

type topic struct {
	uid            types.UID
	reason, action string
}

// said has the hash of an event's note, so that Said stores no text of tenants, and the resource
// version of the object.
type said struct {
	note    uint64
	version string
}

// About returns the object with the resource version that it had at the first of several equal
// events. Events are equal if they are about the same object and have the same reason, action and
// note. If the last event with this reason and action had another note, About keeps the object's
// present version. If the object is a pod, the result is a reference to it.
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
		version := s.version(topic{m.GetUID(), reason, action}, note, m.GetResourceVersion())
		if version == m.GetResourceVersion() {
			return object
		}
		again := object.DeepCopyObject()
		if m, err = meta.Accessor(again); err == nil {
			m.SetResourceVersion(version)
		}
		return again
	}
	ref.ResourceVersion = s.version(topic{ref.UID, reason, action}, note, ref.ResourceVersion)
	return &ref
}

// version returns the resource version of the object at the first of several equal events (About).
// If the last event of the topic had another note or is forgotten, this is the argument present.
func (s *Said) version(of topic, note, present string) string {
	key, now := maphash.Comparable(s.seed, of), said{maphash.String(s.seed, note), present}
	s.mu.Lock()
	defer s.mu.Unlock()
	if before, ok := s.last.Get(key); ok && before.note == now.note {
		return before.version
	}
	s.last.Set(key, now)
	return present
}
