package atomicfile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "file")
	if err := WriteText(name, 0o640, []byte("first")); err != nil {
		t.Fatal(err)
	}
	failed := errors.New("no more")
	err := Write(name, 0o640, func(w io.Writer) error {
		_, err := io.WriteString(w, "half of the sec")
		return errors.Join(err, failed)
	})
	if !errors.Is(err, failed) {
		t.Errorf("%v, want %v", err, failed)
	}
	text, err := os.ReadFile(name)
	info, statErr := os.Stat(name)
	if err = errors.Join(err, statErr); err != nil {
		t.Fatal(err)
	}
	if string(text) != "first" || info.Mode().Perm() != 0o640 {
		t.Errorf("%q with mode %o, want the first text with mode 640", text, info.Mode().Perm())
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("%d files, want the one", len(left))
	}
}

// TestErrorNamesTheFile: an error names the file, and not the temporary file.
func TestErrorNamesTheFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "no", "file")
	if err := WriteText(name, 0o640, nil); err == nil || err.Error() != "open "+name+": no such file or directory" {
		t.Error(err)
	}
}
