package lab

import (
	"bufio"
	"compress/gzip"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/internal/simulate/trace"
)

// maxBytes bounds a list, which is held in memory as a whole.
const maxBytes = 256 << 20

// InputError names a wrong value in a list, its position, and a correct value.
type InputError struct {
	File  string
	Line  int    // counted from 1; 0 is the file as a whole
	Field string // the column
	Value string
	Want  string
}

func (e *InputError) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		fmt.Fprintf(&b, ", line %d", e.Line)
	}
	if e.Field != "" {
		b.WriteString(", " + e.Field)
	}
	fmt.Fprintf(&b, ": %.60q: want %s", e.Value, e.Want)
	return b.String()
}

// ReadNodes reads a list of nodes: columns sn, cpu_milli, memory_mib and gpu, and perhaps model.
// The file's name is for errors.
func ReadNodes(r io.Reader, file string) ([]trace.Node, error) {
	var out []trace.Node
	seen := map[string]bool{}
	err := rows(r, file, []string{"sn", "cpu_milli", "memory_mib", "gpu"}, func(v *row) {
		n := trace.Node{Name: v.name("sn", seen), MilliCPU: v.amount("cpu_milli", 1), MiB: v.amount("memory_mib", 1),
			GPUs: int(v.atMost("gpu", trace.MaxGPUs)), GPUModel: strings.Clone(v.text("model"))}
		if out = append(out, n); len(out) > trace.MaxNodes {
			v.fail("", strconv.Itoa(len(out))+" nodes", fmt.Sprintf("at most %d", trace.MaxNodes))
		}
	})
	return out, err
}

// ReadPods reads a list of pods: columns name, cpu_milli, memory_mib, num_gpu and gpu_milli, and
// perhaps gpu_spec, members, creation_time, scheduled_time and deletion_time. Other columns are
// ignored.
func ReadPods(r io.Reader, file string) ([]trace.Pod, error) {
	var out []trace.Pod
	seen := map[string]bool{}
	err := rows(r, file, []string{"name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli"}, func(v *row) {
		p := trace.Pod{Name: v.name("name", seen), MilliCPU: v.amount("cpu_milli", 0), MiB: v.amount("memory_mib", 0),
			GPUs: int(v.atMost("num_gpu", trace.MaxGPUs)), MilliGPU: v.atMost("gpu_milli", trace.Thousandths), GPUModels: v.models()}
		v.checkGPUs(&p)
		v.times(&p)
		if v.text("members") != "" {
			p.Members = int(v.number("members", 1, trace.MaxMembers))
		}
		if out = append(out, p); len(out) > trace.MaxPods {
			v.fail("", strconv.Itoa(len(out))+" pods", fmt.Sprintf("at most %d", trace.MaxPods))
		}
	})
	return out, err
}

// row reads the fields of a row, and keeps the first error, which ends the reading of the list.
type row struct {
	file    string
	line    int
	columns map[string]int
	cells   []string
	err     error
}

// rows calls read for each row of the list, after the header.
func rows(r io.Reader, file string, needed []string, read func(*row)) error {
	r, err := unpacked(r)
	if err != nil {
		return &InputError{File: file, Value: err.Error(), Want: "a list, plain or packed by gzip"}
	}
	c := csv.NewReader(&bounded{r: r, left: maxBytes})
	c.ReuseRecord = true
	header, err := c.Read()
	if err != nil {
		return badList(file, err)
	}
	v := row{file: file, columns: map[string]int{}}
	for i, name := range header {
		v.columns[strings.TrimPrefix(name, "\ufeff")] = i
	}
	for _, name := range needed {
		if _, ok := v.columns[name]; !ok {
			return &InputError{File: file, Line: 1, Value: strings.Join(header, ","), Want: "a column " + name}
		}
	}
	for v.err == nil {
		if v.cells, err = c.Read(); errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return badList(file, err)
		}
		v.line, _ = c.FieldPos(0)
		read(&v)
	}
	return v.err
}

// badList describes the error of a file that is not a list.
func badList(file string, err error) error {
	e := &InputError{File: file, Value: err.Error(), Want: "comma-separated values, each row with as many as the header"}
	var parse *csv.ParseError
	if errors.As(err, &parse) {
		e.Line, e.Value = parse.Line, parse.Err.Error()
	}
	if errors.Is(err, io.EOF) {
		e.Value = "nothing"
	}
	return e
}

// unpacked decompresses gzip, and returns anything else unchanged.
func unpacked(r io.Reader) (io.Reader, error) {
	b := bufio.NewReader(r)
	if magic, _ := b.Peek(2); string(magic) == "\x1f\x8b" {
		return gzip.NewReader(b)
	}
	return b, nil
}

// bounded returns an error at its limit; io.LimitReader would report the end of the file.
type bounded struct {
	r    io.Reader
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("more than %d MiB", int64(maxBytes)>>20)
	}
	n, err := b.r.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

func (v *row) fail(field, value, want string) {
	if v.err == nil {
		v.err = &InputError{File: v.file, Line: v.line, Field: field, Value: value, Want: want}
	}
}

// text returns "" if the column does not exist.
func (v *row) text(field string) string {
	if i, ok := v.columns[field]; ok && i < len(v.cells) {
		return v.cells[i]
	}
	return ""
}

func (v *row) name(field string, seen map[string]bool) string {
	name := strings.Clone(v.text(field))
	if name == "" || seen[name] {
		v.fail(field, name, "a name, each once")
	}
	seen[name] = true
	return name
}

// maxAmount bounds an amount, so that sums over all rows cannot overflow.
const maxAmount = 1 << 40

func (v *row) amount(field string, least int64) int64 { return v.number(field, least, maxAmount) }

func (v *row) atMost(field string, most int64) int64 { return v.number(field, 0, most) }

func (v *row) number(field string, least, most int64) int64 {
	n, err := strconv.ParseInt(v.text(field), 10, 64)
	if err != nil || n < least || n > most {
		v.fail(field, v.text(field), fmt.Sprintf("a whole number from %d to %d", least, most))
	}
	return n
}

// models reads "V100|A10".
func (v *row) models() (out []string) {
	for name := range strings.SplitSeq(v.text("gpu_spec"), "|") {
		if name != "" && !slices.Contains(out, name) {
			out = append(out, strings.Clone(name))
		}
	}
	slices.Sort(out)
	return out
}

// checkGPUs refuses GPUs without thousandths, thousandths without GPUs, and shares of several GPUs.
func (v *row) checkGPUs(p *trace.Pod) {
	given := v.text("gpu_milli")
	switch {
	case p.GPUs == 0 && p.MilliGPU != 0:
		v.fail("gpu_milli", given, "0, because num_gpu is 0")
	case p.GPUs > 1 && p.MilliGPU != trace.Thousandths:
		v.fail("gpu_milli", given, fmt.Sprintf("%d, because num_gpu is %d: only a single GPU can be shared", trace.Thousandths, p.GPUs))
	case p.GPUs == 1 && p.MilliGPU == 0:
		v.fail("gpu_milli", given, fmt.Sprintf("1 to %d, because num_gpu is 1", trace.Thousandths))
	}
}

// times reads the pod's arrival and end, if the list has them.
func (v *row) times(p *trace.Pod) {
	if v.text("creation_time") == "" || v.text("deletion_time") == "" {
		return
	}
	p.Timed = true
	p.Created = v.number("creation_time", 0, math.MaxInt32)
	p.Deleted = v.number("deletion_time", 0, math.MaxInt32)
	if p.Deleted < p.Created {
		v.fail("deletion_time", v.text("deletion_time"), fmt.Sprintf("a time from creation_time on, %d", p.Created))
	}
	if v.text("scheduled_time") == "" {
		return
	}
	if p.Scheduled = v.number("scheduled_time", 0, math.MaxInt32); p.Scheduled < p.Created || p.Scheduled > p.Deleted {
		v.fail("scheduled_time", v.text("scheduled_time"), fmt.Sprintf("a time from creation_time to deletion_time, %d to %d", p.Created, p.Deleted))
	}
}
