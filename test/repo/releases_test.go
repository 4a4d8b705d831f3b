package repo

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// release is a line of RELEASES.
var release = regexp.MustCompile(`^(v[0-9]+\.[0-9]+\.[0-9]+) ([0-9a-f]{40}) ([0-9]{4}-[0-9]{2}-[0-9]{2})$`)

// TestReleases checks that RELEASES has the form that build/version.sh and build/release.mk read,
// and that CHANGELOG.md has a section for each release.
func TestReleases(t *testing.T) {
	changes, err := os.ReadFile("CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	var versions, commits []string
	for n, line := range linesOf(t, "RELEASES") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		m := release.FindStringSubmatch(line)
		if m == nil {
			t.Errorf("RELEASES:%d: %q: want v0.1.0, 40 hexadecimal digits of the commit, the day", n+1, line)
			continue
		}
		if _, err := time.Parse(time.DateOnly, m[3]); err != nil {
			t.Errorf("RELEASES:%d: %v", n+1, err)
		}
		if slices.Contains(versions, m[1]) || slices.Contains(commits, m[2]) {
			t.Errorf("RELEASES:%d: version or commit occurs twice", n+1)
		}
		if !strings.Contains(string(changes), "\n## "+strings.TrimPrefix(m[1], "v")+" (") {
			t.Errorf("CHANGELOG.md does not say what changed in %s", m[1])
		}
		versions, commits = append(versions, m[1]), append(commits, m[2])
	}
	if len(versions) == 0 {
		t.Error("RELEASES names no release")
	}
}
