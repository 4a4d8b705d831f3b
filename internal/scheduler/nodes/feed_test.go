package nodes

import (
	"bytes"
	"strings"
	"testing"

	"k8s.io/klog/v2/textlogger"

	"github.com/berth-dev/berth/internal/ledger"
)

// TestContendedIsLogged holds the words by which the demo counts contended promises in the
// scheduler's log.
func TestContendedIsLogged(t *testing.T) {
	f := newFixture(t)
	var log bytes.Buffer
	f.Logger = textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&log)))
	for _, l := range []*ledger.PromiseOutcome{nil, {UID: "x", Exact: true, Contended: true}, {UID: "y", Exact: true, Kept: true}} {
		f.settle(f.table.Named("n"), l)
	}
	if got := strings.Count(log.String(), ` outcome="contended"`); got != 1 {
		t.Errorf("%d lines say outcome=\"contended\", want 1:\n%s", got, log.String())
	}
}
