package kubeletstate

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/berth-dev/berth/internal/clip"
	"github.com/berth-dev/berth/placement"
)

// StartError means that a kubelet does not start with a checkpoint. Start, StartCPU and StartMemory
// return nil if the kubelet starts.
type StartError struct {
	// Path is the path of the checkpoint below the kubelet's root directory.
	Path string
	// Problem is the kubelet's message.
	Problem string
	// Detail explains Problem if it is hard to read, or if another kubelet would start.
	Detail string
	// Or has the messages that the kubelet may report instead of Problem, because it reads pods and
	// containers in random order.
	Or []string
	// Crash means that the kubelet crashes; Problem is the panic.
	Crash bool
	// Chance means that it depends on chance whether the kubelet starts, because the kubelet adds
	// up memory blocks in random order.
	Chance bool

	// Restoring means that the manager cannot load the file at all, because the file has another
	// policy or format. The running kubelet cannot have written such a file.
	Restoring bool

	// Described means that the amounts of memory differ from those in a machine string, which may
	// be inexact.
	Described bool

	manager string // the manager's name in the kubelet's message, if Restoring
}

// mostWords is the maximum length of the kubelet's message in an error, because a file may contain
// any text.
const mostWords = 400

// Error returns the kubelet's message and advice.
func (e *StartError) Error() string {
	does := "does not start"
	switch {
	case e.Chance:
		does = "may not start"
	case e.Crash:
		does = "crashes when it starts"
	}
	problem := clip.Text(e.Problem, mostWords)
	if e.Detail != "" {
		problem += " (" + clip.Text(e.Detail, mostWords) + ")"
	}
	advice := Remedy(e.Path)
	if e.Described {
		advice = "correct mem: and huge: of the machine string; if they are exact, " + advice
	}
	return fmt.Sprintf("%s: a kubelet %s with this file: %s: %s", path.Base(e.Path), does, problem, advice)
}

// Remedy returns advice for a kubelet that does not start with these checkpoints.
func Remedy(files ...string) string {
	return "drain the node, stop the kubelet, delete " + strings.Join(files, " and ") + ", start the kubelet"
}

// Messages returns the complete messages with which the kubelet's manager may fail: first the
// message about Problem, then those about Or.
func (e *StartError) Messages() []string {
	var out []string
	for _, problem := range append([]string{e.Problem}, e.Or...) {
		if e.Restoring {
			problem = fmt.Sprintf("could not restore state from checkpoint: %s, please drain this node and delete the %s manager checkpoint file %q before restarting Kubelet",
				problem, e.manager, e.Path)
		}
		out = append(out, problem)
	}
	return out
}

// DefaultRoot is the kubelet's root directory, unless its flag --root-dir sets another.
const DefaultRoot = "/var/lib/kubelet"

// RootOf returns the root directory of the kubelet whose checkpoints are in dir. If the folder dir
// is named kubelet, RootOf returns the absolute path of dir. If dir has another name, dir counts as
// a copy, and RootOf returns DefaultRoot.
func RootOf(dir string) string {
	if abs, err := filepath.Abs(dir); err == nil && filepath.Base(abs) == "kubelet" {
		return abs
	}
	return DefaultRoot
}

// Start returns a *StartError if a kubelet does not start with these checkpoints in root. It checks
// them in the kubelet's order. The device manager starts with any content of its file.
func (r *Raw) Start(s *placement.Startup, root string) error {
	if err := StartCPU(s, root, r.CPU); err != nil {
		return err
	}
	return StartMemory(s, root, r.Memory)
}

// restoreError returns the error for a checkpoint that the manager cannot load. The kubelet loads a
// checkpoint before it compares it with the machine.
func restoreError(root, name, manager string, problem error) *StartError {
	e := &StartError{Path: path.Join(root, name), Problem: problem.Error(), Restoring: true, manager: manager}
	if words := (*randomWords)(nil); errors.As(problem, &words) {
		e.Or = words.or()
	}
	return e
}

// invalid returns the error for a checkpoint that does not match the machine and the configuration.
func invalid(root, name string, problem error) *StartError {
	e := &StartError{Path: path.Join(root, name), Problem: problem.Error()}
	if words := (*randomWords)(nil); errors.As(problem, &words) {
		e.Or = words.or()
	}
	var more interface{ detail() string }
	if errors.As(problem, &more) {
		e.Detail = more.detail()
	}
	return e
}

// crashed returns the error for a checkpoint of the memory manager with which the kubelet panics.
func crashed(root string) *StartError {
	return &StartError{Path: path.Join(root, MemoryFile), Crash: true, Problem: errNilPointer.Error()}
}

var errNilPointer = errors.New("runtime error: invalid memory address or nil pointer dereference")

// randomWords collects several errors. The kubelet reports a random one of them, because it
// iterates over a Go map.
type randomWords struct {
	all  []error
	size int
}

// mostRandom is the maximum total length of the errors in bytes.
const mostRandom = 1 << 20

func (w *randomWords) full() bool { return w.size > mostRandom }

func (w *randomWords) add(err error) {
	if !w.full() {
		w.all = append(w.all, err)
		w.size += len(err.Error())
	}
}

func (w *randomWords) Error() string { return w.all[0].Error() }

func (w *randomWords) or() (out []string) {
	for _, err := range w.all[1:] {
		out = append(out, err.Error())
	}
	return out
}

// err returns an error, or nil if no message was added.
func (w *randomWords) err() error {
	if len(w.all) == 0 {
		return nil
	}
	return w
}

// errCorrupted is checkpointmanager/errors.CorruptCheckpointError.
var errCorrupted = errors.New("checkpoint is corrupted")

// unmarshal calls json.Unmarshal, as the kubelet does when it reads a checkpoint. So it ignores
// unknown fields and accepts names in any case. A type error contains the names of the kubelet's
// types.
func unmarshal(data []byte, into any, names typeNames) error {
	err := json.Unmarshal(data, into)
	wrong := (*json.UnmarshalTypeError)(nil)
	if !errors.As(err, &wrong) {
		return err
	}
	where := "value"
	if wrong.Struct != "" || wrong.Field != "" {
		path := strings.Split(wrong.Field, ".")
		for i := range path {
			path[i] = names.bare(path[i]) // an embedded type is part of the path
		}
		where = "struct field " + names.bare(wrong.Struct) + "." + strings.Join(path, ".")
	}
	return fmt.Errorf("json: cannot unmarshal %s into Go %s of type %s", wrong.Value, where, names.in(wrong.Type.String()))
}

// typeNames are the kubelet's names for the types of this package, which encoding/json's errors
// mention.
type typeNames map[string]string

// The method but returns a copy of n in which the type own has another name.
func (n typeNames) but(own, kubelet string) typeNames {
	out := maps.Clone(n)
	out[own] = kubelet
	return out
}

// bare returns the name of a type without its package.
func (n typeNames) bare(name string) string {
	if kubelet, ok := n[name]; ok {
		_, name, _ = strings.Cut(kubelet, ".")
	}
	return name
}

var ownType = regexp.MustCompile(`kubeletstate\.\w+`)

// The method in replaces Berth's type names in the text with the kubelet's names.
func (n typeNames) in(text string) string {
	return ownType.ReplaceAllStringFunc(text, func(own string) string { return cmp.Or(n[strings.TrimPrefix(own, "kubeletstate.")], own) })
}
