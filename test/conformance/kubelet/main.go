// Command kubelet runs the genuine kubelet's resource managers as a filter. It reads cases, one per
// line, and prints the managers' result of each. The go.mod of the build selects the release of
// Kubernetes (versions/README.md).
//
// After a case in which the kubelet hung or crashed the program ends, because the managers'
// goroutines cannot be stopped.
package main

import (
	"fmt"
	"os"
	"time"

	"github.com/berth-dev/berth/test/conformance"
)

func main() {
	if err := conformance.Serve(os.Stdin, os.Stdout, conformance.AnswerOracle(10*time.Second)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
