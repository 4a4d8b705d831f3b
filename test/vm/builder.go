package vm

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// builder makes missing artifacts and reports its work.
type builder struct {
	repo  string // root of the module
	cache string
	log   io.Writer
}

func (b *builder) say(format string, args ...any) { fmt.Fprintf(b.log, "== "+format+"\n", args...) }

func (b *builder) bin(name string) string { return filepath.Join(b.cache, "bin", name) }

func (b *builder) deb(name string) string { return filepath.Join(b.cache, "deb", name) }

func (b *builder) busybox() string { return filepath.Join(b.deb("busybox"), "bin", "busybox") }

// run runs a command. If it fails, the error has the output.
func (b *builder) run(ctx context.Context, dir string, env []string, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, tail(out, 4000))
	}
	return nil
}

func tail(b []byte, n int) []byte {
	if len(b) > n {
		return b[len(b)-n:]
	}
	return b
}

// stamped runs make unless a stamp with that name and text exists, and every file too.
func (b *builder) stamped(name, text string, files []string, make func() error) error {
	stamp := filepath.Join(b.cache, "stamp", name)
	if old, err := os.ReadFile(stamp); err == nil && string(old) == text && allExist(files) {
		return nil
	}
	b.say("making %s", name)
	if err := make(); err != nil {
		return err
	}
	if !allExist(files) {
		return fmt.Errorf("%s: %s did not appear", name, strings.Join(files, ", "))
	}
	if err := os.MkdirAll(filepath.Dir(stamp), 0o755); err != nil {
		return err
	}
	return os.WriteFile(stamp, []byte(text), 0o644)
}

func allExist(files []string) bool {
	for _, f := range files {
		if _, err := os.Stat(f); err != nil {
			return false
		}
	}
	return true
}
