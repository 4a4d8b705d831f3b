package guarded

import (
	"crypto/tls"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
)

// reviewer stands in for the API server: a token is the name of a user, and the user monitor may
// get /metrics.
func reviewer(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if strings.HasSuffix(r.URL.Path, "/tokenreviews") {
		var review authenticationv1.TokenReview
		_ = json.NewDecoder(r.Body).Decode(&review)
		if name, ok := strings.CutPrefix(review.Spec.Token, "token-of-"); ok {
			review.Status = authenticationv1.TokenReviewStatus{Authenticated: true, User: authenticationv1.UserInfo{Username: name}}
		}
		_ = json.NewEncoder(w).Encode(review)
		return
	}
	var review authorizationv1.SubjectAccessReview
	_ = json.NewDecoder(r.Body).Decode(&review)
	what := review.Spec.NonResourceAttributes
	review.Status.Allowed = review.Spec.User == "monitor" && what != nil && what.Path == "/metrics" && what.Verb == "get"
	_ = json.NewEncoder(w).Encode(review)
}

// TestWhoReadsMetrics: only users whom the API server allows.
func TestWhoReadsMetrics(t *testing.T) {
	api := httptest.NewServer(http.HandlerFunc(reviewer))
	defer api.Close()
	h, err := Handler(&rest.Config{Host: api.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}, logr.Discard(),
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("berth_agent_ready 1\n")) }))
	if err != nil {
		t.Fatal(err)
	}
	for authorization, want := range map[string]int{
		"": 401, "Bearer nonsense": 500 /* as the library has it */, "Basic YTpi": 401, "Bearer token-of-tenant": 403, "Bearer token-of-monitor": 200,
	} {
		r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
		if authorization != "" {
			r.Header.Set("Authorization", authorization)
		}
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != want || strings.Contains(w.Body.String(), "berth_agent") != (want == 200) {
			t.Errorf("%q: status %d, want %d: %s", authorization, w.Code, want, w.Body)
		}
	}
}

// TestCertificates: a given certificate is read again when it is renewed. If it is missing at the
// start, the error names it.
func TestCertificates(t *testing.T) {
	own, err := TLS("", "node-1")
	if err != nil || len(own.Certificates) != 1 {
		t.Fatalf("%d certificates of its own, %v", len(own.Certificates), err)
	}
	folder := t.TempDir()
	if _, err := TLS(folder, "node-1"); err == nil || !strings.Contains(err.Error(), "tls.crt") {
		t.Errorf("an empty folder: %v", err)
	}
	renew := func() {
		certificate, key, err := cert.GenerateSelfSignedCertKey("node-1", nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		for name, data := range map[string][]byte{"tls.crt": certificate, "tls.key": key} {
			if err := os.WriteFile(filepath.Join(folder, name), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	renew()
	given, err := TLS(folder, "node-1")
	if err != nil {
		t.Fatal(err)
	}
	served := func() string {
		c, err := given.GetCertificate(&tls.ClientHelloInfo{})
		if err != nil {
			t.Fatal(err)
		}
		return string(c.Certificate[0])
	}
	before := served()
	if renew(); served() == before {
		t.Error("the old certificate is served still")
	}
}

// TestWordsOfTheFlag: an error names the accepted values.
func TestWordsOfTheFlag(t *testing.T) {
	for word, right := range map[string]bool{None: true, Cluster: true, "": false, "yes": false} {
		if err := Check(word, ""); (err == nil) != right {
			t.Errorf("%q: %v", word, err)
		}
	}
	if err := Check(Cluster, "/certs"); err != nil {
		t.Errorf("certificates with TLS: %v", err)
	}
}
