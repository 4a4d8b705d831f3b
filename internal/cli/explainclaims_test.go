package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/claims"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

const gpuDriver = "gpu.example.com"

// addGPUs adds the slice of a node with gpu-0, gpu-1 and so on, on the NUMA nodes in on; a negative
// number means none.
func (w *world) addGPUs(node string, on ...int64) *resourcev1.ResourceSlice {
	s := resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: node + "-gpus"}, Spec: resourcev1.ResourceSliceSpec{
		Driver: gpuDriver, NodeName: &node, Pool: resourcev1.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1}}}
	for i, n := range on {
		s.Spec.Devices = append(s.Spec.Devices, resourcev1.Device{Name: fmt.Sprint("gpu-", i), Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{claims.StandardNUMANode: {IntValue: &n}}})
	}
	w.slices = append(w.slices, s)
	return &w.slices[len(w.slices)-1]
}

// addClaim adds a claim for GPUs in namespace default. has lists its allocated GPUs as node/device.
func (w *world) addClaim(name string, count int64, has ...string) *resourcev1.ResourceClaim {
	c := resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID("uid-of-" + name)}}
	c.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "r", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpus", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: count}}}
	for _, one := range has {
		node, device, _ := strings.Cut(one, "/")
		if c.Status.Allocation == nil {
			c.Status.Allocation = &resourcev1.AllocationResult{}
		}
		c.Status.Allocation.Devices.Results = append(c.Status.Allocation.Devices.Results, resourcev1.DeviceRequestAllocationResult{Request: "r", Driver: gpuDriver, Pool: node, Device: device})
	}
	w.claims = append(w.claims, c)
	return &w.claims[len(w.claims)-1]
}

// addUser adds a pod that uses the claims of these names.
func (w *world) addUser(name, node, asks string, cpus int64, of ...string) *corev1.Pod {
	p := w.addPod(name, node, cpus, 0)
	if asks != "" {
		p.Annotations = map[string]string{wire.ClaimsAnnotation: asks}
	}
	for _, claim := range of {
		p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, corev1.PodResourceClaim{Name: "my-" + claim, ResourceClaimName: &claim})
		p.Spec.Containers[0].Resources.Claims = append(p.Spec.Containers[0].Resources.Claims, corev1.ResourceClaim{Name: "my-" + claim})
	}
	return p
}

// decided changes the report to one of a node on which Berth decides.
func decided(n *wire.Node) *wire.Node {
	n.Spec.Authority, n.Spec.Config = v1alpha1.AuthorityBerth, placement.Config{Version: placement.V136, Authority: placement.AuthorityBerth, ReservedSystemCPUs: "0,8"}
	return n
}

// claimsWorld has nodes whose kubelets would use CPUs of NUMA node 0, except n2, which has free
// CPUs only on NUMA node 1, and b, on which Berth decides.
func claimsWorld(t testing.TB) *world {
	w := &world{t: t, pods: make([]corev1.Pod, 0, 32)}
	w.classes = []resourcev1.DeviceClass{{ObjectMeta: metav1.ObjectMeta{Name: "gpus"}, Spec: resourcev1.DeviceClassSpec{
		Selectors: []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: `device.driver == "` + gpuDriver + `"`}}}}}}
	big := w.addPod("big", "n2", 6, 0)
	for _, name := range []string{"n1", "n2", "n3", "n4", "b"} {
		w.addNode(name, time.Second)
		n := reportOf(t, name)
		switch name {
		case "n2":
			n = reportOf(t, name, requestOf(t, big))
		case "b":
			decided(n)
		}
		w.addTopology(n, nil)
	}
	w.addGPUs("n1", 0, 0, 1)
	w.addGPUs("n2", 0, 1, -1)
	w.addGPUs("n3", 0, 1)
	w.addGPUs("b", 0, 1, 1)
	w.addGPUs("n4", 0).Spec.Driver = "nic.example.com" // a driver that does not match the class
	w.addClaim("taken", 1, "n3/gpu-0")
	w.addClaim("taken-of-b", 1, "b/gpu-0")
	return w
}

// TestExplainClaims compares the output about claims with testdata/claims-NAME.txt.
func TestExplainClaims(t *testing.T) {
	for name, c := range map[string]struct {
		build func(*world)
		args  []string
		code  int
	}{
		"required": {func(w *world) { w.addClaim("one", 1); w.addUser("pod", "", "required", 2, "one") }, nil, ExitOK},
		"json":     {func(w *world) { w.addClaim("one", 1); w.addUser("pod", "", "required", 2, "one") }, []string{"--node", "n3", "-o", "jsonpath={.claims}"}, ExitFailure},
		"near":     {func(w *world) { w.addClaim("two", 2); w.addUser("pod", "", "near", 2, "two") }, nil, ExitOK},
		"nowhere":  {func(w *world) { w.addClaim("four", 4); w.addUser("pod", "", "required", 2, "four") }, nil, ExitFailure},
		// Both NUMA nodes of b together have enough devices, and each has CPUs.
		"both": {func(w *world) {
			w.claims[1].Status.Allocation = nil
			w.addClaim("three", 3)
			w.addUser("pod", "", "required", 4, "three")
		}, nil, ExitOK},
		// The containers have no NUMA node in common, so that a device without one is near.
		"apart": {func(w *world) {
			w.slices[0].Spec.Devices[2].Attributes = nil
			w.addClaim("one", 1)
			p := w.addUser("pod", "", "required", 6, "one")
			p.Spec.Containers = append(p.Spec.Containers, *p.Spec.Containers[0].DeepCopy())
			p.Spec.Containers[1].Name = "other"
		}, []string{"--node", "n1"}, ExitOK},
		"had": {func(w *world) { w.addClaim("one", 1, "n1/gpu-2"); w.addUser("pod", "", "required", 2, "one") }, nil, ExitFailure},
		"bound": {func(w *world) {
			w.addClaim("one", 1, "n2/gpu-0")
			w.pods[0].Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &w.claims[2].Name}}
			w.pods[0].Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "gpu"}}
			w.pods[0].Name = "pod"
		}, nil, ExitOK},
	} {
		t.Run(name, func(t *testing.T) {
			w := claimsWorld(t)
			c.build(w)
			runGolden(t, "claims-"+name, c.code, append([]string{"explain", "pod", "--kubeconfig", w.kubeconfig()}, c.args...)...)
		})
	}
}

// claimingPod is a pod that requests CPUs and a claim of a template.
const claimingPod = `{apiVersion: v1, kind: Pod, metadata: {name: new, annotations: {berth.dev/claims: %s}}, spec: {
  resourceClaims: [{name: gpu, resourceClaimTemplateName: %s}],
  containers: [{name: main, image: x, resources: {limits: {cpu: "2", memory: 1Gi}, claims: [{name: gpu}]}}]}}
`

// claimTemplate requests GPUs.
const claimTemplate = `---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: %s}
spec: {spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpus, allocationMode: ExactCount, count: %d}}]}}}
`

// TestFitClaims compares the output of fit about claims of future pods with
// testdata/claims-fit-NAME.txt. Templates in the files have priority over those in the cluster.
func TestFitClaims(t *testing.T) {
	for name, c := range map[string]struct {
		files string
		args  []string
		code  int
	}{
		"required":  {fmt.Sprintf(claimingPod, "required", "one"), nil, ExitOK},
		"in-file":   {fmt.Sprintf(claimingPod, "required", "one") + fmt.Sprintf(claimTemplate, "one", 4), nil, ExitFailure},
		"missing":   {fmt.Sprintf(claimingPod, "near", "lost"), nil, ExitOK},
		"one-node":  {fmt.Sprintf(claimingPod, "required", "one"), []string{"--on", "n3", "-o", "jsonpath={.pods[0].claims}"}, ExitFailure},
		"forbidden": {fmt.Sprintf(claimingPod, "near", "one"), []string{"--on", "n1"}, ExitOK},
	} {
		t.Run(name, func(t *testing.T) {
			w := claimsWorld(t)
			one := resourcev1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Name: "one", Namespace: "default"}}
			one.Spec.Spec = w.addClaim("like", 1).Spec
			w.templates = append(w.templates, one)
			w.claims = w.claims[:len(w.claims)-1]
			if name == "forbidden" {
				w.forbidden = map[string]bool{"/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates": true}
			}
			file := filepath.Join(t.TempDir(), "pods.yaml")
			if err := os.WriteFile(file, []byte(c.files), 0o600); err != nil {
				t.Fatal(err)
			}
			runGolden(t, "claims-fit-"+name, c.code, append([]string{"fit", "-f", file, "--kubeconfig", w.kubeconfig()}, c.args...)...)
		})
	}
}

// TestNodesShowDevicesOfDrivers: the output for a named node has its devices, and the claims of its
// pods.
func TestNodesShowDevicesOfDrivers(t *testing.T) {
	w := claimsWorld(t)
	w.addClaim("far", 1, "n2/gpu-0")
	w.pods[0].Annotations = map[string]string{wire.ClaimsAnnotation: "near"}
	w.pods[0].Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: new("far")}}
	w.pods[0].Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "gpu"}}
	for name, args := range map[string][]string{"table": nil, "json": {"-o", "jsonpath={.nodes[0].driven}"}} {
		runGolden(t, "claims-node-"+name, ExitOK, append([]string{"node", "n2", "--kubeconfig", w.kubeconfig()}, args...)...)
	}
	w.forbidden = map[string]bool{"/apis/resource.k8s.io/v1/resourceslices": true}
	if _, _, stderr := run(t, "node", "n2", "--kubeconfig", w.kubeconfig()); !strings.Contains(stderr, "no permission to read resource slices") {
		t.Errorf("slices that may not be read: %q", stderr)
	}
	w.forbidden, w.classes = nil, nil
	if _, stdout, stderr := run(t, "node", "n2", "--kubeconfig", w.kubeconfig()); strings.Contains(stdout+stderr, "resource") {
		t.Errorf("no driver anywhere: %q %q", stdout, stderr)
	}
}

// TestExplainClaimsBadInput: missing, unreadable or wrong objects are named, and the rest is
// answered.
func TestExplainClaimsBadInput(t *testing.T) {
	const dra = "/apis/resource.k8s.io/v1/"
	for name, c := range map[string]struct {
		spoil func(*world, *corev1.Pod, *resourcev1.ResourceClaim)
		want  []string
	}{
		"no claim": {func(w *world, _ *corev1.Pod, _ *resourcev1.ResourceClaim) { w.claims = w.claims[:0] }, []string{"there is no ResourceClaim default/one"}},
		"not made": {func(_ *world, p *corev1.Pod, _ *resourcev1.ResourceClaim) {
			of := "t"
			p.Spec.ResourceClaims[0].ResourceClaimName, p.Spec.ResourceClaims[0].ResourceClaimTemplateName = nil, &of
		}, []string{"has not yet created the ResourceClaim from ResourceClaimTemplate t"}},
		"names neither": {func(_ *world, p *corev1.Pod, _ *resourcev1.ResourceClaim) {
			p.Spec.ResourceClaims[0].ResourceClaimName = nil
		}, []string{"my-one"}},
		"of another pod": {func(_ *world, p *corev1.Pod, c *resourcev1.ResourceClaim) {
			of := "t"
			p.Spec.ResourceClaims[0].ResourceClaimName, p.Spec.ResourceClaims[0].ResourceClaimTemplateName = nil, &of
			p.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "my-one", ResourceClaimName: &c.Name}}
		}, []string{"was not created for this pod"}},
		"adminAccess": {func(_ *world, _ *corev1.Pod, c *resourcev1.ResourceClaim) {
			yes := true
			c.Spec.Devices.Requests[0].Exactly.AdminAccess = &yes
		}, []string{"request r has adminAccess"}},
		"shared": {func(_ *world, _ *corev1.Pod, c *resourcev1.ResourceClaim) {
			c.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: "x", UID: "y"}}
		}, []string{"is shared with pod x"}},
		"no class": {func(_ *world, _ *corev1.Pod, c *resourcev1.ResourceClaim) {
			c.Spec.Devices.Requests[0].Exactly.DeviceClassName = "lost"
		}, []string{"deviceClassName lost: want a DeviceClass that exists"}},
		"bad selector": {func(w *world, _ *corev1.Pod, _ *resourcev1.ResourceClaim) {
			w.classes[0].Spec.Selectors[0].CEL.Expression = "device.("
		}, []string{`selector "device.("`}},
		"selector fails": {func(w *world, _ *corev1.Pod, _ *resourcev1.ResourceClaim) {
			w.classes[0].Spec.Selectors[0].CEL.Expression = `device.attributes["x.y"].z`
		}, []string{"selector"}},
		"empty selector": {func(w *world, _ *corev1.Pod, _ *resourcev1.ResourceClaim) { w.classes[0].Spec.Selectors[0].CEL = nil }, []string{"request r: a selector has no field cel: want a CEL expression"}},
		"no request":     {func(_ *world, _ *corev1.Pod, c *resourcev1.ResourceClaim) { c.Spec.Devices.Requests[0].Exactly = nil }, []string{`request r has neither the field "exactly" nor "firstAvailable": want one of them`}},
		"no constraint": {func(w *world, _ *corev1.Pod, c *resourcev1.ResourceClaim) {
			c.Spec.Devices.Constraints = []resourcev1.DeviceConstraint{{}}
		}, []string{"claim my-one"}},
		"no slices":         {func(w *world, _ *corev1.Pod, _ *resourcev1.ResourceClaim) { w.slices = nil }, []string{"no device on NUMA node 0, where the pod's CPUs would be, matches"}},
		"slices forbidden":  {func(w *world, _ *corev1.Pod, _ *resourcev1.ResourceClaim) { w.forbidden[dra+"resourceslices"] = true }, []string{"note: no permission to read resource slices", "ResourceSlices are not known"}},
		"classes forbidden": {func(w *world, _ *corev1.Pod, _ *resourcev1.ResourceClaim) { w.forbidden[dra+"deviceclasses"] = true }, []string{"note: no permission to read device classes", "DeviceClasses are not known"}},
		"claims forbidden":  {func(w *world, _ *corev1.Pod, _ *resourcev1.ResourceClaim) { w.forbidden[dra+"resourceclaims"] = true }, []string{"no permission to read resource claims of other namespaces, so devices that are allocated to them count as free", "would get gpu.example.com/gpu-0"}},
		"all claims forbidden": {func(w *world, _ *corev1.Pod, _ *resourcev1.ResourceClaim) {
			w.forbidden[dra+"resourceclaims"], w.forbidden[dra+"namespaces/default/resourceclaims"] = true, true
		}, []string{"note: no permission to read resource claims", "ResourceClaims are not known"}},
		"not served":      {func(w *world, _ *corev1.Pod, _ *resourcev1.ResourceClaim) { w.classes = nil }, []string{"does not serve resource.k8s.io/v1"}},
		"nodes forbidden": {func(w *world, _ *corev1.Pod, _ *resourcev1.ResourceClaim) { w.forbidden["/api/v1/nodes"] = true }, []string{"would get gpu.example.com/gpu-0"}},
		"unreadable asks": {func(_ *world, p *corev1.Pod, _ *resourcev1.ResourceClaim) {
			p.Annotations[wire.ClaimsAnnotation] = "next"
		}, []string{"near or required", "claim my-one"}},
		"strange NUMA": {func(w *world, _ *corev1.Pod, _ *resourcev1.ResourceClaim) {
			n := int64(7)
			w.slices[0].Spec.Devices[0].Attributes[claims.StandardNUMANode] = resourcev1.DeviceAttribute{IntValue: &n}
		}, []string{"unknown", "numaNode: 7: want a NUMA node of the machine"}},
		"escape in a name": {func(w *world, _ *corev1.Pod, _ *resourcev1.ResourceClaim) {
			w.slices[0].Spec.Devices[0].Name = "a\x1b[2J"
		}, []string{"gpu.example.com/"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := claimsWorld(t)
			w.forbidden = map[string]bool{}
			claim := w.addClaim("one", 1)
			c.spoil(w, w.addUser("pod", "", "required", 2, "one"), claim)
			_, stdout, stderr := run(t, "explain", "pod", "--kubeconfig", w.kubeconfig())
			said := stdout + stderr
			for _, text := range append(c.want, "pod default/pod: pending") {
				if !strings.Contains(said, text) {
					t.Errorf("want %q in\n%s", text, said)
				}
			}
			if strings.ContainsRune(said, 0x1b) {
				t.Errorf("an escape sequence came through: %q", said)
			}
		})
	}
}

// TestClaimsOfASnapshot: a snapshot gives the same answers about claims as the cluster, and has no
// data that is meant for drivers.
func TestClaimsOfASnapshot(t *testing.T) {
	w := claimsWorld(t)
	hush := resourcev1.DeviceConfiguration{Opaque: &resourcev1.OpaqueDeviceConfiguration{Driver: gpuDriver}}
	hush.Opaque.Parameters.Raw = []byte(`{"password":"hush"}`)
	w.classes[0].Spec.Config = []resourcev1.DeviceClassConfiguration{{DeviceConfiguration: hush}}
	w.addClaim("one", 1).Spec.Devices.Config = []resourcev1.DeviceClaimConfiguration{{DeviceConfiguration: hush}}
	had := w.addClaim("had", 1, "n1/gpu-1")
	had.Annotations = map[string]string{"note": "hush"}
	had.Status.Allocation.Devices.Config = []resourcev1.DeviceAllocationConfiguration{{DeviceConfiguration: hush}}
	had.Status.Devices = []resourcev1.AllocatedDeviceStatus{{Driver: gpuDriver, Data: &hush.Opaque.Parameters}}
	w.addUser("pod", "", "required", 2, "one", "had")
	config, path := w.kubeconfig(), filepath.Join(t.TempDir(), "cluster.berth")
	if code, _, stderr := run(t, "snapshot", path, "--kubeconfig", config); code != ExitOK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	if text := unpackedSnapshot(t, path); strings.Contains(text, "hush") {
		t.Error("the file holds what only drivers should know")
	}
	_, live, _ := run(t, "explain", "pod", "--kubeconfig", config)
	_, still, _ := run(t, "explain", "pod", "--snapshot", path)
	if live != still || !strings.Contains(live, "claim my-had") {
		t.Errorf("of the snapshot:\n%s\nof the cluster:\n%s", still, live)
	}
}

// TestClaimsAreReadOnlyIfAsked: for a pod without claims, there is no request for devices.
func TestClaimsAreReadOnlyIfAsked(t *testing.T) {
	w := claimsWorld(t)
	w.addPod("pod", "", 2, 0)
	run(t, "explain", "pod", "--kubeconfig", w.kubeconfig())
	if i := slices.IndexFunc(w.requests, func(r string) bool { return strings.Contains(r, "/resource.k8s.io/") }); i >= 0 {
		t.Errorf("asked for %s", w.requests[i])
	}
}

// TestManyDevices: the numbers of device names and of nodes in the output are limited.
func TestManyDevices(t *testing.T) {
	w := claimsWorld(t)
	for i := range 40 {
		name := fmt.Sprintf("m%02d", i)
		w.addNode(name, time.Second)
		w.addTopology(reportOf(t, name), nil)
	}
	w.slices = w.slices[:0]
	w.addGPUs("n1", make([]int64, 10_000)...)
	w.addGPUs("n4", 1)
	w.addClaim("one", 1)
	w.addUser("pod", "", "near", 2, "one")
	_, stdout, stderr := run(t, "explain", "pod", "--kubeconfig", w.kubeconfig())
	for _, want := range []string{
		"gpu.example.com/gpu-1, gpu.example.com/gpu-10, gpu.example.com/gpu-100, 9996 more", "13 other nodes not asked; --node NAME asks one node",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("want %q in\n%s%s", want, stdout, stderr)
		}
	}
	_, stdout, _ = run(t, "explain", "pod", "--node", "n4", "--kubeconfig", w.kubeconfig())
	if want := "no device on NUMA node 0, where the pod's CPUs would be, matches the claim's requests; it would get gpu.example.com/gpu-0\n"; !strings.Contains(stdout, want) {
		t.Errorf("want %q in\n%s", want, stdout)
	}
}

// TestTopologyOfANode prints the machine that the node's agent reported, and the slices that
// contradict it.
func TestTopologyOfANode(t *testing.T) {
	w := claimsWorld(t)
	seven, text := int64(7), "0"
	w.slices[0].Spec.Devices[0].Attributes[claims.StandardNUMANode] = resourcev1.DeviceAttribute{IntValue: &seven}
	w.slices[0].Spec.Devices[1].Attributes[claims.StandardNUMANode] = resourcev1.DeviceAttribute{StringValue: &text}
	config := w.kubeconfig()
	w.addNode("bare", time.Second)
	code, stdout, stderr := run(t, "topology", "node/n1", "-o", "string", "--kubeconfig", config)
	if code != ExitOK || strings.TrimSpace(stdout) != twoSockets {
		t.Errorf("exit code %d: %q, want %s", code, stdout, twoSockets)
	}
	for _, want := range []string{
		"note: device gpu.example.com/n1/gpu-0: resource.kubernetes.io/numaNode: 7: want a NUMA node of the machine\n",
		"note: device gpu.example.com/n1/gpu-1: resource.kubernetes.io/numaNode is a string: want an int, or a list of ints\n",
	} {
		if !strings.Contains(stderr, want) {
			t.Errorf("want %q in %s", want, stderr)
		}
	}
	if strings.Contains(stderr, "gpu-2") {
		t.Errorf("a device that contradicts nothing is named: %s", stderr)
	}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"node/lost"}, ExitFailure, "there is no Node lost"},
		{[]string{"node/bare"}, ExitFailure, "node bare: no NodeTopology"},
		{[]string{"node/n1", "--root", "/"}, ExitUsage, "want only one of --lscpu, --root, --node or an argument"},
	} {
		code, _, stderr := run(t, append(append([]string{"topology"}, c.args...), "--kubeconfig", config)...)
		if code != c.code || !strings.Contains(stderr, c.want) {
			t.Errorf("%v: exit code %d, %s; want %d and %q", c.args, code, stderr, c.code, c.want)
		}
	}
}
