package vm

import (
	"fmt"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
)

// topologyWatch records every version of a NodeTopology that the API server showed, with the time.
type topologyWatch struct {
	mu    sync.Mutex
	seen  []toldTopology
	ended error
	news  chan struct{} // one pending event is enough
}

type toldTopology struct {
	at time.Time
	nt *v1alpha1.NodeTopology
}

// watchTopology watches until the test ends.
func (c *cluster) watchTopology(node string) *topologyWatch {
	c.t.Helper()
	events, err := c.Objects.Resource(v1alpha1.NodeTopologies).Watch(c.t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + node})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(events.Stop)
	w := &topologyWatch{news: make(chan struct{}, 1)}
	go func() {
		for e := range events.ResultChan() {
			w.add(e.Object, time.Now())
		}
		w.end(fmt.Errorf("the watch of NodeTopology %s ended", node))
	}()
	return w
}

func (w *topologyWatch) add(object runtime.Object, at time.Time) {
	u, ok := object.(*unstructured.Unstructured)
	if !ok {
		w.end(fmt.Errorf("the watch says %+v", object))
		return
	}
	nt := new(v1alpha1.NodeTopology)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, nt); err != nil {
		w.end(err)
		return
	}
	w.mu.Lock()
	w.seen = append(w.seen, toldTopology{at, nt})
	w.mu.Unlock()
	w.poke()
}

func (w *topologyWatch) end(err error) {
	w.mu.Lock()
	w.ended = err
	w.mu.Unlock()
	w.poke()
}

func (w *topologyWatch) poke() {
	select {
	case w.news <- struct{}{}:
	default:
	}
}

// clockError is how much the translation of a guest's time may be wrong on a busy host.
const clockError = 300 * time.Millisecond

// await returns how long after since the API first showed a version that matches. Earlier versions
// do not count.
func (w *topologyWatch) await(t *testing.T, what string, since time.Time, match func(*v1alpha1.NodeTopology) bool) time.Duration {
	t.Helper()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for {
		at, last, err := w.first(since.Add(-clockError), match)
		if !at.IsZero() {
			return at.Sub(since)
		}
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		select {
		case <-w.news:
		case <-limit.C:
			t.Fatalf("waited %s for: %s; last: %+v", patience, what, last)
		}
	}
}

func (w *topologyWatch) first(from time.Time, match func(*v1alpha1.NodeTopology) bool) (at time.Time, last *v1alpha1.NodeTopologyStatus, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, told := range w.seen {
		if last = &told.nt.Status; told.at.After(from) && match(told.nt) {
			return told.at, last, nil
		}
	}
	return time.Time{}, last, w.ended
}
