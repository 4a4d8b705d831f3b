// Command kubelet is the genuine kubelet's resource managers as a filter: cases in, one a line, and
// what the managers did with each out. Which release of Kubernetes it holds is decided when it is
// built: see versions/README.md.
//
// After a case in which the kubelet hung or crashed it ends, since the managers' goroutines cannot
// be stopped.
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
