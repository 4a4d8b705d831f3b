package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// kube is a release of Kubernetes from which commands are built.
type kube struct {
	minor   string // "1.37"
	version string // "v1.37.2"
	modfile string // below the sources; "" is their own go.mod
}

// schedulersFile lists the Kubernetes releases from which a scheduler is built, one per line and
// the oldest first. The chart chooses among these builds.
const schedulersFile = "deploy/chart/berth/files/schedulers"

// kubesOf reads the releases from which a scheduler is built. The last one is the release in the
// sources' go.mod; the others have a go.mod in test/conformance/versions.
func kubesOf(source string) (all []kube, err error) {
	list, err := os.ReadFile(filepath.Join(source, schedulersFile))
	if err != nil {
		return nil, err
	}
	minors := strings.Fields(string(list))
	if len(minors) == 0 {
		return nil, fmt.Errorf("%s: empty: want releases like 1.37", schedulersFile)
	}
	for i, minor := range minors {
		k := kube{minor: minor}
		at := "go.mod"
		if i < len(minors)-1 {
			k.modfile = "test/conformance/versions/v" + minor + "/go.mod"
			at = k.modfile
		}
		if k.version, err = kubernetesIn(filepath.Join(source, at)); err != nil {
			return nil, err
		}
		if !strings.HasPrefix(k.version, "v"+minor+".") {
			return nil, fmt.Errorf("%s: %q: %s has k8s.io/kubernetes %s: want the same release", schedulersFile, minor, at, k.version)
		}
		all = append(all, k)
	}
	return all, nil
}

// kubernetesIn reads which k8s.io/kubernetes a go.mod requires.
func kubernetesIn(modfile string) (string, error) {
	text, err := os.ReadFile(modfile)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		if words := strings.Fields(line); len(words) == 2 && words[0] == "k8s.io/kubernetes" {
			return words[1], nil
		}
	}
	return "", fmt.Errorf("%s: no k8s.io/kubernetes: want a line that requires it", modfile)
}

// kubesFor returns the releases from which a command is built: all for the scheduler, the newest
// for other commands.
func (r *release) kubesFor(command string) []kube {
	if command == scheduler {
		return r.kubes
	}
	return r.kubes[len(r.kubes)-1:]
}

// flags returns the flags of go build.
func (k kube) flags() []string {
	if k.modfile == "" {
		return nil
	}
	return []string{"-modfile=" + k.modfile, "-tags=kube" + strings.ReplaceAll(k.minor, ".", "")}
}
