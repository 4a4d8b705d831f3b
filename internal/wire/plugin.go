package wire

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/berth-dev/berth/placement"
)

// PluginName is the name by which the agent's plugin registers with a container runtime's NRI.
const PluginName = "berth"

// RequiredPlugins is the prefix of the annotations by which a pod demands plugins of the container
// runtime: NRI's default validator, where it is on, lets no container of the pod begin that these
// have not seen.
const RequiredPlugins = "required-plugins.noderesource.dev"

// containerDemand returns the annotation that demands the plugin for one container. The narrowest
// form comes first with the validator. The name of an annotation has 63 bytes at most: for longer
// names of containers there is none.
func containerDemand(container string) (key string, ok bool) {
	name := "container." + container
	return RequiredPlugins + "/" + name, len(name) <= validation.DNS1123LabelMaxLength
}

const demand = `[ "` + PluginName + `" ]`

// DemandPlugin adds to the annotations of a Binding that no container begins without the agent's
// plugin, and returns the bytes that they have. Where the name of a container is too long, the
// demand is the pod's.
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

// CheckOwnPlacement is CheckPlacement for a node on which Berth decides: the Binding demands the
// plugin as well, and nobody else may have said anything about that.
func CheckOwnPlacement(pod *corev1.Pod, d *placement.Decision) error {
	for _, key := range pluginKeys(d) {
		if text, said := pod.Annotations[key]; said {
			return fieldErrors(podName(pod)).at(annotation(key), text, "none: berth-scheduler writes it")
		}
	}
	return checkBeside(pod, d, DemandPlugin(map[string]string{}, d))
}

// pluginKeys returns the keys under which the validator looks for demands.
func pluginKeys(d *placement.Decision) []string {
	keys := []string{RequiredPlugins, RequiredPlugins + "/pod"}
	for i := range d.Containers {
		keys = append(keys, RequiredPlugins+"/container."+d.Containers[i].Name)
	}
	return keys
}
