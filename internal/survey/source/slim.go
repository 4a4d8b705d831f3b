package source

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	koordinator "github.com/berth-dev/berth/api/scheduling/koordinator/v1alpha1"
	"github.com/berth-dev/berth/internal/wire"
)

// slimPod keeps the parts of a pod that a survey reads: its identity, its requests, its constraints
// on nodes and its status. It removes commands, environment variables, contents of volumes and
// annotations that Berth does not read, because they are most of the data of a pod and may contain
// secrets.
func slimPod(pod *corev1.Pod) *corev1.Pod {
	s := &pod.Spec
	out := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: pod.Name, Namespace: pod.Namespace, UID: pod.UID, Labels: pod.Labels, ResourceVersion: pod.ResourceVersion,
			CreationTimestamp: pod.CreationTimestamp, DeletionTimestamp: pod.DeletionTimestamp, Annotations: berthAnnotations(pod.Annotations),
		},
		Spec: corev1.PodSpec{
			NodeName: s.NodeName, SchedulerName: s.SchedulerName, NodeSelector: s.NodeSelector, Affinity: s.Affinity, Tolerations: s.Tolerations,
			TopologySpreadConstraints: s.TopologySpreadConstraints,
			Priority:                  s.Priority, PriorityClassName: s.PriorityClassName, PreemptionPolicy: s.PreemptionPolicy, Overhead: s.Overhead, OS: s.OS, Resources: s.Resources,
			RestartPolicy: s.RestartPolicy, SchedulingGates: s.SchedulingGates, ResourceClaims: s.ResourceClaims, SchedulingGroup: s.SchedulingGroup,
			ActiveDeadlineSeconds: s.ActiveDeadlineSeconds, TerminationGracePeriodSeconds: s.TerminationGracePeriodSeconds,
		},
		Status: pod.Status,
	}
	for _, ref := range pod.OwnerReferences {
		out.OwnerReferences = append(out.OwnerReferences, metav1.OwnerReference{APIVersion: ref.APIVersion, Kind: ref.Kind, Name: ref.Name, UID: ref.UID, Controller: ref.Controller})
	}
	out.Spec.Volumes = slimVolumes(s.Volumes)
	out.Spec.Containers, out.Spec.InitContainers = slimContainers(s.Containers), slimContainers(s.InitContainers)
	return out
}

// slimReservation keeps the fields of a Reservation that a survey reads. It treats the template
// like a pod.
func slimReservation(o *koordinator.Reservation) *koordinator.Reservation {
	out := o.DeepCopy()
	out.ManagedFields, out.Annotations = nil, berthAnnotations(o.Annotations)
	if t := out.Spec.Template; t != nil {
		all := t.Spec
		t.Annotations = berthAnnotations(t.Annotations)
		t.Spec = *slimPod(&corev1.Pod{Spec: all}).Spec.DeepCopy()
		t.Spec.RuntimeClassName = all.RuntimeClassName
	}
	return out
}

func slimBudget(b *policyv1.PodDisruptionBudget) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: b.Name, Namespace: b.Namespace}, Spec: b.Spec,
		Status: policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: b.Status.DisruptionsAllowed},
	}
}

// slimAll applies slim to each object of a list. A nil list stays nil, because nil means that it
// could not be read.
func slimAll[T any](list []*T, slim func(*T) *T) []*T {
	if list == nil {
		return nil
	}
	out := make([]*T, len(list))
	for i := range list {
		out[i] = slim(list[i])
	}
	return out
}

func slimMeta(m *metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: m.Name, Namespace: m.Namespace, UID: m.UID, ResourceVersion: m.ResourceVersion, CreationTimestamp: m.CreationTimestamp,
		DeletionTimestamp: m.DeletionTimestamp, OwnerReferences: m.OwnerReferences}
}

func slimSlice(s *resourcev1.ResourceSlice) *resourcev1.ResourceSlice {
	return &resourcev1.ResourceSlice{ObjectMeta: slimMeta(&s.ObjectMeta), Spec: s.Spec}
}

// slimClaim keeps a claim's requests and allocations. It removes the configuration for drivers.
func slimClaim(c *resourcev1.ResourceClaim) *resourcev1.ResourceClaim {
	out := &resourcev1.ResourceClaim{ObjectMeta: slimMeta(&c.ObjectMeta), Spec: *c.Spec.DeepCopy()}
	out.Spec.Devices.Config = nil
	out.Status.ReservedFor = c.Status.ReservedFor
	if c.Status.Allocation != nil {
		out.Status.Allocation = c.Status.Allocation.DeepCopy()
		out.Status.Allocation.Devices.Config = nil
	}
	return out
}

func slimClass(c *resourcev1.DeviceClass) *resourcev1.DeviceClass {
	out := &resourcev1.DeviceClass{ObjectMeta: slimMeta(&c.ObjectMeta), Spec: *c.Spec.DeepCopy()}
	out.Spec.Config = nil
	return out
}

// slimVolumes keeps the volumes that a survey reads: those that have data on the node, or may tie
// the pod to it. It removes the contents of these volumes.
func slimVolumes(all []corev1.Volume) (out []corev1.Volume) {
	for i := range all {
		v, kept := &all[i], corev1.Volume{Name: all[i].Name}
		switch {
		case v.EmptyDir != nil:
			kept.EmptyDir = new(corev1.EmptyDirVolumeSource)
		case v.HostPath != nil:
			kept.HostPath = new(corev1.HostPathVolumeSource)
		case v.PersistentVolumeClaim != nil:
			kept.PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{ClaimName: v.PersistentVolumeClaim.ClaimName}
		case v.Ephemeral != nil:
			kept.Ephemeral = new(corev1.EphemeralVolumeSource)
		case v.CSI != nil:
			kept.CSI = &corev1.CSIVolumeSource{Driver: v.CSI.Driver}
		default:
			continue
		}
		out = append(out, kept)
	}
	return out
}

// slimContainers keeps names, amounts, ports, and the policies for restarts and resizes.
func slimContainers(all []corev1.Container) []corev1.Container {
	var out []corev1.Container
	for i := range all {
		c := &all[i]
		out = append(out, corev1.Container{
			Name: c.Name, Resources: c.Resources, ResizePolicy: c.ResizePolicy, RestartPolicy: c.RestartPolicy, RestartPolicyRules: c.RestartPolicyRules, Ports: c.Ports,
		})
	}
	return out
}

func berthAnnotations(all map[string]string) map[string]string {
	var out map[string]string
	for key, value := range all {
		if domain, _, _ := strings.Cut(key, "/"); !dialectDomains[domain] && !wire.OfDialect(key) {
			continue
		}
		if out == nil {
			out = map[string]string{}
		}
		out[key] = value
	}
	return out
}

// dialectDomains has the domains of all annotations that Berth reads, and of annotations about
// eviction.
var dialectDomains = func() map[string]bool {
	out := map[string]bool{
		"descheduler.alpha.kubernetes.io": true, "cluster-autoscaler.kubernetes.io": true, "karpenter.sh": true,
		"berth.dev": true, "volcano.sh": true, "scheduling.volcano.sh": true, "scheduling.k8s.io": true, "scheduling.koordinator.sh": true, "node.koordinator.sh": true,
	}
	read, _ := wire.KeysRead()
	for _, key := range read {
		domain, _, _ := strings.Cut(key, "/")
		out[domain] = true
	}
	return out
}()

func slimNode(node *corev1.Node) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: node.Name, UID: node.UID, Labels: node.Labels, ResourceVersion: node.ResourceVersion, CreationTimestamp: node.CreationTimestamp},
		Spec:       corev1.NodeSpec{Unschedulable: node.Spec.Unschedulable, Taints: node.Spec.Taints},
		Status: corev1.NodeStatus{Capacity: node.Status.Capacity, Allocatable: node.Status.Allocatable, Conditions: node.Status.Conditions,
			NodeInfo: corev1.NodeSystemInfo{KubeletVersion: node.Status.NodeInfo.KubeletVersion}},
	}
}

// Slim is a transform for informers. Of a pod, Node or Reservation, it keeps only the fields that a
// survey reads, so that no secrets stay in memory.
func Slim(obj any) (any, error) {
	switch o := obj.(type) {
	case *corev1.Pod:
		return slimPod(o), nil
	case *corev1.Node:
		return slimNode(o), nil
	case *koordinator.Reservation:
		return slimReservation(o), nil
	}
	return obj, nil
}
