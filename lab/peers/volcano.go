package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/internal/agent"
	"github.com/berth-dev/berth/internal/child"
	"github.com/berth-dev/berth/internal/controlplane/controllers"
	"github.com/berth-dev/berth/internal/demo"
)

// volcanoName is what pods call Volcano's scheduler.
const volcanoName = "volcano"

// volcano is Volcano's scheduler with its numa-aware plugin, and its controller. Berth's agents
// write Numatopologies in its exporter's place.
type volcano struct {
	*program
	controller string
}

// numatopologies has an agent write them.
func numatopologies(o *agent.Options) { o.Numatopology = true }

// Title implements demo.Scheduler.
func (v *volcano) Title() string { return "Volcano" }

func (v *volcano) manager() *demo.VolcanoController {
	return &demo.VolcanoController{Program: v.controller, Definitions: filepath.Join(v.source, "config", "crd", "volcano", "bases")}
}

// Manifests implements demo.Scheduler.
func (v *volcano) Manifests() ([][]byte, error) {
	if _, err := v.config(); err != nil {
		return nil, err
	}
	if v.controller == "" {
		return nil, errors.New("-controller: want the program vc-controller-manager")
	}
	if err := v.manager().Check(); err != nil {
		return nil, fmt.Errorf("-controller %s, -source %s: %w", v.controller, v.source, err)
	}
	own, err := agents()
	if err != nil {
		return nil, err
	}
	theirs, err := v.manager().Manifests()
	return append(own, theirs...), err
}

// config is the configuration of Volcano's chart with the numa-aware plugin, as its user guide has
// it.
func (v *volcano) config() ([]byte, error) {
	data, err := v.read("installer", "helm", "chart", "volcano", "config", "volcano-scheduler.conf")
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

// Start implements demo.Scheduler. The garbage collector removes PodGroups of pods that are gone;
// with them few pods would be let in.
func (v *volcano) Start(ctx context.Context, c *demo.Cluster, _ []string) (func() error, error) {
	if err := c.StartAgents(ctx); err != nil {
		return nil, err
	}
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
	kubeconfig, err := v.kubeconfig(c)
	if err != nil {
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
	// The flags of installer/volcano-development.yaml.
	return v.start(c, "--kubeconfig="+kubeconfig, "--scheduler-conf="+path, "--scheduler-name="+volcanoName, "--leader-elect=false",
		"--kube-api-qps=2000", "--kube-api-burst=2000", "--schedule-period=1s", "--node-worker-threads=20",
		"--enable-healthz=true", fmt.Sprint("--healthz-address=127.0.0.1:", ports[0]),
		"--enable-metrics=true", fmt.Sprint("--listen-address=127.0.0.1:", ports[1]),
		"--plugins-dir=", "--cache-dump-dir="+c.Dir(), "--logtostderr", "-v=3")
}
