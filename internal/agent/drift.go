package agent

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/kubeletstate"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// Memory that differs by at most 1/memorySlack counts as unchanged, because firmware and balloon
// drivers take and return small amounts.
const memorySlack = 64

// drift has the changes since the kubelet started.
type drift struct {
	// lost describes resources that are gone but that the kubelet could still assign. The field
	// gained describes new resources that the kubelet does not use yet. Each entry is a clause of a
	// message.
	lost, gained []string
	// cpus means that the changes affect the kubelet's CPU manager. The field memory means that
	// they affect its memory manager.
	cpus, memory bool
	// stale are the checkpoints with which the kubelet would not start now.
	stale []string
	// settings describes the fields of the configuration that differ. The field unread is the
	// reason why the configuration cannot be read, or "".
	settings []string
	unread   string
	// newer are configuration files that changed after the kubelet had started and before the agent
	// read them. The agent does not know which content the kubelet has read.
	newer []string
}

// machineAndConfig is the machine and the configuration that a kubelet reads when it starts.
type machineAndConfig struct {
	view   *placement.KubeletView
	config *kubeletv1beta1.KubeletConfiguration
}

// driftOf compares the machine and the configuration of the running kubelet (then) with the present
// ones (now).
func driftOf(then, now machineAndConfig) drift {
	var d drift
	d.compareCPUs(then.view, now.view)
	d.compareMemory(then.view, now.view)
	d.settings = changedSettings(then.config, now.config)
	return d
}

func (d *drift) compareCPUs(then, now *placement.KubeletView) {
	was, is := cpusOf(then), cpusOf(now)
	gone, fresh := was.AndNot(&is), is.AndNot(&was)
	if !gone.IsEmpty() {
		d.lost = append(d.lost, fmt.Sprintf("CPUs %v have gone offline", gone))
	}
	if !fresh.IsEmpty() {
		d.gained = append(d.gained, fmt.Sprintf("CPUs %v have come online", fresh))
	}
	d.cpus = !gone.IsEmpty() || !fresh.IsEmpty()
}

func cpusOf(v *placement.KubeletView) (out topology.CPUSet) {
	for i := range v.Nodes {
		for j := range v.Nodes[i].Cores {
			for _, id := range v.Nodes[i].Cores[j].Threads {
				out.Add(id)
			}
		}
	}
	return out
}

func (d *drift) compareMemory(then, now *placement.KubeletView) {
	for i := range then.Nodes {
		was := &then.Nodes[i]
		at := slices.IndexFunc(now.Nodes, func(n placement.ViewNode) bool { return n.ID == was.ID })
		if at < 0 {
			d.note(true, fmt.Sprintf("NUMA node %d is gone", was.ID))
			continue
		}
		d.compareNode(was, &now.Nodes[at])
	}
	for i := range now.Nodes {
		id := now.Nodes[i].ID
		if !slices.ContainsFunc(then.Nodes, func(n placement.ViewNode) bool { return n.ID == id }) {
			d.note(false, fmt.Sprintf("NUMA node %d has appeared", id))
		}
	}
}

func (d *drift) compareNode(was, is *placement.ViewNode) {
	slack := was.MemoryBytes / memorySlack
	if was.MemoryBytes > is.MemoryBytes+slack || is.MemoryBytes > was.MemoryBytes+slack {
		d.note(is.MemoryBytes < was.MemoryBytes, fmt.Sprintf("NUMA node %d has %d MiB of memory, but had %d MiB when the kubelet started",
			was.ID, is.MemoryBytes>>20, was.MemoryBytes>>20))
	}
	for _, size := range pageSizes(was, is) {
		before, after := pagesOf(was, size), pagesOf(is, size)
		if before != after {
			d.note(after < before, fmt.Sprintf("NUMA node %d has %s of %d KiB, but had %d when the kubelet started",
				was.ID, wire.Counted(int(after), "huge page"), size>>10, before))
		}
	}
}

func (d *drift) note(less bool, text string) {
	d.memory = true
	if less {
		d.lost = append(d.lost, text)
	} else {
		d.gained = append(d.gained, text)
	}
}

func pageSizes(a, b *placement.ViewNode) (sizes []uint64) {
	for _, pool := range slices.Concat(a.HugePages, b.HugePages) {
		sizes = append(sizes, pool.PageBytes)
	}
	slices.Sort(sizes)
	return slices.Compact(sizes)
}

func pagesOf(n *placement.ViewNode, size uint64) uint64 {
	for _, pool := range n.HugePages {
		if pool.PageBytes == size {
			return pool.Count
		}
	}
	return 0
}

// setting is one field of a KubeletConfiguration that affects placement, with its value as text.
type setting struct{ field, value string }

// settingsOf lists the fields that wire.ReadConfig reads, with the kubelet's defaults for absent
// values. Equal quantities have equal texts.
func settingsOf(c *kubeletv1beta1.KubeletConfiguration) []setting {
	return []setting{
		{"cpuManagerPolicy", cmp.Or(c.CPUManagerPolicy, "none")},
		{"cpuManagerPolicyOptions", pairs(c.CPUManagerPolicyOptions)},
		{"reservedSystemCPUs", c.ReservedSystemCPUs},
		{"kubeReserved", amounts(c.KubeReserved)},
		{"systemReserved", amounts(c.SystemReserved)},
		{"evictionHard[memory.available]", evictionOf(c)},
		{"memoryManagerPolicy", cmp.Or(c.MemoryManagerPolicy, "None")},
		{"reservedMemory", reservedMemory(c.ReservedMemory)},
		{"topologyManagerPolicy", cmp.Or(c.TopologyManagerPolicy, "none")},
		{"topologyManagerScope", cmp.Or(c.TopologyManagerScope, "container")},
		{"topologyManagerPolicyOptions", pairs(c.TopologyManagerPolicyOptions)},
		{"featureGates", pairs(gatesOf(c.FeatureGates))},
	}
}

// changedSettings lists the fields of a configuration that differ, with both values.
func changedSettings(then, now *kubeletv1beta1.KubeletConfiguration) (out []string) {
	before, after := settingsOf(then), settingsOf(now)
	for i, s := range after {
		if was := before[i].value; s.value != was {
			out = append(out, fmt.Sprintf("%s is %s, but was %s when the kubelet started",
				s.field, cmp.Or(s.value, "unset"), cmp.Or(was, "unset")))
		}
	}
	return out
}

// pairs formats a map as "cpu=1, memory=2Gi", in the order of its keys.
func pairs[V any](m map[string]V) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, fmt.Sprintf("%s=%v", k, m[k]))
	}
	return strings.Join(out, ", ")
}

// amounts formats the parts of a reservation that affect placement: CPUs and memory.
func amounts(reserved map[string]string) string {
	out := map[string]string{}
	for _, name := range []string{"cpu", "memory"} {
		if text, ok := reserved[name]; ok {
			out[name] = quantityText(text)
		}
	}
	return pairs(out)
}

// quantityText formats a quantity as the API does: 1000m becomes 1. It returns a text that is not a
// quantity unchanged.
func quantityText(text string) string {
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return text
	}
	return q.String()
}

// evictionOf returns the hard eviction threshold of memory.available, or the kubelet's default. ""
// means that there is no threshold.
func evictionOf(c *kubeletv1beta1.KubeletConfiguration) string {
	text, _ := wire.MemoryEviction(c)
	return quantityText(text)
}

// reservedMemory formats reservations as "0: memory=1Gi; 1: memory=1Gi", in the order of the NUMA
// nodes.
func reservedMemory(all []kubeletv1beta1.MemoryReservation) string {
	var out []string
	for _, r := range slices.SortedStableFunc(slices.Values(all), func(a, b kubeletv1beta1.MemoryReservation) int {
		return cmp.Compare(a.NumaNode, b.NumaNode)
	}) {
		limits := map[string]string{}
		for name, q := range r.Limits {
			limits[string(name)] = q.String()
		}
		out = append(out, strconv.Itoa(int(r.NumaNode))+": "+pairs(limits))
	}
	return strings.Join(out, "; ")
}

// outdated describes the changes since the kubelet's start, with advice.
type outdated struct {
	what   []string
	remedy string
}

func (e *outdated) Error() string { return strings.Join(e.what, "; ") + ": " + e.remedy }

// remedy returns advice on how to make the kubelet use the present machine. The kubelet's managers
// refuse to start with the checkpoints of another machine (validateState of
// pkg/kubelet/cm/cpumanager/policy_static.go and pkg/kubelet/cm/memorymanager/policy_static.go).
func (d *drift) remedy(c *placement.Config) string {
	var files []string
	if d.cpus && c.CPUManagerPolicy == "static" {
		files = append(files, kubeletstate.CPUFile)
	}
	if d.memory && c.MemoryManagerPolicy == "Static" {
		files = append(files, kubeletstate.MemoryFile)
	}
	files = append(files, d.stale...)
	slices.Sort(files) // the CPU manager starts first
	files = slices.Compact(files)
	remedy := "restart the kubelet, which reads its machine only when it starts"
	if files != nil {
		remedy = kubeletstate.Remedy(files...)
	}
	if len(d.lost) > 0 {
		return "undo the change, or " + remedy
	}
	return remedy
}

// condition returns the condition KubeletCurrent for the changes, without a transition time. It
// returns false if there are no changes.
func (d *drift) condition(config *placement.Config) (metav1.Condition, bool) {
	c := metav1.Condition{Type: v1alpha1.ConditionKubeletCurrent, Status: metav1.ConditionFalse}
	var why outdated
	switch machine := slices.Concat(d.lost, d.gained); {
	case len(machine) > 0:
		c.Reason = v1alpha1.ReasonMachineChanged
		why = outdated{append(machine, d.settings...), d.remedy(config)}
		if d.unread != "" {
			why.what = append(why.what, d.unread)
		}
	case d.unread != "":
		c.Reason = v1alpha1.ReasonConfigurationUnreadable
		why = outdated{[]string{d.unread}, "correct the configuration before the kubelet restarts: otherwise the kubelet would not start"}
	case len(d.settings) > 0:
		c.Reason = v1alpha1.ReasonConfigurationChanged
		why = outdated{d.settings, "restart the kubelet, which reads its configuration only when it starts"}
		if len(d.stale) > 0 {
			why.remedy = "undo the change, or " + kubeletstate.Remedy(d.stale...)
		}
	case len(d.newer) > 0:
		c.Reason = v1alpha1.ReasonConfigurationNewer
	default:
		return c, false
	}
	if len(d.newer) > 0 { // the kubelet's configuration is not known in any case
		c.Status = metav1.ConditionUnknown
		why.what = append(why.what, strings.Join(d.newer, ", ")+" was changed after the kubelet had started, and it is not known which content the kubelet has read")
		why.remedy = cmp.Or(why.remedy, "restart the kubelet, or have the agent ask it (configSource: configz)")
	}
	c.Message = why.Error()
	return c, true
}
