package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// result is the last line. A case with two controllers counts once: it is skipped if both skip it,
// and wrong if it is wrong with either.
type result struct {
	// Examples are the valid Jobs of the example folder, Run the number that ran unchanged.
	Examples int `json:"examples"`
	Run      int `json:"run"`
	// E2E are the Jobs of the e2e tests, AsVolcano those that ended as with Volcano, Documented
	// those with another end that the documentation explains.
	E2E        int `json:"e2e"`
	AsVolcano  int `json:"asVolcano"`
	Documented int `json:"documented"`
	// Koordinator are Koordinator's files that ran unchanged.
	Koordinator int `json:"koordinator"`
	// Silent are kinds and fields of other projects that Berth ignores without a warning.
	Silent int `json:"silent"`
	// Wrong counts cases with a wrong result, Skipped cases that did not run.
	Wrong   int `json:"wrong"`
	Skipped int `json:"skipped"`
}

// documented are the cases that docs/volcano.md names with a reason, because Berth does not support
// them.
var documented = map[string]string{
	"nt01": "networkTopology: Berth does not know Volcano's HyperNodes",
	"rp01": "partitionPolicy: Berth plans a task whole",
}

// finding is the result of a case.
type finding struct {
	skipped string
	wrong   error
	// played means that one of the controllers did not skip it.
	played bool
	// again is the error of the first run if the second run succeeded.
	again error
}

// join adds the result of the same case with another controller.
func (f *finding) join(other finding) {
	*f = finding{skipped: other.skipped, wrong: errors.Join(f.wrong, other.wrong), played: f.played || other.skipped == ""}
}

// inWords describes the result of a case. For a success it returns "", unless all is set.
func (f *finding) inWords(c *testCase, all bool) string {
	switch why := documented[c.name]; {
	case f.wrong != nil && why == "":
		return fmt.Sprintf("WRONG %s: want %s: %v", c.name, c.want, f.wrong)
	case f.wrong != nil:
		return fmt.Sprintf("documented %s: %s: %v", c.name, why, f.wrong)
	case f.again != nil:
		return fmt.Sprintf("ok %s: %s, played again alone: %v", c.name, c.want, f.again)
	case f.skipped != "":
		return fmt.Sprintf("SKIPPED %s: %s", c.name, f.skipped)
	case all:
		return fmt.Sprintf("ok %s: %s", c.name, c.want)
	}
	return ""
}

func (r *result) add(c *testCase, f finding) {
	if !f.played {
		r.Skipped++
		return
	}
	switch c.class {
	case ofExample:
		r.Examples++
	case ofE2E:
		r.E2E++
	}
	switch {
	case f.wrong != nil && documented[c.name] != "":
		r.Documented++
	case f.wrong != nil:
		r.Wrong++
	case c.class == ofExample:
		r.Run++
	case c.class == ofE2E:
		r.AsVolcano++
	case c.class == ofKoordinator:
		r.Koordinator++
	}
}

func (r *result) write(out io.Writer) error {
	last, err := json.Marshal(r)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s\n", last)
	if r.Wrong > 0 || r.Silent > 0 || r.Run < r.Examples {
		return errWrong
	}
	return nil
}

// errWrong ends the program with exit code 1; the output already has the reason.
var errWrong = errors.New("not every file has the same result as with its own system")

// tell counts and prints the kinds and fields that are ignored without a warning.
func (r *result) tell(out io.Writer, silent []string) {
	for _, s := range silent {
		fmt.Fprintln(out, "SILENT "+s)
	}
	r.Silent += len(silent)
}
