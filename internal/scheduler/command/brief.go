package command

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"

	"github.com/berth-dev/berth/internal/brief"
	"github.com/berth-dev/berth/internal/clip"
)

const (
	// noteMore is the end of a shortened event note. The complete text is in the pod's condition
	// PodScheduled, and in kubectl berth explain.
	noteMore = "; more: kubectl berth explain"
	// leastHead is the number of bytes that a shortened note leaves for kube-scheduler's own
	// reasons, even if Berth's reasons are long.
	leastHead = 110
)

// shortened is a recorder that shortens events about attempts to place a pod.
type shortened struct {
	events.EventRecorderLogger
	said *brief.Said
}

// WithLogger implements events.EventRecorderLogger.
func (s shortened) WithLogger(logger klog.Logger) events.EventRecorderLogger {
	return shortened{s.EventRecorderLogger.WithLogger(logger), s.said}
}

// Eventf implements events.EventRecorder.
func (s shortened) Eventf(about, related runtime.Object, kind, reason, action, note string, args ...any) {
	note = briefNote(brief.Format(note, args...))
	s.EventRecorderLogger.Eventf(s.said.About(about, reason, action, note), related, kind, reason, action, "%s", note)
}

// briefNote shortens a note that is longer than clip.Event bytes. It removes the result of
// preemption. It also shortens kube-scheduler's reasons, which come first in the note, and Berth's
// reasons, which follow.
func briefNote(note string) string {
	if len(note) <= clip.Event {
		return note
	}
	head, own, ours := strings.Cut(note, "Berth: ")
	if ours {
		own = "Berth: " + own
	}
	head, _, _ = strings.Cut(head, " preemption: ")
	head = strings.TrimRight(strings.TrimSuffix(strings.TrimSpace(head), "no new claims to deallocate,"), " ,;")
	room := clip.Event - len(noteMore)
	if own == "" {
		return cutAt(head, ", ", room) + noteMore
	}
	if head != "" {
		head = strings.TrimSuffix(cutAt(head, ", ", max(leastHead, room-len(own)-len(". "))), ".") + ". "
	}
	return head + cutAt(own, "; ", room-len(head)) + noteMore
}

// cutAt shortens the text; the parameter most is the maximum number of bytes. It cuts before a
// separator if possible.
func cutAt(text, separator string, most int) string {
	if len(text) <= most {
		return text
	}
	if at := strings.LastIndex(text[:most], separator); at > 0 {
		return text[:at]
	}
	return clip.Text(text, max(0, most-len("...")))
}
