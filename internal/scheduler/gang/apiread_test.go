package gang

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/internal/wire"
)

// TestVolcanosObjectsAreRead reads a queue and a Job, and refuses names that would lead to another
// path, because tenants choose the names.
func TestVolcanosObjectsAreRead(t *testing.T) {
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Path)
		_, _ = io.WriteString(w, `{"status": {"state": "Closed"}, "spec": {"schedulerName": "berth", "priorityClassName": "low", "tasks": [{}, {"template": {"spec": {"priorityClassName": "high"}}}]}}`)
	}))
	defer server.Close()
	o := &APIObjects{config: &rest.Config{Host: server.URL}, clients: map[wire.GangSource]*rest.RESTClient{}}
	if state, err := o.QueueState(t.Context(), "research"); state != queueClosed || err != nil {
		t.Errorf("queue: %q, %v", state, err)
	}
	if job, err := o.JobOf(t.Context(), "team", "train"); job.Scheduler != "berth" || !slices.Equal(job.Classes, []string{"low", "high"}) || err != nil {
		t.Errorf("job: %+v, %v", job, err)
	}
	for _, name := range []string{"..", "../../namespaces/kube-system/secrets"} {
		if state, err := o.QueueState(t.Context(), name); err == nil {
			t.Errorf("queue %s: %q", name, state)
		}
		if job, err := o.JobOf(t.Context(), "team", name); err == nil {
			t.Errorf("job %s: %+v", name, job)
		}
	}
	want := []string{"/apis/scheduling.volcano.sh/v1beta1/queues/research", "/apis/batch.volcano.sh/v1alpha1/namespaces/team/jobs/train"}
	if !slices.Equal(asked, want) {
		t.Errorf("asked for %q, want %q", asked, want)
	}
}
