package wire

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corehelpers "k8s.io/component-helpers/resource"

	volcano "github.com/berth-dev/berth/api/scheduling/volcano/v1beta1"
	dra "github.com/berth-dev/berth/internal/claims"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/placement/joint"
)

// OwnPrefix is the prefix of every annotation of Berth.
const OwnPrefix = "berth.dev/"

// askKeys are the annotations with which pods request something from Berth.
var askKeys = slices.Concat([]string{PolicyAnnotation, GangAnnotation, GangMinimumAnnotation}, MateKeys, WishKeys)

// podKeys are Berth's annotations that a pod may have.
var podKeys = append([]string{PlacementAnnotation, BoundForAnnotation}, askKeys...)

// HolderLabel is the label of the pods that keep resources free while other pods are moved: the
// holders and guards of internal/moving. Its value is the UID of the pod for which they keep the
// resources.
const HolderLabel = OwnPrefix + "holds-place-of"

// podLabels are Berth's labels that a pod may have.
var podLabels = []string{HolderLabel}

// PodKeys returns Berth's annotations that a pod may have, sorted.
func PodKeys() []string { return slices.Sorted(slices.Values(podKeys)) }

// PodLabels returns Berth's labels that a pod may have.
func PodLabels() []string { return slices.Clone(podLabels) }

// KeysRead returns all annotations and labels of pods that Berth reads: its own keys and the keys
// of all dialects, sorted. Users choose the values of these keys, so code must not trust them.
func KeysRead() (annotations, labels []string) {
	annotations = append(slices.Clone(podKeys), VolcanoPolicyAnnotation, volcano.TaskSpecAnnotation, RequiredPlugins, RequiredPlugins+"/pod")
	labels = slices.Clone(podLabels)
	for i := range claims {
		if claims[i].label {
			labels = append(labels, claims[i].key)
		} else {
			annotations = append(annotations, claims[i].key)
		}
	}
	for i := range dialects {
		annotations, labels = append(annotations, dialects[i].Spoken...), append(labels, dialects[i].SpokenLabels...)
	}
	slices.Sort(annotations)
	slices.Sort(labels)
	return slices.Compact(annotations), slices.Compact(labels)
}

// AskKeys returns the annotations with which pods request a placement as one text, such as
// "berth.dev/policy, cpus or memory".
func AskKeys() string {
	names := make([]string, len(askKeys))
	for i, key := range askKeys {
		names[i] = strings.TrimPrefix(key, OwnPrefix)
	}
	last := len(names) - 1
	return OwnPrefix + strings.Join(names[:last], ", ") + " or " + names[last]
}

// Warning returns the warning that annotations of the dialect have no effect. keysWhy has the keys,
// each with its reason in brackets. The generated admission policies and the scheduler's events
// both use the warnings of this file, so that their texts are the same.
func (d *Dialect) Warning(keysWhy string) string {
	return "Berth ignores annotations of " + d.Name + ": " + keysWhy
}

// LabelWarning is like Warning, for labels.
func (d *Dialect) LabelWarning(keysWhy string) string {
	return "Berth ignores labels of " + d.Name + ": " + keysWhy
}

// Asks returns the annotations with which pods request a placement.
func Asks() []string { return slices.Clone(askKeys) }

// MisplacedWarning returns the warning that annotations or labels belong on the pod template, not
// on the object that creates the pods.
func MisplacedWarning(keys string) string {
	return "Berth reads " + keys + " of pods and ignores the object itself: write it into the metadata of the pods' template"
}

// UnknownWarning returns the warning about annotations that Berth does not have. The warning lists
// the existing annotations.
func UnknownWarning(keys string) string {
	return fmt.Sprintf("Berth ignores the unknown annotation %s: want %s", keys, AskKeys())
}

// UnknownLabelWarning returns the warning about labels that Berth does not have. The warning lists
// the existing annotations.
func UnknownLabelWarning(keys string) string {
	return fmt.Sprintf("Berth ignores the unknown pod label %s: want one of the annotations %s", keys, AskKeys())
}

// Companion has annotations that have no effect without another annotation or a label.
type Companion struct {
	Keys []string
	// Of is the annotation that must exist. If Labels is not nil, Of is a label, which must have
	// one of the values in Labels.
	Of     string
	Labels []string
	// Scheduler is the name of the scheduler that reads the annotations itself, or "".
	Scheduler string
}

var companions = []Companion{
	{Keys: []string{GangMinimumAnnotation}, Of: GangAnnotation},
	{Keys: koordinatorGangKeys[1:], Of: koordinatorGang, Scheduler: koordScheduler},
	{Keys: []string{koordinatorCPUs}, Of: koordinatorQoS, Labels: []string{"LSE", "LSR"}, Scheduler: koordScheduler},
}

// Companions returns all annotations that need another annotation, or a label.
func Companions() []Companion { return slices.Clone(companions) }

// Warning returns the warning that annotations have no effect without the other annotation or
// label.
func (c *Companion) Warning(keys string) string {
	if c.Labels != nil {
		return "Berth ignores " + keys + " of a pod without CPUs of its own: want the label " + c.Of + ": " + strings.Join(c.Labels, " or ") + " on the pod, too"
	}
	return "Berth ignores " + keys + " without the gang's name: want the annotation " + c.Of + " on the pod, too"
}

// alone returns the annotations of the pod that have no effect because the pod lacks the annotation
// or label that c.Of names.
func (c *Companion) alone(pod *corev1.Pod) (keys []string) {
	if _, named := pod.Annotations[c.Of]; named && c.Labels == nil || slices.Contains(c.Labels, pod.Labels[c.Of]) {
		return nil
	}
	for _, key := range c.Keys {
		if _, said := pod.Annotations[key]; said {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

func isUnknown(key string) bool { return isOwn(key) && !slices.Contains(podKeys, key) }

func isUnknownLabel(key string) bool { return isOwn(key) && !slices.Contains(podLabels, key) }

func isOwn(key string) bool { return strings.HasPrefix(key, OwnPrefix) }

// Ignored is a warning about annotations or labels of a pod that have no effect.
type Ignored struct {
	// Reason is the reason of the event: AnnotationIgnored, LabelIgnored or CPUsShared.
	Reason string
	// Of distinguishes warnings with the same reason. It is the name of a dialect, the missing
	// annotation or label, "Devices", "Values", or "" (for unknown keys of Berth, and for
	// CPUsShared).
	Of, Text string
}

const (
	annotationIgnored = "AnnotationIgnored"
	labelIgnored      = "LabelIgnored"
	cpusShared        = "CPUsShared"
)

// IgnoredKeys returns warnings about the pod's annotations and labels that have no effect: misspelt
// keys of Berth, keys without their companion, and keys of dialects that Berth does not support.
// The admission policy ignored-annotations.berth.dev, which warns when a pod is created, is
// generated from the same tables. The names in served are the schedulerNames that Berth serves. If
// spec.schedulerName is a dialect's own scheduler and is not in served, there is no warning about
// that dialect.
func IgnoredKeys(pod *corev1.Pod, served ...string) (warnings []Ignored) {
	warn := func(reason, of string, keys []string, words func(string) string) {
		if len(keys) > 0 {
			warnings = append(warnings, Ignored{reason, of, words(listed(keys))})
		}
	}
	warn(annotationIgnored, "", keysOf(pod.Annotations, isUnknown), UnknownWarning)
	warn(labelIgnored, "", keysOf(pod.Labels, isUnknownLabel), UnknownLabelWarning)
	for i := range companions {
		c := &companions[i]
		if c.Scheduler == "" || pod.Spec.SchedulerName != c.Scheduler || slices.Contains(served, c.Scheduler) {
			warn(annotationIgnored, c.Of, c.alone(pod), c.Warning)
		}
	}
	for i := range dialects {
		d := &dialects[i]
		if pod.Spec.SchedulerName == d.Scheduler && !slices.Contains(served, d.Scheduler) {
			continue
		}
		warn(annotationIgnored, d.Name, d.ignored(pod.Annotations, false), d.Warning)
		warn(labelIgnored, d.Name, d.ignored(pod.Labels, true), d.LabelWarning)
	}
	return warnings
}

// ignored returns the keys that have no effect, sorted, each with its reason.
func (d *Dialect) ignored(of map[string]string, label bool) (keys []string) {
	for key := range of {
		if why := d.Why(key, label); why != "" {
			keys = append(keys, key+" ("+why+")")
		}
	}
	slices.Sort(keys)
	return keys
}

// IgnoredOfGroup lists, as part of a sentence, the keys of all dialects on a PodGroup that have no
// effect. It returns "" if there are none.
func IgnoredOfGroup(group metav1.Object) string {
	var keys []string
	for i := range dialects {
		d := &dialects[i]
		above := func(key string) bool {
			name, _, _ := strings.Cut(key, " ")
			return slices.Contains(d.Above, name)
		}
		keys = append(keys, slices.DeleteFunc(slices.Concat(d.ignored(group.GetAnnotations(), false), d.ignored(group.GetLabels(), true)), above)...)
	}
	return listed(keys)
}

// CPUsShared returns a warning for a pod that requests exclusive CPUs, pinned memory or a policy,
// but would share its CPUs or memory on nodes where a kubelet decides. The warning names the pod's
// annotations, and the requests or limits that the pod lacks. If no kubelet pins anything for the
// pod, the scheduler accepts even an annotation that it cannot read; the warning then names the
// error.
func CPUsShared(pod *corev1.Pod) (Ignored, bool) {
	if !mayWantCPUs(pod) {
		return Ignored{}, false
	}
	ask, err := ReadPod(pod)
	switch {
	case err != nil || ask.RulesErr != nil && ask.Request.Pinnable(): // the pod is refused
		return Ignored{}, false
	case ask.RulesErr != nil:
		return Ignored{annotationIgnored, "Values", "where kubelets decide, Berth ignores what it cannot read: " + ask.RulesErr.Error()}, true
	}
	var keys []string
	if !ask.Request.AsksExclusiveCPUs() {
		keys = cpuKeys(pod, &ask)
	}
	what, why := "CPUs", NoWholeCPUs
	if ask.Request.PodLevel {
		why = OnlyWholes
	}
	if !ask.Request.Guaranteed {
		keys = append(keys, pinKeys(&ask, keys)...)
		what, why = "CPUs and memory", NotGuaranteedWords+cmp.Or(NotGuaranteed(pod), "its status says so")
	}
	if len(keys) == 0 {
		return Ignored{}, false
	}
	return Ignored{cpusShared, "", SharedText(what, strings.Join(keys, ", "), why)}, true
}

// SharedText returns the text of CPUsShared: the resources that the pod shares despite its
// annotations, and the reason.
func SharedText(what, keys, why string) string {
	return "where kubelets decide, the pod shares " + what + " in spite of its " + keys + ", because " + why
}

// pinKeys returns the pod's keys that have an effect only for a Guaranteed pod, except the keys in
// known. It omits the policy of a pod with devices, because a policy also aligns the devices of
// pods that are not Guaranteed.
func pinKeys(ask *Ask, known []string) (keys []string) {
	r := &ask.Request.Rules
	if key := ask.Said.In(PolicyAnnotation); r.Policy != placement.NodePolicy && r.Policy != placement.PolicyNone && !ask.Request.AsksDevices() && !slices.Contains(known, key) {
		keys = append(keys, key)
	}
	if r.PinMemory {
		keys = append(keys, MemoryAnnotation)
	}
	return keys
}

// mostLacks is the maximum number of containers that NotGuaranteed names.
const mostLacks = 3

// NotGuaranteed describes the requests or limits that are missing for the QoS class Guaranteed, or
// returns "".
func NotGuaranteed(pod *corev1.Pod) string {
	var lacks []string
	note := func(who string, r *corev1.ResourceRequirements) {
		if what := lackOf(r); what != "" {
			lacks = append(lacks, who+" "+what)
		}
	}
	if corehelpers.IsPodLevelResourcesSet(pod) {
		note("spec.resources", WithRequests(pod).Spec.Resources)
	} else {
		for at, c := range Containers(pod) {
			who := "container "
			if at.Kind != placement.App {
				who = "init container "
			}
			note(who+c.Name, &c.Resources)
		}
	}
	if more := len(lacks) - mostLacks; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(lacks[:mostLacks], ", "), more)
	}
	return strings.Join(lacks, ", ")
}

// The reasons why a pod shares CPUs, and descriptions of missing requests and limits.
const (
	NoWholeCPUs        = "no container requests a whole number of CPUs: set a limit such as 2, not 1500m"
	OnlyWholes         = "it has spec.resources: only a kubelet with the feature gate PodLevelResourceManagers gives it CPUs: to the whole pod with topologyManagerScope pod and a topologyManagerPolicy other than none, otherwise to containers with whole CPUs and limits equal to requests"
	NotGuaranteedWords = "it is not Guaranteed: "

	LacksBoth    = "has no limits of cpu and memory"
	LacksCPU     = "has no limit of cpu"
	LacksMemory  = "has no limit of memory"
	RequestsLess = "requests less than its limits"
)

func lackOf(r *corev1.ResourceRequirements) string {
	cpu, memory := r.Limits[corev1.ResourceCPU], r.Limits[corev1.ResourceMemory]
	switch {
	case cpu.Sign() <= 0 && memory.Sign() <= 0:
		return LacksBoth
	case cpu.Sign() <= 0:
		return LacksCPU
	case memory.Sign() <= 0:
		return LacksMemory
	}
	for name, limit := range map[corev1.ResourceName]resource.Quantity{corev1.ResourceCPU: cpu, corev1.ResourceMemory: memory} {
		if request, said := r.Requests[name]; said && request.Cmp(limit) != 0 {
			return RequestsLess
		}
	}
	return ""
}

// NoDevices returns a warning for a pod that has annotations about devices but requests none.
func NoDevices(pod *corev1.Pod) (Ignored, bool) {
	var keys []string
	for _, key := range [...]string{DevicesAnnotation, FunctionsAnnotation, ClaimsAnnotation} {
		if _, said := pod.Annotations[key]; said {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 || dra.MayClaim(pod) {
		return Ignored{}, false
	}
	if _, err := ReadPod(pod); err != nil { // the pod is refused
		return Ignored{}, false
	}
	return Ignored{annotationIgnored, "Devices", NoDevicesText(strings.Join(keys, ", "))}, true
}

// NoDevicesText returns the text of NoDevices.
func NoDevicesText(keys string) string {
	return "Berth ignores " + keys + ": no container of the pod asks for a device"
}

// mayWantCPUs is a cheap test that does not translate the pod. If it returns false, CPUsShared has
// nothing to warn about.
func mayWantCPUs(pod *corev1.Pod) bool {
	for _, key := range [...]string{PolicyAnnotation, CPUsAnnotation, ExclusiveAnnotation, L3Annotation, MemoryAnnotation, VolcanoPolicyAnnotation} {
		if pod.Annotations[key] != "" {
			return true
		}
	}
	return SpeaksKoordinator(pod)
}

// cpuKeys returns the keys with which the pod requires exclusive CPUs, or restricts the choice of
// these CPUs.
func cpuKeys(pod *corev1.Pod, ask *Ask) (keys []string) {
	r, class := &ask.Request.Rules, pod.Labels[koordinatorQoS]
	if class == "LSE" || class == "LSR" {
		keys = append(keys, koordinatorQoS)
	} else if class == "" && SpeaksKoordinator(pod) && ownsCPUs(pod, r.Policy) {
		keys = append(keys, koordinatorNUMA)
	}
	for _, wish := range []struct {
		key     string
		insists bool
	}{
		{CPUsAnnotation, r.CPUs.BindHow == joint.Required}, {ExclusiveAnnotation, r.CPUs.ExclusiveHow == joint.Required && r.CPUs.Exclusive != joint.ExclusiveNUMA}, {L3Annotation, r.CPUs.L3 == joint.Required},
	} {
		if key := ask.Said.In(wish.key); wish.insists && !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	if text := pod.Annotations[VolcanoPolicyAnnotation]; text != "" && text != placement.PolicyNone.String() {
		keys = append(keys, VolcanoPolicyAnnotation)
	}
	return keys
}

// keysOf returns the keys of the map for which match returns true, sorted.
func keysOf(of map[string]string, match func(string) bool) (keys []string) {
	for key := range of {
		if match(key) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// maxListed is the maximum length, in bytes, of listed keys in a warning. It keeps a warning below
// 1024 bytes, the limit of an event's note. A key has up to 317 bytes.
const maxListed = 800

// listed joins the keys up to maxListed bytes, and adds the number of the other keys.
func listed(keys []string) string {
	text := ""
	for i, key := range keys {
		if i > 0 {
			key = ", " + key
		}
		if i > 0 && len(text)+len(key) > maxListed {
			return fmt.Sprintf("%s and %d more", text, len(keys)-i)
		}
		text += key
	}
	return text
}
