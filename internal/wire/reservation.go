package wire

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/klog/v2"

	koordinator "github.com/berth-dev/berth/api/scheduling/koordinator/v1alpha1"
	"github.com/berth-dev/berth/internal/clip"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/placement/joint"
)

// AllocatedAnnotation is set on a pod that uses a Reservation. It has the Reservation's name and
// UID.
const AllocatedAnnotation = "scheduling.koordinator.sh/reservation-allocated"

// reservationKind is the kind of the pods that stand for Reservations.
const reservationKind = "Reservation"

// HeldPriority is the priority of the pods that hold Reservations' resources. No pod has a higher
// priority, so these pods are not evicted.
const HeldPriority = math.MaxInt32

// The maximum numbers of items in the lists of a Reservation.
const (
	maxReservationOwners = 64
	maxReservationTaints = 64
	maxReserved          = 64 // containers
)

// defaultTTL is the lifetime of a Reservation that sets neither ttl nor expires, as in Koordinator.
const defaultTTL = 24 * time.Hour

// Reservation is a Koordinator Reservation in Berth's types.
type Reservation struct {
	Name string
	UID  types.UID
	// Labels are the labels of the object.
	Labels map[string]string
	// Version is the object's resourceVersion.
	Version string
	// Scheduler is the name of the scheduler that places the Reservation.
	Scheduler string
	// Pod is a pod that stands for the reserved resources. It has the name and UID of the object,
	// but no namespace and no node.
	Pod *corev1.Pod
	// Expires is the time when the Reservation ends. The zero value means never.
	Expires time.Time
	// Once means that only the first owner may use the Reservation (allocateOnce).
	Once bool
	// More means that an owner that needs more than is reserved may take the difference from the
	// rest of the node (allocatePolicy Aligned, which is the default).
	More bool
	// Closed means that no further owner may use the Reservation (spec.unschedulable).
	Closed bool
	Taints []corev1.Taint
	owners []reservationOwner
	// Phase and Node come from the object's status. Decision comes from the object's placement
	// annotation. It is nil if there is no annotation, or if it cannot be read.
	Phase    koordinator.ReservationPhase
	Node     string
	Decision *placement.Decision
	// DecisionErr is the reason why the placement annotation cannot be read.
	DecisionErr error
}

type reservationOwner struct {
	object     *corev1.ObjectReference
	controller *koordinator.ReservationController
	labels     labels.Selector
}

// OfReservation reports whether a pod is not a real pod, but stands for a Reservation.
func OfReservation(pod *corev1.Pod) bool { return pod.Kind == reservationKind && pod.Namespace == "" }

// Over reports whether the Reservation has ended. An ended Reservation never holds resources again.
func (r *Reservation) Over() bool {
	return r.Phase == koordinator.ReservationFailed || r.Phase == koordinator.ReservationSucceeded
}

// ReservationScheduler returns the name of the scheduler of a Reservation.
func ReservationScheduler(o *koordinator.Reservation) string {
	if o.Spec.Template == nil || o.Spec.Template.Spec.SchedulerName == "" {
		return corev1.DefaultSchedulerName
	}
	return o.Spec.Template.Spec.SchedulerName
}

// ReadReservation reads a Reservation. The error names a field that is invalid or that Berth does
// not support.
func ReadReservation(o *koordinator.Reservation) (*Reservation, error) {
	r := reservationReader{fieldErrors("Reservation " + o.Name), o}
	for _, check := range []func() error{r.spec, r.template, r.lists} {
		if err := check(); err != nil {
			return nil, err
		}
	}
	out := &Reservation{
		Name: o.Name, UID: o.UID, Labels: o.Labels, Version: o.ResourceVersion, Scheduler: ReservationScheduler(o), Pod: reservationPod(o),
		Expires: expiryOf(o), Once: o.Spec.AllocateOnce == nil || *o.Spec.AllocateOnce, Closed: o.Spec.Unschedulable,
		More:   o.Spec.AllocatePolicy != koordinator.AllocateRestricted,
		Taints: o.Spec.Taints, Phase: o.Status.Phase, Node: o.Status.NodeName,
	}
	ask, err := ReadPod(out.Pod)
	if err == nil {
		err = ask.RulesErr
	}
	if wrong, ok := err.(*FieldError); ok { //nolint:errorlint // the error is never wrapped here
		inTemplate := *wrong
		inTemplate.Field = "spec.template." + wrong.Field
		return nil, &inTemplate
	}
	if err != nil {
		return nil, err
	}
	if out.owners, err = r.owners(); err != nil {
		return nil, err
	}
	p, found, err := ReadPlacement(&corev1.Pod{TypeMeta: out.Pod.TypeMeta, ObjectMeta: o.ObjectMeta})
	if out.DecisionErr = err; found && err == nil {
		out.Decision = &p.Decision
	}
	return out, nil
}

// expiryOf returns the time when a Reservation expires. The zero value means never.
func expiryOf(o *koordinator.Reservation) time.Time {
	switch {
	case o.Spec.Expires != nil:
		return o.Spec.Expires.Time
	case o.Spec.TTL == nil:
		return o.CreationTimestamp.Add(defaultTTL)
	case o.Spec.TTL.Duration == 0:
		return time.Time{}
	}
	return o.CreationTimestamp.Add(o.Spec.TTL.Duration)
}

type reservationReader struct {
	fieldErrors
	o *koordinator.Reservation
}

func (r reservationReader) spec() error {
	s, at := &r.o.Spec, field.NewPath("spec")
	switch {
	case r.o.Malformed != "":
		return r.malformed(r.o.Malformed)
	case len(s.Unknown) > 0:
		return r.at(at.Child(s.Unknown[0]), "set", "nothing: Berth does not support this field")
	case s.Template == nil:
		return r.at(at.Child("template"), "nothing", "a pod template")
	case s.PreAllocation:
		return r.at(at.Child("preAllocation"), true, "false: Berth reserves only free resources, not resources that pods still use")
	case s.TTL != nil && s.TTL.Duration < 0:
		return r.at(at.Child("ttl"), s.TTL.Duration, "0, which means without end, or a positive duration")
	case !slices.Contains([]koordinator.ReservationAllocatePolicy{"", koordinator.AllocateAligned, koordinator.AllocateRestricted}, s.AllocatePolicy):
		return r.at(at.Child("allocatePolicy"), s.AllocatePolicy, "Aligned or Restricted")
	}
	return nil
}

func (r reservationReader) lists() error {
	s, at := &r.o.Spec, field.NewPath("spec")
	switch {
	case len(s.Owners) == 0 || len(s.Owners) > maxReservationOwners:
		return r.at(at.Child("owners"), fmt.Sprint(len(s.Owners), " owners"), fmt.Sprint("1 to ", maxReservationOwners))
	case len(s.Taints) > maxReservationTaints:
		return r.at(at.Child("taints"), fmt.Sprint(len(s.Taints), " taints"), fmt.Sprint("at most ", maxReservationTaints))
	}
	for i := range s.Taints {
		if e := s.Taints[i].Effect; e != corev1.TaintEffectNoSchedule && e != corev1.TaintEffectPreferNoSchedule && e != corev1.TaintEffectNoExecute {
			return r.at(at.Child("taints").Index(i).Child("effect"), e, "NoSchedule, PreferNoSchedule or NoExecute")
		}
	}
	return nil
}

// template returns an error if the template has fields that affect placement and that Berth does
// not support in a Reservation.
func (r reservationReader) template() error {
	p, at := &r.o.Spec.Template.Spec, field.NewPath("spec", "template", "spec")
	if n := len(p.Containers); n == 0 || n > maxReserved {
		return r.at(at.Child("containers"), fmt.Sprint(n, " containers"), fmt.Sprint("1 to ", maxReserved))
	}
	none := func(name string, there bool) error {
		if !there {
			return nil
		}
		return r.at(at.Child(name), "set", "nothing: Berth does not support this field in a Reservation")
	}
	a := p.Affinity
	for _, err := range []error{
		none("initContainers", len(p.InitContainers) > 0),
		none("volumes", slices.ContainsFunc(p.Volumes, isClaimed)),
		none("resourceClaims", len(p.ResourceClaims) > 0),
		none("resources", p.Resources != nil),
		none("overhead", len(p.Overhead) > 0),
		none("runtimeClassName", p.RuntimeClassName != nil),
		none("topologySpreadConstraints", len(p.TopologySpreadConstraints) > 0),
		none("schedulingGates", len(p.SchedulingGates) > 0),
		none("schedulingGroup", p.SchedulingGroup != nil),
		none("affinity.podAffinity", a != nil && a.PodAffinity != nil),
		none("affinity.podAntiAffinity", a != nil && a.PodAntiAffinity != nil),
		none("priorityClassName", p.PriorityClassName != "" && p.Priority == nil),
	} {
		if err != nil {
			return err
		}
	}
	return r.containers(at.Child("containers"))
}

// isClaimed reports whether a volume may restrict the nodes of a pod.
func isClaimed(v corev1.Volume) bool {
	return v.PersistentVolumeClaim != nil || v.Ephemeral != nil || v.CSI != nil
}

func (r reservationReader) containers(at *field.Path) error {
	pod, asks := reservationPod(r.o), false
	if InGang(pod) {
		return r.at(field.NewPath("spec", "template", "metadata"), "a gang", "no gang: Berth plans each Reservation by itself")
	}
	names := map[string]bool{}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		switch {
		case names[c.Name]:
			return r.at(at.Index(i).Child("name"), c.Name, "a name that no other container has")
		case slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.HostPort != 0 }):
			return r.at(at.Index(i).Child("ports"), "hostPort", "none: Berth does not reserve ports")
		case r.o.Spec.Template.Spec.HostNetwork && len(c.Ports) > 0: // with hostNetwork, every port is a host port (PortsOf)
			return r.at(at.Index(i).Child("ports"), c.Ports[0].ContainerPort, "none together with hostNetwork, which makes it a host port: Berth does not reserve ports")
		case len(c.Resources.Claims) > 0:
			return r.at(at.Index(i).Child("resources", "claims"), "set", "nothing: Berth does not support this field in a Reservation")
		}
		names[c.Name] = true
		for _, q := range c.Resources.Requests {
			asks = asks || q.Sign() != 0
		}
	}
	if !asks {
		return r.at(at, "containers without requests", "a container that requests CPUs, memory or devices")
	}
	return nil
}

func (r reservationReader) owners() (out []reservationOwner, err error) {
	for i := range r.o.Spec.Owners {
		o, at := &r.o.Spec.Owners[i], field.NewPath("spec", "owners").Index(i)
		if err := r.checkOwner(at, o); err != nil {
			return nil, err
		}
		owner := reservationOwner{object: o.Object, controller: o.Controller, labels: labels.Everything()}
		if o.LabelSelector != nil {
			if owner.labels, err = metav1.LabelSelectorAsSelector(o.LabelSelector); err != nil {
				return nil, r.at(at.Child("labelSelector"), err, "a label selector")
			}
		}
		out = append(out, owner)
	}
	return out, nil
}

func (r reservationReader) checkOwner(at *field.Path, o *koordinator.ReservationOwner) error {
	switch {
	case o.Object == nil && o.Controller == nil && o.LabelSelector == nil:
		return r.at(at, "nothing", "object, controller or labelSelector")
	case o.Object != nil && (o.Object.Kind != "" && o.Object.Kind != "Pod" || o.Object.APIVersion != "" && o.Object.APIVersion != "v1"):
		return r.at(at.Child("object"), o.Object.APIVersion+" "+o.Object.Kind, "a Pod of v1: name other objects under controller")
	case o.Object != nil && o.Object.UID == "" && o.Object.Name == "" && o.Object.Namespace == "":
		return r.at(at.Child("object"), "nothing", "a name, a namespace or a uid")
	case o.Controller != nil && o.Controller.UID == "" && o.Controller.Name == "" && o.Controller.Namespace == "":
		return r.at(at.Child("controller"), "nothing", "a name, a namespace or a uid")
	case o.Object != nil && (o.Object.FieldPath != "" || o.Object.ResourceVersion != ""):
		return r.at(at.Child("object"), o.Object.FieldPath+o.Object.ResourceVersion, "no fieldPath and no resourceVersion: Berth does not support them")
	}
	return nil
}

// CheckOwnerNamespaces returns a *FieldError if an owner names no namespace. Without a namespace,
// pods of every namespace can match the owner.
func CheckOwnerNamespaces(o *koordinator.Reservation) error {
	for i := range o.Spec.Owners {
		owner := &o.Spec.Owners[i]
		if owner.Object != nil && owner.Object.Namespace != "" || owner.Controller != nil && owner.Controller.Namespace != "" {
			continue
		}
		return fieldErrors("Reservation "+o.Name).at(field.NewPath("spec", "owners").Index(i), "an owner of any namespace",
			"object.namespace or controller.namespace, which this scheduler's reservationOwnersNeedNamespace demands")
	}
	return nil
}

// Owns reports whether spec.owners matches the pod. It does not check taints or Closed.
func (r *Reservation) Owns(pod *corev1.Pod) bool {
	return slices.ContainsFunc(r.owners, func(o reservationOwner) bool { return o.matches(pod) })
}

func (o *reservationOwner) matches(pod *corev1.Pod) bool {
	is := func(want, have string) bool { return want == "" || want == have }
	if ref := o.object; ref != nil && !(is(string(ref.UID), string(pod.UID)) && is(ref.Name, pod.Name) && is(ref.Namespace, pod.Namespace)) {
		return false
	}
	if !o.labels.Matches(labels.Set(pod.Labels)) {
		return false
	}
	want := o.controller
	return want == nil || is(want.Namespace, pod.Namespace) && slices.ContainsFunc(pod.OwnerReferences, func(have metav1.OwnerReference) bool {
		return is(string(want.UID), string(have.UID)) && is(want.Name, have.Name) && is(want.Kind, have.Kind) && is(want.APIVersion, have.APIVersion) &&
			(want.Controller == nil || have.Controller != nil && *want.Controller == *have.Controller)
	})
}

// tolerated reports whether the tolerations cover all taints of the Reservation, except taints with
// the effect PreferNoSchedule.
func (r *Reservation) tolerated(by []corev1.Toleration) bool {
	return !slices.ContainsFunc(r.Taints, func(t corev1.Taint) bool {
		return t.Effect != corev1.TaintEffectPreferNoSchedule && !slices.ContainsFunc(by, func(x corev1.Toleration) bool {
			return x.ToleratesTaint(klog.Background(), &t, false)
		})
	})
}

// reservationPod returns the value of Reservation.Pod. Labels and annotations of the object
// override those of its template.
func reservationPod(o *koordinator.Reservation) *corev1.Pod {
	t := o.Spec.Template.DeepCopy()
	pod := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: koordinator.GroupVersion.String(), Kind: reservationKind},
		ObjectMeta: metav1.ObjectMeta{
			Name: o.Name, UID: o.UID, CreationTimestamp: o.CreationTimestamp, Labels: labels.Merge(t.Labels, o.Labels), Annotations: labels.Merge(t.Annotations, o.Annotations),
		},
		Spec: corev1.PodSpec{
			Containers: t.Spec.Containers, NodeSelector: t.Spec.NodeSelector, Affinity: t.Spec.Affinity, Tolerations: t.Spec.Tolerations,
			Priority: t.Spec.Priority, SchedulerName: ReservationScheduler(o), RestartPolicy: corev1.RestartPolicyAlways,
		},
	}
	delete(pod.Annotations, PlacementAnnotation)
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].Name == "" { // Koordinator does not require names
			pod.Spec.Containers[i].Name = "container-" + strconv.Itoa(i)
		}
		r := &pod.Spec.Containers[i].Resources
		r.Requests = completed(*r) // the API server does this for pods
	}
	if t.Spec.NodeName != "" {
		onlyOn(pod, t.Spec.NodeName)
	}
	return pod
}

func onlyOn(pod *corev1.Pod, node string) {
	if pod.Spec.Affinity == nil {
		pod.Spec.Affinity = &corev1.Affinity{}
	}
	a := pod.Spec.Affinity
	if a.NodeAffinity == nil {
		a.NodeAffinity = &corev1.NodeAffinity{}
	}
	if a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{}}}
	}
	terms := a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	for i := range terms {
		terms[i].MatchFields = append(terms[i].MatchFields, corev1.NodeSelectorRequirement{
			Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node},
		})
	}
}

// Allocatable returns the amounts that the Reservation holds when no owner uses it.
func (r *Reservation) Allocatable() corev1.ResourceList {
	return resourcehelper.PodRequests(r.Pod, resourcehelper.PodResourcesOptions{})
}

// Allocated returns the part of Allocatable that the owners use: the sum of their requests, but of
// each resource at most the amount that the Reservation holds.
func (r *Reservation) Allocated(owners []*corev1.Pod) corev1.ResourceList {
	out, all := corev1.ResourceList{}, r.Allocatable()
	for _, pod := range owners {
		for name, q := range resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{}) {
			there, held := all[name]
			if !held {
				continue
			}
			sum := out[name]
			sum.Add(q)
			if sum.Cmp(there) > 0 {
				sum = there.DeepCopy()
			}
			out[name] = sum
		}
	}
	return out
}

// Rest returns a pod that stands for the reserved resources that the owners do not use, or nil if
// they use all. Rest subtracts the owners' requests from the first container of r.Pod, then from
// the next containers.
func (r *Reservation) Rest(owners []*corev1.Pod) *corev1.Pod {
	rest := r.Pod.DeepCopy()
	if len(owners) == 0 {
		return rest
	}
	guaranteed := isGuaranteed(r.Pod)
	part := func(c corev1.Container) bool { return c.Resources.Requests.Cpu().MilliValue()%1000 != 0 }
	if guaranteed && !slices.ContainsFunc(r.Pod.Spec.Containers, part) {
		// The rest stays Guaranteed even if no memory is left, so that the next owner gets
		// exclusive CPUs.
		rest.Status.QOSClass = corev1.PodQOSGuaranteed
	}
	taken := r.Allocated(owners)
	rest.Spec.Containers = nil
	for _, c := range r.Pod.Spec.Containers { // a template has no init containers (reservationReader.template)
		left := takeFrom(c.Resources.Requests, taken)
		if len(left) == 0 {
			continue
		}
		c.Resources = corev1.ResourceRequirements{Requests: left}
		if guaranteed {
			c.Resources.Limits = left
		} else if limits := pluginsIn(left); len(limits) > 0 {
			c.Resources.Limits = limits
		}
		rest.Spec.Containers = append(rest.Spec.Containers, c)
	}
	if len(rest.Spec.Containers) == 0 {
		return nil
	}
	return rest
}

// takeFrom subtracts taken from amounts, down to zero, and returns the rest. It also reduces taken
// by the amounts that it has subtracted.
func takeFrom(amounts, taken corev1.ResourceList) corev1.ResourceList {
	left := corev1.ResourceList{}
	for name, q := range amounts {
		q, gone := q.DeepCopy(), taken[name]
		if gone.Cmp(q) >= 0 {
			gone.Sub(q)
			taken[name] = gone
			continue
		}
		q.Sub(gone)
		delete(taken, name)
		left[name] = q
	}
	return left
}

// HeldRequest converts the result of Rest to the request with which the scheduler holds these
// resources for future owners. The number of exclusive CPUs is rounded down, because no owner can
// have a part of an exclusive CPU.
func HeldRequest(rest *corev1.Pod) (*placement.Request, error) {
	ask, err := ReadPod(rest)
	if err != nil {
		return nil, err
	}
	r := &ask.Request
	r.Rules.MayWithhold = true // the Reservation has these CPUs already
	if rest.Status.QOSClass == corev1.PodQOSGuaranteed {
		for i := range r.Containers {
			r.Containers[i].MilliCPU -= r.Containers[i].MilliCPU % 1000
		}
	}
	return r, nil
}

func pluginsIn(list corev1.ResourceList) corev1.ResourceList {
	out := corev1.ResourceList{}
	for name, q := range list {
		if IsExtended(name) {
			out[name] = q
		}
	}
	return out
}

// Fits reports whether the given owners leave enough of the Reservation for the pod. It compares
// only the resources that the Reservation holds. If More is set, it is enough that something is
// left of one resource that the pod requests.
func (r *Reservation) Fits(pod *corev1.Pod, owners []*corev1.Pod) bool {
	all, had := r.Allocatable(), r.Allocated(owners)
	fits, some := true, false
	for name, q := range resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{}) {
		left, held := all[name]
		if !held {
			continue
		}
		left.Sub(had[name])
		fits, some = fits && q.Cmp(left) <= 0, some || left.Sign() > 0
	}
	return fits || r.More && some
}

// allocatedJSON is the value of AllocatedAnnotation.
type allocatedJSON struct {
	Name string    `json:"name,omitempty"`
	UID  types.UID `json:"uid,omitempty"`
}

// WriteAllocated returns the value of AllocatedAnnotation for owners of the Reservation.
func (r *Reservation) WriteAllocated() string {
	text, err := json.Marshal(allocatedJSON{r.Name, r.UID})
	if err != nil {
		return "" // cannot fail for two strings
	}
	return string(text)
}

// ReadAllocated returns the UID of the Reservation that a pod claims to use, or "". Anyone who can
// write the pod can write the annotation, so it does not prove that the pod is an owner.
func ReadAllocated(pod *corev1.Pod) types.UID { return readAllocated(pod).UID }

// ReadAllocatedName is like ReadAllocated, but returns the name of the Reservation.
func ReadAllocatedName(pod *corev1.Pod) string { return readAllocated(pod).Name }

func readAllocated(pod *corev1.Pod) (a allocatedJSON) {
	text, ok := pod.Annotations[AllocatedAnnotation]
	if !ok || len(text) > maxKoordinatorText {
		return a
	}
	if json.Unmarshal([]byte(text), &a) != nil {
		return allocatedJSON{}
	}
	return a
}

// ReservationNews is the state of a Reservation that a scheduler writes into its status.
type ReservationNews struct {
	Phase koordinator.ReservationPhase
	Node  string
	// Reason is the reason for the phase, and Message explains it to users.
	Reason, Message string
	Owners          []*corev1.Pod
}

// Status returns the object's status, updated with news. The second result is false if nothing
// changes.
func (r *Reservation) Status(o *koordinator.Reservation, news *ReservationNews, now time.Time) (*koordinator.ReservationStatus, bool) {
	s := o.Status.DeepCopy()
	s.Phase, s.NodeName, s.CurrentOwners, s.Allocatable, s.Allocated = news.Phase, news.Node, nil, nil, nil
	if news.Node != "" {
		s.Allocatable = r.Allocatable()
		if s.Allocated = r.Allocated(news.Owners); len(s.Allocated) == 0 {
			s.Allocated = nil
		}
	}
	for _, pod := range news.Owners {
		s.CurrentOwners = append(s.CurrentOwners, corev1.ObjectReference{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID})
	}
	s.Conditions = newsConditions(s.Conditions, news, now)
	return s, !equality.Semantic.DeepEqual(s, &o.Status)
}

// WrongStatus returns the status of an invalid Reservation. The argument why is the error about it.
// The second result is false if nothing changes.
func WrongStatus(o *koordinator.Reservation, why error, now time.Time) (*koordinator.ReservationStatus, bool) {
	s := o.Status.DeepCopy()
	s.Phase = koordinator.ReservationPending
	s.NodeName, s.CurrentOwners, s.Allocatable, s.Allocated = "", nil, nil, nil
	s.Conditions = newsConditions(s.Conditions, &ReservationNews{Phase: s.Phase, Reason: koordinator.ReasonReservationUnschedulable, Message: why.Error()}, now)
	return s, !equality.Semantic.DeepEqual(s, &o.Status)
}

// maxConditionMessage is the maximum length of a condition's message, in bytes.
const maxConditionMessage = 2 << 10

func newsConditions(old []koordinator.ReservationCondition, news *ReservationNews, now time.Time) []koordinator.ReservationCondition {
	message := clip.Text(news.Message, maxConditionMessage)
	out := slices.Clone(old)
	set := func(kind string, status metav1.ConditionStatus, reason string) {
		c := koordinator.ReservationCondition{Type: kind, Status: status, Reason: reason, Message: message,
			LastProbeTime: metav1.NewTime(now), LastTransitionTime: metav1.NewTime(now)}
		at := slices.IndexFunc(out, func(o koordinator.ReservationCondition) bool { return o.Type == kind })
		if at < 0 {
			out = append(out, c)
			return
		}
		if was := out[at]; was.Status == status && was.Reason == reason {
			c.LastTransitionTime = was.LastTransitionTime
			if was.Message == message {
				c.LastProbeTime = was.LastProbeTime
			}
		}
		out[at] = c
	}
	if news.Node == "" && news.Phase == koordinator.ReservationPending {
		set(koordinator.ReservationScheduled, metav1.ConditionFalse, news.Reason)
		return slices.DeleteFunc(out, func(c koordinator.ReservationCondition) bool { return c.Type == koordinator.ReservationReady })
	}
	if news.Node != "" {
		message = ""
		set(koordinator.ReservationScheduled, metav1.ConditionTrue, koordinator.ReasonReservationScheduled)
		message = news.Message
	}
	ready := metav1.ConditionFalse
	if news.Phase == koordinator.ReservationAvailable {
		ready = metav1.ConditionTrue
	}
	set(koordinator.ReservationReady, ready, news.Reason)
	return out
}

// Held returns a copy of a Reservation's pod for the scheduler's cache. The copy is bound to the
// node and has HeldPriority.
func Held(pod *corev1.Pod, node string) *corev1.Pod {
	priority := int32(HeldPriority)
	out := pod.DeepCopy()
	out.Spec.NodeName, out.Spec.Priority = node, &priority
	out.Labels = nil // so that no pod's affinity matches it
	return out
}

// CheckDecision returns an error if the decision names another pod, or gives the pod more than it
// requests. Such a decision is forged or outdated. CheckDecision does not check whether the pod may
// withhold CPUs from other pods (exclusiveNamespaces): a Reservation has no namespace, and the
// scheduler that made the decision may have had other arguments. Owners are checked as pods of
// their own namespaces.
func CheckDecision(pod *corev1.Pod, d *placement.Decision) error {
	ask, err := ReadPod(pod)
	if err != nil {
		return err
	}
	wrong := fieldErrors(podName(pod))
	at := annotation(PlacementAnnotation)
	if d.UID != string(pod.UID) || len(d.Containers) != len(ask.Request.Containers) {
		return wrong.at(at, d.UID, "the decision for "+string(pod.UID))
	}
	for i := range d.Containers {
		got, asked := &d.Containers[i], &ask.Request.Containers[i]
		if got.Name != asked.Name {
			return wrong.at(at, got.Name, "the container "+asked.Name+" at this position, as in the template")
		}
		more := moreThan(got, asked)
		if e := got.Exclusive; more == "" && e != joint.Shareable && e != ask.Request.Rules.CPUs.Exclusive {
			more = "CPUs that are exclusive by " + nameOf(exclusiveNames[:], int(e))
		}
		if more != "" {
			return wrong.at(at, got.Name+" with "+more, "no more than the template asks for")
		}
	}
	return nil
}

// moreThan describes a resource of which a container got more than it requested. It returns "" if
// there is none.
func moreThan(got *placement.ContainerDecision, asked *placement.ContainerRequest) string {
	var milli int64
	for _, a := range got.Shares {
		milli += a.MilliCPU
	}
	if milli += 1000 * int64(got.CPUs.Len()); milli > asked.MilliCPU {
		return strconv.FormatInt(milli, 10) + "m of CPU"
	}
	left := make(map[string]uint64, len(asked.Memory))
	for _, m := range asked.Memory {
		left[m.Resource] += m.Bytes
	}
	for _, m := range got.Memory {
		if m.Bytes > left[m.Resource] {
			return "more of " + m.Resource + " by " + resource.NewQuantity(int64(min(m.Bytes-left[m.Resource], math.MaxInt64)), resource.BinarySI).String()
		}
		left[m.Resource] -= m.Bytes
	}
	count := make(map[string]int64, len(asked.Devices))
	for _, q := range asked.Devices {
		count[q.Resource] = q.Count
	}
	for _, device := range got.Devices {
		if n := len(device.IDs); int64(n) > count[device.Resource] {
			return fmt.Sprint(n, " of ", device.Resource)
		}
	}
	for _, p := range got.Provided {
		if count[p.Resource] == 0 {
			return fmt.Sprint(p.Amount, " of ", p.Resource, " at ", p.Place)
		}
	}
	return ""
}
