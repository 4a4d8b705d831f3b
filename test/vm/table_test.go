package vm

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// The table of the policies part has a line for each finished configuration, with Berth and the
// stock scheduler side by side.
const (
	policyHead = "                                                    |        BERTH                 | STOCK SCHEDULER\n" +
		"CONFIGURATION                                  PODS | ran wait refused exact wrong | ran wait refused | SECONDS  REFUSED BY\n"
	policyLine = "%-46s %4d | %3d %4d %7d %5s %5d | %3d %4d %7d | %7.0f  %s\n"
)

// policyResult is a line of the table.
type policyResult struct {
	name        string
	ours, stock tally
	took        time.Duration
}

func (r policyResult) String() string {
	reasons := r.stock.reasons()
	if r.ours.refusals() > 0 {
		reasons += "; Berth: " + r.ours.reasons()
	}
	line := fmt.Sprintf(policyLine, r.name, r.ours.Pods,
		r.ours.Running, r.ours.Pending, r.ours.refusals(), fmt.Sprintf("%d/%d", r.ours.Exact, r.ours.Running), r.ours.Wrong,
		r.stock.Running, r.stock.Pending, r.stock.refusals(), r.took.Seconds(), reasons)
	return strings.TrimRight(line, " \n") + "\n"
}

// add sums up the results of many configurations.
func (r *policyResult) add(o policyResult) {
	r.ours, r.stock, r.took = r.ours.plus(o.ours), r.stock.plus(o.stock), r.took+o.took
}

func (t tally) plus(o tally) tally {
	out := tally{Pods: t.Pods + o.Pods, Running: t.Running + o.Running, Exact: t.Exact + o.Exact, Wrong: t.Wrong + o.Wrong, Pending: t.Pending + o.Pending, Refused: map[string]int{}}
	for _, part := range []map[string]int{t.Refused, o.Refused} {
		for reason, n := range part {
			out.Refused[reason] += n
		}
	}
	return out
}

// refusals returns the number of pods that kubelets refused.
func (t tally) refusals() (sum int) {
	for _, n := range t.Refused {
		sum += n
	}
	return sum
}

// reasons lists the reasons of refusals with their numbers: "OutOfcpu 1, TopologyAffinityError 2".
func (t tally) reasons() string {
	var out []string
	for _, reason := range slices.Sorted(maps.Keys(t.Refused)) {
		out = append(out, fmt.Sprintf("%s %d", reason, t.Refused[reason]))
	}
	return strings.Join(out, ", ")
}

// TestPolicyTable checks the table's columns and sums.
func TestPolicyTable(t *testing.T) {
	a := policyResult{
		name: "restricted", took: 80 * time.Second,
		ours:  tally{Pods: 14, Running: 11, Exact: 10, Pending: 3, Refused: map[string]int{}},
		stock: tally{Pods: 14, Running: 9, Pending: 2, Refused: map[string]int{"TopologyAffinityError": 3}},
	}
	total := policyResult{name: "total"}
	total.add(a)
	total.add(a)
	want := "total                                            28 |  22    6       0 20/22     0 |  18    4       6 |     160  TopologyAffinityError 6\n"
	if got := total.String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
