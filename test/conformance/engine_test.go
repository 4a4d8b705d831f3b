package conformance

import (
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/test/conformance/oracle"
	"github.com/berth-dev/berth/test/replay/cases"
	"github.com/berth-dev/berth/test/replay/play"
)

// engine answers a case as a kubelet of the release that the main module links.
func engine(c *cases.Case) Answered { return answer(c, oracle.Version) }

// answer answers a case with the engine under test, as a kubelet of the given release.
func answer(c *cases.Case, version placement.Version) Answered {
	r, err := play.Run(c, version)
	if err != nil {
		return Answered{Result: &cases.Result{ID: "error: " + err.Error()}}
	}
	return Answered{Result: r, Declined: r.StartupError != "" && play.Declined(c, version)}
}
