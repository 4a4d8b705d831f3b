package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/agent"
	"github.com/berth-dev/berth/internal/controlplane"
	"github.com/berth-dev/berth/internal/hollow"
	"github.com/berth-dev/berth/internal/survey"
	"github.com/berth-dev/berth/internal/survey/source"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/topology"
)

// TestKoordletCarriesOut: Berth decides on the node, and koordlet carries out the decisions. A
// decision is in resource-status and requires no plugin. No CPU is given twice, also after a
// failover, and the CPUs of a pod that has left are given to the next.
func TestKoordletCarriesOut(t *testing.T) {
	t.Parallel()
	c := newHollowClusterOn(t, 1, controlplane.Options{Dir: shortDir(t)}, func(s *hollow.Spec) {
		s.KubeletConfig, s.StopTime = obeyingConfig, 100*time.Millisecond
	})
	n := c.nodes[0]
	c.sched.Kill() // so that no pod is placed by the first agent's report
	n.stopAgent()
	n.koordlet = true
	n.startAgent()
	n.awaitTrouble("no pod on this node runs it")
	c.startScheduler(nil)
	start := func(cpus string, names ...string) {
		t.Helper()
		for _, name := range names {
			c.create(ask(name, cpus, true))
		}
	}
	start("2", "a")
	c.awaitUnschedulable("a", "no pod on this node runs it")
	image := ask("image", "100m", false) // the image's name does not identify koordlet
	image.Spec.NodeName, image.Spec.Containers[0].Image = n.spec.Name, "example.com/koordinator/koordlet:v1.6"
	c.create(image)
	c.awaitRunning("image")
	c.awaitUnschedulable("a", "no pod on this node runs it")
	c.delete("image", nil)
	c.createKoordlet(n.spec.Name)
	start("2", "b")
	start("4", "c")
	c.awaitRunning("a", "b", "c")
	c.entrustedKept(8)

	c.restartScheduler(nil)
	start("4", "d")
	start("1", "e")
	c.awaitRunning("d", "e")
	c.entrustedKept(13)
	start("2", "waits") // one of the 14 CPUs is left, and koordlet's own pod asks for a part of that CPU
	c.awaitUnschedulable("waits", "Insufficient cpu")
	c.delete("a", nil)
	c.awaitRunning("waits")
	c.entrustedKept(13)
}

// awaitTrouble waits until the node's report has these words about why the node is not used.
func (n *hollowNode) awaitTrouble(words string) {
	n.c.Helper()
	cluster, err := survey.Connect(source.Options{
		Config: n.c.ControlPlane.RESTConfig(), Heartbeats: v1alpha1.HeartbeatNamespace, StaleAfter: time.Minute, Where: n.c.ControlPlane.Addr(),
	})
	n.c.must(err)
	n.c.await(n.spec.Name+" to be refused: "+words, func([]corev1.Pod) bool {
		found, err := cluster.Survey(n.c.Context(), n.spec.Name)
		n.c.must(err)
		for _, at := range found.Nodes() {
			if at.Trouble != nil && strings.Contains(at.Trouble.Message, words) {
				return true
			}
		}
		return false
	})
}

// createKoordlet starts a pod on the node that is recognised as koordlet.
func (c *hollowCluster) createKoordlet(node string) {
	c.Helper()
	r := agent.DefaultRivals()[0]
	_, err := c.Client.CoreV1().Namespaces().Create(c.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: r.Namespace}}, metav1.CreateOptions{})
	c.must(err)
	pod := ask("koordlet", "100m", false)
	pod.Spec.NodeName, pod.Spec.ServiceAccountName = node, r.ServiceAccount
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: r.DaemonSet, UID: "daemonset", Controller: new(true)}}
	_, err = c.Client.CoreV1().Pods(r.Namespace).Create(c.Context(), pod, metav1.CreateOptions{})
	c.must(err)
}

// entrustedKept fails unless the running pods have want CPUs in sum, and no CPU twice.
func (c *hollowCluster) entrustedKept(want int) {
	c.Helper()
	list, err := c.Client.CoreV1().Pods("default").List(c.Context(), metav1.ListOptions{})
	c.must(err)
	var taken topology.CPUSet
	for i := range list.Items {
		pod := &list.Items[i]
		p, found, err := wire.ReadPlacement(pod)
		c.must(err)
		if !found || pod.Status.Phase != corev1.PodRunning {
			continue
		}
		cpus := p.Decision.Containers[0].CPUs
		if status := pod.Annotations[wire.KoordinatorStatusAnnotation]; !strings.HasPrefix(status, `{"cpuset":"`+cpus.String()+`"`) {
			c.Errorf("%s: resource-status %s, decided were %s", pod.Name, status, cpus)
		}
		demands := strings.Contains(fmt.Sprint(pod.Annotations), wire.RequiredPlugins)
		if demands || p.Guarantee != wire.GuaranteeAmounts || cpus.Intersects(&taken) {
			c.Errorf("%s: demands a plugin %t, guarantee %s, CPUs %s of which %s are another's", pod.Name, demands, p.Guarantee, cpus, cpus.And(&taken))
		}
		taken = taken.Or(&cpus)
	}
	if taken.Len() != want {
		c.Errorf("%s are held, want %d CPUs", taken, want)
	}
}
