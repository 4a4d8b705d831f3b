package wire

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	corehelpers "k8s.io/component-helpers/resource"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/berth-dev/berth/internal/amounts"
	"github.com/berth-dev/berth/topology"
)

// countedAsScheduler are the options with which kube-scheduler counts requests (CalculateResource
// of pkg/scheduler/framework/types.go), with its default features. While a container or a whole pod
// is resized, the larger of its old and new amounts counts.
var countedAsScheduler = corehelpers.PodResourcesOptions{
	UseStatusResources: true, InPlacePodLevelResourcesVerticalScalingEnabled: true,
}

// ReadAmounts returns the total requests of a pod, as NodeResourcesFit and the kubelet's admission
// count them (framework.PodRequests). Missing requests default to the limits, as in the API server.
func ReadAmounts(pod *corev1.Pod) amounts.List {
	return ReadResources(corehelpers.PodRequests(WithRequests(pod), countedAsScheduler))
}

// ReadResources returns the amounts of a list of resources.
func ReadResources(list corev1.ResourceList) amounts.List {
	out := amounts.List{}
	for name, q := range list {
		out[string(name)] = countOf(name, q)
	}
	return out
}

// ReadQuota returns the amounts that pods may still request according to a ResourceQuota. If it
// limits requests and limits of a resource, the smaller remaining amount counts. Resources that it
// does not limit are not in the list.
func ReadQuota(q *corev1.ResourceQuota) amounts.List {
	out := amounts.List{}
	for quota, hard := range q.Status.Hard {
		name := corev1.ResourceName(strings.TrimPrefix(strings.TrimPrefix(string(quota), "requests."), "limits."))
		if name == "count/pods" {
			name = corev1.ResourcePods
		}
		left := max(0, countOf(name, hard)-countOf(name, q.Status.Used[quota]))
		if was, there := out[string(name)]; !there || left < was {
			out[string(name)] = left
		}
	}
	return out
}

// countOf returns the amount in the unit of amounts.List, at most math.MaxInt64.
func countOf(name corev1.ResourceName, q resource.Quantity) int64 {
	if name == corev1.ResourceCPU {
		if q.Cmp(*resource.NewQuantity(math.MaxInt64/1000, resource.DecimalSI)) > 0 {
			return math.MaxInt64
		}
		return q.MilliValue()
	}
	if q.Cmp(*resource.NewQuantity(math.MaxInt64, resource.DecimalSI)) > 0 {
		return math.MaxInt64
	}
	return q.Value()
}

// WithRequests returns the pod with missing requests set as SetDefaults_Pod does
// (pkg/apis/core/v1). It leaves out requests for extended resources that Dynamic Resource
// Allocation provides, because the node need not have these resources
// (removeMissingExtendedResources).
func WithRequests(pod *corev1.Pod) *corev1.Pod {
	out := *pod
	r := podReader{pod: pod}
	fill := func(list []corev1.Container) []corev1.Container {
		list = slices.Clone(list)
		for i := range list {
			c := &list[i]
			c.Resources.Requests = completed(c.Resources)
			maps.DeleteFunc(c.Resources.Requests, func(name corev1.ResourceName, _ resource.Quantity) bool {
				return r.claimed(c.Name, string(name))
			})
		}
		return list
	}
	out.Spec.Containers, out.Spec.InitContainers = fill(pod.Spec.Containers), fill(pod.Spec.InitContainers)
	if own := pod.Spec.Resources; own != nil && len(own.Limits) > 0 {
		whole := *own
		whole.Requests = podRequests(&out)
		out.Spec.Resources = &whole
	}
	return &out
}

// completed returns the requests. A missing request is replaced by the limit.
func completed(r corev1.ResourceRequirements) corev1.ResourceList {
	out := maps.Clone(r.Limits)
	if out == nil {
		out = corev1.ResourceList{}
	}
	maps.Copy(out, r.Requests)
	return out
}

// podRequests returns spec.resources.requests with the API server's defaults (defaultPodRequests).
// The default for CPU and memory is the sum of the containers' requests, if they have any. Every
// other default is the pod's limit.
func podRequests(pod *corev1.Pod) corev1.ResourceList {
	out := maps.Clone(pod.Spec.Resources.Requests)
	if out == nil {
		out = corev1.ResourceList{}
	}
	bare := *pod
	bare.Spec.Resources = nil
	for name, q := range corehelpers.AggregateContainerRequests(&bare, corehelpers.PodResourcesOptions{}) {
		if _, set := out[name]; !set && (name == corev1.ResourceCPU || name == corev1.ResourceMemory) {
			out[name] = q
		}
	}
	for name, q := range pod.Spec.Resources.Limits {
		if _, set := out[name]; !set && corehelpers.IsSupportedPodLevelResource(name) {
			out[name] = q
		}
	}
	return out
}

// LevelDefaults returns spec.resources with the defaults of an API server of 1.37
// (DefaultPodLevelResources of pkg/api/pod). Older API servers set no limits of CPU and memory. The
// result is the pod's own spec.resources if that is empty, or if an API server has written the pod.
func LevelDefaults(pod *corev1.Pod) *corev1.ResourceRequirements {
	if !corehelpers.IsPodLevelResourcesSet(pod) || pod.Status.QOSClass != "" {
		return pod.Spec.Resources
	}
	full := *WithRequests(pod)
	full.Spec.Resources = pod.Spec.Resources.DeepCopy()
	own := full.Spec.Resources
	if own.Limits == nil {
		own.Limits = corev1.ResourceList{}
	}
	bare := full
	bare.Spec.Resources = nil
	sums := corehelpers.AggregateContainerLimits(&bare, corehelpers.PodResourcesOptions{})
	missing := func(name corev1.ResourceName) bool {
		_, limited := own.Limits[name]
		return !limited && corehelpers.IsSupportedPodLevelResource(name)
	}
	for name, sum := range sums {
		if _, asked := own.Requests[name]; !asked && missing(name) && isMemory(name) && name != corev1.ResourceMemory {
			own.Limits[name] = sum
		}
	}
	own.Requests = podRequests(&full)
	for name, asked := range own.Requests {
		limited := true
		for _, c := range Containers(pod) {
			_, is := c.Resources.Limits[name]
			limited = limited && is
		}
		if sum := sums[name]; limited && missing(name) {
			own.Limits[name] = sum
			if asked.Cmp(sum) > 0 {
				own.Limits[name] = asked
			}
		}
	}
	return own
}

// defaultMaxPods is the value of maxPods if the configuration does not set it
// (SetDefaults_KubeletConfiguration).
const defaultMaxPods = 110

// ReadAllocatable returns the amounts that a kubelet with this configuration reports as allocatable
// on a machine of the given capacity, including the maximum number of pods. It subtracts
// reservations for the system and for eviction, but no reservation of memory if k.MemoryBytes is 0.
// From the memory it also subtracts huge pages (nodestatus.MachineInfo). Storage is omitted,
// because machines do not describe it. The error is a *FieldError, and means that the kubelet would
// not start.
func ReadAllocatable(c *kubeletv1beta1.KubeletConfiguration, k KubeletFacts, capacity amounts.List) (amounts.List, error) {
	r := configReader{"KubeletConfiguration", c, k.Version}
	reserved, err := r.kept(k.MemoryBytes)
	if err != nil {
		return nil, err
	}
	out := maps.Clone(capacity)
	for name, kept := range reserved {
		has, told := capacity[name]
		if name == amounts.Memory && k.MemoryBytes == 0 || !told {
			continue
		}
		if out[name] = has - kept; out[name] < 0 {
			at, said := r.keeps(name)
			return nil, r.at(at, said, "less: kubeReserved, systemReserved and the eviction threshold together reserve "+text(name, kept)+", but the machine has "+text(name, has))
		}
	}
	for name, bytes := range capacity {
		if strings.HasPrefix(name, corev1.ResourceHugePagesPrefix) {
			out[amounts.Memory] = max(0, out[amounts.Memory]-bytes)
		}
	}
	out[amounts.Pods], err = r.maxPods(capacity[amounts.CPU] / 1000)
	return out, err
}

// keeps returns the configuration field that most likely causes the reservation of a resource, with
// the field's value.
func (r configReader) keeps(name string) (at *field.Path, said string) {
	switch {
	case name == amounts.CPU && r.c.ReservedSystemCPUs != "":
		return field.NewPath("reservedSystemCPUs"), r.c.ReservedSystemCPUs
	case r.c.KubeReserved[name] != "":
		return field.NewPath("kubeReserved").Key(name), r.c.KubeReserved[name]
	case r.c.SystemReserved[name] != "":
		return field.NewPath("systemReserved").Key(name), r.c.SystemReserved[name]
	}
	return field.NewPath("evictionHard").Key(memoryAvailable), cmp.Or(r.c.EvictionHard[memoryAvailable], DefaultEviction)
}

func text(name string, count int64) string {
	if name == amounts.CPU {
		return resource.NewMilliQuantity(count, resource.DecimalSI).String()
	}
	return resource.NewQuantity(count, resource.BinarySI).String()
}

// The method kept returns the amounts that the kubelet reserves for the system. The amount of
// memory includes the eviction threshold. If reservedSystemCPUs is set, its number of CPUs replaces
// the amount of CPU (cmd/kubelet/app, run).
func (r configReader) kept(memoryBytes uint64) (amounts.List, error) {
	sums, err := r.reserved()
	if err != nil {
		return nil, err
	}
	evicted, _, err := r.eviction(memoryBytes)
	if err != nil {
		return nil, err
	}
	out := amounts.List{}
	for name, q := range sums {
		out[name] = countOf(corev1.ResourceName(name), q)
	}
	out[amounts.Memory] += min(evicted.Value(), math.MaxInt64/2)
	if cpus, err := topology.ParseCPUList(r.c.ReservedSystemCPUs); err == nil && !cpus.IsEmpty() {
		out[amounts.CPU] = int64(cpus.Len()) * 1000
	}
	return out, nil
}

func (r configReader) maxPods(cpus int64) (int64, error) {
	most := int64(r.c.MaxPods)
	switch {
	case most < 0:
		return 0, r.at(field.NewPath("maxPods"), most, "0 or more")
	case r.c.PodsPerCore < 0:
		return 0, r.at(field.NewPath("podsPerCore"), r.c.PodsPerCore, "0 or more")
	case most == 0:
		most = defaultMaxPods
	}
	if r.c.PodsPerCore > 0 {
		most = min(most, cpus*int64(r.c.PodsPerCore))
	}
	return most, nil
}
