package cases

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"strings"

	kubejson "sigs.k8s.io/json"
)

// maxLine is the maximum length of a line, so that a file without line ends cannot exhaust the
// memory.
const maxLine = 64 << 20

// DecodeCase reads one Case. Unknown, repeated or misspelt fields and absurd values are errors.
func DecodeCase(line []byte) (*Case, error) {
	var c Case
	if err := decodeStrict(line, &c); err != nil {
		return nil, err
	}
	if err := c.Check(); err != nil {
		return nil, err
	}
	return &c, nil
}

// DecodeResult reads one Result as strictly as DecodeCase.
func DecodeResult(line []byte) (*Result, error) {
	var r Result
	if err := decodeStrict(line, &r); err != nil {
		return nil, err
	}
	if r.ID == "" {
		return nil, &FieldError{Field: "id", Value: r.ID, Want: "a name"}
	}
	return &r, nil
}

// Encode returns a Case or a Result as a line with its line end. Equal values give equal bytes.
func Encode[T Case | Result](v *T) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func decodeStrict(line []byte, into any) error {
	strict, err := kubejson.UnmarshalStrict(line, into)
	if err == nil {
		err = errors.Join(strict...)
	}
	return err
}

// ReadCases yields the cases of an NDJSON stream; blank lines are skipped. The first error, which
// names the line, ends the sequence.
func ReadCases(r io.Reader) iter.Seq2[*Case, error] { return readLines(r, DecodeCase) }

// ReadResults yields the results of an NDJSON stream, as ReadCases does.
func ReadResults(r io.Reader) iter.Seq2[*Result, error] { return readLines(r, DecodeResult) }

func readLines[T any](r io.Reader, decode func([]byte) (*T, error)) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		s := bufio.NewScanner(r)
		s.Buffer(make([]byte, 0, 1<<16), maxLine)
		n := 0
		for s.Scan() {
			n++
			if len(bytes.TrimSpace(s.Bytes())) == 0 {
				continue
			}
			v, err := decode(s.Bytes())
			if err != nil {
				yield(nil, fmt.Errorf("line %d: %w", n, err))
				return
			}
			if !yield(v, nil) {
				return
			}
		}
		if err := s.Err(); err != nil {
			yield(nil, fmt.Errorf("line %d: %w", n+1, err))
		}
	}
}

// Open opens a file for reading. If the name ends in ".gz", it decompresses the file.
func Open(name string) (io.ReadCloser, error) {
	f, err := os.Open(name)
	if err != nil || !strings.HasSuffix(name, ".gz") {
		return f, err
	}
	z, err := gzip.NewReader(f)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &unpacked{Reader: z, file: f}, nil
}

// unpacked is a gzip stream that also closes its file.
type unpacked struct {
	*gzip.Reader
	file *os.File
}

func (u *unpacked) Close() error { return errors.Join(u.Reader.Close(), u.file.Close()) }
