package obey

import (
	"strings"
	"testing"

	"github.com/berth-dev/berth/test/golden"
)

// The workloads: two pods that cannot run at the same time, and a shared pod; two pods that leave
// no CPU to a third; and a pod whose CPUs a forged decision claims.
var (
	rivals = [Pods]Pod{{N: 2}, {N: 2}, {Kind: Shared}}
	full   = [Pods]Pod{{N: 2}, {N: 1}, {Kind: Shared}}
	forged = [Pods]Pod{{N: 2}, {Kind: Forged, Says: 0b010}, {Kind: Shared}}
	// A Reservation of two CPUs for two owners, of which one can use it at a time, and another pod.
	owners   = [Pods]Pod{{N: 1}, {N: 2, Owns: true}, {N: 2, Owns: true}}
	reserved = CPUs(0b011)
)

var searches = []struct {
	name string
	Config
}{
	{"rivals", Config{Pods: rivals, Budget: Budget{Restarts: 1, Reboots: 1, Crashes: 1, Deletions: 2}}},
	{"full", Config{Pods: full, Budget: Budget{Restarts: 1, Reboots: 1, Crashes: 1, Deletions: 1}}},
	{"forged", Config{Pods: forged, Budget: Budget{Restarts: 1, Reboots: 1, Crashes: 1, Deletions: 1}}},
	{"reserved", Config{Pods: owners, Held: reserved, Budget: Budget{Restarts: 1, Reboots: 1, Crashes: 1, Deletions: 2}}},
	{"silent", Config{Pods: rivals, Budget: Budget{Restarts: 1, Runtimes: 1, Crashes: 1, Deletions: 1}}},
	{"silent-full", Config{Pods: full, Budget: Budget{Restarts: 1, Runtimes: 1, Deletions: 1}}},
	{"silent-forged", Config{Pods: forged, Budget: Budget{Runtimes: 1, Crashes: 1, Deletions: 1}}},
	{"silent-twice", Config{Pods: rivals, Budget: Budget{Restarts: 1, Runtimes: 2, Deletions: 1}}},
	{"silent-by-hand", Config{Pods: rivals, Budget: Budget{Restarts: 1, Runtimes: 1, Hands: 1}}},
	{"by-hand", Config{Pods: rivals, Budget: Budget{Restarts: 1, Deletions: 1, Hands: 1}}},
}

func mustCheck(t *testing.T, c Config) Result {
	t.Helper()
	r, err := Check(c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestAllRulesKeepEveryPromise is the claim of docs/protocol.md for nodes that obey.
func TestAllRulesKeepEveryPromise(t *testing.T) {
	var steps [actions]uint64
	for _, c := range searches {
		c.Rules = AllRules
		r := mustCheck(t, c.Config)
		if r.Breach != Kept || !r.Complete {
			t.Errorf("%s: after %d states:\n%v", c.name, r.States, r)
		}
		if r.Quiet == 0 || r.Running == 0 {
			t.Errorf("%s: %d states at rest, %d with two containers running: the search proves nothing", c.name, r.Quiet, r.Running)
		}
		for a := range steps {
			steps[a] += r.Steps[a]
		}
		t.Logf("%s: %d states, %d with two containers running, %d at rest", c.name, r.States, r.Running, r.Quiet)
	}
	for a, n := range steps {
		if by := Action(a); n == 0 && by != Hold && by != UpdateShared && by != FreeEarly && by != Unanswered && by != AgentLearns {
			t.Errorf("no run has the step %q", by)
		}
	}
}

// off is a rule switched off, and the promise that then breaks.
type off struct {
	id     string // the section of docs/protocol.md
	rule   Rule
	breach Breach
	pods   [Pods]Pod
	budget Budget
	held   CPUs
}

var rulesOff = []off{
	{"decision-binds", DecisionBinds, Beside, full, Budget{}, 0},
	{"promise-holds", PromiseHolds, MadeToWait, rivals, Budget{Reboots: 1}, 0},
	{"obey-release-by-evidence", ReleaseByEvidence, MadeToWait, rivals, Budget{Deletions: 1}, 0},
	{"shrink-first", ShrinkFirst, Overrun, rivals, Budget{}, 0},
	{"settled-move", SettledMove, Overrun, rivals, Budget{}, 0},
	{"grow-after-stop", GrowAfterStop, Overrun, rivals, Budget{Deletions: 1}, 0},
	{"synchronize", Synchronize, Overrun, rivals, Budget{Restarts: 1}, 0},
	{"pinned-need-agent", PinnedNeedAgent, Beside, rivals, Budget{Reboots: 1}, 0},
	{"silence-is-no", SilenceIsNo, Beside, rivals, Budget{Restarts: 1}, 0},
	{"others-need-agent", OthersNeedAgent, Overrun, rivals, Budget{Restarts: 1}, 0},
	{"collisions-wait", CollisionsWait, TwiceGiven, forged, Budget{}, 0},
	{"empty-pool-waits", EmptyPoolWaits, Overrun, full, Budget{}, 0},
	{"obey-read-back", ReadBack, Unnoticed, rivals, Budget{Hands: 1}, 0},
	{"synchronize-first", SynchronizeFirst, Overrun, rivals, Budget{Restarts: 1}, 0},
	{"silent-keep", SilentKeep, Beside, rivals, Budget{Runtimes: 1}, 0},
	{"processes-keep", ProcessesKeep, Overrun, rivals, Budget{Runtimes: 1}, 0},
	{"removal-frees", RemovalFrees, LeftStanding, rivals, Budget{Runtimes: 1, Deletions: 1}, 0},
	{"holding-holds", HoldingHolds, LeftStanding, owners, Budget{}, reserved},
	{"reuse-in-place", ReuseInPlace, LeftStanding, owners, Budget{}, reserved},
	{"owners-count", OwnersCount, MadeToWait, owners, Budget{Deletions: 1}, reserved},
}

// TestEachRuleIsNeeded switches each rule off, and compares the shortest runs that the model then
// finds with testdata; -rewrite writes them. docs/protocol.md names the files. In each run, each
// moment starts where the last one ended.
func TestEachRuleIsNeeded(t *testing.T) {
	var tested Rule
	for _, o := range rulesOff {
		tested |= o.rule
		r := mustCheck(t, Config{Pods: o.pods, Held: o.held, Rules: AllRules.Without(o.rule), Budget: o.budget})
		if r.Breach != o.breach {
			t.Errorf("without %v: %v after %d states, want %v", o.rule, r.Breach, r.States, o.breach)
		}
		for i := 1; i < len(r.Trace); i++ {
			if r.Trace[i].Before != r.Trace[i-1].After || r.Trace[i].Before == r.Trace[i].After {
				t.Errorf("%s: step %d does not follow from the one before", o.id, i+1)
			}
		}
		if len(r.Trace) == 0 {
			t.Errorf("%s: no trace", o.id)
		}
		golden.File(t, "testdata/"+o.id+".txt", r.String())
	}
	if tested != AllRules {
		t.Errorf("switched off alone: %v; want %v", tested, AllRules)
	}
	if len(strings.Split(AllRules.String(), "+")) != len(ruleNames{}.Names()) {
		t.Errorf("%d names for %b", len(ruleNames{}.Names()), AllRules)
	}
}

func TestValidate(t *testing.T) {
	for want, pods := range map[string][Pods]Pod{
		"Pods[0].N is 0":          {{}, {N: 1}, {N: 1}},
		"Pods[1].N is 4":          {{N: 1}, {N: 4}, {N: 1}},
		"Pods[2].Says is {}":      {{N: 1}, {N: 1}, {Kind: Forged}},
		"Pods[2].Says is {0,1,3}": {{N: 1}, {N: 1}, {Kind: Forged, Says: 0b1011}},
	} {
		if _, err := Check(Config{Pods: pods, Rules: AllRules}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Check: %v, want %q", err, want)
		}
	}
}
