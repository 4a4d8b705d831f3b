package main

import (
	"flag"
	"fmt"
	"io"
	"os"
)

func main() {
	from := flag.String("from", "../shared/realdata/traces/openb", "folder with the lists")
	flag.Parse()
	all, err := loads(*from)
	if err != nil {
		fmt.Fprintln(os.Stderr, "quality:", err)
		os.Exit(1)
	}
	for i := range all {
		fmt.Println(all[i].name, len(all[i].pods), heldOut(i))
	}
}

// readList reads a file.
func readList[T any](name string, read func(io.Reader, string) ([]T, error)) ([]T, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return read(f, name)
}
