// Command house measures how much of the code a reader must hold in mind at once: methods per type,
// fields and bools per struct, lengths of functions, and arrows between the files of a package that
// run back. It reads the Go source alone; limits.txt holds the figures that must not grow.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	root := flag.String("C", ".", "the root of the module to measure")
	top := flag.Int("top", 12, "how many types, structs and rooms to print")
	lower := flag.String("lower", "", "lower the limits in this file to what is measured, where that is less")
	flag.Parse()
	if err := run(*root, *top, *lower); err != nil {
		fmt.Fprintln(os.Stderr, "house:", err)
		os.Exit(1)
	}
}

func run(root string, top int, lower string) error {
	h, err := measure(root)
	if err != nil {
		return err
	}
	h.print(os.Stdout, top)
	if lower == "" {
		return nil
	}
	text, err := os.ReadFile(lower)
	if err != nil {
		return err
	}
	held, err := parseLimits(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", lower, err)
	}
	return os.WriteFile(lower, []byte(held.lowered(h).String()), 0o644)
}
