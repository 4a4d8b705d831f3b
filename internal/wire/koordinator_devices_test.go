package wire

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/placement/joint"
	"github.com/berth-dev/berth/topology"
)

func TestReadKoordinatorDevices(t *testing.T) {
	both := placement.GPUType | placement.RDMAType
	for _, c := range []struct {
		name, joint, hint string
		want              placement.DeviceRules
		wrong             string // the end of the error's field
	}{
		{name: "together, preferred", joint: `{"deviceTypes":["gpu","rdma"]}`, want: placement.DeviceRules{Same: joint.SameRoot, SameHow: joint.Preferred, Joint: both}},
		{name: "together, required", joint: `{"deviceTypes":["gpu","rdma"],"requiredScope":"SamePCIe"}`, want: placement.DeviceRules{Same: joint.SameRoot, SameHow: joint.Required, Joint: both}},
		{name: "one function of each card", hint: `{"rdma":{"vfSelector":{}}}`, want: placement.DeviceRules{OnePerFunction: placement.RDMAType}},
		{name: "for all", hint: `{"rdma":{"selector":{ },"allocateStrategy":"ApplyForAll"}}`, want: placement.DeviceRules{All: placement.RDMAType}},
		{name: "as many as asked", hint: `{"gpu":{"allocateStrategy":"RequestsAsCount","requiredTopologyScope":"Node"}}`},
		{name: "one PCIe", hint: `{"gpu":{"requiredTopologyScope":"PCIe"}}`, want: placement.DeviceRules{Same: joint.OneRoot, SameHow: joint.Required, Joint: placement.GPUType}},
		{name: "both annotations", joint: `{"deviceTypes":["gpu","rdma"]}`, hint: `{"rdma":{"vfSelector":{}}}`,
			want: placement.DeviceRules{Same: joint.SameRoot, SameHow: joint.Preferred, Joint: both, OnePerFunction: placement.RDMAType}},

		{name: "no types", joint: `{}`, wrong: ".deviceTypes"},
		{name: "unknown type", joint: `{"deviceTypes":["gpus"]}`, wrong: ".deviceTypes[0]"},
		{name: "type twice", joint: `{"deviceTypes":["gpu","gpu"]}`, wrong: ".deviceTypes[1]"},
		{name: "unknown scope", joint: `{"deviceTypes":["gpu"],"requiredScope":"samePCIe"}`, wrong: ".requiredScope"},
		{name: "no JSON", joint: `gpu`, wrong: "[" + koordinatorJoint + "]"},
		{name: "unknown field", hint: `{"rdma":{"vf":{}}}`, wrong: "[" + koordinatorHint + "]"},
		{name: "long", hint: strings.Repeat("x", 100<<10), wrong: "[" + koordinatorHint + "]"},
		{name: "hint of no type", hint: `{"nic":{}}`, wrong: "[nic]"},
		{name: "labels", hint: `{"rdma":{"selector":{"matchLabels":{"a":"b"}}}}`, wrong: "[rdma].selector"},
		{name: "labels of functions", hint: `{"rdma":{"vfSelector":{"matchLabels":{"a":"b"}}}}`, wrong: "[rdma].vfSelector"},
		{name: "strategy", hint: `{"rdma":{"allocateStrategy":"All"}}`, wrong: ".allocateStrategy"},
		{name: "exclusive", hint: `{"rdma":{"exclusivePolicy":"PCIeLevel"}}`, wrong: ".exclusivePolicy"},
		{name: "NUMA node", hint: `{"gpu":{"requiredTopologyScope":"NUMANode"}}`, wrong: ".requiredTopologyScope"},
		{name: "device", hint: `{"gpu":{"requiredTopologyScope":"Device"}}`, wrong: ".requiredTopologyScope"},
		{name: "PCIe beside joint", joint: `{"deviceTypes":["gpu"]}`, hint: `{"gpu":{"requiredTopologyScope":"PCIe"}}`, wrong: ".requiredTopologyScope"},
		{name: "PCIe of two", hint: `{"gpu":{"requiredTopologyScope":"PCIe"},"rdma":{}}`, wrong: "[gpu].requiredTopologyScope"},
	} {
		annotations := map[string]string{}
		for key, text := range map[string]string{koordinatorJoint: c.joint, koordinatorHint: c.hint} {
			if text != "" {
				annotations[key] = text
			}
		}
		r, err := ReadRules(podAsking(annotations))
		if r != (placement.Rules{Devices: c.want}) || (err == nil) != (c.wrong == "") {
			t.Errorf("%s: %+v, %v; want %+v", c.name, r, err, c.want)
		}
		wrong := new(FieldError)
		if c.wrong != "" && (!errors.As(err, &wrong) || !strings.HasSuffix(wrong.Field, c.wrong) || len(err.Error()) > 1000) {
			t.Errorf("%s: %v, want an error about %s", c.name, err, c.wrong)
		}
	}
	r, err := ReadRules(podAsking(map[string]string{koordinatorJoint: `{"deviceTypes":["gpu"]}`, DevicesAnnotation: "one-switch"}))
	if want := (placement.DeviceRules{Same: joint.OneSwitch, SameHow: joint.Required}); err != nil || r.Devices != want {
		t.Errorf("Berth's own word beside Koordinator's: %+v, %v", r.Devices, err)
	}
}

func TestWriteKoordinatorDevices(t *testing.T) {
	m, err := topology.Parse("package:1 numa:2 core:4 pu:1 mem:8Gi dev:18:00.0|19:00.0,030200,10de:2330,numa=0,root=15 " +
		"dev:1a:00.0,020700,15b3:1021,numa=0,root=15 dev:1a:00.1|1a:00.2,020700,15b3:1021,numa=0,root=15,pf=1a:00.0 dev:5a:00.0,020700,15b3:1021,numa=1,root=55")
	if err != nil {
		t.Fatal(err)
	}
	d := &placement.Decision{UID: "x", Containers: []placement.ContainerDecision{
		{Name: "a", Devices: []placement.DeviceAllocation{{Resource: "gpu", IDs: []string{"0000:19:00.0"}}, {Resource: "vf", IDs: []string{"0000:1a:00.2"}}}},
		{Name: "b", Devices: []placement.DeviceAllocation{{Resource: "nic", IDs: []string{"0000:5a:00.0", "ffff:00:00.0"}}}},
	}}
	const want = `{"gpu":[{"minor":1,"id":"0000:19:00.0","resources":{"koordinator.sh/gpu-core":"100","koordinator.sh/gpu-memory-ratio":"100"}}],` +
		`"rdma":[{"minor":0,"id":"0000:1a:00.0","resources":{"koordinator.sh/rdma":"1"},"extension":{"vfs":[{"minor":1,"busID":"0000:1a:00.2"}]}},` +
		`{"minor":1,"id":"0000:5a:00.0","resources":{"koordinator.sh/rdma":"100"}}]}`
	if got, err := WriteKoordinatorDevices(d, m); err != nil || got != want {
		t.Errorf("%v\n%s\nwant\n%s", err, got, want)
	}
	words, err := WriteKoordinatorWords(d, m)
	if err != nil || len(words) != 2 || words[KoordinatorDevicesAnnotation] != want || words[KoordinatorStatusAnnotation] != "{}" {
		t.Errorf("%v, %v", words, err)
	}
	if words, err := WriteKoordinatorWords(&placement.Decision{}, m); err != nil || len(words) != 1 {
		t.Errorf("%v, %v for no devices", words, err)
	}
	if got, err := WriteKoordinatorDevices(&placement.Decision{}, m); err != nil || got != "" {
		t.Errorf("%q, %v for no devices", got, err)
	}
}

// FuzzReadDeviceRules: every annotation about devices is read or refused, and the error names the
// annotation.
func FuzzReadDeviceRules(f *testing.F) {
	f.Add(`{"deviceTypes":["gpu","rdma"],"requiredScope":"SamePCIe"}`, `{"rdma":{"vfSelector":{},"allocateStrategy":"ApplyForAll"}}`, "same-switch,preferred", "one-per-card")
	f.Add(`{"deviceTypes":[]}`, `{"gpu":{"requiredTopologyScope":"PCIe"}}`, "", "")
	f.Add(`null`, `{"gpu":null}`, "one-root", "")
	f.Fuzz(func(t *testing.T, together, hint, devices, functions string) {
		pod := podAsking(map[string]string{koordinatorJoint: together, koordinatorHint: hint, DevicesAnnotation: devices, FunctionsAnnotation: functions})
		pod.Spec.Containers = []corev1.Container{{Name: "c"}}
		r, err := ReadRules(pod)
		wrong := new(FieldError)
		switch {
		case err != nil && (!errors.As(err, &wrong) || !strings.HasPrefix(wrong.Field, "metadata.annotations[")):
			t.Errorf("%v", err)
		case err != nil && r != (placement.Rules{}):
			t.Errorf("%+v beside %v", r, err)
		case err == nil && (!r.Devices.Same.Sane() || (r.Devices.Same == joint.Anywhere) != (r.Devices.SameHow == joint.Unset)):
			t.Errorf("%+v", r.Devices)
		}
	})
}
