package brief

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-dev/berth/internal/clip"
)

// recording keeps all events.
type recording struct{ told []string }

func (r *recording) Eventf(about, _ runtime.Object, _, reason, action, note string, args ...any) {
	name, version := "", ""
	if ref, ok := about.(*corev1.ObjectReference); ok {
		name, version = ref.Name, ref.ResourceVersion
	} else if m, err := meta.Accessor(about); err == nil {
		name, version = m.GetName(), m.GetResourceVersion()
	}
	r.told = append(r.told, fmt.Sprintf("%s@%s %s/%s: ", name, version, reason, action)+fmt.Sprintf(note, args...))
}

// TestTheSameEventIsASeries: a recorder treats events as equal only if they are about the same
// version of an object. A repeated event is therefore sent with the version of the first one.
func TestTheSameEventIsASeries(t *testing.T) {
	in := &recording{}
	r := Recorder(in)
	meta := func(version string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: "o", UID: "u", ResourceVersion: version}
	}
	pod := func(version string) *corev1.Pod { return &corev1.Pod{ObjectMeta: meta(version)} }
	r.Eventf(pod("1"), nil, "Warning", "Reason", "Act", "no 100%s node")
	r.Eventf(pod("2"), nil, "Warning", "Reason", "Act", "no 100%s node")
	r.Eventf(pod("3"), nil, "Warning", "Reason", "Other", "no %d node", 100)
	r.Eventf(pod("4"), nil, "Warning", "Reason", "Act", "no 100%s node")
	r.Eventf(&corev1.ObjectReference{Name: "o", UID: "u", ResourceVersion: "5"}, nil, "Warning", "Reason", "Act", "%s", "other")
	r.Eventf(pod("6"), nil, "Warning", "Reason", "Act", "other")
	node := &corev1.Node{ObjectMeta: meta("7")}
	r.Eventf(node, nil, "Warning", "Of a node", "Act", "other")
	node.ResourceVersion = "8"
	r.Eventf(node, nil, "Warning", "Of a node", "Act", "other")
	want := []string{"o@1 Reason/Act: no 100%s node", "o@1 Reason/Act: no 100%s node", "o@3 Reason/Other: no 100 node", "o@1 Reason/Act: no 100%s node",
		"o@5 Reason/Act: other", "o@5 Reason/Act: other", "o@7 Of a node/Act: other", "o@7 Of a node/Act: other"}
	if got := strings.Join(in.told, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
	if node.ResourceVersion != "8" {
		t.Error("the object itself is changed")
	}
	for i := range 3 * maxSaid {
		r.Eventf(pod(""), nil, "Warning", fmt.Sprint(i), "Act", "x")
	}
	if n := r.(recorder).said.last.Len(); n > maxSaid {
		t.Errorf("%d events are remembered", n)
	}
}

// TestLongNotes: a note is cut between words, or at least not inside a character.
func TestLongNotes(t *testing.T) {
	for name, c := range map[string]struct{ note, want string }{
		"words":    {strings.Repeat("seven w ", 60), " w..."},
		"one word": {strings.Repeat("é", 400), "é..."},
		"short":    {"short", "short"},
	} {
		in := &recording{}
		Recorder(in).Eventf(&corev1.ObjectReference{}, nil, "Warning", "R", "A", "%s", c.note)
		_, got, _ := strings.Cut(in.told[0], ": ")
		if len(got) > clip.Event || !utf8.ValidString(got) || !strings.HasSuffix(got, c.want) {
			t.Errorf("%s: %d bytes: %s", name, len(got), got)
		}
	}
}
