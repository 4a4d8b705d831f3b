package gang

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	volcano "github.com/berth-dev/berth/api/scheduling/volcano/v1beta1"
	"github.com/berth-dev/berth/internal/wire"
)

// definition plays an API server that serves one PodGroup of Volcano, with or without a status
// subresource. Like apiextensions, it answers 404 for a subresource that is not served. If there is
// one, it ignores the status in a write of the object.
type definition struct {
	apart bool
	group *volcano.PodGroup // nil: it is gone
	// asked counts reads of the definition, written counts the writes that succeeded.
	asked, written int
}

const (
	kindPath  = "/apis/scheduling.volcano.sh/v1beta1"
	groupPath = kindPath + "/namespaces/ns/podgroups/a"
)

func (d *definition) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	notFound := metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: 404, Reason: metav1.StatusReasonNotFound}
	path := strings.TrimSuffix(r.URL.Path, "/")
	switch {
	case path == kindPath:
		d.asked++
		list := metav1.APIResourceList{APIResources: []metav1.APIResource{{Name: "podgroups"}}}
		if d.apart {
			list.APIResources = append(list.APIResources, metav1.APIResource{Name: "podgroups/status"})
		}
		_ = json.NewEncoder(w).Encode(list)
	case d.group == nil, path != groupPath && (path != groupPath+"/status" || !d.apart):
		w.WriteHeader(http.StatusNotFound)
		_ = json.NewEncoder(w).Encode(notFound)
	case r.Method == http.MethodPatch:
		d.written++
		var patch struct {
			Metadata struct{ UID types.UID }
			Status   volcano.PodGroupStatus
		}
		body, _ := io.ReadAll(r.Body)
		if err := json.Unmarshal(body, &patch); err != nil || patch.Metadata.UID != d.group.UID {
			http.Error(w, "want a status for the object's UID", http.StatusConflict)
			return
		}
		if strings.HasSuffix(path, "/status") == d.apart {
			d.group.Status = patch.Status
		}
		_ = json.NewEncoder(w).Encode(d.group)
	default:
		_ = json.NewEncoder(w).Encode(d.group)
	}
}

// TestAStatusIsWrittenWhereItsDefinitionKeepsIt: as a subresource, or as a field of the object. The
// definition is read once, and again after it has changed.
func TestAStatusIsWrittenWhereItsDefinitionKeepsIt(t *testing.T) {
	d := &definition{group: &volcano.PodGroup{
		TypeMeta:   metav1.TypeMeta{Kind: "PodGroup", APIVersion: volcano.GroupVersion.String()},
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "1", ResourceVersion: "5"},
	}}
	server := httptest.NewServer(d)
	defer server.Close()
	o := &APIObjects{
		ctx: t.Context(), config: &rest.Config{Host: server.URL}, groups: New(Options{Clock: clock.RealClock{}}),
		clients: map[wire.GangSource]*rest.RESTClient{}, watched: map[wire.GangSource]bool{}, apart: map[wire.GangSource]bool{},
	}
	key := wire.GangKey{Source: wire.GangOfVolcano, Namespace: "ns", Name: "a"}
	for _, step := range []struct {
		name    string
		apart   bool
		phase   volcano.PodGroupPhase
		asked   int // so far
		written int
	}{
		{"a field", false, volcano.PodGroupInqueue, 1, 1},
		{"still a field", false, volcano.PodGroupRunning, 1, 2},
		{"it has become a subresource", true, volcano.PodGroupUnknown, 2, 4},
		{"still a subresource", true, volcano.PodGroupRunning, 2, 5},
		{"it has become a field again", false, volcano.PodGroupUnknown, 3, 6},
	} {
		d.apart = step.apart
		version, err := o.Write(t.Context(), key, standing{phase: step.phase, running: 2})
		if err != nil || version != "5" || d.group.Status.Phase != step.phase || d.group.Status.Running != 2 {
			t.Errorf("%s: version %q, %v, the status is %+v", step.name, version, err, d.group.Status)
		}
		if d.asked != step.asked || d.written != step.written {
			t.Errorf("%s: the definition was asked for %d times, %d writes, want %d and %d", step.name, d.asked, d.written, step.asked, step.written)
		}
	}
	d.group = nil
	if _, err := o.Write(t.Context(), key, standing{}); !isGone(err) {
		t.Errorf("of a group that is gone: %v", err)
	}
}

// TestAStatusThatNothingTakesIsAnError: a 404 for a write does not mean that the object is gone.
func TestAStatusThatNothingTakesIsAnError(t *testing.T) {
	d := &definition{apart: true, group: &volcano.PodGroup{
		TypeMeta:   metav1.TypeMeta{Kind: "PodGroup", APIVersion: volcano.GroupVersion.String()},
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "1", ResourceVersion: "5"},
	}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPatch {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		d.ServeHTTP(w, r)
	}))
	defer server.Close()
	o := &APIObjects{
		ctx: t.Context(), config: &rest.Config{Host: server.URL}, groups: New(Options{Clock: clock.RealClock{}}),
		clients: map[wire.GangSource]*rest.RESTClient{}, watched: map[wire.GangSource]bool{}, apart: map[wire.GangSource]bool{},
	}
	_, err := o.Write(t.Context(), wire.GangKey{Source: wire.GangOfVolcano, Namespace: "ns", Name: "a"}, standing{phase: volcano.PodGroupInqueue})
	if err == nil || isGone(err) || !strings.Contains(err.Error(), "ns/a exists") {
		t.Errorf("got %v, want an error that says that the group exists", err)
	}
}
