// Command next reads the output of go build for this repository with another release of Kubernetes,
// and lists the compile errors and their places. make next calls it. It exits with 1 if there are
// any. With the argument "newest" it reads the output of go list -m -versions instead, and prints
// the newest release.
package main

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

func main() {
	if err := run(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string, in io.Reader, out io.Writer) error {
	if slices.Equal(args, []string{"newest"}) {
		text, err := io.ReadAll(in)
		if err != nil {
			return err
		}
		newest, err := newest(string(text))
		fmt.Fprintln(out, newest)
		return err
	}
	if len(args) > 0 {
		return fmt.Errorf("arguments %q: want no argument, or newest", args)
	}
	r, err := read(in)
	if err != nil {
		return err
	}
	return r.print(out)
}

// release matches a version that is not an alpha, a beta or a release candidate.
var release = regexp.MustCompile(`^v(\d+)\.(\d+)\.(\d+)$`)

// newest returns the newest release among the words of text.
func newest(text string) (string, error) {
	var best []int
	for _, word := range strings.Fields(text) {
		if m := release.FindStringSubmatch(word); m != nil {
			var v []int
			for _, digits := range m[1:] {
				n, err := strconv.Atoi(digits)
				if err != nil {
					return "", fmt.Errorf("version %q: %w", word, err)
				}
				v = append(v, n)
			}
			if slices.Compare(v, best) > 0 {
				best = v
			}
		}
	}
	if best == nil {
		return "", fmt.Errorf("versions %q: want at least one release, such as v0.1.0", text)
	}
	return fmt.Sprintf("v%d.%d.%d", best[0], best[1], best[2]), nil
}

// brk is one compile error.
type brk struct {
	pkg, file string
	line      int
	// what is the compiler's message, including its further lines.
	what string
}

// report has the compiler's errors by place, and the other output of go build.
type report struct {
	breaks []brk
	others []string
}

// position matches the first line of a message of the compiler, or of go list about an import.
var position = regexp.MustCompile(`^(\S+\.go):(\d+):(?:\d+:)? (.*)$`)

// read parses the output of go build. It keeps other output unchanged, for example an error of the
// module graph.
func read(in io.Reader) (report, error) {
	var r report
	pkg, inMessage := "", false
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		m := position.FindStringSubmatch(line)
		switch {
		case strings.HasPrefix(line, "# "):
			pkg, inMessage = strings.Fields(line + " ?")[1], false
		case m != nil:
			n, err := strconv.Atoi(m[2])
			if err != nil {
				return r, fmt.Errorf("%q: line: %w", line, err)
			}
			r.breaks, inMessage = append(r.breaks, brk{pkg: pkg, file: m[1], line: n, what: m[3]}), true
		case inMessage && strings.HasPrefix(line, "\t"):
			r.breaks[len(r.breaks)-1].what += "; " + strings.TrimSpace(line)
		case strings.TrimSpace(line) != "" && !strings.HasPrefix(line, "go: downloading "):
			r.others, inMessage = append(r.others, line), false
		}
	}
	return r, lines.Err()
}

// print lists the compile errors by file and line, and then the other output. It returns an error
// with their number.
func (r report) print(out io.Writer) error {
	slices.SortStableFunc(r.breaks, func(a, b brk) int {
		return cmp.Or(strings.Compare(a.pkg, b.pkg), strings.Compare(a.file, b.file), cmp.Compare(a.line, b.line))
	})
	pkg, packages := "", 0
	for i, b := range r.breaks {
		if i == 0 || b.pkg != pkg {
			pkg, packages = b.pkg, packages+1
			fmt.Fprintln(out, cmp.Or(pkg, "(imports)"))
		}
		fmt.Fprintf(out, "  %s:%d: %s\n", b.file, b.line, b.what)
	}
	for _, line := range r.others {
		fmt.Fprintln(out, line)
	}
	if len(r.breaks)+len(r.others) == 0 {
		fmt.Fprintln(out, "nothing breaks")
		return nil
	}
	return fmt.Errorf("breaks: %d, packages: %d, other messages: %d; the packages that import these were not compiled", len(r.breaks), packages, len(r.others))
}
