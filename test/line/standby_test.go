package line

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// TestStandby: events are delayed until the replica leads.
func TestStandby(t *testing.T) {
	said := make(chan string)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !IsWatch(r) {
			return
		}
		http.NewResponseController(w).Flush() // the watch begins
		for {
			select {
			case text := <-said:
				io.WriteString(w, text+"\n")
				http.NewResponseController(w).Flush()
			case <-ctx.Done():
				return
			}
		}
	}))
	defer func() { cancel(); server.Close() }()
	s := &Standby{listing: time.Nanosecond}
	var l *Line
	l, err := New(&rest.Config{Host: server.URL}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.Forward(l, w, r) }))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	watch, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+l.Addr()+"/api/v1/pods?watch=1", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(watch)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := make(chan string, 8)
	go func() {
		for in := bufio.NewScanner(resp.Body); in.Scan(); {
			lines <- in.Text()
		}
	}()
	s.Late(100 * 365 * 24 * time.Hour) // batches end at multiples of this duration, none of which is near
	said <- "late"
	said <- "later"
	for s.Held() == 0 { // until the first event is held
		if ctx.Err() != nil {
			t.Fatal("no event of a late watch is held back")
		}
		time.Sleep(time.Millisecond)
	}
	select {
	case text := <-lines:
		t.Fatalf("%q was delivered, although the watch is delayed by years", text)
	default:
	}
	if s.Leads() {
		t.Error("it leads already")
	}
	put, err := http.NewRequestWithContext(ctx, http.MethodPut, "http://"+l.Addr()+"/apis/coordination.k8s.io/v1/namespaces/n/leases/x", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	if answer, err := http.DefaultClient.Do(put); err != nil {
		t.Fatal(err)
	} else {
		answer.Body.Close()
	}
	for _, want := range []string{"late", "later"} {
		if got := <-lines; got != want {
			t.Errorf("%q comes, want %q", got, want)
		}
	}
	if !s.Leads() || s.Held() == 0 {
		t.Error("the replica has written its Lease, but does not count as the leader")
	}
}

// TestListingIsNotLate: the first events of a watch, which show existing objects, are not delayed.
func TestListingIsNotLate(t *testing.T) {
	s := &Standby{}
	s.Late(time.Hour)
	begun := time.Unix(1e9, 0)
	w := &lateWriter{of: s, begun: begun}
	for after, late := range map[time.Duration]bool{time.Second: false, 4 * time.Second: true} {
		said := begun.Add(after)
		if due := w.dueAt(&piece{said: said}); due.After(said) != late || due.Sub(said) > time.Hour {
			t.Errorf("after %v: due %v later", after, due.Sub(said))
		}
	}
}
