package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	yaml "go.yaml.in/yaml/v3"

	"github.com/berth-dev/berth/internal/simulate"
	"github.com/berth-dev/berth/internal/simulate/trace"
	"github.com/berth-dev/berth/internal/suggest"
	"github.com/berth-dev/berth/lab"
	"github.com/berth-dev/berth/topology"
)

// machineList is a file with the machine and the kubelet of each model of nodes.
type machineList struct {
	Models map[string]listedMachine `yaml:"models"`
	// Default is for nodes of other models; if it is nil, other models are an error.
	Default *listedMachine `yaml:"default"`
}

// listedMachine is a machine and the configuration of its kubelet. Machine or Shape describes the
// machine.
type listedMachine struct {
	Machine string `yaml:"machine"`
	Shape   string `yaml:"shape"`
	// GPUs are the numbers of GPUs of Machine's NUMA nodes.
	GPUs      []int  `yaml:"gpus"`
	Authority string `yaml:"authority"`
	// These are as in a KubeletConfiguration.
	ReservedSystemCPUs           string            `yaml:"reservedSystemCPUs"`
	CPUManagerPolicyOptions      map[string]string `yaml:"cpuManagerPolicyOptions"`
	TopologyManagerPolicy        string            `yaml:"topologyManagerPolicy"`
	TopologyManagerScope         string            `yaml:"topologyManagerScope"`
	TopologyManagerPolicyOptions map[string]string `yaml:"topologyManagerPolicyOptions"`
}

// maxMachineList bounds the file of machines, in bytes.
const maxMachineList = 1 << 20

// overlayFile is a machineList that was read, with its overlays and the position of each field.
type overlayFile struct {
	name  string
	lines map[string]int // by path, as in "models[V100].machine"
	list  machineList
	lab.Overlays
}

// isOverlayFile reports whether --overlay names a file.
func isOverlayFile(name string) bool {
	info, err := os.Stat(name)
	return slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name)) || err == nil && info.Mode().IsRegular()
}

// openOverlays reads overlays for these nodes from a file.
func openOverlays(name string, nodes []trace.Node) (*overlayFile, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxMachineList+1))
	if err != nil {
		return nil, err
	}
	o, err := readOverlays(name, text)
	if err != nil {
		return nil, err
	}
	return o, o.known(nodes)
}

// readOverlays reads overlays. The errors name file, line and field.
func readOverlays(name string, text []byte) (*overlayFile, error) {
	if len(text) > maxMachineList {
		return nil, fmt.Errorf("%s: more than %d bytes: want a list of machines by model", name, maxMachineList)
	}
	o := &overlayFile{name: name, lines: map[string]int{}}
	if err := o.locate(text); err != nil {
		return nil, err
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&o.list); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(o.list.Models) == 0 && o.list.Default == nil {
		return nil, o.fail("models", "", "models, or a default")
	}
	o.Models = map[string]*lab.Overlay{}
	for _, model := range slices.Sorted(maps.Keys(o.list.Models)) {
		m := o.list.Models[model]
		below, err := o.overlay(modelPath(model), &m)
		if err != nil {
			return nil, err
		}
		o.Models[model] = below
	}
	if o.list.Default == nil {
		return o, nil
	}
	var err error
	o.Rest, err = o.overlay("default", o.list.Default)
	return o, err
}

func modelPath(model string) string { return "models[" + model + "]" }

// locate records the line of each field.
func (o *overlayFile) locate(text []byte) error {
	d := yaml.NewDecoder(bytes.NewReader(text))
	var doc, next yaml.Node
	if err := d.Decode(&doc); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: %w", o.name, err)
	}
	if err := d.Decode(&next); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%s, line %d: want one document", o.name, next.Line)
	}
	for _, root := range doc.Content {
		o.note("", root)
	}
	return nil
}

// note records the lines below a path. Only levels deep enough for fields matter.
func (o *overlayFile) note(path string, n *yaml.Node) {
	if n.Kind != yaml.MappingNode || strings.Count(path, "[")+strings.Count(path, ".") > 3 {
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, at := n.Content[i], n.Content[i].Value
		switch {
		case path == "models" || strings.HasSuffix(path, "Options"):
			at = path + "[" + at + "]"
		case path != "":
			at = path + "." + at
		}
		o.lines[at] = key.Line
		o.note(at, n.Content[i+1])
	}
}

// fail returns an error about a field. If the field is missing, the error has the line of its
// machine.
func (o *overlayFile) fail(path, value, want string) error {
	e := &lab.InputError{File: o.name, Field: path, Value: value, Want: want}
	for at := path; at != "" && e.Line == 0; {
		e.Line = o.lines[at]
		at = at[:max(0, strings.LastIndexAny(at, ".["))]
	}
	return e
}

// overlay makes an overlay of a machine at the path.
func (o *overlayFile) overlay(path string, m *listedMachine) (*lab.Overlay, error) {
	out := &lab.Overlay{GPUs: m.GPUs, Policy: m.TopologyManagerPolicy, Scope: m.TopologyManagerScope, PolicyOptions: m.TopologyManagerPolicyOptions,
		CPUOptions: m.CPUManagerPolicyOptions, Reserved: m.ReservedSystemCPUs, Obey: m.Authority == "berth"}
	fail := func(field, value, want string) (*lab.Overlay, error) {
		return nil, o.fail(path+"."+field, value, want)
	}
	switch {
	case (m.Machine == "") == (m.Shape == ""):
		return fail("machine", m.Machine, "either a machine string or a shape: "+strings.Join(lab.OverlayShapes(), ", "))
	case !slices.Contains(lab.OverlayPolicies(), m.TopologyManagerPolicy):
		return fail("topologyManagerPolicy", m.TopologyManagerPolicy, oneOf(m.TopologyManagerPolicy, lab.OverlayPolicies()))
	case !slices.Contains([]string{"", "kubelet", "berth"}, m.Authority):
		return fail("authority", m.Authority, oneOf(m.Authority, []string{"kubelet", "berth"}))
	case out.Obey && len(m.CPUManagerPolicyOptions) > 0:
		return fail("cpuManagerPolicyOptions", fmt.Sprint(m.CPUManagerPolicyOptions), "none with authority berth: no CPU manager has any")
	case m.Shape != "" && m.GPUs != nil:
		return fail("gpus", fmt.Sprint(m.GPUs), "none with a shape: they are divided evenly")
	}
	for _, count := range m.GPUs {
		if count < 0 || count > trace.MaxGPUs {
			return fail("gpus", fmt.Sprint(m.GPUs), fmt.Sprintf("0 to %d for each NUMA node", trace.MaxGPUs))
		}
	}
	var ok bool
	if m.Shape != "" {
		if out.Packages, out.PerPackage, ok = lab.OverlayShape(m.Shape); !ok {
			return fail("shape", m.Shape, oneOf(m.Shape, lab.OverlayShapes()))
		}
		return out, nil
	}
	var err error
	if out.Given, err = topology.Parse(m.Machine); err != nil {
		return fail("machine", m.Machine, "a "+err.Error())
	}
	return out, nil
}

func oneOf(value string, names []string) string {
	return strings.Join(names, ", ") + suggest.DidYouMean(value, names)
}

// known refuses models that no node has.
func (o *overlayFile) known(nodes []trace.Node) error {
	have := map[string]bool{}
	for i := range nodes {
		have[nodes[i].GPUModel] = true
	}
	names := slices.Sorted(maps.Keys(have))
	for _, model := range slices.Sorted(maps.Keys(o.list.Models)) {
		if !have[model] {
			return o.fail(modelPath(model), model, fmt.Sprintf("a model that a node of the list has: %.200q%s", names, suggest.DidYouMean(model, names)))
		}
	}
	return nil
}

// ground returns a maker of the cluster. An error about a node names the field that does not fit.
func (o *overlayFile) ground(nodes []trace.Node) (func([]trace.Node, bool) simulate.Cluster, error) {
	ground, err := lab.NewNUMA(nodes, o.Overlays)
	wrong, ok := errors.AsType[*lab.OverlayError](err)
	if !ok {
		return ground, err
	}
	path := "default"
	if _, ok := o.list.Models[wrong.Model]; ok {
		path = modelPath(wrong.Model)
	}
	if wrong.Field != "" {
		path += "." + wrong.Field
	}
	value, err := strconv.Unquote(wrong.Value)
	if err != nil {
		value = wrong.Value
	}
	return nil, o.fail(path, value, fmt.Sprintf("%s (node %.60s)", wrong.Want, wrong.Node))
}
