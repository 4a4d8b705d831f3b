package vm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// What the agents of the machines offer: what only computes, as a vendor's CDI specification
// describes it; cards and disks, as the agent does.
const (
	decidedGPU  = "berth.test/accel"
	decidedNIC  = "berth.test/card"
	decidedDisk = "berth.test/disk"

	decidedDevices = `resources:
- {resource: ` + decidedGPU + `, vendor: "` + eduVendor + `", product: "` + eduProduct + `", cdi: {kind: vendor.test/accel, names: address}}
- {resource: ` + decidedNIC + `, class: nic, vendor: "` + cardVendor + `"}
- {resource: ` + decidedDisk + `, class: nvme, vendor: "` + diskVendor + `"}
`
	// vendorsTool writes the vendor's specification, as its tool would.
	vendorsTool = `mkdir -p /etc/cdi; (echo 'cdiVersion: 0.6.0'; echo 'kind: vendor.test/accel'; echo 'devices:'
for d in /sys/bus/pci/devices/*; do
  [ "$(cat $d/device)" = 0x` + eduProduct + ` ] && echo "- {name: '${d##*/}', containerEdits: {env: ['VENDOR_$(echo ${d##*/} | tr :. __)=given']}}"
done) > /etc/cdi/vendor.yaml
`
)

// decidedRun is a run of TestDecidedDevices.
type decidedRun struct {
	*enforceRun
	hardware   map[string]map[string]function // of each machine, by address
	misaligned map[string]string
}

// function is what sysfs in the guest says of a device.
type function struct {
	numa   topology.NUMAID
	above  string   // the upstream port of its switch
	disks  []string // block devices of it
	vendor string
}

// TestDecidedDevices plays pods from a seed, which ask for CPUs and devices, on two machines of
// different shape where Berth decides. Their real kubelets count devices, their real containerd
// injects them. All the time the test reads where every process runs and which devices it has been
// given, and at rest from sysfs where these lie. Agent, containerd and kubelet are killed now and
// then.
func TestDecidedDevices(t *testing.T) {
	requireVM(t, "devices")
	r := &decidedRun{enforceRun: newEnforceRun(t), hardware: map[string]map[string]function{}, misaligned: map[string]string{}}
	r.make, r.disturb, r.pci, r.pools = r.newPod, r.kill, true, map[string][]placement.DevicePool{}
	r.startOn()
	wrong := r.play()
	r.tell(wrong)
}

// startOn boots the machines and reads their hardware.
func (r *decidedRun) startOn() {
	r.files = map[string][]byte{
		"start.sh":     []byte(vendorsTool + "cat > /etc/containerd.toml <<'END'\n" + validated + "END\n"),
		"devices.yaml": []byte(decidedDevices),
	}
	r.agentFlags = "--authority=berth --debug --devices=/etc/berth/devices.yaml"
	for i, shape := range []Shape{twoByTwo, oneByTwo} {
		m := r.node(fmt.Sprintf("vm-%c", 'a'+i), shape, enforceSettings)
		r.machines = append(r.machines, m)
		r.hardware[m.Name] = r.readHardware(m)
		r.awaitPools(m, true)
		reported := r.reported(m.Name)
		r.shapes[m.Name], r.pools[m.Name] = reported.Spec.Machine, reported.Report.Snapshot.Devices
		r.sameHardware(m)
	}
	r.berthScheduler()
	r.follow()
}

// readHardware reads what sysfs says of every PCI device.
func (r *decidedRun) readHardware(m *Machine) map[string]function {
	r.t.Helper()
	out, err := m.Guest.Run(r.t.Context(), `cd /sys/bus/pci/devices; for d in *; do
echo "$d $(cat $d/numa_node) $(readlink $d) $(cat $d/vendor) $(cd $d; echo nvme/nvme*/nvme*n*)"; done`)
	if err != nil {
		r.t.Fatal(err)
	}
	all := map[string]function{}
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		if len(fields) < 4 {
			r.t.Fatalf("sysfs: %q", line)
		}
		f := function{vendor: strings.TrimPrefix(fields[3], "0x")}
		if n, err := strconv.Atoi(fields[1]); err == nil && n >= 0 {
			f.numa = topology.NUMAID(n)
		}
		// pci0000:18/0000:18:00.0/0000:19:00.0/0000:1a:01.0/0000:1c:00.0: root port, upstream port,
		// downstream port, device
		if parts := strings.Split(fields[2], "/"); len(parts) > 4 {
			f.above = parts[len(parts)-3]
		}
		for _, disk := range fields[4:] {
			if !strings.Contains(disk, "*") {
				f.disks = append(f.disks, path.Base(disk))
			}
		}
		all[fields[0]] = f
	}
	return all
}

// sameHardware holds what the agent tells of offered devices against sysfs.
func (r *decidedRun) sameHardware(m *Machine) {
	r.t.Helper()
	count, machine := 0, r.shapes[m.Name]
	for _, p := range r.pools[m.Name] {
		for _, d := range p.Devices {
			f, there := r.hardware[m.Name][d.ID]
			count++
			if got := machine.Device(d.ID); !there || got == nil || !p.Decided || d.NUMA != topology.NewNUMASet(f.numa) || got.NUMA != f.numa || got.Switch != f.above {
				r.t.Errorf("%s: %s %s is told as %+v, %+v; sysfs says %+v", m.Name, p.Resource, d.ID, d, got, f)
			}
		}
	}
	if want := 4 * m.Shape.NUMANodes(); count != want {
		r.t.Fatalf("%s offers %d devices, want %d", m.Name, count, want)
	}
}

// awaitPools waits until the report says that the devices are well, or are not.
func (r *decidedRun) awaitPools(m *Machine, well bool) {
	r.t.Helper()
	r.eventually(fmt.Sprintf("the report of %s says that its devices are well: %t", m.Name, well), func(context.Context) error {
		pools := r.reported(m.Name).Report.Snapshot.Devices
		for _, p := range pools {
			for _, d := range p.Devices {
				if d.Unhealthy == well {
					return fmt.Errorf("%+v", pools)
				}
			}
		}
		if len(pools) != 3 {
			return fmt.Errorf("pools %+v", pools)
		}
		return nil
	})
}

// newPod makes a pod that asks for CPUs and devices, and for these to lie together.
func (r *decidedRun) newPod(i int) *corev1.Pod {
	pick := func(words ...string) string { return words[r.rng.IntN(len(words))] }
	pod := pinnedPod(fmt.Sprint("p", i), 1+r.rng.IntN(2))
	grace := int64(1)
	pod.Spec.TerminationGracePeriodSeconds = &grace
	main := &pod.Spec.Containers[0]
	if r.rng.IntN(4) == 0 { // shares
		main.Resources = corev1.ResourceRequirements{Limits: corev1.ResourceList{}, Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("200m"), corev1.ResourceMemory: resource.MustParse("32Mi"),
		}}
	}
	pod.Annotations = map[string]string{}
	if policy := pick("", "best-effort", "restricted", "single-numa-node", "single-numa-node"); policy != "" {
		pod.Annotations[wire.PolicyAnnotation] = policy
	}
	ask := func(name string, n int) {
		if n > 0 {
			setBoth(&main.Resources, corev1.ResourceName(name), *resource.NewQuantity(int64(n), resource.DecimalSI))
		}
	}
	switch r.rng.IntN(5) {
	case 0:
		ask(decidedGPU, 1)
	case 1:
		ask(decidedGPU, 2)
	case 2:
		ask(decidedGPU, 1)
		ask(decidedNIC, 1)
		pod.Annotations[wire.DevicesAnnotation] = pick("one-switch", "same-switch", "one-root,preferred")
	case 3:
		ask(decidedDisk, 1)
	case 4:
		ask(decidedGPU, 1)
		ask(decidedDisk, 1)
		pod.Annotations[wire.DevicesAnnotation] = pick("one-switch", "one-switch,preferred")
	}
	if r.rng.IntN(4) == 0 {
		init := *main.DeepCopy()
		init.Name, init.Command = "i", []string{"/bin/sh", "-c", "sleep 1"}
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, init)
	}
	return pod
}

// kill kills something now and then. A kubelet is killed when no pod is on its way: one that starts
// refuses pods that it has not admitted yet and that ask for what no plugin has offered to it.
func (r *decidedRun) kill(int) {
	r.t.Helper()
	if r.rng.IntN(4) > 0 {
		return
	}
	m := r.machines[r.rng.IntN(len(r.machines))]
	what := []string{"berth-agent", "containerd", "kubelet"}[r.rng.IntN(3)]
	if what == "kubelet" {
		r.eventually("no pod is on its way", func(context.Context) error {
			if n := r.onTheirWay(); n > 0 {
				return fmt.Errorf("%d pods are", n)
			}
			return nil
		})
		r.do(m, "loses its "+what, "touch /run/kubelet-hold; killall -9 kubelet")
		r.awaitPools(m, false)
		r.do(m, "gets it back", "rm /run/kubelet-hold")
		r.awaitPools(m, true)
		return
	}
	r.do(m, "loses its "+what, "killall -9 "+what)
}

// play is that of enforceRun, and a look at the hardware before all pods go.
func (r *decidedRun) play() string {
	r.t.Helper()
	r.rest = r.aligned
	return r.enforceRun.play()
}

// aligned looks, when nothing moves, where the devices of each container lie: on the NUMA nodes of
// its CPUs and below one switch where the pod wants that, as sysfs has them; and that the container
// has the nodes of its disks and of no others. The text says what cannot be read.
func (r *decidedRun) aligned() string {
	for _, m := range r.machines {
		r.mu.Lock()
		there := slices.DeleteFunc(r.on(m), func(p *corev1.Pod) bool { return p.Status.Phase != corev1.PodRunning || p.DeletionTimestamp != nil })
		r.mu.Unlock()
		for _, pod := range there {
			if err := r.lookAt(m, pod); err != nil {
				return fmt.Sprintf("%s on %s: %v", pod.Name, m.Name, err)
			}
		}
	}
	return ""
}

// lookAt looks at one pod.
func (r *decidedRun) lookAt(m *Machine, pod *corev1.Pod) error {
	i := slices.IndexFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == "c" })
	if i < 0 {
		return errors.New("no status of its container")
	}
	_, id, _ := strings.Cut(pod.Status.ContainerStatuses[i].ContainerID, "://")
	out, err := m.Guest.Run(r.t.Context(), `for p in $(grep -l `+id+` /proc/[0-9]*/cgroup | cut -d/ -f3 | sort -n | head -1); do
grep Cpus_allowed_list /proc/$p/status; tr '\0' '\n' < /proc/$p/environ | grep PCIDEVICE_; tr '\0' '\n' < /proc/$p/environ | grep VENDOR_
for n in /proc/$p/root/dev/nvme*; do [ -b $n ] && echo "disk ${n##*/}"; done; done; true`)
	if err != nil {
		return err
	}
	place, found, err := wire.ReadPlacement(pod)
	if err != nil || !found {
		return fmt.Errorf("placement found %t: %w", found, err)
	}
	at := slices.IndexFunc(place.Decision.Containers, func(c placement.ContainerDecision) bool { return c.Name == "c" })
	if at < 0 {
		return errors.New("no decision")
	}
	decided := map[string]bool{}
	for _, d := range place.Decision.Containers[at].Devices {
		for _, address := range d.IDs {
			decided[address] = true
		}
	}
	seen := readContainer(out)
	var wrong []string
	if !maps.Equal(seen.addresses, decided) {
		wrong = append(wrong, fmt.Sprintf("finds devices %v, its Binding names %v", seen.addresses, decided))
	}
	var numa topology.NUMASet
	above, disks, vendors := map[string]bool{}, map[string]bool{}, 0
	for address := range seen.addresses {
		f := r.hardware[m.Name][address]
		numa |= topology.NewNUMASet(f.numa)
		above[f.above] = true
		for _, d := range f.disks {
			disks[d] = true
		}
		if f.vendor == eduVendor {
			vendors++
		}
	}
	if !maps.Equal(seen.disks, disks) {
		wrong = append(wrong, fmt.Sprintf("has the disks %v, sysfs gives its devices %v", seen.disks, disks))
	}
	if seen.vendors != vendors {
		wrong = append(wrong, fmt.Sprintf("has %d variables of the vendor's specification for %d of its devices", seen.vendors, vendors))
	}
	if pinned := place.Decision.Containers[at].CPUs; !pinned.IsEmpty() {
		if seen.cpus != pinned {
			wrong = append(wrong, fmt.Sprintf("runs on %s, its Binding says %s", seen.cpus, pinned))
		}
		numa |= r.numaOf(m, seen.cpus)
	}
	if pod.Annotations[wire.PolicyAnnotation] == "single-numa-node" && numa.Len() > 1 {
		wrong = append(wrong, fmt.Sprintf("lies on NUMA nodes %s, wants one", numa))
	}
	if wish := pod.Annotations[wire.DevicesAnnotation]; (wish == "one-switch" || wish == "same-switch") && len(above) != 1 {
		wrong = append(wrong, fmt.Sprintf("has devices below %v, wants one switch", above))
	}
	fmt.Printf("%-5s %-5s CPUs %-8s NUMA %-4s devices %v below %v\n", m.Name, pod.Name, seen.cpus, numa, slices.Sorted(maps.Keys(seen.addresses)), slices.Sorted(maps.Keys(above)))
	if len(wrong) > 0 {
		r.misaligned[pod.Name] = strings.Join(wrong, "; ")
	}
	return nil
}

// seenContainer is what a container's process says of itself.
type seenContainer struct {
	cpus      topology.CPUSet
	addresses map[string]bool
	disks     map[string]bool
	vendors   int // variables of the vendor's specification
}

func readContainer(out string) seenContainer {
	c := seenContainer{addresses: map[string]bool{}, disks: map[string]bool{}}
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		if list, ok := strings.CutPrefix(line, "Cpus_allowed_list:"); ok {
			c.cpus, _ = topology.ParseCPUList(strings.TrimSpace(list)) // the kernel writes lists
		}
		if disk, ok := strings.CutPrefix(line, "disk "); ok {
			c.disks[disk] = true
		}
		name, value, _ := strings.Cut(line, "=")
		switch {
		case strings.HasPrefix(name, "PCIDEVICE_"):
			for address := range strings.SplitSeq(value, ",") {
				c.addresses[address] = true
			}
		case strings.HasPrefix(name, "VENDOR_"):
			c.vendors++
		}
	}
	return c
}

// decidedResult is the last line.
type decidedResult struct {
	Seed       uint64 `json:"seed"`
	Pods       int    `json:"pods"`
	Running    int    `json:"running"`
	Misaligned int    `json:"misaligned"`
	Refused    int    `json:"refused"`
	HeldTwice  int    `json:"heldTwice"`
	Leftover   int    `json:"leftover"`
}

// tell prints the last line, keeps it in a file and fails the test where something is not as it
// should be. What runs beside its Binding is misaligned.
func (r *decidedRun) tell(wrong string) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.Copy(r.misaligned, r.faults.Outside)
	maps.Copy(r.misaligned, r.faults.Unconfined)
	result := decidedResult{Seed: r.result.Seed, Pods: r.result.Pods, Running: len(r.ran), Misaligned: len(r.misaligned), Refused: len(r.refused),
		HeldTwice: len(r.faults.HeldTwice), Leftover: r.result.Leftover}
	if wrong != "" {
		r.t.Error(wrong)
	}
	if result.Misaligned+result.Refused+result.HeldTwice+result.Leftover > 0 {
		r.t.Errorf("misaligned %v\nheld twice %v\nrefused %v\nleft over %d", r.misaligned, r.faults.HeldTwice, r.refused, result.Leftover)
	}
	line, err := json.Marshal(result)
	if err == nil {
		err = os.WriteFile(filepath.Join(filepath.Dir(r.dir), "devices.json"), append(line, '\n'), 0o644)
	}
	if err != nil {
		r.t.Error(err)
	}
	fmt.Println(string(bytes.TrimSpace(line)))
}
