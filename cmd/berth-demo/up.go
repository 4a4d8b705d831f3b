package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/examples"
	"github.com/berth-dev/berth/internal/demo"
)

type playground struct {
	options
	kubeconfig      string
	stock           bool
	nodes, captures []string
	config          string
	volcano         demo.VolcanoController
}

func upCommand(stdout, stderr io.Writer) *cobra.Command {
	p := &playground{options: options{output: "table"}}
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start a cluster to try things on and keep it until interrupted",
		Long: "Starts a real API server, hollow nodes (genuine kubelet managers without machines), the workload controllers of\n" +
			"kube-controller-manager, and Berth. It then prints what to try. Pods need no schedulerName; schedulerName berth also works.",
		Example: "  berth-demo up\n" +
			"  berth-demo up --nodes 3\n" +
			"  berth-demo up --node 'name=a,machine=package:2 numa:1 core:8 pu:2 mem:64Gi,config=kubelet.yaml,device=nvidia.com/gpu=0:4,1:4'\n" +
			"  berth-demo up --capture server.tgz",
		Args:    cobra.NoArgs,
		PreRunE: func(cmd *cobra.Command, _ []string) error { return p.complete() },
		RunE:    func(cmd *cobra.Command, _ []string) error { return p.up(cmd.Context(), stdout, stderr) },
	}
	p.addFlags(cmd, demo.AllNodes)
	fs := cmd.Flags()
	fs.StringVar(&p.kubeconfig, "kubeconfig", defaultKubeconfig, "file to write an administrator's credentials to")
	fs.IntVar(&p.Schedulers, "schedulers", 1, fmt.Sprintf("number of schedulers, at most %d; one of them leads", maxSchedulers))
	fs.BoolVar(&p.Metrics, "metrics", false, "serve metrics of schedulers and agents for Prometheus, and print the addresses")
	fs.BoolVar(&p.stock, "stock", false, "run kube-scheduler instead of Berth")
	fs.StringArrayVar(&p.nodes, "node", nil, "a node of your own in place of the usual ones: name=NAME,machine=MACHINE or capture=PATH,"+
		"config=KUBELETCONFIG,authority=berth,device=RESOURCE=NUMA:COUNT[,NUMA:COUNT...]; repeat for each node, and device= for each resource")
	fs.StringArrayVar(&p.captures, "capture", nil, "a node of your own from a captured machine: a folder with sys/ in it, or an archive of one")
	fs.StringVar(&p.config, "scheduler-config", "", "file with a KubeSchedulerConfiguration to run Berth with; connection and leader election are filled in")
	fs.StringVar(&p.volcano.Program, "volcano-controller", "", "Volcano's own vc-controller-manager, to run Jobs of batch.volcano.sh in place of berth-controller")
	fs.StringVar(&p.volcano.Definitions, "volcano-crds", "", "folder with Volcano's CustomResourceDefinitions; the default is volcano-crds next to the controller's folder")
	return cmd
}

// maxSchedulers limits the number of schedulers, because each takes about as much memory as a node.
const maxSchedulers = 5

// complete reads the files that the flags name.
func (p *playground) complete() error {
	if p.Schedulers < 1 || p.Schedulers > maxSchedulers {
		return usageError{fmt.Errorf("--schedulers %d: want 1 to %d", p.Schedulers, maxSchedulers)}
	}
	for _, text := range p.nodes {
		spec, err := demo.ParseNode(text)
		if err != nil {
			return usageError{fmt.Errorf("--node: %w", err)}
		}
		p.Own = append(p.Own, spec)
	}
	for i, path := range p.captures {
		spec, err := demo.ParseNode(fmt.Sprintf("name=capture-%d,capture=%s", i+1, path))
		if err != nil {
			return usageError{fmt.Errorf("--capture: %w", err)}
		}
		p.Own = append(p.Own, spec)
	}
	if err := p.checkNames(); err != nil {
		return err
	}
	if folder, err := os.Stat(filepath.Dir(p.kubeconfig)); err != nil || !folder.IsDir() {
		return usageError{fmt.Errorf("--kubeconfig: %s: want a file in a folder that exists", p.kubeconfig)}
	}
	if err := p.completeVolcano(); err != nil {
		return usageError{fmt.Errorf("--volcano-controller: %w", err)}
	}
	if p.stock && p.config != "" {
		return usageError{errors.New("--scheduler-config and --stock: want only one of them, because the file configures Berth, but --stock runs kube-scheduler")}
	}
	if len(p.Own) == 0 {
		if _, err := demo.Nodes(p.Nodes); err != nil {
			return usageError{fmt.Errorf("--nodes: %w", err)}
		}
	}
	return nil
}

// completeVolcano finds the files of Volcano's controller.
func (p *playground) completeVolcano() error {
	v := &p.volcano
	if v.Program == "" {
		return nil
	}
	if p.stock {
		return errors.New("leave out --stock, because kube-scheduler does not schedule the pods of Volcano's Jobs")
	}
	v.Definitions = cmp.Or(v.Definitions, filepath.Join(filepath.Dir(v.Program), "..", "volcano-crds"))
	return v.Check()
}

func (p *playground) checkNames() error {
	seen := map[string]bool{}
	for i := range p.Own {
		if seen[p.Own[i].Name] {
			return usageError{fmt.Errorf("--node: name=%s is given twice: want a different name for each node", p.Own[i].Name)}
		}
		seen[p.Own[i].Name] = true
	}
	if len(p.Own) > demo.MaxNodes {
		return usageError{fmt.Errorf("--node and --capture: %d nodes: want at most %d", len(p.Own), demo.MaxNodes)}
	}
	return nil
}

func (p *playground) scheduler() (demo.Scheduler, error) {
	if p.stock {
		return demo.Stock{}, nil
	}
	berth := demo.Berth{Names: demo.SchedulerNames, Jobs: true}
	if p.volcano.Program != "" {
		berth.Volcano = &p.volcano
	}
	if p.config == "" {
		return berth, nil
	}
	config, err := demo.ReadSchedulerConfig(p.config)
	if err != nil {
		return nil, fmt.Errorf("--scheduler-config: %w", err)
	}
	berth.Config = config
	return berth, nil
}

func (p *playground) up(ctx context.Context, stdout, stderr io.Writer) error {
	s, err := p.scheduler()
	if err != nil {
		return err
	}
	closeLog, err := p.open(stderr)
	if err != nil {
		return err
	}
	defer closeLog()
	kubeconfig, err := filepath.Abs(p.kubeconfig)
	if err != nil {
		return err
	}
	fmt.Fprintln(stderr, "Starting an API server, nodes, controllers and", s.Title()+". This takes about half a minute.")
	c, err := demo.StartPlayground(ctx, p.Options, s)
	if err != nil {
		return err
	}
	err = p.keep(ctx, c, s, stdout, stderr, kubeconfig)
	fmt.Fprintln(stderr, "Ending the cluster.")
	return errors.Join(err, c.Stop())
}

// keep writes the kubeconfig, serves the map, prints the welcome text, and supervises the
// playground until ctx ends. A playground without Berth has no reports and therefore no map.
func (p *playground) keep(ctx context.Context, c *demo.Cluster, s demo.Scheduler, stdout, stderr io.Writer, kubeconfig string) error {
	k, err := demo.NewKeeper(c, stderr)
	if err != nil {
		return err
	}
	access, err := k.Kubeconfig()
	if err != nil {
		return err
	}
	if err := os.WriteFile(kubeconfig, access, 0o600); err != nil {
		return err
	}
	defer os.Remove(kubeconfig)
	page, stop := "", func() error { return nil }
	if !p.stock {
		if page, stop, err = c.ServeMap(ctx); err != nil {
			return err
		}
	}
	if err = p.welcome(stdout, s, k, kubeconfig, page); err == nil {
		err = k.Run(ctx)
	}
	return errors.Join(err, stop())
}

// welcome prints a description of the playground: its parts, three experiments, the parts that can
// be broken, and the way to end it.
func (p *playground) welcome(w io.Writer, s demo.Scheduler, k *demo.Keeper, kubeconfig, page string) error {
	fmt.Fprintf(w, "\nA cluster is up, with %s. Its nodes:\n\n", s.Title())
	if err := demo.DescribeNodes(w, &p.Options); err != nil {
		return err
	}
	if page != "" {
		fmt.Fprintf(w, "\nIts map, live: %s\n", page)
	}
	if err := tellMetrics(w, k.Metrics()); err != nil {
		return err
	}
	self, bin := filepath.Base(p.Self[0]), filepath.Dir(p.Self[0])
	fmt.Fprintf(w, "\nIn another terminal:\n\n  export KUBECONFIG=%s PATH=%s:$PATH\n", kubeconfig, bin)
	if note := missingKubectl(bin); note != "" {
		fmt.Fprintf(w, "  %s\n", note)
	}
	where, why, free := "kubectl berth pods", "fits nowhere, and why\n  %s\n  kubectl berth explain toolarge", "NUMA node by NUMA node\n  kubectl berth nodes"
	if p.stock { // a playground without Berth has no reports
		where, why, free = "kubectl get pods -o wide", "fits into no NUMA node, and what happens to it\n  %s\n  kubectl get pods -o wide", "node by node\n  kubectl describe nodes"
	}
	example := func(name string) string { return self + " example " + name + " | kubectl create -f -" }
	fmt.Fprintf(w, `
  # 1. two pods with CPUs of their own, and where they are
  %s
  %s

  # 2. a pod that %s

  # 3. what is free, %s

Pods need no schedulerName. More to try: %s example {%s}.
A program that ends is started again. To break a part for longer: %s break {scheduler|agent NODE|node NODE|api}, then %s mend.
Ctrl-C here ends everything.
`, example("pinned"), where, fmt.Sprintf(why, example("toolarge")), free, self, strings.Join(examples.Names(), ","), self, self)
	return nil
}

func tellMetrics(w io.Writer, addresses [][2]string) error {
	if len(addresses) == 0 {
		return nil
	}
	fmt.Fprint(w, "\nMetrics (no credentials needed; use curl -k for the schedulers, whose certificates are self-signed):\n\n")
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, a := range addresses {
		fmt.Fprintf(tw, "  %s\t%s\n", a[0], a[1])
	}
	return tw.Flush()
}

// missingKubectl returns advice if kubectl is neither on the path nor in bin.
func missingKubectl(bin string) string {
	if _, err := exec.LookPath("kubectl"); err == nil {
		return ""
	}
	if _, err := os.Stat(filepath.Join(bin, "kubectl")); err == nil {
		return ""
	}
	return "# there is no kubectl here: make bin/kubectl builds one"
}

func exampleCommand(stdout io.Writer) *cobra.Command {
	return &cobra.Command{
		Use:       "example NAME",
		Short:     "Print a manifest to try: " + strings.Join(examples.Names(), ", "),
		Args:      cobra.ExactArgs(1),
		ValidArgs: examples.Names(),
		RunE: func(_ *cobra.Command, args []string) error {
			data, err := examples.Read(args[0])
			if err != nil {
				return usageError{err}
			}
			_, err = stdout.Write(data)
			return err
		},
	}
}

func sceneCommand(stdout, stderr io.Writer) *cobra.Command {
	o := &options{output: "table"}
	names := make([]string, 0, len(demo.Scenes))
	var about strings.Builder
	for i := range demo.Scenes {
		names = append(names, demo.Scenes[i].Name)
		fmt.Fprintf(&about, "  %s\n      %s\n", demo.Scenes[i].Name, demo.Scenes[i].About)
	}
	cmd := &cobra.Command{
		Use:       "scene NAME",
		Short:     "Play a scene on a small cluster of its own: " + strings.Join(names, ", "),
		Long:      "Starts a small cluster, shows one thing on it step by step, and takes it down again.\n\nScenes:\n" + about.String(),
		Args:      cobra.ExactArgs(1),
		ValidArgs: names,
		RunE: func(cmd *cobra.Command, args []string) error {
			scene, err := demo.SceneOf(args[0])
			if err != nil {
				return usageError{err}
			}
			return o.play(cmd.Context(), scene, stdout, stderr)
		},
	}
	cmd.Flags().BoolVar(&o.Keep, "keep", false, "keep the cluster's directory, with all logs")
	return cmd
}

func (o *options) play(ctx context.Context, scene *demo.Scene, stdout, stderr io.Writer) error {
	closeLog, err := o.open(stderr)
	if err != nil {
		return err
	}
	defer closeLog()
	o.Nodes, o.Own = scene.Nodes, scene.Own
	fmt.Fprintf(stdout, "%s\n", scene.About)
	fmt.Fprintln(stderr, "Starting a cluster of", max(scene.Nodes, len(scene.Own)), "nodes.")
	c, err := demo.StartPlayground(ctx, o.Options, scene.Berth)
	if err != nil {
		return err
	}
	return errors.Join(scene.Play(ctx, c, stdout), c.Stop())
}
