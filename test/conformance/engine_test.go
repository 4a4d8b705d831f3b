package conformance

import (
	"github.com/berth-dev/berth/internal/cases"
	"github.com/berth-dev/berth/test/conformance/oracle"
)

// engine is the engine under test.
func engine(c *cases.Case) *cases.Result {
	r, _, err := oracle.Run(c, oracle.Options{})
	if err != nil {
		return &cases.Result{ID: err.Error()}
	}
	return &r
}
