package conformance

import (
	"io"
	"iter"
	"path/filepath"
	"testing"

	"github.com/berth-dev/berth/test/replay/cases"
)

// readAll reads a recorded file.
func readAll[T any](t *testing.T, name string, read func(io.Reader) iter.Seq2[*T, error]) iter.Seq2[*T, error] {
	t.Helper()
	f, err := cases.Open(filepath.Join(recorded, name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return read(f)
}

// caseLines yields the recorded cases as lines, nil at the end.
func caseLines(t *testing.T) func() []byte {
	t.Helper()
	return fileLines(t, filepath.Join(recorded, "cases.ndjson.gz"))
}

// fileLines yields the cases of a file as lines, nil at the end.
func fileLines(t *testing.T, name string) func() []byte {
	t.Helper()
	f, err := cases.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	next, stop := iter.Pull2(cases.ReadCases(f))
	t.Cleanup(func() { stop(); f.Close() })
	return func() []byte {
		c, err, ok := next()
		if err != nil {
			t.Error(err)
		}
		if !ok || err != nil {
			return nil
		}
		line, err := cases.Encode(c)
		if err != nil {
			t.Error(err)
			return nil
		}
		return line
	}
}
