package source

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
)

// TestContact: a resource counts as lost from the first failure of its watch until the watch works
// again. An API server that answers with an error about the request itself counts as reachable.
func TestContact(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	c := newContact(func() time.Time { return now })
	refused, later := errors.New("connection refused"), errors.New("no route to host")
	status := func(code int32) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Code: code}}
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	for i, step := range []struct {
		ctx      context.Context
		resource string
		err      error
		want     int // number of lost resources
		news     bool
	}{
		{t.Context(), "pods", nil, 0, false},
		{t.Context(), "pods", status(http.StatusUnprocessableEntity), 0, false},
		{t.Context(), "pods", status(http.StatusGone), 0, false},
		{stopped, "pods", refused, 0, false},
		{t.Context(), "pods", refused, 1, true},
		{t.Context(), "pods", later, 1, false},
		{t.Context(), "nodes", status(http.StatusUnauthorized), 2, true},
		{t.Context(), "pods", nil, 1, true},
		{t.Context(), "nodes", status(http.StatusServiceUnavailable), 1, false},
		{t.Context(), "nodes", nil, 0, true},
	} {
		now = now.Add(time.Second)
		c.heard(step.ctx, step.resource, step.err)
		lost, news := c.say()
		if len(lost) != step.want || news != step.news {
			t.Errorf("step %d: lost %v, news %v; want %d, %v", i, lost, news, step.want, step.news)
		}
		if i == 5 && (!lost[0].Since.Equal(now.Add(-time.Second)) || lost[0].Why != later.Error()) {
			t.Errorf("pods are lost with %+v, want the time of the first error and the words of the last", lost[0])
		}
	}
}

// TestNobodyIsSilentWhileNobodyListens: while heartbeats cannot be watched, and for StaleAfter
// after that, no more agents count as silent.
func TestNobodyIsSilentWhileNobodyListens(t *testing.T) {
	w := &Watch{api: &API{Options: Options{StaleAfter: time.Minute, Heartbeats: "berth-system"}}, begun: time.Now(), begunHere: time.Now(), ping: make(chan struct{}, 1)}
	w.reports = cache.NewSharedIndexInformer(&cache.ListWatch{}, &v1alpha1.NodeTopology{}, 0, nil)
	w.leases = cache.NewSharedIndexInformer(&cache.ListWatch{}, &coordinationv1.Lease{}, 0, nil)
	w.contact = newContact(w.Now)
	w.changed.clear()
	if err := w.reports.GetStore().Add(&v1alpha1.NodeTopology{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}); err != nil {
		t.Fatal(err)
	}
	told := 0
	say := func(err error) {
		w.contact.heard(t.Context(), leasesResource, err)
		w.sayLost(func(string) { told++ })
	}
	silent := func() int {
		w.lookForSilence()
		return len(w.take().Nodes)
	}
	say(errors.New("connection refused"))
	if n := silent(); n != 0 || told != 1 {
		t.Errorf("%d nodes are silent while nobody listens; told %d times", n, told)
	}
	say(nil)
	if n := silent(); n != 0 || told != 2 {
		t.Errorf("%d nodes are silent as soon as somebody listens; told %d times", n, told)
	}
	w.listens = time.Now().Add(-2 * time.Minute)
	if n := silent(); n != 1 {
		t.Errorf("%d nodes are silent after two minutes, want 1", n)
	}
}
