package vm

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// resizeRun resizes pods in place on a machine where Berth decides.
type resizeRun struct {
	*obeyRun
	m *Machine
	// first are the decisions of the Bindings, by UID.
	first  map[string]*placement.Decision
	result resizeResult
	// seen are the cgroups at the last reading.
	seen []*limits
	// twice and outside are faults in two consecutive readings.
	twice, outside map[string]string
}

// resizeResult is the last line.
type resizeResult struct {
	Seed    uint64 `json:"seed"`
	Pods    int    `json:"pods"`
	Resizes int    `json:"resizes"`
	// Grown and Shrunk count containers whose cgroup got more or fewer CPUs, MemoryGrown and
	// MemoryShrunk containers whose memory limit rose or fell. Deferred counts resizes without
	// room.
	Grown          int `json:"grown"`
	Shrunk         int `json:"shrunk"`
	MemoryGrown    int `json:"memoryGrown"`
	MemoryShrunk   int `json:"memoryShrunk"`
	Deferred       int `json:"deferred"`
	HeldTwice      int `json:"heldTwice"`
	OutsideItsNUMA int `json:"outsideItsNUMA"`
	Leftover       int `json:"leftover"`
}

// resizeShape has eight CPUs on each of two NUMA nodes. One of them is reserved.
var resizeShape = Shape{Sockets: 2, DiesPerSocket: 1, CoresPerDie: 4, ThreadsPerCore: 2, MemoryMiB: 640, Near: 12, Far: 20}

const (
	resizedPods = 10
	sidecarName = "s"
)

// TestResize grows and shrinks CPUs and memory of ten pods on a real containerd, and repeatedly
// reads their cgroups. The agent is killed while they grow.
func TestResize(t *testing.T) {
	requireVM(t, "resize")
	r := &resizeRun{obeyRun: newObeyRun(t, newResizedPod), first: map[string]*placement.Decision{}, twice: map[string]string{}, outside: map[string]string{}}
	r.files = map[string][]byte{"start.sh": []byte(runtimeFile(validated))}
	r.agentFlags = "--authority=berth --state-dir=/var/lib/berth --debug"
	r.m = r.node("vm-resize", resizeShape, enforceSettings)
	r.machines, r.shapes[r.m.Name] = []*Machine{r.m}, r.reported(r.m.Name).Spec.Machine
	r.berthScheduler()
	r.follow()
	r.result = resizeResult{Seed: r.seed, Pods: resizedPods}
	for i := range resizedPods {
		r.add(r.make(i))
	}
	for _, name := range r.live {
		pod := r.running(name)
		d := r.promise(pod).Decision
		r.mu.Lock()
		r.first[string(pod.UID)] = &d
		r.mu.Unlock()
	}
	ctx, stop := context.WithCancel(t.Context())
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		r.watchCgroups(ctx)
	}()
	r.eventually("a look at every container", func(context.Context) error {
		if n := len(r.limits()); n < resizedPods {
			return fmt.Errorf("%d have cgroups", n)
		}
		return nil
	})
	r.round("memory grows", resizedPods, nil, func(c *corev1.Container) (int64, int64) { return r.cpusOf(c), 48 })
	r.round("CPUs grow, and the agent is killed", 1, func() { r.do(r.m, "loses its berth-agent", "killall -9 berth-agent") },
		func(c *corev1.Container) (int64, int64) { return 2, 48 })
	r.round("both shrink", resizedPods, nil, func(*corev1.Container) (int64, int64) { return 1, 24 })
	r.tooLarge()
	stop()
	<-watched
	r.clean()
	r.tell()
}

// newResizedPod makes a pod of one CPU. One in five has a sidecar, one in five is resized with a
// restart, and all but one in five have their memory on the NUMA node of their CPUs.
func newResizedPod(_ *rand.Rand, i int) *corev1.Pod {
	grace := int64(1)
	pod := pinnedPod(fmt.Sprint("p", i), 1)
	pod.Spec.TerminationGracePeriodSeconds = &grace
	pod.Annotations = map[string]string{wire.PolicyAnnotation: "single-numa-node", wire.MemoryAnnotation: "pinned"}
	switch i % 5 {
	case 0:
		sidecar, always := *pod.Spec.Containers[0].DeepCopy(), corev1.ContainerRestartPolicyAlways
		sidecar.Name, sidecar.RestartPolicy = sidecarName, &always
		pod.Spec.InitContainers = []corev1.Container{sidecar}
	case 1:
		pod.Spec.Containers[0].ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.RestartContainer},
			{ResourceName: corev1.ResourceMemory, RestartPolicy: corev1.RestartContainer}}
	case 2:
		delete(pod.Annotations, wire.MemoryAnnotation)
	}
	return pod
}

func (r *resizeRun) cpusOf(c *corev1.Container) int64 { return c.Resources.Requests.Cpu().Value() }

// round resizes the last container of every pod, or its sidecar, to the CPUs and mebibytes of to.
// It waits until each pod has them or is deferred, and fit pods have them. A pod may be deferred
// for a moment, or since the last round.
func (r *resizeRun) round(what string, fit int, meanwhile func(), to func(*corev1.Container) (cpus, mebibytes int64)) {
	r.t.Helper()
	fmt.Printf("%s  %s\n", time.Now().Format(time.TimeOnly), what)
	before := r.limits()
	for _, name := range r.live {
		pod := r.podNow(name)
		list, c := "containers", &pod.Spec.Containers[0]
		if len(pod.Spec.InitContainers) > 0 {
			list, c = "initContainers", &pod.Spec.InitContainers[0]
		}
		cpus, mebibytes := to(c)
		if err := r.patch(name, list, c.Name, cpus, mebibytes); err != nil {
			r.t.Fatal(err)
		}
		r.result.Resizes++
	}
	if meanwhile != nil {
		meanwhile()
	}
	last := ""
	r.eventually(what, func(context.Context) error {
		why, done := "", 0
		for _, name := range r.live {
			why = cmp.Or(why, r.open(name))
			if !deferredResize(r.podNow(name)) {
				done++
			}
		}
		if why == "" && done < fit {
			why = fmt.Sprintf("%d of %d pods are not deferred", done, fit)
		}
		if why == "" {
			return nil
		}
		if why != last {
			last = why
			fmt.Printf("%s    %s\n", time.Now().Format(time.TimeOnly), why)
		}
		return errors.New(why)
	})
	r.count(before, r.limits())
	for _, name := range r.live {
		if deferredResize(r.podNow(name)) {
			r.result.Deferred++
		}
	}
}

// tooLarge asks for more CPUs than the NUMA node of a pod has, and reverts the request.
func (r *resizeRun) tooLarge() {
	r.t.Helper()
	name := r.live[len(r.live)-1]
	for _, step := range []struct {
		cpus     int64
		deferred bool
	}{{9, true}, {1, false}} {
		if err := r.patch(name, "containers", "c", step.cpus, 24); err != nil {
			r.t.Fatal(err)
		}
		r.result.Resizes++
		r.eventually(fmt.Sprintf("%s with %d CPUs", name, step.cpus), func(context.Context) error {
			pod := r.podNow(name)
			if deferredResize(pod) != step.deferred {
				return fmt.Errorf("conditions %v", pod.Status.Conditions)
			}
			if why := r.open(name); why != "" {
				return errors.New(why)
			}
			return nil
		})
		if step.deferred {
			r.result.Deferred++
		}
	}
}

func (r *resizeRun) patch(pod, list, container string, cpus, mebibytes int64) error {
	amounts := corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(cpus, resource.DecimalSI), corev1.ResourceMemory: *resource.NewQuantity(mebibytes<<20, resource.BinarySI)}
	body, err := json.Marshal(map[string]any{"spec": map[string]any{list: []any{map[string]any{"name": container, "resources": corev1.ResourceRequirements{Requests: amounts, Limits: amounts}}}}})
	if err != nil {
		return err
	}
	_, err = r.Client.CoreV1().Pods("default").Patch(r.t.Context(), pod, types.StrategicMergePatchType, body, metav1.PatchOptions{}, "resize")
	return err
}

func (r *resizeRun) podNow(name string) *corev1.Pod {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pods[name]
}

func deferredResize(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == wire.ResizeCondition && c.Status == corev1.ConditionFalse || c.Type == corev1.PodResizePending && c.Status == corev1.ConditionTrue
	})
}

// open describes a part of a pod's resize that is neither carried out nor deferred; "" for none.
// The cgroups must agree with the decision, also for a deferred resize.
func (r *resizeRun) open(name string) string {
	pod, found := r.podNow(name), r.limits()
	p, placed, err := wire.ReadPlacement(pod)
	if err != nil || !placed {
		return fmt.Sprintf("%s: no decision: %v", name, err)
	}
	for _, c := range wire.Containers(pod) {
		at := slices.IndexFunc(p.Decision.Containers, func(d placement.ContainerDecision) bool { return d.Name == c.Name })
		if at < 0 {
			return name + "/" + c.Name + ": nothing is decided"
		}
		d := &p.Decision.Containers[at]
		has := wire.DecidedAmounts(d)
		cpu, memory := c.Resources.Requests.Cpu().MilliValue(), uint64(c.Resources.Requests.Memory().Value())
		if milli, bytes, _ := wire.AllocatedTo(pod, c.Name); !deferredResize(pod) && (milli != cpu || bytes != memory || has.MilliCPU != cpu || has.Bytes != memory) {
			return fmt.Sprintf("%s/%s: %dm and %d bytes are asked for, %dm and %d allocated, %dm and %d decided", name, c.Name, cpu, memory, milli, bytes, has.MilliCPU, has.Bytes)
		}
		at = slices.IndexFunc(found, func(l *limits) bool { return l.uid == string(pod.UID) && l.container == c.Name })
		if at < 0 {
			return name + "/" + c.Name + ": it has no cgroup"
		}
		l, mems := found[at], topology.NUMASet(0)
		if d.Bounds&placement.BoundMemory != 0 {
			mems = d.Memory[0].NUMA
		}
		if l.cpus != d.CPUs || l.set != d.CPUs || mems != 0 && (l.mems != mems || l.setMems != mems) || l.memory != has.Bytes {
			return fmt.Sprintf("%s/%s: cpuset.cpus %s (effective %s), cpuset.mems %s (effective %s), memory.max %d; decided are %s on %s and %d bytes", name, c.Name,
				l.set, l.cpus, l.setMems, l.mems, l.memory, d.CPUs, mems, has.Bytes)
		}
	}
	return ""
}

// limits has the set and the effective values of a container's cgroup.
type limits struct {
	uid, id, container string
	set, cpus          topology.CPUSet
	setMems, mems      topology.NUMASet
	memory             uint64
}

const limitsScript = `cd /sys/fs/cgroup; grep -Hs . kubepods/pod*/*/cpuset.cpus kubepods/pod*/*/cpuset.mems kubepods/pod*/*/cpuset.*.effective kubepods/pod*/*/memory.max; true`

// cgroups reads the cgroups of all started containers of the machine.
func (r *resizeRun) cgroups(ctx context.Context) ([]*limits, error) {
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	out, err := r.m.Guest.Run(ctx, limitsScript)
	if err != nil {
		return nil, err
	}
	all, named := map[string]*limits{}, map[string]*place{}
	for line := range strings.Lines(out) {
		file, text, _ := strings.Cut(strings.TrimSpace(line), ":")
		dir, base := filepath.Split(file)
		dir = strings.TrimSuffix(dir, "/")
		p := placeOf(dir)
		if p == nil {
			continue
		}
		l := all[dir]
		if l == nil {
			l = &limits{uid: p.group.UID, id: p.id}
			all[dir], named[dir] = l, p
		}
		cpus, _ := topology.ParseCPUList(text) // the kernel writes lists
		mems, _ := topology.ParseNUMAList(text)
		switch base {
		case "cpuset.cpus":
			l.set = cpus
		case "cpuset.cpus.effective":
			l.cpus = cpus
		case "cpuset.mems":
			l.setMems = mems
		case "cpuset.mems.effective":
			l.mems = mems
		case "memory.max":
			l.memory, _ = strconv.ParseUint(text, 10, 64) // "max" is none
		}
	}
	if err := r.nameAll(ctx, r.m, named); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []*limits
	for _, l := range all {
		if l.container = r.named[l.id]; l.container != "" && !l.set.IsEmpty() { // otherwise it is the sandbox, or has not started
			list = append(list, l)
		}
	}
	return list, nil
}

func (r *resizeRun) limits() []*limits {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen
}

// count counts the changes of cgroups.
func (r *resizeRun) count(before, after []*limits) {
	for _, now := range after {
		at := slices.IndexFunc(before, func(l *limits) bool { return l.uid == now.uid && l.container == now.container })
		if at < 0 {
			continue
		}
		was := before[at]
		for _, c := range []struct {
			more    int
			up, low *int
		}{{cmp.Compare(now.cpus.Len(), was.cpus.Len()), &r.result.Grown, &r.result.Shrunk}, {cmp.Compare(now.memory, was.memory), &r.result.MemoryGrown, &r.result.MemoryShrunk}} {
			switch c.more {
			case 1:
				*c.up++
			case -1:
				*c.low++
			}
		}
	}
}

// watchCgroups judges the cgroups until ctx ends. A fault must appear in two readings.
func (r *resizeRun) watchCgroups(ctx context.Context) {
	lastTwice, lastOutside := map[string]string{}, map[string]string{}
	for ctx.Err() == nil {
		began := time.Now()
		found, err := r.cgroups(ctx)
		if err != nil && ctx.Err() == nil {
			fmt.Printf("%s    no look: %v\n", time.Now().Format(time.TimeOnly), err)
		}
		twice, outside := map[string]string{}, map[string]string{}
		if err == nil {
			twice, outside = r.judgeCgroups(found)
		}
		r.mu.Lock()
		if err == nil {
			r.seen = found
			r.looks++
		}
		maps.Copy(r.twice, bothHave(lastTwice, twice))
		maps.Copy(r.outside, bothHave(lastOutside, outside))
		r.mu.Unlock()
		lastTwice, lastOutside = twice, outside
		select { // the pause leaves the machine time for its work
		case <-ctx.Done():
		case <-time.After(max(200*time.Millisecond, time.Since(began))):
		}
	}
}

func bothHave(a, b map[string]string) map[string]string {
	out := maps.Clone(b)
	maps.DeleteFunc(out, func(key, _ string) bool { _, also := a[key]; return !also })
	return out
}

// judgeCgroups returns the containers with the same CPUs, and the containers with CPUs outside the
// NUMA nodes of their Binding.
func (r *resizeRun) judgeCgroups(found []*limits) (twice, outside map[string]string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	twice, outside = map[string]string{}, map[string]string{}
	for i, l := range found {
		name := l.uid + "/" + l.container
		for _, o := range found[:i] {
			if l.id != o.id && l.cpus.Intersects(&o.cpus) && (l.uid != o.uid || l.container != o.container) {
				twice[name+" "+o.uid+"/"+o.container] = fmt.Sprintf("have %s and %s", l.cpus, o.cpus)
			}
		}
		d := r.first[l.uid]
		if d == nil {
			continue
		}
		for c := range d.Containers {
			nodes := r.numaOf(r.m, d.Containers[c].CPUs)
			if d.Containers[c].Name == l.container && r.numaOf(r.m, l.cpus)&^nodes != 0 {
				outside[name] = fmt.Sprintf("has %s, and was bound to %s", l.cpus, d.Containers[c].CPUs)
			}
		}
	}
	return twice, outside
}

// tell prints the last line, and fails the test if a count is wrong.
func (r *resizeRun) tell() {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &r.result
	s.HeldTwice, s.OutsideItsNUMA, s.Leftover = len(r.twice), len(r.outside), r.leftover
	wrong, faults := "", ""
	if s.Grown == 0 || s.Shrunk == 0 || s.MemoryGrown == 0 || s.MemoryShrunk == 0 || s.Deferred == 0 {
		wrong = "nothing was grown, shrunk or deferred: the test sees too little"
	}
	if s.HeldTwice+s.OutsideItsNUMA+s.Leftover > 0 {
		faults = fmt.Sprintf("held twice %v\noutside %v\nleft over %d", r.twice, r.outside, r.leftover)
	}
	fmt.Printf("%d looks at cgroups\n", r.looks)
	r.obeyRun.tell(wrong, faults, s, "resize.json")
}
