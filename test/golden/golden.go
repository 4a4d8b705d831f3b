// Package golden holds what tests compare with files: one flag, -rewrite, writes every such file
// again. A golden file is what something prints; a story is a text that says what happens and,
// below a line of dashes, what comes of it.
package golden

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write golden files and stories again, as they come out now")

// File compares text with the file, or with -rewrite writes it there.
func File(t *testing.T, path, text string) {
	t.Helper()
	if *rewrite {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if text != string(want) {
		t.Errorf("%s differs; go test -run '^%s$' -rewrite writes it again:\n--- got\n%s--- want\n%s", filepath.ToSlash(path), t.Name(), text, want)
	}
}
