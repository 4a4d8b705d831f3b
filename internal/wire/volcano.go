package wire

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/placement"
)

// VolcanoPolicyAnnotation names a topology manager policy. As in Volcano's numa-aware plugin, a
// kubelet must have exactly this policy and a static CPU manager, unless the value is "none". A
// node where Berth decides applies the policy itself. Volcano's controller sets the annotation on
// the pods of a task with a topologyPolicy; users may set it on other pods. It affects only
// Guaranteed pods with whole CPUs.
const VolcanoPolicyAnnotation = "volcano.sh/numa-topology-policy"

// readVolcanoRules reads VolcanoPolicyAnnotation. "none" and "" mean that the node's own policy
// applies, as without the annotation. If the pod has no exclusive CPUs, every valid value has this
// meaning. An invalid value is always an error. The error is a *FieldError.
func readVolcanoRules(pod *corev1.Pod, ownCPUs bool) (placement.Rules, error) {
	text, ok := pod.Annotations[VolcanoPolicyAnnotation]
	if !ok || text == "" {
		return placement.Rules{}, nil
	}
	policy, ok := placement.ParsePolicy(text)
	switch {
	case !ok:
		return placement.Rules{}, fieldErrors(podName(pod)).at(annotation(VolcanoPolicyAnnotation), text,
			"none, best-effort, restricted or single-numa-node")
	case policy == placement.PolicyNone || !ownCPUs:
		return placement.Rules{}, nil
	}
	return placement.Rules{Policy: policy, Match: placement.Exactly, OwnCPUs: true}, nil
}

// isVolcano reports whether the rules come from Volcano's annotation. Only this annotation requires
// exactly one policy.
func isVolcano(r placement.Rules) bool { return r.Match == placement.Exactly && r.OwnCPUs }

// The function both returns the rules of a pod that has Berth's own annotation and Volcano's
// annotation. The two annotations must name the same policy; Berth's annotation may add a scope.
func both(pod *corev1.Pod, own, volcano placement.Rules, err error) (placement.Rules, error) {
	if err != nil {
		return placement.Rules{}, err
	}
	if own.Policy != volcano.Policy {
		return placement.Rules{}, fieldErrors(podName(pod)).at(annotation(VolcanoPolicyAnnotation), volcano.Policy,
			own.Policy.String()+", as "+PolicyAnnotation+" says, or only one of the two annotations")
	}
	volcano.Scope = own.Scope
	return volcano, nil
}

// BestEffortAnywhere relaxes the rules of a pod with Volcano's policy best-effort. The pod may then
// use any node, and gets the fewest NUMA nodes that the node's own policy allows. Volcano's design
// and code require a node with the policy best-effort, but users may expect from the name that any
// node is allowed.
func BestEffortAnywhere(r placement.Rules) placement.Rules {
	if isVolcano(r) && r.Policy == placement.PolicyBestEffort {
		r.Match, r.OwnCPUs = placement.Whatever, false
	}
	return r
}
