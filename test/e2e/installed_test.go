package e2e

import (
	"testing"

	"github.com/berth-dev/berth/deploy"
	"github.com/berth-dev/berth/internal/controlplane"
)

// TestInstalled has one control plane, with all objects of an installation, for all tests that bind
// their pods themselves. They run in parallel, because they mostly wait for kubelets.
func TestInstalled(t *testing.T) {
	t.Parallel()
	cp := startControlPlane(t, controlplane.Options{})
	if err := cp.Apply(t.Context(), deploy.Manifests()...); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		run  func(*testing.T, *controlplane.ControlPlane)
	}{
		{"agent", testAgent},
		{"agent under churn", testAgentUnderChurn},
		{"agent sees a kubelet restart", testAgentSeesKubeletRestart},
		{"policies", testPolicies},
		{"flows", testFlows},
		{"hollow node", testHollowNode},
		{"memory and devices", testHollowNodeMemoryAndDevices},
		{"containers end", testHollowNodeContainersEnd},
		{"many images", testHollowNodePullsMany},
		{"a hollow node refuses to start", testHollowNodeRefusesToStart},
		{"a hollow node dies with its parent", testNodeDiesWithItsParent},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t, cp)
		})
	}
}
