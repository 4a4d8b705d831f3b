// Package cli holds the verbs of the berth command, one file each. A verb reads, calls one function of the
// packages below, and prints; it decides nothing.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/internal/version"
)

// Exit codes of the command.
const (
	ExitOK      = 0
	ExitFailure = 1 // bad input, or the answer is no
	ExitUsage   = 2 // wrong flags or arguments
)

// UsageError marks an error of the caller's words (flags, number of arguments) rather than of the input.
type UsageError struct{ Err error }

func (e *UsageError) Error() string { return e.Err.Error() }
func (e *UsageError) Unwrap() error { return e.Err }

// Usagef returns a UsageError.
func Usagef(format string, args ...any) error { return &UsageError{fmt.Errorf(format, args...)} }

// Run executes the command line args (args[0] is the program's name) and returns the exit code.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRoot(filepath.Base(args[0]))
	root.SetArgs(args[1:])
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return ExitOK
	}
	fmt.Fprintf(stderr, "%s: %v\n", root.Name(), err)
	var usage *UsageError
	if errors.As(err, &usage) || isCobraUsage(err) {
		return ExitUsage
	}
	return ExitFailure
}

// isCobraUsage recognises the errors that cobra makes itself, which carry no type.
func isCobraUsage(err error) bool {
	text := err.Error()
	return strings.HasPrefix(text, "unknown command") || strings.HasPrefix(text, "required flag")
}

func newRoot(program string) *cobra.Command {
	root := &cobra.Command{
		Use:   "berth",
		Short: "NUMA-exact placement for Kubernetes",
		Long: `berth looks at machines, live or captured, and asks where pods fit: on which NUMA nodes,
CPUs, memory and devices the kubelet would put them, or why it would refuse them.`,
		Version:       version.Version,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          usageArgs(cobra.NoArgs),
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	if strings.HasPrefix(program, "kubectl-") {
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl berth"}
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &UsageError{err} })
	root.AddCommand(verbs()...)
	return root
}

// usageArgs makes an argument check answer with a UsageError.
func usageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return &UsageError{fmt.Errorf("%w (see %s --help)", err, cmd.CommandPath())}
		}
		return nil
	}
}
