package demo

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/berth-dev/berth/internal/capture"
	"github.com/berth-dev/berth/internal/hollow"
	"github.com/berth-dev/berth/sysfs"
	"github.com/berth-dev/berth/topology"
)

// maxNodeConfig bounds a file with a KubeletConfiguration, in bytes.
const maxNodeConfig = 1 << 20

// nodeKey finds the keys of a node's description. A machine string and a list of devices have
// commas of their own, so a comma ends a value only before a key.
var nodeKey = regexp.MustCompile(`(?:^|,)(name|machine|capture|config|device)=`)

// ParseNode reads a node of the user's own:
//
//	name=a,machine=package:2 numa:1 core:4 pu:2,config=kubelet.yaml,device=nvidia.com/gpu=0:4,1:4
//
// Either machine, a machine string, or capture, a folder with sys/ in it or an archive of one, says
// what the hardware is. Without config every manager's policy is none. device may stand several
// times. The error names the key, its value and what would be right.
func ParseNode(text string) (hollow.Spec, error) {
	var spec hollow.Spec
	fields, err := nodeFields(text)
	if err != nil {
		return spec, err
	}
	var machine *topology.Machine
	for _, f := range fields {
		switch f.key {
		case "name":
			spec.Name, err = parseNodeName(f.value)
		case "machine":
			machine, err = topology.Parse(f.value)
		case "capture":
			machine, err = readCapture(f.value)
		case "config":
			spec.KubeletConfig, err = readConfig(f.value)
		case "device":
			var p hollow.Plugin
			p, err = parsePlugin(f.value)
			spec.Plugins = append(spec.Plugins, p)
		}
		if err != nil {
			return spec, fmt.Errorf("%s=%s: %w", f.key, f.value, err)
		}
	}
	if err := completeNode(&spec, machine); err != nil {
		return spec, err
	}
	return spec, spec.Check()
}

type nodeField struct{ key, value string }

// nodeFields cuts the description before its keys. All but device may stand once.
func nodeFields(text string) ([]nodeField, error) {
	at := nodeKey.FindAllStringSubmatchIndex(text, -1)
	if len(at) == 0 || at[0][0] != 0 {
		return nil, fmt.Errorf("%q: want name=NAME,machine=MACHINE or capture=PATH, then config=FILE and device=RESOURCE=NUMA:COUNT", text)
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
			return nil, fmt.Errorf("%s= stands twice: want it once", f.key)
		}
		seen[f.key] = true
		fields = append(fields, f)
	}
	if seen["machine"] == seen["capture"] {
		return nil, errors.New("want either machine= or capture=")
	}
	return fields, nil
}

func completeNode(spec *hollow.Spec, machine *topology.Machine) error {
	if spec.Name == "" {
		return errors.New("name= is missing: want the node's name")
	}
	if spec.KubeletConfig == "" {
		spec.KubeletConfig = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
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

func parseNodeName(name string) (string, error) {
	if wrong := validation.IsDNS1123Subdomain(name); len(wrong) > 0 {
		return "", errors.New(wrong[0])
	}
	return name, nil
}

func readCapture(path string) (*topology.Machine, error) {
	c, err := capture.Open(path)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return sysfs.Read(c.FS)
}

func readConfig(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() || info.Size() > maxNodeConfig {
		return "", fmt.Errorf("%d bytes: want a file of at most %d", info.Size(), maxNodeConfig)
	}
	data, err := os.ReadFile(path)
	return string(data), err
}

// maxPlugin bounds the devices of a plugin.
const maxPlugin = 4096

// parsePlugin reads RESOURCE=NUMA:COUNT[,NUMA:COUNT...]; - stands for no NUMA node.
func parsePlugin(text string) (hollow.Plugin, error) {
	resource, list, ok := strings.Cut(text, "=")
	if !ok || !strings.Contains(resource, "/") {
		return hollow.Plugin{}, errors.New("want RESOURCE=NUMA:COUNT, like nvidia.com/gpu=0:4,1:4")
	}
	p := hollow.Plugin{Resource: resource, Prefer: true}
	for item := range strings.SplitSeq(list, ",") {
		numa, count, _ := strings.Cut(item, ":")
		n, err := strconv.ParseUint(count, 10, 16)
		if err != nil || len(p.Devices)+int(n) > maxPlugin {
			return p, fmt.Errorf("%q: want NUMA:COUNT with at most %d devices in all", item, maxPlugin)
		}
		var near []topology.NUMAID
		if numa != "-" {
			id, err := strconv.ParseUint(numa, 10, 16)
			if err != nil {
				return p, fmt.Errorf("%q: want a NUMA node's number, or -, before the colon", item)
			}
			near = []topology.NUMAID{topology.NUMAID(id)}
		}
		for i := range n {
			p.Devices = append(p.Devices, hollow.Device{ID: fmt.Sprintf("%s-%d", numa, i), NUMA: near})
		}
	}
	return p, nil
}
