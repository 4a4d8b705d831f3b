//go:build kube133

package gen

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/test/replay/cases"
)

// claim does nothing: in the API of 1.33, Dynamic Resource Allocation provides no extended
// resources.
func (p *podMaker) claim(*corev1.Pod) {}

// Unclaim does nothing for the same reason.
func Unclaim(*cases.Case) {}
