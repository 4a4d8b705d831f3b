package resize

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/test/obeyed"
	"github.com/berth-dev/berth/test/obeying"
	"github.com/berth-dev/berth/topology"
)

const (
	// pods is the number of pods, perStep how many are created in one step. Later each step resizes
	// up to perStep pods.
	pods    = 200
	perStep = 5
	// floor is the minimum number of pods that grow, that shrink, and that are deferred. killsFloor
	// is the minimum number of resizes that are in progress when a process is killed.
	floor, killsFloor = 50, 20
)

// Trial returns this kind of trial.
func Trial() obeying.Kind {
	return obeying.Kind{Name: "resize", Nodes: nodes(), Obey: len(machines), Stream: 62, New: newLoad}
}

// load is the load of one seed. The Observer's lock protects it.
type load struct {
	*obeying.Trial
	// first and last have the first and the last decision about each pod by UID, and node has its
	// node.
	first, last map[string]wire.Placement
	node        map[string]string
	// waits are pods whose resize is deferred.
	waits   map[string]bool
	counted result
	spilled map[string]string
	// unrefused are requests that should have been refused but were not. lost are resizes that were
	// not carried out.
	unrefused, lost []string
}

// result is the last line of the output.
type result struct {
	Seed    uint64 `json:"seed"`
	Resizes int    `json:"resizes"`
	// Grown and Shrunk count decisions with more and with fewer CPUs. MemoryGrown counts decisions
	// with more memory, and CrossedNUMA decisions about pods on several NUMA nodes.
	Grown       int `json:"grown"`
	Shrunk      int `json:"shrunk"`
	MemoryGrown int `json:"memoryGrown"`
	CrossedNUMA int `json:"crossedNUMA"`
	// Deferred counts resizes that the kubelet or Berth has deferred.
	Deferred int `json:"deferred"`
	// CrossedKills counts resizes that were in progress when an agent or the scheduler was killed.
	CrossedKills int `json:"crossedKills"`
	// HeldTwice counts CPUs that two containers have. OutsideItsNUMA counts containers outside the
	// NUMA nodes of their Binding. Spilled counts NUMA nodes with more promised memory than they
	// have. Unconfined counts shared containers that run on exclusive CPUs of others.
	HeldTwice      int `json:"heldTwice"`
	OutsideItsNUMA int `json:"outsideItsNUMA"`
	Spilled        int `json:"spilled"`
	Unconfined     int `json:"unconfined"`
	// Lost counts resizes that were neither carried out nor deferred, and requests that should have
	// been refused but were not. Leftover counts containers that remain after all pods are gone.
	Lost     int `json:"lost"`
	Leftover int `json:"leftover"`
}

func newLoad(t *obeying.Trial) (obeying.Load, error) {
	d := &load{Trial: t, first: map[string]wire.Placement{}, last: map[string]wire.Placement{}, node: map[string]string{}, waits: map[string]bool{}, spilled: map[string]string{}}
	t.Noticed, t.Judge, t.Killing = d.notice, d.judge, d.killing
	return d, nil
}

// notice counts the results of resizes.
func (d *load) notice(pod *corev1.Pod) {
	p, found, err := wire.ReadPlacement(pod)
	if !found || err != nil {
		return
	}
	uid := string(pod.UID)
	was, known := d.last[uid]
	switch {
	case !known:
		d.first[uid], d.node[uid] = p, pod.Spec.NodeName
	case p.Generation > was.Generation:
		d.count(d.Machines[pod.Spec.NodeName], &was.Decision, &p.Decision)
	}
	d.last[uid] = p
	waits := deferred(pod)
	if waits && !d.waits[uid] {
		d.counted.Deferred++
	}
	d.waits[uid] = waits
}

func (d *load) count(m *topology.Machine, was, is *placement.Decision) {
	for i := range is.Containers {
		a, b := &was.Containers[i], &is.Containers[i]
		switch had, has := a.CPUs.Len(), b.CPUs.Len(); {
		case has > had:
			d.counted.Grown++
		case has < had:
			d.counted.Shrunk++
		}
		if wire.DecidedAmounts(b).Bytes > wire.DecidedAmounts(a).Bytes {
			d.counted.MemoryGrown++
		}
		if a.CPUs != b.CPUs && len(nodesOf(m, &b.CPUs)) > 1 {
			d.counted.CrossedNUMA++
		}
	}
}

// nodesOf returns the NUMA nodes of the CPUs.
func nodesOf(m *topology.Machine, cpus *topology.CPUSet) (ids []topology.NUMAID) {
	for i := range m.NUMANodes {
		if m.NUMANodes[i].CPUs.Intersects(cpus) {
			ids = append(ids, m.NUMANodes[i].ID)
		}
	}
	return ids
}

// deferred reports if the kubelet or Berth has deferred the resize of a pod.
func deferred(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == wire.ResizeCondition && c.Status == corev1.ConditionFalse || c.Type == corev1.PodResizePending && c.Status == corev1.ConditionTrue
	})
}

// judge returns the faults of the containers that run on a node.
func (d *load) judge(node string, groups []obeyed.Group) obeyed.Faults {
	f, m := obeyed.NewFaults(), d.Machines[node]
	memory := map[topology.NUMAID]uint64{}
	for i := range groups {
		g := &groups[i]
		decided := d.decisionOf(d.first, g)
		if decided == nil {
			continue // the watch has not shown it yet
		}
		name := g.UID + "/" + g.Container
		if g.CPUs.IsEmpty() {
			f.Unconfined[name] = "runs on no CPU"
		}
		own := !decided.CPUs.IsEmpty()
		if own {
			for _, id := range nodesOf(m, &g.CPUs) {
				if !slices.Contains(nodesOf(m, &decided.CPUs), id) {
					f.Outside[name] = fmt.Sprintf("runs on CPUs %s: want only NUMA nodes of the CPUs %s of its Binding", g.CPUs, decided.CPUs)
				}
			}
		}
		if len(decided.Memory) == 1 {
			memory[decided.Memory[0].NUMA.Lowest()] += g.Limit
		}
		for j := range groups[:i] {
			o := &groups[j]
			other := d.decisionOf(d.first, o)
			if other == nil || !o.CPUs.Intersects(&g.CPUs) {
				continue
			}
			text := fmt.Sprintf("runs on CPUs %s, and %s/%s runs on CPUs %s", g.CPUs, o.UID, o.Container, o.CPUs)
			switch {
			case own && !other.CPUs.IsEmpty():
				f.HeldTwice[name+" "+o.UID] = text
			case own != !other.CPUs.IsEmpty():
				f.Unconfined[name+" "+o.UID] = text
			}
		}
	}
	for id, bytes := range memory {
		if n := m.NUMANode(id); n != nil && bytes > n.MemoryBytes {
			d.spilled[fmt.Sprint(node, " ", id)] = fmt.Sprintf("NUMA node %d: memory limits of %d bytes: want at most %d", id, bytes, n.MemoryBytes)
		}
	}
	return f
}

func (d *load) decisionOf(all map[string]wire.Placement, g *obeyed.Group) *placement.ContainerDecision {
	p, known := all[g.UID]
	if i := slices.IndexFunc(p.Decision.Containers, func(c placement.ContainerDecision) bool { return c.Name == g.Container }); known && i >= 0 {
		return &p.Decision.Containers[i]
	}
	return nil
}

// underWay describes the part of a pod's resize that is not done yet, or returns "". groups are the
// running containers.
func (d *load) underWay(pod *corev1.Pod, groups []obeyed.Group) string {
	last, known := d.last[string(pod.UID)]
	if !known {
		return ""
	}
	for _, of := range wire.Containers(pod) {
		at := slices.IndexFunc(last.Decision.Containers, func(c placement.ContainerDecision) bool { return c.Name == of.Name })
		if at < 0 {
			return pod.Name + "/" + of.Name + ": nothing is decided"
		}
		c := &last.Decision.Containers[at]
		has := wire.DecidedAmounts(c)
		milli, bytes, told := wire.AllocatedTo(pod, c.Name)
		if told && (milli != has.MilliCPU || bytes != has.Bytes) {
			return fmt.Sprintf("%s/%s: allocated: %dm CPU and %d bytes: want the decided %dm CPU and %d bytes", pod.Name, c.Name, milli, bytes, has.MilliCPU, has.Bytes)
		}
		asks := of.Resources.Requests
		if cpu, memory := asks[corev1.ResourceCPU], asks[corev1.ResourceMemory]; cpu.MilliValue() != milli || uint64(memory.Value()) != bytes {
			return fmt.Sprintf("%s/%s: requested: %s CPU and %s memory: want the allocated %dm CPU and %d bytes", pod.Name, c.Name, cpu.String(), memory.String(), milli, bytes)
		}
		for j := range groups {
			g := &groups[j]
			if g.UID != string(pod.UID) || g.Container != c.Name {
				continue
			}
			if !c.CPUs.IsEmpty() && g.CPUs != c.CPUs {
				return fmt.Sprintf("%s/%s: runs on CPUs %s: want the decided CPUs %s", pod.Name, c.Name, g.CPUs, c.CPUs)
			}
			if g.Limit != has.Bytes {
				return fmt.Sprintf("%s/%s: memory limit of %d bytes: want the decided %d bytes", pod.Name, c.Name, g.Limit, has.Bytes)
			}
		}
	}
	return ""
}

func (d *load) killing() {
	d.Lock()
	defer d.Unlock()
	for node := range d.Machines {
		groups := d.Groups(node)
		for _, pod := range d.On(node) {
			if !d.waits[string(pod.UID)] && d.underWay(pod, groups) != "" {
				d.counted.CrossedKills++
			}
		}
	}
}

// Make creates pods, and in later steps resizes some of them.
func (d *load) Make(ctx context.Context, i int) ([]*corev1.Pod, error) {
	api := d.Client.CoreV1().Pods(obeying.Namespace)
	if d.Made < pods {
		for range perStep {
			if _, err := api.Create(ctx, newPod(d.Rand, d.Made), metav1.CreateOptions{}); err != nil {
				return nil, err
			}
			d.Made++
		}
		return nil, nil
	}
	for range 1 + d.Rand.IntN(perStep) {
		if err := d.resize(ctx); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// pick returns a random running pod, or nil.
func (d *load) pick() *corev1.Pod {
	d.Lock()
	defer d.Unlock()
	names := slices.Sorted(maps.Keys(d.Pods))
	if len(names) == 0 {
		return nil
	}
	pod := d.Pods[names[d.Rand.IntN(len(names))]]
	if pod.Status.Phase != corev1.PodRunning || pod.DeletionTimestamp != nil {
		return nil
	}
	return pod
}

// resize requests other amounts for a pod, or sends a request that must be refused.
func (d *load) resize(ctx context.Context) error {
	pod := d.pick()
	if pod == nil {
		return nil
	}
	main := &pod.Spec.Containers[0]
	if len(pod.Spec.InitContainers) > 0 && d.Rand.IntN(3) == 0 {
		c := &pod.Spec.InitContainers[0]
		return d.askOf(ctx, pod, c, 1000*(1+d.Rand.Int64N(3)), c.Resources.Requests.Memory().Value()+64*mebi*d.Rand.Int64N(2))
	}
	milli, bytes := main.Resources.Requests.Cpu().MilliValue(), main.Resources.Requests.Memory().Value()
	switch d.Rand.IntN(40) {
	case 0:
		return d.refused(ctx, pod, "to nothing", 0, bytes)
	case 1:
		return d.refused(ctx, pod, "above the machine", 1_000_000, bytes)
	case 2:
		return d.refused(ctx, pod, "to a fraction", milli/1000*1000+1500, bytes)
	case 3:
		return d.forge(ctx, pod)
	case 4: // up and down
		for i := range int64(4) {
			if err := d.ask(ctx, pod, 1000*(1+(milli/1000+3*i)%6), bytes); err != nil {
				return err
			}
		}
		return nil
	case 5:
		if err := d.ask(ctx, pod, 1000+milli/1000*1000, bytes); err != nil {
			return err
		}
		err := d.Client.CoreV1().Pods(obeying.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{})
		if err == nil {
			_, err = d.Client.CoreV1().Pods(obeying.Namespace).Create(ctx, newPod(d.Rand, d.Made), metav1.CreateOptions{})
			d.Made++
		}
		return ignoreGone(err)
	}
	if milli%1000 == 0 && d.Rand.IntN(4) > 0 {
		milli = 1000 * (1 + d.Rand.Int64N(6))
	}
	if d.Rand.IntN(3) == 0 {
		bytes += 64 * mebi * (1 + d.Rand.Int64N(4))
	}
	if len(main.ResizePolicy) > 0 { // a kubelet that restarts the container ignores its current usage, which is unknown here
		bytes = 128 * mebi * (1 + d.Rand.Int64N(3))
	}
	return d.ask(ctx, pod, milli, bytes)
}

// patch sends the request that the Vertical Pod Autoscaler sends to the resize subresource.
func (d *load) patch(ctx context.Context, pod *corev1.Pod, c *corev1.Container, milli, bytes int64) error {
	list := "containers"
	if c.RestartPolicy != nil {
		list = "initContainers"
	}
	body, err := json.Marshal(map[string]any{"spec": map[string]any{list: []any{map[string]any{"name": c.Name, "resources": amounts(milli, bytes)}}}})
	if err != nil {
		return err
	}
	_, err = d.Client.CoreV1().Pods(obeying.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, body, metav1.PatchOptions{}, "resize")
	return err
}

func (d *load) ask(ctx context.Context, pod *corev1.Pod, milli, bytes int64) error {
	return d.askOf(ctx, pod, &pod.Spec.Containers[0], milli, bytes)
}

func (d *load) askOf(ctx context.Context, pod *corev1.Pod, c *corev1.Container, milli, bytes int64) error {
	err := d.patch(ctx, pod, c, milli, bytes)
	if err == nil {
		d.counted.Resizes++
	}
	return ignoreGone(err)
}

// ignoreGone returns nil for the error of a pod that is gone, or of a pod whose fractional amounts
// must stay.
func ignoreGone(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// refused requests amounts that must be refused.
func (d *load) refused(ctx context.Context, pod *corev1.Pod, what string, milli, bytes int64) error {
	if err := d.patch(ctx, pod, &pod.Spec.Containers[0], milli, bytes); err == nil {
		d.unrefused = append(d.unrefused, pod.Name+" "+what)
	}
	return nil
}

// forge writes a decision of an older generation, and a forged one of a newer generation.
func (d *load) forge(ctx context.Context, pod *corev1.Pod) error {
	p, found, err := wire.ReadPlacement(pod)
	if !found || err != nil {
		return nil
	}
	first := d.firstOf(pod)
	for _, forged := range []wire.Placement{first, {Generation: p.Generation + 7}} {
		if forged.Sequence == 0 {
			generation := forged.Generation
			forged = first
			forged.Generation = generation
		}
		text, err := wire.WritePlacement(&forged)
		if err != nil || text == pod.Annotations[wire.PlacementAnnotation] {
			continue
		}
		body, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{wire.PlacementAnnotation: text}}})
		if err != nil {
			return err
		}
		if _, err := d.Client.CoreV1().Pods(obeying.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, body, metav1.PatchOptions{}, "status"); err == nil {
			d.unrefused = append(d.unrefused, pod.Name+" forged")
		}
	}
	return nil
}

func (d *load) firstOf(pod *corev1.Pod) wire.Placement {
	d.Lock()
	defer d.Unlock()
	return d.first[string(pod.UID)]
}

// Awaits describes a resize that is neither done nor deferred, or returns "".
func (d *load) Awaits(context.Context) (string, error) {
	d.Lock()
	defer d.Unlock()
	d.lost = nil
	for node := range d.Machines {
		groups := d.Groups(node)
		for _, pod := range d.On(node) {
			if why := d.underWay(pod, groups); why != "" && !d.waits[string(pod.UID)] {
				d.lost = append(d.lost, why)
			}
		}
	}
	if len(d.lost) > 0 {
		return fmt.Sprintf("%d resizes are under way: %s", len(d.lost), d.lost[0]), nil
	}
	return "", nil
}

func (d *load) Clean(ctx context.Context) error { return d.Empty(ctx) }

func (d *load) Result(seed uint64) (line any, wrong string) {
	r := d.counted
	r.Seed, r.HeldTwice, r.OutsideItsNUMA, r.Unconfined = seed, len(d.Faults.HeldTwice), len(d.Faults.Outside), len(d.Faults.Unconfined)
	r.Spilled, r.Lost, r.Leftover = len(d.spilled), len(d.lost)+len(d.unrefused), d.Leftover()+len(d.Pods)
	switch {
	case r.HeldTwice+r.OutsideItsNUMA+r.Unconfined+r.Spilled+r.Lost+r.Leftover > 0:
		wrong = fmt.Sprintf("held twice %v\noutside %v\nunconfined %v\nspilled %v\nlost %v\nnot refused %v", d.Faults.HeldTwice, d.Faults.Outside, d.Faults.Unconfined, d.spilled, d.lost, d.unrefused)
	case r.Grown < floor || r.Shrunk < floor || r.Deferred < floor:
		wrong = fmt.Sprintf("fewer than %d pods were grown, shrunk or deferred", floor)
	case r.CrossedKills < killsFloor || r.MemoryGrown == 0 || r.CrossedNUMA == 0:
		wrong = fmt.Sprintf("fewer than %d resizes were under way at a kill, or none of memory or across NUMA nodes", killsFloor)
	}
	return r, wrong
}
