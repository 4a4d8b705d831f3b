package agent

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/placement"
)

// AuthorityLabel on a Node says who decides there, where the agent is told to go by it.
const AuthorityLabel = "berth.dev/authority"

// ByLabel as Options.Authority goes by the node's label AuthorityLabel; a node without it is the
// kubelet's.
const ByLabel v1alpha1.Authority = "label"

// EnforcerLabel on a Node says who carries decisions out there, where the agent is told to go by
// it.
const EnforcerLabel = "berth.dev/enforcer"

// EnforcerByLabel as Options.Enforcer goes by the node's label EnforcerLabel; on a node without it
// the agent carries decisions out.
const EnforcerByLabel v1alpha1.Enforcer = "label"

// authorityOf says who decides on a node, by the flag or by the node's label.
func authorityOf(flag v1alpha1.Authority, node *corev1.Node) (v1alpha1.Authority, error) {
	if flag != ByLabel {
		return cmp.Or(flag, v1alpha1.AuthorityKubelet), nil
	}
	if node == nil {
		return v1alpha1.AuthorityKubelet, errNoNode
	}
	switch a := v1alpha1.Authority(node.Labels[AuthorityLabel]); a {
	case "":
		return v1alpha1.AuthorityKubelet, nil
	case v1alpha1.AuthorityKubelet, v1alpha1.AuthorityBerth:
		return a, nil
	default:
		return v1alpha1.AuthorityKubelet, &placement.ConfigError{
			Field: "Node " + node.Name + ": metadata.labels[" + AuthorityLabel + "]", Value: string(a), Want: "kubelet or berth",
		}
	}
}

// enforcerOf says who carries decisions out on a node, by the flag or by the node's label.
func enforcerOf(flag v1alpha1.Enforcer, node *corev1.Node) (v1alpha1.Enforcer, error) {
	if flag != EnforcerByLabel {
		return cmp.Or(flag, v1alpha1.EnforcerAgent), nil
	}
	if node == nil {
		return v1alpha1.EnforcerAgent, errNoNode
	}
	switch e := v1alpha1.Enforcer(node.Labels[EnforcerLabel]); e {
	case "":
		return v1alpha1.EnforcerAgent, nil
	case v1alpha1.EnforcerAgent, v1alpha1.EnforcerKoordlet:
		return e, nil
	default:
		return v1alpha1.EnforcerAgent, &placement.ConfigError{
			Field: "Node " + node.Name + ": metadata.labels[" + EnforcerLabel + "]", Value: string(e), Want: "agent or koordlet",
		}
	}
}
