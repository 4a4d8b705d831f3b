// Package golden compares the output of tests with files. The flag -rewrite writes all these files.
// A golden file has the expected output. A story is a text with commands and, below a line of
// dashes, the expected output of these commands.
package golden

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write golden files and stories with the current output")

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
