package cli

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/internal/shadow"
)

// TestShadow: the summary comes first, then counts and pods. A capture is written to a file of its
// name.
func TestShadow(t *testing.T) {
	var v shadow.View
	v.Summary = "kube-scheduler placed 812 pinned pods; 31 were rejected; Berth would have placed 30 rejected pods elsewhere."
	v.Day = shadow.Tally{Pods: 900, Pinned: 812, Judged: 890, Rejected: 31, Foretold: 31, Exact: 850, Elsewhere: 30, NotJudged: map[shadow.Reason]int{shadow.NeverSeen: 10}}
	v.Pods = []shadow.Record{{Pod: shadow.Pod{Namespace: "ml", Name: "train", Node: "n"}, Result: shadow.Foretold, Capture: "wrong-1.berth",
		Expected: &shadow.Answer{Outcome: shadow.Rejected, Reason: "TopologyAffinityError"}, Instead: &shadow.Elsewhere{Node: "m", Why: shadow.WhyRejected}},
		{Pod: shadow.Pod{Namespace: "ml", Name: "odd", Node: "n"}, Result: shadow.NotJudged, Reason: shadow.OtherRule}}
	v.Claims = &shadow.Claims{Pods: map[string]int{"aligned": 7, "misaligned": 1}, NotLooked: 2, Misaligned: []shadow.Claimed{{Namespace: "ml", Name: "far", Node: "n", Scheduler: "default-scheduler", Why: "device d is elsewhere"}}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/shadow":
			_ = json.NewEncoder(w).Encode(v)
		case "/captures/wrong-1.berth":
			_, _ = w.Write([]byte("packed"))
		default:
			http.Error(w, "there is no such capture", http.StatusNotFound)
		}
	}))
	defer server.Close()
	t.Chdir(t.TempDir())
	code, out, stderr := run(t, "shadow", "--url", server.URL)
	if code != ExitOK || !strings.HasPrefix(out, v.Summary+"\n") {
		t.Fatalf("exit code %d: %s%s", code, out, stderr)
	}
	for _, want := range []string{"ml/train", "rejected TopologyAffinityError", "m (rejected here)", "notJudged: otherRule", "foretold", "the pod ended, moved or was deleted before the kubelet's answer was known", "wrong-1.berth", "aligned: 7, misaligned: 1, not looked at: 2", "ml/far", "device d is elsewhere"} {
		if !strings.Contains(out, want) {
			t.Errorf("want %q in\n%s", want, out)
		}
	}
	var back shadow.View
	if code, out, _ = run(t, "shadow", "--url", server.URL+"/", "-o", "json"); code != ExitOK || json.Unmarshal([]byte(out), &back) != nil || back.Day.Foretold != 31 {
		t.Errorf("exit code %d: %s", code, out)
	}
	if code, _, stderr = run(t, "shadow", "--url", server.URL, "--capture", "wrong-1.berth"); code != ExitOK {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	if data, err := os.ReadFile("wrong-1.berth"); err != nil || string(data) != "packed" {
		t.Errorf("%q, %v", data, err)
	}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--url", server.URL, "--capture", "other.berth"}, ExitFailure, "there is no such capture"},
		{[]string{"--url", server.URL, "--capture", "../other.berth"}, ExitUsage, "want a name"},
		{[]string{"--url", "localhost:10261"}, ExitUsage, "want an address like http://127.0.0.1:10261"},
		{[]string{"--snapshot", "x.berth"}, ExitUsage, "a snapshot has no predictions"},
		{[]string{"--keep", "cpusNearDevices"}, ExitUsage, "shadow --keep: leave out --keep"},
	} {
		code, _, stderr := run(t, append([]string{"shadow"}, c.args...)...)
		if code != c.code || !strings.Contains(stderr, c.want) {
			t.Errorf("%q: exit code %d: %s", c.args, code, stderr)
		}
	}
}

// TestServersThatDoNotAnswer: shadow distinguishes an expired token from a missing shadow mode.
// serve prints no address before the cluster was reached.
func TestServersThatDoNotAnswer(t *testing.T) {
	expired := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnauthorized)
		_ = json.NewEncoder(w).Encode(metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonUnauthorized, Code: http.StatusUnauthorized, Message: "Unauthorized"})
	}))
	defer expired.Close()
	for _, args := range [][]string{{"shadow"}, {"serve", "--listen", "127.0.0.1:0"}} {
		code, stdout, stderr := run(t, append(args, "--kubeconfig", kubeconfigFor(t, expired.URL))...)
		if code != ExitFailure || stdout != "" || !strings.Contains(stderr, "does not accept your credentials") || strings.Contains(stderr, "scheduler.mode") {
			t.Errorf("%v: exit code %d, %s%s", args, code, stdout, stderr)
		}
	}
}
