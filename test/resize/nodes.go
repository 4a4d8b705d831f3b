package resize

import (
	"fmt"
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/internal/hollow"
	"github.com/berth-dev/berth/internal/wire"
)

// machines are the machines of the nodes. One CPU of each is reserved.
var machines = []string{
	"package:2 numa:2 core:24 pu:2 mem:16Gi dist:10,12,21",
	"package:2 numa:1 core:48 pu:2 mem:32Gi dist:10,21",
	"package:1 numa:4 core:48 pu:1 mem:16Gi dist:10,12",
}

const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
reservedSystemCPUs: "0"
`

func nodes() (all []hollow.Spec) {
	for i, m := range machines {
		all = append(all, hollow.Spec{Name: fmt.Sprint("r", i), Machine: m, KubeletConfig: kubeletConfig, NRI: true})
	}
	return all
}

const (
	mebi    = 1 << 20
	sidecar = "side"
)

func amounts(milli int64, bytes int64) corev1.ResourceRequirements {
	list := corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(milli, resource.DecimalSI), corev1.ResourceMemory: *resource.NewQuantity(bytes, resource.BinarySI)}
	return corev1.ResourceRequirements{Requests: list, Limits: list}
}

// newPod returns a pod with one container that is resized. One pod in four has another container,
// one in eight requests only CPU time, and one in six has a sidecar that is resized as well. Every
// sixth pod and the pod after it are a gang.
func newPod(rng *rand.Rand, i int) *corev1.Pod {
	zero := int64(0)
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("p%03d", i), Annotations: map[string]string{}}}
	p.Spec.TerminationGracePeriodSeconds = &zero
	p.Spec.Containers = []corev1.Container{{Name: "main", Image: "pause", Resources: amounts(1000*(1+rng.Int64N(2)), 128*mebi*(1+rng.Int64N(3)))}}
	switch rng.IntN(8) {
	case 0:
		p.Spec.Containers[0].Resources = amounts(250, 64*mebi)
	case 1, 2:
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "beside", Image: "pause", Resources: amounts(500, 64*mebi)})
	}
	switch rng.IntN(8) {
	case 0:
		p.Annotations[wire.NUMANodesAnnotation] = "2"
		p.Spec.Containers[0].Resources = amounts(4000, 256*mebi)
	case 1:
		p.Annotations[wire.PolicyAnnotation] = "restricted"
	case 2: // the node's policy
	default:
		p.Annotations[wire.PolicyAnnotation] = "single-numa-node"
	}
	if rng.IntN(6) == 0 {
		p.Spec.Containers[0].ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.RestartContainer},
			{ResourceName: corev1.ResourceMemory, RestartPolicy: corev1.RestartContainer}}
	}
	if always := corev1.ContainerRestartPolicyAlways; rng.IntN(6) == 0 {
		p.Spec.InitContainers = []corev1.Container{{Name: sidecar, Image: "pause", RestartPolicy: &always, Resources: amounts(1000, 64*mebi)}}
	}
	if i%6 < 2 && i < pods {
		p.Annotations[wire.GangAnnotation], p.Annotations[wire.GangMinimumAnnotation] = fmt.Sprint("g", i/6), "2"
	}
	return p
}
