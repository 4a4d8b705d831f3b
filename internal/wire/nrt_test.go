package wire

import (
	"encoding/json"
	"testing"

	nrt "github.com/berth-dev/berth/api/nrt/v1alpha2"
)

// TestPodFingerprint compares with values from the tests of the podfingerprint library and of
// resource-topology-exporter.
func TestPodFingerprint(t *testing.T) {
	for _, tc := range []struct {
		want string
		pods []PodName
	}{
		{"pfp0v001b92008c14168b3a6", []PodName{{"ns3", "n2"}, {"ns1", "n1"}, {"ns1", "n2"}, {"ns2", "n1"}, {"ns3", "n1"}}},
		{"pfp0v001fe53c4dbd2c5f4a0", []PodName{{"default", "test-pod-0"}}},
	} {
		if got := PodFingerprint(tc.pods); got != tc.want {
			t.Errorf("%v: %s, want %s", tc.pods, got, tc.want)
		}
	}
}

func TestNodeResourceTopology(t *testing.T) {
	n := sampleNode(t)
	got := WriteNodeResourceTopology(&n, []PodName{{"default", "test-pod-0"}})
	data, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	// Even CPUs are on NUMA node 0: 0 and 8 are reserved, 2 and 4 exclusive. Device a is allocated,
	// b unhealthy, e free.
	const want = `{"kind":"NodeResourceTopology","apiVersion":"topology.node.k8s.io/v1alpha2","metadata":{"name":"n1"},` +
		`"topologyPolicies":["RestrictedPodLevel"],"zones":[` +
		`{"name":"node-0","type":"Node","costs":[{"name":"node-0","value":10},{"name":"node-1","value":21}],"resources":[` +
		`{"name":"cpu","capacity":"8","allocatable":"6","available":"4"},` +
		`{"name":"memory","capacity":"8589934592","allocatable":"7516192768","available":"6442450944"},` +
		`{"name":"nvidia.com/gpu","capacity":"2","allocatable":"2","available":"1"}]},` +
		`{"name":"node-1","type":"Node","costs":[{"name":"node-0","value":21},{"name":"node-1","value":10}],"resources":[` +
		`{"name":"cpu","capacity":"8","allocatable":"8","available":"7"},` +
		`{"name":"memory","capacity":"8589930496","allocatable":"8589934592","available":"8589934592"},` +
		`{"name":"nvidia.com/gpu","capacity":"1","allocatable":"0","available":"0"}]}],` +
		`"attributes":[{"name":"topologyManagerPolicy","value":"restricted"},{"name":"topologyManagerScope","value":"pod"},` +
		`{"name":"nodeTopologyPodsFingerprint","value":"pfp0v001fe53c4dbd2c5f4a0"}]}`
	if string(data) != want {
		t.Errorf("got\n%s\nwant\n%s", data, want)
	}
	var back nrt.NodeResourceTopology
	if err := json.Unmarshal(data, &back); err != nil || len(back.Zones) != 2 {
		t.Errorf("reads back with error %v", err)
	}
}

// TestUnpinnedNodeResourceTopology: resources that no manager pins are left out, as by the
// exporters.
func TestUnpinnedNodeResourceTopology(t *testing.T) {
	n := sampleNode(t)
	n.Spec.Config.CPUManagerPolicy, n.Spec.Config.TopologyManagerPolicy, n.Spec.Config.TopologyManagerScope = "", "", ""
	n.Report = Report{}
	got := WriteNodeResourceTopology(&n, nil)
	if len(got.Zones[0].Resources) != 0 || got.TopologyPolicies[0] != "None" || got.Attributes[0].Value != "none" {
		t.Errorf("got %+v", got)
	}
}
