package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	sigs "github.com/berth-dev/berth/api/scheduling/sigs/v1alpha1"
	volcano "github.com/berth-dev/berth/api/scheduling/volcano/v1beta1"
	"github.com/berth-dev/berth/internal/hollow"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/test/podgroup"
)

// gangSpec is a gang that a test creates.
type gangSpec struct {
	name    string
	source  wire.GangSource
	minimum int
	// cpus has the CPUs of each member. A negative value adds an init container that asks for more.
	cpus    []int
	timeout int // seconds; 0 for none
	urgent  bool
}

const gangLabel = "test-gang"

// pod returns a member.
func (g *gangSpec) pod(i int) *corev1.Pod {
	cpus := g.cpus[i]
	p := pinnedPod(fmt.Sprintf("%s-%d", g.name, i), "", strconv.Itoa(max(cpus, -cpus)))
	if cpus < 0 {
		first := *p.Spec.Containers[0].DeepCopy()
		first.Name, first.Image = "init", hollow.ExitImage(0)
		p.Spec.InitContainers = []corev1.Container{first}
	}
	p.Namespace, p.Labels, p.Annotations = "default", map[string]string{gangLabel: g.name}, map[string]string{}
	if g.urgent {
		p.Spec.PriorityClassName = "urgent"
	}
	switch g.source {
	case wire.GangOfPods:
		p.Annotations[wire.GangAnnotation] = g.name
		p.Annotations[wire.GangMinimumAnnotation] = strconv.Itoa(g.minimum)
	case wire.GangOfVolcano:
		p.Annotations[volcano.GroupNameAnnotation] = g.name
	case wire.GangOfSigs:
		p.Labels[sigs.PodGroupLabel] = g.name
	}
	return p
}

// resource returns the resource of the gang's object; false if it has none.
func (g *gangSpec) resource() (schema.GroupVersionResource, bool) {
	switch g.source {
	case wire.GangOfVolcano:
		return volcano.PodGroups, true
	case wire.GangOfSigs:
		return sigs.PodGroups, true
	default:
		return schema.GroupVersionResource{}, false
	}
}

// object returns the gang's object, if it has one.
func (g *gangSpec) object(v schema.GroupVersion) *unstructured.Unstructured {
	spec := map[string]any{"minMember": int64(g.minimum)}
	if g.timeout > 0 && g.source == wire.GangOfSigs {
		spec["scheduleTimeoutSeconds"] = int64(g.timeout)
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v.String(), "kind": "PodGroup", "metadata": map[string]any{"name": g.name, "namespace": "default"}, "spec": spec,
	}}
}

// gangCluster is a hollow cluster with the kinds of groups.
type gangCluster struct {
	*hollowCluster
	groups dynamic.Interface
}

func newGangCluster(t *testing.T, nodes int) *gangCluster {
	t.Helper()
	c := newHollowCluster(t, nodes)
	c.must(c.ControlPlane.Apply(t.Context(), podgroup.Manifests()...))
	groups, err := dynamic.NewForConfig(c.ControlPlane.RESTConfig())
	c.must(err)
	return &gangCluster{c, groups}
}

// makeGang creates the gang's object and its members.
func (c *gangCluster) makeGang(ctx context.Context, g *gangSpec) error {
	if r, ok := g.resource(); ok {
		if _, err := c.groups.Resource(r).Namespace("default").Create(ctx, g.object(r.GroupVersion()), metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	for i := range g.cpus {
		if _, err := c.Client.CoreV1().Pods("default").Create(ctx, g.pod(i), metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// endGang deletes what makeGang created.
func (c *gangCluster) endGang(ctx context.Context, g *gangSpec) error {
	err := c.Client.CoreV1().Pods("default").DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: gangLabel + "=" + g.name})
	if r, ok := g.resource(); ok && err == nil {
		err = c.groups.Resource(r).Namespace("default").Delete(ctx, g.name, metav1.DeleteOptions{})
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// boundOf counts the members of a gang that have nodes.
func boundOf(pods []corev1.Pod, gang string) (bound int) {
	for i := range pods {
		if pods[i].Labels[gangLabel] == gang && pods[i].Spec.NodeName != "" && pods[i].DeletionTimestamp == nil {
			bound++
		}
	}
	return bound
}

func runningOf(pods []corev1.Pod, gang string) (running int) {
	for i := range pods {
		if pods[i].Labels[gangLabel] == gang && pods[i].Status.Phase == corev1.PodRunning {
			running++
		}
	}
	return running
}

// awaitGang waits until that many members run.
func (c *gangCluster) awaitGang(g *gangSpec, members int) {
	c.Helper()
	c.await(fmt.Sprintf("%d members of %s to run", members, g.name), func(pods []corev1.Pod) bool { return runningOf(pods, g.name) >= members })
}

// TestGangs runs the cases of gangs, one after the other.
func TestGangs(t *testing.T) {
	slowScene(t)
	t.Parallel()
	c := newGangCluster(t, 2)
	for _, test := range []struct {
		name string
		run  func(*gangCluster)
	}{
		{"a gang of annotated pods is bound whole", func(c *gangCluster) { wholeGang(c, wire.GangOfPods) }},
		{"a PodGroup of scheduler-plugins is bound whole", func(c *gangCluster) { wholeGang(c, wire.GangOfSigs) }},
		{"a PodGroup of Volcano is bound whole", func(c *gangCluster) { wholeGang(c, wire.GangOfVolcano) }},
		{"members of several shapes share nodes", mixedGang},
		{"a gang that does not fit holds nothing", largeGang},
		{"two gangs that compete do not block each other", competingGangs},
		{"a minimum below the number of pods, and a member that dies later", smallMinimum},
		{"a member that ended well counts, and another is replaced", endedMember},
		{"a gang evicts for the whole of it, or nobody", evictingGang},
		{"a pod of no gang evicts a gang whole, or leaves it alone", gangOutOfTheWay},
		{"a Binding that nobody answers does not hold a gang for ever", unansweredGang},
		{"the scheduler is killed between two Bindings, and the gang ends whole", killedGangEndsWhole},
		{"the scheduler is killed between two Bindings, and the gang ends not at all", killedGangEndsNotAtAll},
	} {
		if !c.scene(test.name, func() { test.run(c) }) {
			return
		}
	}
}

func wholeGang(c *gangCluster, source wire.GangSource) {
	g := &gangSpec{name: fmt.Sprintf("whole-%d", source), source: source, minimum: 4, cpus: []int{2, 2, 4, 4}}
	c.must(c.makeGang(c.Context(), g))
	c.awaitGang(g, 4)
	c.must(c.endGang(c.Context(), g))
}

func mixedGang(c *gangCluster) {
	g := &gangSpec{name: "mixed", source: wire.GangOfPods, minimum: 6, cpus: []int{1, -2, 3, 1, -2, 4}}
	c.must(c.makeGang(c.Context(), g))
	c.awaitGang(g, 6)
	c.must(c.endGang(c.Context(), g))
}

// largeGang: all members of a gang fit except one. A single pod that comes later gets the
// resources.
func largeGang(c *gangCluster) {
	g := &gangSpec{name: "large", source: wire.GangOfSigs, minimum: 5, cpus: []int{8, 8, 6, 6, 6}}
	c.must(c.makeGang(c.Context(), g))
	c.await("an event that tells why", func(pods []corev1.Pod) bool {
		if n := boundOf(pods, g.name); n > 0 {
			c.Fatalf("%d members are bound of a gang that does not fit", n)
		}
		list, err := c.Client.CoreV1().Events("default").List(c.Context(), metav1.ListOptions{FieldSelector: "reason=GangNotPlaced"})
		for i := range list.Items {
			c.Log(list.Items[i].InvolvedObject.Kind, list.Items[i].InvolvedObject.Name, list.Items[i].Message)
		}
		return err == nil && len(list.Items) > 0
	})
	c.create(pinnedPod("single", "", "8"))
	c.awaitRunning("single")
	c.must(c.endGang(c.Context(), g))
}

func competingGangs(c *gangCluster) {
	a := &gangSpec{name: "left", source: wire.GangOfPods, minimum: 3, cpus: []int{6, 6, 8}}
	b := &gangSpec{name: "right", source: wire.GangOfPods, minimum: 3, cpus: []int{8, 6, 6}}
	c.must(c.makeGang(c.Context(), a))
	c.must(c.makeGang(c.Context(), b))
	var first, second *gangSpec
	c.await("one of them to run", func(pods []corev1.Pod) bool {
		if runningOf(pods, a.name) == 3 {
			first, second = a, b
		}
		if runningOf(pods, b.name) == 3 {
			first, second = b, a
		}
		return first != nil
	})
	c.must(c.endGang(c.Context(), first))
	c.awaitGang(second, 3)
	c.must(c.endGang(c.Context(), second))
}

// evictingGang: the nodes are full of pods of priority 0. A gang that fits in place of two pods
// evicts two, and a gang that never fits evicts none.
func evictingGang(c *gangCluster) {
	probe := pinnedPod("probe", "", "1")
	c.createUrgent(probe) // the scheduler knows the class from now on
	c.awaitRunning(probe.Name)
	c.delete(probe.Name, new(int64))
	c.await("the probe to go", func(pods []corev1.Pod) bool { return len(pods) == 0 })
	full := &gangSpec{name: "full", cpus: []int{8, 8, 6, 6}}
	c.must(c.makeGang(c.Context(), full))
	c.awaitGang(full, 4)
	hopeless := &gangSpec{name: "hopeless", source: wire.GangOfSigs, minimum: 3, cpus: []int{8, 8, 8}, urgent: true}
	c.must(c.makeGang(c.Context(), hopeless))
	c.await("an event that tells why", func(pods []corev1.Pod) bool {
		if n := boundOf(pods, full.name); n != 4 {
			c.Fatalf("%d of 4 pods are left: some were evicted for a gang that never fits", n)
		}
		list, err := c.Client.CoreV1().Events("default").List(c.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=hopeless"})
		return err == nil && len(list.Items) > 0
	})
	c.must(c.endGang(c.Context(), hopeless))
	g := &gangSpec{name: "evicting", source: wire.GangOfPods, minimum: 2, cpus: []int{8, 8}, urgent: true}
	c.must(c.makeGang(c.Context(), g))
	c.awaitGang(g, 2)
	c.await("the others to be left alone", func(pods []corev1.Pod) bool { return boundOf(pods, full.name) == 2 })
	c.must(c.endGang(c.Context(), g))
	c.must(c.endGang(c.Context(), full))
}

// gangOutOfTheWay: a gang has the large NUMA nodes of the nodes, and single pods the others. An
// urgent pod needs a large NUMA node.
func gangOutOfTheWay(c *gangCluster) {
	full := &gangSpec{name: "full", cpus: []int{6, 6}}
	g := &gangSpec{name: "in-the-way", source: wire.GangOfPods, minimum: 2, cpus: []int{8, 8}}
	c.must(c.makeGang(c.Context(), g))
	c.awaitGang(g, 2)
	c.must(c.makeGang(c.Context(), full))
	c.awaitGang(full, 2)
	c.createUrgent(pinnedPod("urgent", "", "8"))
	c.awaitRunning("urgent")
	c.await("the gang to go whole, and nobody else", func(pods []corev1.Pod) bool {
		return boundOf(pods, g.name) == 0 && boundOf(pods, full.name) == 2
	})
	c.must(c.endGang(c.Context(), g))
	c.must(c.endGang(c.Context(), full))
}

func smallMinimum(c *gangCluster) {
	g := &gangSpec{name: "small", source: wire.GangOfSigs, minimum: 2, cpus: []int{8, 8, 8}}
	c.must(c.makeGang(c.Context(), g))
	c.awaitGang(g, 2)
	var died string
	c.await("a member to die", func(pods []corev1.Pod) bool {
		for i := range pods {
			if pods[i].Labels[gangLabel] == g.name && pods[i].Status.Phase == corev1.PodRunning {
				died = pods[i].Name
			}
		}
		return died != ""
	})
	c.delete(died, nil)
	c.awaitGang(g, 2) // the third pod replaces the ended one
	c.await("the other one to be left alone", func(pods []corev1.Pod) bool { return boundOf(pods, g.name) == 2 })
	c.must(c.endGang(c.Context(), g))
}

// endedMember: a gang needs all its pods. One succeeds, which kube-scheduler's watch does not
// distinguish from a deletion. Another pod is deleted and created again.
func endedMember(c *gangCluster) {
	g := &gangSpec{name: "ended", source: wire.GangOfVolcano, minimum: 3, cpus: []int{2, 2, 2, 2}}
	group := c.groups.Resource(volcano.PodGroups).Namespace("default")
	_, err := group.Create(c.Context(), g.object(volcano.PodGroups.GroupVersion()), metav1.CreateOptions{})
	c.must(err)
	told := func() (phase string, succeeded int64) {
		object, err := group.Get(c.Context(), g.name, metav1.GetOptions{})
		c.must(err)
		phase, _, _ = unstructured.NestedString(object.Object, "status", "phase")
		succeeded, _, _ = unstructured.NestedInt64(object.Object, "status", "succeeded")
		return phase, succeeded
	}
	for i := range 3 {
		pod := g.pod(i)
		if i == 0 {
			pod.Spec.RestartPolicy, pod.Spec.Containers[0].Image = corev1.RestartPolicyNever, hollow.ExitImage(time.Second)
		}
		c.create(pod)
	}
	c.await("a member to end well, and the PodGroup to say so", func(pods []corev1.Pod) bool {
		phase, succeeded := told()
		if phase == string(volcano.PodGroupUnknown) {
			c.Errorf("the PodGroup is %s, and all of its pods run or have ended well", phase)
		}
		return phaseOf(pods, "ended-0") == corev1.PodSucceeded && succeeded == 1 && runningOf(pods, g.name) == 2
	})
	c.delete("ended-1", nil)
	c.await("the member to go", func(pods []corev1.Pod) bool { return boundOf(pods, g.name) == 2 }) // including the ended one
	c.create(g.pod(3))
	c.await("its replacement to run", func(pods []corev1.Pod) bool {
		phase, _ := told()
		return runningOf(pods, g.name) == 2 && phase == string(volcano.PodGroupRunning)
	})
	c.must(c.endGang(c.Context(), g))
}

// unansweredGang: the first Binding is never answered, because a proxy keeps the request and the
// connection. The scheduler gives it up within the gang's deadline.
func unansweredGang(c *gangCluster) {
	kept := false
	c.wire.set(func(r *http.Request) fault {
		if kept || !isBinding(r) {
			return noFault
		}
		kept = true
		return heldBack
	})
	g := &gangSpec{name: "unanswered", source: wire.GangOfSigs, minimum: 4, cpus: []int{8, 8, 6, 6}, timeout: 170}
	c.must(c.makeGang(c.Context(), g))
	c.awaitGang(g, 4)
	c.soundWire()
	c.tooLate()
	c.must(c.endGang(c.Context(), g))
}

// killBetweenBindings creates a gang, lets one Binding be written, and kills the scheduler while
// the next one is on its way. That Binding is held back until letGo. Writing the first Binding may
// take several requests, because its pod may have changed.
func (c *gangCluster) killBetweenBindings(g *gangSpec) {
	c.Helper()
	passes := ""
	c.wire.set(func(r *http.Request) fault {
		switch {
		case !isBinding(r):
			return noFault
		case passes == "":
			passes = r.URL.Path
		case passes != r.URL.Path:
			return heldBack
		}
		return noFault
	})
	c.must(c.makeGang(c.Context(), g))
	c.await("a Binding between two", func(pods []corev1.Pod) bool { return boundOf(pods, g.name) == 1 && c.wire.waiting() > 0 })
	c.sched.Kill()
	c.wire.set(func(*http.Request) fault { return noFault })
}

// tooLate carries out the Bindings that were held back. They must have no effect.
func (c *gangCluster) tooLate() {
	c.Helper()
	for _, code := range c.wire.letGo() {
		if code < http.StatusBadRequest {
			c.Errorf("a Binding that comes too late is answered with %d", code)
		}
	}
}

func killedGangEndsWhole(c *gangCluster) {
	g := &gangSpec{name: "killed", source: wire.GangOfVolcano, minimum: 5, cpus: []int{6, 5, 4, 3, 2}}
	c.killBetweenBindings(g)
	c.restartScheduler(nil)
	c.awaitGang(g, 5)
	c.tooLate()
	c.must(c.endGang(c.Context(), g))
}

// killedGangEndsNotAtAll: before another scheduler starts, other pods take the room of the
// remaining members.
func killedGangEndsNotAtAll(c *gangCluster) {
	g := &gangSpec{name: "killed", source: wire.GangOfSigs, minimum: 4, cpus: []int{8, 8, 6, 6}, timeout: 15}
	c.killBetweenBindings(g)
	var names []string
	list, err := c.Client.CoreV1().Pods("default").List(c.Context(), metav1.ListOptions{})
	c.must(err)
	for _, n := range c.nodes {
		free := 6
		if boundOn(list.Items, n.spec.Name) == 0 {
			free = 8
		}
		name := "room-" + n.spec.Name
		names = append(names, name)
		c.create(pinnedPod(name, n.spec.Name, strconv.Itoa(free)))
	}
	c.awaitRunning(names...)
	c.restartScheduler(nil)
	c.await("the member that is bound to be deleted", func(pods []corev1.Pod) bool { return boundOf(pods, g.name) == 0 })
	c.tooLate()
	c.await("no other to be bound", func(pods []corev1.Pod) bool { return boundOf(pods, g.name) == 0 })
	c.must(c.endGang(c.Context(), g))
}

// boundOn counts the pods on a node.
func boundOn(pods []corev1.Pod, node string) (bound int) {
	for i := range pods {
		if pods[i].Spec.NodeName == node {
			bound++
		}
	}
	return bound
}
