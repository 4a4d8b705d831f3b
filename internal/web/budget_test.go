package web

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// TestABodyThatNeverEnds does not prevent other requests, and ends after a limited time.
func TestABodyThatNeverEnds(t *testing.T) {
	s := served(t, Options{Live: change(t)})
	s.patience = 100 * time.Millisecond
	server := httptest.NewServer(s)
	defer server.Close()
	answers := make(chan string, 2*maxFits)
	for range 2 * maxFits {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprint(conn, "POST /api/fit HTTP/1.1\r\nHost: x\r\nContent-Type: application/yaml\r\nContent-Length: 1000\r\n\r\nkind: Pod\n")
		go func() {
			line, _ := bufio.NewReader(conn).ReadString('\n')
			answers <- line
		}()
	}
	if status, body := ask(s, "", "application/yaml", gpuPod); status != http.StatusOK {
		t.Errorf("beside bodies that never end: status %d: %.300s", status, body)
	}
	for range 2 * maxFits {
		if line := <-answers; !strings.Contains(line, "408") {
			t.Errorf("a body that never ends: %q, want 408", line)
		}
	}
}

// TestExplainingIsBounded, because each explanation asks all nodes.
func TestExplainingIsBounded(t *testing.T) {
	s := served(t, Options{Live: change(t)})
	for range maxExplains {
		s.explains <- struct{}{}
	}
	paths := []string{"/api/pods/research/train-1", "/api/gangs"}
	for _, path := range paths {
		if status, body, _ := get(s, path); status != http.StatusServiceUnavailable {
			t.Errorf("%s: status %d: %.200s", path, status, body)
		}
	}
	<-s.explains
	for _, path := range append(paths, paths...) {
		if status, body, _ := get(s, path); status != http.StatusOK {
			t.Errorf("%s: status %d once there is a slot: %.200s", path, status, body)
		}
	}
}

// TestOtherSitesAskNothing: a browser names the site that makes a request. Requests of other sites
// are refused, although these could not read the answer.
func TestOtherSitesAskNothing(t *testing.T) {
	s := served(t, Options{Live: change(t)})
	for site, want := range map[string]int{"cross-site": 403, "same-site": 403, "same-origin": 200, "none": 200, "": 200} {
		if status, body := as(s, "/api/pods/research/train-1", "Sec-Fetch-Site", site); status != want {
			t.Errorf("Sec-Fetch-Site %q: status %d, want %d: %.200s", site, status, want, body)
		}
	}
	if status, _ := as(s, "/", "Sec-Fetch-Site", "cross-site"); status != http.StatusOK {
		t.Errorf("a link on another site to the page: status %d", status)
	}
}

// TestStrangersDoNotUseUpTheReviews: of many wrong tokens from one address, only some are reviewed.
// This does not affect tokens from other addresses. The number of kept addresses is limited.
func TestStrangersDoNotUseUpTheReviews(t *testing.T) {
	a := &authority{may: map[string]bool{"dev list nodetopologies": true, "dev list pods": true}}
	s, _ := gated(t, a)
	from := func(address, token string) int {
		r := httptest.NewRequest(http.MethodGet, "/api/pods", nil)
		r.RemoteAddr = address + ":1234"
		r.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w.Code
	}
	said := map[int]int{}
	for i := range 5 * strangerBurst {
		said[from("192.0.2.1", fmt.Sprint("nonsense", i))]++
	}
	if said[401] < strangerBurst || said[429] < 3*strangerBurst {
		t.Errorf("answers by status: %v", said)
	}
	if status := from("192.0.2.2", "token-of-dev"); status != http.StatusOK {
		t.Errorf("another address: status %d", status)
	}
	if status := from("192.0.2.1", "token-of-dev"); status != http.StatusOK {
		t.Errorf("a token that is known: status %d", status)
	}
	g := s.Gate.(*reviews)
	for i := range 2 * maxStrangers {
		g.mayAsk(fmt.Sprintf("10.0.%d.%d:1", i>>8, i&255))
	}
	if g.strangers.Len() > maxStrangers {
		t.Errorf("%d addresses are remembered", g.strangers.Len())
	}
}

// TestAnAnswerThatFailedIsAskedAgain: after a failure of the API server, a namespace is hidden only
// for a short time.
func TestAnAnswerThatFailedIsAskedAgain(t *testing.T) {
	a := &authority{may: map[string]bool{"dev list nodetopologies": true, "dev list pods": true}}
	s, clock := gated(t, a)
	v, err := s.Gate.(*reviews).review(t.Context(), "token-of-dev")
	if err != nil {
		t.Fatal(err)
	}
	a.down = true
	if v.Sees("research") {
		t.Error("it is seen though nobody answers")
	}
	a.down = false
	asked := a.asks
	if v.Sees("research") || a.asks != asked {
		t.Errorf("asked again at once: %d times", a.asks-asked)
	}
	*clock = clock.Add(failureLasts)
	if !v.Sees("research") {
		t.Error("it is hidden although the API server answers again")
	}
}

// TestAGangThatTakesLong: the request ends, and its slot is free for the next one.
func TestAGangThatTakesLong(t *testing.T) {
	s := New(Options{Live: ganged(t)})
	const path = "/api/gangs/seen/gang/a"
	for range maxExplains + 1 {
		s.answerPatience = time.Nanosecond
		if status, body, _ := get(s, path); status != http.StatusServiceUnavailable || !strings.Contains(body, "within 1ns") {
			t.Errorf("%s: status %d: %.300s", path, status, body)
		}
	}
	s.answerPatience = answerPatience
	if status, body, _ := get(s, path); status != http.StatusOK {
		t.Errorf("%s, asked again: status %d: %.300s", path, status, body)
	}
}

// TestAnAnswerThatTakesLong: the request ends, and its slot is free for the next one.
func TestAnAnswerThatTakesLong(t *testing.T) {
	s := served(t, Options{Live: change(t)})
	for _, path := range []string{"/api/fit", "/api/compare", "/api/room"} {
		for range maxFits + 1 {
			s.answerPatience = time.Nanosecond
			if status, body := post(s, path, "application/yaml", gpuPod); status != http.StatusServiceUnavailable || !strings.Contains(body, "no answer within 1ns") {
				t.Errorf("%s: status %d: %.300s", path, status, body)
			}
		}
		s.answerPatience = answerPatience
		if status, body := post(s, path, "application/yaml", gpuPod); status != http.StatusOK {
			t.Errorf("%s, asked again: status %d: %.300s", path, status, body)
		}
	}
}
