// Package manifest reads pods, and the pods of workloads, from files as people and helm write them,
// and refuses what the API server would refuse.
package manifest

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

const (
	// MaxBytes bounds a file.
	MaxBytes = 64 << 20
	// MaxPods bounds the pods of all files, each replica counted.
	MaxPods = 10000
)

// Template is a pod, or the pods of a workload, which are all alike.
type Template struct {
	// Pod is named like its workload, and has a UID that no other template has.
	Pod *corev1.Pod
	// Replicas is how many pods there should be: 1 of a Pod, a DaemonSet (on each node) or where
	// nothing is said.
	Replicas int
}

// Pods returns the pods one by one, those of several replicas numbered from 0.
func (t *Template) Pods() []*corev1.Pod {
	if t.Replicas == 1 {
		return []*corev1.Pod{t.Pod}
	}
	var out []*corev1.Pod
	for i := range t.Replicas {
		pod := t.Pod.DeepCopy()
		pod.Name = fmt.Sprintf("%s-%d", pod.Name, i)
		pod.UID += types.UID(fmt.Sprintf("-%d", i))
		out = append(out, pod)
	}
	return out
}

// Source says where manifests lie, as kubectl's -f and -R do.
type Source struct {
	// Paths are files, folders (of .yaml, .yml and .json) and "-".
	Paths     []string
	Recursive bool
	Stdin     io.Reader
}

// Read returns what the files hold, in their order. Objects that hold no pods are left out, and a
// note names them.
func (s Source) Read() (templates []Template, notes []string, err error) {
	r := reader{skipped: map[string]int{}}
	for _, path := range s.Paths {
		files, err := s.files(path)
		if err != nil {
			return nil, nil, err
		}
		for _, file := range files {
			if err := r.file(file, s.Stdin); err != nil {
				return nil, nil, err
			}
		}
	}
	notes = r.notes()
	if len(r.templates) == 0 {
		return nil, nil, errors.New(strings.Join(append([]string{strings.Join(s.Paths, ", ") + ": no pods in it"}, notes...), "; "))
	}
	nameAll(r.templates)
	return r.templates, notes, nil
}

var endings = []string{".yaml", ".yml", ".json"}

// files lists the files of a path.
func (s Source) files(path string) ([]string, error) {
	if strings.HasPrefix(path, "http://") || strings.HasPrefix(path, "https://") {
		return nil, fmt.Errorf("%s: want a file, a folder or -: fetch it first (curl URL | berth place -f -)", path)
	}
	info, err := os.Stat(path)
	if path == "-" || err == nil && !info.IsDir() {
		return []string{path}, nil
	}
	if err != nil {
		return nil, err
	}
	var files []string
	err = filepath.WalkDir(path, func(name string, e os.DirEntry, err error) error {
		if err == nil && e.IsDir() && name != path && !s.Recursive {
			return filepath.SkipDir
		}
		if err == nil && !e.IsDir() && slices.Contains(endings, filepath.Ext(name)) {
			files = append(files, name)
		}
		return err
	})
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("%s: no %s in it", path, strings.Join(endings, ", "))
	}
	return files, err
}

type reader struct {
	templates []Template
	pods      int
	// skipped counts objects without pods by kind.
	skipped map[string]int
	counted []string
}

func (r *reader) notes() []string {
	notes := r.counted
	var kinds []string
	for _, kind := range slices.Sorted(maps.Keys(r.skipped)) {
		kinds = append(kinds, fmt.Sprintf("%d %s", r.skipped[kind], kind))
	}
	if len(kinds) > 0 {
		notes = append(notes, "skipped what holds no pods: "+strings.Join(kinds, ", "))
	}
	return notes
}

// file reads YAML or JSON with any number of documents.
func (r *reader) file(path string, stdin io.Reader) error {
	data, err := ReadInput(path, stdin, MaxBytes)
	if err != nil {
		return err
	}
	if path == "-" {
		path = "stdin"
	}
	n := 0
	for doc, err := range Documents(data) {
		n++
		if err == nil {
			err = r.document(doc, "")
		}
		if err != nil {
			return fmt.Errorf("%s: document %d: %w", path, n, err)
		}
	}
	return nil
}

// Documents returns the documents of YAML or JSON. A document in which there are only comments is
// empty. After an error comes no other.
func Documents(data []byte) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		docs := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
		for {
			doc, err := docs.Read()
			if errors.Is(err, io.EOF) {
				return
			}
			if onlyComments(doc) {
				doc = nil
			}
			if !yield(doc, err) || err != nil {
				return
			}
		}
	}
}

// ReadInput reads a file, or stdin for "-", up to a limit in bytes.
func ReadInput(path string, stdin io.Reader, limit int64) ([]byte, error) {
	in := stdin
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("%s: larger than %d MiB", path, limit>>20)
	}
	return data, err
}

// onlyComments says whether a document has nothing in it.
func onlyComments(doc []byte) bool {
	for line := range bytes.Lines(doc) {
		if l := bytes.TrimSpace(line); len(l) > 0 && l[0] != '#' && !bytes.Equal(l, []byte("---")) {
			return false
		}
	}
	return true
}

// nameAll gives every pod a name and a UID of its own: the engine keys what is handed out by UID.
func nameAll(templates []Template) {
	seen := map[string]int{}
	for i := range templates {
		p := templates[i].Pod
		p.Name = cmp.Or(p.Name, p.GenerateName, fmt.Sprintf("pod-%d", i+1))
		uid := cmp.Or(string(p.UID), p.Namespace+"/"+p.Name)
		seen[uid]++
		if n := seen[uid]; n > 1 {
			uid = fmt.Sprintf("%s#%d", uid, n)
		}
		p.UID = types.UID(uid)
	}
}
