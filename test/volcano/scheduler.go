// Package volcano runs Volcano's own scheduler on a cluster of the demo. The folder documents has
// the examples of Volcano's documents.
package volcano

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/internal/agent"
	"github.com/berth-dev/berth/internal/child"
	"github.com/berth-dev/berth/internal/controlplane"
	"github.com/berth-dev/berth/internal/controlplane/controllers"
	"github.com/berth-dev/berth/internal/demo"
)

// name is the schedulerName of Volcano's scheduler.
const name = "volcano"

// Scheduler is Volcano's own vc-scheduler with its numa-aware plugin, and its controller, from
// files of the user. Berth's agents must run, because they write the Numatopologies instead of
// Volcano's exporter (see the function Numatopologies). Pods must name Volcano's scheduler
// (NamePod).
type Scheduler struct {
	// Program is the executable vc-scheduler. Controller is vc-controller-manager, which creates
	// the PodGroups.
	Program, Controller string
	// Source is the folder with Volcano's source code, which contains the definitions and the
	// configuration.
	Source string

	process *child.Process // nil before the start
}

var _ demo.Scheduler = (*Scheduler)(nil)

// Numatopologies makes an agent write Numatopologies.
func Numatopologies(o *agent.Options) { o.Numatopology = true }

// NamePod makes Volcano's scheduler place the pod.
func NamePod(pod *corev1.Pod) { pod.Spec.SchedulerName = name }

// Title implements demo.Scheduler.
func (*Scheduler) Title() string { return "Volcano" }

// Predicts implements demo.Scheduler.
func (*Scheduler) Predicts() bool { return false }

func (v *Scheduler) manager() *demo.VolcanoController {
	return &demo.VolcanoController{Program: v.Controller, Definitions: filepath.Join(v.Source, "config", "crd", "volcano", "bases")}
}

// Check returns an error if the files are not usable.
func (v *Scheduler) Check() error {
	if info, err := os.Stat(v.Program); err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		return fmt.Errorf("program %q: want vc-scheduler, an executable file", v.Program)
	}
	if _, err := v.config(); err != nil {
		return fmt.Errorf("source %q: want the folder with the source of %s: %w", v.Source, v.Program, err)
	}
	if err := v.manager().Check(); err != nil {
		return fmt.Errorf("controller %q, source %q: want the program vc-controller-manager, and Volcano's source with its CustomResourceDefinitions: %w", v.Controller, v.Source, err)
	}
	return nil
}

// Manifests implements demo.Scheduler.
func (v *Scheduler) Manifests() ([][]byte, error) {
	if err := v.Check(); err != nil {
		return nil, err
	}
	return v.manager().Manifests()
}

// config returns the scheduler configuration of Volcano's chart, with the numa-aware plugin as in
// Volcano's user guide.
func (v *Scheduler) config() ([]byte, error) {
	data, err := os.ReadFile(filepath.Join(v.Source, "installer", "helm", "chart", "volcano", "config", "volcano-scheduler.conf"))
	if err != nil {
		return nil, err
	}
	var config struct {
		Actions string `json:"actions"`
		Tiers   []struct {
			Plugins []map[string]any `json:"plugins"`
		} `json:"tiers"`
	}
	if err := yaml.UnmarshalStrict(data, &config); err != nil {
		return nil, err
	}
	if len(config.Tiers) == 0 {
		return nil, fmt.Errorf("volcano-scheduler.conf: %q: want tiers", data)
	}
	last := &config.Tiers[len(config.Tiers)-1]
	last.Plugins = append(last.Plugins, map[string]any{"name": "numa-aware", "arguments": map[string]any{"weight": 10}})
	return yaml.Marshal(&config)
}

// Start implements demo.Scheduler. The garbage collector must run, to remove the PodGroups of
// deleted pods. With these PodGroups the scheduler would admit only few pods.
func (v *Scheduler) Start(ctx context.Context, c *demo.Cluster, _ []string) (func() error, error) {
	stop, err := controllers.Start(ctx, c.ControlPlane.RESTConfig())
	if err != nil {
		return nil, err
	}
	c.OnStop(func() error { stop(); return nil })
	stopManager, err := c.StartVolcano(ctx, v.manager())
	if err != nil {
		return nil, err
	}
	c.OnStop(stopManager)
	kubeconfig := filepath.Join(c.Dir(), "scheduler.kubeconfig")
	user := controlplane.User{Name: filepath.Base(v.Program), Groups: controlplane.Admin.Groups}
	if err := c.ControlPlane.WriteKubeconfig(kubeconfig, user); err != nil {
		return nil, err
	}
	config, err := v.config()
	if err != nil {
		return nil, err
	}
	// The scheduler reads its configuration again whenever a file in its folder changes.
	path := filepath.Join(c.Dir(), "volcano", "volcano-scheduler.conf")
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	if err := os.WriteFile(path, config, 0o600); err != nil {
		return nil, err
	}
	var ports [2]int
	for i := range ports {
		if ports[i], err = child.FreePort(); err != nil {
			return nil, err
		}
	}
	// The flags follow installer/volcano-development.yaml.
	v.process, err = child.Start(child.Spec{Name: filepath.Base(v.Program), Foreign: true, Log: filepath.Join(c.Dir(), "scheduler.log"), Argv: []string{
		v.Program, "--kubeconfig=" + kubeconfig, "--scheduler-conf=" + path, "--scheduler-name=" + name, "--leader-elect=false",
		"--kube-api-qps=2000", "--kube-api-burst=2000", "--schedule-period=1s", "--node-worker-threads=20",
		"--enable-healthz=true", fmt.Sprint("--healthz-address=127.0.0.1:", ports[0]),
		"--enable-metrics=true", fmt.Sprint("--listen-address=127.0.0.1:", ports[1]),
		"--plugins-dir=", "--cache-dump-dir=" + c.Dir(), "--logtostderr", "-v=3",
	}})
	if err != nil {
		return nil, err
	}
	return func() error { v.process.Kill(); return nil }, nil // after SIGTERM the scheduler may exit with an error
}

// Ended returns the error with which the scheduler has ended, or nil while it runs.
func (v *Scheduler) Ended() error {
	if v.process == nil {
		return nil
	}
	return v.process.Ended()
}
