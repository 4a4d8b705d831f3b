package vm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/topology"
)

// The driver of the DRA part publishes the NUMA node of compute devices and the address of disks.
// The last device is listed first, so that the allocator by itself chooses a device away from the
// CPUs.
const (
	claimDriver = "pci.vm.test"
	claimFlags  = "-name " + claimDriver + " -vendors " + eduVendor + "," + diskVendor + " -backwards"
	perNUMANode = 3 // two compute devices and a disk
)

// claimObjects are the class of devices, and templates for a compute device, a disk, and one of
// each.
const claimObjects = `apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: pci}
spec: {selectors: [{cel: {expression: 'device.driver == "` + claimDriver + `"'}}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: accel, namespace: default}
spec: {spec: {devices: {requests: [` + claimAccel + `]}}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: disk, namespace: default}
spec: {spec: {devices: {requests: [` + claimDisk + `]}}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: both, namespace: default}
spec: {spec: {devices: {requests: [` + claimAccel + `, ` + claimDisk + `]}}}
`

const (
	claimAccel = `{name: accel, exactly: {deviceClassName: pci, selectors: [{cel: {expression: 'device.attributes["` + claimDriver + `"].vendor == "` + eduVendor + `"'}}]}}`
	claimDisk  = `{name: disk, exactly: {deviceClassName: pci, selectors: [{cel: {expression: 'device.attributes["` + claimDriver + `"].vendor == "` + diskVendor + `"'}}]}}`
)

// claimsResult is the last line. Strayed pods have no berth.dev/claims, and a device away from
// their CPUs. Without any strayed pod the load would prove nothing.
type claimsResult struct {
	Pods       int `json:"pods"`
	Aligned    int `json:"aligned"`
	Strayed    int `json:"strayed"`
	Misaligned int `json:"misaligned"`
	Lacking    int `json:"lacking"` // devices of the claim that a process lacks, or other devices that it has
	Leftover   int `json:"leftover"`
}

// TestClaims runs pods with ResourceClaims on two real kubelets, one that chooses CPUs and one
// where Berth does. A sample driver prepares the claims, and a real containerd injects the devices
// by CDI. If the pod asked for it, the CPUs and devices of each process are on one NUMA node.
func TestClaims(t *testing.T) {
	requireVM(t, "dra")
	c := newCluster(t)
	if err := c.ControlPlane.Apply(t.Context(), []byte(claimObjects)); err != nil {
		t.Fatal(err)
	}
	if err := c.StartControllers(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.pci, c.files = true, map[string][]byte{"driver": []byte(claimFlags)}
	predicted := c.node("vm-a", twoByTwo, restricted)
	c.agentFlags = "--authority=berth"
	c.files = map[string][]byte{"driver": []byte(claimFlags), "start.sh": []byte(runtimeFile(validated))}
	decided := c.node("vm-b", oneByTwo, enforceSettings)
	machines := map[string]*Machine{predicted.Name: predicted, decided.Name: decided}
	hardware := map[string]map[string]function{}
	for name, m := range machines {
		c.reported(name)
		hardware[name] = c.readHardware(m)
	}
	c.eventually("the drivers offer all devices", func(ctx context.Context) error {
		list, err := c.Client.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		offered := map[string]int{}
		for i := range list.Items {
			offered[list.Items[i].Spec.Pool.Name] += len(list.Items[i].Spec.Devices)
		}
		for name, m := range machines {
			if offered[name] != perNUMANode*m.Shape.NUMANodes() {
				return fmt.Errorf("devices by node: %v", offered)
			}
		}
		return nil
	})
	c.berthScheduler()
	r := claimsResult{}
	fmt.Println("POD        NODE  ASKS      CPUS     NUMA  DEVICES")
	// The pods are created one after the other, so that the CPUs of each are certain.
	for _, one := range []struct {
		node, asks, template string
		cpus                 int
	}{
		// vm-a's kubelet fills NUMA node 0, then uses the first NUMA node with room.
		{"vm-a", "", "accel", 1}, {"vm-a", "required", "accel", 2}, {"vm-a", "required", "both", 2}, {"vm-a", "required", "disk", 3}, {"vm-a", "near", "accel", 3},
		{"vm-b", "", "disk", 1}, {"vm-b", "required", "accel", 1}, {"vm-b", "required", "disk", 1}, {"vm-b", "required", "accel", 2},
	} {
		pod := pinnedPod(fmt.Sprintf("%s-%d", one.template, r.Pods), one.cpus)
		pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: one.node}
		pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "c", ResourceClaimTemplateName: &one.template}}
		pod.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "c"}}
		pod.Annotations = map[string]string{}
		if one.asks != "" {
			pod.Annotations[wire.ClaimsAnnotation] = one.asks
		}
		if _, err := c.Client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		c.judgeClaims(machines[one.node], hardware[one.node], c.running(pod.Name), &r)
		r.Pods++
	}
	r.Leftover = c.claimsLeft(machines)
	line, err := json.Marshal(r)
	if err == nil {
		err = os.WriteFile(filepath.Join(filepath.Dir(c.dir), "dra.json"), append(line, '\n'), 0o644)
	}
	if err != nil || r.Misaligned+r.Lacking+r.Leftover > 0 || r.Strayed == 0 || r.Aligned == 0 {
		t.Errorf("%s, %v", line, err)
	}
	fmt.Println(string(line))
}

// seen are the addresses that a process has in its environment, and the disks in its /dev.
type seen struct{ addresses, disks []string }

// seenBy reads the devices of a container's first process.
func (c *cluster) seenBy(m *Machine, pod *corev1.Pod) (out seen) {
	c.t.Helper()
	_, id, _ := strings.Cut(pod.Status.ContainerStatuses[0].ContainerID, "://")
	text, err := m.Guest.Run(c.t.Context(), `for p in $(grep -l `+id+` /proc/[0-9]*/cgroup | cut -d/ -f3 | sort -n | head -1); do
tr '\0' '\n' < /proc/$p/environ | grep ^CLAIMED_; for d in /proc/$p/root/dev/nvme*; do [ -b $d ] && echo DISK=${d##*/}; done; done; true`)
	if err != nil {
		c.t.Fatal(err)
	}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		if name == "DISK" {
			out.disks = append(out.disks, value)
		} else {
			out.addresses = append(out.addresses, value)
		}
	}
	slices.Sort(out.addresses)
	slices.Sort(out.disks)
	return out
}

// judgeClaims compares the NUMA nodes of a process's CPUs and devices, from proc and sysfs, and the
// devices with those of the claim.
func (c *cluster) judgeClaims(m *Machine, hardware map[string]function, pod *corev1.Pod, r *claimsResult) {
	c.t.Helper()
	claim, err := c.Client.ResourceV1().ResourceClaims("default").Get(c.t.Context(), *pod.Status.ResourceClaimStatuses[0].ResourceClaimName, metav1.GetOptions{})
	if err != nil || claim.Status.Allocation == nil {
		c.t.Fatalf("the claim of pod %s: %v, %+v", pod.Name, err, claim.Status)
	}
	var want seen
	for _, d := range claim.Status.Allocation.Devices.Results {
		for address, f := range hardware {
			if "pci-"+strings.NewReplacer(":", "-", ".", "-").Replace(address) == d.Device {
				want.addresses, want.disks = append(want.addresses, address), append(want.disks, f.disks...)
			}
		}
	}
	slices.Sort(want.addresses)
	slices.Sort(want.disks)
	got, runs := c.seenBy(m, pod), c.confined(m, pod, "c")
	numa, devices := c.numaOf(m, runs.CPUs), topology.NUMASet(0)
	for _, address := range got.addresses {
		devices = devices.With(hardware[address].numa)
	}
	for address, f := range hardware {
		if slices.ContainsFunc(f.disks, func(d string) bool { return slices.Contains(got.disks, d) }) {
			devices = devices.With(hardware[address].numa)
		}
	}
	asks := pod.Annotations[wire.ClaimsAnnotation]
	fmt.Printf("%-10s %-5s %-9s %-8s %-5s %v %v on NUMA node %s\n", pod.Name, m.Name, asks, runs.CPUs, numa, got.addresses, got.disks, devices)
	if !slices.Equal(got.addresses, want.addresses) || !slices.Equal(got.disks, want.disks) {
		r.Lacking++
		c.t.Errorf("pod %s sees %v, its claim has %v", pod.Name, got, want)
	}
	switch far := devices&^numa != 0 || devices == 0; {
	case asks == "" && far:
		r.Strayed++
	case asks != "" && far:
		r.Misaligned++
		c.t.Errorf("pod %s runs on NUMA node %s, its devices are on %s", pod.Name, numa, devices)
	case asks != "":
		r.Aligned++
	}
}

// claimsLeft deletes all pods, and counts the remains of their claims.
func (c *cluster) claimsLeft(machines map[string]*Machine) (left int) {
	c.t.Helper()
	if err := c.Client.CoreV1().Pods("default").DeleteCollection(c.t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		c.t.Fatal(err)
	}
	c.eventually("pods and claims are gone", func(ctx context.Context) error {
		pods, err := c.Client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
		claims, wrong := c.Client.ResourceV1().ResourceClaims("default").List(ctx, metav1.ListOptions{})
		if err = errors.Join(err, wrong); err == nil && len(pods.Items)+len(claims.Items) > 0 {
			err = fmt.Errorf("%d pods and %d claims", len(pods.Items), len(claims.Items))
		}
		return err
	})
	for name, m := range machines { // the prepared claims in the kubelet's checkpoint
		out, err := m.Guest.Run(c.t.Context(), "cat "+path.Join("/var/lib/kubelet", "dra_manager_state"))
		if err != nil {
			c.t.Fatal(err)
		}
		if strings.Contains(out, "ClaimUID") {
			left++
			c.t.Errorf("%s: %s", name, out)
		}
	}
	return left
}
