package wire

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/berth-dev/berth/placement"
)

// Terms are what the scheduler's arguments say about every pod that it places, and not the pod.
type Terms struct {
	ExclusiveNamespaces ExclusiveNamespaces `json:"exclusiveNamespaces,omitempty"`
	// Keep is CPUsNearDevices, or "" for nothing.
	Keep string `json:"keep,omitempty"`
	// CPUsPerDevice is how many CPUs are kept for each device, by resource: see placement.NewKeep.
	CPUsPerDevice map[string]int `json:"cpusPerDevice,omitempty"`

	kept *placement.Keep // what both say, once Check has been called
}

// CPUsNearDevices as Terms.Keep keeps CPUs beside devices for pods that ask for devices.
const CPUsNearDevices = "cpusNearDevices"

// maxKept bounds the resources of CPUsPerDevice.
const maxKept = 64

// Check refuses what cannot be right. The error names field, value and what would be right. Before
// it has been called, nothing is kept.
func (t *Terms) Check() (err error) {
	if err := t.ExclusiveNamespaces.Check(); err != nil {
		return err
	}
	if t.Keep != "" && t.Keep != CPUsNearDevices {
		return fmt.Errorf("keep: %.100q: want %s, or nothing", t.Keep, CPUsNearDevices)
	}
	if t.Keep != "" && len(t.CPUsPerDevice) == 0 {
		return fmt.Errorf("keep: %s: want cpusPerDevice beside it, such as {nvidia.com/gpu: 8}", t.Keep)
	}
	if t.Keep == "" && len(t.CPUsPerDevice) > 0 {
		return fmt.Errorf("cpusPerDevice: want keep: %s beside it", CPUsNearDevices)
	}
	if len(t.CPUsPerDevice) > maxKept {
		return fmt.Errorf("cpusPerDevice: %d resources: want at most %d", len(t.CPUsPerDevice), maxKept)
	}
	for resource := range t.CPUsPerDevice {
		if wrong := validation.IsQualifiedName(resource); len(wrong) > 0 {
			return fmt.Errorf("cpusPerDevice: %.100q: want the name of a resource, such as nvidia.com/gpu", resource)
		}
	}
	if t.kept = nil; t.Keep == "" {
		return nil
	}
	if t.kept, err = placement.NewKeep(t.CPUsPerDevice); err != nil {
		return fmt.Errorf("cpusPerDevice: %w", err)
	}
	return nil
}

// ReadPod is ReadPod for whoever places the pod, or predicts where it is placed.
func (t *Terms) ReadPod(pod *corev1.Pod) (Ask, error) {
	ask, err := ReadPod(pod)
	t.Impose(pod.Namespace, &ask.Request.Rules)
	return ask, err
}

// Impose adds the terms to what a pod of the namespace asks for.
func (t *Terms) Impose(namespace string, rules *placement.Rules) {
	rules.MayWithhold, rules.Keep = t.ExclusiveNamespaces.Allow(namespace), t.kept
}

// anyNamespace among ExclusiveNamespaces stands for all.
const anyNamespace = "*"

// ExclusiveNamespaces are those whose pods may keep CPUs from others that they do not ask for, as
// the scheduler's argument exclusiveNamespaces has them.
type ExclusiveNamespaces []string

// Allow says whether pods of a namespace may.
func (e ExclusiveNamespaces) Allow(namespace string) bool {
	return slices.Contains(e, namespace) || slices.Contains(e, anyNamespace)
}

// Check refuses what is no name of a namespace.
func (e ExclusiveNamespaces) Check() error {
	for i, name := range e {
		if wrong := validation.IsDNS1123Label(name); name != anyNamespace && len(wrong) > 0 {
			return fmt.Errorf("exclusiveNamespaces[%d]: %.100q: want the name of a namespace, or *", i, name)
		}
	}
	return nil
}
