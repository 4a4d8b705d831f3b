package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/internal/demo"
)

// errNotKept is Berth's failure, told by the exit code.
var errNotKept = errors.New("promise not kept: under Berth a pod was refused or mispredicted")

// options are the flags that all verbs share.
type options struct {
	demo.Options
	output string
	log    string
}

// command is the command line; parsed becomes true when it has been understood.
func command(stdout, stderr io.Writer, parsed *bool) *cobra.Command {
	root := &cobra.Command{
		Use:           "berth-demo",
		Short:         "Run a real control plane with hollow nodes, and pods in their berths",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.PersistentPreRun = func(*cobra.Command, []string) { *parsed = true }
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(runCommand(stdout, stderr), upCommand(stdout, stderr))
	return root
}

func (o *options) addFlags(cmd *cobra.Command) {
	cmd.Flags().Uint64Var(&o.Seed, "seed", 1, "seed of the workload; equal seeds give equal workloads")
	cmd.Flags().IntVar(&o.Nodes, "nodes", demo.AllNodes, fmt.Sprintf("number of hollow nodes, %d to %d; the first %d pin CPUs alone, %d are one of each kind",
		demo.MinNodes, demo.MaxNodes, demo.MinNodes, demo.AllNodes))
	cmd.Flags().BoolVar(&o.Keep, "keep", false, "leave the directories of the clusters, with all logs, behind")
	cmd.Flags().StringVar(&o.log, "log", "", "file for the log of the control plane")
}

// usageError is a command line that cannot be carried out.
type usageError struct{ error }

// check says what is wrong with the flags.
func (o *options) check() error {
	if _, err := demo.Nodes(o.Nodes); err != nil {
		return usageError{fmt.Errorf("--nodes: %w", err)}
	}
	if o.output != "table" && o.output != "json" {
		return usageError{fmt.Errorf("--output %q: want table or json", o.output)}
	}
	return nil
}

// complete fills in what flags do not say; close must be called in the end.
func (o *options) complete(stderr io.Writer) (closeLog func(), err error) {
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
			"about two minutes for each. Progress goes to standard error, the comparison to standard output. Exits with 1 when a node refused a pod that\n" +
			"Berth had placed, or gave it something else than predicted.",
		Args:    cobra.NoArgs,
		PreRunE: func(*cobra.Command, []string) error { return o.check() },
		RunE:    func(cmd *cobra.Command, _ []string) error { return o.compare(cmd.Context(), stdout, stderr) },
	}
	o.addFlags(cmd)
	cmd.Flags().StringVarP(&o.output, "output", "o", "table", "table or json")
	return cmd
}

func (o *options) compare(ctx context.Context, stdout, stderr io.Writer) error {
	closeLog, err := o.complete(stderr)
	if err != nil {
		return err
	}
	defer closeLog()
	c, err := demo.Compare(ctx, o.Options, demo.Stock{}, demo.Berth{})
	if err != nil {
		return err
	}
	write := c.WriteTable
	if o.output == "json" {
		write = c.WriteJSON
	}
	if err := write(stdout); err != nil {
		return err
	}
	if !c.Kept() {
		return errNotKept
	}
	return nil
}

func upCommand(stdout, stderr io.Writer) *cobra.Command {
	o := &options{output: "table"}
	var kubeconfig string
	var stock bool
	cmd := &cobra.Command{
		Use:     "up",
		Short:   "Start a cluster and keep it until interrupted",
		Args:    cobra.NoArgs,
		PreRunE: func(*cobra.Command, []string) error { return o.check() },
		RunE: func(cmd *cobra.Command, _ []string) error {
			var s demo.Scheduler = demo.Berth{}
			if stock {
				s = demo.Stock{}
			}
			return o.up(cmd.Context(), s, kubeconfig, stdout, stderr)
		},
	}
	o.addFlags(cmd)
	cmd.Flags().StringVar(&kubeconfig, "kubeconfig", "berth-demo.kubeconfig", "file to write an administrator's credentials to")
	cmd.Flags().BoolVar(&stock, "stock", false, "run kube-scheduler instead of Berth")
	return cmd
}

func (o *options) up(ctx context.Context, s demo.Scheduler, kubeconfig string, stdout, stderr io.Writer) error {
	closeLog, err := o.complete(stderr)
	if err != nil {
		return err
	}
	defer closeLog()
	if kubeconfig, err = filepath.Abs(kubeconfig); err != nil {
		return err
	}
	c, stop, err := demo.Up(ctx, o.Options, s)
	if err != nil {
		return err
	}
	return errors.Join(o.stay(ctx, c, kubeconfig, stdout), stop(), os.Remove(kubeconfig))
}

// stay writes the credentials and waits for the interrupt, or for a part of the cluster to fail.
func (o *options) stay(ctx context.Context, c *demo.Cluster, kubeconfig string, stdout io.Writer) error {
	data, err := c.ControlPlane.Kubeconfig("berth-admin", []string{"system:masters"})
	if err != nil {
		return err
	}
	if err := os.WriteFile(kubeconfig, data, 0o600); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "export KUBECONFIG=%s\n", kubeconfig)
	return c.Wait(ctx)
}
