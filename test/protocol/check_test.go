package protocol

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/berth-dev/berth/test/golden"
)

var large = flag.Bool("large", false, "search the large models too (minutes, gigabytes)")

// trio is the usual workload: a fits either NUMA node, b only the one with the device, and c is
// created a second later. If the pods are admitted in the wrong order, or a pod leaves at the wrong
// moment, a takes the place of b.
var trio = [Pods]Pod{{CPUs: 2}, {CPUs: 1, Device: true}, {CPUs: 1, Second: 1}}

// twins is the same workload, created within one second, so that a relist may sort the pods in any
// order.
var twins = [Pods]Pod{{CPUs: 2}, {CPUs: 1, Device: true}, {CPUs: 1}}

var (
	mixed    = [Nodes]Authority{Kubelet, Berth}
	kubelets = [Nodes]Authority{Kubelet, Kubelet}
)

type searchCase struct {
	name string
	Config
}

// quick are the searches that run with the race detector, normal the ones that a plain run adds,
// slow the ones that -large adds.
var (
	quick = []searchCase{
		{"departure", Config{Pods: trio, Nodes: mixed, Budget: Budget{Departures: 1}}},
		{"relist-unknown-failure", Config{Pods: trio, Nodes: kubelets, Budget: Budget{Relists: 1, Unknowns: 1, Failures: 1}}},
		{"relist-restart", Config{Pods: trio, Nodes: kubelets, Budget: Budget{Relists: 1, Restarts: 1}}},
	}
	normal = []searchCase{
		{"departure-relist", Config{Pods: trio, Nodes: mixed, Budget: Budget{Departures: 1, Relists: 1}}},
		{"departure-relist-same-second", Config{Pods: twins, Nodes: kubelets, Budget: Budget{Departures: 1, Relists: 1}}},
		{"departure-relist-cautious", Config{Pods: twins, Nodes: kubelets, Cautious: true, Budget: Budget{Departures: 1, Relists: 1}}},
		{"relist-restart-mixed", Config{Pods: trio, Nodes: mixed, Budget: Budget{Relists: 1, Restarts: 1}}},
		{"restart-unknown", Config{Pods: trio, Nodes: mixed, Budget: Budget{Restarts: 1, Unknowns: 1}}},
	}
	slow = []searchCase{
		{"two-departures", Config{Pods: trio, Nodes: mixed, Budget: Budget{Departures: 2}}},
		{"two-departures-relist", Config{Pods: twins, Nodes: kubelets, Budget: Budget{Departures: 2, Relists: 1}}},
		{"everything", Config{Pods: trio, Nodes: mixed, Budget: Budget{Departures: 1, Relists: 1, Restarts: 1, Unknowns: 1}}},
		{"everything-cautious", Config{Pods: twins, Nodes: kubelets, Cautious: true, Budget: Budget{Departures: 1, Relists: 1, Restarts: 1, Unknowns: 1}}},
	}
)

func searches() []searchCase {
	all := quick
	if !raceDetector && !testing.Short() {
		all = append(all[:len(all):len(all)], normal...)
	}
	if *large {
		all = append(all[:len(all):len(all)], slow...)
	}
	return all
}

// TestAllRulesKeepEveryPromise is the claim of docs/protocol.md: no reachable state refuses a pod,
// promises a CPU twice, breaks an exact promise, or leaves a pod waiting that fits.
func TestAllRulesKeepEveryPromise(t *testing.T) {
	var total Result
	for _, c := range searches() {
		t.Run(c.name, func(t *testing.T) {
			c.Rules = AllRules
			r := mustCheck(c.Config)
			if r.Breach != Kept || !r.Complete {
				t.Fatalf("complete: %v, after %d states:\n%v", r.Complete, r.States, r)
			}
			t.Logf("%d states, longest run %d steps, no promise broken", r.States, r.Depth)
			total.add(&r)
		})
	}
	total.assertCovered(t)
}

func (r *Result) add(o *Result) {
	for a := range o.Steps {
		r.Steps[a] += o.Steps[a]
	}
	r.States += o.States
	r.Exact += o.Exact
	r.Verdicts += o.Verdicts
	r.Running += o.Running
	r.Waiting += o.Waiting
	r.Quiet += o.Quiet
}

// assertCovered fails if some action never occurred in the searches, because they would then prove
// nothing about it.
func (r *Result) assertCovered(t *testing.T) {
	for a, n := range r.Steps {
		// With all rules one write stores pod and placement, and no pod is evicted. Only a pod that
		// ended by itself can be collected.
		if by := Action(a); n == 0 && by != StorePlacement && by != Preempt && by != CollectTerminal {
			t.Errorf("no run has the step %q", by)
		}
	}
	for what, n := range map[string]int{"a pod on exact CPUs": r.Exact, "a pod whose CPUs were left open": r.Verdicts,
		"every pod running": r.Running, "a pod waiting for a report": r.Waiting, "nothing left to do": r.Quiet} {
		if n == 0 {
			t.Errorf("no state has %s", what)
		}
	}
	t.Logf("%d states in all: %d with every pod running, %d with a pod waiting, %d at rest", r.States, r.Running, r.Waiting, r.Quiet)
}

// off is a model with some rules switched off, and the promise that then breaks.
type off struct {
	id     string // the section of docs/protocol.md
	rules  Rule
	breach Breach
	budget Budget
}

// lawsOff has every law, with all its rules switched off.
var lawsOff = []off{
	{"law-1-refusal", LawState.Rules(), Refusal, Budget{Departures: 1}},
	{"law-1-double", LawState.Rules(), DoublePromise, Budget{Departures: 1}},
	{"law-2-refusal", LawReserve.Rules(), Refusal, Budget{}},
	{"law-2-double", LawReserve.Rules(), DoublePromise, Budget{}},
	{"law-3-refusal", LawOrder.Rules(), Refusal, Budget{}},
	{"law-3-double", LawOrder.Rules(), DoublePromise, Budget{Unknowns: 1}},
	{"law-4-preemption", LawWait.Rules(), NeedlessPreemption, Budget{}},
	{"law-4-waiting", LawWait.Rules(), LeftWaiting, Budget{Departures: 1}},
	{"law-5-refusal", LawEvidence.Rules(), Refusal, Budget{Restarts: 1}},
	{"law-5-double", LawEvidence.Rules(), DoublePromise, Budget{Departures: 1}},
}

// rulesOff has every rule, switched off separately.
var rulesOff = []off{
	{"state-from-reports", StateFromReports, Refusal, Budget{Relists: 1}},
	{"report-sequence", ReportSequence, LeftWaiting, Budget{Departures: 1, Unknowns: 1}},
	{"reserve-visible", ReserveVisible, DoublePromise, Budget{}},
	{"stored-with-binding", StoredWithBinding, DoublePromise, Budget{}},
	{"one-binding", OneBinding, DoublePromise, Budget{}},
	{"bind-decides-again", BindDecidesAgain, DoublePromise, Budget{}},
	{"read-back", ReadBack, Refusal, Budget{Unknowns: 1}},
	{"enumerate-known", EnumerateKnown, Refusal, Budget{Relists: 1}},
	{"predecessors-too", PredecessorsToo, Refusal, Budget{Relists: 1}},
	{"enumerate-unknown", EnumerateUnknown, Misprediction, Budget{Departures: 1}},
	{"fence", Fence, Refusal, Budget{Unknowns: 1}},
	{"wait-is-pending", WaitIsPending, NeedlessPreemption, Budget{}},
	{"release-by-evidence", ReleaseByEvidence, Refusal, Budget{Departures: 1}},
	{"leader-waits", LeaderWaits, Refusal, Budget{Restarts: 1}},
	{"watch-barrier", WatchBarrier, Refusal, Budget{Departures: 1}},
}

// mustCheck calls Check with a valid Config.
func mustCheck(c Config) Result {
	r, err := Check(c)
	if err != nil {
		panic(err)
	}
	return r
}

func (o off) check() Result {
	return mustCheck(Config{Pods: trio, Nodes: mixed, Rules: AllRules.Without(o.rules), Budget: o.budget,
		Look: []Breach{o.breach}, Preemption: o.breach == NeedlessPreemption})
}

// TestEachLawAndEachRuleIsNeeded switches off each law and each rule, and compares the shortest
// runs that the model then finds with testdata; -rewrite writes them. docs/protocol.md names the
// files. In each run, each moment starts where the last one ended.
func TestEachLawAndEachRuleIsNeeded(t *testing.T) {
	for _, o := range slices.Concat(lawsOff, rulesOff) {
		t.Run(o.id, func(t *testing.T) {
			r := o.check()
			if r.Breach != o.breach {
				t.Errorf("without %v: %v after %d states, want %v", o.rules, r.Breach, r.States, o.breach)
			}
			for i := 1; i < len(r.Trace); i++ {
				if r.Trace[i].Before != r.Trace[i-1].After || r.Trace[i].Before == r.Trace[i].After {
					t.Errorf("step %d does not follow from the one before", i+1)
				}
			}
			if last := len(r.Trace) - 1; last < 0 || o.breach != LeftWaiting && r.Trace[last].After.broken != o.breach {
				t.Error("the trace does not end with the breach")
			}
			golden.File(t, "testdata/"+o.id+".txt", r.String())
		})
	}
}

// TestLawsAsFirstWorded shows why the amendments exist: without them the laws break a promise.
func TestLawsAsFirstWorded(t *testing.T) {
	r := mustCheck(Config{Pods: trio, Nodes: mixed, Rules: AllRules.Without(amendments), Budget: Budget{Departures: 1, Relists: 1, Unknowns: 1},
		Look: []Breach{Refusal}})
	if r.Breach != Refusal {
		t.Errorf("the laws without %v: %v after %d states, want a refusal", amendments, r.Breach, r.States)
	}
}

func TestEveryRuleIsTested(t *testing.T) {
	var alone, laws, listed Rule
	for _, o := range rulesOff {
		alone |= o.rules
	}
	for l := LawState; l <= LawEvidence; l++ {
		if laws&l.Rules() != 0 {
			t.Errorf("%v: rules of two laws", laws&l.Rules())
		}
		laws |= l.Rules()
	}
	for _, o := range lawsOff {
		listed |= o.rules
	}
	if alone != AllRules || laws != AllRules || listed != AllRules {
		t.Errorf("switched off alone: %v, in a law: %v, in a law that is tested: %v; want %v", alone, laws, listed, AllRules)
	}
	if len(ruleNames{}.Names()) != len(fmt.Sprintf("%b", AllRules)) {
		t.Errorf("%d names for %b", len(ruleNames{}.Names()), AllRules)
	}
}

func TestValidate(t *testing.T) {
	valid := Config{Pods: trio, Rules: AllRules}
	for _, c := range []struct {
		want   string
		change func(*Config)
	}{
		{"", func(*Config) {}},
		{"Pods[1].CPUs is 3", func(c *Config) { c.Pods[1].CPUs = 3 }},
		{"Pods[0].CPUs is 0", func(c *Config) { c.Pods[0].CPUs = 0 }},
		{"2 ask for the device", func(c *Config) { c.Pods[0].Device = true }},
		{"Budget.Relists is 4", func(c *Config) { c.Budget.Relists = 4 }},
		{"Budget.Restarts is 3", func(c *Config) { c.Budget.Restarts = 3 }},
	} {
		config := valid
		c.change(&config)
		_, err := Check(config)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("Check: %v, want %q", err, c.want)
		}
	}
}

// amendments are the rules that the exhaustive search showed to be needed beyond the laws' first
// wording.
const amendments = PredecessorsToo | EnumerateUnknown | Fence | WatchBarrier
