package wire

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

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

// ReadPod is ReadPod for whoever places the pod, or predicts where it is placed.
func (e ExclusiveNamespaces) ReadPod(pod *corev1.Pod) (Ask, error) {
	ask, err := ReadPod(pod)
	ask.Request.Rules.MayWithhold = e.Allow(pod.Namespace)
	return ask, err
}
