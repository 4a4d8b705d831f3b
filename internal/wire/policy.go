package wire

import (
	"cmp"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/placement/joint"
)

// Unmet explains why a node cannot meet the rules of a pod, or returns "". The text has Berth's own
// keys; Said.In replaces them with the pod's keys.
func Unmet(m *placement.Model, asked *placement.Request) string {
	r := asked.Rules
	if !m.Decides() { // the kubelet pins nothing that these rules could restrict; CPUsShared warns
		if !asked.AsksExclusiveCPUs() && !asked.PodLevel {
			r.CPUs, r.Shares = joint.Rules{}, 0
			if asked.Rules.CountsNUMANodes() { // no kubelet can meet such a rule for this pod
				r.CPUs.Exclusive, r.CPUs.ExclusiveHow = asked.Rules.CPUs.Exclusive, asked.Rules.CPUs.ExclusiveHow
			}
		}
		r.PinMemory = r.PinMemory && asked.Guaranteed
	}
	if m.Keeps(r) {
		return cmp.Or(unforetold(m, asked), devicesUnforetold(m, asked))
	}
	if w := m.Misses(r); w != placement.NoWish {
		if m.Decides() && w == placement.WishPinnedMemory {
			return "koordlet carries out the decisions on the node and does not move memory, but the pod's " + MemoryAnnotation + " requires memory on its NUMA nodes"
		}
		if m.Decides() {
			return fmt.Sprintf("the node's CPU binding is %s, but the pod's %s requires %s", bindWords[m.Rules().CPUs.Bind], CPUsAnnotation, bindWords[r.CPUs.Bind])
		}
		return unmetWish(w, &r)
	}
	own, asks := m.Rules(), "the pod's "+PolicyAnnotation+" asks for "
	if r.Match == placement.Exactly {
		asks += "exactly "
	}
	if r.OwnCPUs && !own.OwnCPUs {
		return "the kubelet's CPU manager is not static, and " + asks + writePolicy(r) + " with CPUs of its own"
	}
	return fmt.Sprintf("the kubelet's policy is %s with scope %s, and %s%s", own.Policy, own.Scope, asks, writePolicy(r))
}

// ReadRules reads the placement rules of a pod: the policy annotations of every dialect, and the
// requirements for CPUs, memory and devices, as ReadPod does. Unknown values are errors; no default
// replaces them. The error is a *FieldError.
func ReadRules(pod *corev1.Pod) (placement.Rules, error) {
	asked, err := readRequest(pod)
	r, _, wrong := readRules(pod, err == nil && asked.AsksExclusiveCPUs())
	return r, wrong
}

// readRules returns the rules and the keys that the pod uses for them. ownCPUs means that a kubelet
// with the static policy gives exclusive CPUs to a pod with these amounts.
func readRules(pod *corev1.Pod, ownCPUs bool) (placement.Rules, Said, error) {
	var said Said
	r, err := readPolicies(pod, ownCPUs, &said)
	if err == nil {
		r, err = withKoordinator(pod, r, &said)
	}
	if err == nil {
		err = readWishes(pod, &r, &said)
	}
	if err == nil {
		err = checkUnits(pod)
	}
	if err != nil {
		return placement.Rules{}, Said{}, err
	}
	return r, said, nil
}

func readPolicies(pod *corev1.Pod, ownCPUs bool, said *Said) (placement.Rules, error) {
	text, asks := pod.Annotations[PolicyAnnotation]
	if !asks {
		r, err := readVolcanoRules(pod, ownCPUs)
		if r != (placement.Rules{}) {
			said.policy = VolcanoPolicyAnnotation
		}
		return r, err
	}
	r, want := parsePolicy(text)
	if want != "" {
		return placement.Rules{}, fieldErrors(podName(pod)).at(annotation(PolicyAnnotation), text, want)
	}
	if other, err := readVolcanoRules(pod, ownCPUs); err != nil || other != (placement.Rules{}) {
		return both(pod, r, other, err)
	}
	return r, nil
}

// parsePolicy returns the expected form in want if the text is invalid. Otherwise want is "".
func parsePolicy(text string) (r placement.Rules, want string) {
	policy, rest, more := strings.Cut(text, ",")
	var ok bool
	if r.Policy, ok = placement.ParsePolicy(policy); !ok {
		return placement.Rules{}, `none, best-effort, restricted or single-numa-node, optionally followed by ",scope=container" or ",scope=pod"`
	}
	if !more {
		return r, ""
	}
	scope, named := strings.CutPrefix(rest, "scope=")
	if r.Scope, ok = placement.ParseScope(scope); !named || !ok {
		return placement.Rules{}, `"scope=container" or "scope=pod" after the comma`
	}
	return r, ""
}

func writePolicy(r placement.Rules) string {
	if r.Scope == placement.NodeScope {
		return r.Policy.String()
	}
	return r.Policy.String() + ",scope=" + r.Scope.String()
}
