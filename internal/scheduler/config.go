package scheduler

import (
	"cmp"
	"encoding/json"
	"fmt"

	"sigs.k8s.io/yaml"
)

// SortName is the name in profiles of the plugin that orders the queue (command.Sort).
const SortName = "BerthSort"

// ConfigOptions are the options of a scheduler configuration. The zero value is ready for use
// inside a cluster.
type ConfigOptions struct {
	// Kubeconfig is the path of a kubeconfig file; "" means the service account of the scheduler's
	// own pod.
	Kubeconfig string
	// SchedulerName is the name in spec.schedulerName of pods; "" means default-scheduler.
	SchedulerName string
	// LeaderElect enables leader election.
	LeaderElect bool
	// Args are the plugin's arguments. The plugin sets the defaults.
	Args *Args
}

// Configuration returns a KubeSchedulerConfiguration with Berth's plugins at the extension points
// that Points.Check requires.
func Configuration(o ConfigOptions) ([]byte, error) {
	plugins := plugins()
	plugins["queueSort"] = map[string]any{"enabled": []any{map[string]any{"name": SortName}}, "disabled": []any{map[string]any{"name": "*"}}}
	profile := map[string]any{"schedulerName": cmp.Or(o.SchedulerName, "default-scheduler"), "plugins": plugins}
	if o.Args != nil {
		args, err := json.Marshal(o.Args)
		if err != nil {
			return nil, fmt.Errorf("arguments of plugin %s: %w", Name, err)
		}
		profile["pluginConfig"] = []any{map[string]any{"name": Name, "args": json.RawMessage(args)}}
	}
	return yaml.Marshal(map[string]any{
		"apiVersion":       "kubescheduler.config.k8s.io/v1",
		"kind":             "KubeSchedulerConfiguration",
		"leaderElection":   map[string]any{"leaderElect": o.LeaderElect},
		"clientConnection": map[string]any{"kubeconfig": o.Kubeconfig, "qps": 1000, "burst": 2000},
		"profiles":         []any{profile},
	})
}
