package web

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/berth-dev/berth/internal/survey"
)

// nothing returns a snapshot of a cluster without nodes and pods.
func nothing(t *testing.T) *survey.Live {
	t.Helper()
	var packed strings.Builder
	z := gzip.NewWriter(&packed)
	if _, err := io.WriteString(z, `{"kind":"BerthSnapshot","version":1,"taken":"2026-11-23T12:00:00Z","where":"an empty cluster","staleAfter":"1m0s"}`); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	c, err := survey.Open(strings.NewReader(packed.String()), "empty")
	if err != nil {
		t.Fatal(err)
	}
	return c.NewLive()
}

// TestAnEmptyListIsAList: the page iterates over every list that it gets. A list without entries
// must therefore be [] and not null, which would stop the page.
func TestAnEmptyListIsAList(t *testing.T) {
	s := served(t, Options{Live: nothing(t)})
	for path, lists := range map[string][]string{
		"/api/pending":  {"groups"},
		"/api/pods":     {"pods"},
		"/api/gangs":    {"gangs"},
		"/api/rows":     {"rows"},
		"/api/stranded": {"resources"},
		"/api/history":  {"points"},
	} {
		status, body, _ := get(s, path)
		var fields map[string]json.RawMessage
		if err := json.Unmarshal([]byte(body), &fields); err != nil || status != 200 {
			t.Errorf("%s: status %d, %v: %.300s", path, status, err, body)
			continue
		}
		for _, list := range lists {
			if got := string(fields[list]); !strings.HasPrefix(got, "[") {
				t.Errorf("%s: %s is %q, want a list: %.300s", path, list, got, body)
			}
		}
	}
}
