package wrongclock

import (
	"io"

	"github.com/berth-dev/berth/internal/demo"
	"github.com/berth-dev/berth/internal/scheduler"
	"github.com/berth-dev/berth/internal/scheduler/command"
)

// VerbScheduler runs Berth's scheduler with a wrong clock. Its arguments are the clock's file, then
// kube-scheduler's arguments.
const VerbScheduler = "scheduler"

// Role implements VerbScheduler, for package trial.
func Role(args []string, stdin io.Reader, _ io.Writer) (code int, ok bool) {
	if len(args) < 2 || args[0] != VerbScheduler {
		return 0, false
	}
	return demo.RunScheduler(command.New(scheduler.With(scheduler.Options{Clock: Follow(args[1])})), args[2:], stdin), true
}
