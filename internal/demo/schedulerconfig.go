package demo

import (
	"fmt"
	"maps"
	"os"

	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/internal/rank"
	"github.com/berth-dev/berth/internal/scheduler"
)

// maxSchedulerConfig bounds the user's own KubeSchedulerConfiguration, in bytes.
const maxSchedulerConfig = 1 << 20

// SchedulerNames are the schedulerNames that Berth serves in the playground: the name that pods
// have by default, the chart's default, and Volcano's.
var SchedulerNames = []string{"default-scheduler", "berth", volcano}

// volcano is the name of the profile that scores nodes by Volcano's formula.
const volcano = "volcano"

// ReadSchedulerConfig reads a KubeSchedulerConfiguration. It checks only the kind. The scheduler
// itself validates the other fields.
func ReadSchedulerConfig(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: want a regular file", path)
	}
	if info.Size() > maxSchedulerConfig {
		return nil, fmt.Errorf("%s: %d bytes: want at most %d", path, info.Size(), maxSchedulerConfig)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if _, err := schedulerConfig(data); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return data, nil
}

func schedulerConfig(data []byte) (map[string]any, error) {
	var config map[string]any
	if err := yaml.Unmarshal(data, &config); err != nil {
		return nil, err
	}
	if kind := config["kind"]; kind != "KubeSchedulerConfiguration" {
		return nil, fmt.Errorf("kind: %v: want KubeSchedulerConfiguration", kind)
	}
	return config, nil
}

// config returns the scheduler's configuration: the user's own with the given kubeconfig, or a new
// one with a profile for each of b.Names.
func (b Berth) config(kubeconfig string) ([]byte, error) {
	if b.Config == nil {
		return b.ownConfig(kubeconfig)
	}
	config, err := schedulerConfig(b.Config)
	if err != nil {
		return nil, err
	}
	connection, _ := config["clientConnection"].(map[string]any)
	if connection == nil {
		connection = map[string]any{"qps": 1000, "burst": 2000}
	}
	connection["kubeconfig"] = kubeconfig
	config["clientConnection"] = connection
	config["leaderElection"] = map[string]any{"leaderElect": true}
	return yaml.Marshal(config)
}

func (b Berth) ownConfig(kubeconfig string) ([]byte, error) {
	data, err := scheduler.Configuration(scheduler.ConfigOptions{Kubeconfig: kubeconfig, LeaderElect: true, Args: b.Args})
	if err != nil || len(b.Names) == 0 {
		return data, err
	}
	config, err := schedulerConfig(data)
	if err != nil {
		return nil, err
	}
	profiles, _ := config["profiles"].([]any)
	if len(profiles) != 1 {
		return nil, fmt.Errorf("profiles: %d profiles: want exactly one", len(profiles))
	}
	first, _ := profiles[0].(map[string]any)
	profiles = nil
	for _, name := range b.Names {
		profile := maps.Clone(first)
		profile["schedulerName"] = name
		if name == volcano {
			args := scheduler.Args{}
			if b.Args != nil {
				args = *b.Args
			}
			args.Scoring.Formula = rank.Volcano
			profile["pluginConfig"] = []any{map[string]any{"name": scheduler.Name, "args": &args}}
		}
		profiles = append(profiles, profile)
	}
	config["profiles"] = profiles
	return yaml.Marshal(config)
}
