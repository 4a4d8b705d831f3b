package oracle

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/berth-dev/berth/internal/kubeletstate"
	"github.com/berth-dev/berth/test/replay/cases"
)

// Started is the result of starting a kubelet's managers over checkpoints: nil for a manager that
// started, otherwise its error or panic.
type Started struct {
	// Refused is the reason why no kubelet can start with this machine and configuration.
	Refused string `json:"refused,omitempty"`
	// Dir is the directory of the checkpoints; messages name it.
	Dir    string  `json:"dir"`
	CPU    *string `json:"cpu,omitempty"`
	Memory *string `json:"memory,omitempty"`
	Device *string `json:"device,omitempty"`
}

// Start starts the managers of a case's machine and configuration over checkpoints, by their names
// in the kubelet's root directory. Unlike the kubelet, it continues after the first manager that
// does not start. The device manager starts only if it has a checkpoint.
func Start(c *cases.Case, files map[string][]byte) (Started, error) {
	dir, err := os.MkdirTemp("", "start-")
	if err != nil {
		return Started{}, err
	}
	defer os.RemoveAll(dir)
	restore, err := setGates(c.Config.FeatureGates)
	if err != nil {
		return Started{Refused: err.Error()}, nil
	}
	defer restore()
	for name, data := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return Started{}, err
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			return Started{}, err
		}
	}
	s, err := newSettings(c, dir)
	if err != nil {
		return Started{Refused: err.Error()}, nil
	}
	pods := &podList{running: map[string][]string{}}
	k, err := newKubelet(s, pods)
	if err != nil {
		return Started{Refused: err.Error()}, nil
	}
	out := Started{Dir: dir}
	out.CPU = outcomeOf(func() error { return k.startCPUManager(pods) })
	out.Memory = outcomeOf(func() error { return k.startMemoryManager(pods) })
	if _, ok := files[kubeletstate.DeviceFile]; ok {
		out.Device = outcomeOf(func() error { return k.startDeviceManager(pods) })
		if err := k.stopDeviceManager(); err != nil {
			return Started{}, err
		}
	}
	return out, nil
}

func outcomeOf(start func() error) (problem *string) {
	defer func() {
		if p := recover(); p != nil {
			text := fmt.Sprint(p)
			problem = &text
		}
	}()
	if err := start(); err != nil {
		text := err.Error()
		return &text
	}
	return nil
}
