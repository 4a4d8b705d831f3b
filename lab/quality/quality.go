package main

import (
	"io"
	"os"

	"github.com/berth-dev/berth/internal/simulate"
	"github.com/berth-dev/berth/internal/simulate/trace"
)

// quality is one measurement.
type quality struct {
	from, results string
	full          bool
	instances     int
	seeds         []int64
	nodes         []trace.Node
	out           io.Writer
	rows          []matrixRow
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

// matrixRow is a combination in the table of all.
type matrixRow struct {
	name   string
	judged bool
	sums   []simulate.Summary
}
