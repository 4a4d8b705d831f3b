package demo

import (
	"context"
	"errors"
	"io"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/internal/controlplane/controllers"
	"github.com/berth-dev/berth/internal/hollow"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/topology"
)

// playgroundLease is the time after which another scheduler replaces a killed leader. It is
// kube-scheduler's default.
const playgroundLease = 15 * time.Second

// StartPlayground starts a cluster for experiments. Unlike a cluster of Up, it has a process for
// each agent, the workload controllers for Deployments, Jobs and StatefulSets, and the node
// controllers.
func StartPlayground(ctx context.Context, opts Options, s Scheduler) (*Cluster, error) {
	c, err := up(ctx, opts, s, ClusterOptions{
		AgentCommand: opts.verb(VerbAgent), Schedulers: opts.Schedulers, Lease: playgroundLease, Metrics: opts.Metrics,
	})
	if err != nil {
		return nil, err
	}
	stop, err := controllers.StartWithNodes(ctx, c.ControlPlane.RESTConfig())
	if err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	c.OnStop(func() error { stop(); return nil })
	return c, nil
}

// DescribeNodes prints the nodes, one per line.
func DescribeNodes(w io.Writer, opts *Options) error {
	if len(opts.Own) == 0 {
		return describe(w, opts.Nodes)
	}
	var rows [][]string
	for i := range opts.Own {
		rows = append(rows, []string{opts.Own[i].Name, machineInWords(&opts.Own[i]), policyOf(&opts.Own[i])})
	}
	return writeAligned(w, rows)
}

func machineInWords(spec *hollow.Spec) string {
	m, err := topology.Parse(spec.Machine)
	if err != nil {
		return err.Error() // Spec.Check has already accepted the machine
	}
	cpus := 0
	for i := range m.NUMANodes {
		cpus += m.NUMANodes[i].CPUs.Len()
	}
	return wire.Counted(cpus, "CPU") + " on " + wire.Counted(len(m.NUMANodes), "NUMA node")
}

func policyOf(spec *hollow.Spec) string {
	var config struct {
		Policy string `json:"topologyManagerPolicy"`
	}
	if err := yaml.Unmarshal([]byte(spec.KubeletConfig), &config); err != nil || config.Policy == "" {
		return "none"
	}
	return config.Policy
}
