package berth

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestWhatIsRememberedIsTested: every test that docs/operations.md names beside something that is
// remembered is there, by that name.
func TestWhatIsRememberedIsTested(t *testing.T) {
	text, err := os.ReadFile("docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "### What is remembered\n")
	section, _, ends := strings.Cut(section, "\n### ")
	named := regexp.MustCompile("`(Test[A-Za-z0-9]+)`").FindAllStringSubmatch(section, -1)
	if !found || !ends || len(named) == 0 {
		t.Fatal("docs/operations.md names no tests of what is remembered")
	}
	there := testsUnder(t, "internal")
	for _, m := range named {
		if !there[m[1]] {
			t.Errorf("docs/operations.md names %s, which is not there", m[1])
		}
	}
}

// testsUnder returns the names of all tests in a directory.
func testsUnder(t *testing.T, root string) map[string]bool {
	t.Helper()
	function := regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9]+)\(`)
	all := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range function.FindAllSubmatch(text, -1) {
			all[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
