package koordinator

import (
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/internal/hollow"
	"github.com/berth-dev/berth/test/trial"
)

// wholePod returns a pod that needs that many CPUs of the node.
func wholePod(node string, cpus int) *corev1.Pod {
	zero := int64(0)
	list := corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(int64(cpus), resource.DecimalSI), corev1.ResourceMemory: resource.MustParse("64Mi")}
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "whole-" + node}}
	p.Spec.TerminationGracePeriodSeconds, p.Spec.NodeSelector = &zero, map[string]string{corev1.LabelHostname: node}
	p.Spec.Containers = []corev1.Container{{Name: "main", Image: "pause", Resources: corev1.ResourceRequirements{Requests: list, Limits: list}}}
	return p
}

// newPod makes a pod with Koordinator's labels and annotations.
func newPod(rng *rand.Rand, i int) *corev1.Pod {
	pick := func(words ...string) string { return words[rng.IntN(len(words))] }
	class := pick("LSE", "LSR", "LSR", "LS", "LS", "BE")
	cpu := pick("1", "2", "2", "4")
	if class == "LS" || class == "BE" {
		cpu = pick("300m", "500m", "1500m", "2")
	}
	zero := int64(0)
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("p", i), Labels: map[string]string{"koordinator.sh/qosClass": class}, Annotations: map[string]string{}}}
	p.Spec.TerminationGracePeriodSeconds = &zero
	amounts := func(cpu string) corev1.ResourceRequirements {
		list := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(pick("64Mi", "256Mi", "1Gi"))}
		if class == "LS" || class == "BE" {
			return corev1.ResourceRequirements{Requests: list}
		}
		return corev1.ResourceRequirements{Requests: list, Limits: list}
	}
	p.Spec.Containers = []corev1.Container{{Name: "main", Image: "pause", Resources: amounts(cpu)}}
	if rng.IntN(3) == 0 {
		p.Spec.InitContainers = []corev1.Container{{Name: "init", Image: hollow.ExitImage(100 * time.Millisecond), Resources: amounts("1")}}
	}
	if policy := pick("", "None", "BestEffort", "Restricted", "SingleNUMANode", "SingleNUMANodeContainerLevel"); policy != "" {
		p.Annotations["scheduling.koordinator.sh/numa-topology-spec"] = fmt.Sprintf(`{"numaTopologyPolicy":%q}`, policy)
	}
	if rng.IntN(3) == 0 {
		p.Annotations["scheduling.koordinator.sh/resource-spec"] = fmt.Sprintf(`{"preferredCPUBindPolicy":%q,"preferredCPUExclusivePolicy":%q}`,
			pick("FullPCPUs", "SpreadByPCPUs", "Default"), pick("None", "None", "PCPULevel"))
	}
	if rng.IntN(10) == 0 {
		p.Spec.PriorityClassName = trial.Urgent
	}
	return p
}
