package web

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
)

// authority stands in for the API server's reviews. A token is the name of a user. may has the
// permissions as "user verb resource namespace".
type authority struct {
	mu   sync.Mutex
	may  map[string]bool
	down bool
	asks int
}

func (a *authority) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asks++
	w.Header().Set("Content-Type", "application/json")
	if a.down {
		w.WriteHeader(http.StatusForbidden)
		return
	}
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
	what := review.Spec.ResourceAttributes
	review.Status.Allowed = a.may[strings.TrimSpace(strings.Join([]string{review.Spec.User, what.Verb, what.Resource, what.Namespace}, " "))]
	_ = json.NewEncoder(w).Encode(review)
}

// gated returns a server whose gate asks the authority, with a clock that the test sets.
func gated(t *testing.T, a *authority) (s *Server, clock *time.Time) {
	t.Helper()
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	gate, err := Reviews(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	gate.(*reviews).now = func() time.Time { return now }
	return served(t, Options{Live: change(t), Gate: gate}), &now
}

// as sends a request with headers.
func as(s *Server, path string, headers ...string) (int, string) {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// TestReviews: clients without a token see nothing, and users see what the API server allows.
// Headers of a proxy have no effect.
func TestReviews(t *testing.T) {
	a := &authority{may: map[string]bool{
		"admin list nodetopologies": true, "admin list pods": true,
		"dev list nodetopologies": true, "dev list pods telco": true,
		"podsonly list pods": true,
	}}
	s, _ := gated(t, a)
	for _, c := range []struct {
		headers     []string
		status      int
		want, never string
	}{
		{nil, 401, "give it a token", "research"},
		{[]string{"Authorization", "Basic YTpi"}, 401, "give it a token", "research"},
		{[]string{"Authorization", "Bearer " + strings.Repeat("x", maxTokenBytes+1)}, 401, "give it a token", "research"},
		{[]string{"Authorization", "Bearer nonsense"}, 401, "does not know this token", "research"},
		{[]string{"X-Remote-User", "admin", "X-Forwarded-User", "admin", "Impersonate-User", "admin"}, 401, "give it a token", "research"},
		{[]string{"Authorization", "Bearer token-of-podsonly"}, 403, "podsonly may not list nodetopologies.berth.dev", "research"},
		{[]string{"Authorization", "Bearer token-of-dev", "X-Remote-User", "admin"}, 200, `"total":5`, "research"},
		{[]string{"Authorization", "Bearer token-of-admin"}, 200, "research", ""},
	} {
		status, body := as(s, "/api/pods", c.headers...)
		if status != c.status || !strings.Contains(body, c.want) || c.never != "" && strings.Contains(body, c.never) {
			t.Errorf("%.80v: status %d, want %d with %q: %.300s", c.headers, status, c.status, c.want, body)
		}
		if c.status == 200 {
			continue
		}
		for _, path := range []string{"/api/events", "/api/rows", "/api/cluster", "/api/nodes/gpu-1", "/api/pods/telco/upf-0", "/api/pending", "/api/history"} {
			if status, body := as(s, path, c.headers...); status != c.status || strings.Contains(body, "gpu-1") {
				t.Errorf("%.80v: %s: status %d, want %d: %.200s", c.headers, path, status, c.status, body)
			}
		}
	}
	if status, body := as(s, "/"); status != 200 || strings.Contains(body, "gpu") {
		t.Errorf("the page itself, which shows nothing: status %d: %s", status, body)
	}
}

// TestReviewsAreRepeated: an allowed review is repeated after its time, and not before.
func TestReviewsAreRepeated(t *testing.T) {
	a := &authority{may: map[string]bool{"dev list nodetopologies": true, "dev list pods": true}}
	s, clock := gated(t, a)
	ask := func() int {
		status, _ := as(s, "/api/pods", "Authorization", "Bearer token-of-dev")
		return status
	}
	if status := ask(); status != 200 || a.asks != 3 {
		t.Fatalf("status %d after %d questions, want 3: token, reports, pods", status, a.asks)
	}
	a.may = nil
	if status := ask(); status != 200 || a.asks != 3 {
		t.Errorf("within the minute: status %d after %d questions", status, a.asks)
	}
	*clock = clock.Add(reviewLasts)
	if status := ask(); status != 403 {
		t.Errorf("after the minute: status %d, want 403", status)
	}
	a.down = true
	*clock = clock.Add(reviewLasts)
	if status, body := as(s, "/api/pods", "Authorization", "Bearer token-of-dev"); status != 503 || !strings.Contains(body, "does not tell whose token this is") {
		t.Errorf("where nobody answers: status %d: %s", status, body)
	}
}

// TestStrangersLockNobodyOut: a known token is reviewed again even if wrong tokens have used up the
// reviews of the address, which may be that of a proxy. The token of a user without any permission
// no longer counts as known.
func TestStrangersLockNobodyOut(t *testing.T) {
	a := &authority{may: map[string]bool{"dev list nodetopologies": true, "dev list pods": true}}
	s, clock := gated(t, a)
	ask := func(token string) int {
		status, _ := as(s, "/api/pods", "Authorization", "Bearer "+token)
		return status
	}
	if status := ask("token-of-dev"); status != 200 {
		t.Fatalf("status %d", status)
	}
	// The address of httptest's requests.
	s.Gate.(*reviews).strangers.Set("192.0.2.1", flowcontrol.NewFakeNeverRateLimiter())
	if status := ask("nonsense"); status != http.StatusTooManyRequests {
		t.Fatalf("a stranger: status %d", status)
	}
	*clock = clock.Add(reviewLasts)
	if status := ask("token-of-dev"); status != 200 {
		t.Errorf("status %d once strangers have used up their reviews, want 200", status)
	}
	a.mu.Lock()
	a.may = nil
	a.mu.Unlock()
	*clock = clock.Add(reviewLasts)
	for _, want := range []int{http.StatusForbidden, http.StatusTooManyRequests} {
		if status := ask("token-of-dev"); status != want {
			t.Errorf("status %d once the user may see nothing, want %d", status, want)
		}
		*clock = clock.Add(refusalLasts)
	}
}

// TestOneWrongTokenLocksNobodyOut: a wrong token that is sent repeatedly, for example by a page
// that was left open, does not delay the first login from the same address. It is reviewed again
// later.
func TestOneWrongTokenLocksNobodyOut(t *testing.T) {
	a := &authority{may: map[string]bool{"dev list nodetopologies": true, "dev list pods": true}}
	s, clock := gated(t, a)
	for range 3 * strangerBurst {
		if status, _ := as(s, "/api/pods", "Authorization", "Bearer nonsense"); status != http.StatusUnauthorized {
			t.Fatalf("a wrong token: status %d, want 401", status)
		}
	}
	if a.asks != 1 {
		t.Errorf("%d questions about one wrong token, want 1", a.asks)
	}
	if status, _ := as(s, "/api/pods", "Authorization", "Bearer token-of-dev"); status != http.StatusOK {
		t.Errorf("the first login from that address: status %d", status)
	}
	asks := a.asks
	*clock = clock.Add(refusalLasts)
	if as(s, "/api/pods", "Authorization", "Bearer nonsense"); a.asks != asks+1 {
		t.Errorf("%d more questions after a while, want 1", a.asks-asks)
	}
}

// TestReviewsAreBounded: the number of kept users and refusals is limited.
func TestReviewsAreBounded(t *testing.T) {
	g := newReviews(time.Now)
	for i := range maxReviews + 1 {
		g.note([32]byte{byte(i), byte(i >> 8)}, &reviewed{}, nil)
	}
	if g.viewers.Len() > maxReviews {
		t.Errorf("%d users are remembered, want at most %d", g.viewers.Len(), maxReviews)
	}
	for i := range maxReviews + 1 {
		g.note([32]byte{byte(i), byte(i >> 8)}, nil, &failure{http.StatusUnauthorized, "no"})
	}
	if g.refused.Len() > maxReviews {
		t.Errorf("%d refusals are remembered, want at most %d", g.refused.Len(), maxReviews)
	}
}

// TestWhatIsNotSeenIsAskedRarely: most users may see only a few of many namespaces. Namespaces that
// they may see are reviewed every minute, others every five minutes.
func TestWhatIsNotSeenIsAskedRarely(t *testing.T) {
	a := &authority{may: map[string]bool{"dev list nodetopologies": true, "dev list pods telco": true}}
	s, clock := gated(t, a)
	ask := func() (asked int, body string) {
		before := a.asks
		_, body = as(s, "/api/pods", "Authorization", "Bearer token-of-dev")
		return a.asks - before, body
	}
	all, _ := ask()
	if all < 6 {
		t.Fatalf("%d questions: token, reports, all pods, and three namespaces at least", all)
	}
	a.may["dev list pods research"] = true
	for minute := 1; minute < 5; minute++ {
		*clock = clock.Add(reviewLasts)
		if asked, body := ask(); asked != 4 || !strings.Contains(body, "telco") || strings.Contains(body, "research") {
			t.Errorf("minute %d: %d questions, want token, reports, all pods and telco: %.300s", minute, asked, body)
		}
	}
	*clock = clock.Add(reviewLasts)
	if asked, body := ask(); asked != all || !strings.Contains(body, "research") {
		t.Errorf("after five minutes: %d questions, want %d: %.300s", asked, all, body)
	}
	a.may = nil
	*clock = clock.Add(reviewLasts)
	if _, body := ask(); !strings.Contains(body, "may not list") {
		t.Errorf("what was allowed counts for a minute: %.300s", body)
	}
	if g := s.Gate.(*reviews); g.viewers.Len() > 0 {
		t.Error("who is refused is remembered as a viewer")
	}
}

// TestNobodyIsKeptOutByNamespaces: reviews of namespaces have another rate limit than reviews of
// access to the map.
func TestNobodyIsKeptOutByNamespaces(t *testing.T) {
	s, _ := gated(t, &authority{})
	g := s.Gate.(*reviews)
	entry, access := g.entry.RESTClient().GetRateLimiter(), g.access.RESTClient().GetRateLimiter()
	for access.TryAccept() {
	}
	if !entry.TryAccept() || entry.QPS() != reviewQPS {
		t.Error("who may see the map is not asked while others use up what may be asked about namespaces")
	}
}
