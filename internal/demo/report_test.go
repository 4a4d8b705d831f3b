package demo

import (
	"regexp"
	"strings"
	"testing"
	"time"
)

// half returns the report of one scheduler with these figures.
func half(gpus float64, refused, exact, predicted int) *Report {
	r := newReport()
	r.StrandedDevices, r.Exact, r.Predicted = gpus, exact, predicted
	if refused > 0 {
		r.Rejected["SMTAlignmentError"] = refused
	}
	return r
}

// TestSeveralRuns checks the table for one run and for several runs. For several runs, it has the
// median, and the lowest and highest value if they differ.
func TestSeveralRuns(t *testing.T) {
	late := half(0.12, 62, 0, 0)
	late.OutOfTime = true
	runs := Comparisons{
		{Stock: half(0.33, 65, 0, 0), Berth: half(0.08, 0, 424, 425)},
		{Stock: late, Berth: half(0.62, 0, 420, 420)},
		{Stock: half(0.11, 0, 0, 0), Berth: half(0.46, 0, 423, 425)},
	}
	for _, c := range []struct {
		runs Comparisons
		want []string // in the lines, with single spaces
	}{
		{runs[:1], []string{"refused by the kubelet 65 0", "GPUs without CPUs, mean 0.33 0.08", " exact 0 424 (99%)"}},
		{runs[1:], []string{"refused by the kubelet 31 (0 to 62) 0", "Medians of 2 runs, with the smallest and the largest value in brackets."}},
		{runs, []string{
			"refused by the kubelet 62 (0 to 65) 0", " SMTAlignmentError 62 (0 to 65) 0", "GPUs without CPUs, mean 0.12 (0.11 to 0.33) 0.46 (0.08 to 0.62)",
			" exact 0 423 (420 to 424)", "Medians of 3 runs, with the smallest and the largest value in brackets.", "kube-scheduler, run 2: the time limit ended the run",
		}},
	} {
		var out strings.Builder
		if err := c.runs.WriteTable(&out); err != nil {
			t.Fatal(err)
		}
		single := regexp.MustCompile(` +`).ReplaceAllString(out.String(), " ")
		for _, want := range c.want {
			if !strings.Contains("\n"+single, "\n"+want) {
				t.Errorf("%d runs: want %q in\n%s", len(c.runs), want, &out)
			}
		}
		if !c.runs.Kept() {
			t.Error("nothing was refused or mispredicted under Berth, and it is not kept")
		}
	}
	runs[1].Berth.Mispredicted = 1
	if runs.Kept() {
		t.Error("kept, although a run has a wrong prediction")
	}
	runs[1].Berth.Contended = 1
	var out strings.Builder
	if err := runs.WriteTable(&out); err != nil {
		t.Fatal(err)
	}
	if !runs.Kept() || !strings.Contains(out.String(), "Pods with CPUs other than promised: 1. ") {
		t.Errorf("kept %v: an overtaken promise is explained, and no failure:\n%s", runs.Kept(), &out)
	}
	runs[1].Berth.Mispredicted = 2
	if runs.Kept() {
		t.Error("kept, although one of two wrong predictions was not overtaken")
	}
}

// TestRanUnderBoth: a pod that ran with only one of the two schedulers is not compared.
func TestRanUnderBoth(t *testing.T) {
	c := Comparison{Stock: newReport(), Berth: newReport()}
	c.Stock.times.toRunning = map[string]time.Duration{"easy": time.Second, "lucky": 9 * time.Second}
	c.Berth.times.toRunning = map[string]time.Duration{"easy": 2 * time.Second, "large": 5 * time.Second}
	c.finish()
	if got := c.Stock.SecondsToRunning.InBoth; got != (Quantiles{1, 1}) {
		t.Errorf("stock: %v, want 1 s", got)
	}
	if got := c.Berth.SecondsToRunning.InBoth; got != (Quantiles{2, 2}) {
		t.Errorf("Berth: %v, want 2 s", got)
	}
}
