package wire

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/placement"
)

// PolicyAnnotation asks for a policy of the pod's own: POLICY or POLICY,scope=SCOPE, in the words of the
// kubelet's topology manager ("single-numa-node,scope=pod"). A node with authority berth keeps it; on a node
// with authority kubelet the kubelet's own policy counts.
const PolicyAnnotation = "berth.dev/policy"

// PodPolicy is the content of the policy annotation.
type PodPolicy struct {
	// Policy is none, best-effort, restricted or single-numa-node.
	Policy string
	// Scope is container or pod; "" leaves it to the node.
	Scope string
}

// strictness is the Topology Manager's policies, each promising what those before it do.
var strictness = []string{"none", "best-effort", "restricted", "single-numa-node"}

// Unmet says why a node whose kubelet is configured so cannot keep the policy; "" when it can. Where the kubelet has the say its own
// policy counts: it must be the same or a stricter one, and the scope the same.
func (p *PodPolicy) Unmet(c *placement.Config) string {
	if p.Policy == "" {
		return ""
	}
	policy := cmp.Or(c.TopologyManagerPolicy, "none")
	scope := cmp.Or(c.TopologyManagerScope, "container")
	if slices.Index(strictness, policy) < slices.Index(strictness, p.Policy) || p.Scope != "" && p.Scope != scope {
		return fmt.Sprintf("its kubelet's policy is %s with scope %s, the pod's %s asks for %s", policy, scope, PolicyAnnotation, p)
	}
	return ""
}

// PolicyOf reads the policy annotation of a pod; found is false when there is none. Words that the kubelet
// does not know are refused, never taken for a default. The error is a *FieldError.
func PolicyOf(pod *corev1.Pod) (p PodPolicy, found bool, err error) {
	text, ok := pod.Annotations[PolicyAnnotation]
	if !ok {
		return PodPolicy{}, false, nil
	}
	p, want := parsePolicy(text)
	if want != "" {
		return PodPolicy{}, true, fieldErrors(podName(pod)).at(annotation(PolicyAnnotation), text, want)
	}
	return p, true, nil
}

// parsePolicy returns what would be right, or "".
func parsePolicy(text string) (p PodPolicy, want string) {
	policy, rest, more := strings.Cut(text, ",")
	switch policy {
	case "none", "best-effort", "restricted", "single-numa-node":
	default:
		return p, "none, best-effort, restricted or single-numa-node, then nothing or \",scope=container\" or \",scope=pod\""
	}
	p.Policy = policy
	if !more {
		return p, ""
	}
	scope, ok := strings.CutPrefix(rest, "scope=")
	if !ok || scope != "container" && scope != "pod" {
		return PodPolicy{}, "\"scope=container\" or \"scope=pod\" after the comma"
	}
	p.Scope = scope
	return p, ""
}

// String returns the annotation's value.
func (p PodPolicy) String() string {
	if p.Scope == "" {
		return p.Policy
	}
	return p.Policy + ",scope=" + p.Scope
}
