package command

import (
	"fmt"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"

	"github.com/berth-dev/berth/internal/bounded"
	"github.com/berth-dev/berth/internal/clip"
)

const (
	// maxNote is how many bytes the note of an event has. What is left out is in the pod's
	// condition PodScheduled, and kubectl berth explain says it in full.
	maxNote = 300
	// noteMore ends a note of which something was left out.
	noteMore = "; more: kubectl berth explain"
	// leastHead is how much of a note kube-scheduler's own reasons get at least.
	leastHead = 110
	// maxTold bounds the pods whose last events are remembered. If one is not, its event is written
	// once more.
	maxTold = 8192
)

// briefEvents shortens the notes of events, and makes an event that comes again a series: a
// recorder tells events about two versions of one pod apart, whatever they say.
type briefEvents struct {
	mu sync.Mutex
	// last is the last event of a pod for each reason.
	last bounded.Map[toldAbout, told]
}

type toldAbout struct {
	uid    types.UID
	reason string
}

type told struct{ note, version string }

func newBriefEvents() *briefEvents {
	return &briefEvents{last: bounded.New[toldAbout, told](maxTold)}
}

// brief is a recorder of such events.
type brief struct {
	events.EventRecorderLogger
	of *briefEvents
}

// WithLogger implements events.EventRecorderLogger.
func (b brief) WithLogger(logger klog.Logger) events.EventRecorderLogger {
	return brief{b.EventRecorderLogger.WithLogger(logger), b.of}
}

// Eventf implements events.EventRecorder.
func (b brief) Eventf(about, related runtime.Object, kind, reason, action, note string, args ...any) {
	if len(args) > 0 {
		note = fmt.Sprintf(note, args...)
	}
	note = briefNote(note)
	b.EventRecorderLogger.Eventf(b.of.reference(about, reason, note), related, kind, reason, action, "%s", note)
}

// reference is the pod, in the version in which the same was said of it before; anything else as it
// is.
func (e *briefEvents) reference(about runtime.Object, reason, note string) runtime.Object {
	var ref corev1.ObjectReference
	switch o := about.(type) {
	case *corev1.Pod:
		ref = corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: o.Namespace, Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion}
	case *corev1.ObjectReference:
		ref = *o
	default:
		return about
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	key := toldAbout{ref.UID, reason}
	if before, ok := e.last.Get(key); ok && before.note == note {
		ref.ResourceVersion = before.version
		return &ref
	}
	e.last.Set(key, told{note, ref.ResourceVersion})
	return &ref
}

// briefNote is a note of at most maxNote bytes: kube-scheduler's reasons without what became of its
// preemption, then Berth's own.
func briefNote(note string) string {
	if len(note) <= maxNote {
		return note
	}
	head, own, ours := strings.Cut(note, "Berth: ")
	if ours {
		own = "Berth: " + own
	}
	head, _, _ = strings.Cut(head, " preemption: ")
	head = strings.TrimRight(strings.TrimSuffix(strings.TrimSpace(head), "no new claims to deallocate,"), " ,;")
	room := maxNote - len(noteMore)
	if own == "" {
		return cutAt(head, ", ", room) + noteMore
	}
	head = cutAt(head, ", ", max(leastHead, room-len(own)-1))
	if head != "" {
		head += " "
	}
	return head + cutAt(own, "; ", room-len(head)) + noteMore
}

// cutAt is the text, or what of it ends before a separator and has at most so many bytes.
func cutAt(text, separator string, most int) string {
	if len(text) <= most {
		return text
	}
	if at := strings.LastIndex(text[:most], separator); at > 0 {
		return text[:at]
	}
	return clip.Text(text, max(0, most-len("...")))
}
