package scheduler

import (
	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/wire"
)

// waitTexts say why a pod waits for a node's next report, by ledger.Wait; constant, so that the nodes of an event add up.
var waitTexts = func() (out [256]string) {
	for i := range out {
		out[i] = wire.WaitsForReport
	}
	for w := range ledger.Waits {
		out[w] += ": " + w.Text()
	}
	return out
}()

// reasonOf is the label of an answer in a metric.
func reasonOf(a *ledger.Answer) string {
	if a.Outcome == ledger.Waiting {
		return a.Wait.String()
	}
	return a.Verdict.Reason.String()
}
