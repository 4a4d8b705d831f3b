package web

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/berth-dev/berth/internal/shadow"
)

// TestShadowIsShown: every viewer sees the sums, but only pods of namespaces that they may see.
func TestShadowIsShown(t *testing.T) {
	view := shadow.View{Summary: "a day", Pods: []shadow.Record{{Pod: shadow.Pod{Namespace: "seen", Name: "mine"}}, {Pod: shadow.Pod{Namespace: "hidden", Name: "theirs"}}},
		Claims: &shadow.Claims{Misaligned: []shadow.Claimed{{Namespace: "seen", Name: "mine"}, {Namespace: "hidden", Name: "theirs"}}}}
	data, err := json.Marshal(view)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		ask    func(context.Context) ([]byte, error)
		gate   Gate
		status int
		want   string
		never  string
	}{
		"not here":           {status: 404, want: "berth serve --shadow"},
		"everybody":          {ask: func(context.Context) ([]byte, error) { return data, nil }, status: 200, want: "theirs"},
		"of one namespace":   {ask: func(context.Context) ([]byte, error) { return data, nil }, gate: onlyNamespace("seen"), status: 200, want: "mine", never: "theirs"},
		"away":               {ask: func(context.Context) ([]byte, error) { return nil, errors.New("nobody answers") }, status: 502, want: "nobody answers"},
		"something else":     {ask: func(context.Context) ([]byte, error) { return []byte("<html>"), nil }, status: 502, want: "the answer of shadow mode"},
		"what reasons there": {ask: func(context.Context) ([]byte, error) { return data, nil }, status: 200, want: `"reason":"neverSeen"`},
	} {
		s := New(Options{Live: ganged(t), Gate: c.gate, Shadow: c.ask})
		status, body, _ := get(s, "/api/shadow")
		if status != c.status || !strings.Contains(body, c.want) || c.never != "" && strings.Contains(body, c.never) {
			t.Errorf("%s: status %d: %s", name, status, body)
		}
	}
}
