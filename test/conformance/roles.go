package conformance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/berth-dev/berth/internal/featuregates"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/test/conformance/gen"
	"github.com/berth-dev/berth/test/conformance/oracle"
	"github.com/berth-dev/berth/test/replay/cases"
)

// Told is an oracle's answer to a case, as a child writes it.
type Told struct {
	oracle.Told
	// Error is set when the child itself could not do its work.
	Error string `json:"error,omitempty"`
}

// AnswerOracle returns an answer function for Serve. It answers a case with a Told, and a Folder
// with an Over. After a hang or a crash it returns stop.
func AnswerOracle(timeout time.Duration) func([]byte) ([]byte, bool) {
	return func(line []byte) ([]byte, bool) {
		if f, ok := folderOf(line); ok {
			return reply(startOver(&f)), false
		}
		t := tell(line, timeout)
		return reply(t), t.Outcome != oracle.Finished
	}
}

// Folder has a kubelet's checkpoints, by their names in its root directory, and a case with the
// machine and the configuration of the kubelet that starts over them.
type Folder struct {
	Case  json.RawMessage   `json:"case"`
	Files map[string][]byte `json:"files"`
}

// Over is an oracle's answer to a Folder.
type Over struct {
	oracle.Started
	Error string `json:"error,omitempty"`
}

// folderOf reads a Folder; false if the line is a case.
func folderOf(line []byte) (f Folder, ok bool) {
	return f, json.Unmarshal(line, &f) == nil && f.Case != nil
}

func startOver(f *Folder) Over {
	c, err := cases.DecodeCase(f.Case)
	if err != nil {
		return Over{Error: fmt.Sprintf("case: %v", err)}
	}
	s, err := oracle.Start(c, f.Files)
	if err != nil {
		return Over{Error: err.Error()}
	}
	return Over{Started: s}
}

func tell(line []byte, timeout time.Duration) Told {
	c, err := cases.DecodeCase(line)
	if err != nil {
		return Told{Error: fmt.Sprintf("case: %v", err)}
	}
	t, err := oracle.Run(c, oracle.Options{Timeout: timeout})
	if err != nil {
		return Told{Error: err.Error()}
	}
	return Told{Told: t}
}

// Compared is the result of running one case with the kubelet and with an engine, as a child writes
// it.
type Compared struct {
	Comparison
	// Line is the case, when something differs.
	Line string `json:"line,omitempty"`
	// Kubelet and Engine are the time that each took, in milliseconds.
	Kubelet float64 `json:"kubelet"`
	Engine  float64 `json:"engine"`
	Error   string  `json:"error,omitempty"`
}

// Engine answers a case instead of the kubelet.
type Engine func(*cases.Case) Answered

// Answered is an engine's answer.
type Answered struct {
	Result *cases.Result
	// Declined means that the engine does not predict a kubelet with this machine and
	// configuration, although the kubelet would start; Result.StartupError has the reason.
	Declined bool
}

// AnswerCompare returns an answer function for Serve. It answers a seed or a case with a Compared.
func AnswerCompare(engine Engine, timeout time.Duration) func([]byte) ([]byte, bool) {
	return func(line []byte) ([]byte, bool) {
		c, err := caseOf(line)
		if err != nil {
			return reply(Compared{Error: err.Error()}), false
		}
		want, err := oracle.Run(c, oracle.Options{Timeout: timeout})
		if err != nil {
			return reply(Compared{Error: err.Error()}), false
		}
		begin := time.Now()
		out := judge(&want, engine(c))
		out.Engine = float64(time.Since(begin).Microseconds()) / 1000
		if len(out.Differences) > 0 {
			b, err := cases.Encode(c)
			if err != nil {
				out.Error = err.Error()
			}
			out.Line = string(bytes.TrimSpace(b))
		}
		return reply(out), want.Outcome != oracle.Finished
	}
}

// judge compares an engine's answer with the kubelet's; if the engine declines, nothing is
// compared.
func judge(told *oracle.Told, got Answered) Compared {
	out := Compared{Kubelet: told.Result.Millis}
	if got.Declined && told.Result.StartupError == "" {
		out.Comparison = Comparison{Declined: true, Left: count(told.Result.Events).all}
		return out
	}
	out.Comparison = Compare(told, got.Result)
	return out
}

// caseOf reads a case, or generates the case of a seed.
func caseOf(line []byte) (*cases.Case, error) {
	if seed, err := strconv.ParseUint(string(bytes.TrimSpace(line)), 10, 64); err == nil {
		return caseFor(seed, oracle.Version), nil
	}
	return cases.DecodeCase(line)
}

// caseFor makes the case of a seed for a kubelet release. It removes feature gates with which that
// kubelet would not start, and fields of pods that it cannot decode.
func caseFor(seed uint64, version placement.Version) *cases.Case {
	c := gen.Case(seed)
	for {
		wrong, _ := featuregates.Wrong(c.Config.FeatureGates, uint8(version))
		if wrong == "" {
			break
		}
		delete(c.Config.FeatureGates, wrong)
	}
	if version < placement.V134 { // pods of these releases have no such field
		gen.Unclaim(c)
	}
	return c
}

func reply(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		return []byte(`{"error":"no JSON"}`)
	}
	return b
}
