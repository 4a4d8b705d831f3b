package wire

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// koordinatorUnit is how many units Koordinator's device manager counts for a whole device.
const koordinatorUnit = 100

// DeviceUnits is how many units of a resource stand for one device: pods ask for 100 of
// koordinator.sh/gpu, rdma and fpga to have one.
func DeviceUnits(resource string) int {
	switch resource {
	case "koordinator.sh/gpu", "koordinator.sh/rdma", "koordinator.sh/fpga":
		return koordinatorUnit
	}
	return 1
}

// koordinatorParts are resources of parts of GPUs.
var koordinatorParts = map[string]bool{
	"koordinator.sh/gpu-core": true, "koordinator.sh/gpu-memory": true, "koordinator.sh/gpu-memory-ratio": true, "koordinator.sh/gpu.shared": true,
}

// checkUnits refuses parts of devices in Koordinator's words. The error is a *FieldError.
func checkUnits(pod *corev1.Pod) error {
	for _, list := range []struct {
		name       string
		containers []corev1.Container
	}{{"initContainers", pod.Spec.InitContainers}, {"containers", pod.Spec.Containers}} {
		for i := range list.containers {
			at := field.NewPath("spec", list.name).Index(i).Child("resources", "limits")
			limits := list.containers[i].Resources.Limits
			for _, name := range namesIn(limits) {
				q, want := limits[name], ""
				switch {
				case q.IsZero():
				case koordinatorParts[string(name)]:
					want = "koordinator.sh/gpu, of which 100 are a GPU, or the resource of the GPUs' own plugin: Berth gives whole devices"
				case q.MilliValue()%(1000*int64(DeviceUnits(string(name)))) != 0 && DeviceUnits(string(name)) > 1:
					want = "a multiple of 100, which is one device: Berth gives whole devices"
				}
				if want != "" {
					return fieldErrors(podName(pod)).at(at.Key(string(name)), &q, want)
				}
			}
		}
	}
	return nil
}
