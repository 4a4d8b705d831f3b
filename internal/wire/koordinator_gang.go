package wire

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	sigs "github.com/berth-dev/berth/api/scheduling/sigs/v1alpha1"
	"github.com/berth-dev/berth/internal/clip"
)

// Koordinator's annotations about gangs (apis/extension/scheduling.go), on pods and on PodGroups.
const (
	koordinatorGangs       = "gang.scheduling.koordinator.sh/"
	koordinatorGang        = koordinatorGangs + "name"
	koordinatorGangMinimum = koordinatorGangs + "min-available"
	koordinatorGangTotal   = koordinatorGangs + "total-number"
	koordinatorGangTimeout = koordinatorGangs + "waiting-time"
	koordinatorGangMode    = koordinatorGangs + "mode"
	koordinatorGangPolicy  = koordinatorGangs + "match-policy"
	koordinatorGangGroups  = koordinatorGangs + "groups"
)

const koordScheduler = "koord-scheduler"

// koordinatorGangKeys are the annotations about gangs that Berth reads, the gang's name first.
var koordinatorGangKeys = []string{
	koordinatorGang, koordinatorGangMinimum, koordinatorGangTotal, koordinatorGangTimeout,
	koordinatorGangMode, koordinatorGangPolicy, koordinatorGangGroups,
}

// koordinatorGangWait is the time that members wait for each other if no annotation sets the time.
// It is the default of Koordinator's plugin Coscheduling (defaultTimeout).
const koordinatorGangWait = 10 * time.Minute

// maxKoordinatorGangs is the maximum number of gangs that start together.
const maxKoordinatorGangs = 64

// onceWords maps Gang.Once to the values of match-policy.
var onceWords = map[bool]string{true: "once-satisfied", false: "waiting-and-running"}

type gangReader struct {
	fieldErrors
	metav1.Object
}

func (r gangReader) text(key string) string { return r.GetAnnotations()[key] }

// readKoordinatorGang reads a pod's declaration of its gang in Koordinator's annotations.
func readKoordinatorGang(pod *corev1.Pod, m Membership) (Membership, error) {
	r := gangReader{fieldErrors(podName(pod)), pod}
	var err error
	if m.Minimum, err = r.count(koordinatorGangMinimum, 1); err != nil {
		return m, err
	}
	if r.text(koordinatorGangTotal) != "" {
		if _, err := r.count(koordinatorGangTotal, m.Minimum); err != nil {
			return m, err
		}
	}
	if m.Timeout, err = r.timeout(); err != nil {
		return m, err
	}
	if m.Once, err = r.once(); err != nil {
		return m, err
	}
	parts, err := r.groups(m.Gang)
	if err == nil && len(parts) > 1 {
		m.Part, m.Parts = m.Gang.Name, strings.Join(parts, ",")
		m.Task, m.Gang.Name = m.Part, parts[0]
	}
	return m, err
}

// count reads a number of pods from least to MaxGang.
func (r gangReader) count(key string, least int) (int, error) {
	n, err := strconv.Atoi(r.text(key))
	if err != nil || n < least || n > MaxGang {
		return 0, r.at(annotation(key), r.text(key), fmt.Sprintf("a whole number of pods from %d to %d", least, MaxGang))
	}
	return n, nil
}

// timeout reads waiting-time. If it is missing, timeout returns koordinatorGangWait.
func (r gangReader) timeout() (time.Duration, error) {
	text := r.text(koordinatorGangTimeout)
	if text == "" {
		return koordinatorGangWait, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, r.at(annotation(koordinatorGangTimeout), text, "a positive duration in Go syntax, such as 10m or 1h30m")
	}
	return d, nil
}

// The method once reads mode and match-policy. Berth treats both modes alike: it plans a gang
// completely or not at all, so that no member holds resources while other members have no place.
func (r gangReader) once() (bool, error) {
	if mode := r.text(koordinatorGangMode); mode != "" && mode != "Strict" && mode != "NonStrict" {
		return false, r.at(annotation(koordinatorGangMode), mode, "Strict or NonStrict")
	}
	switch policy := r.text(koordinatorGangPolicy); policy {
	case "", onceWords[true]:
		return true, nil
	case onceWords[false]:
		return false, nil
	default:
		return false, r.at(annotation(koordinatorGangPolicy), policy, onceWords[true]+" or "+onceWords[false]+": Berth does not support only-waiting")
	}
}

// groups reads the names of the gangs that must start together. It returns them sorted, or nil if
// the annotation is missing. They must be in the pod's namespace and include the pod's own gang.
func (r gangReader) groups(own GangKey) ([]string, error) {
	text := r.text(koordinatorGangGroups)
	if text == "" {
		return nil, nil
	}
	wrong := func(want string) error { return r.at(annotation(koordinatorGangGroups), text, want) }
	var ids, names []string
	if len(text) > maxKoordinatorText || json.Unmarshal([]byte(text), &ids) != nil || len(ids) > maxKoordinatorGangs {
		return nil, wrong(fmt.Sprintf(`a JSON list of at most %d gangs, such as ["ns/a","ns/b"]`, maxKoordinatorGangs))
	}
	for _, id := range ids {
		namespace, name, _ := strings.Cut(id, "/")
		if namespace != cmp.Or(own.Namespace, namespace) || len(validation.IsDNS1123Subdomain(name)) > 0 {
			return nil, wrong("names of gangs in the pod's namespace, " + own.Namespace + "/NAME")
		}
		names = append(names, name)
	}
	slices.Sort(names)
	if names = slices.Compact(names); !slices.Contains(names, own.Name) {
		return nil, wrong("a list with the pod's own gang, " + own.Namespace + "/" + own.Name)
	}
	return names, nil
}

// ReadKoordinatorGroup reads a PodGroup of scheduling.sigs.k8s.io, and Koordinator's annotations on
// it. The error names the wrong field or annotation.
func ReadKoordinatorGroup(g *sigs.PodGroup) (Gang, error) {
	out, err := ReadSigsGroup(g, GangOfKoordinatorGroup)
	if err != nil {
		return out, err
	}
	r := gangReader{fieldErrors(groupName(out.Key)), g}
	if out.Once, err = r.once(); err != nil {
		return out, err
	}
	instead := map[string]string{koordinatorGang: "metadata.name", koordinatorGangMinimum: "spec.minMember"}
	if out.Timeout > 0 {
		instead[koordinatorGangTimeout] = "spec.scheduleTimeoutSeconds"
	} else if out.Timeout, err = r.timeout(); err != nil {
		return out, err
	}
	if text := r.text(koordinatorGangTotal); text != "" {
		if _, err := r.count(koordinatorGangTotal, out.Minimum); err != nil { // Koordinator logs a wrong number and continues
			instead[koordinatorGangTotal] = "spec.minMember"
		}
	}
	for _, key := range slices.Sorted(maps.Keys(instead)) {
		if text := r.text(key); text != "" {
			out.Ignored = strings.TrimPrefix(out.Ignored+"; ", "; ") + key + " " + clip.Quoted(text) + ": " + instead[key] + " counts"
		}
	}
	if text := r.text(koordinatorGangGroups); text != "" && text != "[]" {
		return out, r.at(field.NewPath("metadata", "annotations").Key(koordinatorGangGroups), text,
			"nothing: gangs that start together are declared only by annotations of their pods: "+koordinatorGang+" and the like")
	}
	return out, nil
}
