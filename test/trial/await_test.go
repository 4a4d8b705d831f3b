package trial

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-dev/berth/internal/child"
)

// TestAwaitFile waits for a file that a process writes, as long as the process runs.
func TestAwaitFile(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "told")
	p, err := child.Start(child.Spec{Name: "c", Log: filepath.Join(dir, "log"), Argv: []string{"/bin/sh", "-c", "echo told > " + file + ".new; mv " + file + ".new " + file + "; cat"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	if data, err := AwaitFile(t.Context(), p, file); err != nil || string(data) != "told\n" {
		t.Errorf("got %q, %v", data, err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := AwaitFile(over, p, file+".never"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that it was cancelled", err)
	}
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := AwaitFile(t.Context(), p, file+".never"); err == nil || !strings.Contains(err.Error(), "c ended by itself") {
		t.Errorf("got %v, want that it ended", err)
	}
	if data, err := AwaitFile(t.Context(), p, file); err != nil || string(data) != "told\n" {
		t.Errorf("got %q, %v of a process that has written the file and ended", data, err)
	}
}
