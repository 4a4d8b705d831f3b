package play

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/test/replay/cases"
)

// Command answers the cases of a file, or of stdin: args are [-kubelet-version v1.36] [FILE].
func Command(args []string, stdin io.Reader, out io.Writer) error {
	flags := flag.NewFlagSet("replay", flag.ContinueOnError)
	version := flags.String("kubelet-version", "v1.36", "the kubelet's release, v1.33 to v1.37")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil
		}
		return err
	}
	release, err := wire.ReadKubeletVersion(*version)
	if err != nil {
		return fmt.Errorf("-kubelet-version: %w", err)
	}
	if !release.Known() {
		return fmt.Errorf("-kubelet-version %q: want v1.33 to v1.37", *version)
	}
	if flags.NArg() > 1 {
		return fmt.Errorf("%d files: want one, or none for standard input", flags.NArg())
	}
	name := flags.Arg(0)
	if name == "" || name == "-" {
		name = "standard input"
	} else {
		file, err := cases.Open(name)
		if err != nil {
			return err
		}
		defer file.Close()
		stdin = file
	}
	if err := answerAll(stdin, out, release); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// answerAll answers case by case. The answers before a case that cannot be read are printed.
func answerAll(in io.Reader, out io.Writer, release placement.Version) (err error) {
	w := bufio.NewWriter(out)
	defer func() { err = errors.Join(err, w.Flush()) }()
	for c, err := range cases.ReadCases(in) {
		if err != nil {
			return err
		}
		r, err := Run(c, release)
		if err != nil {
			return err
		}
		line, err := cases.Encode(r)
		if err != nil {
			return err
		}
		if _, err := w.Write(line); err != nil {
			return err
		}
	}
	return nil
}
