// Package cli has the verbs of the berth command, one file each. A verb reads its input, calls
// other packages and prints the result. It makes no decisions about placement.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/berth-dev/berth/internal/suggest"
	"github.com/berth-dev/berth/internal/version"
)

// The exit codes of the command.
const (
	ExitOK      = 0
	ExitFailure = 1 // bad input, or the answer is no
	ExitUsage   = 2 // wrong flags or arguments
)

// UsageError is an error in the command line (flags, number of arguments). Errors in the input are
// not UsageErrors.
type UsageError struct{ Err error }

func (e *UsageError) Error() string { return e.Err.Error() }
func (e *UsageError) Unwrap() error { return e.Err }

// Usagef returns a UsageError.
func Usagef(format string, args ...any) error { return &UsageError{fmt.Errorf(format, args...)} }

// Run executes the command line args (args[0] is the program's name) and returns the exit code. The
// argument more has additional verbs of the program.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, more ...*cobra.Command) int {
	root := newRoot(filepath.Base(args[0]))
	root.AddCommand(more...)
	root.SetArgs(args[1:])
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	refuseUnknownShells(root)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return ExitOK
	}
	fmt.Fprintf(stderr, "%s: %v\n", root.Name(), err)
	var usage *UsageError
	if errors.As(err, &usage) || strings.HasPrefix(err.Error(), "unknown command") { // cobra's error for an unknown command has no type
		return ExitUsage
	}
	return ExitFailure
}

func newRoot(program string) *cobra.Command {
	root := &cobra.Command{
		Use:   "berth",
		Short: "NUMA-exact placement for Kubernetes",
		Long: `berth answers questions about the pods and nodes of a cluster, or about one machine without a cluster: which NUMA nodes,
CPUs, memory and devices pods have or would get, and why a kubelet would reject them.`,
		Version:       version.Text(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noSuchVerb,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },

		PersistentPreRunE: refuseEmpty,
	}
	if strings.HasPrefix(program, "kubectl-") {
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl berth"}
	}
	root.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	root.SetUsageTemplate(usageTemplate(root))
	root.SetFlagErrorFunc(flagError)
	root.AddCommand(verbs()...)
	root.InitDefaultHelpCmd()
	for _, verb := range root.Commands() {
		if verb.Name() == "help" {
			verb.Args = helpTopic
		}
	}
	return root
}

// helpTopic checks the arguments of the command help.
func helpTopic(cmd *cobra.Command, args []string) error {
	if topic, _, err := cmd.Root().Find(args); err == nil && topic != cmd.Root() {
		return nil
	}
	return noSuchVerb(cmd.Root(), args)
}

// refuseUnknownShells adds the command completion, which prints to the root's current output. By
// default, cobra prints help for an unknown shell and returns no error.
func refuseUnknownShells(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, verb := range root.Commands() {
		if verb.Name() == "completion" {
			verb.Args, verb.RunE = noSuchVerb, root.RunE
		}
	}
}

// noArguments returns an error if there are arguments.
var noArguments = arguments(0, 0, "no arguments")

// arguments returns a check of the number of arguments. The argument want describes the correct
// arguments.
func arguments(least, most int, want string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if least <= len(args) && len(args) <= most {
			return nil
		}
		return Usagef("%s: want %s (see %s --help)", strings.Join(append([]string{cmd.Name()}, args...), " "), want, cmd.CommandPath())
	}
}

// noSuchVerb checks the arguments of a command that only has subcommands. Any argument is an
// unknown subcommand.
func noSuchVerb(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, verb := range cmd.Commands() {
		names = append(append(names, verb.Name()), verb.Aliases...)
	}
	return Usagef("unknown command %q%s (see %s --help)", args[0], suggest.DidYouMean(args[0], names), cmd.CommandPath())
}

// flagError adds a similar flag to the error about an unknown flag, and the form of valid values to
// the error about an invalid value.
func flagError(cmd *cobra.Command, err error) error {
	if missing, ok := errors.AsType[*pflag.NotExistError](err); ok {
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
		return Usagef("%w%s (see %s --help)", err, suggest.DidYouMean("--"+missing.GetSpecifiedName(), names), cmd.CommandPath())
	}
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		if want := wantOf[invalid.GetFlag().Value.Type()]; want != "" {
			return Usagef("--%s %q: want %s", invalid.GetFlag().Name, invalid.GetValue(), want)
		}
	}
	return &UsageError{err}
}

// wantOf describes the valid values of flags, by pflag's names of types.
var wantOf = map[string]string{
	"int": "a whole number", "int64": "a whole number", "float64": "a number", "bool": "true or false",
	"duration": "a duration like 30s or 5m", "stringToInt": "NAME=COUNT",
}

// neverEmpty are the flags whose value may not be empty. An empty value usually comes from an unset
// variable of a script, and without the value the verb would answer another question.
var neverEmpty = []string{
	"filename", "for", "trace", "on", "set", "without", "strategy", "snapshot", "state", "lscpu", "capture", "device",
	"heartbeat-namespace", "hold-image", "host", "url",
	nodeFlag, kubeletConfigFlag, kubeletDropInsFlag, podsOfFlag,
}

func refuseEmpty(cmd *cobra.Command, _ []string) error {
	for _, name := range neverEmpty {
		if f := cmd.Flags().Lookup(name); f != nil && f.Changed && (f.Value.String() == "" || f.Value.String() == "[]") {
			return Usagef("--%s is empty: want a value, or leave it out", name)
		}
	}
	return nil
}
