package wire

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/berth-dev/berth/placement"
)

// PluginName is the name by which the agent's plugin registers with a container runtime's NRI.
const PluginName = "berth"

// RequiredPlugins is the prefix of the annotations with which a pod requires plugins of the
// container runtime. If NRI's default validator is on, a container of the pod only starts if these
// plugins have handled it.
const RequiredPlugins = "required-plugins.noderesource.dev"

// containerDemand returns the annotation that requires the plugin for one container. For this
// container, the validator ignores the annotation for the whole pod. ok is false if the
// annotation's name would have more than 63 bytes.
func containerDemand(container string) (key string, ok bool) {
	name := "container." + container
	return RequiredPlugins + "/" + name, len(name) <= validation.DNS1123LabelMaxLength
}

const demand = `[ "` + PluginName + `" ]`

// DemandPlugin adds annotations to a Binding so that no container starts without the agent's
// plugin. It returns the size of the annotations in bytes. If the name of a container is too long,
// it requires the plugin for the whole pod.
func DemandPlugin(annotations map[string]string, d *placement.Decision) (bytes int) {
	for i := range d.Containers {
		key, ok := containerDemand(d.Containers[i].Name)
		if !ok {
			key = RequiredPlugins + "/pod"
		}
		if _, twice := annotations[key]; !twice {
			annotations[key] = demand
			bytes += len(key) + len(demand)
		}
	}
	return bytes
}

// CheckOwnPlacement does the checks of CheckPlacement for a node on which Berth decides. It also
// counts the bytes of the annotations that DemandPlugin adds, and returns an error if the pod
// already has annotations about required plugins.
func CheckOwnPlacement(pod *corev1.Pod, d *placement.Decision) error {
	for _, key := range pluginKeys(d) {
		if text, said := pod.Annotations[key]; said {
			return fieldErrors(podName(pod)).at(annotation(key), text, "no such annotation: only berth-scheduler writes it")
		}
	}
	return checkBeside(pod, d, DemandPlugin(map[string]string{}, d))
}

// pluginKeys returns the annotation keys that the validator reads.
func pluginKeys(d *placement.Decision) []string {
	keys := []string{RequiredPlugins, RequiredPlugins + "/pod"}
	for i := range d.Containers {
		keys = append(keys, RequiredPlugins+"/container."+d.Containers[i].Name)
	}
	return keys
}
