// Package manifest reads pods, and the pods of workloads, from YAML and JSON files. It refuses pods
// that violate the API server's rules for the fields that Berth reads.
package manifest

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/internal/pasted"
	"github.com/berth-dev/berth/internal/wire"
)

const (
	// MaxBytes limits the size of a file.
	MaxBytes = 64 << 20
	// MaxPods limits the number of pods in all files. Each replica counts.
	MaxPods = 10000
)

// Template is a pod, or the identical pods of a workload.
type Template struct {
	// Pod has a name that begins with the name of its workload, and a UID that no other template
	// has.
	Pod *corev1.Pod
	// Replicas is the number of pods. It is 1 for a Pod, for a DaemonSet (one per node), and for an
	// object that names no number.
	Replicas int
}

// Pods returns the pods one by one. Several replicas are numbered from 0.
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

// Source is the location of manifests, like kubectl's -f and -R.
type Source struct {
	// Paths are files, folders with .yaml, .yml and .json files, and "-" for standard input.
	Paths     []string
	Recursive bool
	Stdin     io.Reader
}

// Pods has the pods of the files.
type Pods struct {
	Templates []Template
	// Claims are the ResourceClaimTemplates in the same input.
	Claims []resourcev1.ResourceClaimTemplate
	// Ended has the UIDs of the Pods in the input that have ended.
	Ended []types.UID
	// Notes describe omitted input: wrong documents, objects that have no pods or have ended, and
	// owners whose pods are also in the input. Other notes explain how many pods were counted for a
	// workload.
	Notes []string
	// Wrong is the number of documents that are wrong.
	Wrong int
}

// Read returns the pods of the files, in the order of Paths. A wrong document is an error only if
// the other documents have no pods.
func (s Source) Read() (*Pods, error) {
	r := reader{skipped: map[string]int{}, unread: map[string]int{}, uids: map[types.UID]bool{}, classes: map[string]*nodev1.RuntimeClass{}}
	for _, path := range s.Paths {
		files, err := s.files(path)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			if err := r.file(file, s.Stdin); err != nil {
				return nil, err
			}
		}
	}
	if err := r.addClasses(); err != nil {
		return nil, err
	}
	r.coverOwners()
	templates, err := r.templates()
	notes := r.notes()
	switch {
	case err != nil:
		return nil, err
	case len(templates) == 0 && r.first != nil:
		return nil, r.first
	case len(templates) == 0:
		return nil, errors.New(strings.Join(append([]string{strings.Join(s.Paths, ", ") + ": no pods in it"}, notes...), "; "))
	}
	nameAll(templates)
	return &Pods{templates, r.claims, r.ended(), notes, r.wrong}, nil
}

var endings = []string{".yaml", ".yml", ".json"}

func (s Source) files(path string) ([]string, error) {
	if strings.HasPrefix(path, "http://") || strings.HasPrefix(path, "https://") {
		return nil, fmt.Errorf("%s: want a file, a folder, or - for standard input; to read a URL, use curl URL and pipe its output into this command", path)
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
	// first is the error of the first wrong document. The field bad has the notes about the first
	// few wrong documents. The field wrong is the number of all wrong documents.
	first   error
	bad     []string
	wrong   int
	objects []object
	claims  []resourcev1.ResourceClaimTemplate
	// classes are the RuntimeClasses in the input, by name. classed are pods that name one.
	classes map[string]*nodev1.RuntimeClass
	classed []classed
	uids    map[types.UID]bool
	// skipped counts objects without pods by kind. The field unread counts custom resources of
	// unknown kinds.
	skipped, unread map[string]int
	// twice is the number of objects that the input repeats. The field unknown has the fields that
	// only a newer API server knows.
	twice   int
	unknown []error
	// ignored describes fields of known kinds that Berth does not support.
	ignored []string
}

type object struct {
	head
	pod, ended bool
	templates  []Template
	pods       int
	counted    string // the note about its number of pods
	// covered means that the input contains the pods of the object.
	covered bool
}

// maxNamed limits the number of objects of a kind that a note names, and the number of wrong
// documents that notes describe in full.
const maxNamed = 10

// The function some returns the first maxNamed names of a list as text, with the number of the
// other names if there are any.
func some(names []string) string {
	text := strings.Join(names[:min(len(names), maxNamed)], ", ")
	if more := len(names) - maxNamed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func (r *reader) notes() (notes []string) {
	notes = r.bad
	if more := r.wrong - len(r.bad); more > 0 {
		notes = append(notes, fmt.Sprintf("not read: %d more documents", more))
	}
	ended, covered := map[string]int{}, []string(nil)
	for i := range r.objects {
		o := &r.objects[i]
		switch {
		case o.ended:
			ended[o.Kind]++
		case o.covered:
			covered = append(covered, o.object())
		case o.counted != "":
			notes = append(notes, o.counted)
		}
	}
	if len(covered) > 0 {
		notes = append(notes, "not counted again, as the input contains the objects that they own: "+some(covered))
	}
	if len(ended) > 0 {
		notes = append(notes, "left out, as they have ended and hold nothing: "+counts(ended))
	}
	if r.twice > 0 {
		notes = append(notes, "repeated in the input, and counted once: "+wire.Counted(r.twice, "object"))
	}
	if len(r.unknown) > 0 {
		var fields []string
		for _, err := range r.unknown {
			fields = append(fields, err.Error())
		}
		notes = append(notes, "ignored, as this release does not know the field: "+some(fields))
	}
	for _, what := range r.ignored[:min(len(r.ignored), maxNamed)] {
		notes = append(notes, "ignored: "+what)
	}
	if more := len(r.ignored) - maxNamed; more > 0 {
		notes = append(notes, fmt.Sprintf("ignored: %d more fields or objects", more))
	}
	if len(r.unread) > 0 {
		notes = append(notes, "skipped, as these kinds are not read: "+counts(r.unread))
	}
	if len(r.skipped) > 0 {
		notes = append(notes, "skipped, as they contain no pods: "+counts(r.skipped))
	}
	return notes
}

func (r *reader) ended() (pods []types.UID) {
	for i := range r.objects {
		if o := &r.objects[i]; o.pod && o.ended && o.UID != "" {
			pods = append(pods, o.UID)
		}
	}
	return pods
}

// seen reports whether the reader has read an object with the same UID before. It counts such
// objects in r.twice.
func (r *reader) seen(h *head) bool {
	if h.UID == "" {
		return false
	}
	if r.uids[h.UID] {
		r.twice++
		return true
	}
	r.uids[h.UID] = true
	return false
}

// coverOwners marks objects as covered if the input contains their pods, or the objects that own
// their pods.
func (r *reader) coverOwners() {
	type name struct {
		group, kind, namespace, name string
	}
	byName := map[name]int{}
	for i := range r.objects {
		o := &r.objects[i]
		byName[name{o.group(), o.Kind, o.Namespace, o.Name}] = i
	}
	for i := range r.objects {
		o := &r.objects[i]
		if !o.pod && o.pods == 0 {
			continue
		}
		for len(o.OwnerReferences) > 0 {
			ref := o.OwnerReferences[0]
			up := head{TypeMeta: metav1.TypeMeta{APIVersion: ref.APIVersion}}
			at, ok := byName[name{up.group(), ref.Kind, o.Namespace, ref.Name}]
			if !ok || r.objects[at].covered || r.objects[at].UID != "" && ref.UID != "" && r.objects[at].UID != ref.UID {
				break
			}
			o = &r.objects[at]
			o.covered = true
		}
	}
}

// templates returns the templates of the objects that are not covered.
func (r *reader) templates() (out []Template, err error) {
	pods := 0
	for i := range r.objects {
		o := &r.objects[i]
		if o.covered {
			continue
		}
		if pods += o.pods; pods > MaxPods {
			return nil, fmt.Errorf("%s brings the total to %d pods: want at most %d", o.object(), pods, MaxPods)
		}
		for _, t := range o.templates {
			if t.Replicas > 0 {
				out = append(out, t)
			}
		}
	}
	return out, nil
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
			err = r.document(doc, metav1.TypeMeta{})
		}
		if err == nil {
			continue
		}
		text := doc
		if text == nil {
			text = data
		}
		if form := pasted.What(text); form != pasted.Unknown && form != pasted.KubernetesObject {
			err = fmt.Errorf("%w; this is %s", err, form)
			if form == pasted.Description || form == pasted.Table {
				err = fmt.Errorf("%w: want the output of kubectl get -o yaml", err)
			}
		}
		err = fmt.Errorf("%s: document %d: %w", path, n, pasted.Explain(err, data))
		if r.first = cmp.Or(r.first, err); len(r.bad) < maxNamed {
			r.bad = append(r.bad, "not read: "+strings.ReplaceAll(err.Error(), "\n", "; "))
		}
		r.wrong++
	}
	return nil
}

// Documents yields the documents of YAML or JSON. The items of a bare list, and JSON objects in
// sequence, are separate documents. A document with only comments is empty.
func Documents(data []byte) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		docs := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(bytes.TrimPrefix(data, []byte("\ufeff")))))
		for {
			doc, err := docs.Read()
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if onlyComments(doc) {
				doc = nil
			}
			for _, one := range objectsOf(doc) {
				if !yield(one, nil) {
					return
				}
			}
		}
	}
}

// objectsOf returns the objects of a document that contains several. Otherwise it returns the
// document itself, even if it is wrong.
func objectsOf(doc []byte) (out [][]byte) {
	text := bytes.TrimSpace(bytes.TrimPrefix(bytes.TrimSpace(doc), []byte("---")))
	if bytes.HasPrefix(text, []byte("- ")) {
		text, _ = yaml.YAMLToJSON(text)
	}
	if !bytes.HasPrefix(text, []byte("{")) && !bytes.HasPrefix(text, []byte("[")) {
		return [][]byte{doc}
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	for {
		var value json.RawMessage
		err := decoder.Decode(&value)
		if errors.Is(err, io.EOF) {
			return out
		}
		var items []json.RawMessage
		switch {
		case err != nil: // the document may be YAML that begins like JSON
			return [][]byte{doc}
		case json.Unmarshal(value, &items) != nil:
			out = append(out, value)
		}
		for _, item := range items {
			out = append(out, item)
		}
	}
}

// ReadInput reads a file up to a limit in bytes. If stdin is not nil, "-" stands for it.
func ReadInput(path string, stdin io.Reader, limit int64) ([]byte, error) {
	in := stdin
	if path != "-" || stdin == nil {
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

// onlyComments reports whether a document is empty or has only comments.
func onlyComments(doc []byte) bool {
	for line := range bytes.Lines(doc) {
		if l := bytes.TrimSpace(line); len(l) > 0 && l[0] != '#' && !bytes.Equal(l, []byte("---")) {
			return false
		}
	}
	return true
}

// nameAll gives every pod a name, and a UID that no other pod has, because the placement engine
// identifies pods by UID.
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
