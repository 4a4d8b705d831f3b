package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/controlplane"
	"github.com/berth-dev/berth/internal/hollow"
	"github.com/berth-dev/berth/internal/scheduler"
	"github.com/berth-dev/berth/internal/wire"
)

// fourSockets has 3, 4, 4 and 3 CPUs for pods, with the reservations of restrictedNUMA.
const (
	fourSockets    = "package:4 numa:1 core:4 pu:1 mem:16Gi"
	restrictedNUMA = `
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
topologyManagerPolicy: restricted
reservedSystemCPUs: "0,13"
`
)

// twin is a label of the three nodes with two sockets each. Their NUMA nodes have 6 and 8 CPUs for
// pods.
const twin = "e2e.test/twin"

// TestScheduler runs cases on three equal nodes and one that differs, one after the other.
func TestScheduler(t *testing.T) {
	t.Parallel()
	c := newHollowClusterOn(t, 4, controlplane.Options{Server: otherServer, Dir: shortDir(t)}, func(s *hollow.Spec) {
		if s.Name == "h3" {
			s.Machine, s.KubeletConfig = fourSockets, restrictedNUMA
			return
		}
		s.Labels = map[string]string{twin: "true"}
	})
	for _, test := range []struct {
		name string
		run  func(*hollowCluster)
	}{
		{"evicts for a NUMA node", evictsForANUMANode},
		{"evicts slowly", evictsSlowly},
		{"evicts one where all do not help", evictsOne},
		{"leaves equals to others", leavesEqualsToOthers},
		{"refuses what it cannot predict", refusesWhatItCannotPredict},
		{"tells about each kind of node", tellsAboutEachKindOfNode},
	} {
		if !c.scene(test.name, func() { test.run(c) }) {
			return
		}
	}
}

// lasting creates a pod whose containers take their time to stop, and waits until it runs on the
// node.
func (c *hollowCluster) lasting(name, node, cpus string) {
	c.Helper()
	p := onNode(pinnedPod(name, "", cpus), node)
	p.Spec.TerminationGracePeriodSeconds = new(int64(30))
	c.create(p)
	c.awaitRunning(name)
}

// evictsForANUMANode: an important pod evicts exactly the two pods of one NUMA node, even while the
// kubelet still holds the first victim's CPUs. A pod that never fits evicts none.
func evictsForANUMANode(c *hollowCluster) {
	for i, cpus := range []string{"3", "3", "4", "4"} { // the first two share NUMA node 0
		c.lasting(fmt.Sprint("low", i), "h0", cpus)
	}
	c.createUrgent(onNode(pinnedPod("high", "", "6"), "h0"))
	c.awaitRunning("high")
	c.await("two victims", func(pods []corev1.Pod) bool {
		var low [4]bool
		for i := range low {
			low[i] = alive(pods, fmt.Sprint("low", i))
		}
		return low[0] == low[1] && low[2] == low[3] && low[0] != low[2]
	})
	c.createUrgent(onNode(pinnedPod("toobig", "", "9"), "h0"))
	c.awaitUnschedulable("toobig", "9 CPUs need 2 NUMA nodes, and single-numa-node allows 1")
	c.await("nobody evicted in vain", func(pods []corev1.Pod) bool {
		return len(pods) == 4 && !slices.ContainsFunc(pods, func(p corev1.Pod) bool { return p.Name != "toobig" && !alive(pods, p.Name) })
	})
}

// evictsSlowly: victims leave one after the other, with reports in between.
func evictsSlowly(c *hollowCluster) {
	rng := rand.New(rand.NewPCG(11, 12))
	c.wire.set(func(r *http.Request) fault {
		if r.Method != http.MethodDelete && r.Method != http.MethodPatch {
			return noFault
		}
		return []fault{noFault, lateAnswer, lateRequest, lateRequest}[rng.IntN(4)]
	})
	defer c.soundWire()
	evictsForANUMANode(c)
	if c.wire.count(lateRequest) == 0 {
		c.Error("nothing was late")
	}
}

// evictsOne: all CPUs are taken. On the empty machine the important pod's init container would get
// a CPU of NUMA node 0, and its main container would find no room there. So exactly one of the two
// pods with 4 CPUs must be evicted.
func evictsOne(c *hollowCluster) {
	for i, cpus := range []string{"4", "4", "3", "3"} {
		c.lasting(fmt.Sprint("f", i), "h3", cpus)
	}
	reuse := onNode(pinnedPod("reuse", "", "4"), "h3")
	reuse.Spec.InitContainers = pinnedPod("", "", "1").Spec.Containers
	reuse.Spec.InitContainers[0].Name, reuse.Spec.InitContainers[0].Image = "init", hollow.ExitImage(0)
	c.createUrgent(reuse)
	c.await("the pod to run in place of one other", func(pods []corev1.Pod) bool {
		return alive(pods, "reuse") && alive(pods, "f0") != alive(pods, "f1") && alive(pods, "f2") && alive(pods, "f3")
	})
}

// leavesEqualsToOthers: among nodes that Berth ranks equally, the pod's preferred affinity and
// spreading decide, also against Berth's preference for nodes in use.
func leavesEqualsToOthers(c *hollowCluster) {
	c.create(onNode(pinnedPod("first", "", "2"), "h0"))
	c.awaitRunning("first")
	drawn := onTwins(pinnedPod("drawn", "", "2"))
	drawn.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
		Weight: 100, Preference: corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"h2"}}}}}}}}
	c.create(drawn)
	c.awaitRunning("drawn")
	on := map[string]bool{}
	for i := range 3 {
		spread := onTwins(pinnedPod(fmt.Sprint("spread", i), "", "1"))
		spread.Labels = map[string]string{"app": "spread"}
		spread.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: corev1.LabelHostname,
			WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: &metav1.LabelSelector{MatchLabels: spread.Labels}}}
		c.create(spread)
		c.awaitRunning(spread.Name)
		on[c.nodeOf(spread.Name)] = true
	}
	if at := c.nodeOf("drawn"); at != "h2" || len(on) != 3 {
		c.Errorf("drawn is on %s, want h2; the spread ones are on %v, want all three", at, on)
	}
}

// onTwins restricts a pod to the three equal nodes.
func onTwins(p *corev1.Pod) *corev1.Pod {
	p.Spec.NodeSelector = map[string]string{twin: "true"}
	return p
}

// refusesWhatItCannotPredict: a policy that nobody knows keeps pinned pods off the node until the
// agent corrects the report.
func refusesWhatItCannotPredict(c *hollowCluster) {
	c.nodes[0].stopAgent()
	reports, err := dynamic.NewForConfig(c.ControlPlane.RESTConfig())
	c.must(err)
	patch := []byte(`{"spec": {"topologyManager": {"policy": "restrictd"}}}`)
	_, err = reports.Resource(v1alpha1.NodeTopologies).Patch(c.Context(), "h0", types.MergePatchType, patch, metav1.PatchOptions{})
	c.must(err)
	c.await("an event on the NodeTopology", func([]corev1.Pod) bool {
		return c.hasEvent(func(e *eventsv1.Event) bool {
			return e.Regarding.Kind == "NodeTopology" && strings.Contains(e.Note, "restrictd")
		})
	})
	c.create(onNode(pinnedPod("pinned", "", "2"), "h0"))
	c.awaitUnschedulable("pinned", "restrictd")
	ordinary := onNode(pinnedPod("ordinary", "", "1"), "h0")
	ordinary.Spec.Containers[0].Resources = corev1.ResourceRequirements{}
	c.create(ordinary)
	c.awaitRunning("ordinary")
	c.nodes[0].startAgent()
	c.awaitRunning("pinned")
}

// maxEventNote is the maximum length of an event's note
// (k8s.io/kubernetes/pkg/apis/core/validation, NoteLengthLimit).
const maxEventNote = 1024

// tellsAboutEachKindOfNode checks the event of a pod that fits nowhere. On one line, it has the
// refusing nodes with reasons and amounts, and the unreliable nodes with the time since their last
// heartbeat. When the silent agent is back, the pod runs.
func tellsAboutEachKindOfNode(c *hollowCluster) {
	for _, node := range []string{"h0", "h1"} {
		c.lasting("four-"+node, node, "4") // 2 CPUs of NUMA node 0 are left
		c.lasting("five-"+node, node, "5") // 3 CPUs of NUMA node 1 are left
	}
	c.createBareNode("bare")
	c.nodes[2].stopAgent()
	c.restartScheduler(&scheduler.Args{StaleAfter: metav1.Duration{Duration: 15 * time.Second}}) // agents send a heartbeat every 10 s
	defer c.restartScheduler(nil)
	probes := 0
	c.await("h2 to be refused for its silence", func(pods []corev1.Pod) bool {
		if probes++; probes%20 == 1 {
			c.create(onNode(pinnedPod(fmt.Sprint("probe", probes), "", "9"), "h2")) // no NUMA node has that many CPUs
		}
		return slices.ContainsFunc(pods, func(p corev1.Pod) bool { return strings.Contains(wire.Unscheduled(&p).Message, "no sign of life") })
	})
	c.create(onTwins(pinnedPod("asking", "", "4")))
	// On a busy machine a node with late heartbeats may count as silent for a moment.
	c.awaitUnschedulable("asking", "2 nodes: NUMA 0 has 2 free CPUs (4 needed), NUMA 1 has 3", "1 no NodeTopology: is berth-agent running there?", "1 node: last sign of life ")
	text := wire.Unscheduled(c.pod("asking")).Message
	if strings.Contains(text, "\n") || len(text) > maxEventNote {
		c.Errorf("%d bytes, or more than a line:\n%s", len(text), text)
	}
	for name, reason := range map[string]string{"four-h0": "Scheduled", "asking": "FailedScheduling"} {
		pod := c.pod(name)
		c.await("an event "+reason+" of "+name, func([]corev1.Pod) bool {
			return c.hasEvent(func(e *eventsv1.Event) bool {
				return e.Regarding.UID == pod.UID && e.Reason == reason && e.ReportingController == pod.Spec.SchedulerName
			})
		})
	}
	c.nodes[2].startAgent()
	c.awaitRunning("asking")
	c.must(c.Client.CoreV1().Nodes().Delete(c.Context(), "bare", metav1.DeleteOptions{}))
}

// createBareNode creates a Node without a kubelet and without an agent.
func (c *hollowCluster) createBareNode(name string) {
	c.Helper()
	amounts := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("16"), corev1.ResourceMemory: resource.MustParse("32Gi"), corev1.ResourcePods: resource.MustParse("500")}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name, twin: "true"}}}
	created, err := c.Client.CoreV1().Nodes().Create(c.Context(), node, metav1.CreateOptions{})
	c.must(err)
	created.Status = corev1.NodeStatus{Capacity: amounts, Allocatable: amounts, Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}
	_, err = c.Client.CoreV1().Nodes().UpdateStatus(c.Context(), created, metav1.UpdateOptions{})
	c.must(err)
}

// hasEvent reports whether is returns true for an event.
func (c *hollowCluster) hasEvent(is func(*eventsv1.Event) bool) bool {
	events, err := c.Client.EventsV1().Events("").List(c.Context(), metav1.ListOptions{})
	return err == nil && slices.ContainsFunc(events.Items, func(e eventsv1.Event) bool { return is(&e) })
}

// alive reports whether the pod runs and is not terminating.
func alive(pods []corev1.Pod, name string) bool {
	return slices.ContainsFunc(pods, func(p corev1.Pod) bool {
		return p.Name == name && p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil
	})
}
