package golden

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
)

// Stage runs the commands of a story.
type Stage interface {
	// Do runs the command of one line. word is the first word of the line, args are the others.
	Do(word string, args []string) error
	// Tell returns the output since the last call of Tell. Each line ends with a line break.
	Tell() string
}

// Stories runs the stories in testdata/*.txt, each on a new stage. A story consists of blocks:
// commands, a line of four dashes, and their output until the next blank line. Lines that begin
// with # are for readers.
func Stories(t *testing.T, stage func(*testing.T) Stage) {
	each(t, func(t *testing.T, path string) { tell(t, path, stage(t)) })
}

// BubbleStories runs each story in a bubble of testing/synctest, so that the stage may start
// goroutines and wait for them.
func BubbleStories(t *testing.T, stage func(*testing.T) Stage) {
	each(t, func(t *testing.T, path string) {
		synctest.Test(t, func(t *testing.T) { tell(t, path, stage(t)) })
	})
}

func each(t *testing.T, do func(t *testing.T, path string)) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d stories, error %v", len(files), err)
	}
	for _, path := range files {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) { do(t, path) })
	}
}

func tell(t *testing.T, path string, s Stage) {
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	now, err := play(s, string(text))
	if err != nil {
		t.Fatal(err)
	}
	File(t, path, now)
}

// play returns the story with the current output of its commands.
func play(s Stage, story string) (string, error) {
	var out strings.Builder
	told, open := false, "" // told: between dashes and a blank line; open: a command without output so far
	for line := range strings.Lines(story) {
		line = strings.TrimRight(line, " \n")
		words := strings.Fields(line)
		switch {
		case line == "----":
			told, open = true, ""
			fmt.Fprintf(&out, "----\n%s", s.Tell())
			continue
		case told && line != "":
			continue // the output of the last run
		}
		told = false
		fmt.Fprintln(&out, line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		open = line
		if err := s.Do(words[0], words[1:]); err != nil {
			return "", fmt.Errorf("%s: %w", line, err)
		}
	}
	if open != "" {
		return "", fmt.Errorf("%s: no line of dashes follows", open)
	}
	return out.String(), nil
}
