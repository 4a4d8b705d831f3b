package wire

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	sigs "github.com/berth-dev/berth/api/scheduling/sigs/v1alpha1"
	volcano "github.com/berth-dev/berth/api/scheduling/volcano/v1beta1"
	"github.com/berth-dev/berth/internal/clip"
)

// Berth's own annotations that declare gangs, for clusters without PodGroups.
const (
	// GangAnnotation names the gang, within the pod's namespace.
	GangAnnotation = "berth.dev/gang"
	// GangMinimumAnnotation is the number of the gang's pods that must start together. All pods of
	// a gang must have the same value.
	GangMinimumAnnotation = "berth.dev/gang-minimum"
)

// MaxGang is the largest supported minimum of a gang. The scheduler plans a gang in one step, and
// places no other pod meanwhile.
const MaxGang = 4096

// GangSource is the way in which a gang is declared.
type GangSource uint8

// The sources.
const (
	// NoGang is the source of pods without a gang.
	NoGang GangSource = iota
	// GangOfPods means that Berth's annotations of the pods declare the gang.
	GangOfPods
	// GangOfVolcano means that a PodGroup of scheduling.volcano.sh declares the gang.
	GangOfVolcano
	// GangOfSigs means that a PodGroup of scheduling.x-k8s.io declares the gang.
	GangOfSigs
	// GangOfKoordinator means that Koordinator's annotations of the pods declare the gang.
	GangOfKoordinator
	// GangOfKoordinatorGroup means that a PodGroup of scheduling.sigs.k8s.io, which Koordinator
	// installs, declares the gang.
	GangOfKoordinatorGroup
)

// String returns the name of the source, for messages and for the BoundForAnnotation.
func (s GangSource) String() string {
	switch s {
	case GangOfPods:
		return "gang"
	case GangOfVolcano:
		return "PodGroup.scheduling.volcano.sh"
	case GangOfSigs:
		return "PodGroup.scheduling.x-k8s.io"
	case GangOfKoordinator:
		return "gang of Koordinator"
	case GangOfKoordinatorGroup:
		return "PodGroup.scheduling.sigs.k8s.io"
	default:
		return "no gang"
	}
}

// HasObject reports whether an object declares the gang. Otherwise only annotations of its pods
// declare it. The result for NoGang has no meaning.
func (s GangSource) HasObject() bool { return s != GangOfPods && s != GangOfKoordinator }

// GangKey identifies a gang. It is comparable. The zero value stands for no gang.
type GangKey struct {
	Source          GangSource
	Namespace, Name string
}

// String returns the name of the gang in messages.
func (k GangKey) String() string { return k.Source.String() + " " + k.Namespace + "/" + k.Name }

// IsZero reports whether the key is the zero key.
func (k GangKey) IsZero() bool { return k == GangKey{} }

// Membership names a pod's gang and has what the pod declares about it. The zero value means no
// gang.
type Membership struct {
	Gang GangKey
	// Task is the task of the gang to which the pod belongs, or "".
	Task string
	Declaration
}

// Declaration is what a pod's own annotations specify about the pod's gang. It is zero if the gang
// has an object.
type Declaration struct {
	// Minimum is the number of pods that start together.
	Minimum int
	// Timeout is Gang.Timeout: how long members wait for each other, or 0. Once is Gang.Once: the
	// minimum applies only until the gang is complete for the first time.
	Timeout time.Duration
	Once    bool
	// Part is the name of the pod's own gang if several gangs must start together. Parts has the
	// names of all these gangs, sorted and joined by commas.
	Part, Parts string
}

// claims are the annotations and labels by which a pod can name its gang.
var claims = [...]struct {
	source GangSource
	key    string
	label  bool
}{
	{GangOfPods, GangAnnotation, false},
	{GangOfVolcano, volcano.GroupNameAnnotation, false},
	{GangOfVolcano, volcano.VolcanoGroupNameAnnotation, false},
	{GangOfSigs, sigs.PodGroupLabel, true},
	{GangOfKoordinator, koordinatorGang, false},
	{GangOfKoordinatorGroup, sigs.OldPodGroupLabel, true},
}

// InGang reports whether the pod has an annotation or label that names a gang. It does not check
// whether the name is valid.
func InGang(pod *corev1.Pod) bool {
	for i := range claims {
		if _, ok := claimOf(pod, i); ok {
			return true
		}
	}
	return false
}

func claimOf(pod *corev1.Pod, i int) (name string, ok bool) {
	if claims[i].label {
		name, ok = pod.Labels[claims[i].key]
	} else {
		name, ok = pod.Annotations[claims[i].key]
	}
	return name, ok
}

func claimPath(i int) *field.Path {
	if claims[i].label {
		return field.NewPath("metadata", "labels").Key(claims[i].key)
	}
	return annotation(claims[i].key)
}

// ReadMembership returns the gang of a pod. The error is a *FieldError about an invalid name, a
// second gang, or an invalid declaration. Together with an error, ReadMembership returns the parts
// that it read before the error.
func ReadMembership(pod *corev1.Pod) (Membership, error) {
	var m Membership
	wrong := fieldErrors(podName(pod))
	for i := range claims {
		name, ok := claimOf(pod, i)
		if !ok {
			continue
		}
		if len(validation.IsDNS1123Subdomain(name)) > 0 {
			return m, wrong.at(claimPath(i), name, "the name of a gang: lower case letters, digits, '-' and '.'")
		}
		key := GangKey{Source: claims[i].source, Namespace: pod.Namespace, Name: name}
		if !m.Gang.IsZero() && m.Gang != key {
			return m, wrong.at(claimPath(i), name, "one gang only; the pod also names "+m.Gang.String())
		}
		m.Gang = key
	}
	if own := pod.Spec.SchedulingGroup; own != nil && own.PodGroupName != nil && !m.Gang.IsZero() {
		return m, wrong.at(field.NewPath("spec", "schedulingGroup", "podGroupName"), *own.PodGroupName, "one gang only; the pod also names "+m.Gang.String())
	}
	// Volcano's scheduler reads the annotation, and otherwise the label (getTaskRole in
	// pkg/scheduler/api/job_info.go).
	m.Task = cmp.Or(pod.Annotations[volcano.TaskSpecAnnotation], pod.Labels[volcano.TaskSpecAnnotation])
	switch m.Gang.Source {
	case GangOfPods:
	case GangOfKoordinator:
		return readKoordinatorGang(pod, m)
	default:
		return m, nil
	}
	text, said := pod.Annotations[GangMinimumAnnotation]
	minimum, err := strconv.Atoi(text)
	switch {
	case !said:
		return m, wrong.at(annotation(GangMinimumAnnotation), text, "this annotation next to "+GangAnnotation+": "+wantMinimum)
	case err != nil || minimum < 1 || minimum > MaxGang:
		return m, wrong.at(annotation(GangMinimumAnnotation), text, wantMinimum)
	}
	m.Minimum = minimum
	return m, nil
}

var wantMinimum = fmt.Sprintf("the number of pods of the gang that start together, from 1 to %d", MaxGang)

// Gang is the specification of a gang, in the same form for every GangSource.
type Gang struct {
	Key GangKey
	// UID and Version are the UID and resourceVersion of the gang's object. They are "" if it has
	// no object.
	UID     types.UID
	Version string
	// Minimum is the number of pods that start together. Tasks has the minimum of each task.
	Minimum int
	Tasks   map[string]int
	// Resources are the minResources of the object. The scheduler plans the gang only if they are
	// available (gangfit.Claim). nil means that there is no such requirement.
	Resources corev1.ResourceList
	// Timeout is how long planned members wait for each other, and how long a gang may stay
	// incomplete after some of its members are bound. 0 means that the gang does not set it.
	Timeout time.Duration
	// Ignored lists the fields, annotations and labels of the object that have no effect in Berth,
	// or is "".
	Ignored string
	// Kept means that the object protects its pods from eviction.
	Kept bool
	// Once means that the minimum applies only until that many pods have nodes for the first time.
	// After that, pods are placed one by one, even if fewer pods than the minimum remain.
	Once bool
	// Phase is the phase in the object's status.
	Phase string
	// Job is the name of the Job (batch.volcano.sh) that owns the object, or "".
	Job string
	// Queue is the Volcano Queue that the object names, or "".
	Queue string
	// PriorityClass is the priority class of the object, or "". Each pod has its own priority
	// class.
	PriorityClass string
	// Unschedulable is the message of the object's condition Unschedulable, or "".
	Unschedulable string
	// Ran means that the gang was complete at some time, according to its status.
	Ran bool
}

// Lacks describes a minimum that the gang does not reach, such as "2 of 3 pods". It returns "" if
// the gang reaches every minimum. The first argument is the number of the gang's pods. The second
// argument returns the number of pods of a task.
func (g *Gang) Lacks(all int, of func(task string) int) string {
	if all < g.Minimum {
		return fmt.Sprintf("%d of %d pods", all, g.Minimum)
	}
	for _, task := range slices.Sorted(maps.Keys(g.Tasks)) {
		if n := of(task); n < g.Tasks[task] {
			return fmt.Sprintf("%d of %d pods of task %q", n, g.Tasks[task], task)
		}
	}
	return ""
}

// GangWholeCondition is a condition that Berth sets on bound members of a gang. From it, a
// restarted scheduler learns that the gang was once complete, even if some members are gone.
const GangWholeCondition corev1.PodConditionType = "berth.dev/gang-whole"

// GangWasWhole reports whether the pod has the GangWholeCondition, or whether its Binding completed
// the gang. The Binding counts because the scheduler may have stopped before it could write the
// condition. GangWasWhole returns false for a failed pod: after the failure, a controller may have
// restarted the whole gang, and the new gang may never have been complete.
func GangWasWhole(pod *corev1.Pod) bool {
	if pod.Status.Phase == corev1.PodFailed {
		return false
	}
	if bound, said := ReadBoundFor(pod); said && bound.Whole {
		return true
	}
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == GangWholeCondition {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// ReadVolcanoGroup reads a PodGroup of Volcano. The error names a field that is invalid or that
// Berth does not support.
func ReadVolcanoGroup(g *volcano.PodGroup) (Gang, error) {
	out := Gang{
		Key: GangKey{GangOfVolcano, g.Namespace, g.Name}, UID: g.UID, Version: g.ResourceVersion,
		Phase: string(g.Status.Phase), Job: jobOf(g), Queue: g.Spec.Queue, PriorityClass: g.Spec.PriorityClassName, Unschedulable: unschedulable(g),
		Ran: slices.Contains([]volcano.PodGroupPhase{volcano.PodGroupRunning, volcano.PodGroupUnknown, volcano.PodGroupCompleted}, g.Status.Phase),
	}
	wrong, spec := fieldErrors(groupName(out.Key)), field.NewPath("spec")
	switch {
	case g.Malformed != "":
		return out, wrong.malformed(g.Malformed)
	case g.Spec.NetworkTopology != nil && g.Spec.NetworkTopology.Mode != softTopology:
		return out, wrong.at(spec.Child("networkTopology", "mode"), g.Spec.NetworkTopology.Mode, "soft, or no networkTopology: Berth does not look at the network, so it cannot keep this requirement")
	case len(g.Spec.SubGroupPolicy) > 0:
		return out, wrong.at(spec.Child("subGroupPolicy"), g.Spec.SubGroupPolicy[0].Name, notServed)
	}
	var err error
	if out.Minimum, err = wrong.minimum(spec.Child("minMember"), g.Spec.MinMember); err != nil {
		return out, err
	}
	if out.Tasks, err = wrong.tasks(spec.Child("minTaskMember"), g.Spec.MinTaskMember, out.Minimum); err != nil {
		return out, err
	}
	out.Ignored, out.Kept = ignoredOfVolcano(g), KeptFromEviction(g)
	if g.Spec.MinResources != nil {
		out.Resources = ofNodes(*g.Spec.MinResources)
	}
	return out, wrong.amounts(spec.Child("minResources"), out.Resources)
}

// unschedulable returns the message of a PodGroup's condition Unschedulable if its status is True.
func unschedulable(g *volcano.PodGroup) string {
	for i := range g.Status.Conditions {
		if c := &g.Status.Conditions[i]; c.Type == volcano.PodGroupUnschedulableType && c.Status == corev1.ConditionTrue {
			return c.Message
		}
	}
	return ""
}

// GroupKind is a kind of object that declares gangs.
type GroupKind struct {
	Version schema.GroupVersion
	// Add registers the kind in a scheme. New returns an empty object.
	Add func(*runtime.Scheme) error
	New func() runtime.Object
	// Read reads an object. The error names the wrong field.
	Read func(runtime.Object) (Gang, error)
}

// GroupKinds has all kinds, by source.
var GroupKinds = map[GangSource]GroupKind{
	GangOfVolcano: {volcano.GroupVersion, volcano.AddToScheme, func() runtime.Object { return new(volcano.PodGroup) },
		func(o runtime.Object) (Gang, error) { return ReadVolcanoGroup(o.(*volcano.PodGroup)) }},
	GangOfSigs: {sigs.GroupVersion, sigs.AddToScheme, func() runtime.Object { return new(sigs.PodGroup) },
		func(o runtime.Object) (Gang, error) { return ReadSigsGroup(o.(*sigs.PodGroup), GangOfSigs) }},
	GangOfKoordinatorGroup: {sigs.OldGroupVersion, sigs.AddOldToScheme, func() runtime.Object { return new(sigs.PodGroup) },
		func(o runtime.Object) (Gang, error) { return ReadKoordinatorGroup(o.(*sigs.PodGroup)) }},
}

// defaultQueue is the queue in which Volcano puts PodGroups that name no queue.
const defaultQueue = "default"

// ignoredOfVolcano lists the fields and annotations of a Volcano PodGroup that have an effect in
// Volcano but not in Berth.
func ignoredOfVolcano(g *volcano.PodGroup) string {
	var out []string
	s := &g.Spec
	if s.Queue != "" && s.Queue != defaultQueue {
		out = append(out, "shares and quotas of spec.queue "+clip.Quoted(s.Queue)+": use Kueue above it")
	}
	if s.NetworkTopology != nil { // ReadVolcanoGroup refuses other modes than soft
		out = append(out, "spec.networkTopology of mode soft: Berth does not look at the network")
	}
	if s.PriorityClassName != "" && jobOf(g) == "" { // a Job's pods have the Job's class
		out = append(out, "spec.priorityClassName "+clip.Quoted(s.PriorityClassName)+": set it in the pods' template, because the priority of the pods counts")
	}
	if words := IgnoredOfGroup(g); words != "" {
		out = append(out, words)
	}
	return strings.Join(out, "; ")
}

// JobVersion is the group and version of Volcano's Jobs.
var JobVersion = schema.GroupVersion{Group: "batch.volcano.sh", Version: "v1alpha1"}

// jobOf returns the name of the Job that controls the object, or "".
func jobOf(object metav1.Object) string {
	owner := metav1.GetControllerOf(object)
	if owner == nil || owner.Kind != "Job" || owner.APIVersion != JobVersion.String() {
		return ""
	}
	return owner.Name
}

// softTopology is the mode of a networkTopology that is only a preference.
const softTopology = "soft"

const notServed = "no value: Berth does not support this field yet, so it cannot start the pods in this way"

// ReadSigsGroup reads a PodGroup of scheduler-plugins. The error names the wrong field.
func ReadSigsGroup(g *sigs.PodGroup, source GangSource) (Gang, error) {
	out := Gang{
		Key: GangKey{source, g.Namespace, g.Name}, UID: g.UID, Version: g.ResourceVersion,
		Phase: string(g.Status.Phase), Resources: g.Spec.MinResources, Ignored: IgnoredOfGroup(g), Kept: KeptFromEviction(g),
		Ran: slices.Contains([]sigs.PodGroupPhase{sigs.PodGroupRunning, sigs.PodGroupUnknown, sigs.PodGroupFinished}, g.Status.Phase),
	}
	wrong, spec := fieldErrors(groupName(out.Key)), field.NewPath("spec")
	if g.Malformed != "" {
		return out, wrong.malformed(g.Malformed)
	}
	var err error
	if out.Minimum, err = wrong.minimum(spec.Child("minMember"), g.Spec.MinMember); err != nil {
		return out, err
	}
	if s := g.Spec.ScheduleTimeoutSeconds; s != nil {
		if *s < 0 {
			return out, wrong.at(spec.Child("scheduleTimeoutSeconds"), *s, "0, which means the default, or more")
		}
		out.Timeout = time.Duration(*s) * time.Second // 0 if the MPI Operator wrote it, which always sets the field
	}
	return out, wrong.amounts(spec.Child("minResources"), out.Resources)
}

func groupName(k GangKey) string { return "PodGroup " + k.Namespace + "/" + k.Name }

// minimum reads minMember. If it is 0, the object sets no minimum, and one pod is enough.
func (o fieldErrors) minimum(at *field.Path, n int32) (int, error) {
	if n < 0 || n > MaxGang {
		return 0, o.at(at, n, fmt.Sprintf("0 to %d", MaxGang))
	}
	return max(1, int(n)), nil
}

// tasks reads the minima of tasks. Volcano ignores them if the group's own minimum is below their
// sum (CheckTaskReady, CheckTaskValid in pkg/scheduler/api/job_info.go), so that a Job with
// minAvailable 1 starts with one pod. In this case, tasks returns nil.
func (o fieldErrors) tasks(at *field.Path, asked map[string]int32, minimum int) (map[string]int, error) {
	out, sum := make(map[string]int, len(asked)), 0
	for _, task := range slices.Sorted(maps.Keys(asked)) {
		n := asked[task]
		if n < 0 {
			return nil, o.at(at.Key(task), n, "0 or more")
		}
		out[task] = int(n)
		sum += int(n)
	}
	if minimum < sum {
		return nil, nil //nolint:nilnil // the minima of tasks do not apply
	}
	return out, nil
}

// ofNodes removes entries that are not resources of nodes. Volcano's controller also writes names
// of quotas into minResources (count/pods, requests.cpu, limits.memory), which Volcano's scheduler
// ignores (NewResource in pkg/scheduler/api/resource_info.go). ofNodes keeps the entry "pods",
// because nodes have this resource.
func ofNodes(list corev1.ResourceList) corev1.ResourceList {
	out := corev1.ResourceList{}
	for name, q := range list {
		text := string(name)
		if !strings.HasPrefix(text, "count/") && !strings.HasPrefix(text, "requests.") && !strings.HasPrefix(text, "limits.") {
			out[name] = q
		}
	}
	return out
}

// amounts returns an error if a value is negative or exceeds an int64.
func (o fieldErrors) amounts(at *field.Path, list corev1.ResourceList) error {
	for _, name := range namesIn(list) {
		q := list[name]
		if q.Sign() < 0 || q.CmpInt64(math.MaxInt64) > 0 {
			return o.at(at.Key(string(name)), &q, "an amount from 0 to "+strconv.Itoa(math.MaxInt64))
		}
	}
	return nil
}

// GangOfMembers returns the gang that the pods declare. The error is a *FieldError. It reports an
// invalid declaration, a pod that contradicts an earlier pod in the order of names, or gangs that
// together need more than MaxGang pods.
func GangOfMembers(key GangKey, pods []*corev1.Pod) (Gang, error) {
	said := map[Declaration]int{}
	by := map[Declaration]*corev1.Pod{}
	out := Gang{Key: key}
	for _, pod := range slices.SortedFunc(slices.Values(pods), func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) }) {
		m, err := ReadMembership(pod)
		if err != nil {
			return Gang{Key: key}, err
		}
		if said[m.Declaration]++; by[m.Declaration] == nil {
			by[m.Declaration] = pod
		}
		out.Minimum = cmp.Or(out.Minimum, m.Minimum) // the minimum of the first pod
	}
	whole, ok := GangOfDeclarations(key, said)
	if ok {
		return whole, nil
	}
	if err := contradiction(by); err != nil {
		return out, err
	}
	return out, fieldErrors(key.String()).at(annotation(koordinatorGangGroups), Counted(whole.Minimum, "pod"),
		fmt.Sprintf("gangs that need at most %d pods together", MaxGang))
}

// GangOfDeclarations combines the declarations of the members of one gang. They are the keys of the
// argument said; its values, the numbers of members, are not used. ok is false if the declarations
// contradict each other, or if they need more than MaxGang pods.
func GangOfDeclarations(key GangKey, said map[Declaration]int) (out Gang, ok bool) {
	out = Gang{Key: key}
	parts := map[string]int{}
	var first Declaration
	for d := range said {
		if _, twice := parts[d.Part]; twice || len(parts) > 0 && (d.Parts != first.Parts || d.Timeout != first.Timeout || d.Once != first.Once) {
			return out, false
		}
		parts[d.Part], first = d.Minimum, d
		out.Minimum += d.Minimum
	}
	out.Timeout, out.Once = first.Timeout, first.Once
	if first.Parts == "" {
		return out, out.Minimum <= MaxGang
	}
	out.Tasks = parts
	for part := range strings.SplitSeq(first.Parts, ",") {
		if _, said := parts[part]; !said { // no pod of that gang exists, so at least one is missing
			parts[part] = 1
			out.Minimum++
		}
	}
	return out, out.Minimum <= MaxGang
}

// contradiction returns the error about the first pod, in the order of names, that contradicts an
// earlier pod. It returns nil if there is none.
func contradiction(by map[Declaration]*corev1.Pod) error {
	said := slices.SortedFunc(maps.Keys(by), func(a, b Declaration) int { return strings.Compare(by[a].Name, by[b].Name) })
	for i, d := range said {
		for _, before := range said[:i] {
			key, value, want := d.against(before)
			if key == "" {
				continue
			}
			return fieldErrors(podName(by[d])).at(annotation(key), value, fmt.Sprintf("%s, as pod %s of the gang says", want, by[before].Name))
		}
	}
	return nil
}

// against finds a contradiction between two declarations of one gang. It returns the annotation,
// the annotation's value in d, and its value in o. The key is "" if there is no contradiction.
func (d Declaration) against(o Declaration) (key, value, want string) {
	keys := declarationKeys[d.Timeout > 0]
	switch {
	case d.Parts != o.Parts:
		return keys.parts, d.Parts, strconv.Quote(o.Parts)
	case d.Timeout != o.Timeout:
		return keys.timeout, d.Timeout.String(), o.Timeout.String()
	case d.Once != o.Once:
		return keys.once, onceWords[d.Once], onceWords[o.Once]
	case d.Part == o.Part && d.Minimum != o.Minimum:
		return keys.minimum, strconv.Itoa(d.Minimum), strconv.Itoa(o.Minimum)
	}
	return "", "", ""
}

// declarationKeys are the annotations by which pods declare a gang. The key true stands for
// Koordinator's annotations, which always have a timeout.
var declarationKeys = map[bool]struct{ minimum, timeout, once, parts string }{
	false: {minimum: GangMinimumAnnotation},
	true:  {koordinatorGangMinimum, koordinatorGangTimeout, koordinatorGangPolicy, koordinatorGangGroups},
}

// CheckMates checks that all pods of a gang name the same scheduler. The error is a *FieldError
// about a pod whose scheduler is not the scheduler of the first pod in the order of names.
// Priorities may differ, because each task of a Volcano Job can have its own priority class.
func CheckMates(pods []*corev1.Pod) error {
	if len(pods) == 0 {
		return nil
	}
	first := slices.MinFunc(pods, func(a, b *corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	for _, pod := range pods {
		if pod.Spec.SchedulerName != first.Spec.SchedulerName {
			return fieldErrors(podName(pod)).at(field.NewPath("spec", "schedulerName"), pod.Spec.SchedulerName,
				strconv.Quote(first.Spec.SchedulerName)+", as pod "+first.Name+" of the gang has")
		}
	}
	return nil
}

// TrimToGang returns a copy of the pod with only the fields that code about gangs needs: identity,
// controller, node, scheduler, priority, phase, the time when the last container ended, and the
// annotations, labels and condition about the gang.
func TrimToGang(pod *corev1.Pod) *corev1.Pod {
	out := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
		CreationTimestamp: pod.CreationTimestamp, DeletionTimestamp: pod.DeletionTimestamp,
		Annotations: map[string]string{}, Labels: map[string]string{},
	}}
	if c := metav1.GetControllerOf(pod); c != nil {
		out.OwnerReferences = []metav1.OwnerReference{*c}
	}
	keep := func(key string) {
		if text, ok := pod.Annotations[key]; ok && len(text) <= maxKoordinatorText {
			out.Annotations[key] = text
		}
	}
	for i := range claims {
		keep(claims[i].key)
		if name, ok := pod.Labels[claims[i].key]; ok {
			out.Labels[claims[i].key] = name
		}
	}
	for _, key := range koordinatorGangKeys {
		keep(key)
	}
	keep(GangMinimumAnnotation)
	keep(volcano.TaskSpecAnnotation)
	if task, ok := pod.Labels[volcano.TaskSpecAnnotation]; ok {
		out.Labels[volcano.TaskSpecAnnotation] = task
	}
	keep(BoundForAnnotation)
	out.Spec.NodeName, out.Spec.SchedulerName, out.Spec.Priority = pod.Spec.NodeName, pod.Spec.SchedulerName, pod.Spec.Priority
	out.Status.Phase = pod.Status.Phase
	out.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.NewTime(Finished(pod))},
	}}}
	for i := range pod.Status.Conditions {
		if c := pod.Status.Conditions[i]; c.Type == GangWholeCondition {
			out.Status.Conditions = append(out.Status.Conditions, c)
		}
	}
	return out
}
