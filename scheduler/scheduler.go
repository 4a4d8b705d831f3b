// Package scheduler builds a custom berth-scheduler: the command of cmd/berth-scheduler with
// providers for additional resources (docs/extending.md).
package scheduler

import (
	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/internal/scheduler"
	"github.com/berth-dev/berth/internal/scheduler/command"
	"github.com/berth-dev/berth/placement"
)

// Command returns the command of berth-scheduler with the providers. Its flags and its
// configuration file are those of kube-scheduler. Run it with k8s.io/component-base/cli.Run.
func Command(providers ...placement.Provider) *cobra.Command {
	return command.New(scheduler.With(scheduler.Options{Providers: providers}))
}
