package vm

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/test/obeyed"
	"github.com/berth-dev/berth/topology"
)

// obeyRun runs pods from a seed on machines where Berth decides, and makes faults meanwhile. It
// repeatedly compares the CPUs and memory nodes of every process with the Bindings.
type obeyRun struct {
	*cluster
	seed     uint64
	count    int // number of pods
	leftover int // remains after all pods have been deleted
	rng      *rand.Rand
	machines []*Machine
	shapes   map[string]*topology.Machine
	live     []string
	asked    map[string]map[string]string // the annotations of new pods, by name
	boot     string                       // script that each machine runs before its runtime starts
	reboots  int                          // number of machines that reboot, each once
	// make makes the pod with a number.
	make func(int) *corev1.Pod
	// inspect describes other faults of a process, "" for none. It may be nil.
	inspect func(*Machine, *place) string
	// pools are the devices that agents offer, by machine.
	pools map[string][]placement.DevicePool

	mu      sync.Mutex
	pods    map[string]*corev1.Pod // the pods in the API, by name
	moved   time.Time              // when the API last showed a change of a pod
	bound   map[string]*corev1.Pod // all pods that were ever bound, by name
	all     obeyed.Decisions
	ran     map[string]bool
	refused map[string]string
	// lost is when a machine last lost its kubelet or its agent. unoffered are pods that a kubelet
	// has therefore refused, by name; nil if the pod was created again. replaced counts these.
	lost map[string]time.Time
	// booted is the boot ID that a machine's kubelet reported before the reboot, by name.
	booted    map[string]string
	unoffered map[string]*corev1.Pod
	replaced  int
	faults    obeyed.Faults
	looks     int
	// named has the names of known containers, by id. Sandboxes have none.
	named map[string]string
}

// enforceSettings configures the kubelet without managers.
const enforceSettings = "reservedSystemCPUs: \"0\"\n"

// slow is the runtime's configuration for emulated processors, for which NRI's limit of 2 s is too
// short.
const slow = containerdConfig + `  plugin_registration_timeout = '60s'
  plugin_request_timeout = '30s'
`

// validated also turns on the validator, which starts no container without the agent.
const validated = slow + `[plugins.'io.containerd.nri.v1.nri'.default_validator]
  enable = true
  required_plugins = ['berth']
`

// startOfPods is how many pods may start at the same time, because emulated machines are slow.
const startOfPods = 4

// newObeyRun starts a control plane for ENFORCE_PODS pods of make, with the seed SEED.
func newObeyRun(t *testing.T, make func(*rand.Rand, int) *corev1.Pod) *obeyRun {
	t.Helper()
	number := func(name string, otherwise uint64) uint64 {
		n, err := strconv.ParseUint(os.Getenv(name), 10, 64)
		if os.Getenv(name) == "" {
			return otherwise
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return n
	}
	r := &obeyRun{shapes: map[string]*topology.Machine{}, asked: map[string]map[string]string{}, pods: map[string]*corev1.Pod{}, bound: map[string]*corev1.Pod{}, all: obeyed.Decisions{},
		ran: map[string]bool{}, refused: map[string]string{}, lost: map[string]time.Time{}, booted: map[string]string{}, unoffered: map[string]*corev1.Pod{}, faults: obeyed.NewFaults(), named: map[string]string{}}
	r.seed, r.count = number("SEED", uint64(time.Now().Unix()%1e6)), int(number("ENFORCE_PODS", 100))
	r.rng = rand.New(rand.NewPCG(r.seed, 16))
	r.make = func(i int) *corev1.Pod { return make(r.rng, i) }
	r.cluster = newCluster(t)
	return r
}

// runtimeFile returns a script that writes the runtime's configuration.
func runtimeFile(runtime string) string {
	return "cat > /etc/containerd.toml <<'END'\n" + runtime + "END\n"
}

// follow records the API's events about pods.
func (r *obeyRun) follow() {
	factory := informers.NewSharedInformerFactoryWithOptions(r.Client, 0, informers.WithNamespace("default"))
	see := func(obj any) {
		pod := obj.(*corev1.Pod)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.pods[pod.Name], r.moved = pod, time.Now()
		r.all.Note(pod)
		if pod.Spec.NodeName != "" {
			r.bound[pod.Name] = pod
		}
		if pod.Status.Phase == corev1.PodRunning {
			r.ran[pod.Name] = true
		}
		_, known := r.unoffered[pod.Name]
		switch {
		case known:
		case r.isUnoffered(pod):
			r.unoffered[pod.Name] = pod
		case wire.Refused(pod) || pod.Status.Phase == corev1.PodFailed && pod.DeletionTimestamp == nil:
			r.refused[pod.Name] = pod.Status.Reason + ": " + pod.Status.Message
		}
	}
	_, _ = factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{ // cannot fail: the informer is not stopped
		AddFunc: see, UpdateFunc: func(_, obj any) { see(obj) },
		DeleteFunc: func(obj any) {
			if last, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = last.Obj
			}
			if pod, ok := obj.(*corev1.Pod); ok {
				r.mu.Lock()
				defer r.mu.Unlock()
				delete(r.pods, pod.Name)
				r.moved = time.Now()
			}
		},
	})
	factory.Start(r.t.Context().Done())
	factory.WaitForCacheSync(r.t.Context().Done())
}

// notOffered are the messages of a kubelet without the device plugin, because the kubelet or the
// plugin has just started.
var notOffered = []string{"no healthy devices present", "cannot allocate unregistered device", "previously allocated devices are no longer healthy", "rpc error"}

// isUnoffered reports whether a kubelet has refused a pod because it did not know the agent's
// plugin, after one of the two was killed. This happens with every device plugin. The caller holds
// the lock.
func (r *obeyRun) isUnoffered(pod *corev1.Pod) bool {
	lost, ever := r.lost[pod.Spec.NodeName]
	return ever && time.Since(lost) < patience && wire.Refused(pod) && pod.Status.Reason == placement.UnexpectedAdmissionError.String() &&
		slices.ContainsFunc(notOffered, func(text string) bool { return strings.Contains(pod.Status.Message, text) })
}

// replace creates the unoffered pods again, as their controllers would.
func (r *obeyRun) replace() {
	r.t.Helper()
	r.mu.Lock()
	var pods []*corev1.Pod
	for name, pod := range r.unoffered {
		if pod != nil && r.pods[name] != nil && r.pods[name].DeletionTimestamp == nil {
			pods = append(pods, pod)
		}
		r.unoffered[name] = nil
	}
	r.mu.Unlock()
	for _, old := range pods {
		if err := r.Client.CoreV1().Pods("default").Delete(r.t.Context(), old.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(old.UID))}); err != nil {
			continue // the pod was deleted
		}
		r.replaced++
		pod := old.DeepCopy()
		pod.ObjectMeta = metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", old.Name, r.replaced), Namespace: old.Namespace, Annotations: r.asked[old.Name]}
		pod.Spec.NodeName, pod.Status = "", corev1.PodStatus{}
		fmt.Printf("%s  %s refused %s (%s); %s comes in its place\n", time.Now().Format(time.TimeOnly), old.Spec.NodeName, old.Name, old.Status.Message, pod.Name)
		r.add(pod)
	}
}

// add makes a pod.
func (r *obeyRun) add(pod *corev1.Pod) {
	r.t.Helper()
	r.asked[pod.Name] = maps.Clone(pod.Annotations)
	r.create(pod)
	r.live = append(r.live, pod.Name)
}

// play creates the pods and makes faults, waits until all pods settle, and deletes them. The text
// describes what did not happen.
func (r *obeyRun) play() (wrong string) {
	r.t.Helper()
	ctx, stop := context.WithCancel(r.t.Context())
	var watching sync.WaitGroup
	for _, m := range r.machines {
		watching.Go(func() { r.watch(ctx, m) })
	}
	for i := range r.count {
		r.step(i)
		r.breakSomething(i)
		r.mu.Lock()
		fmt.Printf("%s  pod %d of %d; %d ran, %d looks at processes\n", time.Now().Format(time.TimeOnly), i+1, r.count, len(r.ran), r.looks)
		r.mu.Unlock()
	}
	r.awaitBoots()
	wrong = r.settle()
	stop()
	watching.Wait()
	if wrong == "" {
		wrong = r.everyContainer()
	}
	r.clean()
	return wrong
}

// step creates a pod, sometimes deletes one, and waits while too many pods are starting.
func (r *obeyRun) step(i int) {
	r.t.Helper()
	r.add(r.make(i))
	if len(r.live) > 10 {
		at := r.rng.IntN(len(r.live))
		_ = r.Client.CoreV1().Pods("default").Delete(r.t.Context(), r.live[at], metav1.DeleteOptions{}) // a remaining pod is counted at the end
		r.live = slices.Delete(r.live, at, at+1)
	}
	for tick := time.NewTicker(200 * time.Millisecond); ; <-tick.C {
		r.replace()
		r.schedulersRun()
		n, moved := r.onTheirWay()
		if n <= startOfPods {
			tick.Stop()
			return
		}
		if time.Since(moved) > patience {
			r.t.Fatalf("%d pods are starting, and none has changed for %s", n, patience)
		}
	}
}

// onTheirWay counts the pods that are not yet settled, and returns when the API last showed a
// change of a pod.
func (r *obeyRun) onTheirWay() (n int, moved time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, pod := range r.pods {
		if pod.DeletionTimestamp != nil || !isSettled(pod) {
			n++
		}
	}
	return n, r.moved
}

// breakSomething sometimes kills a process, and makes machines reboot.
func (r *obeyRun) breakSomething(i int) {
	r.t.Helper()
	for n, m := range r.machines[:r.reboots] {
		if i == (n+1)*r.count/(r.reboots+1) {
			r.booted[m.Name] = r.bootOf(r.t.Context(), m.Name)
			r.do(m, "reboots", "(usleep 300000; reboot -f) >/dev/null 2>&1 &")
		}
	}
	if r.rng.IntN(4) > 0 {
		return
	}
	m := r.machines[r.rng.IntN(len(r.machines))]
	what := []string{"berth-agent", "containerd", "kubelet"}[r.rng.IntN(3)]
	r.do(m, "loses its "+what, "killall -9 "+what)
}

func (r *obeyRun) do(m *Machine, what, script string) {
	if !strings.Contains(script, "containerd") {
		r.mu.Lock()
		r.lost[m.Name] = time.Now()
		r.mu.Unlock()
	}
	ctx, cancel := context.WithTimeout(r.t.Context(), lookLimit)
	defer cancel()
	_, err := m.Guest.Run(ctx, script) // fails if the machine reboots or the process does not run
	fmt.Printf("%s  %s %s (%v)\n", time.Now().Format(time.TimeOnly), m.Name, what, err)
}

// bootOf returns the boot ID that a machine's kubelet has last reported; "" for none.
func (r *obeyRun) bootOf(ctx context.Context, machine string) string {
	node, err := r.Client.CoreV1().Nodes().Get(ctx, machine, metav1.GetOptions{})
	if err != nil {
		return ""
	}
	return node.Status.NodeInfo.BootID
}

// awaitBoots waits until the kubelet of each machine has reported after its reboot. Until then the
// API server shows the pods' earlier states.
func (r *obeyRun) awaitBoots() {
	r.t.Helper()
	r.eventually("the kubelets to report after the last reboots", func(ctx context.Context) error {
		for name, before := range r.booted {
			if now := r.bootOf(ctx, name); now == "" || now == before {
				return fmt.Errorf("%s: boot %q", name, now)
			}
		}
		return nil
	})
}

// lookLimit bounds one reading of a machine, which may be rebooting.
const lookLimit = 20 * time.Second

// watch judges a machine until ctx ends. A fault must appear in two readings, because processes are
// read one after the other, and a change may come in between.
func (r *obeyRun) watch(ctx context.Context, m *Machine) {
	last := obeyed.NewFaults()
	for ctx.Err() == nil {
		began := time.Now()
		now, _, err := r.look(ctx, m)
		if err != nil { // the machine reboots
			last = obeyed.NewFaults()
		} else {
			both := last.Both(now)
			r.mu.Lock()
			r.looks++
			if !both.Empty() {
				fmt.Printf("%s  %s: %+v\n", time.Now().Format(time.TimeOnly), m.Name, both)
			}
			r.faults.Add(both)
			r.mu.Unlock()
			last = now
		}
		select { // the pause leaves the machine time for its work
		case <-ctx.Done():
		case <-time.After(max(200*time.Millisecond, time.Since(began))):
		}
	}
}

// look reads every process and every cgroup of containers of a machine, and judges them.
func (r *obeyRun) look(ctx context.Context, m *Machine) (obeyed.Faults, []*place, error) {
	found, err := r.places(ctx, m)
	if err != nil {
		return obeyed.Faults{}, nil, err
	}
	groups := make([]obeyed.Group, len(found))
	for i, p := range found {
		groups[i] = p.group
	}
	r.mu.Lock()
	faults := obeyed.Judge(r.shapes[m.Name], groups, r.all)
	r.mu.Unlock()
	for _, p := range found {
		if r.inspect != nil && p.group.Devices != nil {
			if why := r.inspect(m, p); why != "" {
				faults.Outside[p.group.UID+"/"+p.group.Container+" inside"] = why
			}
		}
	}
	return faults, found, nil
}

// lookScript first reads the names of processes, because a process of the runtime is in the
// container's cgroup before the cgroup has its CPUs. It reads disks before the environment, so that
// a process that starts meanwhile does not seem to lack disks.
const lookScript = `cd /proc; grep -s . [0-9]*/comm; grep -s kubepods [0-9]*/cgroup; grep -s _allowed_list [0-9]*/status
for p in $(grep -ls kubepods [0-9]*/cgroup); do for d in ${p%/*}/root/dev/nvme*; do [ -b $d ] && echo "${p%/*}/disk:${d##*/}"; done; done
grep -szE '^(PATH|PCIDEVICE_[A-Z0-9_]*|VENDOR_[a-f0-9_]*)=' [0-9]*/environ | tr '\0' '\n'
cd /sys/fs/cgroup; grep -Hs . kubepods/pod*/*/cpuset.*.effective kubepods/*/pod*/*/cpuset.*.effective; true`

// places reads the CPUs and memory nodes of a machine's containers: one entry for each process, and
// one for each cgroup.
func (r *obeyRun) places(ctx context.Context, m *Machine) ([]*place, error) {
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	out, err := m.Guest.Run(ctx, lookScript)
	if err != nil {
		return nil, err
	}
	found := readLook(out)
	if err := r.nameAll(ctx, m, found); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []*place
	for _, p := range found {
		if p.group.Container = r.named[p.id]; p.group.Container != "" && !p.group.CPUs.IsEmpty() {
			all = append(all, p)
		}
	}
	return all, nil
}

// place has the data of a process or a cgroup of a container.
type place struct {
	id    string // of the container
	group obeyed.Group
	// disks are the NVMe block devices in its /dev, and given the other environment variables of
	// devices.
	disks, given map[string]bool
}

// readLook reads the output of lookScript: lines FILE:TEXT. It omits processes of the runtime, and
// cgroups without other processes.
func readLook(out string) map[string]*place {
	found, runtimes, begun := map[string]*place{}, map[string]bool{}, map[string]bool{}
	for line := range strings.Lines(out) {
		file, text, ok := strings.Cut(strings.TrimSpace(line), ":")
		dir, base := filepath.Split(file)
		key := strings.TrimSuffix(dir, "/")
		switch {
		case !ok:
		case base == "comm":
			runtimes[key] = strings.HasPrefix(text, "runc")
		case base == "cgroup":
			if _, path, ok := strings.Cut(text, "::"); ok {
				if p := placeOf(path); p != nil {
					found[key] = p
				}
			}
		case base == "environ":
			if p := found[key]; p != nil {
				if p.group.Devices == nil {
					p.group.Devices = map[string]string{}
				}
				maps.Copy(p.group.Devices, obeyed.DevicesIn(text))
				if name, _, _ := strings.Cut(text, "="); name != "PATH" && len(obeyed.DevicesIn(text)) == 0 {
					p.given[name] = true
				}
			}
		case base == "disk":
			if p := found[key]; p != nil {
				p.disks[text] = true
			}
		case base == "status":
			name, list, _ := strings.Cut(text, ":")
			if p := found[key]; p != nil {
				p.set(strings.HasPrefix(name, "Cpus"), list)
			}
		default:
			if found[key] == nil {
				if p := placeOf(key); p != nil {
					found[key] = p
				}
			}
			if p := found[key]; p != nil {
				p.set(strings.HasPrefix(base, "cpuset.cpus"), text)
			}
		}
	}
	for key, p := range found {
		if runtime, isProcess := runtimes[key]; isProcess && !runtime {
			begun[p.id] = true
		}
	}
	maps.DeleteFunc(found, func(key string, p *place) bool {
		runtime, isProcess := runtimes[key]
		return runtime || !isProcess && !begun[p.id]
	})
	return found
}

func (p *place) set(cpus bool, list string) {
	if list = strings.TrimSpace(list); cpus {
		p.group.CPUs, _ = topology.ParseCPUList(list) // the kernel writes lists
	} else {
		p.group.Mems, _ = topology.ParseNUMAList(list)
	}
}

// placeOf reads a container's cgroup, kubepods/QOS/podUID/ID; nil for others.
func placeOf(path string) *place {
	pod, id := filepath.Split(path)
	uid, ok := strings.CutPrefix(filepath.Base(pod), "pod")
	if !ok || !strings.Contains(path, "kubepods") {
		return nil
	}
	return &place{id: id, group: obeyed.Group{UID: uid}, disks: map[string]bool{}, given: map[string]bool{}}
}

// nameAll reads the unknown names of containers from the runtime's files.
func (r *obeyRun) nameAll(ctx context.Context, m *Machine, found map[string]*place) error {
	unknown := map[string]bool{}
	r.mu.Lock()
	for _, p := range found {
		if _, known := r.named[p.id]; !known {
			unknown[p.id] = true
		}
	}
	r.mu.Unlock()
	if len(unknown) == 0 {
		return nil
	}
	const script = `cd /run/containerd/io.containerd.runtime.v2.task/k8s.io; for i in %s; do
echo "$i:$(grep -os '"io.kubernetes.cri.container-[nt][a-z]*":"[^"]*"' $i/config.json | tr '\n' ,)"; done; true`
	out, err := m.Guest.Run(ctx, fmt.Sprintf(script, strings.Join(slices.Sorted(maps.Keys(unknown)), " ")))
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for line := range strings.Lines(out) {
		id, said, _ := strings.Cut(strings.TrimSpace(line), ":")
		said = "{" + strings.TrimSuffix(said, ",") + "}"
		var names map[string]string
		if json.Unmarshal([]byte(said), &names) != nil || len(names) == 0 {
			continue // the container has just ended
		}
		if names["io.kubernetes.cri.container-type"] == "container" {
			r.named[id] = names["io.kubernetes.cri.container-name"]
		} else {
			r.named[id] = ""
		}
	}
	return nil
}

// settle waits until every pod with room runs, or until the number of missing containers no longer
// changes.
func (r *obeyRun) settle() string {
	r.t.Helper()
	limit, least, last := time.Now().Add(patience), -1, ""
	for {
		r.replace()
		waits, missing := r.waiting()
		if missing != least { // it grows when a rebooted machine reports
			limit, least = time.Now().Add(patience), missing
		}
		if waits == "" || time.Now().After(limit) {
			return waits
		}
		if waits != last {
			fmt.Printf("%s  %s\n", time.Now().Format(time.TimeOnly), waits)
			last = waits
		}
		r.schedulersRun()
		select {
		case <-r.t.Context().Done():
			return waits
		case <-time.After(300 * time.Millisecond):
		}
	}
}

// waiting returns the first pod by name that does not run although there is room, "" for none.
// missing counts missing containers of such pods, and remaining containers of deleted pods.
func (r *obeyRun) waiting() (first string, missing int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(r.pods)) {
		pod := r.pods[name]
		why := r.waits(pod)
		if why == "" {
			continue
		}
		if first == "" {
			first = why
		}
		if pod.DeletionTimestamp != nil {
			missing++
			continue
		}
		missing += 1 + len(pod.Spec.InitContainers) + len(pod.Spec.Containers)
		for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
			if s.Ready {
				missing--
			}
		}
	}
	return first, missing
}

// waits explains why a pod does not run although there is room; "" if it runs or there is no room.
// The caller holds the lock.
func (r *obeyRun) waits(pod *corev1.Pod) string {
	switch {
	case pod.DeletionTimestamp != nil:
		return pod.Name + " is being deleted"
	case wire.Ended(pod) || pod.Status.Phase == corev1.PodRunning && isReady(pod):
	case pod.Spec.NodeName != "":
		return pod.Name + " is bound to " + pod.Spec.NodeName + " and does not run: " + string(pod.Status.Phase)
	case pod.Spec.SchedulerName == stockName:
	default:
		for _, m := range r.machines {
			if r.room(m, pod) {
				return pod.Name + " has no node, and there is room on " + m.Name
			}
		}
	}
	return ""
}

// room reports whether the engine finds room for a pod on a machine. If agents offer devices, room
// also asks the exhaustive twin, which supports pods with one container.
func (r *obeyRun) room(m *Machine, pod *corev1.Pod) bool {
	there := r.on(m)
	if obeyed.Room(obeyed.Place{Machine: r.shapes[m.Name], Reserved: "0", Pools: r.pools[m.Name]}, there, r.all, pod) {
		return true
	}
	ask, err := wire.ReadPod(pod)
	if err != nil || ask.RulesErr != nil || len(ask.Request.Containers) != 1 || len(r.pools) == 0 {
		return false
	}
	twin := obeyed.Twin{Machine: r.shapes[m.Name], Reserved: topology.NewCPUSet(0), Devices: map[string][]*topology.Device{}}
	for _, p := range r.pools[m.Name] {
		for _, d := range p.Devices {
			twin.Devices[p.Resource] = append(twin.Devices[p.Resource], twin.Machine.Device(d.ID))
		}
	}
	var held []*placement.Decision
	for _, other := range there {
		if d := r.all[string(other.UID)]; d != nil && !wire.Ended(other) {
			held = append(held, d)
		}
	}
	return twin.Fits(held, &ask.Request)
}

func (r *obeyRun) on(m *Machine) (there []*corev1.Pod) {
	for _, pod := range r.pods {
		if pod.Spec.NodeName == m.Name {
			there = append(there, pod)
		}
	}
	return there
}

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// everyContainer reads all machines again after the pods have settled. Each container that should
// run must have a process on its machine, and no other. The text names a container without a
// process.
func (r *obeyRun) everyContainer() string {
	r.t.Helper()
	processes := 0
	for _, m := range r.machines {
		faults, found, err := r.look(r.t.Context(), m)
		if err != nil {
			return err.Error()
		}
		r.mu.Lock()
		r.faults.Add(faults)
		seen := map[string]bool{}
		for _, p := range found {
			seen[p.group.UID+"/"+p.group.Container] = true
		}
		processes += len(found)
		for _, pod := range r.on(m) {
			for i := range pod.Spec.Containers {
				if pod.Status.Phase == corev1.PodRunning && !seen[string(pod.UID)+"/"+pod.Spec.Containers[i].Name] {
					r.mu.Unlock()
					return "container " + pod.Name + "/" + pod.Spec.Containers[i].Name + " has no process on " + m.Name
				}
			}
		}
		r.mu.Unlock()
	}
	fmt.Printf("at rest: %d processes and cgroups of containers looked at\n", processes)
	return ""
}

// clean deletes all pods, and counts their remains.
func (r *obeyRun) clean() {
	r.t.Helper()
	if err := r.Client.CoreV1().Pods("default").DeleteCollection(r.t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		r.t.Fatal(err)
	}
	limit, least := time.Now().Add(patience), math.MaxInt
	for {
		left := 0
		for _, m := range r.machines {
			found, err := r.places(r.t.Context(), m)
			if err != nil {
				left++
			}
			left += len(found)
			left += len(r.reported(m.Name).Report.Snapshot.Pods)
		}
		r.mu.Lock()
		left += len(r.pods)
		r.mu.Unlock()
		if left < least {
			limit, least = time.Now().Add(patience), left
		}
		if r.leftover = left; left == 0 || time.Now().After(limit) {
			return
		}
		time.Sleep(time.Second) // interval of readings
	}
}

// tell prints the last line, saves it in a file, and fails the test if a count is wrong.
func (r *obeyRun) tell(wrong, faults string, result any, file string) {
	r.t.Helper()
	if wrong != "" {
		r.t.Error(wrong)
	}
	if faults != "" {
		r.t.Error(faults)
	}
	line, err := json.Marshal(result)
	if err == nil {
		err = os.WriteFile(filepath.Join(filepath.Dir(r.dir), file), append(line, '\n'), 0o644)
	}
	if err != nil {
		r.t.Error(err)
	}
	fmt.Println(string(line))
}

// TestReadLook reads processes and cgroups from recorded outputs of a machine.
func TestReadLook(t *testing.T) {
	const out = "12/comm:sh\n77/comm:x\n99/comm:y\n20/comm:sleep\n30/comm:runc:[2:INIT]\n12/cgroup:0::/kubepods/burstable/podu1/c1\n77/cgroup:0::/kubepods\n12/status:Cpus_allowed_list:\t1-2\n12/status:Mems_allowed_list:\t0\n" +
		"12/disk:nvme0n1\n13/disk:nvme0n1\n12/environ:PATH=/bin\n12/environ:PCIDEVICE_A_GPU=0000:1b:00.0\n12/environ:VENDOR_1=given\n" +
		"20/cgroup:0::/kubepods/podu2/c2\n20/status:Cpus_allowed_list:\t3\n30/cgroup:0::/kubepods/podu3/c3\n30/status:Cpus_allowed_list:\t0-7\n" +
		"99/status:Cpus_allowed_list:\t0-7\nkubepods/podu3/c3/cpuset.cpus.effective:0-7\nkubepods/podu2/c2/cpuset.cpus.effective:3\nkubepods/podu2/c2/cpuset.mems.effective:0-1\n"
	found := readLook(out)
	var got []string
	for _, key := range slices.Sorted(maps.Keys(found)) {
		p := found[key]
		got = append(got, fmt.Sprint(key, " ", p.id, " ", p.group.UID, " ", p.group.CPUs, " ", p.group.Mems, " ", len(p.group.Devices), names(p.disks), names(p.given)))
	}
	want := []string{"12 c1 u1 1-2 0 1 [nvme0n1] [VENDOR_1]", "20 c2 u2 3  0 [] []", "kubepods/podu2/c2 c2 u2 3 0-1 0 [] []"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
