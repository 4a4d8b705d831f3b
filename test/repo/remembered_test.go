package repo

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestWhatIsRememberedIsTested: every test that test/repo/README.md names for remembered data
// exists.
func TestWhatIsRememberedIsTested(t *testing.T) {
	named := regexp.MustCompile("`(Test[A-Za-z0-9]+)`").FindAllStringSubmatch(rememberedTable(t), -1)
	if len(named) == 0 {
		t.Fatal("test/repo/README.md names no tests of what is remembered")
	}
	there := testsUnder(t, "internal")
	for _, m := range named {
		if !there[m[1]] {
			t.Errorf("test/repo/README.md names %s, which does not exist", m[1])
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

// rememberedTable returns the section "What is remembered" of test/repo/README.md.
func rememberedTable(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("test/repo/README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "## What is remembered\n")
	section, _, ends := strings.Cut(section, "\n## ")
	if !found || !ends {
		t.Fatal("test/repo/README.md: no section \"What is remembered\"")
	}
	return section
}
