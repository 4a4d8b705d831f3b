package nodes

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
)

// TestAWatchBegins: the initial objects of a watch are delivered at once. Only their names and
// versions are kept until the last of them has come.
func TestAWatchBegins(t *testing.T) {
	seen, gone := make(chan string, 10), make(chan string, 10)
	s := newReflectorStore(func(nt *v1alpha1.NodeTopology) { seen <- nt.Name + "@" + nt.ResourceVersion }, func(name string) { gone <- name })
	_ = s.Add(version("was-there", 1))
	_ = s.Add(version("is-there", 2))
	for range 2 {
		<-seen
	}
	server := watch.NewRaceFreeFake()
	go s.run(t.Context(), &cache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
			return nil, errors.New("want a watch")
		},
		WatchFuncWithContext: func(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
			if o.SendInitialEvents == nil || !*o.SendInitialEvents {
				t.Errorf("%v: want that the watch begins with what is there", o)
			}
			return server, nil
		},
	}, new(v1alpha1.NodeTopology))
	want := func(from <-chan string, what string) {
		t.Helper()
		select {
		case got := <-from:
			if got != what {
				t.Fatalf("got %s, want %s", got, what)
			}
		case <-time.After(time.Minute):
			t.Fatalf("nothing comes, want %s", what)
		}
	}
	server.Add(version("is-there", 2)) // known already
	server.Add(version("new", 3))
	want(seen, "new@3")
	server.Add(version("short", 4))
	want(seen, "short@4")
	if s.synced.Load() || len(gone) > 0 {
		t.Errorf("it is taken for complete before its end; %d are gone", len(gone))
	}
	server.Modify(version("new", 5))
	want(seen, "new@5")
	server.Delete(version("short", 6))
	end := version("", 7)
	end.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	server.Action(watch.Bookmark, end)
	left := map[string]bool{}
	for range 2 {
		select {
		case name := <-gone:
			left[name] = true
		case <-time.After(time.Minute):
			t.Fatal("what was deleted is not gone")
		}
	}
	if !left["was-there"] || !left["short"] {
		t.Errorf("%v are gone", left)
	}
	server.Modify(version("is-there", 8))
	want(seen, "is-there@8")
	if !s.synced.Load() || len(s.versions) != 2 {
		t.Errorf("complete: %t; versions %v, want two", s.synced.Load(), s.versions)
	}
	if _, err := s.Transformer()("a string"); err == nil {
		t.Error("a string is taken for a report")
	}
	if err := s.Replace([]any{"a string"}, ""); err == nil {
		t.Error("a string is taken for a report")
	}
}

// pacer is a clock whose waits end when the test sends a value.
type pacer struct {
	clock.RealClock
	waits chan chan time.Time
}

func (p pacer) After(time.Duration) <-chan time.Time {
	end := make(chan time.Time)
	p.waits <- end
	return end
}

// TestAPollTellsOfChanges: objects are listed repeatedly. Only changes are delivered, and a list
// that fails is tried again.
func TestAPollTellsOfChanges(t *testing.T) {
	var seen, gone []string
	s := newReflectorStore(func(nt *v1alpha1.NodeTopology) { seen = append(seen, nt.Name+"@"+nt.ResourceVersion) }, func(name string) { gone = append(gone, name) })
	lists := make(chan runtime.Object, 1)
	ctx, cancel := context.WithCancel(t.Context())
	c, ended := pacer{waits: make(chan chan time.Time)}, make(chan struct{})
	go func() {
		defer close(ended)
		s.poll(ctx, &cache.ListWatch{ListWithContextFunc: func(_ context.Context, o metav1.ListOptions) (runtime.Object, error) {
			if o.ResourceVersion != "0" {
				t.Errorf("%v: want what the API server has in memory", o)
			}
			if l := <-lists; l != nil {
				return l, nil
			}
			return nil, errors.New("too busy")
		}}, c, time.Second)
	}()
	for _, step := range []struct {
		list       runtime.Object
		seen, gone []string
	}{
		{&v1alpha1.NodeTopologyList{Items: []v1alpha1.NodeTopology{*version("a", 1), *version("b", 2)}}, []string{"a@1", "b@2"}, nil},
		{nil, nil, nil},
		{&v1alpha1.NodeTopologyList{Items: []v1alpha1.NodeTopology{*version("a", 3)}}, []string{"a@3"}, []string{"b"}},
	} {
		seen, gone = nil, nil
		lists <- step.list
		end := <-c.waits
		if !slices.Equal(seen, step.seen) || !slices.Equal(gone, step.gone) {
			t.Errorf("%v came and %v went, want %v and %v", seen, gone, step.seen, step.gone)
		}
		if step.gone == nil {
			end <- time.Time{}
		}
	}
	cancel()
	<-ended
}
