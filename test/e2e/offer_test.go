package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/controlplane"
	"github.com/berth-dev/berth/internal/hollow"
	"github.com/berth-dev/berth/internal/sampleplugin"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/test/obeyed"
	"github.com/berth-dev/berth/topology"
)

const (
	offeredGPU = "example.com/gpu"
	offeredNIC = "example.com/nic"
	// withDevices has a GPU and an RDMA card below one switch of each NUMA node.
	withDevices = twoSockets + " dev:3b:00.0|3c:00.0,030200,10de:2330,numa=0,root=3a,switch=3a:01.0 dev:3d:00.0,020700,15b3:1021,numa=0,root=3a,switch=3a:01.0" +
		" dev:bb:00.0|bc:00.0,030200,10de:2330,numa=1,root=ba,switch=ba:01.0 dev:bd:00.0,020700,15b3:1021,numa=1,root=ba,switch=ba:01.0"
	offeredDevices = `
resources:
- {resource: example.com/gpu, class: gpu, cdi: {kind: example.com/gpu, names: index}}
- {resource: example.com/nic, class: rdma}
`
	// vendorSpec is a CDI specification like that of a vendor's tool.
	vendorSpec = `{"cdiVersion": "0.6.0", "kind": "example.com/gpu", "devices": [
{"name": "0", "containerEdits": {"env": ["VENDOR_GPU_0=1"]}}, {"name": "1", "containerEdits": {"env": ["VENDOR_GPU_1=1"]}},
{"name": "2", "containerEdits": {"env": ["VENDOR_GPU_2=1"]}}, {"name": "3", "containerEdits": {"env": ["VENDOR_GPU_3=1"]}}]}
`
)

// topologyOf reads a node's NodeTopology. It returns an empty one if there is none yet.
func (c *hollowCluster) topologyOf(node string) *v1alpha1.NodeTopology {
	c.Helper()
	object, err := dynamic.NewForConfigOrDie(c.ControlPlane.RESTConfig()).Resource(v1alpha1.NodeTopologies).Get(c.Context(), node, metav1.GetOptions{})
	nt := &v1alpha1.NodeTopology{}
	if apierrors.IsNotFound(err) {
		return nt
	}
	c.must(err)
	c.must(runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, nt))
	return nt
}

// awaitTopology waits until wrong returns "" for a node's NodeTopology.
func (c *hollowCluster) awaitTopology(node, what string, wrong func(*v1alpha1.NodeTopology) string) {
	c.Helper()
	last := ""
	defer func() {
		if c.Failed() {
			c.Logf("%s: %s", what, last)
		}
	}()
	c.await(what, func([]corev1.Pod) bool {
		last = wrong(c.topologyOf(node))
		return last == ""
	})
}

// asking adds devices to the request of a pod's container.
func asking(p *corev1.Pod, resourceName string, n int64) *corev1.Pod {
	r := &p.Spec.Containers[0].Resources
	r.Requests, r.Limits = r.Requests.DeepCopy(), r.Limits.DeepCopy()
	if r.Limits == nil {
		r.Limits = corev1.ResourceList{}
	}
	r.Requests[corev1.ResourceName(resourceName)] = *resource.NewQuantity(n, resource.DecimalSI)
	r.Limits[corev1.ResourceName(resourceName)] = *resource.NewQuantity(n, resource.DecimalSI)
	return p
}

// place binds a pod by hand with a decision, as the scheduler does.
func (c *hollowCluster) place(p *corev1.Pod, node string, cpus string, devices ...placement.DeviceAllocation) *corev1.Pod {
	c.Helper()
	p.Spec.SchedulerName = "by-hand"
	p = c.create(p)
	set, err := topology.ParseCPUList(cpus)
	c.must(err)
	d := placement.Decision{UID: string(p.UID), Containers: []placement.ContainerDecision{{Name: "main", Hint: placement.Hint{Any: true}, CPUs: set, Devices: devices}}}
	text, err := wire.WritePlacement(&wire.Placement{Sequence: 1, Certainty: wire.Exact, Guarantee: wire.GuaranteeFull, Decision: d})
	c.must(err)
	binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: p.Namespace, Annotations: map[string]string{wire.PlacementAnnotation: text}},
		Target: corev1.ObjectReference{Kind: "Node", Name: node}}
	wire.DemandPlugin(binding.Annotations, &d)
	config, err := c.ControlPlane.UserConfig("system:kube-scheduler", nil)
	c.must(err)
	c.must(kubernetes.NewForConfigOrDie(config).CoreV1().Pods(p.Namespace).Bind(c.Context(), binding, metav1.CreateOptions{}))
	return p
}

func ofGPU(ids ...string) placement.DeviceAllocation {
	return placement.DeviceAllocation{Resource: offeredGPU, IDs: ids}
}

func ofNIC(ids ...string) placement.DeviceAllocation {
	return placement.DeviceAllocation{Resource: offeredNIC, IDs: ids}
}

// environment returns the environment of a pod's container; "" for none.
func (n *hollowNode) environment(pod *corev1.Pod) string {
	text, _ := os.ReadFile(filepath.Join(n.dir.Cgroups(), "kubepods", string(pod.UID), "main-0", "environ")) // the container may not have started
	return strings.ReplaceAll(string(text), "\x00", "\n")
}

// awaitHeld waits until the agent refuses a pod's container, and the pod's status has the reason.
func (c *hollowCluster) awaitHeld(name, why string) {
	c.Helper()
	c.await(name+" to be held: "+why, func(pods []corev1.Pod) bool {
		return slices.ContainsFunc(pods, func(p corev1.Pod) bool {
			s := p.Status.ContainerStatuses
			return p.Name == name && len(s) == 1 && s[0].State.Waiting != nil && strings.Contains(s[0].State.Waiting.Message, why)
		})
	})
}

// poolsOf lists the pools of a NodeTopology: RESOURCE ID..., with "sick" before unhealthy devices.
func poolsOf(nt *v1alpha1.NodeTopology) string {
	var out []string
	for _, p := range nt.Status.Devices {
		line := fmt.Sprint(p.Resource, "(", p.DecidedBy, ")")
		for _, g := range p.Groups {
			if line += " numa" + string(*g.NUMA); g.Unhealthy {
				line += " sick"
			}
			for _, id := range g.IDs {
				line += " " + string(id)
			}
		}
		out = append(out, line)
	}
	return strings.Join(out, "; ")
}

// TestOfferedDevices runs pods on a node where Berth decides and the agent offers devices to a
// genuine kubelet's device manager. Containers get exactly the devices of their Bindings or do not
// start, also after restarts of agent and kubelet. A second plugin is reported.
func TestOfferedDevices(t *testing.T) {
	t.Parallel()
	c := newHollowClusterOn(t, 1, controlplane.Options{Dir: shortDir(t)}, func(s *hollow.Spec) {
		obeyingNode(s)
		s.Machine, s.Devices = withDevices, offeredDevices
	})
	n := c.nodes[0]
	pools := func(want string, whenReady metav1.ConditionStatus) {
		t.Helper()
		c.awaitTopology("h0", "the pools of the report: "+want, func(nt *v1alpha1.NodeTopology) string {
			ready := meta.FindStatusCondition(nt.Status.Conditions, v1alpha1.ConditionReady)
			if got := poolsOf(nt); got != want || ready == nil || ready.Status != whenReady {
				return fmt.Sprint(got, " ", ready)
			}
			return ""
		})
	}
	const nics = "; example.com/nic(berth) numa0 0000:3d:00.0 numa1 0000:bd:00.0"
	pools("example.com/gpu(berth) numa0 sick 0000:3b:00.0 0000:3c:00.0 numa1 sick 0000:bb:00.0 0000:bc:00.0"+nics, metav1.ConditionTrue)
	c.must(os.WriteFile(filepath.Join(n.dir.CDI(), "vendor.json"), []byte(vendorSpec), 0o600))
	const allWell = "example.com/gpu(berth) numa0 0000:3b:00.0 0000:3c:00.0 numa1 0000:bb:00.0 0000:bc:00.0" + nics
	pools(allWell, metav1.ConditionTrue)
	c.awaitAllocatable("h0", offeredGPU, 4)
	c.awaitAllocatable("h0", offeredNIC, 2)

	a := c.place(asking(asking(ask("a", "2", true), offeredGPU, 2), offeredNIC, 1), "h0", "1-2", ofGPU("0000:3b:00.0", "0000:bc:00.0"), ofNIC("0000:bd:00.0"))
	c.awaitRunning("a")
	env := n.environment(a)
	for _, want := range []string{"PCIDEVICE_EXAMPLE_COM_GPU=0000:3b:00.0,0000:bc:00.0", "VENDOR_GPU_0=1", "VENDOR_GPU_3=1",
		"PCIDEVICE_EXAMPLE_COM_NIC=0000:bd:00.0", "BERTH_DEVICE_0000_BD_00_0=example.com/nic"} {
		if !slices.Contains(strings.Split(env, "\n"), want) {
			t.Errorf("a's environment has no %s:\n%s", want, env)
		}
	}
	if strings.Contains(env, "VENDOR_GPU_1") || strings.Contains(env, "VENDOR_GPU_2") {
		t.Errorf("a has devices that it did not get:\n%s", env)
	}
	holds := func(what, want string) {
		t.Helper()
		c.awaitTopology("h0", what, func(nt *v1alpha1.NodeTopology) string {
			var got []string
			for _, p := range nt.Status.Pods {
				for _, ctr := range p.Containers {
					for _, d := range ctr.Devices {
						got = append(got, fmt.Sprint(p.Pod, " ", d.Resource, d.IDs))
					}
				}
			}
			if text := strings.Join(got, "; "); text != want {
				return text
			}
			return ""
		})
	}
	holdsOfA := "default/a example.com/gpu[0000:3b:00.0 0000:bc:00.0]; default/a example.com/nic[0000:bd:00.0]"
	holds("the report has what a holds", holdsOfA)

	thief := c.place(asking(ask("thief", "1", true), offeredGPU, 1), "h0", "3", ofGPU("0000:3b:00.0"))
	c.awaitHeld("thief", "device 0000:3b:00.0 of example.com/gpu is held by default/a/main")
	bare := asking(ask("bare", "100m", false), offeredNIC, 1)
	bare.Spec.NodeName = "h0"
	c.create(bare)
	c.awaitHeld("bare", "only berth-scheduler may place such pods on this node")
	c.awaitTopology("h0", "the report says who is held", func(nt *v1alpha1.NodeTopology) string {
		e := meta.FindStatusCondition(nt.Status.Conditions, v1alpha1.ConditionEnforced)
		if e == nil || !strings.Contains(e.Message, "default/thief/main does not start") || !strings.Contains(e.Message, "default/bare/main does not start") {
			return fmt.Sprintf("%+v", e)
		}
		return ""
	})
	c.delete("bare", nil)

	// Without the agent's plugin the kubelet refuses pods, so a stopping agent first reports its
	// devices as unhealthy.
	n.stopAgent()
	const noneWell = "example.com/gpu(berth) numa0 sick 0000:3b:00.0 0000:3c:00.0 numa1 sick 0000:bb:00.0 0000:bc:00.0; example.com/nic(berth) numa0 sick 0000:3d:00.0 numa1 sick 0000:bd:00.0"
	pools(noneWell, metav1.ConditionTrue)
	n.startAgent()
	pools(allWell, metav1.ConditionTrue)
	holds("the report after the agent's restart", holdsOfA)
	c.awaitHeld("thief", "0000:3b:00.0")
	c.delete("a", nil)
	c.awaitRunning("thief")
	holds("the report when a has left", "default/thief example.com/gpu[0000:3b:00.0]")
	faults := obeyed.Judge(c.machineOf(n), obeyed.ReadCgroups(n.dir.Cgroups()), c.decisions())
	if !faults.Empty() {
		t.Errorf("%+v", faults)
	}
	if env := n.environment(thief); !strings.Contains(env, "VENDOR_GPU_0=1") {
		t.Errorf("thief's environment:\n%s", env)
	}

	// A starting kubelet refuses pods with resources that no plugin has offered yet.
	n.process().Kill()
	pools(noneWell, metav1.ConditionFalse)
	n.restart()
	c.must(n.process().WaitReady(t.Context(), c.Client))
	pools(allWell, metav1.ConditionTrue)
	c.place(asking(ask("late", "1", true), offeredNIC, 1), "h0", "4", ofNIC("0000:3d:00.0"))
	c.awaitRunning("late")

	// The scheduler chooses. The GPUs 3c, bb and bc and the card bd are left, and only one switch
	// has both a GPU and a card.
	joint := asking(asking(ask("joint", "2", true, wire.PolicyAnnotation+"=single-numa-node", wire.DevicesAnnotation+"=one-switch"), offeredGPU, 2), offeredNIC, 1)
	c.create(joint)
	c.awaitRunning("joint")
	faults = obeyed.Judge(c.machineOf(n), obeyed.ReadCgroups(n.dir.Cgroups()), c.decisions())
	if !faults.Empty() {
		t.Errorf("%+v", faults)
	}
	held := c.decisions()[string(c.pod("joint").UID)].Containers[0].Devices
	if got, want := fmt.Sprint(held), "[{example.com/gpu [0000:bb:00.0 0000:bc:00.0]} {example.com/nic [0000:bd:00.0]}]"; got != want {
		t.Errorf("joint has %s, want %s", got, want)
	}

	rival, err := sampleplugin.Start(t.Context(), n.dir.DevicePlugins(), "rival.sock", hollow.Plugin{Resource: offeredNIC, Devices: []hollow.Device{{ID: "mlx5_0"}}})
	c.must(err)
	c.awaitTopology("h0", "another plugin is named", func(nt *v1alpha1.NodeTopology) string {
		r := meta.FindStatusCondition(nt.Status.Conditions, v1alpha1.ConditionReady)
		if r == nil || r.Reason != v1alpha1.ReasonContradiction || !strings.Contains(r.Message, `another device plugin offers example.com/nic to the kubelet ("mlx5_0" is one of its devices)`) {
			return fmt.Sprint(r)
		}
		return ""
	})
	rival.Stop()
}

// awaitAllocatable waits until n units of a resource are allocatable on a node.
func (c *hollowCluster) awaitAllocatable(node, name string, n int64) {
	c.Helper()
	c.await(fmt.Sprint(n, " ", name, " on ", node), func([]corev1.Pod) bool {
		object, err := c.Client.CoreV1().Nodes().Get(c.Context(), node, metav1.GetOptions{})
		c.must(err)
		q := object.Status.Allocatable[corev1.ResourceName(name)]
		return q.Value() == n
	})
}

func (c *hollowCluster) machineOf(n *hollowNode) *topology.Machine {
	c.Helper()
	m, err := topology.Parse(n.spec.Machine)
	c.must(err)
	return m
}

// decisions returns the decisions of all existing pods.
func (c *hollowCluster) decisions() obeyed.Decisions {
	c.Helper()
	out := obeyed.Decisions{}
	list, err := c.Client.CoreV1().Pods("default").List(c.Context(), metav1.ListOptions{})
	c.must(err)
	for i := range list.Items {
		out.Note(&list.Items[i])
	}
	return out
}

// TestDevicesInKoordinatorsUnits: if the agent offers Koordinator's resources, 100 units are a
// device for a genuine kubelet and for the scheduler. A part of a device is refused by name.
func TestDevicesInKoordinatorsUnits(t *testing.T) {
	t.Parallel()
	const gpu, rdma = "koordinator.sh/gpu", "koordinator.sh/rdma"
	c := newHollowClusterOn(t, 1, controlplane.Options{Dir: shortDir(t)}, func(s *hollow.Spec) {
		obeyingNode(s)
		s.Machine, s.Devices = withDevices, "resources: [{resource: koordinator.sh/gpu, class: gpu}, {resource: koordinator.sh/rdma, class: rdma}]"
	})
	c.awaitAllocatable("h0", gpu, 400)
	c.awaitAllocatable("h0", rdma, 200)
	c.create(asking(asking(ask("train", "2", true, "scheduling.koordinator.sh/numa-topology-spec="+`{"numaTopologyPolicy":"SingleNUMANode"}`,
		"scheduling.koordinator.sh/device-joint-allocate="+`{"deviceTypes":["gpu","rdma"],"requiredScope":"SamePCIe"}`), gpu, 200), rdma, 100))
	c.awaitRunning("train")
	pod := c.pod("train")
	got := fmt.Sprint(c.decisions()[string(pod.UID)].Containers[0].Devices)
	if got != "[{koordinator.sh/gpu [0000:3b:00.0 0000:3c:00.0]} {koordinator.sh/rdma [0000:3d:00.0]}]" &&
		got != "[{koordinator.sh/gpu [0000:bb:00.0 0000:bc:00.0]} {koordinator.sh/rdma [0000:bd:00.0]}]" {
		t.Errorf("train has %s, want the GPUs and the card of one root", got)
	}
	if env := c.nodes[0].environment(pod); !strings.Contains(env, "PCIDEVICE_KOORDINATOR_SH_GPU=0000:") {
		t.Errorf("its environment:\n%s", env)
	}
	c.awaitAllocatable("h0", "koordinator.sh/gpu-core", 400)
	c.create(asking(asking(ask("whole", "1", true), "koordinator.sh/gpu-core", 100), "koordinator.sh/gpu-memory-ratio", 100))
	c.awaitRunning("whole")
	if got := c.decisions()[string(c.pod("whole").UID)].Containers[0].Devices; len(got) != 1 || got[0].Resource != gpu || len(got[0].IDs) != 1 {
		t.Errorf("whole has %v, want one GPU", got)
	}
	c.create(asking(ask("part", "1", true), rdma, 50))
	c.awaitUnschedulable("part", `limits[koordinator.sh/rdma]: "50": want a multiple of 100`)
}
