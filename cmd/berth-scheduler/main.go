// Command berth-scheduler is a complete kube-scheduler with the Berth plugin in it. Flags and
// configuration file are those of kube-scheduler; a profile enables the plugin.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // metrics of client-go
	_ "k8s.io/component-base/metrics/prometheus/version"  // build_info

	"github.com/berth-dev/berth/internal/scheduler"
	"github.com/berth-dev/berth/internal/scheduler/command"
)

func main() { os.Exit(cli.Run(command.New(scheduler.New))) }
