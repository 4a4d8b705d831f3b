package main

import (
	"encoding/json"
	"fmt"
	"io"
)

// result is the last line. Cases that are run with two controllers count twice.
type result struct {
	// Examples are the valid Jobs of the example folder, Run those that ran as they are.
	Examples int `json:"examples"`
	Run      int `json:"run"`
	// E2E are the Jobs of the e2e tests, AsVolcano those that ended as they end with Volcano, and
	// Documented those that do not and stand in the documents with the reason.
	E2E        int `json:"e2e"`
	AsVolcano  int `json:"asVolcano"`
	Documented int `json:"documented"`
	Wrong      int `json:"wrong"`
	Skipped    int `json:"skipped"`
}

// documented are the cases that docs/volcano.md names, with the reason: Berth does not serve what
// they ask for.
var documented = map[string]string{
	"nt01": "networkTopology: Berth does not know Volcano's HyperNodes",
	"rp01": "partitionPolicy: Berth plans a task whole",
}

// finding is what came of a case.
type finding struct {
	skipped string
	wrong   error
}

func (r *result) add(c *testCase, f finding) {
	switch {
	case f.skipped != "":
		r.Skipped++
		return
	case c.example:
		r.Examples++
	default:
		r.E2E++
	}
	switch {
	case f.wrong != nil && documented[c.name] != "":
		r.Documented++
	case f.wrong != nil:
		r.Wrong++
	case c.example:
		r.Run++
	default:
		r.AsVolcano++
	}
}

func (r *result) write(out io.Writer) error {
	last, err := json.Marshal(r)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s\n", last)
	if r.Wrong > 0 {
		return errWrong
	}
	return nil
}
