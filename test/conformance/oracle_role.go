package conformance

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/berth-dev/berth/internal/cases"
	"github.com/berth-dev/berth/test/conformance/oracle"
)

// Told is an oracle's answer to a case, as a child writes it.
type Told struct {
	Result  cases.Result   `json:"result"`
	Outcome oracle.Outcome `json:"outcome"`
	// Error is set when the child itself could not do its work.
	Error string `json:"error,omitempty"`
}

// AnswerCase is the oracle's Serve function: a case in, a Told out. After a hang or a crash it asks to be ended.
func AnswerCase(timeout time.Duration) func([]byte) ([]byte, bool) {
	return func(line []byte) ([]byte, bool) {
		t := tell(line, timeout)
		b, err := json.Marshal(t)
		if err != nil {
			b, _ = json.Marshal(Told{Error: err.Error()})
		}
		return b, t.Outcome != oracle.Finished
	}
}

func tell(line []byte, timeout time.Duration) Told {
	c, err := cases.DecodeCase(line)
	if err != nil {
		return Told{Error: fmt.Sprintf("case: %v", err)}
	}
	r, outcome, err := oracle.Run(c, oracle.Options{Timeout: timeout})
	if err != nil {
		return Told{Error: err.Error()}
	}
	return Told{Result: r, Outcome: outcome}
}
