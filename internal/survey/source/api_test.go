package source

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/client-go/rest"
)

// TestClassesAreHeld: however often pods are explained, device classes are listed only once in a
// while.
func TestClassesAreHeld(t *testing.T) {
	lists := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		lists++
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"items":[{"metadata":{"name":"fast"},"spec":{"extendedResourceName":"example.com/gpu"}}]}`)
	}))
	defer server.Close()
	a, err := Connect(Options{Config: &rest.Config{Host: server.URL}})
	if err != nil {
		t.Fatal(err)
	}
	ask := func() {
		classes, notes, err := a.DeviceClasses(t.Context())
		if err != nil || len(notes) > 0 || !classes["example.com/gpu"] || !classes["deviceclass.resource.kubernetes.io/fast"] {
			t.Fatalf("%v, notes %q, %v", classes, notes, err)
		}
	}
	for range 8 {
		ask()
	}
	if lists != 1 {
		t.Errorf("listed %d times, want once", lists)
	}
	a.classes.at = a.classes.at.Add(-readLasts)
	ask()
	if lists != 2 {
		t.Errorf("listed %d times once the list is old, want twice", lists)
	}
	server.Close()
	a.classes.at = a.classes.at.Add(-readLasts)
	ask()
}
