// Command house measures how much of the code a reader must hold in mind at once: methods that are
// reached through a type, fields of a struct, lengths of functions, and arrows between the files of
// a package that run back. It reads the Go source only, and prints figures of well-kept projects
// next to them. No figure is a limit.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	root := flag.String("C", ".", "the root of the module to measure")
	top := flag.Int("top", 12, "how many types, structs and rooms to print")
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
