package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// result is the last line. A case that is run with two controllers counts once: it is skipped where
// both skip it, and wrong where it is with either.
type result struct {
	// Examples are the valid Jobs of the example folder, Run the ones that ran as they are.
	Examples int `json:"examples"`
	Run      int `json:"run"`
	// E2E are the Jobs of the e2e tests, AsVolcano the ones that ended as they end with Volcano,
	// and Documented the ones that do not and have their reason in the documents.
	E2E        int `json:"e2e"`
	AsVolcano  int `json:"asVolcano"`
	Documented int `json:"documented"`
	// Koordinator are the files in Koordinator's words that ran as they are.
	Koordinator int `json:"koordinator"`
	// Silent are kinds, fields and words of neighbours that Berth neither reads nor names.
	Silent int `json:"silent"`
	// Wrong are cases of all classes that were not as they must be, Skipped the ones that were not
	// played.
	Wrong   int `json:"wrong"`
	Skipped int `json:"skipped"`
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
	// played means that one of the controllers did not skip it.
	played bool
	// again is what was wrong the first time, where the case was played again and is as it must be.
	again error
}

// join adds what came of the same case with another controller.
func (f *finding) join(other finding) {
	*f = finding{skipped: other.skipped, wrong: errors.Join(f.wrong, other.wrong), played: f.played || other.skipped == ""}
}

// inWords describes what came of a case; "" for one that is as it must be, unless all are listed.
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

// errWrong is the answer no; the output has said why.
var errWrong = errors.New("not every file does what it does with its own system")

// tell counts what is passed over in silence, and says so.
func (r *result) tell(out io.Writer, silent []string) {
	for _, s := range silent {
		fmt.Fprintln(out, "SILENT "+s)
	}
	r.Silent += len(silent)
}
