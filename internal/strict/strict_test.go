package strict

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	batch "github.com/berth-dev/berth/api/batch/v1alpha1"
	nodeinfo "github.com/berth-dev/berth/api/nodeinfo/v1alpha1"
	nrt "github.com/berth-dev/berth/api/nrt/v1alpha2"
	sigs "github.com/berth-dev/berth/api/scheduling/sigs/v1alpha1"
	volcano "github.com/berth-dev/berth/api/scheduling/volcano/v1beta1"
	"github.com/berth-dev/berth/internal/wire"
)

func TestUnmarshalReads(t *testing.T) {
	pod := new(corev1.Pod)
	const doc = `{kind: Pod, metadata: {name: p, labels: {a: b}}, spec: {priority: null, hostNetwork: true,
 containers: [{name: c, resources: {limits: {cpu: 4, memory: 1Gi}}, ports: [{containerPort: 80}], livenessProbe: {httpGet: {port: http}}}]}}`
	if err := Unmarshal("Pod p", []byte(doc), pod); err != nil {
		t.Fatal(err)
	}
	if c := pod.Spec.Containers[0]; c.Resources.Limits.Cpu().Value() != 4 || c.LivenessProbe.HTTPGet.Port.StrVal != "http" {
		t.Errorf("got %+v", c)
	}
}

func TestUnmarshalRefuses(t *testing.T) {
	for name, c := range map[string]struct{ doc, want string }{
		"unknown field": {`spec: {container: []}`, `Pod p: spec.container: "[]": want a known field (did you mean "containers"?)`},
		"case":          {`Spec: {}`, `Pod p: Spec: "{}": want a known field (did you mean "spec"?)`},
		"quantity": {`spec: {containers: [{name: c, resources: {limits: {cpu: four}}}]}`,
			`Pod p: spec.containers[0].resources.limits[cpu]: "four": want a quantity like 4, 500m or 1Gi`},
		"number for text": {`metadata: {name: 5}`, `Pod p: metadata.name: "5": want a string in quotes: "5"`},
		"no for text":     {`metadata: {name: n}`, `Pod p: metadata.name: "false": want a string in quotes: "false" (YAML reads n, no and off as false)`},
		"list for text":   {`metadata: {name: [a]}`, `Pod p: metadata.name: "[\"a\"]": want a string`},
		"text for number": {`spec: {priority: "7"}`, `Pod p: spec.priority: "7": want a number (int32), without quotes`},
		"text for bool":   {`spec: {hostPID: "true"}`, `Pod p: spec.hostPID: "true": want true or false, without quotes`},
		"too large":       {`spec: {priority: 9999999999}`, `Pod p: spec.priority: "9999999999": want a number (int32)`},
		"list":            {`spec: {containers: {}}`, `Pod p: spec.containers: "{}": want a list`},
		"object":          {`spec: []`, `Pod p: spec: "[]": want an object`},
		"map":             {`metadata: {labels: [a]}`, `Pod p: metadata.labels: "[\"a\"]": want an object`},
		"time":            {`metadata: {creationTimestamp: noon}`, `want a time like`},
		"twice":           {"spec: {}\nspec: {}", `already set in map`},
		"no YAML":         {`{`, "Pod p: "},
	} {
		t.Run(name, func(t *testing.T) {
			err := Unmarshal("Pod p", []byte(c.doc), new(corev1.Pod))
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "Go ") {
				t.Errorf("error %v, want %s", err, c.want)
			}
		})
	}
}

// TestUnmarshalOfLenientObjects: decoders that accept wrong fields do not hide these fields.
func TestUnmarshalOfLenientObjects(t *testing.T) {
	for name, c := range map[string]struct {
		into      any
		doc, want string
	}{
		"unknown":  {new(batch.Job), `spec: {tasks: [{replica: 3}]}`, `spec.tasks[0].replica: "3": want a known field (did you mean "replicas"?)`},
		"number":   {new(batch.Job), `spec: {minAvailable: "3"}`, `spec.minAvailable: "3": want a number (int32), without quotes`},
		"quantity": {new(batch.Job), `spec: {tasks: [{template: {spec: {containers: [{resources: {limits: {memory: 1gb}}}]}}}]}`, `limits[memory]: "1gb": want a quantity`},
		"duration": {new(batch.Job), `spec: {policies: [{timeout: 5}]}`, `spec.policies[0].timeout: "5": want a duration like 30s or 5m`},
		"list":     {new(batch.Job), `spec: {policies: [{events: PodFailed}]}`, `spec.policies[0].events: "PodFailed": want a list`},
		"object":   {new(batch.Job), `spec: [a]`, `spec: "[\"a\"]": want an object`},
		"volcano":  {new(volcano.PodGroup), `spec: {minMembers: 1}`, `(did you mean "minMember"?)`},
		"sigs":     {new(sigs.PodGroup), `spec: {minMember: x}`, `spec.minMember: "x": want a number`},
		"nrt":      {new(nrt.NodeResourceTopology), `zones: {}`, `zones: "{}": want a list`},
		"info":     {new(nodeinfo.Numatopology), `spec: {policie: {}}`, `(did you mean "policies"?)`},
	} {
		t.Run(name, func(t *testing.T) {
			if err := Unmarshal("X x", []byte(c.doc), c.into); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "Go ") {
				t.Errorf("error %v, want %s", err, c.want)
			}
		})
	}
}

func TestUnmarshalNamesTheOptionThatLacksQuotes(t *testing.T) {
	err := Unmarshal("KubeletConfiguration", []byte("cpuManagerPolicyOptions: {full-pcpus-only: true}"), new(kubeletv1beta1.KubeletConfiguration))
	var field *wire.FieldError
	if !errors.As(err, &field) || field.Field != "cpuManagerPolicyOptions[full-pcpus-only]" || !strings.Contains(field.Want, `a string in quotes: "true"`) {
		t.Errorf("got %v", err)
	}
}

// FuzzUnmarshal compares the checker with the library's strict reading, which finds the same errors
// but describes them less exactly.
func FuzzUnmarshal(f *testing.F) {
	f.Add("spec: {containers: [{name: c}]}")
	f.Add("metadata: {managedFields: [{fieldsV1: 1}]}")
	f.Fuzz(func(t *testing.T, doc string) {
		got := Unmarshal("Pod p", []byte(doc), new(corev1.Pod))
		data, err := yaml.YAMLToJSONStrict([]byte(doc))
		if err == nil {
			var strict []error
			strict, err = kjson.UnmarshalStrict(data, new(corev1.Pod))
			err = errors.Join(append(strict, err)...)
		}
		if (got == nil) != (err == nil) {
			t.Errorf("%q: error %v, the library %v", doc, got, err)
		}
	})
}
