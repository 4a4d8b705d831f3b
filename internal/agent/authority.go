package agent

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/placement"
)

// AuthorityLabel on a Node sets its authority, if the agent is configured to use labels.
const AuthorityLabel = "berth.dev/authority"

// ByLabel as Options.Authority means that the node's AuthorityLabel sets the authority. Without the
// label the kubelet decides.
const ByLabel v1alpha1.Authority = "label"

// EnforcerLabel on a Node sets its enforcer, if the agent is configured to use labels.
const EnforcerLabel = "berth.dev/enforcer"

// EnforcerByLabel as Options.Enforcer means that the node's EnforcerLabel sets the enforcer.
// Without the label the agent carries out decisions.
const EnforcerByLabel v1alpha1.Enforcer = "label"

func authorityOf(flag v1alpha1.Authority, node *corev1.Node) (v1alpha1.Authority, error) {
	return chosen(flag, ByLabel, AuthorityLabel, node, v1alpha1.AuthorityKubelet, v1alpha1.AuthorityBerth)
}

func enforcerOf(flag v1alpha1.Enforcer, node *corev1.Node) (v1alpha1.Enforcer, error) {
	return chosen(flag, EnforcerByLabel, EnforcerLabel, node, v1alpha1.EnforcerAgent, v1alpha1.EnforcerKoordlet)
}

// chosen returns the value of the flag, or of the node's label if the flag is byLabel. If the flag
// or the label is not set, the result is the default in the argument usual. The error means that
// the Node is not known, or that its label has an invalid value.
func chosen[T ~string](flag, byLabel T, label string, node *corev1.Node, usual, other T) (T, error) {
	if flag != byLabel {
		return cmp.Or(flag, usual), nil
	}
	if node == nil {
		return usual, errNoNode
	}
	switch says := T(node.Labels[label]); says {
	case "", usual:
		return usual, nil
	case other:
		return other, nil
	default:
		return usual, &placement.ConfigError{
			Field: "Node " + node.Name + ": metadata.labels[" + label + "]", Value: string(says), Want: string(usual) + " or " + string(other),
		}
	}
}
