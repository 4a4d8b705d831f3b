package e2e

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	nrt "github.com/berth-dev/berth/api/nrt/v1alpha2"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/test/trial"
	"github.com/berth-dev/berth/topology"
)

// exporter reports a hollow node like other projects' exporters: amounts by NUMA node, and a
// fingerprint of the counted pods. It writes only after changes.
type exporter struct {
	c       *hollowCluster
	node    *hollowNode
	dynamic dynamic.Interface
	machine *topology.Machine
	last    string
}

func (c *hollowCluster) newExporter(n *hollowNode) *exporter {
	c.Helper()
	client, err := dynamic.NewForConfig(c.ControlPlane.RESTConfig())
	c.must(err)
	m, err := topology.Parse(n.spec.Machine)
	c.must(err)
	return &exporter{c: c, node: n, dynamic: client, machine: m}
}

// run exports until ctx ends.
func (e *exporter) run(ctx context.Context) {
	for range trial.Every(ctx, 200*time.Millisecond) {
		if err := e.export(ctx); err != nil && ctx.Err() == nil {
			e.c.Errorf("exporter: %v", err)
		}
	}
}

func (e *exporter) export(ctx context.Context) error {
	held := e.node.held()
	if held == nil {
		return nil
	}
	list, err := e.c.Client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + e.node.spec.Name})
	if err != nil {
		return err
	}
	var used topology.CPUSet
	var counted []wire.PodName
	for uid, containers := range held {
		for _, cpus := range containers {
			used = used.Or(&cpus)
		}
		at := slices.IndexFunc(list.Items, func(p corev1.Pod) bool { return string(p.UID) == uid })
		if at < 0 {
			return nil // the pod has just gone
		}
		counted = append(counted, wire.PodName{Namespace: list.Items[at].Namespace, Name: list.Items[at].Name})
	}
	fingerprint := wire.PodFingerprint(counted)
	if fingerprint+used.String() == e.last {
		return nil
	}
	reserved := topology.NewCPUSet(0, 8)
	o := &nrt.NodeResourceTopology{
		TypeMeta:   metav1.TypeMeta{APIVersion: nrt.GroupVersion.String(), Kind: "NodeResourceTopology"},
		ObjectMeta: metav1.ObjectMeta{Name: e.node.spec.Name},
		Attributes: nrt.AttributeList{
			{Name: "topologyManagerPolicy", Value: "single-numa-node"}, {Name: "topologyManagerScope", Value: "container"},
			{Name: "nodeTopologyPodsFingerprint", Value: fingerprint},
		},
	}
	for i := range e.machine.NUMANodes {
		n := &e.machine.NUMANodes[i]
		ours := n.CPUs.AndNot(&reserved)
		free := ours.AndNot(&used)
		quantity := func(s topology.CPUSet) resource.Quantity {
			return *resource.NewQuantity(int64(s.Len()), resource.DecimalSI)
		}
		o.Zones = append(o.Zones, nrt.Zone{Name: fmt.Sprintf("node-%d", n.ID), Type: "Node", Resources: nrt.ResourceInfoList{
			{Name: "cpu", Capacity: quantity(n.CPUs), Allocatable: quantity(ours), Available: quantity(free)},
		}})
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return err
	}
	_, err = e.dynamic.Resource(nrt.NodeResourceTopologies).Apply(ctx, o.Name, &unstructured.Unstructured{Object: fields}, metav1.ApplyOptions{FieldManager: "exporter", Force: true})
	if err == nil {
		e.last = fingerprint + used.String()
	}
	return err
}

// TestAmountsAlone: Berth places pods on a node that only another project's exporter reports, and
// the kubelet refuses none. Then an agent is added and removed again.
func TestAmountsAlone(t *testing.T) {
	slowScene(t)
	t.Parallel()
	c := newHollowCluster(t, 1)
	node := c.nodes[0]
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	e := c.newExporter(node)
	running.Go(func() { e.run(ctx) })
	c.withoutAgent(node)

	var names []string
	for i := range 5 { // four fit: 6 and 8 CPUs
		names = append(names, fmt.Sprint("p", i))
		c.create(pinnedPod(names[i], "", "3"))
	}
	left := ""
	c.await("four of five pods to run", func(pods []corev1.Pod) bool {
		ran := 0
		for _, name := range names {
			if phaseOf(pods, name) == corev1.PodRunning {
				ran++
			} else {
				left = name
			}
		}
		return ran == 4
	})
	c.wantGuarantee(wire.GuaranteeAmounts, wire.VerdictOnly)
	c.delete(names[(slices.Index(names, left)+1)%5], nil)
	c.awaitRunning(left)
	c.restartScheduler(nil)
	for _, name := range names {
		c.delete(name, nil)
	}
	c.create(pinnedPod("large", "", "8"))
	c.awaitRunning("large")
	c.demandKept()

	node.startAgent()
	exact := c.untilPlacedWith(wire.GuaranteeFull, wire.Exact, "4")
	c.withoutAgent(node)
	again := c.untilPlacedWith(wire.GuaranteeAmounts, wire.VerdictOnly, "2")
	c.awaitRunning("large", exact, again)
	c.demandKept()
	c.clean()
}

// untilPlacedWith creates pods until one is placed with this guarantee, certainty and CPUs, deletes
// the others, and returns its name. The scheduler needs some time to see an added or removed agent,
// and the resources of deleted pods.
func (c *hollowCluster) untilPlacedWith(g wire.Guarantee, certainty wire.Certainty, cpus string) string {
	c.Helper()
	for i := range 100 {
		name := fmt.Sprintf("%s-%s-%d", g, certainty, i)
		c.create(pinnedPod(name, "", cpus))
		c.awaitRunning(name)
		p, _, err := wire.ReadPlacement(c.pod(name))
		c.must(err)
		if p.Guarantee == g && p.Certainty == certainty {
			c.wantPlacement(name, g, certainty)
			return name
		}
		c.delete(name, nil)
		c.await(name+" to be gone", func(pods []corev1.Pod) bool { return phaseOf(pods, name) == "" })
	}
	c.Fatalf("no pod is placed with guarantee %s, %s", g, certainty)
	return ""
}

// withoutAgent stops a node's agent and deletes its report.
func (c *hollowCluster) withoutAgent(n *hollowNode) {
	c.Helper()
	n.stopAgent()
	client, err := dynamic.NewForConfig(c.ControlPlane.RESTConfig())
	c.must(err)
	err = client.Resource(v1alpha1.NodeTopologies).Delete(c.Context(), n.spec.Name, metav1.DeleteOptions{})
	if !apierrors.IsNotFound(err) { // the agent may have stopped before its first report
		c.must(err)
	}
}

// wantGuarantee checks that all bound pods have this guarantee and certainty.
func (c *hollowCluster) wantGuarantee(g wire.Guarantee, certainty wire.Certainty) {
	c.Helper()
	list, err := c.Client.CoreV1().Pods("default").List(c.Context(), metav1.ListOptions{})
	c.must(err)
	for i := range list.Items {
		if list.Items[i].Spec.NodeName != "" {
			c.wantPlacement(list.Items[i].Name, g, certainty)
		}
	}
}

func (c *hollowCluster) wantPlacement(name string, g wire.Guarantee, certainty wire.Certainty) {
	c.Helper()
	pod := c.pod(name)
	p, _, err := wire.ReadPlacement(pod)
	if err != nil || p.Guarantee != g || p.Certainty != certainty {
		c.Errorf("%s: guarantee %s, %s, %v: want %s, %s", name, p.Guarantee, p.Certainty, err, g, certainty)
	}
	for i := range p.Decision.Containers {
		if d := &p.Decision.Containers[i]; g == wire.GuaranteeAmounts && (!d.CPUs.IsEmpty() || d.Hint.Any) {
			c.Errorf("%s: %+v: want NUMA nodes and no CPUs", name, d)
		}
	}
}
