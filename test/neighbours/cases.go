package main

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	batch "github.com/berth-dev/berth/api/batch/v1alpha1"
)

// class says where a case is from, and with which of the controllers it is played.
type class int

const (
	// ofE2E is a Job of Volcano's e2e tests, ofExample one of its example folder. Both are played
	// with either controller.
	ofE2E class = iota
	ofExample
	// besideJobs is anything else of the example folder that Volcano's own controller serves.
	besideJobs
	// ofKoordinator is in Koordinator's words, and needs no controller.
	ofKoordinator
)

// playedBy are the controllers with which cases of a class are played.
var playedBy = map[class][]string{
	ofE2E: {byVolcano, byBerth}, ofExample: {byVolcano, byBerth}, besideJobs: {byVolcano}, ofKoordinator: {byNobody},
}

// testCase is a Job, or something else, what is in its file beside it, and how it ends.
type testCase struct {
	name  string
	class class
	// objects are created in their order; job is the name of the Job among them, "" for none.
	objects []*unstructured.Unstructured
	job     string
	want    expectation
	// misspelt is a field that the definition does not have: kubectl refuses the file by its name,
	// and whoever does not validate strictly runs it without.
	misspelt string
	// steps are what happens to the Job: see step.
	steps []string
}

// expectation is how a Job ends with Volcano.
type expectation struct {
	// rejected: the API server refuses it. Else phases are the ones that it goes through, among
	// others, and pending says that it stays in the first of them.
	rejected, pending bool
	phases            []batch.JobPhase
	// pods are how many run where there is no Job, at least.
	pods int
}

func (e expectation) String() string {
	switch {
	case e.rejected:
		return "it is refused at create"
	case e.pending:
		return "it stays pending"
	case e.pods > 0:
		return fmt.Sprint(e.pods, " pods run")
	default:
		return fmt.Sprint("it goes through ", e.phases)
	}
}

// runs is what a Job of the examples does.
var runs = expectation{phases: []batch.JobPhase{batch.Running}}

// notValid are Jobs of the examples that Volcano refuses as well.
const notValid = "invalid_jobs"

// misspelt are fields of examples that Volcano's definition does not have.
var misspelt = map[string]string{"elastic-job": "spec.tasks[0].template.spec.priorityClass"}

// readCases reads all Jobs of the folder.
func readCases(from string) (cases []*testCase, err error) {
	err = filepath.WalkDir(filepath.Join(from, "volcano-example"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".yaml" {
			return err
		}
		more, err := readExample(path)
		cases = append(cases, more...)
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	more, err := readE2E(filepath.Join(from, "volcano-e2e"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	cases = append(cases, more...)
	more, err = readKoordinator()
	return append(cases, more...), err
}

// readExample reads the Jobs of one file of the examples, each with what stands beside them.
func readExample(path string) (cases []*testCase, err error) {
	objects, err := readObjects(path)
	if err != nil {
		return nil, err
	}
	isJob := func(o *unstructured.Unstructured) bool {
		return o.GetKind() == "Job" && o.GetAPIVersion() == batch.GroupVersion.String()
	}
	beside := slices.DeleteFunc(slices.Clone(objects), isJob)
	queues, err := readObjects(filepath.Join(filepath.Dir(path), "queues.yaml"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	beside = append(queues, beside...)
	for _, o := range objects {
		if !isJob(o) {
			continue
		}
		name := strings.TrimSuffix(filepath.Base(path), ".yaml")
		c := &testCase{
			name: filepath.Base(filepath.Dir(path)) + "/" + name + "/" + o.GetName(), class: ofExample, want: runs,
			job: o.GetName(), objects: append(slices.Clone(beside), o), misspelt: misspelt[name],
		}
		if strings.Contains(path, notValid) {
			c.want, c.class = expectation{rejected: true}, ofE2E
		}
		cases = append(cases, c)
	}
	if len(cases) == 0 {
		cases = readBesideJobs(path, objects)
	}
	return cases, nil
}

func readObjects(path string) (objects []*unstructured.Unstructured, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return objectsIn(path, data)
}

// objectsIn reads YAML documents; path is for errors.
func objectsIn(path string, data []byte) (objects []*unstructured.Unstructured, err error) {
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for {
		text, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		o := &unstructured.Unstructured{}
		if err == nil {
			err = yaml.Unmarshal(text, &o.Object)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if len(o.Object) > 0 {
			objects = append(objects, o)
		}
	}
}

// readE2E reads the Jobs of Volcano's e2e tests, and how they end.
func readE2E(folder string) (cases []*testCase, err error) {
	file, err := os.Open(filepath.Join(folder, "EXPECT.tsv"))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	table := csv.NewReader(file)
	table.Comma, table.LazyQuotes = '\t', true
	rows, err := table.ReadAll()
	if err != nil {
		return nil, err
	}
	for _, row := range rows[1:] {
		objects, err := readObjects(filepath.Join(folder, row[0]+".yaml"))
		if err != nil {
			return nil, err
		}
		c := &testCase{name: row[0], objects: objects, job: objects[len(objects)-1].GetName(), want: readExpectation(row[2])}
		if err := json.Unmarshal([]byte(row[3]), &c.steps); err != nil {
			return nil, fmt.Errorf("EXPECT.tsv: %s: %w", row[0], err)
		}
		c.steps = append(c.steps, moreSteps[c.name]...)
		if c.name == "vo01" { // its test makes the claim that the Job names
			c.objects = append([]*unstructured.Unstructured{claim("jobpvc")}, c.objects...)
		}
		cases = append(cases, c)
	}
	return cases, nil
}

// claim is a PersistentVolumeClaim.
func claim(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"accessModes": []any{"ReadWriteOnce"}, "resources": map[string]any{"requests": map[string]any{"storage": "1Gi"}}},
	}}
}

// moreSteps are what tests of Volcano's do that the table says in words.
var moreSteps = map[string][]string{
	"je09": {"running", "taint", "delete:job-restart-when-unschedulable-test-0", "phase:Restarting", "untaint"},
	"sg01": {"ungate"},
	"vo01": {"bind-claims"},
}

// readExpectation reads what the table says: phases in their order, and words beside them.
func readExpectation(text string) (e expectation) {
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" ;,()", r) }) {
		switch phase := batch.JobPhase(word); phase {
		case "reject":
			e.rejected = true
		case "pending":
			e.pending = true
		case batch.Pending, batch.Running, batch.Restarting, batch.Aborting, batch.Aborted, batch.Completing,
			batch.Completed, batch.Terminating, batch.Terminated, batch.Failed:
			e.phases = append(e.phases, phase)
		}
	}
	if len(e.phases) == 0 {
		e.phases = []batch.JobPhase{batch.Running}
	}
	return e
}
