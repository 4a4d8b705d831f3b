package e2e

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestDockerfile follows the Dockerfile's first stage without an engine: what it copies is there,
// and suffices for the commands that it builds and that the images and the chart start.
func TestDockerfile(t *testing.T) {
	t.Parallel()
	text := chartFile(t, "Dockerfile")
	src := t.TempDir()
	copied := 0
	for _, line := range regexp.MustCompile(`(?m)^COPY ([^-].*)$`).FindAllStringSubmatch(text, -1) {
		words := strings.Fields(line[1])
		for _, from := range words[:len(words)-1] {
			to := filepath.Join(src, words[len(words)-1])
			if len(words) > 2 || strings.HasSuffix(words[1], "/") {
				to = filepath.Join(to, filepath.Base(from))
			}
			if !strings.Contains(chartFile(t, ".dockerignore"), "\n!"+from+"\n") {
				t.Errorf(".dockerignore keeps %s from the build", from)
			}
			copyInto(t, filepath.Join(repository, from), to)
			copied++
		}
	}
	if copied < 5 {
		t.Fatalf("only %d sources are copied", copied)
	}
	ignore(t, src)
	build := regexp.MustCompile(`go build .* -o /out/ (.*)`).FindStringSubmatch(text)
	if build == nil {
		t.Fatal("the Dockerfile builds nothing into /out/")
	}
	commands := strings.Fields(build[1])
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list", "-trimpath", "-deps", "-f", "{{with .Error}}{{.}}{{end}}"}, commands...)...)
	cmd.Dir = src
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-mod=readonly")
	if out, err := cmd.CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != "" {
		t.Errorf("the sources that are copied do not suffice: %v\n%s", err, out)
	}
	stages := regexp.MustCompile(`(?m)^FROM scratch AS (\S+)\nCOPY --from=build /out/(\S+) /(\S+)\n(?:USER .*\n)?ENTRYPOINT \["/(\S+)"\]`).FindAllStringSubmatch(text, -1)
	if len(stages) != len(commands) {
		t.Errorf("%d images of %d commands: %q", len(stages), len(commands), stages)
	}
	for _, s := range stages {
		if !slices.Contains(commands, "./cmd/"+s[1]) || s[2] != s[1] || s[3] != s[1] || s[4] != s[1] {
			t.Errorf("image %q does not start the command of its name", s)
		}
	}
	for _, image := range []string{"berth-scheduler", "berth-agent"} {
		if !slices.ContainsFunc(stages, func(s []string) bool { return s[1] == image }) {
			t.Errorf("the chart pulls %s, which the Dockerfile does not make", image)
		}
	}
}

// ignore removes what .dockerignore names everywhere.
func ignore(t *testing.T, src string) {
	t.Helper()
	for _, line := range strings.Split(chartFile(t, ".dockerignore"), "\n") {
		pattern, everywhere := strings.CutPrefix(line, "**/")
		if !everywhere {
			continue
		}
		err := filepath.WalkDir(src, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			match, err := filepath.Match(pattern, d.Name())
			if err != nil || !match {
				return err
			}
			if err := os.RemoveAll(path); err != nil || !d.IsDir() {
				return err
			}
			return fs.SkipDir
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// copyInto copies a file or a folder as COPY does.
func copyInto(t *testing.T, from, to string) {
	t.Helper()
	info, err := os.Stat(from)
	if err != nil {
		t.Fatalf("COPY: %v", err)
	}
	if info.IsDir() {
		err = os.CopyFS(to, os.DirFS(from))
	} else {
		var data []byte
		if data, err = os.ReadFile(from); err == nil {
			err = os.WriteFile(to, data, 0o644)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}
