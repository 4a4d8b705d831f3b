package main

import (
	"fmt"
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/test/obeying"
)

// newPods makes a pod, or one time in eight a gang of two or three that are alike.
func newPods(rng *rand.Rand, i int) []*corev1.Pod {
	one := newPod(rng, fmt.Sprint("p", i))
	if rng.IntN(8) > 0 {
		return []*corev1.Pod{one}
	}
	n := 2 + rng.IntN(2)
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

// newPod makes a pod of one container, which is all that the twin knows.
func newPod(rng *rand.Rand, name string) *corev1.Pod {
	pick := func(words ...string) string { return words[rng.IntN(len(words))] }
	zero := int64(0)
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{}}}
	p.Spec.TerminationGracePeriodSeconds = &zero
	list := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(pick("500m", "1", "2", "2", "4")), corev1.ResourceMemory: resource.MustParse(pick("64Mi", "256Mi", "1Gi"))}
	if rng.IntN(6) == 0 {
		list["hugepages-2Mi"] = resource.MustParse(pick("4Mi", "16Mi"))
	}
	asks := 0
	for _, r := range []struct {
		name corev1.ResourceName
		odds int
	}{{gpus, 2}, {cards, 3}, {vfs, 5}} {
		if _, has := list[cards]; rng.IntN(r.odds) == 0 && !(has && r.name == vfs) {
			list[r.name] = resource.MustParse(pick("1", "1", "2"))
			asks++
		}
	}
	p.Spec.Containers = []corev1.Container{{Name: "main", Image: "pause", Resources: corev1.ResourceRequirements{Requests: list, Limits: list}}}
	if policy := pick("", "none", "best-effort", "restricted", "single-numa-node"); policy != "" {
		p.Annotations[wire.PolicyAnnotation] = policy
	}
	if asks > 0 && rng.IntN(2) == 0 {
		p.Annotations[wire.DevicesAnnotation] = pick("same-switch", "same-root", "one-switch", "one-root") + pick("", ",preferred")
	}
	if rng.IntN(4) == 0 {
		p.Annotations[wire.FunctionsAnnotation] = "one-per-card"
	}
	if rng.IntN(10) == 0 {
		p.Spec.PriorityClassName = obeying.Urgent
	}
	return p
}
