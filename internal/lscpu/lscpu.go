// Package lscpu builds a machine from the output of lscpu. With -p, -e or -Je the output has the
// core, socket, NUMA node and L3 cache of each CPU. In its plain form, or as JSON (-J), the output
// has only the numbers of threads, cores and sockets, and the CPUs of each NUMA node. The package
// then derives the CPUs of each core, socket and cache from the order in which platforms number
// CPUs. If several results are possible, it refuses the output. No form has memory, distances, huge
// pages or devices.
package lscpu

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/internal/pasted"
	"github.com/berth-dev/berth/topology"
)

// MaxText is the length in bytes of the longest output that Read reads.
const MaxText = 1 << 20

// Error names a field of an output that is missing or wrong.
type Error struct {
	// Where is "line 7" or "lscpu[7].children[1]"; "" if a field is missing.
	Where string
	Field string
	Value string
	Want  string // the expected value
}

func (e *Error) Error() string {
	if e.Where == "" {
		return fmt.Sprintf("lscpu: %s is missing: want %s", e.Field, e.Want)
	}
	at := e.Where
	if e.Field != "" {
		at += fmt.Sprintf(": %.80s", e.Field)
	}
	return fmt.Sprintf("lscpu: %s: %.80q: want %s", at, e.Value, e.Want)
}

// Read reads a complete output of lscpu in one of its forms, and returns the machine. If the text
// is the output of another known tool, the error names the tool.
func Read(text []byte) (*topology.Machine, error) {
	if len(text) > MaxText {
		return nil, fmt.Errorf("lscpu: %d bytes: want at most %d", len(text), MaxText)
	}
	text = pasted.Text(text)
	switch form := pasted.What(text); form {
	case pasted.LscpuExtended:
		return readExtended(string(text))
	case pasted.LscpuParsable:
		return readParsable(string(text))
	case pasted.LscpuExtendedJSON:
		return readExtendedJSON(string(text))
	case pasted.Numactl:
		return nil, errNumactl(string(text))
	case pasted.NvidiaTopology:
		return nil, errNvidia(string(text))
	case pasted.CPUInfo, pasted.LscpuCaches, pasted.Lstopo, pasted.NumactlShow, pasted.NvidiaSMI:
		return nil, fmt.Errorf("this is %s, which Berth does not read: want the output of lscpu -p, or a capture (berth topology --help)", form)
	case pasted.UTF16:
		return nil, fmt.Errorf("this is %s, which Windows PowerShell writes: want UTF-8", form)
	case pasted.Unknown, pasted.Lscpu, pasted.LscpuJSON:
	default:
		return nil, fmt.Errorf("this is %s, not a machine: want the output of lscpu -p", form)
	}
	f, err := read(string(text))
	if err != nil {
		return nil, pasted.Explain(err, text)
	}
	r := reader{fields: f}
	for _, step := range []func() error{r.readCounts, r.readCPUs, r.readNodes, r.findSockets, r.findCores, r.findCaches} {
		if err := step(); err != nil {
			return nil, pasted.Explain(err, text)
		}
	}
	return r.machine()
}

// field is a value and its position.
type field struct{ where, value string }

// fields are the fields of an output. The names are the same for all releases of lscpu.
type fields map[string]field

// The names of fields.
const (
	architecture = "Architecture"
	cpus         = "CPU(s)"
	online       = "On-line CPU(s) list"
	offline      = "Off-line CPU(s) list"
	threads      = "Thread(s) per core"
	cores        = "Core(s) per socket"
	clusterCores = "Core(s) per cluster"
	sockets      = "Socket(s)"
	clusters     = "Cluster(s)"
	books        = "Socket(s) per book"
	nodes        = "NUMA node(s)"
	cache        = "L3 cache"
)

// headless matches the row of a CPU. Read does not guess its columns: the caches of -p differ
// between machines (L1d,L1i,L2,L3 or L1d,L1i,L2d,L2i). commented matches the header of -e after #.
var (
	headless  = regexp.MustCompile(`^[0-9]+(,[0-9,:-]*|[ \t]+[0-9-].*)$`)
	commented = regexp.MustCompile(`^#[# \t]*CPU[ \t]+[A-Z]`)
)

func read(text string) (fields, error) {
	if strings.HasPrefix(strings.TrimSpace(text), "{") {
		return readJSON(text)
	}
	f, n := fields{}, 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		switch where := fmt.Sprint("line ", n); {
		case headless.MatchString(line):
			return nil, &Error{where, "", line, "before it the line that names the columns, as lscpu -p or -e prints it"}
		case commented.MatchString(line):
			return nil, &Error{where, "", line, "the output of lscpu -e without # before its lines"}
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			return nil, &Error{fmt.Sprint("line ", n), "", line, "FIELD: VALUE, as LC_ALL=C lscpu prints without options"}
		}
		if err := f.add(fmt.Sprint("line ", n), name, value); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// add adds a field. If a machine has several kinds of CPUs, lscpu repeats some fields for each
// kind. add keeps the first value of a repeated field. If a repeated number of threads, cores or
// sockets differs, add returns an error.
func (f fields) add(where, name, value string) error {
	name, value = strings.TrimSpace(name), strings.TrimSpace(value)
	if name == "L3" { // the terminal form, below "Caches (sum of all)"
		name = cache
	}
	if old, twice := f[name]; twice && old.value != value && (name == threads || name == cores || name == sockets || name == clusterCores) {
		return &Error{where, name, value, "the same as before: CPUs of several kinds need a capture"}
	}
	if _, twice := f[name]; !twice {
		f[name] = field{where, value}
	}
	return nil
}

// entry is a field of the JSON.
type entry struct {
	Field    string  `json:"field"`
	Data     *string `json:"data"`
	Children []entry `json:"children"`
}

func readJSON(text string) (fields, error) {
	var all struct {
		Lscpu []entry `json:"lscpu"`
	}
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		return nil, fmt.Errorf("lscpu: %s: want the output of lscpu -J: %w", whereInJSON(text, err), err)
	}
	f := fields{}
	return f, f.addAll("lscpu", all.Lscpu)
}

// whereInJSON names the line and the field of an error.
func whereInJSON(text string, err error) string {
	at, name := int64(0), ""
	if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
		at = syntax.Offset
	}
	if kind := (*json.UnmarshalTypeError)(nil); errors.As(err, &kind) {
		at, name = kind.Offset, ", "+kind.Field
	}
	return fmt.Sprintf("line %d%s", 1+strings.Count(text[:min(int(at), len(text))], "\n"), name)
}

func (f fields) addAll(where string, all []entry) error {
	for i, e := range all {
		at := fmt.Sprintf("%s[%d]", where, i)
		name, value := strings.TrimSuffix(e.Field, ":"), ""
		if e.Data != nil {
			value = *e.Data
		}
		if e.Data != nil || nodeField.MatchString(name) { // null for a NUMA node without CPUs
			if err := f.add(at, name, value); err != nil {
				return err
			}
		}
		if err := f.addAll(at+".children", e.Children); err != nil {
			return err
		}
	}
	return nil
}

// wrong returns the error for an existing field.
func (f fields) wrong(name, format string, args ...any) error {
	return &Error{f[name].where, name, f[name].value, fmt.Sprintf(format, args...)}
}

// number reads a count, at least 1.
func (f fields) number(name string) (int, error) {
	at, ok := f[name]
	if !ok {
		return 0, &Error{Field: name, Want: "the complete output of LC_ALL=C lscpu"}
	}
	n, err := strconv.Atoi(at.value)
	if err != nil || n < 1 || n > topology.MaxCPUs {
		return 0, f.wrong(name, "a number from 1 to %d", topology.MaxCPUs)
	}
	return n, nil
}

// list reads a list of CPUs, which may be empty.
func (f fields) list(name string) (topology.CPUSet, error) {
	// lscpu writes a stride as 0-62:2, while the kernel writes 0-62:1/2.
	items := strings.Split(f[name].value, ",")
	for i, item := range items {
		if span, stride, ok := strings.Cut(item, ":"); ok && !strings.Contains(stride, "/") {
			items[i] = span + ":1/" + stride
		}
	}
	set, err := topology.ParseCPUList(strings.Join(items, ","))
	if err != nil {
		return set, f.wrong(name, "CPUs like 0-15,32-47 (%v)", err)
	}
	return set, nil
}
