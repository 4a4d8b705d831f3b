// Command replay prints what a kubelet would do with recorded cases. It reads them, one JSON
// document a line, from FILE (unpacked if its name ends in .gz) or from standard input, and answers
// them in that order. The README describes both forms.
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
