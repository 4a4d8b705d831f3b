package agent

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
)

// TestPublishAsksForValidationOnce: the first write, and each write after a failure, shows whether
// the definition lacks a field. Other writes do not ask the API server for this.
func TestPublishAsksForValidationOnce(t *testing.T) {
	answers := []int{http.StatusBadRequest, http.StatusOK, http.StatusOK, http.StatusConflict, http.StatusOK, http.StatusOK}
	var asked []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Query().Get("fieldValidation"))
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(answers[len(asked)-1])
		_, _ = io.WriteString(w, `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"n1"}}`)
	}))
	defer s.Close()
	meta, err := metadata.NewForConfig(&rest.Config{Host: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	c := &Cluster{node: "n1", metadata: meta, owner: func() *corev1.Node { return nil }}
	for i, code := range answers {
		if err := c.Publish(t.Context(), &v1alpha1.NodeTopology{}); (err == nil) != (code == http.StatusOK) {
			t.Errorf("write %d, answered with %d: error %v", i, code, err)
		}
	}
	if want := []string{"Strict", "Strict", "Ignore", "Ignore", "Strict", "Ignore"}; !slices.Equal(asked, want) {
		t.Errorf("asked for validation %q, want %q", asked, want)
	}
}
