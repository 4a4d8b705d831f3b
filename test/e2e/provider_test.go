package e2e

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/internal/controlplane"
	"github.com/berth-dev/berth/internal/hollow"
	"github.com/berth-dev/berth/internal/wire"
)

const (
	licence          = "example.com/licence"
	licencesOfSocket = 3
)

// TestLicences runs the example's scheduler on a node where Berth decides and a node where the
// kubelet does. Licences and CPUs are on one socket. No socket gives more licences than it has,
// also after a failover. The licences of a pod that has left are given to the next.
func TestLicences(t *testing.T) {
	t.Parallel()
	c := newHollowClusterOn(t, 2, controlplane.Options{Dir: shortDir(t)}, func(s *hollow.Spec) {
		if s.Name == "h0" {
			obeyingNode(s)
		}
		s.StopTime = 100 * time.Millisecond
	})
	c.verb = licencesVerb
	c.restartScheduler(nil)
	for _, n := range c.nodes {
		_, err := c.Client.CoreV1().Nodes().Patch(t.Context(), n.spec.Name, types.MergePatchType,
			[]byte(`{"status":{"capacity":{"`+licence+`":"100"},"allocatable":{"`+licence+`":"100"}}}`), metav1.PatchOptions{}, "status")
		c.must(err)
	}
	start := func(name string, licences int) {
		t.Helper()
		p := ask(name, "1", true, wire.PolicyAnnotation+"=single-numa-node")
		p.Spec.Containers[0].Resources.Limits[licence] = resource.MustParse(fmt.Sprint(licences))
		c.create(p)
	}
	start("a", 2)
	start("b", 2)
	c.awaitRunning("a", "b")
	c.licencesKept()
	start("waits", 2)
	c.awaitUnschedulable("waits", licence, "1 ")
	start("c", 1)
	c.awaitRunning("c")
	c.licencesKept()

	c.restartScheduler(nil)
	start("d", 1)
	c.awaitRunning("d")
	c.licencesKept()
	c.awaitUnschedulable("waits", licence)

	c.delete("a", nil)
	c.awaitRunning("waits")
	c.licencesKept()
	c.awaitObeyed("in the end")
	c.clean()
}

// licencesKept fails if a socket has given more licences than it has, or licences to pods with CPUs
// of the other socket. On this machine every socket is a NUMA node.
func (c *hollowCluster) licencesKept() {
	c.Helper()
	list, err := c.Client.CoreV1().Pods("default").List(c.Context(), metav1.ListOptions{})
	c.must(err)
	given := map[string]uint64{}
	for i := range list.Items {
		pod := &list.Items[i]
		if pod.Spec.NodeName == "" {
			continue
		}
		p, found, err := wire.ReadPlacement(pod)
		c.must(err)
		if !found || pod.Spec.NodeName != "h0" || p.Certainty != wire.Exact || len(p.Decision.Containers[0].Provided) != 1 {
			c.Fatalf("%s on %s: %+v, want an exact decision with licences on h0", pod.Name, pod.Spec.NodeName, p)
		}
		main := &p.Decision.Containers[0]
		got := main.Provided[0]
		if got.Place != "socket "+main.Hint.NUMA.String() {
			c.Errorf("%s has licences of %s and CPUs of NUMA node %s", pod.Name, got.Place, main.Hint.NUMA)
		}
		if given[got.Place] += got.Amount; given[got.Place] > licencesOfSocket {
			c.Errorf("%s has given %d licences of %d", got.Place, given[got.Place], licencesOfSocket)
		}
	}
}
