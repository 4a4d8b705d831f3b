package wire

import (
	"testing"

	"github.com/berth-dev/berth/internal/amounts"
)

// TestAmountsOfResizedPods: during a resize, the larger of the old and the new amount counts, for a
// container and for a whole pod. kube-scheduler does the same.
func TestAmountsOfResizedPods(t *testing.T) {
	for name, test := range map[string]struct {
		pod   string
		milli int64
	}{
		"container": {`{spec: {containers: [{name: c, resources: {requests: {cpu: 2}}}]},
			status: {containerStatuses: [{name: c, resources: {requests: {cpu: 6}}, allocatedResources: {cpu: 6}}]}}`, 6000},
		"whole pod": {`{spec: {resources: {requests: {cpu: 2}}, containers: [{name: c}]},
			status: {resources: {requests: {cpu: 6}}, allocatedResources: {cpu: 6}}}`, 6000},
		"whole pod, by limits": {`{spec: {resources: {limits: {cpu: 2}}, containers: [{name: c}]},
			status: {resources: {requests: {cpu: 6}}, allocatedResources: {cpu: 4}}}`, 6000},
		"whole pod that grows": {`{spec: {resources: {requests: {cpu: 8}}, containers: [{name: c}]},
			status: {resources: {requests: {cpu: 6}}, allocatedResources: {cpu: 6}}}`, 8000},
		"resize that cannot be": {`{spec: {resources: {requests: {cpu: 900}}, containers: [{name: c}]}, status: {resources: {requests: {cpu: 6}},
			allocatedResources: {cpu: 6}, conditions: [{type: PodResizePending, status: "True", reason: Infeasible}]}}`, 6000},
	} {
		if got := ReadAmounts(podOf(t, test.pod))[amounts.CPU]; got != test.milli {
			t.Errorf("%s: %dm, want %dm", name, got, test.milli)
		}
	}
}
