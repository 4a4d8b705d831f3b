package main

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/internal/wire"
)

const (
	namespace = "dra"
	// claimsAnnotation is the annotation that requests claims' devices near the pod's CPUs.
	claimsAnnotation = "berth.dev/claims"
	adminTemplate    = "admin"
)

// templates are the requests of each template.
var templates = map[string]string{
	"gpu":         exactly("gpu", gpus, 1),
	"two-gpus":    exactly("gpus", gpus, 2),
	"nic":         exactly("nic", cards, 1),
	"other":       exactly("other", others, 1),
	"gpu-and-nic": exactly("gpu", gpus, 1) + ", " + exactly("nic", cards, 1),
	"pair":        exactly("gpus", gpus, 2) + "], constraints: [{matchAttribute: " + standardNUMA + "}",
	"first":       fmt.Sprintf("{name: some, firstAvailable: [{name: two, deviceClassName: %[1]s, count: 2}, {name: one, deviceClassName: %[1]s}]}", gpus),
	"many":        exactly("many", many, 1),
	"all":         fmt.Sprintf("{name: all, exactly: {deviceClassName: %s, allocationMode: All}}", many),
	"slow":        exactly("slow", slow, 1),
	adminTemplate: fmt.Sprintf("{name: all, exactly: {deviceClassName: %s, adminAccess: true}}", gpus),
}

func exactly(name, class string, n int) string {
	return fmt.Sprintf("{name: %s, exactly: {deviceClassName: %s, count: %d}}", name, class, n)
}

// manifests are the classes of devices, the templates, and the claims that pods share.
func manifests() (all [][]byte) {
	for _, driver := range []string{gpus, cards, others, many, odd, slow} {
		all = append(all, fmt.Appendf(nil, `apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: %s}
spec: {selectors: [{cel: {expression: 'device.driver == "%[1]s"'}}]}
`, driver))
	}
	for name, requests := range templates {
		all = append(all, template(name, requests))
	}
	for i := range oddities {
		all = append(all, template(fmt.Sprint("odd-", i), fmt.Sprintf(
			`{name: odd, exactly: {deviceClassName: %s, selectors: [{cel: {expression: 'device.attributes["%[1]s"].number == %d'}}]}}`, odd, i)))
	}
	for i := range 2 {
		all = append(all, fmt.Appendf(nil, `apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: shared-%d, namespace: %s}
spec: {devices: {requests: [%s]}}
`, i, namespace, exactly("gpu", gpus, 1)))
	}
	return all
}

func template(name, requests string) []byte {
	return fmt.Appendf(nil, `apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: %s, namespace: %s}
spec: {spec: {devices: {requests: [%s]}}}
`, name, namespace, requests)
}

// object is the pod, for a scheduler.
func (p *Pod) object(scheduler string) *corev1.Pod {
	grace := int64(1)
	o := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: p.Name}}
	o.Spec.SchedulerName, o.Spec.TerminationGracePeriodSeconds = scheduler, &grace
	o.Spec.Containers = []corev1.Container{p.container(mainContainer)}
	if p.Beside {
		o.Spec.Containers = append(o.Spec.Containers, p.container("beside"))
	}
	if p.Node != "" {
		o.Spec.NodeSelector = map[string]string{corev1.LabelHostname: p.Node}
	}
	o.Annotations = map[string]string{}
	if p.Ask != "" {
		o.Annotations[claimsAnnotation] = p.Ask
	}
	if p.Policy != "" {
		o.Annotations[wire.PolicyAnnotation] = p.Policy
	}
	if p.Pinned {
		o.Annotations[wire.MemoryAnnotation] = "pinned"
	}
	if p.Gang != "" {
		o.Annotations[wire.GangAnnotation], o.Annotations[wire.GangMinimumAnnotation] = p.Gang, fmt.Sprint(p.Members)
	}
	claim := func(c corev1.PodResourceClaim) {
		c.Name = fmt.Sprint("c", len(o.Spec.ResourceClaims))
		o.Spec.ResourceClaims = append(o.Spec.ResourceClaims, c)
		first := &o.Spec.Containers[0].Resources
		first.Claims = append(first.Claims, corev1.ResourceClaim{Name: c.Name})
	}
	for i := range p.Claims {
		claim(corev1.PodResourceClaim{ResourceClaimTemplateName: &p.Claims[i]})
	}
	if p.Shares != "" {
		claim(corev1.PodResourceClaim{ResourceClaimName: &p.Shares})
	}
	return o
}

// mainContainer has the claims.
const mainContainer = "main"

func (p *Pod) container(name string) corev1.Container {
	list := corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(int64(p.CPUs), resource.DecimalSI), corev1.ResourceMemory: resource.MustParse("64Mi")}
	if name != mainContainer {
		list[corev1.ResourceCPU] = resource.MustParse("1")
	}
	c := corev1.Container{Name: name, Image: "pause", Resources: corev1.ResourceRequirements{Requests: list, Limits: list}}
	if p.Shared {
		c.Resources.Limits = nil
	}
	return c
}
