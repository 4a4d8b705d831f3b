// Package scheduler builds a custom berth-scheduler: the command of cmd/berth-scheduler with
// providers of more resources (docs/extending.md).
package scheduler

import (
	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/internal/scheduler"
	"github.com/berth-dev/berth/internal/scheduler/command"
	"github.com/berth-dev/berth/placement"
)

// Command returns berth-scheduler with the providers. Its flags and its configuration file are
// those of kube-scheduler; k8s.io/component-base/cli.Run runs it.
func Command(providers ...placement.Provider) *cobra.Command {
	return command.New(scheduler.With(scheduler.Options{Providers: providers}))
}
