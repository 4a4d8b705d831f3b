package wire

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	sigs "github.com/berth-dev/berth/api/scheduling/sigs/v1alpha1"
	volcano "github.com/berth-dev/berth/api/scheduling/volcano/v1beta1"
	"github.com/berth-dev/berth/placement/joint"
)

// OwnPrefix begins every annotation key of Berth's.
const OwnPrefix = "berth.dev/"

// askKeys are the annotations by which pods ask something of Berth.
var askKeys = slices.Concat([]string{PolicyAnnotation, GangAnnotation, GangMinimumAnnotation}, MateKeys, WishKeys)

// podKeys are the annotations of Berth's that a pod may carry.
var podKeys = append([]string{PlacementAnnotation, BoundForAnnotation}, askKeys...)

// HolderLabel is on pods that hold a place for another one, with the UID of the pod whose new place
// it is (internal/moving).
const HolderLabel = OwnPrefix + "holds-place-of"

// podLabels are the labels of Berth's that a pod may carry.
var podLabels = []string{HolderLabel}

// Dialect is a way to ask for a placement that Berth does not speak yet.
type Dialect struct {
	// Name is the project's.
	Name string
	// Scheduler is the project's own scheduler, as spec.schedulerName has it. It reads the
	// annotations of its pods, so nobody is warned of them where Berth does not serve the name.
	Scheduler string
	// Keys are annotations that ask for something.
	Keys []string
	// Prefixes end in a slash. Every annotation and every label whose key begins so asks for
	// something, except for the annotations of Spoken.
	Prefixes, Spoken []string
	// LabelPrefixes are Prefixes of labels alone, except for those of SpokenLabels.
	LabelPrefixes, SpokenLabels []string
}

// unspoken loses a dialect when it is spoken. After a change: make generate.
var unspoken = []Dialect{
	{
		Name: "Volcano", Scheduler: "volcano",
		Prefixes: []string{"scheduling.volcano.sh/"}, Spoken: []string{volcano.VolcanoGroupNameAnnotation},
	},
	{
		Name: "Koordinator", Scheduler: "koord-scheduler",
		Prefixes: []string{koordinatorGangs, "node.koordinator.sh/", "scheduling.koordinator.sh/"},
		Spoken: slices.Concat(koordinatorSpoken, koordinatorGangKeys,
			[]string{KoordinatorStatusAnnotation, KoordinatorDevicesAnnotation, AllocatedAnnotation, ReservationAffinityAnnotation}),
		LabelPrefixes: []string{"koordinator.sh/", "quota.scheduling.koordinator.sh/", sigs.OldPodGroupLabel + "/"}, SpokenLabels: []string{koordinatorQoS},
	},
}

// UnspokenDialects returns the dialects whose annotations and labels are ignored.
func UnspokenDialects() []Dialect { return slices.Clone(unspoken) }

// PodKeys returns the annotations of Berth's that a pod may carry, sorted.
func PodKeys() []string { return slices.Sorted(slices.Values(podKeys)) }

// PodLabels returns the labels of Berth's that a pod may carry.
func PodLabels() []string { return slices.Clone(podLabels) }

// KeysRead returns every annotation and every label of pods that Berth reads, in its own words and
// in those of all dialects, sorted. Whatever a pod's author may write there is a hostile input.
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
	for i := range unspoken {
		annotations, labels = append(annotations, unspoken[i].Spoken...), append(labels, unspoken[i].SpokenLabels...)
	}
	slices.Sort(annotations)
	slices.Sort(labels)
	return slices.Compact(annotations), slices.Compact(labels)
}

// AskKeys lists the annotations by which pods ask something of Berth, in words: "berth.dev/policy,
// cpus or memory".
func AskKeys() string {
	names := make([]string, len(askKeys))
	for i, key := range askKeys {
		names[i] = strings.TrimPrefix(key, OwnPrefix)
	}
	last := len(names) - 1
	return OwnPrefix + strings.Join(names[:last], ", ") + " or " + names[last]
}

// Has says whether the annotation key belongs to the dialect.
func (d *Dialect) Has(key string) bool {
	for _, p := range d.Prefixes {
		if strings.HasPrefix(key, p) {
			return !slices.Contains(d.Spoken, key)
		}
	}
	return slices.Contains(d.Keys, key)
}

// HasLabel says whether the key of a label belongs to the dialect.
func (d *Dialect) HasLabel(key string) bool {
	begins := func(p string) bool { return strings.HasPrefix(key, p) }
	return !slices.Contains(d.SpokenLabels, key) && (slices.ContainsFunc(d.Prefixes, begins) || slices.ContainsFunc(d.LabelPrefixes, begins))
}

// Warning says that annotations of the dialect are ignored. The API server and the scheduler say it
// in the same words, as all warnings here.
func (d *Dialect) Warning(keys string) string {
	return fmt.Sprintf("Berth does not serve every annotation of %s and ignores %s", d.Name, keys)
}

// LabelWarning is Warning for labels.
func (d *Dialect) LabelWarning(keys string) string {
	return fmt.Sprintf("Berth does not serve every label of %s and ignores %s", d.Name, keys)
}

// UnknownWarning says that there are no such annotations of Berth's, and which there are.
func UnknownWarning(keys string) string {
	return fmt.Sprintf("Berth knows no annotation %s and ignores it: want %s", keys, AskKeys())
}

// UnknownLabelWarning says that no label of a pod asks anything of Berth, and which annotations do.
func UnknownLabelWarning(keys string) string {
	return fmt.Sprintf("Berth knows no label %s of a pod and ignores it: want an annotation, %s", keys, AskKeys())
}

// isUnknown says whether the key is taken for Berth's and is not.
func isUnknown(key string) bool { return isOwn(key) && !slices.Contains(podKeys, key) }

func isUnknownLabel(key string) bool { return isOwn(key) && !slices.Contains(podLabels, key) }

func isOwn(key string) bool { return strings.HasPrefix(key, OwnPrefix) }

// Ignored is a warning of what a pod asks by and nobody reads.
type Ignored struct {
	// Reason is that of an event: AnnotationIgnored, LabelIgnored or CPUsShared.
	Reason, Text string
}

const (
	annotationIgnored = "AnnotationIgnored"
	labelIgnored      = "LabelIgnored"
	cpusShared        = "CPUsShared"
)

// IgnoredKeys returns a warning for each kind of annotation and of label that the pod asks by and
// nobody reads: misspelt keys of Berth's, and those of each dialect that is not spoken yet. The
// policy ignored-annotations.berth.dev, made from the same table, warns at creation. Pods that name
// a dialect's own scheduler are left alone, unless Berth serves that name too.
func IgnoredKeys(pod *corev1.Pod, served ...string) (warnings []Ignored) {
	warn := func(reason string, keys []string, words func(string) string) {
		if len(keys) > 0 {
			warnings = append(warnings, Ignored{reason, words(listed(keys))})
		}
	}
	warn(annotationIgnored, keysOf(pod.Annotations, isUnknown), UnknownWarning)
	warn(labelIgnored, keysOf(pod.Labels, isUnknownLabel), UnknownLabelWarning)
	for i := range unspoken {
		d := &unspoken[i]
		if pod.Spec.SchedulerName == d.Scheduler && !slices.Contains(served, d.Scheduler) {
			continue
		}
		warn(annotationIgnored, keysOf(pod.Annotations, d.Has), d.Warning)
		warn(labelIgnored, keysOf(pod.Labels, d.HasLabel), d.LabelWarning)
	}
	return warnings
}

// CPUsShared returns a warning of a pod that insists on how CPUs of its own lie, or would have some
// where Berth decides, and that shares CPUs where a kubelet does. It names the keys that the pod
// uses.
func CPUsShared(pod *corev1.Pod) (Ignored, bool) {
	if !mayWantCPUs(pod) {
		return Ignored{}, false
	}
	ask, err := ReadPod(pod)
	if err != nil || ask.RulesErr != nil || ask.Request.AsksExclusiveCPUs() {
		return Ignored{}, false
	}
	keys, why := cpuKeys(pod, &ask), "it is not Guaranteed: limits of cpu and memory in every container make it so"
	if len(keys) == 0 {
		return Ignored{}, false
	}
	if ask.Request.Guaranteed {
		why = "it asks for no whole CPUs: a limit of 2, and not of 1500m, asks for these"
	}
	return Ignored{cpusShared, "where kubelets decide, the pod shares CPUs whatever its " + strings.Join(keys, ", ") + " says, because " + why}, true
}

// mayWantCPUs says whether the pod may have keys for CPUsShared, without reading their values.
func mayWantCPUs(pod *corev1.Pod) bool {
	return pod.Annotations[CPUsAnnotation] != "" || pod.Annotations[ExclusiveAnnotation] != "" || pod.Annotations[L3Annotation] != "" || SpeaksKoordinator(pod)
}

// cpuKeys returns the keys by which the pod insists on how CPUs of its own lie, or on having some.
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
		{CPUsAnnotation, r.CPUs.BindHow == joint.Required}, {ExclusiveAnnotation, r.CPUs.ExclusiveHow == joint.Required}, {L3Annotation, r.CPUs.L3 == joint.Required},
	} {
		if key := ask.Said.In(wish.key); wish.insists && !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	return keys
}

// keysOf returns the keys that match, sorted.
func keysOf(of map[string]string, match func(string) bool) (keys []string) {
	for key := range of {
		if match(key) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// maxListed keeps a warning below the 1024 bytes of an event's note: a key has up to 317.
const maxListed = 2

// listed joins the first keys and counts the others.
func listed(keys []string) string {
	if more := len(keys) - maxListed; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(keys[:maxListed], ", "), more)
	}
	return strings.Join(keys, ", ")
}
