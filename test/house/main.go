// Command house measures how much of the code a reader must keep in mind at once: the methods that
// can be reached through a type, the fields of a struct, the lengths of functions, and the backward
// uses between the files of a package. It reads only Go source, and prints figures of well-kept
// projects for comparison. No figure is a limit.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	root := flag.String("C", ".", "the root of the module to measure")
	top := flag.Int("top", 12, "how many types, structs and packages to print")
	flag.Parse()
	if err := run(*root, *top); err != nil {
		fmt.Fprintln(os.Stderr, "house:", err)
		os.Exit(1)
	}
}

func run(root string, top int) error {
	h, err := measure(root)
	if err != nil {
		return err
	}
	h.print(os.Stdout, top)
	return nil
}
