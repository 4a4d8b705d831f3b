package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	koordinator "github.com/berth-dev/berth/api/scheduling/koordinator/v1alpha1"
	volcano "github.com/berth-dev/berth/api/scheduling/volcano/v1beta1"
)

// inKoordinatorsWords are files as Koordinator's manuals and proposals have them. The first line of
// each says which.
//
//go:embed koordinator/*.yaml
var inKoordinatorsWords embed.FS

// readKoordinator reads them.
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

// podsOf is how many pods objects make at once.
func podsOf(objects []*unstructured.Unstructured) (n int) {
	for _, o := range objects {
		switch o.GetKind() {
		case "Pod", "CronJob":
			n++
		case "Deployment", "ReplicaSet":
			count, _, _ := unstructured.NestedFloat64(o.Object, "spec", "replicas") // as YAML reads it
			n += int(count)
		case "Job":
			count, _, _ := unstructured.NestedFloat64(o.Object, "spec", "parallelism")
			n += int(count)
		}
	}
	return n
}

// flows are the files of Volcano's example of JobFlows: a flow, and the templates of its Jobs.
const flows = "jobflow"

// readBesideJobs reads a file of the examples without Jobs: what Volcano's controller makes pods
// of, and plain pods of its scheduler. Only so much is changed that it does not take minutes.
func readBesideJobs(path string, objects []*unstructured.Unstructured) []*testCase {
	folder := filepath.Base(filepath.Dir(path))
	c := &testCase{name: folder + "/" + strings.TrimSuffix(filepath.Base(path), ".yaml"), class: besideJobs, objects: objects}
	for _, o := range objects {
		switch o.GetKind() {
		case "CronJob":
			_ = unstructured.SetNestedField(o.Object, "* * * * *", "spec", "schedule") // the example says every fifth minute
		case "JobTemplate":
			endsSoon(o)
		case "JobFlow":
			o.SetNamespace("")
		}
	}
	switch c.want.pods = podsOf(objects); {
	case folder == "node-selector": // it names a node that nobody has
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

// endsSoon gives the pods of a JobTemplate an image that ends: a flow goes on when a Job has.
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

var jobFlows = schema.GroupVersionResource{Group: "flow.volcano.sh", Version: "v1alpha1", Resource: "jobflows"}

// flowDefinitions are the kinds of JobFlows, which the folder lacks, as far as an API server is
// concerned: Volcano's controller reads the objects.
const flowDefinitions = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: jobflows.flow.volcano.sh}
spec:
  group: flow.volcano.sh
  scope: Namespaced
  names: {plural: jobflows, singular: jobflow, kind: JobFlow, listKind: JobFlowList}
  versions:
  - name: v1alpha1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: jobtemplates.flow.volcano.sh}
spec:
  group: flow.volcano.sh
  scope: Namespaced
  names: {plural: jobtemplates, singular: jobtemplate, kind: JobTemplate, listKind: JobTemplateList}
  versions:
  - name: v1alpha1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

// checkBeside says what is missing where there is no Job: pods that run, each in a group below
// Volcano's controller; places that are held; a flow that has come to its end.
func (r *running) checkBeside(ctx context.Context) error {
	for _, o := range r.objects {
		switch o.GetKind() {
		case "JobFlow":
			return r.checkFlow(ctx, o.GetName())
		case "Reservation":
			if err := r.checkReservation(ctx, o.GetName()); err != nil {
				return err
			}
		}
	}
	pods, err := r.Client.CoreV1().Pods(r.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	run := 0
	for i := range pods.Items {
		p := &pods.Items[i]
		if p.Status.Phase == corev1.PodRunning || p.Status.Phase == corev1.PodSucceeded {
			run++
		}
		if p.Spec.SchedulerName == byVolcano && r.by == byVolcano && p.Annotations[volcano.GroupNameAnnotation] == "" {
			return fmt.Errorf("pod %s has no group", p.Name)
		}
	}
	if run < r.want.pods {
		return fmt.Errorf("%d of %d pods run: want %d", run, len(pods.Items), r.want.pods)
	}
	return nil
}

func (r *running) checkFlow(ctx context.Context, name string) error {
	flow, err := r.dynamic.Resource(jobFlows).Namespace(r.namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if phase, _, _ := unstructured.NestedString(flow.Object, "status", "state", "phase"); phase != "Succeed" {
		return fmt.Errorf("JobFlow %s is %q: %v", name, phase, flow.Object["status"])
	}
	return nil
}

func (r *running) checkReservation(ctx context.Context, name string) error {
	o, err := r.dynamic.Resource(koordinator.Reservations).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	switch phase, _, _ := unstructured.NestedString(o.Object, "status", "phase"); koordinator.ReservationPhase(phase) {
	case koordinator.ReservationAvailable, koordinator.ReservationSucceeded:
		return nil
	default:
		return fmt.Errorf("reservation %s is %q: %v", name, phase, o.Object["status"])
	}
}

// clear takes away what is of no namespace.
func (r *running) clear(ctx context.Context) (err error) {
	for _, o := range r.objects {
		if o.GetKind() == "Reservation" {
			err = errors.Join(err, r.dynamic.Resource(koordinator.Reservations).Delete(ctx, o.GetName(), metav1.DeleteOptions{}))
		}
	}
	return err
}
