package demo

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/hollow"
	"github.com/berth-dev/berth/internal/kubeletconfig"
	"github.com/berth-dev/berth/internal/manifest"
	"github.com/berth-dev/berth/internal/whatif"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// nodeKey finds the keys of a node's description. Machine strings and lists of devices contain
// commas. So a comma ends a value only if a key follows.
var nodeKey = regexp.MustCompile(`(?:^|,)(name|machine|capture|config|device|authority)=`)

// ParseNode parses the description of one of the user's own nodes:
//
//	name=a,machine=package:2 numa:1 core:4 pu:2,config=kubelet.yaml,device=nvidia.com/gpu=0:4,1:4
//
// With authority=berth the node's runtime asks the agent through NRI, so the node carries out the
// scheduler's decisions. The hardware is a machine string (machine), or a capture: a folder with
// sys/ or its archive (capture). Without config every manager's policy is none. device may be
// repeated. The error names the key, its value and a correct value.
func ParseNode(text string) (hollow.Spec, error) {
	var spec hollow.Spec
	fields, err := nodeFields(text)
	if err != nil {
		return spec, err
	}
	var machine *topology.Machine
	var config string
	for _, f := range fields {
		switch f.key {
		case "name":
			spec.Name, err = parseNodeName(f.value)
		case "machine":
			machine, err = topology.Parse(f.value)
		case "capture":
			machine, err = whatif.ReadCapture(f.value)
		case "config":
			var data []byte
			data, err = manifest.ReadInput(f.value, os.Stdin, kubeletconfig.MaxBytes)
			spec.KubeletConfig, config = string(data), f.value
		case "device":
			var p hollow.Plugin
			p, err = parsePlugin(f.value)
			if err == nil && slices.ContainsFunc(spec.Plugins, func(other hollow.Plugin) bool { return other.Resource == p.Resource }) {
				err = fmt.Errorf("%s is given twice: want all its NUMA nodes in one device=, like device=%s=0:4,1:4", p.Resource, p.Resource)
			}
			spec.Plugins = append(spec.Plugins, p)
		case "authority":
			spec.NRI, err = parseAuthority(f.value)
		}
		if err != nil {
			return spec, fmt.Errorf("%s=%s: %w", f.key, f.value, err)
		}
	}
	if err := completeNode(&spec, machine); err != nil {
		return spec, err
	}
	if err := starts(&spec, config); err != nil {
		return spec, err
	}
	return spec, spec.Check()
}

// starts returns the error of `berth place` if the node's kubelet would not start, or an error if
// the machine has no memory. It does not check a configuration that is not a regular file, such as
// standard input.
func starts(spec *hollow.Spec, config string) error {
	question := whatif.Spec{Machine: spec.Machine, Version: placement.V137}
	if info, err := os.Stat(config); err == nil && info.Mode().IsRegular() {
		question.Config.File, question.Config.Plain = config, true
	}
	n, err := question.Load()
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(n.Machine().NUMANodes, func(n topology.NUMANode) bool { return n.MemoryBytes > 0 }) {
		return errors.New("the machine has no memory: want mem:SIZE too, as in mem:64Gi")
	}
	return nil
}

type nodeField struct{ key, value string }

// nodeFields splits the description into keys and values. Every key except device may appear once.
func nodeFields(text string) ([]nodeField, error) {
	at := slices.DeleteFunc(nodeKey.FindAllStringSubmatchIndex(text, -1), func(m []int) bool { return namesDevice(text, m) })
	if len(at) == 0 || at[0][0] != 0 {
		return nil, fmt.Errorf("%q: want name=NAME,machine=MACHINE or name=NAME,capture=PATH, optionally followed by config=FILE, authority=berth and device=RESOURCE=NUMA:COUNT", text)
	}
	var fields []nodeField
	seen := map[string]bool{}
	for i, m := range at {
		end := len(text)
		if i+1 < len(at) {
			end = at[i+1][0]
		}
		f := nodeField{text[m[2]:m[3]], text[m[1]:end]}
		if seen[f.key] && f.key != "device" {
			return nil, fmt.Errorf("%s= is given twice: want it once", f.key)
		}
		seen[f.key] = true
		fields = append(fields, f)
	}
	if seen["machine"] == seen["capture"] {
		return nil, errors.New("want either machine= or capture=")
	}
	return fields, nil
}

// namesDevice reports whether a key belongs to a device of the machine string. An item of a device
// may have name= as its last key; any other name= is a key of the node.
func namesDevice(text string, m []int) bool {
	before := text[:m[0]]
	item := before[strings.LastIndexFunc(before, unicode.IsSpace)+1:]
	if _, first, ok := strings.Cut(item, "machine="); ok {
		item = first
	}
	return text[m[2]:m[3]] == "name" && strings.HasPrefix(item, "dev:") && !strings.Contains(item, ",name=")
}

func completeNode(spec *hollow.Spec, machine *topology.Machine) error {
	if spec.Name == "" {
		return errors.New("name= is missing: want the node's name")
	}
	if spec.KubeletConfig == "" {
		spec.KubeletConfig = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
		if spec.NRI { // shared containers need at least one reserved CPU
			spec.KubeletConfig += "kubeReserved: {cpu: \"1\"}\n"
		}
	}
	spec.Machine = machine.String()
	for i := range spec.Plugins {
		if err := onMachine(&spec.Plugins[i], machine); err != nil {
			return err
		}
	}
	return nil
}

func onMachine(p *hollow.Plugin, machine *topology.Machine) error {
	for i := range p.Devices {
		for _, numa := range p.Devices[i].NUMA {
			if machine.NUMANode(numa) == nil {
				return fmt.Errorf("device=%s: NUMA node %d: want one that the machine has", p.Resource, numa)
			}
		}
	}
	return nil
}

func parseAuthority(text string) (berth bool, err error) {
	switch v1alpha1.Authority(text) {
	case v1alpha1.AuthorityKubelet:
		return false, nil
	case v1alpha1.AuthorityBerth:
		return true, nil
	}
	return false, errors.New("want kubelet or berth")
}

func parseNodeName(name string) (string, error) {
	if wrong := validation.IsDNS1123Subdomain(name); len(wrong) > 0 {
		return "", errors.New(wrong[0])
	}
	return name, nil
}

// parsePlugin reads the devices of a plugin as `berth place --device` does. The plugin prefers
// ascending ids, because without a preference the kubelet picks at random.
func parsePlugin(text string) (hollow.Plugin, error) {
	pool, err := whatif.ParsePool(text)
	p := hollow.Plugin{Resource: pool.Resource, Prefer: true}
	for i := range pool.Devices {
		d := &pool.Devices[i]
		p.Devices = append(p.Devices, hollow.Device{ID: d.ID, NUMA: slices.Collect(d.NUMA.All())})
	}
	return p, err
}
