package main

import (
	"embed"
	"io/fs"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// inKoordinatorsWords are files from Koordinator's manuals and proposals. The first line of each
// names its source.
//
//go:embed koordinator/*.yaml
var inKoordinatorsWords embed.FS

// readKoordinator reads Koordinator's files.
func readKoordinator() (cases []*testCase, err error) {
	files, err := fs.Glob(inKoordinatorsWords, "koordinator/*.yaml")
	if err != nil {
		return nil, err
	}
	for _, path := range files {
		data, err := inKoordinatorsWords.ReadFile(path)
		if err != nil {
			return nil, err
		}
		objects, err := objectsIn(path, data)
		if err != nil {
			return nil, err
		}
		cases = append(cases, &testCase{
			name: strings.TrimSuffix(path, ".yaml"), class: ofKoordinator, objects: objects, want: expectation{pods: podsOf(objects)},
		})
	}
	return cases, nil
}

// flows are the files of Volcano's example of JobFlows: a flow, and the templates of its Jobs.
const flows = "jobflow"

// readBesideJobs reads a file of the examples without Jobs: kinds from which Volcano's controller
// creates pods, and plain pods of its scheduler. It changes only values that would make the test
// take minutes.
func readBesideJobs(path string, objects []*unstructured.Unstructured) []*testCase {
	folder := filepath.Base(filepath.Dir(path))
	c := &testCase{name: folder + "/" + strings.TrimSuffix(filepath.Base(path), ".yaml"), class: besideJobs, objects: objects}
	for _, o := range objects {
		switch o.GetKind() {
		case "CronJob":
			_ = unstructured.SetNestedField(o.Object, "* * * * *", "spec", "schedule") // instead of every fifth minute
		case "JobTemplate":
			endsSoon(o)
		case "JobFlow":
			o.SetNamespace("")
		}
	}
	switch c.want.pods = podsOf(objects); {
	case folder == "node-selector": // it names a node that does not exist
		return nil
	case folder == flows:
		templates, err := readObjects(filepath.Join(filepath.Dir(path), "JobTemplate.yaml"))
		if filepath.Base(path) != "JobFlow.yaml" || err != nil {
			return nil
		}
		for _, o := range templates {
			endsSoon(o)
		}
		c.objects, c.want.pods = append(templates, objects...), len(templates)
	case folder == "deployment" && filepath.Base(path) == "deployment.yaml":
		if queues, err := readObjects(filepath.Join(filepath.Dir(path), "queue.yaml")); err == nil {
			c.objects = append(queues, objects...)
		}
	case c.want.pods == 0:
		return nil
	}
	return []*testCase{c}
}

// endsSoon gives the pods of a JobTemplate an image that ends, because a flow continues after a Job
// has ended.
func endsSoon(template *unstructured.Unstructured) {
	tasks, _, _ := unstructured.NestedSlice(template.Object, "spec", "tasks")
	for _, t := range tasks {
		containers, _, _ := unstructured.NestedSlice(t.(map[string]any), "template", "spec", "containers")
		for _, c := range containers {
			c.(map[string]any)["image"] = "berth.dev/exit:1s"
		}
		_ = unstructured.SetNestedSlice(t.(map[string]any), containers, "template", "spec", "containers")
	}
	_ = unstructured.SetNestedSlice(template.Object, tasks, "spec", "tasks")
}
