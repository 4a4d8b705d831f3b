// Command berth-scheduler is an example of a custom scheduler: Berth's scheduler with licences per
// socket. The environment variable LICENCES_PER_SOCKET has the number of licences of each socket.
package main

import (
	"fmt"
	"os"
	"strconv"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // metrics of client-go
	_ "k8s.io/component-base/metrics/prometheus/version"  // build_info

	"github.com/berth-dev/berth/examples/licences"
	"github.com/berth-dev/berth/scheduler"
)

const countVariable = "LICENCES_PER_SOCKET"

func main() {
	count, err := strconv.ParseUint(os.Getenv(countVariable), 10, 30)
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %q: want the number of licences that each socket has\n", countVariable, os.Getenv(countVariable))
		os.Exit(2)
	}
	os.Exit(cli.Run(scheduler.Command(licences.PerSocket{Name: "example.com/licence", Count: count})))
}
