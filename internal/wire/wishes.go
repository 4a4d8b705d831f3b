package wire

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	dra "github.com/berth-dev/berth/internal/claims"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/placement/joint"
	"github.com/berth-dev/berth/topology"
)

// MayCountNUMANodes is a cheap test that does not read the pod's rules. If it returns false,
// placement.Rules.CountsNUMANodes is false.
func MayCountNUMANodes(pod *corev1.Pod) bool {
	return pod.Annotations[NUMANodesAnnotation] != "" || pod.Annotations[ExclusiveAnnotation] != ""
}

// ReadClaims returns the pod's requirement for its ResourceClaims. The error is a *FieldError.
func ReadClaims(pod *corev1.Pod) (dra.Mode, error) {
	text, asks := pod.Annotations[ClaimsAnnotation]
	if !asks {
		return dra.Free, nil
	}
	mode, ok := dra.ParseMode(text)
	if !ok {
		return dra.Free, fieldErrors(podName(pod)).at(annotation(ClaimsAnnotation), text, dra.ModesWanted)
	}
	return mode, nil
}

const strengthsWanted = `, optionally followed by ",required" or ",preferred"`

// readWishes adds the pod's requirements for its CPUs, memory and devices to r. Berth's own
// annotations override annotations of other dialects. The error is a *FieldError.
func readWishes(pod *corev1.Pod, r *placement.Rules, said *Said) error {
	var own string // not used: only Berth has a key for this wish
	for _, wish := range []struct {
		key  string
		read func(string, *placement.Rules) string
		said *string
	}{
		{CPUsAnnotation, readCPUsWish, &said.cpus}, {ExclusiveAnnotation, readExclusiveWish, &said.exclusive}, {L3Annotation, readL3Wish, &own},
		{MemoryAnnotation, readMemoryWish, &own}, {NUMANodesAnnotation, readNUMANodesWish, &own}, {DevicesAnnotation, readDevicesWish, &said.devices}, {FunctionsAnnotation, readFunctionsWish, &said.functions},
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
	if _, err := ReadClaims(pod); err != nil {
		return err
	}
	if r.Shares != joint.Unset && (r.CPUs != joint.Rules{} || r.OwnCPUs) {
		return sharesBesideCPUs(pod)
	}
	if r.NUMANodes > 1 && r.Policy == placement.PolicySingleNUMANode {
		return fieldErrors(podName(pod)).at(annotation(NUMANodesAnnotation), pod.Annotations[NUMANodesAnnotation],
			"1 with the policy single-numa-node, or another policy")
	}
	return nil
}

// sharesBesideCPUs returns an error if some keys of the pod request CPU time and other keys request
// exclusive CPUs. The error names a key of each kind. sharesBesideCPUs checks the class and the
// annotations themselves, because the combined rules do not show which keys conflict.
func sharesBesideCPUs(pod *corev1.Pod) error {
	wrong := fieldErrors(podName(pod))
	label, class := field.NewPath("metadata", "labels").Key(koordinatorQoS), pod.Labels[koordinatorQoS]
	shares, own := class == "LS" || class == "BE", class == "LSE" || class == "LSR"
	cpus, said := pod.Annotations[CPUsAnnotation]
	switch {
	case shares && !said:
		return wrong.at(label, class,
			"LSE or LSR with annotations that ask for exclusive CPUs, or no such annotations: pods of this class get CPU time only")
	case shares && cpus != "shares":
		return wrong.at(label, class, "LSE or LSR with the annotation "+CPUsAnnotation+": "+cpus+
			", or shares there: pods of this class get CPU time only")
	case own:
		return wrong.at(annotation(CPUsAnnotation), cpus, "full-cores or spread with the label "+koordinatorQoS+": "+class+
			", or the class LS: shares are CPU time only")
	}
	return wrong.at(annotation(CPUsAnnotation), cpus,
		"full-cores or spread with annotations that ask for exclusive CPUs, or no such annotations: shares are CPU time only")
}

// strengthOf splits a value such as "core,preferred". Without a strength, s is Required. If the
// strength is unknown, s is Unset and word is the whole text.
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
		r.Shares = joint.Required
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

// maxNodesWanted is the largest number of NUMA nodes, or of devices on each NUMA node, that a pod
// can request.
const maxNodesWanted = topology.MaxNUMANodes

// readCount reads a number from 1 to maxNodesWanted without a sign or leading zeros.
func readCount(text string) (uint8, bool) {
	n, err := strconv.ParseUint(text, 10, 8)
	return uint8(n), err == nil && n > 0 && n <= maxNodesWanted && text == strconv.FormatUint(n, 10)
}

func readNUMANodesWish(text string, r *placement.Rules) (want string) {
	n, ok := readCount(text)
	if !ok {
		return fmt.Sprintf("a number of NUMA nodes, 1 to %d", maxNodesWanted)
	}
	r.NUMANodes = n
	return ""
}

func readDevicesWish(text string, r *placement.Rules) (want string) {
	if number, each := strings.CutPrefix(text, "perNUMANode="); each {
		if n, ok := readCount(number); ok {
			r.Devices.Same, r.Devices.SameHow, r.Devices.Joint, r.Devices.PerNode = joint.Anywhere, joint.Unset, 0, n
			return ""
		}
	}
	word, how := strengthOf(text)
	same, ok := togethers[word]
	if !ok || how == joint.Unset {
		return fmt.Sprintf("same-switch, same-root, one-switch or one-root%s; or perNUMANode=1 to perNUMANode=%d", strengthsWanted, maxNodesWanted)
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

// missing has, for each requirement, the kubelet setting that is needed to meet it. The field
// `never` means that no kubelet can meet the requirement.
var missing = map[placement.Wish]struct {
	key, lack string
	never     bool
}{
	placement.WishFullCores:     {CPUsAnnotation, "the option full-pcpus-only of a static CPU manager", false},
	placement.WishSpread:        {CPUsAnnotation, "the option distribute-cpus-across-cores of a static CPU manager", false},
	placement.WishShares:        {CPUsAnnotation, "the CPU manager policy none", false},
	placement.WishExclusiveCore: {ExclusiveAnnotation, "the option full-pcpus-only of a static CPU manager", false},
	placement.WishExclusiveNUMA: {ExclusiveAnnotation, "a way to keep a NUMA node for one pod", true},
	placement.WishL3:            {L3Annotation, "a way to guarantee level-3 caches", true},
	placement.WishPinnedMemory:  {MemoryAnnotation, "the memory manager Static", false},
	placement.WishDevices:       {DevicesAnnotation, "a way to choose devices by switch, root complex or function", true},
}

// unmetWish explains why a node where a kubelet decides cannot meet the requirement.
func unmetWish(w placement.Wish, r *placement.Rules) string {
	m := missing[w]
	if w == placement.WishDevices && r.Devices.SameHow != joint.Required {
		m.key = FunctionsAnnotation
	}
	text := "the kubelet lacks " + m.lack + ", which the pod's " + m.key + " requires"
	if m.never {
		text += ": the pod needs a node with authority berth"
	}
	return text
}

// unforetold explains why a kubelet might not use the number of NUMA nodes that the pod requires.
// It returns "" if the kubelet always uses the required number.
func unforetold(m *placement.Model, r *placement.Request) string {
	n := r.Rules.NUMANodes
	if n == 0 {
		return ""
	}
	f, width := m.Foretell(r)
	insists := fmt.Sprintf("and the pod's %s requires %d", NUMANodesAnnotation, n)
	switch f {
	case placement.Foretold:
		return ""
	case placement.OtherNumber:
		return fmt.Sprintf("the kubelet uses %s for this pod, %s: the pod needs another node, such as one with authority berth", Counted(width, "NUMA node"), insists)
	case placement.PolicyOpen:
		fixed := "policy restricted"
		if n == 1 {
			fixed += " or single-numa-node,"
		}
		return fmt.Sprintf("the kubelet's policy %s allows any number of NUMA nodes, %s: the pod needs a node with %s or with authority berth",
			m.Rules().Policy, insists, fixed)
	case placement.SocketsOpen:
		return "the kubelet's option align-by-socket allows more NUMA nodes than necessary, " + insists +
			": the pod needs a node without this option, or with authority berth"
	case placement.ScopeOpen:
		return fmt.Sprintf("the kubelet places each container separately, %s for all containers together: the pod needs a node with scope pod or with authority berth", insists)
	case placement.DistanceOpen:
		return fmt.Sprintf("the kubelet runs without the option prefer-closest-numa-nodes, %s NUMA nodes that are nearest to each other", insists)
	}
	return "the kubelet pins no CPUs for the pod, or for one of its containers with pinned memory or devices, so nothing fixes the number of NUMA nodes, " +
		insists + ": the pod needs a node with authority berth"
}

// devicesUnforetold explains why a kubelet might not give the pod the number of devices on each
// NUMA node that the pod requires. It returns "" if the kubelet's configuration guarantees the
// number.
func devicesUnforetold(m *placement.Model, r *placement.Request) string {
	n := r.Rules.Devices.PerNode
	if n == 0 {
		return ""
	}
	f, resource := m.ForetellDevices(r)
	insists := fmt.Sprintf("and the pod's %s requires %s of each resource on each of its NUMA nodes", DevicesAnnotation, Counted(int(n), "device"))
	switch f {
	case placement.Foretold:
		return ""
	case placement.OtherDevices:
		switch own := m.Rules(); {
		case own.Policy == placement.PolicySingleNUMANode:
			who := "the pod"
			if own.Scope == placement.ContainerScope {
				who = "a container"
			}
			return fmt.Sprintf("the kubelet takes all %s of %s from one NUMA node, %s: ask for exactly %d, or for a multiple of %d on a node with authority berth", resource, who, insists, n, n)
		case own.Policy != placement.PolicyRestricted:
			return fmt.Sprintf("the number of requested %s is not a multiple of %d, %s", resource, n, insists)
		case own.Scope == placement.ContainerScope:
			return fmt.Sprintf("the kubelet takes %s from as few NUMA nodes as it can, %s: each container must request a multiple of %d devices, the same number of each resource", resource, insists, n)
		}
		return fmt.Sprintf("the kubelet takes %s from as few NUMA nodes as it can, %s: the pod must request a multiple of %d devices, the same number of each resource", resource, insists, n)
	case placement.ClaimsOpen:
		return fmt.Sprintf("a ResourceClaim provides %s on this node, with devices from any NUMA nodes, %s: the pod needs a node with authority berth where Berth's own device plugin offers these devices", resource, insists)
	case placement.ScopeOpen:
		return fmt.Sprintf("the kubelet chooses NUMA nodes for each container separately, %s, counted over all containers: the pod needs a node with scope pod or with authority berth", insists)
	case placement.SocketsOpen:
		return "the kubelet's option align-by-socket allows CPUs and devices on different NUMA nodes of a socket, " + insists +
			": the pod needs a node without this option, or with authority berth"
	}
	return fmt.Sprintf("the kubelet's policy %s allows devices from any NUMA nodes, %s: the pod needs a node with policy restricted, with single-numa-node if it asks for exactly %d, or with authority berth",
		m.Rules().Policy, insists, n)
}
