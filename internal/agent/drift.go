package agent

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"reflect"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/kubeletstate"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// A kubelet reads its machine and its configuration once, when it starts (pkg/kubelet/kubelet.go, cachedMachineInfo): it goes on handing
// out a CPU that has been taken offline, and it never sees huge pages that were added. The agent looks on its behalf.

// pulsePeriod is how often the agent looks whether the machine is still the same: the API shall show a change within a second, and
// reading the machine anew and writing the report need time too. A look reads a dozen small files of sysfs.
const pulsePeriod = 300 * time.Millisecond

// memorySlack is the part of a node's memory by which its size may differ without being another machine: firmware and
// balloons take and return a little.
const memorySlack = 64

// SysPulse returns a source of what may change under a kubelet: the online CPUs and NUMA nodes, and the huge pages of
// each node. Two texts that are equal say that nothing did. What cannot be read is left out.
func SysPulse(fsys fs.FS) func() string {
	return func() string {
		const system = "sys/devices/system"
		names := []string{system + "/cpu/online", system + "/node/online"}
		pools, err := fs.Glob(fsys, system+"/node/node*/hugepages/hugepages-*/nr_hugepages")
		if err != nil {
			pools = nil // the pattern is well-formed
		}
		var b strings.Builder
		for _, name := range append(names, pools...) {
			if data, err := fs.ReadFile(fsys, name); err == nil {
				fmt.Fprintf(&b, "%s %s", path.Dir(name), data)
			}
		}
		return b.String()
	}
}

// drift is what has changed since the kubelet started.
type drift struct {
	// lost is what the kubelet would still hand out, gained what it does not know; each a sentence without its end.
	lost, gained []string
	// cpus and memory say which of its managers is concerned.
	cpus, memory bool
	// settings are the fields of the configuration that differ.
	settings []string
}

// lookAround reads what may have changed under the kubelet. It says whether something has.
func (m *mirror) lookAround(ctx context.Context) bool {
	if m.platform == nil {
		return false
	}
	news := m.lookAtMachine()
	if m.configIsDue() {
		m.configSeen, m.configDue = m.now(), time.Time{}
		news = m.lookAtConfig(ctx) || news
	}
	if news {
		m.notice()
	}
	return news
}

// configSettle is how long the files of a configuration are left alone after a change: who writes one may not be done.
const configSettle = 50 * time.Millisecond

// configDoubt is after how long a configuration that cannot be read is read again, before anybody is told: whoever writes it may
// write slowly.
const configDoubt = time.Second

// lookAtConfig reads the configuration as it is now, and says whether that is news.
func (m *mirror) lookAtConfig(ctx context.Context) bool {
	before := m.present
	config, err := m.presentConfig(ctx)
	switch {
	case err == nil:
		m.present.config, m.present.unread, m.configDoubted = config, "", false
	case m.config.paths == configPaths{}: // the kubelet that would tell is away
	case m.configDoubted || before.unread != "":
		m.present.unread = err.Error()
	default:
		m.configDoubted, m.configDue = true, m.now().Add(configDoubt)
	}
	return m.present.unread != before.unread || !reflect.DeepEqual(m.present.config, before.config)
}

// configTouched notes that a file of the configuration has changed. It returns after how long to look around.
func (m *mirror) configTouched() time.Duration {
	m.configDue = m.now().Add(configSettle)
	return configSettle
}

func (m *mirror) configIsDue() bool {
	now := m.now()
	return now.Sub(m.configSeen) >= m.configEvery || !m.configDue.IsZero() && !now.Before(m.configDue)
}

// unreadable is said of a machine that is no longer what the kubelet found, nobody knows how.
const unreadable = "the machine has changed and cannot be read"

func (m *mirror) lookAtMachine() bool {
	if m.pulse == nil {
		return false
	}
	before := m.unseen
	pulse := m.pulse()
	if pulse == m.lastPulse {
		m.complain(&m.unseen, unreadable, nil)
		return before != ""
	}
	var view *placement.KubeletView
	machine, err := m.machine()
	if err == nil {
		view, err = placement.ViewOf(machine)
	}
	m.complain(&m.unseen, unreadable, err)
	if err != nil {
		return m.unseen != before // what is known to have changed stays so
	}
	m.present.view, m.lastPulse = view, pulse
	return true
}

// present is what a kubelet would see if it started now; nil where nothing says that it differs.
type present struct {
	view   *placement.KubeletView
	config *placement.Config
	// unread is why the configuration on disk cannot be read; "" if it can.
	unread string
}

// presentConfig is the configuration as a kubelet that starts now would read it. It cannot be read while it is written.
func (m *mirror) presentConfig(ctx context.Context) (*placement.Config, error) {
	raw, err := m.config.read(ctx)
	if err != nil {
		return nil, err
	}
	spec := &m.platform.spec
	release, err := wire.ParseKubeletVersion(spec.KubeletVersion)
	if err != nil {
		return nil, err
	}
	c, err := wire.Config(raw, wire.Kubelet{Version: release, MemoryBytes: m.platform.memoryBytes})
	if err != nil {
		return nil, err
	}
	c.FeatureGates = gatesOf(c.FeatureGates)
	return &c, nil
}

// drift compares what the kubelet saw with what is there.
func (m *mirror) drift() drift {
	var d drift
	spec := &m.platform.spec
	if v := m.present.view; v != nil {
		d.compareCPUs(spec.View, v)
		d.compareMemory(spec.View, v)
	}
	if m.unseen != "" {
		d.lost = append(d.lost, unreadable+": "+m.unseen)
		d.cpus, d.memory = true, true
	}
	if c := m.present.config; c != nil {
		d.settings = changedFields(&spec.Config, c)
	}
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
		d.note(is.MemoryBytes < was.MemoryBytes, fmt.Sprintf("NUMA node %d has %d MiB of memory, %d when the kubelet started", was.ID, is.MemoryBytes>>20, was.MemoryBytes>>20))
	}
	for _, size := range pageSizes(was, is) {
		before, after := pagesOf(was, size), pagesOf(is, size)
		if before != after {
			d.note(after < before, fmt.Sprintf("NUMA node %d has %d huge pages of %d KiB, %d when the kubelet started", was.ID, after, size>>10, before))
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

// changedFields names the fields of a configuration that differ, with both values.
func changedFields(then, now *placement.Config) (out []string) {
	a, b := reflect.ValueOf(then).Elem(), reflect.ValueOf(now).Elem()
	for i := range a.NumField() {
		x, y := a.Field(i), b.Field(i)
		if sameValue(x, y) {
			continue
		}
		out = append(out, fmt.Sprintf("%s is %s, %s when the kubelet started", kubeletSpelling(a.Type().Field(i).Name), valueText(y), valueText(x)))
	}
	return out
}

// kubeletSpelling turns a field of placement.Config into its name in a KubeletConfiguration: cpuManagerPolicy.
func kubeletSpelling(field string) string {
	if rest, ok := strings.CutPrefix(field, "CPU"); ok {
		return "cpu" + rest
	}
	return strings.ToLower(field[:1]) + field[1:]
}

// sameValue takes an empty map or list for an absent one.
func sameValue(x, y reflect.Value) bool {
	switch x.Kind() {
	case reflect.Map, reflect.Slice:
		if x.Len() == 0 && y.Len() == 0 {
			return true
		}
	}
	return reflect.DeepEqual(x.Interface(), y.Interface())
}

func valueText(v reflect.Value) string {
	if text := fmt.Sprint(v.Interface()); text != "" {
		return text
	}
	return "unset"
}

// gone says what the kubelet may still hand out to a pod for its own though it is no longer there. A kubelet that pins nothing
// promises nothing.
func (m *mirror) gone(s *kubeletstate.State) error {
	c := &m.platform.spec.Config
	d := m.drift()
	d.compareBooks(m.platform.spec.Machine, m.present.view, s.CPU)
	if len(d.lost) == 0 || c.CPUManagerPolicy != "static" && c.MemoryManagerPolicy != "Static" {
		return nil
	}
	return &outdated{d.lost, d.remedy(c)}
}

// compareBooks finds CPUs that had gone before the agent started, and after the kubelet did.
func (d *drift) compareBooks(then *topology.Machine, now *placement.KubeletView, s *kubeletstate.CPUState) {
	if s == nil || s.Policy != "static" {
		return
	}
	named := s.Shared
	for i := range s.Entries {
		named = named.Or(&s.Entries[i].CPUs)
	}
	offline, online := then.Offline, cpusOf(now)
	if offline = offline.AndNot(&online); !named.Intersects(&offline) {
		return
	}
	d.cpus = true
	d.lost = append(d.lost, fmt.Sprintf("%s has CPUs %v, which are offline", kubeletstate.CPUFile, named.And(&offline)))
}

// outdated says what the kubelet does not know, and what to do.
type outdated struct {
	what   []string
	remedy string
}

func (e *outdated) Error() string { return strings.Join(e.what, "; ") + ": " + e.remedy }

// remedy is what makes a kubelet see its machine anew. Its managers refuse to start over checkpoints of another machine
// (validateState of pkg/kubelet/cm/cpumanager/policy_static.go and pkg/kubelet/cm/memorymanager/policy_static.go).
func (d *drift) remedy(c *placement.Config) string {
	var files []string
	if d.cpus && c.CPUManagerPolicy == "static" {
		files = append(files, kubeletstate.CPUFile)
	}
	if d.memory && c.MemoryManagerPolicy == "Static" {
		files = append(files, kubeletstate.MemoryFile)
	}
	remedy := "restart the kubelet, which looks at its machine when it starts"
	if files != nil {
		remedy = "drain the node, stop the kubelet, remove " + strings.Join(files, " and ") + ", start the kubelet"
	}
	if len(d.lost) > 0 {
		return "undo the change, or " + remedy
	}
	return remedy
}

// current is the condition that says what the kubelet does not know; none while it knows all.
func (m *mirror) current() []metav1.Condition {
	d := m.drift()
	c := metav1.Condition{Type: v1alpha1.ConditionKubeletCurrent, Status: metav1.ConditionFalse}
	switch machine := slices.Concat(d.lost, d.gained); {
	case len(machine) > 0:
		c.Reason = v1alpha1.ReasonMachineChanged
		what := append(machine, d.settings...)
		if m.present.unread != "" {
			what = append(what, m.present.unread)
		}
		c.Message = (&outdated{what, d.remedy(&m.platform.spec.Config)}).Error()
	case m.present.unread != "":
		c.Reason = v1alpha1.ReasonConfigurationUnreadable
		c.Message = (&outdated{[]string{m.present.unread}, "mend it before the kubelet is restarted, which would not come up"}).Error()
	case len(d.settings) > 0:
		c.Reason = v1alpha1.ReasonConfigurationChanged
		c.Message = (&outdated{d.settings, "restart the kubelet, which reads its configuration when it starts"}).Error()
	default:
		return nil
	}
	return []metav1.Condition{m.dated(c)}
}
