package devices

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/internal/hollow"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/test/trial"
)

// most is the maximum number of members of a gang.
const most = 6

// newPods returns a pod, or one time in six a gang of two to six equal pods.
func newPods(rng *rand.Rand, i int) []*corev1.Pod {
	one := newPod(rng, fmt.Sprint("p", i))
	if rng.IntN(6) > 0 {
		return []*corev1.Pod{one}
	}
	n := 2 + rng.IntN(most-1)
	one.Annotations[wire.GangAnnotation], one.Annotations[wire.GangMinimumAnnotation] = one.Name, fmt.Sprint(n)
	one.Spec.PriorityClassName = ""
	var all []*corev1.Pod
	for m := range n {
		mate := one.DeepCopy()
		mate.Name = fmt.Sprint(one.Name, "-", m)
		all = append(all, mate)
	}
	return all
}

// newPod returns a pod with up to four containers. One pod in three has a second container, and
// some have init containers and sidecars.
func newPod(rng *rand.Rand, name string) *corev1.Pod {
	zero := int64(0)
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{}}}
	p.Spec.TerminationGracePeriodSeconds = &zero
	p.Spec.Containers = []corev1.Container{newContainer(rng, "main", "pause", 2)}
	if rng.IntN(3) == 0 {
		p.Spec.Containers = append(p.Spec.Containers, newContainer(rng, "beside", "pause", 3))
	}
	if rng.IntN(4) == 0 {
		p.Spec.InitContainers = append(p.Spec.InitContainers, newContainer(rng, "begin", hollow.ExitImage(100*time.Millisecond), 3))
	}
	if rng.IntN(4) == 0 {
		always := corev1.ContainerRestartPolicyAlways
		c := newContainer(rng, "sidecar", "pause", 4)
		c.RestartPolicy = &always
		at := rng.IntN(len(p.Spec.InitContainers) + 1)
		p.Spec.InitContainers = slices.Insert(p.Spec.InitContainers, at, c)
	}
	annotate(rng, p)
	if rng.IntN(6) == 0 {
		p.Spec.PriorityClassName = trial.Urgent
	}
	return p
}

// annotate adds random annotations of Berth to a pod.
func annotate(rng *rand.Rand, p *corev1.Pod) {
	pick := func(words ...string) string { return words[rng.IntN(len(words))] }
	if policy := pick("", "none", "best-effort", "restricted", "single-numa-node", "single-numa-node,scope=pod", "restricted,scope=pod"); policy != "" {
		p.Annotations[wire.PolicyAnnotation] = policy
	}
	if rng.IntN(2) == 0 {
		p.Annotations[wire.DevicesAnnotation] = pick("same-switch", "same-root", "one-switch", "one-root") + pick("", ",preferred")
	}
	if rng.IntN(4) == 0 {
		p.Annotations[wire.FunctionsAnnotation] = "one-per-card"
	}
	switch rng.IntN(10) {
	case 0:
		p.Annotations[wire.NUMANodesAnnotation] = "1"
		if !strings.HasPrefix(p.Annotations[wire.PolicyAnnotation], "single-numa-node") {
			p.Annotations[wire.NUMANodesAnnotation] = pick("1", "2")
		}
	case 1:
		p.Annotations[wire.DevicesAnnotation] = "perNUMANode=1"
	}
}

// newContainer returns a container that requests GPUs with a probability of 1/odds, network cards
// less often, and virtual functions least often.
func newContainer(rng *rand.Rand, name, image string, odds int) corev1.Container {
	pick := func(words ...string) string { return words[rng.IntN(len(words))] }
	list := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(pick("500m", "1", "2", "2", "4")), corev1.ResourceMemory: resource.MustParse(pick("64Mi", "256Mi", "1Gi"))}
	if rng.IntN(6) == 0 {
		list["hugepages-2Mi"] = resource.MustParse(pick("4Mi", "16Mi"))
	}
	for i, r := range []corev1.ResourceName{gpus, cards, vfs} {
		if _, has := list[cards]; rng.IntN(odds+i) == 0 && !(has && r == vfs) {
			list[r] = resource.MustParse(pick("1", "1", "2"))
		}
	}
	return corev1.Container{Name: name, Image: image, Resources: corev1.ResourceRequirements{Requests: list, Limits: list}}
}
