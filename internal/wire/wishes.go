package wire

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/placement/joint"
)

// How a pod wants its CPUs, memory and devices to lie, in Berth's own annotations. Each may be
// followed by ",required", which is meant without it, or ",preferred".
const (
	// CPUsAnnotation: "full-cores" gives all threads of each core, "spread" one thread of each;
	// "shares" gives CPU time on NUMA nodes, and no CPUs of the pod's own.
	CPUsAnnotation = "berth.dev/cpus"
	// ExclusiveAnnotation: "core" leaves the other threads of its cores idle, "numa" the other CPUs
	// of its NUMA nodes.
	ExclusiveAnnotation = "berth.dev/exclusive"
	// L3Annotation: "required" or "preferred": as few level-3 caches as can be.
	L3Annotation = "berth.dev/l3"
	// MemoryAnnotation: "pinned" keeps memory to its NUMA nodes (cpuset.mems).
	MemoryAnnotation = "berth.dev/memory"
	// DevicesAnnotation: "same-switch" or "same-root" gives one device of each kind at each PCI
	// switch, or root complex, that gives any; "one-switch" or "one-root" gives all from one.
	DevicesAnnotation = "berth.dev/devices"
	// FunctionsAnnotation: "one-per-card" gives no two virtual functions of one physical one.
	FunctionsAnnotation = "berth.dev/functions"
)

// WishKeys are the annotations that say how CPUs, memory and devices are to lie.
var WishKeys = []string{CPUsAnnotation, ExclusiveAnnotation, L3Annotation, MemoryAnnotation, DevicesAnnotation, FunctionsAnnotation}

const strengthsWanted = `, then nothing, ",required" or ",preferred"`

// readWishes adds to r what the pod says about its CPUs, memory and devices. What it says in
// Berth's own words comes before what another dialect says. The error is a *FieldError.
func readWishes(pod *corev1.Pod, r *placement.Rules, said *Said) error {
	var own string // of wishes that no other dialect has
	for _, wish := range []struct {
		key  string
		read func(string, *placement.Rules) string
		said *string
	}{
		{CPUsAnnotation, readCPUsWish, &said.cpus}, {ExclusiveAnnotation, readExclusiveWish, &said.exclusive}, {L3Annotation, readL3Wish, &own},
		{MemoryAnnotation, readMemoryWish, &own}, {DevicesAnnotation, readDevicesWish, &said.devices}, {FunctionsAnnotation, readFunctionsWish, &said.functions},
	} {
		text, asks := pod.Annotations[wish.key]
		if !asks {
			continue
		}
		if want := wish.read(text, r); want != "" {
			return fieldErrors(podName(pod)).at(annotation(wish.key), text, want)
		}
		*wish.said = ""
	}
	if r.SharesOnly && (r.CPUs != joint.Rules{} || r.OwnCPUs) {
		if said.cpus == koordinatorQoS {
			return fieldErrors(podName(pod)).at(field.NewPath("metadata", "labels").Key(koordinatorQoS), pod.Labels[koordinatorQoS],
				"LSE or LSR beside annotations that want CPUs of the pod's own, or none of them: pods of this class have time, not CPUs")
		}
		return fieldErrors(podName(pod)).at(annotation(CPUsAnnotation), pod.Annotations[CPUsAnnotation],
			"full-cores or spread beside annotations that want CPUs of the pod's own, or none of them: shares are time, not CPUs")
	}
	return nil
}

// strengthOf cuts the strength off a wish.
func strengthOf(text string) (word string, s joint.Strength) {
	word, how, said := strings.Cut(text, ",")
	switch {
	case !said || how == "required":
		return word, joint.Required
	case how == "preferred":
		return word, joint.Preferred
	}
	return text, joint.Unset
}

func readCPUsWish(text string, r *placement.Rules) (want string) {
	word, how := strengthOf(text)
	switch {
	case text == "shares":
		r.SharesOnly, r.SharesWillDo = true, false
	case word == "full-cores" && how != joint.Unset:
		r.CPUs.Bind, r.CPUs.BindHow = joint.FullCores, how
	case word == "spread" && how != joint.Unset:
		r.CPUs.Bind, r.CPUs.BindHow = joint.Spread, how
	default:
		return "shares, or full-cores or spread" + strengthsWanted
	}
	return ""
}

func readExclusiveWish(text string, r *placement.Rules) (want string) {
	word, how := strengthOf(text)
	switch {
	case word == "core" && how != joint.Unset:
		r.CPUs.Exclusive, r.CPUs.ExclusiveHow = joint.ExclusiveCore, how
	case word == "numa" && how != joint.Unset:
		r.CPUs.Exclusive, r.CPUs.ExclusiveHow = joint.ExclusiveNUMA, how
	default:
		return "core or numa" + strengthsWanted
	}
	return ""
}

func readL3Wish(text string, r *placement.Rules) (want string) {
	switch text {
	case "required":
		r.CPUs.L3 = joint.Required
	case "preferred":
		r.CPUs.L3 = joint.Preferred
	default:
		return "required or preferred"
	}
	return ""
}

func readMemoryWish(text string, r *placement.Rules) (want string) {
	if text != "pinned" {
		return "pinned"
	}
	r.PinMemory = true
	return ""
}

var togethers = map[string]joint.Same{
	"same-switch": joint.SameSwitch, "same-root": joint.SameRoot, "one-switch": joint.OneSwitch, "one-root": joint.OneRoot,
}

func readDevicesWish(text string, r *placement.Rules) (want string) {
	word, how := strengthOf(text)
	same, ok := togethers[word]
	if !ok || how == joint.Unset {
		return "same-switch, same-root, one-switch or one-root" + strengthsWanted
	}
	r.Devices.Same, r.Devices.SameHow, r.Devices.Joint = same, how, 0
	return ""
}

func readFunctionsWish(text string, r *placement.Rules) (want string) {
	if text != "one-per-card" {
		return "one-per-card"
	}
	r.Devices.OnePerFunction = placement.EveryType
	return ""
}

// missing says what a kubelet's configuration lacks for a wish.
var missing = map[placement.Wish]struct{ key, lack string }{
	placement.WishFullCores:     {CPUsAnnotation, "the option full-pcpus-only of a static CPU manager"},
	placement.WishSpread:        {CPUsAnnotation, "the option distribute-cpus-across-cores of a static CPU manager"},
	placement.WishShares:        {CPUsAnnotation, "a CPU manager that is none"},
	placement.WishExclusiveCore: {ExclusiveAnnotation, "the option full-pcpus-only of a static CPU manager"},
	placement.WishExclusiveNUMA: {ExclusiveAnnotation, "a way to keep a NUMA node for one pod: it needs a node with authority berth"},
	placement.WishL3:            {L3Annotation, "a way to insist on level-3 caches: it needs a node with authority berth"},
	placement.WishPinnedMemory:  {MemoryAnnotation, "the memory manager Static"},
	placement.WishDevices:       {DevicesAnnotation, "a way to choose devices by switch, root complex or function: it needs a node with authority berth"},
}

// unmetWish says why a node whose kubelet decides is not for the pod.
func unmetWish(w placement.Wish, r *placement.Rules) string {
	m := missing[w]
	if w == placement.WishDevices && r.Devices.SameHow != joint.Required {
		m.key = FunctionsAnnotation
	}
	return "its kubelet lacks " + m.lack + ", which the pod's " + m.key + " insists on"
}
