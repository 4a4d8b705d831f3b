package wire

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	volcano "github.com/berth-dev/berth/api/scheduling/volcano/v1beta1"
)

// OwnPrefix begins every annotation key of Berth's.
const OwnPrefix = "berth.dev/"

// askKeys are the annotations by which pods ask something of Berth.
var askKeys = append([]string{PolicyAnnotation, GangAnnotation, GangMinimumAnnotation}, WishKeys...)

// podKeys are the annotations of Berth's that a pod may carry.
var podKeys = append([]string{PlacementAnnotation}, askKeys...)

// Dialect is a way to ask for a placement that Berth does not speak yet.
type Dialect struct {
	// Name is the project's.
	Name string
	// Scheduler is the project's own scheduler, as spec.schedulerName has it. It reads the
	// annotations of its pods, so nobody is warned of them.
	Scheduler string
	// Keys are annotations that ask for something.
	Keys []string
	// Prefixes end in a slash. Every key that begins so asks for something, but for those of
	// Spoken.
	Prefixes, Spoken []string
}

// unspoken loses a dialect when it is spoken. After a change: make generate.
var unspoken = []Dialect{
	{
		Name: "Volcano", Scheduler: "volcano",
		Prefixes: []string{"scheduling.volcano.sh/"}, Spoken: []string{volcano.VolcanoGroupNameAnnotation},
	},
	{
		Name: "Koordinator", Scheduler: "koord-scheduler",
		Prefixes: []string{"gang.scheduling.koordinator.sh/", "node.koordinator.sh/", "scheduling.koordinator.sh/"},
	},
}

// UnspokenDialects returns the dialects whose annotations are ignored.
func UnspokenDialects() []Dialect { return slices.Clone(unspoken) }

// PodKeys returns the annotations of Berth's that a pod may carry, sorted.
func PodKeys() []string { return slices.Sorted(slices.Values(podKeys)) }

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

// Warning says that annotations of the dialect are ignored. The API server and the scheduler say it
// in the same words.
func (d *Dialect) Warning(keys string) string {
	return fmt.Sprintf("Berth does not read the annotations of %s yet and ignores %s", d.Name, keys)
}

// UnknownWarning says that there are no such annotations of Berth's, and which there are.
func UnknownWarning(keys string) string {
	return fmt.Sprintf("Berth knows no annotation %s and ignores it: want %s", keys, AskKeys())
}

// isUnknown says whether the key is taken for Berth's and is not.
func isUnknown(key string) bool {
	return strings.HasPrefix(key, OwnPrefix) && !slices.Contains(podKeys, key)
}

// IgnoredAnnotations returns a warning for each kind of annotation that the pod asks by and nobody
// reads: misspelt keys of Berth's, and those of each dialect that is not spoken yet. The policy
// ignored-annotations.berth.dev, made from the same table, warns at creation.
func IgnoredAnnotations(pod *corev1.Pod) (warnings []string) {
	if unknown := keysOf(pod, isUnknown); len(unknown) > 0 {
		warnings = append(warnings, UnknownWarning(listed(unknown)))
	}
	for i := range unspoken {
		d := &unspoken[i]
		if pod.Spec.SchedulerName == d.Scheduler {
			continue
		}
		if keys := keysOf(pod, d.Has); len(keys) > 0 {
			warnings = append(warnings, d.Warning(listed(keys)))
		}
	}
	return warnings
}

// keysOf returns the pod's annotation keys that match, sorted.
func keysOf(pod *corev1.Pod, match func(string) bool) (keys []string) {
	for key := range pod.Annotations {
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
