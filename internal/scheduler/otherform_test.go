package scheduler

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/scheduler/nodes"
)

// Objects that this release would not write: one with invalid fields, and one that does not fit the
// type.
const (
	invalid  = `{"apiVersion":"berth.dev/v1alpha1","kind":"NodeTopology","metadata":{"name":%q,"uid":"u","resourceVersion":"2"},"spec":{"machine":"package:1"},"status":{"sequence":4,"pods":[{"uid":"p","containers":[{"name":"main","cpus":"1"}]}]}}`
	nonsense = `{"apiVersion":"berth.dev/v1alpha1","kind":"NodeTopology","metadata":{"name":%q,"uid":"u","resourceVersion":"2"},"spec":["x"]}`
)

// stored serves a list of the objects in listed, and a watch that reports those in told.
func stored(t *testing.T, listed, told []string) *rest.Config {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		q := r.URL.Query()
		switch {
		case !strings.HasSuffix(r.URL.Path, "/nodetopologies"):
			w.WriteHeader(http.StatusNotFound)
		case q.Get("sendInitialEvents") != "": // an API server without streaming lists
			w.WriteHeader(http.StatusUnprocessableEntity)
			_ = json.NewEncoder(w).Encode(metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonInvalid, Code: http.StatusUnprocessableEntity})
		case q.Get("watch") != "":
			for _, o := range told {
				fmt.Fprintf(w, `{"type":"ADDED","object":%s}`+"\n", o)
			}
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		default:
			fmt.Fprintf(w, `{"kind":"NodeTopologyList","apiVersion":"berth.dev/v1alpha1","metadata":{"resourceVersion":"2"},"items":[%s]}`, strings.Join(listed, ","))
		}
	}))
	t.Cleanup(s.Close)
	return &rest.Config{Host: s.URL}
}

// TestObjectsOfAnotherForm: whatever is stored for one node, the scheduler still reads all others.
func TestObjectsOfAnotherForm(t *testing.T) {
	register()
	f := newFixture(t)
	nt := f.topology()
	nt.ResourceVersion = "1"
	good, err := json.Marshal(nt)
	if err != nil {
		t.Fatal(err)
	}
	config := stored(t, []string{fmt.Sprintf(invalid, "old"), fmt.Sprintf(nonsense, "bad"), string(good)},
		[]string{fmt.Sprintf(invalid, "old-later"), fmt.Sprintf(nonsense, "bad-later"), fmt.Sprintf(invalid, "last")})
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	sources, err := nodes.NewSources(config, client, v1alpha1.HeartbeatNamespace)
	if err != nil {
		t.Fatal(err)
	}
	before := count(t, reportsRefused)
	f.feed.Watch(t.Context(), sources)
	for range 5 {
		if e := <-f.events.Events; !strings.Contains(e, "ReportRefused") || len(e) > 2000 {
			t.Errorf("event %.200q, want a short ReportRefused", e)
		}
	}
	const machine, otherForm = "want a compact machine string", "another release of berth-agent wrote its NodeTopology: delete that"
	for name, want := range map[string]string{"old": machine, "bad": otherForm, "old-later": machine, "bad-later": otherForm, "last": machine} {
		if why := f.refusal(name); !strings.Contains(why, want) {
			t.Errorf("node %s is refused with %q, want %q", name, why, want)
		}
	}
	if now := count(t, reportsRefused); now != before+5 {
		t.Errorf("the metric went from %v to %v, want 5 more", before, now)
	}
	f.want("the good one", pinned("x", 4), ledger.Admitted)
}
