package main

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	batch "github.com/berth-dev/berth/api/batch/v1alpha1"
)

// TestPlan: a seed determines the plan, and a plan of the usual size has Jobs of every kind, single
// pods, and kills of both parts.
func TestPlan(t *testing.T) {
	text := func(seed uint64) string {
		data, err := json.Marshal(NewPlan(seed, 60))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	if once := text(7); once != text(7) || once == text(8) {
		t.Error("a seed does not determine the plan, or determines nothing")
	}
	kinds, deaths := map[string]int{}, map[int]int{}
	for seed := range uint64(5) {
		p := NewPlan(seed, 60)
		for i := range p.Jobs {
			kinds[p.Jobs[i].Kind]++
		}
		for _, k := range p.Kills {
			deaths[k.Part]++
		}
		if len(p.Jobs) != 60 || len(p.Singles) != 30 {
			t.Errorf("seed %d: %d Jobs and %d pods", seed, len(p.Jobs), len(p.Singles))
		}
	}
	if len(kinds) != len(shapes) || deaths[schedulerPart] == 0 || deaths[controllerPart] == 0 {
		t.Errorf("%d kinds of %d, deaths %v", len(kinds), len(shapes), deaths)
	}
}

// TestCompare: a Job with another end is an error, and a Job that is not yet at its end is not.
func TestCompare(t *testing.T) {
	status := func(phase batch.JobPhase, reason string, retries int32) *batch.Job {
		return &batch.Job{Status: batch.JobStatus{State: batch.JobState{Phase: phase, Reason: reason}, RetryCount: retries}}
	}
	failing := Job{End: batch.Failed, Reason: "MaxRetry", Retries: 2}
	for name, c := range map[string]struct {
		of             Job
		job            *batch.Job
		wrong, missing string
	}{
		"on its way":         {failing, status(batch.Running, "", 1), "", "Running"},
		"as specified":       {failing, status(batch.Failed, "MaxRetry", 2), "", ""},
		"completed":          {failing, status(batch.Completed, "", 0), "Completed", ""},
		"one restart":        {failing, status(batch.Failed, "MaxRetry", 1), "restarted 1 times", ""},
		"another reason":     {failing, status(batch.Failed, "Refused", 2), "Refused", ""},
		"deleted":            {failing, nil, "gone", ""},
		"gone as it is to":   {Job{}, nil, "", ""},
		"not gone yet":       {Job{}, status(batch.Completed, "", 0), "", "Completed"},
		"without its pods":   {Job{End: batch.Running, Bound: 2}, status(batch.Running, "", 0), "", "0 pods"},
		"restarted, who may": {Job{End: batch.Completed, Retries: anyNumber}, status(batch.Completed, "", 7), "", ""},
	} {
		wrong, missing := c.of.compare(c.job, []corev1.Pod{})
		if (wrong == "") != (c.wrong == "") || (missing == "") != (c.missing == "") || !strings.Contains(wrong, c.wrong) || !strings.Contains(missing, c.missing) {
			t.Errorf("%s: wrong %q, missing %q", name, wrong, missing)
		}
	}
}
