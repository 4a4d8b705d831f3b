package wire

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// With these annotations, a member of a gang asks for the same NUMA nodes as other members, or for
// different NUMA nodes. The value lists names of pods of the gang, such as "train-1, train-2",
// optionally after "preferred:". Without "preferred:" the wish is required.
const (
	// SameNUMAAnnotation asks for the same NUMA nodes as the named pods.
	SameNUMAAnnotation = "berth.dev/gang-same-numa-node"
	// OtherNUMAAnnotation asks for NUMA nodes that the named pods do not use; "*" means all other
	// members.
	OtherNUMAAnnotation = "berth.dev/gang-other-numa-node"
)

// MateKeys are the annotations that ReadMates reads.
var MateKeys = []string{SameNUMAAnnotation, OtherNUMAAnnotation}

// EveryMate stands for all other members of the gang.
const EveryMate = "*"

// maxMates is the maximum number of pods in one annotation.
const maxMates = 64

// MateWish is a member's requirement for its position relative to another member.
type MateWish struct {
	// Mate is a pod's name, or EveryMate.
	Mate string
	// Apart means that the pod wants NUMA nodes other than the mate's NUMA nodes. Otherwise it
	// wants the same NUMA nodes.
	Apart bool
	// Required means that the pod gets no node if the wish cannot be met.
	Required bool
}

// ReadMates reads a pod's wishes about other members of its gang. The error is a *FieldError.
func ReadMates(pod *corev1.Pod) (out []MateWish, err error) {
	wrong := fieldErrors(podName(pod))
	for _, key := range MateKeys {
		text, ok := pod.Annotations[key]
		if !ok {
			continue
		}
		if !InGang(pod) {
			return nil, wrong.at(annotation(key), text, "this annotation only on a pod of a gang")
		}
		names, preferred := strings.CutPrefix(text, "preferred:")
		list := strings.Split(names, ",")
		if len(list) > maxMates {
			return nil, wrong.at(annotation(key), text, "at most 64 pod names")
		}
		for _, name := range list {
			w := MateWish{Mate: strings.TrimSpace(name), Apart: key == OtherNUMAAnnotation, Required: !preferred}
			if want := w.wrong(pod); want != "" {
				return nil, wrong.at(annotation(key), text, want)
			}
			if slices.ContainsFunc(out, func(o MateWish) bool { return o.Mate == w.Mate && o.Apart != w.Apart }) {
				return nil, wrong.at(annotation(key), text, "each pod in only one of "+SameNUMAAnnotation+" and "+OtherNUMAAnnotation)
			}
			if !slices.Contains(out, w) {
				out = append(out, w)
			}
		}
	}
	return out, nil
}

// wrong describes the expected value. It returns "" if the value is valid.
func (w *MateWish) wrong(pod *corev1.Pod) string {
	switch {
	case w.Mate == EveryMate && w.Apart:
		return ""
	case len(validation.IsDNS1123Subdomain(w.Mate)) > 0:
		return `names of pods of the gang, separated by commas, optionally after "preferred:"`
	case w.Mate == pod.Name:
		return "another pod of the gang, not the pod itself"
	}
	return ""
}

// AsksMates reports whether a pod has one of the MateKeys, valid or not.
func AsksMates(pod *corev1.Pod) bool {
	return slices.ContainsFunc(MateKeys, func(key string) bool {
		_, ok := pod.Annotations[key]
		return ok
	})
}

// CountMates returns an upper bound of the number of names in a pod's wishes.
func CountMates(pod *corev1.Pod) (n int) {
	for _, key := range MateKeys {
		if text, ok := pod.Annotations[key]; ok {
			n += 1 + strings.Count(text, ",")
		}
	}
	return n
}

// PlacedWish is a MateWish with the mate's index (see MatesOf) instead of its name. If All is set,
// the wish is about EveryMate, and Mate is unused. The wishes of a pod that already has a node
// concern only pods without a node.
type PlacedWish struct {
	Mate                 int
	All, Apart, Required bool
}

// MatesOf returns the wishes of each pod: first of pods, which are to be placed together, then of
// seated, which already have nodes. The Mate of a PlacedWish is an index in the same order. MatesOf
// returns an error if a required wish names an unknown pod, or if ReadMates fails. It ignores these
// errors for seated pods.
func MatesOf(pods, seated []*corev1.Pod) ([][]PlacedWish, error) {
	all := slices.Concat(pods, seated)
	by := make(map[string]int, len(all))
	for i, pod := range all {
		by[pod.Name] = i
	}
	out := make([][]PlacedWish, len(all))
	for i, pod := range all {
		placed := i >= len(pods)
		wishes, err := ReadMates(pod)
		if err != nil && !placed {
			return nil, err
		}
		for _, w := range wishes {
			mate, ok := by[w.Mate]
			switch {
			case w.Mate == EveryMate:
				if len(all) > 1 && len(pods) > 0 { // otherwise there is no mate
					out[i] = append(out[i], PlacedWish{All: true, Apart: w.Apart, Required: w.Required})
				}
			case ok && (!placed || mate < len(pods)):
				out[i] = append(out[i], PlacedWish{Mate: mate, Apart: w.Apart, Required: w.Required})
			case w.Required && !placed:
				key := SameNUMAAnnotation
				if w.Apart {
					key = OtherNUMAAnnotation
				}
				return nil, fieldErrors(podName(pod)).at(annotation(key), w.Mate, "the name of a waiting or running pod of the same gang")
			}
		}
	}
	return out, nil
}
