package wire

import (
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	corehelpers "k8s.io/component-helpers/resource"

	"github.com/berth-dev/berth/internal/amounts"
	dra "github.com/berth-dev/berth/internal/claims"
	"github.com/berth-dev/berth/placement"
)

// Ask is what a pod requests, in the same form for every dialect. In the same state, a node gives
// the same answer to two pods with equal Asks (see Equal).
type Ask struct {
	// Request has the amounts, and the Rules for the pod's placement.
	Request placement.Request
	// RulesErr is a *FieldError if the rules cannot be read. The scheduler then refuses the pod,
	// unless no node could pin anything for it. The amounts are read in any case, because they are
	// needed on a node that already runs the pod.
	RulesErr error
	// Claims tells whether the devices of the pod's ResourceClaims must be near its CPUs. It is
	// Free if ClaimsAnnotation is missing or invalid.
	Claims dra.Mode
	// Said has the annotations and labels with which the pod requests the Rules.
	Said Said
}

// Equal reports whether a and b are equal except for the UID and Said.
func (a *Ask) Equal(b *Ask) bool {
	x, y := *a, *b
	x.Request.UID, y.Request.UID = "", ""
	x.Said, y.Said = Said{}, Said{}
	return reflect.DeepEqual(x, y)
}

// ReadPod translates a pod. Missing requests default to limits, as in the API server. Ephemeral
// containers do not count. The error is a *FieldError about an amount that is negative or too large
// (maxCPUs, maxMemory, maxCount), or about more than placement.MaxContainers containers.
func ReadPod(pod *corev1.Pod) (Ask, error) {
	r, err := readRequest(pod)
	if err != nil {
		return Ask{}, err
	}
	ask := Ask{Request: r}
	ask.Request.Rules, ask.Said, ask.RulesErr = readRules(pod, r.AsksExclusiveCPUs())
	ask.Claims, _ = ReadClaims(pod) // RulesErr has the error
	return ask, nil
}

// ReadPending is like ReadPod, for a pod that may have no node yet. If such a pod has a claim for
// extended resources in its status, ReadPending ignores the claim. The claim is left from a failed
// attempt, or was written before Bind for a node without a device plugin for these resources.
func ReadPending(pod *corev1.Pod) (Ask, error) {
	if pod.Spec.NodeName == "" && pod.Status.ExtendedResourceClaimStatus != nil {
		unclaimed := *pod
		unclaimed.Status.ExtendedResourceClaimStatus = nil
		pod = &unclaimed
	}
	return ReadPod(pod)
}

func readRequest(pod *corev1.Pod) (placement.Request, error) {
	r := podReader{fieldErrors: fieldErrors(podName(pod)), pod: pod}
	count := len(pod.Spec.InitContainers) + len(pod.Spec.Containers)
	if count > placement.MaxContainers {
		return placement.Request{}, r.at(field.NewPath("spec", "containers"), fmt.Sprint(count, " with spec.initContainers"),
			fmt.Sprint("at most ", placement.MaxContainers, " in all"))
	}
	out := placement.Request{
		UID:        string(pod.UID),
		PodLevel:   corehelpers.IsPodLevelResourcesSet(pod),
		EmptyLevel: pod.Spec.Resources != nil && !corehelpers.IsPodLevelResourcesSet(pod) && pod.Status.QOSClass == "",
		Containers: make([]placement.ContainerRequest, 0, count),
	}
	for at, spec := range Containers(pod) {
		c, err := r.container(at.Path(), spec)
		if err != nil {
			return placement.Request{}, err
		}
		c.Kind = at.Kind
		c.Guaranteed = out.PodLevel && guaranteedAlone(spec.Resources)
		out.Containers = append(out.Containers, c)
	}
	out.Guaranteed = isGuaranteed(pod)
	if out.PodLevel {
		var err error
		if out.Level, err = r.level(); err != nil {
			return placement.Request{}, err
		}
	}
	return out, nil
}

// level reads spec.resources. It sets missing requests as the API server does.
func (r podReader) level() (out placement.LevelRequest, err error) {
	own := r.pod.Spec.Resources
	requests := own.Requests
	if len(own.Limits) > 0 {
		requests = levelRequests(WithRequests(r.pod))
	}
	if out.Guaranteed = r.pod.Status.QOSClass == corev1.PodQOSGuaranteed; r.pod.Status.QOSClass == "" {
		out.Guaranteed = guaranteedBy([]corev1.ResourceRequirements{{Requests: requests, Limits: own.Limits}})
	}
	at := field.NewPath("spec", "resources")
	for _, name := range namesIn(requests, own.Limits) {
		q, where := own.Limits[name], at.Child("limits").Key(string(name))
		asked, ok := requests[name]
		if ok {
			q, where = asked, at.Child("requests").Key(string(name))
		}
		switch {
		case name == corev1.ResourceCPU:
			if err := r.within(where, q, maxCPUs); err != nil {
				return out, err
			}
			out.MilliCPU = asked.MilliValue()
		case isMemory(name):
			if err := r.within(where, q, maxMemory); err != nil {
				return out, err
			}
			if ok {
				out.Memory = append(out.Memory, memoryOf(string(name), q))
			}
		}
	}
	return out, nil
}

// levelRequests returns the requests in spec.resources of a pod that WithRequests has completed.
// For huge pages without a request, the API server uses the pod's limits, or the containers' limits
// if the pod has none (defaultHugePagePodLimits of pkg/apis/core/v1).
func levelRequests(pod *corev1.Pod) corev1.ResourceList {
	out := maps.Clone(pod.Spec.Resources.Requests)
	bare := *pod
	bare.Spec.Resources = nil
	for name, q := range corehelpers.AggregateContainerLimits(&bare, corehelpers.PodResourcesOptions{}) {
		if _, set := out[name]; !set && strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) {
			out[name] = q
		}
	}
	return out
}

// guaranteedAlone does the same as IsContainerEquivalentQOSGuaranteed (pkg/kubelet/cm/qos).
func guaranteedAlone(c corev1.ResourceRequirements) bool {
	for _, name := range [...]corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		limit := c.Limits[name]
		request, ok := c.Requests[name]
		if !ok {
			request = limit
		}
		if request.IsZero() || !request.Equal(limit) {
			return false
		}
	}
	return true
}

// ContainerAt is the kind and the position of a container in the pod's spec.
type ContainerAt struct {
	Kind  placement.ContainerKind
	index int
}

// Path returns the path of the container in the pod.
func (a ContainerAt) Path() *field.Path {
	list := "initContainers"
	if a.Kind == placement.App {
		list = "containers"
	}
	return field.NewPath("spec", list).Index(a.index)
}

// Containers yields a pod's init containers and sidecars, and then its other containers.
func Containers(pod *corev1.Pod) iter.Seq2[ContainerAt, *corev1.Container] {
	return func(yield func(ContainerAt, *corev1.Container) bool) {
		for i := range pod.Spec.InitContainers {
			if c := &pod.Spec.InitContainers[i]; !yield(ContainerAt{initKind(c), i}, c) {
				return
			}
		}
		for i := range pod.Spec.Containers {
			if !yield(ContainerAt{placement.App, i}, &pod.Spec.Containers[i]) {
				return
			}
		}
	}
}

// initKind distinguishes sidecars, which always restart, from init containers, which run to
// completion.
func initKind(c *corev1.Container) placement.ContainerKind {
	if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
		return placement.Sidecar
	}
	return placement.Init
}

type podReader struct {
	fieldErrors
	pod *corev1.Pod
}

// The largest amounts that a request may have. Some extended resources are counted in bytes, for
// example sgx.intel.com/epc.
var (
	maxCPUs   = resource.MustParse("1000000")
	maxMemory = resource.MustParse("1Ei")
	maxCount  = resource.MustParse("1Pi")
)

// maxDevices is more devices than any plugin has; package placement accepts no larger number.
const maxDevices = 1 << 30

func (r podReader) container(at *field.Path, c *corev1.Container) (placement.ContainerRequest, error) {
	out := placement.ContainerRequest{Name: c.Name}
	at = at.Child("resources")
	for _, name := range namesIn(c.Resources.Requests, c.Resources.Limits) {
		q, where := c.Resources.Limits[name], at.Child("limits").Key(string(name))
		if asked, ok := c.Resources.Requests[name]; ok {
			q, where = asked, at.Child("requests").Key(string(name))
		}
		var err error
		switch {
		case name == corev1.ResourceCPU:
			if err = r.within(where, q, maxCPUs); err == nil {
				out.MilliCPU = q.MilliValue()
			}
		case isMemory(name):
			if err = r.within(where, q, maxMemory); err == nil {
				out.Memory = append(out.Memory, memoryOf(string(name), q))
			}
		case IsExtended(name):
			err = r.device(at, c, name, &out)
		}
		if err != nil {
			return out, err
		}
	}
	return out, nil
}

// device adds an extended resource to out. The kubelet's device manager reads only limits.
// Koordinator has several names for one device, so an amount of 0 under one name does not
// contradict the other names.
func (r podReader) device(at *field.Path, c *corev1.Container, name corev1.ResourceName, out *placement.ContainerRequest) error {
	q, limited := c.Resources.Limits[name]
	if !limited {
		return r.within(at.Child("requests").Key(string(name)), c.Resources.Requests[name], maxCount)
	}
	if err := r.within(at.Child("limits").Key(string(name)), q, maxCount); err != nil {
		return err
	}
	units, device := int64(DeviceUnits(string(name))), DeviceOf(string(name))
	if q.IsZero() && isKoordinatorDevice(string(name)) {
		return nil
	}
	if slices.ContainsFunc(out.Devices, func(d placement.DeviceRequest) bool { return d.Resource == device }) {
		return nil // another name of the same devices
	}
	out.Devices = append(out.Devices, placement.DeviceRequest{
		Resource: device, Count: min((q.Value()+units-1)/units, maxDevices), Claimed: r.claimed(c.Name, string(name)),
	})
	return nil
}

// claimed reports whether Dynamic Resource Allocation provides an extended resource.
func (r podReader) claimed(container, name string) bool {
	status := r.pod.Status.ExtendedResourceClaimStatus
	return status != nil && slices.ContainsFunc(status.RequestMappings, func(m corev1.ContainerExtendedResourceRequest) bool {
		return m.ContainerName == container && m.ResourceName == name
	})
}

func (r podReader) within(at *field.Path, q, limit resource.Quantity) error {
	if q.Sign() < 0 || q.Cmp(limit) > 0 {
		return r.at(at, &q, "0 to "+limit.String())
	}
	return nil
}

// memoryOf reads an amount of memory. Fraction records that it is not a whole number of bytes,
// because the kubelet refuses such an amount.
func memoryOf(name string, q resource.Quantity) placement.MemoryRequest {
	bytes := q.Value()
	return placement.MemoryRequest{Resource: name, Bytes: uint64(bytes), Fraction: q.CmpInt64(bytes) != 0}
}

func isMemory(name corev1.ResourceName) bool {
	return name == corev1.ResourceMemory || strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

// IsExtended is amounts.IsExtended for a resource name of the API. It reports whether a device
// plugin could offer the resource. The kubelet registers no resource whose domain ends in
// kubernetes.io. Dynamic Resource Allocation uses such names for its device classes.
func IsExtended(name corev1.ResourceName) bool { return amounts.IsExtended(string(name)) }

func namesIn(lists ...corev1.ResourceList) []corev1.ResourceName {
	var names []corev1.ResourceName
	for _, l := range lists {
		for name := range l {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// isGuaranteed does the same as the kubelet's GetPodQOS: it uses the class in the status. If there
// is none, it computes the class from the resources. If the pod has spec.resources, only the
// containers' resources count: kubelet 1.33 reads only these, and later kubelets pin nothing for
// such a pod or use placement.LevelRequest. If spec.resources is empty, the result depends on the
// kubelet's release (placement.Request.EmptyLevel).
func isGuaranteed(pod *corev1.Pod) bool {
	if pod.Status.QOSClass != "" {
		return pod.Status.QOSClass == corev1.PodQOSGuaranteed
	}
	var all []corev1.ResourceRequirements
	for _, c := range Containers(pod) {
		all = append(all, c.Resources)
	}
	return guaranteedBy(all)
}

// guaranteedBy reports whether all containers have limits for CPU and memory, and the sums of
// requests equal the sums of limits.
func guaranteedBy(all []corev1.ResourceRequirements) bool {
	for _, name := range [...]corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		var requests, limits resource.Quantity
		for i := range all {
			limit := all[i].Limits[name]
			if limit.Sign() != 1 {
				return false
			}
			limits.Add(limit)
			request, ok := all[i].Requests[name]
			if !ok {
				request = limit
			}
			if request.Sign() == 1 {
				requests.Add(request)
			}
		}
		if len(all) == 0 || limits.Cmp(requests) != 0 {
			return false
		}
	}
	return true
}

// Ended reports whether the pod has succeeded or failed.
func Ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// Finished returns the time when the last of the pod's app containers ended, by the node's clock.
// If the status does not have it, Finished returns the creation time of the pod.
func Finished(pod *corev1.Pod) time.Time {
	at := pod.CreationTimestamp.Time
	for i := range pod.Status.ContainerStatuses {
		if end := pod.Status.ContainerStatuses[i].State.Terminated; end != nil && end.FinishedAt.After(at) {
			at = end.FinishedAt.Time
		}
	}
	return at
}

// Refused reports whether the kubelet refused the pod. Usually no container has run then. The
// status has the message that kubelet.rejectPod writes, and its reason names the rule that the pod
// violates.
func Refused(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed && strings.HasPrefix(pod.Status.Message, "Pod was rejected: ")
}

// Admitted reports whether the status shows that the kubelet admitted the pod: the pod has a start
// time and container statuses. If a starting kubelet refuses a pod, the pod has a start time but no
// container statuses, and becomes Failed later (mergePodStatus of
// pkg/kubelet/status/status_manager.go).
func Admitted(pod *corev1.Pod) bool {
	return pod.Status.StartTime != nil && len(pod.Status.InitContainerStatuses)+len(pod.Status.ContainerStatuses) > 0
}

// Ending reports whether the pod has ended or is being deleted, so that its resources may be freed
// at any moment.
func Ending(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil || Ended(pod) }

// Unscheduled returns the condition PodScheduled if it is False. A scheduler writes this condition
// if it finds no node for the pod, and the API server writes it for a pod with scheduling gates.
// Unscheduled returns the zero value if there is no such condition.
func Unscheduled(pod *corev1.Pod) corev1.PodCondition {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return c
		}
	}
	return corev1.PodCondition{}
}

// Mortal reports whether the pod can end by itself, because it has a deadline
// (spec.activeDeadlineSeconds) or because some container is not always restarted. A container's own
// restart policy overrides the pod's.
func Mortal(pod *corev1.Pod) bool {
	ends := func(c corev1.Container) bool {
		return c.RestartPolicy != nil && *c.RestartPolicy != corev1.ContainerRestartPolicyAlways
	}
	return pod.Spec.RestartPolicy != corev1.RestartPolicyAlways || pod.Spec.ActiveDeadlineSeconds != nil ||
		slices.ContainsFunc(pod.Spec.Containers, ends) || slices.ContainsFunc(pod.Spec.InitContainers, ends)
}

// MightPin is a cheap test that does not translate the pod. If it returns false,
// placement.Request.Pinnable is false.
func MightPin(pod *corev1.Pod) bool {
	if pod.Status.QOSClass == corev1.PodQOSGuaranteed || pod.Status.QOSClass == "" || pod.Spec.Resources != nil {
		return true
	}
	return MightAskDevices(pod)
}

// MightAskDevices is a cheap test that does not translate the pod. If it returns false,
// placement.Request.AsksDevices is false.
func MightAskDevices(pod *corev1.Pod) bool {
	for _, c := range Containers(pod) {
		for name := range c.Resources.Limits {
			if IsExtended(name) {
				return true
			}
		}
	}
	return false
}
