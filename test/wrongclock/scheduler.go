package wrongclock

import (
	"io"

	"github.com/berth-dev/berth/internal/demo"
	"github.com/berth-dev/berth/internal/scheduler"
	"github.com/berth-dev/berth/internal/scheduler/command"
)

// VerbScheduler runs Berth's scheduler with a clock that may be wrong; arguments: the file that the
// clock follows, then those of kube-scheduler.
const VerbScheduler = "scheduler"

// Role is VerbScheduler, for package trial.
func Role(args []string, stdin io.Reader, _ io.Writer) (code int, ok bool) {
	if len(args) < 2 || args[0] != VerbScheduler {
		return 0, false
	}
	return demo.RunScheduler(command.New(scheduler.With(scheduler.Options{Clock: Follow(args[1])})), args[2:], stdin), true
}
