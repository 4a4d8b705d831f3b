// Command replay prints what a kubelet would do with recorded cases. It reads the cases, one JSON
// document per line, from FILE (which it unpacks if the name ends in .gz) or from standard input,
// and prints the results in the same order. The README describes both forms.
//
// Usage: go run ./test/replay [-kubelet-version v1.36] [FILE]
package main

import (
	"fmt"
	"os"

	"github.com/berth-dev/berth/test/replay/play"
)

func main() {
	if err := play.Command(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "replay:", err)
		os.Exit(1)
	}
}
