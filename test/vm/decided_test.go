package vm

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/placement/joint"
	"github.com/berth-dev/berth/test/obeyed"
	"github.com/berth-dev/berth/topology"
)

// The agents offer compute devices with a vendor's CDI specification, and network cards and disks
// with the agent's own.
const (
	decidedGPU  = "berth.test/accel"
	decidedNIC  = "berth.test/card"
	decidedDisk = "berth.test/disk"

	decidedDevices = `resources:
- {resource: ` + decidedGPU + `, vendor: "` + eduVendor + `", product: "` + eduProduct + `", cdi: {kind: vendor.test/accel, names: address}}
- {resource: ` + decidedNIC + `, class: nic, vendor: "` + cardVendor + `"}
- {resource: ` + decidedDisk + `, class: nvme, vendor: "` + diskVendor + `"}
`
	// vendorsTool writes the vendor's specification, as a vendor's tool would.
	vendorsTool = `mkdir -p /etc/cdi; (echo 'cdiVersion: 0.6.0'; echo 'kind: vendor.test/accel'; echo 'devices:'
for d in /sys/bus/pci/devices/*; do
  [ "$(cat $d/device)" = 0x` + eduProduct + ` ] && echo "- {name: '${d##*/}', containerEdits: {env: ['VENDOR_$(echo ${d##*/} | tr :. __)=given']}}"
done) > /etc/cdi/vendor.yaml
`
)

// decidedRun is a run of TestDecidedDevices.
type decidedRun struct {
	*obeyRun
	hardware map[string]map[string]function // of each machine, by address
}

// function has the guest's sysfs data about a device.
type function struct {
	numa   topology.NUMAID
	root   string   // its root complex
	above  string   // the upstream port of its switch
	disks  []string // its block devices
	vendor string
}

// TestDecidedDevices runs pods from a seed, which ask for CPUs, memory and devices, on two machines
// of different shape where Berth decides. Real kubelets count devices, and a real containerd
// injects them. The test repeatedly reads the CPUs, devices and disks of every process, and
// compares the Bindings with sysfs. Agent, containerd and kubelet are killed sometimes, and a
// machine reboots.
func TestDecidedDevices(t *testing.T) {
	requireVM(t, "devices")
	r := &decidedRun{obeyRun: newObeyRun(t, newDecidedPod), hardware: map[string]map[string]function{}}
	r.inspect, r.pci, r.reboots, r.pools = r.inside, true, 1, map[string][]placement.DevicePool{}
	r.start(twoByTwo, oneByTwo)
	wrong := r.play()
	r.tell(wrong)
}

// start boots machines, reads their hardware, and starts the scheduler.
func (r *decidedRun) start(shapes ...Shape) {
	r.t.Helper()
	r.files = map[string][]byte{
		"start.sh":     []byte(vendorsTool + runtimeFile(validated)),
		"devices.yaml": []byte(decidedDevices),
	}
	r.agentFlags = "--authority=berth --debug --devices=/etc/berth/devices.yaml"
	for i, shape := range shapes {
		m := r.node(fmt.Sprintf("vm-%c", 'a'+i), shape, enforceSettings)
		r.machines = append(r.machines, m)
		r.hardware[m.Name] = r.readHardware(m)
		r.awaitPools(m)
		reported := r.reported(m.Name)
		r.shapes[m.Name], r.pools[m.Name] = reported.Spec.Machine, reported.Report.Snapshot.Devices
		r.sameHardware(m)
	}
	r.berthScheduler()
	r.follow()
}

// readHardware reads sysfs' data about every PCI device.
func (c *cluster) readHardware(m *Machine) map[string]function {
	c.t.Helper()
	out, err := m.Guest.Run(c.t.Context(), `cd /sys/bus/pci/devices; for d in *; do
echo "$d $(cat $d/numa_node) $(readlink $d) $(cat $d/vendor) $(cd $d; echo nvme/nvme*/nvme*n*)"; done`)
	if err != nil {
		c.t.Fatal(err)
	}
	all := map[string]function{}
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		if len(fields) < 4 {
			c.t.Fatalf("sysfs: %q", line)
		}
		f := function{vendor: strings.TrimPrefix(fields[3], "0x")}
		if n, err := strconv.Atoi(fields[1]); err == nil && n >= 0 {
			f.numa = topology.NUMAID(n)
		}
		// pci0000:18/0000:18:00.0/0000:19:00.0/0000:1a:01.0/0000:1c:00.0: root complex, root port,
		// upstream port, downstream port, device
		if parts := strings.Split(fields[2], "/"); len(parts) > 4 {
			f.root, f.above = parts[len(parts)-5], parts[len(parts)-3]
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

// sameHardware compares the agent's report about offered devices with sysfs.
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

// awaitPools waits until the report shows all devices as healthy.
func (r *decidedRun) awaitPools(m *Machine) {
	r.t.Helper()
	r.eventually("the report of "+m.Name+" says that its devices are well", func(context.Context) error {
		pools := r.reported(m.Name).Report.Snapshot.Devices
		for _, p := range pools {
			for _, d := range p.Devices {
				if d.Unhealthy {
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

// newDecidedPod makes a pod that asks for CPUs, memory and devices, in one or several containers,
// with or without a common position.
func newDecidedPod(rng *rand.Rand, i int) *corev1.Pod {
	pick := func(words ...string) string { return words[rng.IntN(len(words))] }
	pod := pinnedPod(fmt.Sprint("p", i), 1)
	grace := int64(1)
	pod.Spec.TerminationGracePeriodSeconds = &grace
	pod.Annotations = map[string]string{}
	policy := pick("", "best-effort", "restricted", "single-numa-node", "single-numa-node")
	if policy != "" {
		pod.Annotations[wire.PolicyAnnotation] = policy + pick("", "", ",scope=pod")
	}
	if (policy == "restricted" || policy == "single-numa-node") && rng.IntN(2) == 0 {
		pod.Annotations[wire.MemoryAnnotation] = "pinned"
	}
	shares := rng.IntN(4) == 0
	container := func(name string, devices ...string) corev1.Container {
		c := *pod.Spec.Containers[0].DeepCopy()
		c.Name = name
		amounts := corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(1+rng.Int64N(2), resource.DecimalSI), corev1.ResourceMemory: resource.MustParse(pick("32Mi", "48Mi", "96Mi"))}
		c.Resources = corev1.ResourceRequirements{Requests: amounts, Limits: amounts}
		if shares {
			amounts[corev1.ResourceCPU] = resource.MustParse("200m")
			c.Resources.Limits = corev1.ResourceList{}
		}
		for _, d := range devices {
			name, n, _ := strings.Cut(d, "=")
			setBoth(&c.Resources, corev1.ResourceName(name), resource.MustParse(cmp.Or(n, "1")))
		}
		return c
	}
	asks := [][]string{{decidedGPU}, {decidedGPU + "=2"}, {decidedNIC}, {decidedDisk}, {decidedGPU, decidedNIC}, {decidedGPU, decidedDisk}, {decidedGPU + "=2", decidedNIC}, {decidedNIC, decidedDisk}}
	ask := asks[rng.IntN(len(asks))]
	if len(ask) > 1 && rng.IntN(3) > 0 {
		pod.Annotations[wire.DevicesAnnotation] = pick("one-switch", "same-switch", "one-root", "one-switch,preferred", "one-root,preferred")
	}
	main := container("c", ask...)
	pod.Spec.Containers = []corev1.Container{main}
	if rng.IntN(4) == 0 {
		pod.Spec.Containers = append(pod.Spec.Containers, container("d", pick(decidedGPU, decidedDisk)))
	}
	if rng.IntN(4) == 0 {
		init := *main.DeepCopy()
		init.Name, init.Command = "i", []string{"/bin/sh", "-c", "sleep 1"}
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, init)
	}
	if rng.IntN(5) == 0 {
		sidecar, always := container("s", pick(decidedGPU, decidedNIC)), corev1.ContainerRestartPolicyAlways
		sidecar.RestartPolicy = &always
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, sidecar)
	}
	return pod
}

// inside describes a process that lacks the disks or the vendor's variables of its devices, or has
// others.
func (r *decidedRun) inside(m *Machine, p *place) string {
	disks, given := map[string]bool{}, map[string]bool{}
	for _, list := range p.group.Devices {
		for address := range strings.SplitSeq(list, ",") {
			f := r.hardware[m.Name][address]
			for _, d := range f.disks {
				disks[d] = true
			}
			if f.vendor == eduVendor {
				given["VENDOR_"+strings.NewReplacer(":", "_", ".", "_").Replace(address)] = true
			}
		}
	}
	if !maps.Equal(p.disks, disks) || !maps.Equal(p.given, given) {
		return fmt.Sprintf("has the disks %v and variables %v with devices %v, which give %v and %v", names(p.disks), names(p.given), p.group.Devices, names(disks), names(given))
	}
	return ""
}

func names(set map[string]bool) []string { return slices.Sorted(maps.Keys(set)) }

// misaligned describes, for every pod that was ever bound, how its Binding differs from its request
// according to sysfs.
func (r *decidedRun) misaligned() map[string]string {
	out := map[string]string{}
	for _, m := range r.machines {
		for name, pod := range r.bound {
			if d := r.all[string(pod.UID)]; pod.Spec.NodeName == m.Name {
				if d == nil {
					out[name] = "no decision that can be read"
				} else if why := r.crooked(m, pod, d); why != "" {
					out[name] = why
				}
			}
		}
	}
	return out
}

// lies has the positions of devices, CPUs and memory.
type lies struct {
	numa         topology.NUMASet
	roots, above map[string]bool // of all devices
	switches     []string        // of the devices of each kind
}

func (r *decidedRun) crooked(m *Machine, pod *corev1.Pod, d *placement.Decision) string {
	ask, err := wire.ReadPod(pod)
	if err != nil || ask.RulesErr != nil {
		return fmt.Sprint(err, ask.RulesErr)
	}
	req := &ask.Request
	if len(req.Containers) == 1 {
		if why := obeyed.Crooked(r.shapes[m.Name], req, d); why != "" {
			return why
		}
	}
	runs := map[string]string{} // the owner of each device, among containers that run at the same time
	var parts []lies
	for i := range req.Containers {
		q := &req.Containers[i]
		at := slices.IndexFunc(d.Containers, func(c placement.ContainerDecision) bool { return c.Name == q.Name })
		if at < 0 {
			return "nothing is decided for container " + q.Name
		}
		c, wanted := &d.Containers[at], 0
		for _, w := range q.Devices {
			wanted += int(w.Count)
		}
		for _, a := range c.Devices {
			for _, id := range a.IDs {
				wanted--
				if other := runs[id]; q.Kind != placement.Init && other != "" {
					return "device " + id + " is decided for " + other + " and " + q.Name
				}
				if q.Kind != placement.Init {
					runs[id] = q.Name
				}
			}
		}
		if wanted != 0 {
			return fmt.Sprintf("container %s has devices %v, wants %v", q.Name, c.Devices, q.Devices)
		}
		part := r.whereLies(m, c)
		fmt.Printf("%-5s %-4s %s CPUs %-6s NUMA %-4s devices %v below %v\n", m.Name, pod.Name, q.Name, &c.CPUs, part.numa, c.Devices, names(part.above))
		parts = append(parts, part)
	}
	if req.Rules.Scope == placement.PodScope && req.Rules.Policy != placement.PolicyNone {
		parts = []lies{r.whereLies(m, together(d))}
	}
	for _, p := range parts {
		if why := p.wrong(&req.Rules); why != "" {
			return why
		}
	}
	return ""
}

// together returns all resources of a pod as one container.
func together(d *placement.Decision) *placement.ContainerDecision {
	all := &placement.ContainerDecision{}
	byResource := map[string][]string{}
	for i := range d.Containers {
		c := &d.Containers[i]
		all.CPUs = all.CPUs.Or(&c.CPUs)
		all.Shares, all.Memory = append(all.Shares, c.Shares...), append(all.Memory, c.Memory...)
		for _, a := range c.Devices {
			byResource[a.Resource] = append(byResource[a.Resource], a.IDs...)
		}
	}
	for name, ids := range byResource {
		all.Devices = append(all.Devices, placement.DeviceAllocation{Resource: name, IDs: ids})
	}
	return all
}

// whereLies returns the positions according to sysfs.
func (r *decidedRun) whereLies(m *Machine, c *placement.ContainerDecision) lies {
	p := lies{numa: r.numaOf(m, c.CPUs), roots: map[string]bool{}, above: map[string]bool{}}
	for i := range c.Shares {
		p.numa = p.numa.With(c.Shares[i].NUMA)
	}
	for i := range c.Memory {
		p.numa |= c.Memory[i].NUMA
	}
	for _, a := range c.Devices {
		kind := map[string]bool{}
		for _, id := range a.IDs {
			f := r.hardware[m.Name][id]
			p.numa = p.numa.With(f.numa)
			p.roots[f.root], p.above[f.above], kind[f.above] = true, true, true
		}
		p.switches = append(p.switches, fmt.Sprint(names(kind)))
	}
	return p
}

// wrong describes how the positions differ from a pod's rules; "" if they do not.
func (p *lies) wrong(rules *placement.Rules) string {
	if rules.Policy == placement.PolicySingleNUMANode && p.numa.Len() > 1 {
		return fmt.Sprintf("lies on NUMA nodes %s, wants one", p.numa)
	}
	if rules.Devices.SameHow != joint.Required || len(p.above) == 0 {
		return ""
	}
	switch same := rules.Devices.Same; {
	case same == joint.OneSwitch && len(p.above) != 1:
		return fmt.Sprintf("has devices below %v, wants one switch", names(p.above))
	case same == joint.OneRoot && len(p.roots) != 1:
		return fmt.Sprintf("has devices of %v, wants one root complex", names(p.roots))
	case same == joint.SameSwitch && len(slices.Compact(slices.Sorted(slices.Values(p.switches)))) != 1:
		return fmt.Sprintf("has devices below %v, wants the same switches for each kind", p.switches)
	}
	return ""
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
	// Replaced counts pods that a kubelet refused because the kubelet or the agent had just
	// started, and that were created again.
	Replaced int `json:"replaced"`
}

// tell prints the last line, saves it in a file, and fails the test if a count is wrong. Containers
// that differ from their Bindings count as misaligned.
func (r *decidedRun) tell(wrong string) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	misaligned, faults := r.misaligned(), ""
	maps.Copy(misaligned, r.faults.Outside)
	maps.Copy(misaligned, r.faults.Unconfined)
	result := decidedResult{Seed: r.seed, Pods: r.count, Running: len(r.ran), Misaligned: len(misaligned), Refused: len(r.refused),
		HeldTwice: len(r.faults.HeldTwice), Leftover: r.leftover, Replaced: r.replaced}
	if result.Misaligned+result.Refused+result.HeldTwice+result.Leftover > 0 {
		faults = fmt.Sprintf("misaligned %v\nheld twice %v\nrefused %v\nleft over %d", misaligned, r.faults.HeldTwice, r.refused, result.Leftover)
	}
	r.obeyRun.tell(wrong, faults, result, "devices.json")
}
