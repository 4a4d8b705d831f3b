// Package kubeletconfig reads a kubelet's configuration from its file, its drop-ins and its flags,
// merged as the kubelet merges them (cmd/kubelet/app, mergeKubeletConfigurations).
package kubeletconfig

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/internal/featuregates"
	"github.com/berth-dev/berth/internal/pasted"
	"github.com/berth-dev/berth/internal/strict"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

// MaxBytes limits the size of a configuration file, and of a kubelet's answer at /configz.
const MaxBytes = 1 << 20

// Files names the sources of a kubelet's configuration.
type Files struct {
	// File is the path of a YAML or JSON file. "" means that the kubelet has only Dir and Flags, as
	// with k3s. If Strict is set and Plain is not, the file may have another form, such as a
	// ConfigMap or an answer of /configz.
	File string
	// Dir is the folder of drop-ins: files that end in .conf, also in subfolders, in lexical order,
	// each a JSON merge patch (RFC 7396). If Dir is "", there are no drop-ins. If Dir does not
	// exist, there are none either, but with Strict this is an error.
	Dir string
	// If Strict is set, Read returns an error for fields that a KubeletConfiguration does not have,
	// although a running kubelet ignores them, for files without apiVersion and kind, and for
	// reservations with which a kubelet does not start.
	Strict bool
	// Flags are the kubelet's flags as text: its command line, or a line of its environment file.
	// Read uses only the flags that affect placement.
	Flags string
	// If Plain is set, File must be a KubeletConfiguration even if Strict is set.
	Plain bool
	// Version is the kubelet's release, which determines the fields that Strict refuses. 0 means
	// placement.V136.
	Version placement.Version
}

// Read returns the configuration of File, with the drop-ins and then Flags merged over it.
func (f Files) Read() (*kubeletv1beta1.KubeletConfiguration, error) {
	g, err := f.given()
	if err != nil {
		return nil, err
	}
	c, err := f.merged(g)
	if err == nil && f.Strict {
		if err = starts(c); err != nil && cmp.Or(f.File, f.Dir) != "" {
			err = fmt.Errorf("%s: %w", cmp.Or(f.File, f.Dir), err)
		}
	}
	if err != nil {
		return nil, err
	}
	if g.settled { // OpenShift sets its own gates, and its kubelet ignores gates that it does not know
		maps.DeleteFunc(c.FeatureGates, func(gate string, _ bool) bool { return !featuregates.Known(gate) })
	}
	if g.flags != nil && g.flags.ignoresEviction != nil && *g.flags.ignoresEviction {
		delete(c.EvictionHard, memoryAvailable)
	}
	return c, nil
}

func (f Files) merged(g given) (*kubeletv1beta1.KubeletConfiguration, error) {
	if f.Dir == "" {
		return mergeAll(f.File, g, nil)
	}
	if g.settled {
		return nil, fmt.Errorf("%s: this is a kubelet's answer to /configz, which already includes the drop-ins: do not give their folder %s too", f.File, f.Dir)
	}
	if info, err := os.Stat(f.Dir); f.Strict && (err != nil || !info.IsDir()) {
		return nil, fmt.Errorf("kubelet configuration drop-ins: %q: want a folder with files that end in .conf", f.Dir)
	}
	if err := rewriteAmounts(f.File, g.object); err != nil {
		return nil, err
	}
	var patches []map[string]any
	err := filepath.WalkDir(f.Dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || filepath.Ext(name) != ".conf" {
			return err
		}
		patch, err := f.object(name)
		patches = append(patches, patch)
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("kubelet configuration drop-ins: %w", err)
	}
	return mergeAll(f.File, g, patches)
}

func (f Files) given() (g given, err error) {
	g.object = map[string]any{}
	g.fileless = f.File == ""
	if !g.fileless {
		data, err := readFile(f.File)
		if err != nil {
			return g, fmt.Errorf("kubelet configuration: %w", err)
		}
		if f.Strict {
			g, err = f.read(f.File, data)
		} else {
			g.object, err = f.parse(f.File, data)
		}
		if err != nil {
			return g, pasted.Explain(err, data)
		}
	}
	if f.Flags == "" {
		return g, nil
	}
	if g.settled {
		return g, fmt.Errorf("%s: this is a kubelet's answer to /configz, which includes flags: leave out the flags", f.File)
	}
	if err := refuse("flags of the kubelet", pasted.What([]byte(f.Flags))); err != nil {
		return g, err
	}
	more, err := readFlags(f.Flags, f.Version)
	if err == nil {
		err = more.alone(f.File, f.Dir)
	}
	if err == nil && g.flags != nil {
		g.flags.over(g.object)
		more.ignoresEviction = cmp.Or(more.ignoresEviction, g.flags.ignoresEviction)
	}
	g.flags = more
	return g, pasted.Explain(err, []byte(f.Flags))
}

// NewerThan returns the files that were changed after t, and the folder of drop-ins if a drop-in
// was added or removed.
func (f Files) NewerThan(t time.Time) (newer []string) {
	for name, info := range f.changes() {
		if changedAt(info).After(t) {
			newer = append(newer, name)
		}
	}
	return newer
}

// Fingerprint differs from an earlier result if a file was changed, or if a drop-in was added or
// removed. It does not read the files.
func (f Files) Fingerprint() string {
	var b strings.Builder
	for name, info := range f.changes() {
		fmt.Fprintln(&b, name, changedAt(info).UnixNano(), info.Size(), inode(info))
	}
	return b.String()
}

// changes yields the names of the files and of the folders of drop-ins, with their FileInfo. It
// omits files that it cannot find; Read returns the error about them.
func (f Files) changes() iter.Seq2[string, fs.FileInfo] {
	return func(yield func(string, fs.FileInfo) bool) {
		look := func(name string) error {
			if info, err := os.Stat(name); err == nil && !yield(name, info) { // the target, if it is a link
				return filepath.SkipAll
			}
			return nil
		}
		if look(f.File) != nil || f.Dir == "" {
			return
		}
		_ = filepath.WalkDir(f.Dir, func(name string, e fs.DirEntry, err error) error {
			if err != nil || !e.IsDir() && filepath.Ext(name) != ".conf" {
				return nil
			}
			return look(name)
		})
	}
}

func mergeAll(file string, g given, patches []map[string]any) (*kubeletv1beta1.KubeletConfiguration, error) {
	if !g.settled && !g.fileless { // loadConfigFile sets the default
		completeEviction(g.object)
	}
	for _, patch := range patches {
		merge(g.object, patch)
	}
	SettleEviction(g.object)
	if g.flags != nil {
		g.flags.over(g.object)
	}
	return Decode(file, g.object)
}

// rewriteAmounts writes the amounts of reservedMemory in the file as the kubelet does before it
// merges drop-ins: 1.5Gi becomes 1536Mi, with which the memory manager starts.
func rewriteAmounts(file string, object map[string]any) error {
	const field = "reservedMemory"
	if object[field] == nil {
		return nil
	}
	c, err := Decode(file, object)
	if err == nil {
		object[field] = c.ReservedMemory
	}
	return err
}

const (
	hardEviction    = "evictionHard"
	mergeEviction   = "mergeDefaultEvictionSettings"
	memoryAvailable = "memory.available"
)

// completeEviction adds the default threshold of memory.available if the file has no evictionHard,
// or if its evictionHard lacks the threshold and mergeDefaultEvictionSettings is true. The kubelet
// does so before it merges drop-ins (loadConfigFile of cmd/kubelet/app), so drop-ins replace single
// thresholds. No other threshold affects placement.
func completeEviction(object map[string]any) {
	const signal = memoryAvailable
	own, ok := object[hardEviction].(map[string]any)
	_, set := own[signal]
	switch merge, _ := object[mergeEviction].(bool); {
	case object[hardEviction] == nil:
		object[hardEviction] = map[string]any{signal: wire.DefaultEviction}
	case ok && merge && !set:
		own[signal] = wire.DefaultEviction
	}
}

// SettleEviction sets a missing evictionHard to an empty map. The kubelet sets no defaults after it
// has merged drop-ins, and its answer to /configz omits an empty map.
func SettleEviction(object map[string]any) {
	delete(object, mergeEviction) // the kubelet ignores this setting in a drop-in
	if object[hardEviction] == nil {
		object[hardEviction] = map[string]any{}
	}
}

func (f Files) object(path string) (map[string]any, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, fmt.Errorf("kubelet configuration: %w", err)
	}
	if f.Strict {
		if err := refuse(path, pasted.What(data)); err != nil {
			return nil, err
		}
	}
	return f.parse(path, data)
}

// parse reads the text of one file. An empty file is an empty object.
func (f Files) parse(path string, data []byte) (map[string]any, error) {
	var out map[string]any
	if err := yaml.Unmarshal(data, &out); err != nil {
		if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) {
			err = fmt.Errorf("%s: want an object", wrong.Value)
		}
		return nil, fmt.Errorf("kubelet configuration %s: %w", path, err)
	}
	if kind, ok := out["kind"].(string); ok && kind != "KubeletConfiguration" {
		return nil, fmt.Errorf("kubelet configuration %s: kind: %q: want KubeletConfiguration", path, kind)
	}
	if out == nil {
		out = map[string]any{}
	}
	if f.Strict {
		return out, f.check(path, data)
	}
	return out, nil
}

// check validates a handwritten file strictly.
func (f Files) check(path string, data []byte) error {
	var c kubeletv1beta1.KubeletConfiguration
	if err := strict.Unmarshal("KubeletConfiguration", data, &c); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if f.Version < placement.V137 && c.DefaultPodSysctls != nil {
		return fmt.Errorf("%s: unknown field %q: only kubelets of 1.37 or later have it", path, "defaultPodSysctls")
	}
	if want := kubeletv1beta1.SchemeGroupVersion.String(); c.Kind == "" || c.APIVersion != want {
		return fmt.Errorf("%s: apiVersion %q, kind %q: want %s, KubeletConfiguration", path, c.APIVersion, c.Kind, want)
	}
	return nil
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, MaxBytes+1))
	if err == nil && len(data) > MaxBytes {
		err = fmt.Errorf("%s: more than %d bytes: want a KubeletConfiguration", path, MaxBytes)
	}
	return data, err
}

// merge applies a JSON merge patch.
func merge(into, patch map[string]any) {
	for k, v := range patch {
		sub, isMap := v.(map[string]any)
		old, wasMap := into[k].(map[string]any)
		switch {
		case v == nil:
			delete(into, k)
		case isMap && wasMap:
			merge(old, sub)
		case isMap:
			fresh := map[string]any{}
			merge(fresh, sub)
			into[k] = fresh
		default:
			into[k] = v
		}
	}
}

// Decode converts an object to a KubeletConfiguration; where names its source in errors.
func Decode(where string, object map[string]any) (*kubeletv1beta1.KubeletConfiguration, error) {
	data, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("kubelet configuration %s: %w", where, err)
	}
	out := &kubeletv1beta1.KubeletConfiguration{}
	if err := json.Unmarshal(data, out); err != nil {
		return nil, fmt.Errorf("kubelet configuration %s: %w", where, err)
	}
	return out, nil
}
