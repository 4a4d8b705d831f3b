package main

import (
	"fmt"
	"strings"
)

// Step is a command of a document, with its documented output.
type Step struct {
	Command string
	// Output are the lines below a command after "$ ". It is nil for other commands, because the
	// document does not show their output.
	Output []string
	// Line is the command's line in the document.
	Line int
}

// Steps returns the commands in the indented blocks of a document, in order. It reads the section
// with this heading up to the next heading of its level; "" means the whole document. In a block
// with lines that begin with "$ ", these are the commands, and the others are output. In any other
// block every line is a command.
func Steps(text, heading string) []Step {
	var out []Step
	var block []string
	in := heading == ""
	flush := func(end int) {
		if in && len(block) > 0 {
			out = append(out, stepsOf(block, end-len(block))...)
		}
		block = nil
	}
	blank := 0
	for n, line := range strings.Split(text+"\n.", "\n") {
		switch {
		case strings.HasPrefix(line, "    "):
			for ; blank > 0; blank-- {
				block = append(block, "")
			}
			block = append(block, line[4:])
		case strings.TrimSpace(line) == "" && len(block) > 0:
			blank++
		default:
			flush(n + 1 - blank)
			blank = 0
			if level, title, ok := strings.Cut(line, " "); ok && level != "" && strings.Trim(level, "#") == "" {
				in = heading == "" || title == heading
			}
		}
	}
	return out
}

// stepsOf reads a block; at is the line of its beginning.
func stepsOf(block []string, at int) (out []Step) {
	shown := strings.HasPrefix(block[0], "$ ")
	for i, line := range block {
		command, is := strings.CutPrefix(line, "$ ")
		switch {
		case shown && !is:
			last := &out[len(out)-1]
			last.Output = append(last.Output, line)
		case shown:
			out = append(out, Step{Command: command, Line: at + i, Output: []string{}})
		case line != "":
			// A text after two blanks and a hash describes the command.
			command, _, _ := strings.Cut(line, "  #")
			out = append(out, Step{Command: strings.TrimSpace(command), Line: at + i})
		}
	}
	return out
}

// packagesOf returns the words of the line `apt-get install` of a document, without options.
func packagesOf(text string) ([]string, error) {
	for line := range strings.Lines(text) {
		words, ok := strings.CutPrefix(strings.TrimSpace(line), "apt-get install ")
		if !ok {
			continue
		}
		words, _, _ = strings.Cut(words, "#")
		var packages []string
		for _, w := range strings.Fields(words) {
			if !strings.HasPrefix(w, "-") {
				packages = append(packages, w)
			}
		}
		return packages, nil
	}
	return nil, fmt.Errorf("no line begins with apt-get install: want the line with the packages of a fresh machine")
}
