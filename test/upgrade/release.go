package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// release has the programs and manifests of one release.
type release struct {
	version          string
	agent, scheduler string // programs
	manifests        []byte
	config           map[string]any // KubeSchedulerConfiguration
}

// readRelease reads a release's folder, and runs its agent to get the version.
func readRelease(ctx context.Context, dir string) (*release, error) {
	r := &release{agent: filepath.Join(dir, "berth-agent"), scheduler: filepath.Join(dir, "berth-scheduler")}
	for _, program := range []string{r.agent, r.scheduler} {
		if _, err := os.Stat(program); err != nil {
			return nil, err
		}
	}
	said, err := exec.CommandContext(ctx, r.agent, "--version").Output()
	if err != nil {
		return nil, fmt.Errorf("%s --version: %w", r.agent, err)
	}
	words := strings.Fields(string(said)) // berth-agent version VERSION
	if len(words) < 3 {
		return nil, fmt.Errorf("%s --version: %q: want berth-agent version VERSION", r.agent, said)
	}
	r.version = strings.TrimSuffix(words[2], ",")
	file := filepath.Join(dir, "chart.yaml")
	if r.manifests, err = os.ReadFile(file); err != nil {
		return nil, err
	}
	if r.config, err = schedulerConfig(r.manifests); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return r, nil
}

// schedulerConfig finds the scheduler's configuration among the objects of a chart.
func schedulerConfig(manifests []byte) (map[string]any, error) {
	in := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(manifests)))
	for {
		text, err := in.Read()
		if errors.Is(err, io.EOF) {
			return nil, errors.New("it has no ConfigMap berth-scheduler: want the output of helm template")
		}
		if err != nil {
			return nil, err
		}
		var object struct {
			Kind     string
			Metadata struct{ Name string }
			Data     map[string]string
		}
		if err := yaml.Unmarshal(text, &object); err != nil {
			return nil, err
		}
		if object.Kind == "ConfigMap" && object.Metadata.Name == "berth-scheduler" {
			var config map[string]any
			err := yaml.Unmarshal([]byte(object.Data["scheduler.yaml"]), &config)
			return config, err
		}
	}
}

// writeConfig writes the scheduler's configuration with the credentials.
func (r *release) writeConfig(path, kubeconfig string) error {
	connection, _ := r.config["clientConnection"].(map[string]any)
	if connection == nil {
		return errors.New("the scheduler's configuration has no clientConnection")
	}
	connection["kubeconfig"] = kubeconfig
	text, err := yaml.Marshal(r.config)
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o600)
}
