package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/internal/child"
	"github.com/berth-dev/berth/internal/demo"
	"github.com/berth-dev/berth/internal/hollow"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/lab/peers/exports"
	"github.com/berth-dev/berth/topology"
)

// koordinatorName is the schedulerName of Koordinator's scheduler.
const koordinatorName = "koord-scheduler"

// koordinator is Koordinator's scheduler without koordlet. The harness writes koordlet's objects
// about a node once, and the kubelet does not learn the scheduler's choice.
type koordinator struct{ *program }

// koordinatorLabel sets the label of the Node with the kubelet's policy.
func koordinatorLabel(spec *hollow.Spec) error {
	policy, err := exports.Policy(spec.KubeletConfig)
	if policy != "" {
		spec.Labels = map[string]string{exports.KoordinatorPolicy: policy}
	}
	return err
}

// Title implements demo.Scheduler.
func (k *koordinator) Title() string { return "koord-scheduler, without koordlet" }

// Manifests implements demo.Scheduler.
func (k *koordinator) Manifests() ([][]byte, error) {
	if _, err := k.config(""); err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(k.source, "config", "crd", "bases", "*.yaml"))
	if err != nil {
		return nil, err
	}
	out := [][]byte{[]byte("apiVersion: v1\nkind: Namespace\nmetadata: {name: koordinator-system}\n")}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		out = append(out, data)
	}
	return out, nil
}

// config is the configuration of Koordinator's manifest with this kubeconfig.
func (k *koordinator) config(kubeconfig string) ([]byte, error) {
	data, err := k.read("config", "manager", "scheduler-config.yaml")
	if err != nil {
		return nil, err
	}
	var manifest struct {
		Data map[string]string `json:"data"`
	}
	if err := yaml.Unmarshal(data, &manifest); err != nil {
		return nil, err
	}
	var config map[string]any
	if err := yaml.Unmarshal([]byte(manifest.Data["koord-scheduler-config"]), &config); err != nil {
		return nil, err
	}
	if config["kind"] != "KubeSchedulerConfiguration" {
		return nil, fmt.Errorf("config/manager/scheduler-config.yaml: koord-scheduler-config: kind %v: want KubeSchedulerConfiguration", config["kind"])
	}
	config["leaderElection"] = map[string]any{"leaderElect": false}
	config["clientConnection"] = map[string]any{"kubeconfig": kubeconfig}
	return yaml.Marshal(config)
}

// Start implements demo.Scheduler.
func (k *koordinator) Start(ctx context.Context, c *demo.Cluster, _ []string) (func() error, error) {
	for _, node := range c.Nodes {
		objects, err := koordinatorObjects(node)
		if err != nil {
			return nil, err
		}
		if err := c.ControlPlane.Apply(ctx, objects...); err != nil {
			return nil, err
		}
	}
	kubeconfig, err := k.kubeconfig(c)
	if err != nil {
		return nil, err
	}
	config, err := k.config(kubeconfig)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(c.Dir(), "scheduler.yaml")
	if err := os.WriteFile(path, config, 0o600); err != nil {
		return nil, err
	}
	port, err := child.FreePort()
	if err != nil {
		return nil, err
	}
	// The flags of config/manager/scheduler.yaml.
	return k.start(c, "--config="+path, "--secure-port=0", "--address=127.0.0.1", fmt.Sprint("--port=", port), "--authentication-skip-lookup=true", "--v=4")
}

// koordinatorObjects are the objects that koordlet and Koordinator's device daemon write about a
// node.
func koordinatorObjects(node *hollow.Process) (out [][]byte, err error) {
	spec, err := node.Dir.ReadSpec()
	if err != nil {
		return nil, err
	}
	zones, err := exports.Koordlet(spec.Name, spec.Machine, spec.KubeletConfig)
	if err != nil {
		return nil, err
	}
	m, err := topology.Parse(spec.Machine)
	if err != nil {
		return nil, err
	}
	for _, o := range []metav1.Object{zones, wire.WriteDevice(spec.Name, m)} {
		data, err := json.Marshal(o)
		if err != nil {
			return nil, err
		}
		out = append(out, data)
	}
	return out, nil
}
