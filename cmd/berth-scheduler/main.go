// Command berth-scheduler is a complete kube-scheduler with the Berth plugin in it. Flags and configuration file are
// those of kube-scheduler; the plugin is switched on in a profile's plugins.multiPoint.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // metrics of client-go
	_ "k8s.io/component-base/metrics/prometheus/version"  // build_info
	"k8s.io/kubernetes/cmd/kube-scheduler/app"

	"github.com/berth-dev/berth/internal/scheduler"
)

func main() { os.Exit(run()) }

func run() int {
	return cli.Run(app.NewSchedulerCommand(app.WithPlugin(scheduler.Name, scheduler.New), app.WithPlugin(scheduler.TiersName, scheduler.NewTiers)))
}
