package main

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	batch "github.com/berth-dev/berth/api/batch/v1alpha1"
)

// Who makes the pods of Jobs.
const (
	byVolcano = "volcano"
	byBerth   = "berth"
	// byNobody is a cluster without Jobs, in which the scheduler serves the name koord-scheduler.
	byNobody = "koordinator"
	byAll    = "all"
)

// class is where a case is from, and with which of the controllers it is played.
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

// ends reports whether containers of the case end by themselves, so many seconds after their start.
// Where the machine is busy one may end before the Job has all its pods, and a policy acts upon a
// Job that never ran, with Volcano as well. Such a case is played again, alone.
func (t *testCase) ends() bool {
	return slices.ContainsFunc(t.objects, func(o *unstructured.Unstructured) bool {
		return strings.Contains(fmt.Sprint(o.Object), "berth.dev/exit:")
	})
}

// alone reports whether the case changes what others need.
func (t *testCase) alone() bool { return slices.Contains(t.steps, "taint") }

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
