package main

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	batch "github.com/berth-dev/berth/api/batch/v1alpha1"
)

// runs is the expectation for a Job of the examples.
var runs = expectation{phases: []batch.JobPhase{batch.Running}}

// notValid is the folder of examples that Volcano refuses too.
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

// readExample reads the Jobs of one file of the examples, each with the other objects of the file.
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
		if c.name == "vo01" { // Volcano's test creates the claim that the Job names
			c.objects = append([]*unstructured.Unstructured{claim("jobpvc")}, c.objects...)
		}
		cases = append(cases, c)
	}
	return cases, nil
}

// moreSteps are steps of Volcano's tests that the table only describes.
var moreSteps = map[string][]string{
	"je09": {"running", "taint", "delete:job-restart-when-unschedulable-test-0", "phase:Restarting", "untaint"},
	"sg01": {"ungate"},
	"vo01": {"bind-claims"},
}

// readExpectation reads an entry of the table: phases in their order, and other requirements.
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
