package main

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	batch "github.com/berth-dev/berth/api/batch/v1alpha1"
)

// The controllers that create the pods of Jobs.
const (
	byVolcano = "volcano"
	byBerth   = "berth"
	// byNobody means a cluster without Jobs, in which the scheduler serves the name
	// koord-scheduler.
	byNobody = "koordinator"
	byAll    = "all"
)

// class is the origin of a case; it determines the controllers with which the case runs.
type class int

const (
	// ofE2E is a Job of Volcano's e2e tests, ofExample a Job of its example folder. Both run with
	// each controller.
	ofE2E class = iota
	ofExample
	// besideJobs is any other kind of the example folder that Volcano's own controller serves.
	besideJobs
	// ofKoordinator uses Koordinator's annotations, and needs no controller.
	ofKoordinator
)

// playedBy has the controllers with which cases of a class are run.
var playedBy = map[class][]string{
	ofE2E: {byVolcano, byBerth}, ofExample: {byVolcano, byBerth}, besideJobs: {byVolcano}, ofKoordinator: {byNobody},
}

// testCase is a Job or another object, the other objects in its file, and its expected end.
type testCase struct {
	name  string
	class class
	// objects are created in their order; job is the name of the Job among them, "" for none.
	objects []*unstructured.Unstructured
	job     string
	want    expectation
	// misspelt is a field that the definition does not have. kubectl refuses the file and names the
	// field; without strict validation the file runs without it.
	misspelt string
	// steps are the steps on the Job: see step.
	steps []string
}

// ends reports if containers of the case end by themselves some seconds after their start. On a
// busy machine a container may end before the Job has all its pods. A policy then applies to a Job
// that never ran, also with Volcano. Such a case runs again without other cases.
func (t *testCase) ends() bool {
	return slices.ContainsFunc(t.objects, func(o *unstructured.Unstructured) bool {
		return strings.Contains(fmt.Sprint(o.Object), "berth.dev/exit:")
	})
}

// alone reports whether the case changes shared objects such as nodes.
func (t *testCase) alone() bool { return slices.Contains(t.steps, "taint") }

// expectation is how a Job ends with Volcano.
type expectation struct {
	// rejected means that the API server rejects the Job. phases are the phases that it must pass
	// through. pending means that it stays in the first phase.
	rejected, pending bool
	phases            []batch.JobPhase
	// pods is the minimum number of running pods if there is no Job.
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
