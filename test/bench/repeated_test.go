package bench

import (
	"fmt"
	"testing"

	"github.com/berth-dev/berth/internal/ledger"
)

// accounts has ledger nodes with the same report, each with its own cached answers.
type accounts struct {
	nodes     []*ledger.Node
	candidate ledger.Candidate
	next      int
}

func newAccounts(t testing.TB, e *engine, n int) *accounts {
	t.Helper()
	snap := e.state.Snapshot()
	report, err := ledger.NewReport(1, e.model, &snap, nil)
	if err != nil {
		t.Fatal(err)
	}
	l := new(ledger.Ledger)
	a := &accounts{candidate: ledger.Candidate{Request: &e.request, Shape: l.Shape(&e.request)}}
	for range n {
		node := l.Open(nil)
		node.Accept(report)
		if answer := node.View().Ask(ledger.Question{Candidate: &a.candidate}); !answer.OK() {
			t.Fatal(answer)
		}
		a.nodes = append(a.nodes, node)
	}
	return a
}

// ask asks the next node.
func (a *accounts) ask() {
	a.nodes[a.next].View().Ask(ledger.Question{Candidate: &a.candidate})
	if a.next++; a.next == len(a.nodes) {
		a.next = 0
	}
}

// BenchmarkRepeated asks nodes that have not changed for the same request again, as Filter does for
// every pod of a batch.
func BenchmarkRepeated(b *testing.B) {
	sizes := []int{1, 1_000, 10_000, 100_000}
	e := newEngine(b, question{m8, "P2", "restricted", false})
	var all []*accounts
	for _, n := range sizes {
		all = append(all, newAccounts(b, e, n))
	}
	s := turns(b, func() (figures []float64) {
		for _, a := range all {
			figures = append(figures, timed(20_000, a.ask))
		}
		return append(figures, timed(1000, e.admit))
	})
	for i, n := range sizes {
		b.ReportMetric(s.median(i), fmt.Sprintf("%d-nodes-ns", n))
	}
	b.ReportMetric(s.median(len(sizes)), "first-ns")
	atMost(b, "repeated/first", s.ratio(0, len(sizes)), 0.2)
	noAllocations(b, all[0].ask)
}
