package source

import (
	"bytes"
	"compress/gzip"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nodeinfo "github.com/berth-dev/berth/api/nodeinfo/v1alpha1"
	nrt "github.com/berth-dev/berth/api/nrt/v1alpha2"
	koordinator "github.com/berth-dev/berth/api/scheduling/koordinator/v1alpha1"
	"github.com/berth-dev/berth/internal/wire"
)

// TestSnapshotsKeepWhoMayWithhold: a snapshot keeps the settings of the scheduler.
func TestSnapshotsKeepWhoMayWithhold(t *testing.T) {
	var file bytes.Buffer
	written := Snapshot{StaleAfter: "1m", Terms: wire.Terms{ExclusiveNamespaces: wire.Namespaces{"a"}, BestEffortAnywhere: true}}
	if err := written.Write(&file); err != nil {
		t.Fatal(err)
	}
	_, c, err := Open(&file, "f")
	if err != nil || !c.Terms.ExclusiveNamespaces.Allow("a") || c.Terms.ExclusiveNamespaces.Allow("b") || !c.Terms.BestEffortAnywhere {
		t.Errorf("%+v, error %v", c, err)
	}
}

// TestSnapshotsKeepWhatIsMalformed: a snapshot keeps why an object cannot be read.
func TestSnapshotsKeepWhatIsMalformed(t *testing.T) {
	named := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }
	s := Snapshot{StaleAfter: "1m"}
	s.keep(&Facts{
		Coarse: []metav1.Object{&nodeinfo.Numatopology{ObjectMeta: named("a"), Malformed: "spec.cpuDetail: wrong"}, &nodeinfo.Numatopology{ObjectMeta: named("b")},
			&nrt.NodeResourceTopology{ObjectMeta: named("a"), Malformed: "zones: wrong"}},
		Reservations: []*koordinator.Reservation{{ObjectMeta: named("r"), Malformed: "spec.template: wrong"}},
	})
	var file bytes.Buffer
	if err := s.Write(&file); err != nil {
		t.Fatal(err)
	}
	read, _, err := Open(&file, "f")
	if err != nil {
		t.Fatal(err)
	}
	f, err := read.Facts(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	got := []string{f.Reservations[0].Malformed}
	for _, o := range f.Coarse {
		switch o := o.(type) {
		case *nodeinfo.Numatopology:
			got = append(got, o.Malformed)
		case *nrt.NodeResourceTopology:
			got = append(got, o.Malformed)
		}
	}
	if want := []string{"spec.template: wrong", "spec.cpuDetail: wrong", "", "zones: wrong"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestSnapshotIsWhole: a file that is no snapshot is refused, with the reason.
func TestSnapshotIsWhole(t *testing.T) {
	for what, text := range map[string]string{
		"kind \"Pod\"": `{"kind": "Pod"}`, "version 99": `{"kind": "BerthSnapshot", "version": 99}`,
		"staleAfter": `{"kind": "BerthSnapshot", "version": 1, "staleAfter": "soon"}`, "null": `{"kind": "BerthSnapshot", "version": 1, "staleAfter": "1m", "pods": [null]}`,
		"complete": `{"kind": "BerthSna`,
	} {
		var file bytes.Buffer
		packed := gzip.NewWriter(&file)
		if _, err := packed.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		packed.Close()
		if _, _, err := Open(&file, "f"); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v: want %q", text, err, what)
		}
	}
}
