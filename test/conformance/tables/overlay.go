package tables

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

//go:embed shims
var shims embed.FS

// watched has the wrapped functions of a package of the kubelet, by file: the text that declares a
// function, and its replacement.
type watched struct {
	name  string
	files map[string]map[string]string
}

const kubeletPath = "k8s.io/kubernetes/pkg/kubelet/cm/"

var packages = []watched{
	{"cpumanager", map[string]map[string]string{
		"cpu_assignment.go": {
			"func takeByTopologyNUMAPacked(":      "func genuineTakeByTopologyNUMAPacked(",
			"func takeByTopologyNUMADistributed(": "func genuineTakeByTopologyNUMADistributed(",
		},
		"policy_static.go": {
			"func (p *staticPolicy) generateCPUTopologyHints(": "func (p *staticPolicy) genuineGenerateCPUTopologyHints(",
			"func (p *staticPolicy) allocateCPUs(":             "func (p *staticPolicy) genuineAllocateCPUs(",
		},
	}},
	{"topologymanager", map[string]map[string]string{
		"policy_best_effort.go":      {"func (p *bestEffortPolicy) Merge(": "func (p *bestEffortPolicy) genuineMerge("},
		"policy_restricted.go":       {"func (p *restrictedPolicy) Merge(": "func (p *restrictedPolicy) genuineMerge("},
		"policy_single_numa_node.go": {"func (p *singleNumaNodePolicy) Merge(": "func (p *singleNumaNodePolicy) genuineMerge("},
	}},
	{"memorymanager", map[string]map[string]string{
		"policy_static.go": {
			"func (p *staticPolicy) calculateHints(":  "func (p *staticPolicy) genuineCalculateHints(",
			"func (p *staticPolicy) Allocate(":        "func (p *staticPolicy) genuineAllocate(",
			"func (p *staticPolicy) RemoveContainer(": "func (p *staticPolicy) genuineRemoveContainer(",
		},
	}},
	{"devicemanager", map[string]map[string]string{
		"manager.go":        {"func (m *ManagerImpl) devicesToAllocate(": "func (m *ManagerImpl) genuineDevicesToAllocate("},
		"topology_hints.go": {"func (m *ManagerImpl) generateDeviceTopologyHints(": "func (m *ManagerImpl) genuineGenerateDeviceTopologyHints("},
	}},
}

// write puts changed copies of files into dir and returns the package's files for -overlay, as if
// they were in the folder home. (Files of the module cache itself cannot be overlaid.)
func (w *watched) write(dir, home string) (map[string]string, error) {
	out, err := exec.Command("go", "list", "-f", "{{.Dir}}", kubeletPath+w.name).Output()
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", w.name, err)
	}
	source := strings.TrimSpace(string(out))
	replace := map[string]string{}
	files, err := filepath.Glob(filepath.Join(source, "*.go"))
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		replace[filepath.Join(home, w.name, filepath.Base(f))] = f
	}
	put := func(name string, content []byte) error {
		path := filepath.Join(dir, w.name+"_"+name)
		replace[filepath.Join(home, w.name, name)] = path
		return os.WriteFile(path, content, 0o600)
	}
	for name, changes := range w.files {
		text, err := changed(filepath.Join(source, name), changes)
		if err != nil {
			return nil, err
		}
		if err := put(name, text); err != nil {
			return nil, err
		}
	}
	for shim, name := range map[string]string{w.name: "berth_shim.go", "record": "berth_record.go"} {
		text, err := shims.ReadFile("shims/" + shim + ".go.txt")
		if err != nil {
			return nil, err
		}
		if err := put(name, bytes.Replace(text, []byte("package PACKAGE"), []byte("package "+w.name), 1)); err != nil {
			return nil, err
		}
	}
	return replace, nil
}

// Record runs the kubelet's tests and returns the file, in dir, with the calls that they made. The
// working directory must be this package's. The error has the tests' output.
func Record(dir string) (string, error) {
	here, err := os.Getwd()
	if err != nil {
		return "", err
	}
	replace := map[string]string{}
	var paths []string
	for i := range packages {
		more, err := packages[i].write(dir, filepath.Join(here, "kubelet"))
		if err != nil {
			return "", err
		}
		for k, v := range more {
			replace[k] = v
		}
		paths = append(paths, "./kubelet/"+packages[i].name)
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	file, record := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "calls.ndjson")
	if err := os.WriteFile(file, overlay, 0o600); err != nil {
		return "", err
	}
	if err := compile(dir, file, paths); err != nil {
		return "", err
	}
	for i := range packages {
		cmd := exec.Command(filepath.Join(dir, packages[i].name+".test"), "-test.run", testsToRun)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "BERTH_RECORD="+record)
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("the kubelet's tests of %s: %w\n%s", packages[i].name, err, out)
		}
	}
	return record, nil
}

// copyModule copies go.mod and go.sum, which the requirements of the kubelet's tests would change.
func copyModule(dir string) (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", err
	}
	mod := strings.TrimSpace(string(out))
	for from, to := range map[string]string{mod: "go.mod", strings.TrimSuffix(mod, ".mod") + ".sum": "go.sum"} {
		text, err := os.ReadFile(from)
		if err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(dir, to), text, 0o600); err != nil {
			return "", err
		}
	}
	return filepath.Join(dir, "go.mod"), nil
}

// testsToRun omits tests of other functions, some of which need their own root directory or
// network.
const testsToRun = "CPUAccumulator|TakeByTopology|TestStaticPolicy|TopologyAware|TopologyHints|TopologyAligned|GetPreferredAllocation|" +
	"Merge|Policy|GenerateDeviceTopologyHints|PodContainerDeviceAllocation|InitContainerDeviceAllocation|RestartableInitContainerDeviceAllocation|Reuse"

// changed reads a file and makes the changes. Each text to replace must occur exactly once.
func changed(file string, changes map[string]string) ([]byte, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	for from, to := range changes {
		if bytes.Count(text, []byte(from)) != 1 {
			return nil, fmt.Errorf("%s: %q does not occur exactly once", file, from)
		}
		text = bytes.Replace(text, []byte(from), []byte(to), 1)
	}
	return text, nil
}

// compile makes the kubelet's tests, with the overlay, in a folder.
func compile(dir, overlay string, paths []string) error {
	modfile, err := copyModule(dir)
	if err != nil {
		return err
	}
	args := append([]string{"test", "-c", "-o", dir + "/", "-vet=off", "-mod=mod", "-modfile=" + modfile, "-overlay=" + overlay}, paths...)
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("compile the kubelet's tests: %w\n%s", err, out)
	}
	return nil
}
