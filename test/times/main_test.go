package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTimes adds two graphs, one of them of an interrupted run.
func TestTimes(t *testing.T) {
	dir := t.TempDir()
	files := map[string]string{
		"one": `[
{"Mode":"test run","Package":"github.com/berth-dev/berth/internal/ledger","TimeStart":"2026-01-01T00:00:00Z","TimeDone":"2026-01-01T00:00:40Z"},
{"Mode":"link","Package":"github.com/berth-dev/berth/internal/ledger.test","TimeStart":"2026-01-01T00:00:00Z","TimeDone":"2026-01-01T00:00:02Z"},
{"Mode":"build","Package":"github.com/berth-dev/berth/internal/ledger_test [github.com/berth-dev/berth/internal/ledger.test]","TimeStart":"2026-01-01T00:00:00Z","TimeDone":"2026-01-01T00:00:01.5Z"},
{"Mode":"build","Package":"k8s.io/api/core/v1","TimeStart":"2026-01-01T00:00:00Z","TimeDone":"2026-01-01T00:00:09Z"},
{"Mode":"test run","Package":"github.com/berth-dev/berth","TimeStart":"2026-01-01T00:00:00Z","TimeDone":"2026-01-01T00:00:03Z"}]`,
		"two": `[
{"Mode":"test run","Package":"github.com/berth-dev/berth/internal/ledger","TimeStart":"2026-01-01T00:00:00Z","TimeDone":"2026-01-01T00:00:01Z"},
{"Mode":"test print","Package":"github.com/berth-dev/berth/internal/ledger","TimeStart":"2026-01-01T00:00:00Z","TimeDone":"2026-01-01T00:00:10Z"},
{"Mode":"test run","Package":"github.com/berth-dev/berth/sysfs","TimeStart":"0001-01-01T00:00:00Z","TimeDone":"0001-01-01T00:00:00Z"}]`,
	}
	var paths []string
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	var out strings.Builder
	if err := run(&out, paths, 2); err != nil {
		t.Fatal(err)
	}
	want := `
    41.0      3.5  internal/ledger
     0.0      9.0  other modules, and Go itself
     3.0      0.0  1 more
    44.0     12.5  in all
`
	if _, got, _ := strings.Cut(out.String(), "\n"); got != want[1:] {
		t.Errorf("got\n%s\nwant%s", got, want)
	}
	if err := run(&out, []string{filepath.Join(dir, "none")}, 2); err == nil {
		t.Error("a missing graph was read")
	}
}
