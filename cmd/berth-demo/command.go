package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-dev/berth/internal/demo"
	"github.com/berth-dev/berth/internal/scheduler"
	"github.com/berth-dev/berth/internal/version"
)

// errNotKept means that a node refused a pod that Berth had bound, or did not assign the promised
// CPUs, memory and devices. The exit code is then 1.
var errNotKept = errors.New("promise not kept: a node refused a pod that Berth had bound, or did not assign what Berth had promised")

// options are the flags of the verbs run, up and scene. Only run has flags for output, runs and
// args.
type options struct {
	demo.Options
	output string
	log    string
	runs   int
	// args are the arguments of Berth's plugin in the runs with Berth.
	args  string
	berth demo.Berth
}

// command returns the root command. It sets parsed as soon as the command line has been parsed
// without an error.
func command(stdout, stderr io.Writer, parsed *bool) *cobra.Command {
	root := &cobra.Command{
		Use:           "berth-demo",
		Short:         "Run a real control plane with hollow nodes, and pods in their berths",
		Version:       version.Text(),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	// A package of Kubernetes declares a flag with this name for all commands; this flag replaces
	// it.
	root.Flags().BoolP("version", "v", false, "version of berth-demo")
	root.PersistentPreRun = func(*cobra.Command, []string) { *parsed = true }
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(upCommand(stdout, stderr), breakCommand(stdout), mendCommand(stdout), exampleCommand(stdout), sceneCommand(stdout, stderr), runCommand(stdout, stderr))
	return root
}

// addFlags adds the common flags of run and up. The argument nodes is the default number of nodes.
func (o *options) addFlags(cmd *cobra.Command, nodes int) {
	cmd.Flags().IntVar(&o.Nodes, "nodes", nodes, fmt.Sprintf("number of hollow nodes (kubelet managers without machines), at most %d; the first %d can pin only CPUs; the first %d include every kind of node",
		demo.MaxNodes, demo.MinNodes, demo.AllNodes))
	cmd.Flags().BoolVar(&o.Keep, "keep", false, "keep the directories of the clusters, with all logs")
	cmd.Flags().StringVar(&o.log, "log", "", "file for the log of the control plane")
}

// maxRuns limits the number of comparisons, because each takes about four minutes.
const maxRuns = 99

// usageError is an error in the command line.
type usageError struct{ error }

// check returns an error if the flags are invalid.
func (o *options) check() error {
	if err := demo.CheckWorkload(o.Nodes); err != nil {
		return usageError{fmt.Errorf("--nodes: %w", err)}
	}
	if o.output != "table" && o.output != "json" {
		return usageError{fmt.Errorf("--output %q: want table or json", o.output)}
	}
	if o.runs < 1 || o.runs > maxRuns {
		return usageError{fmt.Errorf("--runs %d: want 1 to %d", o.runs, maxRuns)}
	}
	if o.args == "" {
		return nil
	}
	args, err := scheduler.ParseArgs(&runtime.Unknown{Raw: []byte(o.args)})
	if err != nil {
		return usageError{fmt.Errorf("--args: %w", err)}
	}
	o.berth.Args = &args
	return nil
}

// open opens the log, and sets Progress and Self. The caller must call closeLog at the end.
func (o *options) open(stderr io.Writer) (closeLog func(), err error) {
	o.Progress = stderr
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	o.Self = []string{self}
	if o.log == "" {
		return func() {}, nil
	}
	f, err := os.Create(o.log)
	if err != nil {
		return nil, err
	}
	o.Log = f
	return func() { f.Close() }, nil
}

func runCommand(stdout, stderr io.Writer) *cobra.Command {
	o := &options{}
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Play one workload under kube-scheduler, then under Berth, and compare",
		Long: "Starts a cluster with kube-scheduler and plays a few hundred pods on it, then the same on a fresh cluster with Berth:\n" +
			"about two minutes for each. With --runs it repeats this, and prints medians and ranges. Progress goes to standard error, the comparison to standard output. Exits with 1 if a node refused a pod that\n" +
			"Berth had placed, or assigned other CPUs than predicted.",
		Args:    cobra.NoArgs,
		PreRunE: func(*cobra.Command, []string) error { return o.check() },
		RunE:    func(cmd *cobra.Command, _ []string) error { return o.compare(cmd.Context(), stdout, stderr) },
	}
	o.addFlags(cmd, demo.AllNodes)
	cmd.Flags().Uint64Var(&o.Seed, "seed", 1, "seed of the workload; equal seeds give equal workloads")
	cmd.Flags().IntVar(&o.runs, "runs", 1, "number of comparisons; with several, the table has medians, and json has a line for each")
	cmd.Flags().StringVar(&o.args, "args", "", "arguments of Berth's plugin, as YAML: {keep: cpusNearDevices, cpusPerDevice: {nvidia.com/gpu: 8}}; none means its defaults")
	cmd.Flags().StringVarP(&o.output, "output", "o", "table", "table or json")
	return cmd
}

func (o *options) compare(ctx context.Context, stdout, stderr io.Writer) error {
	closeLog, err := o.open(stderr)
	if err != nil {
		return err
	}
	defer closeLog()
	var c demo.Comparisons
	for i := range o.runs {
		if o.runs > 1 {
			fmt.Fprintf(stderr, "Run %d of %d.\n", i+1, o.runs)
		}
		one, err := demo.Compare(ctx, o.Options, demo.Stock{}, o.berth)
		if err != nil && len(c) > 0 {
			// The command still prints the results of the completed runs, because each run takes
			// minutes.
			err = errors.Join(fmt.Errorf("run %d of %d: %w", i+1, o.runs, err), o.write(c, stdout))
		}
		if err != nil {
			return err
		}
		c = append(c, one)
	}
	if err := o.write(c, stdout); err != nil {
		return err
	}
	if !c.Kept() {
		return errNotKept
	}
	return nil
}

func (o *options) write(c demo.Comparisons, w io.Writer) error {
	if o.output == "json" {
		return c.WriteJSON(w)
	}
	return c.WriteTable(w)
}
